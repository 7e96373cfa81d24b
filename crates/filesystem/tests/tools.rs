//! The real tools on image files: fresh file systems are clean, their features can be read back,
//! and damage is found. A file system whose tools are missing is skipped with its reason.

// clippy.toml allows this in test functions; the helpers below are test code as well.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fsdyno_filesystem::{Context, Devices, Filesystem, Period, Spec, catalog, features, fill};
use fsdyno_record::Bytes;
use fsdyno_record::plan::FilesystemPlan;

const MIB: u64 = 1 << 20;

/// A file system on a sparse file in a temporary folder.
struct Image {
    plan: FilesystemPlan,
    mkfs_output: Output,
    device: PathBuf,
    _folder: tempfile::TempDir,
}

/// Debian's folders of tools; an ordinary user's PATH lacks some.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

fn installed(tool: &str) -> bool {
    PATH.split(':').any(|folder| Path::new(folder).join(tool).exists())
}

fn run(argv: &[String], env: &BTreeMap<String, String>) -> Output {
    Command::new(&argv[0])
        .args(&argv[1..])
        .envs(env)
        .env("PATH", PATH)
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn devices(device: &str) -> Devices<'_> {
    Devices { device, ..Devices::default() }
}

/// Creates the file system of a spec, or prints the reason why it cannot be created here.
fn make(spec: &str, context: Context, size: u64) -> Option<Image> {
    make_for_period(spec, context, size, None)
}

/// Creates the file system of a spec with a period's settings.
fn make_for_period(
    spec: &str,
    context: Context,
    size: u64,
    period: Option<&Period>,
) -> Option<Image> {
    // The names of some kinds without mkfs, such as `overlayfs`, are not specs by themselves.
    if catalog::get(spec).is_ok_and(|kind| kind.mkfs.argv.is_empty()) {
        println!("skipped {spec}: it has no mkfs");
        return None;
    }
    let spec = Spec::parse(spec).unwrap();
    let filesystem = catalog::get(&spec.kind).unwrap();
    if filesystem.mkfs.argv.is_empty() {
        println!("skipped {spec}: it has no mkfs");
        return None;
    }
    if filesystem.mount.pool.is_some() {
        println!("skipped {spec}: its pool would be imported on this host");
        return None;
    }
    if let Some(missing) = filesystem.tools.iter().find(|tool| !installed(tool)) {
        println!("skipped {spec}: no {missing}; apt install {}", filesystem.package);
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("disk.img");
    File::create(&device).unwrap().set_len(size).unwrap();
    let version = text(&run(&filesystem.version, &filesystem.env));
    let settings = period.map(|period| period.settings_for(&spec.kind, Bytes(size)).unwrap());
    let plan =
        filesystem.plan_for_period(&spec, context, Some(&version), settings.as_ref()).unwrap();
    let mkfs_output = run(&fill(&plan.mkfs, devices(&device.to_string_lossy()), 7), &plan.env);
    assert!(mkfs_output.status.success(), "{:?}: {}", plan.mkfs, text(&mkfs_output));
    Some(Image { plan, mkfs_output, device, _folder: folder })
}

impl Image {
    fn run(&self, argv: &[String]) -> Output {
        run(&fill(argv, devices(&self.device.to_string_lossy()), 7), &self.plan.env)
    }

    /// Returns exit code and output of its check; none if there is no check.
    fn check(&self) -> Option<(i32, String)> {
        (!self.plan.check.is_empty()).then(|| self.run_check())
    }

    fn run_check(&self) -> (i32, String) {
        let output = self.run(&self.plan.check);
        (output.status.code().unwrap(), text(&output))
    }

    fn is_clean(&self) -> bool {
        self.check().is_none_or(|(code, _)| self.plan.check_clean.contains(&code))
    }

    fn features(&self) -> BTreeMap<String, String> {
        let output = match self.plan.features.is_empty() {
            true => text(&self.mkfs_output),
            false => text(&self.run(&self.plan.features)),
        };
        let mut found = features(&output, &self.plan.feature_keys);
        for word in &self.plan.feature_words {
            let mut bytes = [0; 4];
            File::open(&self.device).unwrap().read_exact_at(&mut bytes, word.at).unwrap();
            let value = u32::from_le_bytes(bytes) & (u32::MAX >> (32 - word.bits));
            found.insert(word.key.clone(), value.to_string());
        }
        found
    }

    /// Returns all blocks of 64 KiB that are not zeros, with their offsets, and the image's length. Most of an image is
    /// a hole.
    fn bytes(&self) -> (Vec<(u64, Vec<u8>)>, u64) {
        const BLOCK: usize = 64 << 10;
        let (zeros, mut block) = ([0; BLOCK], [0; BLOCK]);
        let file = File::open(&self.device).unwrap();
        let length = file.metadata().unwrap().len();
        let mut blocks = Vec::new();
        for at in (0..length).step_by(BLOCK) {
            let block = &mut block[..(length - at).min(BLOCK as u64) as usize];
            file.read_exact_at(block, at).unwrap();
            if *block != zeros[..block.len()] {
                blocks.push((at, block.to_vec()));
            }
        }
        (blocks, length)
    }

    /// Overwrites every 4 KiB block from `from` to `to` that is not all zeros, so that backup copies of
    /// the metadata are damaged too.
    fn damage(&self, from: u64, to: u64) {
        let file = OpenOptions::new().read(true).write(true).open(&self.device).unwrap();
        let mut block = [0; 4096];
        for at in (from..to.min(file.metadata().unwrap().len())).step_by(block.len()) {
            file.read_exact_at(&mut block, at).unwrap();
            if block.iter().any(|byte| *byte != 0) {
                block.iter_mut().enumerate().for_each(|(i, byte)| *byte ^= i as u8 | 0x55);
                file.write_all_at(&block, at).unwrap();
            }
        }
    }
}

/// Runs a test on every file system in both contexts.
fn for_each_file_system(test: impl Fn(&'static Filesystem, &str, Context)) {
    for filesystem in catalog::all() {
        for context in [Context::Lab, Context::Host] {
            test(filesystem, &filesystem.name, context);
        }
    }
}

#[test]
fn a_fresh_file_system_is_clean_and_a_read_only_check_does_not_change_it() {
    for_each_file_system(|filesystem, spec, context| {
        let Some(image) = make(spec, context, 320 * MIB) else { return };
        let before = image.bytes();
        let Some((code, output)) = image.check() else { return };
        assert!(image.plan.check_clean.contains(&code), "{spec}: {code}\n{output}");
        let unchanged = before == image.bytes();
        assert!(unchanged || filesystem.check.writes, "the check of {spec} wrote to the image");
    });
}

#[test]
fn damaged_metadata_is_found_with_an_exit_code_of_the_catalog() {
    // Past the first superblock, up to where a small fresh file system has its metadata.
    for (spec, from, to) in [
        ("ext2", 4096, 8 * MIB),
        ("ext3", 4096, 8 * MIB),
        ("ext4", 4096, 8 * MIB),
        ("xfs", 4096, MIB),
        ("btrfs", 16 * MIB, 128 * MIB),
        ("reiserfs", 33_600_000 / 4096 * 4096, 40 * MIB),
        ("jfs", 36864, 49152),
        ("jfs", 49152, MIB),
        ("f2fs", 2 * MIB, 4 * MIB),
        ("f2fs", 12 * MIB, 60 * MIB),
        ("vfat", 0, 4096),
        ("vfat", 16384, 20480),
        ("exfat", 0, 4096),
        ("exfat", 2 * MIB, 3 * MIB),
        ("ntfs3", 0, 4096),
        ("ntfs3", 16384, 32768),
        ("reiser4", 65536, 69632),
        ("reiser4", 73728, 90112),
    ] {
        let Some(image) = make(spec, Context::Lab, 320 * MIB) else { continue };
        image.damage(from, to);
        let (code, output) = image.run_check();
        println!("{spec}: damage from {from} gives {code}");
        assert!(!image.plan.check_clean.contains(&code), "{spec}: {code}\n{output}");
        let codes = &catalog::get(spec).unwrap().check.codes;
        assert!(codes.contains_key(&code.to_string()), "{spec}: {code} is not in the catalog");
    }
}

#[test]
fn features_in_effect_are_read_back() {
    for (spec, key, value) in [
        ("ext2 -O ^dir_index -I 128", "Inode size", "128"),
        ("ext3 -J size=16", "Total journal size", "16M"),
        ("ext4 -E stride=4,stripe_width=8", "RAID stride", "4"),
        ("ext4 -b 1024", "Block size", "1024"),
        ("xfs -i size=1024 -m crc=1", "meta-data isize", "1024"),
        ("xfs -l size=72m", "log blocks", "18432"),
        ("btrfs --nodesize 4096 -M", "Node size", "4096"),
        ("btrfs --csum=xxhash", "Checksum", "xxhash64"),
        ("reiserfs -h tea", "Hash function used to sort names", "\"tea\""),
        ("jfs", "Aggregate block size", "4096 bytes"),
        ("jfs -s 8", "Log size", "2048"),
        ("f2fs -s 2", "Info: Segments per section", "2"),
        ("vfat -s 16", "filesystem has", "2 32-bit FATs and 16 sectors per cluster."),
        ("exfat -c 64K", "Cluster size", "65536"),
        ("ntfs3 -c 8192", "Cluster Size", "8192"),
        ("reiser4", "blksize", "4096"),
        ("fuse2fs -I 128", "Inode size", "128"),
    ] {
        let Some(image) = make(spec, Context::Lab, 320 * MIB) else { continue };
        let found = image.features();
        assert_eq!(found.get(key).map(String::as_str), Some(value), "{spec}: {found:?}");
        assert!(image.is_clean(), "{spec}");
    }
}

#[test]
fn the_tools_print_most_keys() {
    for filesystem in catalog::all() {
        // nilfs-tune reads block devices only.
        if filesystem.name == "nilfs2" {
            continue;
        }
        let Some(image) = make(&filesystem.name, Context::Lab, 320 * MIB) else { continue };
        let found = image.features();
        let missing: Vec<&String> =
            filesystem.features.keys.iter().filter(|key| !found.contains_key(*key)).collect();
        println!("{}: {found:?}, not printed: {missing:?}", filesystem.name);
        assert!(found.len() > missing.len(), "{}: not printed: {missing:?}", filesystem.name);
    }
}

#[test]
fn the_tools_accept_the_options_of_the_catalog() {
    for spec in [
        "ext2 -O ^dir_index -b 1024 -i 4096 -N 100000 -m 0",
        "ext3 -T news -J size=64 -O dir_index,^resize_inode -I128",
        "ext4 -O ^has_journal,inline_data -O ^huge_file -G 32 -L 'a b'",
        "ext4 -O fast_commit -J size=32,fast_commit_size=1024 -E packed_meta_blocks=1",
        "ext4 -E discard,lazy_itable_init=1 -E stride=4 -U clear",
        "xfs -b size=4096 -d su=16k,sw=3 -i size=1024 -n size=8k -l size=64m",
        "xfs -m crc=0 -m finobt=0 -s size=4096 -l version=2,sunit=16",
        "btrfs -m single -d single -n 4k --checksum sha256 -O ^no-holes -R ^free-space-tree",
        "reiserfs -b 4096 -s 513 -t 256 --hash=rupasov -l label",
        "jfs -s 4 -O -L label",
        "f2fs -o 10 -O extra_attr,inode_checksum,sb_checksum -l label",
        "nilfs2 -b 2048 -B 1024 -m 10 -L label",
        "vfat -F 16 -s 128 -n STICK",
        "exfat -c 128K -b 4M -L STICK --pack-bitmap",
        "ntfs3 -c 65536 -s 512 -L STICK -C --no-indexing",
        "reiser4 -L label -o hash=tea_hash",
    ] {
        if let Some(image) = make(spec, Context::Lab, 2048 * MIB) {
            let Some((code, output)) = image.check() else { continue };
            assert!(image.plan.check_clean.contains(&code), "{spec}: {code}\n{output}");
        }
    }
}

#[test]
fn current_tools_accept_the_settings_of_every_period() {
    for period in fsdyno_filesystem::period::all() {
        for kind in period.filesystem.keys() {
            let Some(image) = make_for_period(kind, Context::Lab, 4096 * MIB, Some(period)) else {
                continue;
            };
            let found = image.features();
            let assert_feature = |key: &str, value: &str| {
                assert_eq!(found.get(key).map(String::as_str), Some(value), "{}", period.name);
            };
            let features = found.get("Filesystem features").map_or("", String::as_str);
            for feature in ["metadata_csum", "64bit"] {
                assert!(!features.contains(feature), "{} of {}: {features}", kind, period.name);
            }
            if kind == "xfs" {
                assert_feature("meta-data crc", "0");
                assert_feature("naming ftype", "0");
                assert_feature("log blocks", "2560");
            }
            let (code, output) = image.run_check();
            assert!(image.plan.check_clean.contains(&code), "{kind} of {}: {output}", period.name);
        }
    }
}

#[test]
fn the_smallest_size_is_enough_for_mkfs() {
    for filesystem in catalog::all() {
        if filesystem.minimum_size.0 == 0 {
            continue;
        }
        if let Some(image) = make(&filesystem.name, Context::Host, filesystem.minimum_size.0) {
            assert!(image.is_clean(), "{}", filesystem.name);
        }
    }
}

#[test]
fn mkfs_accepts_the_catalogs_smallest_journal_and_none_that_is_smaller() {
    for (least, smaller) in [
        ("ext4 -J size=4", "ext4 -J size=3"),
        ("xfs -l size=64m", "xfs -l size=63m"),
        ("reiserfs -s 513", "reiserfs -s 512"),
        ("jfs -s 1", "jfs -s 0"),
    ] {
        let spec = Spec::parse(least).unwrap();
        let sizing = spec.journal_sizing().unwrap();
        assert_eq!(spec.journal_size(), Ok(Some(sizing.least(false))), "{least}");
        let Some(image) = make(least, Context::Host, 1024 * MIB) else { continue };
        assert!(image.is_clean(), "{least}");
        let spec = Spec::parse(smaller).unwrap();
        let plan = catalog::get(&spec.kind).unwrap().plan(&spec, Context::Host, None).unwrap();
        let device = image.device.to_string_lossy();
        let mkfs_output = run(&fill(&plan.mkfs, devices(&device), 7), &plan.env);
        assert!(!mkfs_output.status.success(), "{smaller}: {}", text(&mkfs_output));
    }
}

#[test]
fn the_uuid_depends_on_the_seed_alone() {
    let Some(image) = make("ext4", Context::Lab, 16 * MIB) else { return };
    let uuid = |seed| fill(&["{uuid}".to_string()], devices(""), seed).concat();
    let shown = text(&image.run(&image.plan.features));
    assert!(shown.contains(&uuid(7)) && !shown.contains(&uuid(8)), "{shown}");
}
