//! Every spec of docs/filesystems.md in one table: the spec, and the effects to be read
//! back from the file system. An option must be here before it is called supported.
//!
//! One file system of the catalog is omitted: `raw` has no tree that these workloads could fill; full.rs and device.rs
//! test it.

use serde_json::Value;

/// One spec and its effect.
pub struct Row {
    /// The spec, as given after `--fs`.
    pub spec: &'static str,
    /// The effects to be read back.
    pub effects: &'static [Effect],
    /// True if CI also runs this row, not only the long tests.
    pub ci: bool,
    /// The kernel that this row needs, if the default one does not have the file system.
    pub kernel: Option<&'static str>,
}

/// The file systems that were in Linux by 2009.
pub const CLASSICAL: [&str; 7] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "reiserfs", "jfs"];

/// An effect in a line that was read back.
pub enum Effect {
    /// The feature with this name contains these words.
    Has(&'static str, &'static str),
    /// The feature with this name contains none of these words.
    Lacks(&'static str, &'static str),
    /// The file system has one inode per this number of bytes.
    Inodes(u64),
    /// The type and the options of the mount in effect contain these words.
    Mounted(&'static str),
    /// Likewise for the lower file system, if one is mounted over another.
    Below(&'static str),
}

use Effect::{Below, Has, Inodes, Lacks, Mounted};

impl Row {
    /// Tests whether the file system is one of the classical seven, which are simply made on a device and mounted by the
    /// kernel.
    pub fn is_classical(&self) -> bool {
        CLASSICAL.contains(&self.kind())
    }

    /// Returns the name of the file system.
    pub fn kind(&self) -> &'static str {
        self.spec.split([' ', ',', ':']).next().unwrap_or_default()
    }

    /// Returns the label of its trials.
    pub fn label(&self) -> String {
        fsdyno_filesystem::Spec::parse(self.spec).unwrap().name()
    }

    /// Returns the kinds whose tools the row needs: its own, that of the lower file system, and that of its command.
    pub fn parts(&self) -> Vec<String> {
        let spec = fsdyno_filesystem::Spec::parse(self.spec).unwrap();
        // No list names the tools of a command; the only command here is fuse2fs.
        let command = (spec.kind == "fuse").then(|| "fuse2fs".to_string());
        [spec.kind.clone(), spec.base().kind.clone()].into_iter().chain(command).collect()
    }
}

/// Returns true if a trial's check was clean; `None` if the record states why there was no check, false if it does not.
pub fn clean(trial: &Value) -> Option<bool> {
    let notes = trial["conditions"]["notes"].to_string();
    let excused = notes.contains("no check of its own") || notes.contains("is in memory: caches");
    trial["measured"]["check"]["clean"].as_bool().or((!excused).then_some(false))
}

/// The heading of other kernels in docs/filesystems.md, after the table of all specs.
pub const KERNELS: &str = "## Other kernels";

const EXT: &str = "Filesystem features";
const JOURNAL: &str = "journal bytes";

const fn row(spec: &'static str, effects: &'static [Effect]) -> Row {
    Row { spec, effects, ci: false, kernel: None }
}

/// Returns a row that CI also runs.
const fn ci(spec: &'static str, effects: &'static [Effect]) -> Row {
    Row { spec, effects, ci: true, kernel: None }
}

/// Returns a row of a file system that the default kernel does not have.
const fn on(kernel: &'static str, spec: &'static str, effects: &'static [Effect]) -> Row {
    Row { spec, effects, ci: false, kernel: Some(kernel) }
}

/// A kernel with ZFS from Ubuntu's archive.
const UBUNTU: &str = "7.0.0-14-generic";

/// A kernel that users build: its rows run only if it is in the cache.
pub const BUILT: &str = "reiser4";

/// All rows, in the order of the catalog, so that the rows of a kind are adjacent.
pub const ROWS: &[Row] = &[
    row("ext2", &[Has(EXT, "dir_index"), Lacks(EXT, "has_journal extent")]),
    ci("ext2 -O ^dir_index", &[Lacks(EXT, "dir_index has_journal")]),
    row("ext2 -b 1024 -i 4096 -I 128", &[Has("Block size", "1024"), Has("Inode size", "128")]),
    row("ext2 @ barrier=0", &[Mounted("nobarrier")]),
    row(
        "ext3",
        &[Has(EXT, "has_journal dir_index"), Lacks(EXT, "extent"), Mounted("data=ordered")],
    ),
    row("ext3 -O ^dir_index", &[Lacks(EXT, "dir_index")]),
    row("ext3 -J size=16", &[Has(JOURNAL, "16777216")]),
    row("ext3 -J size=64", &[Has(JOURNAL, "67108864")]),
    row("ext3 -J size=256 -T news", &[Has(JOURNAL, "268435456"), Inodes(4096)]),
    row("ext3 -J device={journal}", &[Has(JOURNAL, "268435456")]),
    row("ext3 @ data=writeback", &[Mounted("data=writeback")]),
    ci(
        "ext3 -J size=16 -T news @ data=journal,commit=30",
        &[Has(JOURNAL, "16777216"), Inodes(4096), Mounted("data=journal commit=30")],
    ),
    row("ext3 @ barrier=0,strictatime", &[Mounted("nobarrier")]),
    row(
        "ext4",
        &[
            Has(EXT, "extent flex_bg huge_file metadata_csum 64bit dir_index"),
            Has("Inode size", "256"),
            Mounted("delalloc barrier data=ordered commit=5"),
        ],
    ),
    row("ext4 -I 128", &[Has("Inode size", "128")]),
    row("ext4 -I 512", &[Has("Inode size", "512")]),
    row("ext4 -O ^extent,^64bit", &[Lacks(EXT, "extent 64bit")]),
    row("ext4 -O ^flex_bg", &[Lacks(EXT, "flex_bg")]),
    row("ext4 -O ^metadata_csum,uninit_bg", &[Has(EXT, "uninit_bg"), Lacks(EXT, "metadata_csum")]),
    row("ext4 -O ^huge_file", &[Lacks(EXT, "huge_file")]),
    row("ext4 -O ^metadata_csum", &[Lacks(EXT, "metadata_csum uninit_bg")]),
    row("ext4 -O ^dir_index", &[Lacks(EXT, "dir_index")]),
    row("ext4 -O ^has_journal", &[Lacks(EXT, "has_journal")]),
    row("ext4 -O bigalloc", &[Has(EXT, "bigalloc")]),
    ci("ext4 -O fast_commit", &[Has(EXT, "fast_commit"), Has("Fast commit length", "256")]),
    ci(
        "ext4 -O inline_data -J size=16 @ nodelalloc,commit=60,nobarrier",
        &[
            Has(EXT, "inline_data"),
            Has(JOURNAL, "16777216"),
            Mounted("nodelalloc commit=60 nobarrier"),
        ],
    ),
    row("ext4 -J size=16", &[Has(JOURNAL, "16777216")]),
    row("ext4 -J size=64", &[Has(JOURNAL, "67108864")]),
    row("ext4 -J size=256", &[Has(JOURNAL, "268435456")]),
    row("ext4 -J size=1024", &[Has(JOURNAL, "1073741824")]),
    row("ext4 -J device={journal}", &[Has(JOURNAL, "268435456")]),
    row("ext4 -E stride=16,stripe_width=48", &[Has("RAID stripe width", "48")]),
    row("ext4 @ nodelalloc", &[Mounted("nodelalloc")]),
    row("ext4 @ data=journal", &[Mounted("data=journal")]),
    row("ext4 @ data=writeback,noatime", &[Mounted("data=writeback noatime")]),
    row("xfs", &[Has("meta-data crc", "1"), Has("data bsize", "4096"), Mounted("logbufs=8")]),
    row("xfs -m crc=0", &[Has("meta-data crc", "0"), Has("meta-data isize", "256")]),
    row("xfs -b size=1024", &[Has("data bsize", "1024")]),
    ci(
        "xfs -m crc=0 -d su=16k,sw=3 -l size=64m,version=2 @ logbsize=256k",
        &[
            Has("meta-data crc", "0"),
            Has("data sunit", "4"),
            Has("data swidth", "12"),
            Has(JOURNAL, "67108864"),
            Mounted("logbsize=256k"),
        ],
    ),
    row("xfs -m crc=0 -l version=1", &[Has("log version", "1")]),
    row("xfs -l size=128m", &[Has(JOURNAL, "134217728")]),
    row("xfs -l logdev={journal}", &[Has(JOURNAL, "268435456"), Mounted("logdev=/dev/nbd1")]),
    row(
        "xfs -m crc=0 -b size=1024 -d su=16k,sw=3 -l logdev={journal},size=64m",
        &[Has("data sunit", "16"), Has("data swidth", "48"), Has(JOURNAL, "67108864")],
    ),
    row(
        "xfs -i size=1024 -n size=8k",
        &[Has("meta-data isize", "1024"), Has("naming bsize", "8192")],
    ),
    row(
        "xfs -m reflink=0,finobt=0",
        &[Has("meta-data reflink", "0"), Has("meta-data finobt", "0")],
    ),
    row("btrfs", &[Has("Metadata", "DUP"), Has("Data", "single"), Has("Checksum", "crc32c")]),
    row("btrfs -m single -d single", &[Has("Metadata", "single"), Has("Data", "single")]),
    row("btrfs -m dup -d dup", &[Has("Metadata", "DUP"), Has("Data", "DUP")]),
    row("btrfs -n 4k --csum xxhash", &[Has("Node size", "4096"), Has("Checksum", "xxhash64")]),
    ci("btrfs -m single @ compress=zstd", &[Has("Metadata", "single"), Mounted("compress=zstd:3")]),
    row("btrfs @ compress=lzo", &[Mounted("compress=lzo")]),
    row("btrfs @ compress=zlib", &[Mounted("compress=zlib:3")]),
    row("btrfs @ compress-force=zstd:1", &[Mounted("compress-force=zstd:1")]),
    row("btrfs @ nodatacow", &[Mounted("nodatacow nodatasum")]),
    on(
        "6.12",
        "bcachefs",
        &[Has("metadata_checksum", "[crc32c]"), Has("block_size", "4.00"), Mounted("bcachefs")],
    ),
    on(
        "6.12",
        "bcachefs --str_hash=crc32c @ compression=zstd,journal_flush_delay=500",
        &[Has("str_hash", "[crc32c]"), Mounted("compression=zstd journal_flush_delay=500")],
    ),
    on(UBUNTU, "zfs", &[Has("recordsize", "131072"), Has("compression", "on"), Mounted("zfs")]),
    on(
        UBUNTU,
        "zfs -o ashift=12 -O compression=off,recordsize=16K,atime=off",
        &[
            Has("recordsize", "16384"),
            Has("compression", "off"),
            Has("atime", "off"),
            Mounted("zfs"),
        ],
    ),
    row("reiserfs", &[Has(JOURNAL, "33558528"), Has("Hash function used to sort names", "\"r5\"")]),
    ci(
        "reiserfs -s 1024 -t 256 -h tea @ notail",
        &[
            Has(JOURNAL, "4194304"),
            Has("Hash function used to sort names", "\"tea\""),
            Mounted("notail"),
        ],
    ),
    row("reiserfs -j {journal}", &[Has("Reiserfs super block", "non-standard")]),
    row("reiserfs @ data=writeback,barrier=none", &[Mounted("data=writeback barrier=none")]),
    row("reiserfs @ data=journal", &[Mounted("data=journal")]),
    row("jfs", &[Has("JFS flags", "JFS_INLINELOG"), Has(JOURNAL, "33554432")]),
    ci("jfs -s 8 @ nointegrity", &[Has(JOURNAL, "8388608"), Mounted("nointegrity")]),
    row("jfs -j {journal}", &[Lacks("JFS flags", "JFS_INLINELOG"), Has(JOURNAL, "134217728")]),
    row("f2fs", &[Has("Info: sector size", "512"), Mounted("f2fs fsync_mode=posix")]),
    row(
        "f2fs -o 5 -O extra_attr,inode_checksum @ background_gc=off,fsync_mode=strict",
        &[
            Has("Info: Overprovision ratio", "5.000%"),
            Mounted("background_gc=off fsync_mode=strict"),
        ],
    ),
    row("nilfs2", &[Has("Block size", "4096"), Mounted("nilfs2")]),
    row(
        "nilfs2 -b 1024 @ order=strict,nobarrier",
        &[Has("Block size", "1024"), Mounted("order=strict nobarrier")],
    ),
    row("vfat", &[Has("filesystem has", "32-bit"), Mounted("vfat")]),
    row("vfat -s 64 @ flush", &[Has("filesystem has", "64"), Mounted("flush")]),
    row("exfat", &[Has("Cluster size", "32768"), Mounted("exfat")]),
    row(
        "exfat -c 4K @ errors=continue",
        &[Has("Cluster size", "4096"), Mounted("errors=continue")],
    ),
    on("6.12", "ntfs3", &[Has("Cluster Size", "4096"), Mounted("ntfs3")]),
    on(
        "6.12",
        "ntfs3 -c 16384 -I @ prealloc,windows_names",
        &[Has("Cluster Size", "16384"), Mounted("prealloc windows_names")],
    ),
    on(
        BUILT,
        "reiser4",
        &[Has("blksize", "4096"), Has("format", "(format40)"), Mounted("reiser4")],
    ),
    on(
        BUILT,
        "reiser4 -o create=ccreg40 @ noatime,txmod=wa,dont_punch_holes",
        &[Has("key policy", "LARGE"), Mounted("noatime")],
    ),
    row("tmpfs", &[Mounted("tmpfs")]),
    row("tmpfs @ size=256m,nr_inodes=20000", &[Mounted("size=262144k nr_inodes=20000")]),
    ci("overlayfs:ext4", &[Mounted("overlay"), Below("ext4 relatime")]),
    row("overlayfs:ext4 -I 128 @ nodelalloc", &[Has("Inode size", "128"), Below("nodelalloc")]),
    row("overlayfs,volatile:xfs @ noatime", &[Mounted("overlay volatile"), Below("xfs noatime")]),
    row("overlayfs:btrfs", &[Mounted("overlay"), Below("btrfs")]),
    row("overlayfs:jfs", &[Mounted("overlay"), Below("jfs")]),
    row("overlayfs:f2fs", &[Mounted("overlay"), Below("f2fs")]),
    row("overlayfs:nilfs2", &[Mounted("overlay"), Below("nilfs2")]),
    row("nfs:ext4", &[Mounted("nfs4 vers=4.2"), Below("ext4 relatime")]),
    row("nfs:xfs @ vers=3,noatime", &[Mounted("nfs vers=3"), Below("xfs noatime")]),
    on("6.12", "smb:ext4", &[Mounted("cifs vers=3.1.1 cache=strict"), Below("ext4 relatime")]),
    on(
        "6.12",
        "smb:exfat -c 4K @ vers=3.0,seal,cache=none,closetimeo=5,smb2-leases=yes,errors=continue",
        &[
            Has("Cluster size", "4096"),
            Mounted("cifs vers=3.0 cache=none seal closetimeo=5"),
            Below("exfat errors=continue"),
        ],
    ),
    row("overlayfs:tmpfs", &[Mounted("overlay"), Below("tmpfs")]),
    ci("fuse2fs", &[Has(EXT, "extent metadata_csum"), Mounted("fuse.ext4")]),
    row("fuse2fs -I 128 @ kernel_cache", &[Has("Inode size", "128"), Mounted("fuse.ext4")]),
    row(
        "fuse: mke2fs -q -F -t ext2 -U {uuid} {device} ; fuse2fs {device} {mount}",
        &[Mounted("fuse.ext4")],
    ),
];
