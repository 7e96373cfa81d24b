//! Compares maps of hand-made images with the contents of each block: data has a pattern, and metadata its magic
//! numbers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fsdyno_why::{Map, Structure};

/// The first bytes of each block of file data.
const PATTERN: &[u8] = b"data of the test";

/// Creates a folder with a large file, small ones, and a directory of several blocks.
fn create_tree(folder: &Path) -> PathBuf {
    let root = folder.join("root");
    fs::create_dir_all(root.join("many")).unwrap();
    let line: Vec<u8> = PATTERN.iter().copied().cycle().take(1 << 10).collect();
    let mut big = File::create(root.join("big")).unwrap();
    (0..700).for_each(|_| big.write_all(&line).unwrap());
    for index in 0..200 {
        fs::write(root.join(format!("many/a-file-with-a-rather-long-name-{index}")), &line)
            .unwrap();
    }
    root
}

/// Runs a tool and returns whether it is installed; panics if it fails.
fn run_if_installed(program: &str, arguments: &[&str]) -> bool {
    let path = "/usr/sbin:/sbin:/usr/bin:/bin";
    let output = Command::new(program).args(arguments).env("PATH", path).output();
    match output {
        Ok(output) if output.status.success() => true,
        Ok(output) => panic!("{program}: {}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => {
            assert!(std::env::var_os("CI").is_none(), "CI has to have {program}");
            let _ = writeln!(std::io::stderr(), "skipped: {program} is not installed");
            false
        }
    }
}

fn create_sparse_file(path: &Path, size: u64) {
    File::create(path).unwrap().set_len(size).unwrap();
}

/// Compares a map with the result of `oracle` for each block: the structure in `Ok` must match exactly; `Err` lists the
/// possible structures of a block without a magic number.
fn compare(
    image: &Path,
    map: &Map,
    block_size: usize,
    oracle: impl Fn(u64, &[u8]) -> Result<Structure, &'static [Structure]>,
) {
    let file = File::open(image).unwrap();
    let blocks = file.metadata().unwrap().len() / block_size as u64;
    let mut bytes = vec![0; block_size];
    for block_index in 0..blocks {
        file.read_exact_at(&mut bytes, block_index * block_size as u64).unwrap();
        let (found, end) = map.at(block_index * block_size as u64);
        assert!(end >= (block_index + 1) * block_size as u64, "block {block_index} is divided");
        match oracle(block_index, &bytes) {
            Ok(expected) => assert_eq!(found, Some(expected), "block {block_index}"),
            Err(possible) => assert!(
                found.is_none_or(|found| possible.contains(&found)),
                "block {block_index} is mapped as {found:?}, which its contents do not show"
            ),
        }
    }
}

fn check_ext_map(kind: &str, options: &[&str], block: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (root, image) = (create_tree(folder.path()), folder.path().join("image"));
    create_sparse_file(&image, 48 << 20);
    let size = block.to_string();
    let mut arguments = vec!["-q", "-t", kind, "-b", &size];
    arguments.extend(options);
    arguments.extend(["-d", root.to_str().unwrap(), image.to_str().unwrap()]);
    if !run_if_installed("mke2fs", &arguments) {
        return;
    }
    let file = File::options().read(true).write(true).open(&image).unwrap();
    let map = Map::read(kind, &file, &[]).unwrap();
    let has_super_magic =
        |bytes: &[u8], index: usize| bytes[index + 56..index + 58] == [0x53, 0xef];
    let first_block = if block == 1024 { 1 } else { 0 };
    compare(&image, &map, block, |index, bytes| {
        use Structure::*;
        if bytes.starts_with(PATTERN) {
            return Ok(Data);
        }
        let name = b"a-file-with-a-rather";
        let contains =
            |pattern: &[u8]| bytes.windows(pattern.len()).any(|window| window == pattern);
        if contains(name) || contains(b"lost+found") {
            return Ok(Directory);
        }
        let offset = if index == 0 && block > 1024 { 1024 } else { 0 };
        if index == first_block
            || (has_super_magic(bytes, offset) && bytes[offset + 120..].starts_with(&[0; 4]))
        {
            return Ok(Superblock);
        }
        if bytes.starts_with(&[0xc0, 0x3b, 0x39, 0x98]) {
            return Ok(Journal);
        }
        // Everything else: no pattern, no name, no magic number.
        Err(&[GroupDescriptors, Bitmap, InodeTable, Journal, Extents, Directory])
    });
    // Structures without a magic number are counted: two bitmaps per group, and the tables that the superblock
    // declares.
    let bytes = |structure| -> u64 {
        let matching = map.ranges().filter(|(_, mapped)| *mapped == structure);
        matching.map(|(range, _)| range.end - range.start).sum()
    };
    let mut raw = [0; 1024];
    file.read_exact_at(&mut raw, 1024).unwrap();
    let read_u32 =
        |index: usize| u64::from(u32::from_le_bytes(raw[index..index + 4].try_into().unwrap()));
    let read_u16 =
        |index: usize| u64::from(u16::from_le_bytes(raw[index..index + 2].try_into().unwrap()));
    let groups = (read_u32(4) - read_u32(20)).div_ceil(read_u32(32));
    let block = block as u64;
    assert_eq!(bytes(Structure::Bitmap), 2 * groups * block);
    assert_eq!(bytes(Structure::InodeTable), (read_u32(0) * read_u16(88)).next_multiple_of(block));
    assert_eq!(bytes(Structure::Data), (700 * 1024) + 200 * block);
    // The data are reached through indirect blocks, or through an extent tree that fits into the inode.
    assert_eq!(bytes(Structure::Extents) > 0, !options.contains(&"extent"), "{kind}");
    assert_eq!(bytes(Structure::Journal) > 0, kind != "ext2");
}

#[test]
fn ext2_is_mapped() {
    check_ext_map("ext2", &["-O", "^dir_index"], 1024);
}

#[test]
fn ext3_is_mapped() {
    check_ext_map("ext3", &["-J", "size=4"], 1024);
}

#[test]
fn ext4_is_mapped() {
    check_ext_map("ext4", &["-J", "size=4", "-O", "extent"], 4096);
}

#[test]
fn xfs_is_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let (root, image) = (create_tree(folder.path()), folder.path().join("image"));
    create_sparse_file(&image, 400 << 20);
    // mkfs.xfs fills the file system from a prototype file.
    let mut proto = String::from("/none\n0 0\nd--755 0 0\n");
    proto += &format!("big ---644 0 0 {}\n", root.join("big").display());
    proto += "many d--755 0 0\n";
    for index in 0..200 {
        let name = format!("a-file-with-a-rather-long-name-{index}");
        proto += &format!("{name} ---644 0 0 {}\n", root.join("many").join(&name).display());
    }
    proto += "$\n$\n";
    let script = folder.path().join("proto");
    fs::write(&script, proto).unwrap();
    if !run_if_installed(
        "mkfs.xfs",
        &["-q", "-p", script.to_str().unwrap(), image.to_str().unwrap()],
    ) {
        return;
    }
    let file = File::open(&image).unwrap();
    let size = file.metadata().unwrap().len();
    let map = Map::read("xfs", &file, std::slice::from_ref(&(0..size))).unwrap();
    compare(&image, &map, 4096, |_, bytes| {
        use Structure::*;
        match &bytes[..4] {
            _ if bytes.starts_with(PATTERN) => Ok(Data),
            b"XFSB" => Ok(AgHeader),
            b"AB3B" | b"AB3C" => Ok(FreeSpaceTree),
            b"IAB3" | b"FIB3" => Ok(InodeTree),
            b"R3FC" | b"RMB3" => Ok(OwnerTree),
            b"XDB3" | b"XDD3" => Ok(Directory),
            // A block of a directory's leaf or free index has its magic number at byte 8.
            _ if matches!(&bytes[8..10], [0x3d, 0xf1] | [0x3d, 0xff]) => Ok(Directory),
            [b'I', b'N', ..] => Ok(InodeChunk),
            // Log records, the unused rest of the log, and blocks kept for the free list have no magic number here.
            _ => Err(&[Journal, FreeSpaceTree, Directory]),
        }
    });
    let log: u64 = map
        .ranges()
        .filter(|(_, structure)| *structure == Structure::Journal)
        .map(|(range, _)| range.end - range.start)
        .sum();
    let mut raw = [0; 512];
    file.read_exact_at(&mut raw, 0).unwrap();
    // sb_logblocks (xfs_format.h).
    assert_eq!(log, 4096 * u64::from(u32::from_be_bytes(raw[96..100].try_into().unwrap())));
    // Ranges not requested have no map.
    let part = Map::read("xfs", &file, &[0..4096, 8192..8193]).unwrap();
    assert_eq!(part.ranges().map(|(range, _)| range.end - range.start).sum::<u64>(), 2 * 4096);
}

#[test]
fn btrfs_is_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let (root, image) = (create_tree(folder.path()), folder.path().join("image"));
    create_sparse_file(&image, 256 << 20);
    let arguments = ["-q", "--rootdir", root.to_str().unwrap(), image.to_str().unwrap()];
    if !run_if_installed("mkfs.btrfs", &arguments) {
        return;
    }
    let file = File::open(&image).unwrap();
    let map = Map::read("btrfs", &file, &[]).unwrap();
    let mut raw = [0; 4096];
    file.read_exact_at(&mut raw, 64 << 10).unwrap();
    let fsid = raw[32..48].to_vec();
    const NODE: usize = 16 << 10;
    compare(&image, &map, 4096, |_, bytes| {
        use Structure::*;
        if &bytes[64..72] == b"_BHRfS_M" {
            return Ok(Superblock);
        }
        match bytes.starts_with(PATTERN) {
            // Small files lie within the tree of files.
            true => Err(&[Data, FsTree]),
            false => Err(&[FreedTree, RootTree, FsTree, ExtentTree, ChecksumTree, Data]),
        }
    });
    // Each tree block has the file system's id and its owner (struct btrfs_header).
    let mut seen = BTreeMap::new();
    for (range, structure) in
        map.ranges().filter(|(_, structure)| *structure != Structure::FreedTree)
    {
        if matches!(structure, Structure::Data | Structure::Superblock) {
            continue;
        }
        // Adjacent blocks of one tree may be one range or several.
        for offset in range.step_by(NODE) {
            file.read_exact_at(&mut raw, offset).unwrap();
            // A system chunk holds only the chunk tree, and is mostly free.
            if structure == Structure::RootTree && raw[32..48] == [0; 16] {
                continue;
            }
            assert_eq!(raw[32..48], fsid, "the block at {offset} belongs to no tree");
            let owner = match u64::from_le_bytes(raw[88..96].try_into().unwrap()) {
                1 | 3 | 4 | 9 => Structure::RootTree,
                2 | 10 | 11 => Structure::ExtentTree,
                7 => Structure::ChecksumTree,
                _ => Structure::FsTree,
            };
            assert_eq!(owner, structure, "at {offset}");
            *seen.entry(structure).or_insert(0) += 1;
        }
    }
    use Structure::*;
    assert!([RootTree, ExtentTree, ChecksumTree].iter().all(|tree| seen[tree] >= 2), "{seen:?}");
    // There are two copies of the root and of more than one leaf.
    assert!(seen[&FsTree] >= 6, "{seen:?}");
    let data: u64 = map
        .ranges()
        .filter(|(_, structure)| *structure == Structure::Data)
        .map(|(range, _)| range.end - range.start)
        .sum();
    assert_eq!(data, 700 << 10);
}

#[test]
fn an_empty_reiserfs_is_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    create_sparse_file(&image, 64 << 20);
    if !run_if_installed("mkreiserfs", &["-q", "-f", "-f", image.to_str().unwrap()]) {
        return;
    }
    let map = Map::read("reiserfs", &File::open(&image).unwrap(), &[]).unwrap();
    let ranges: Vec<_> =
        map.ranges().map(|(range, structure)| (range.start / 4096, structure)).collect();
    use Structure::*;
    let first = [(2, Superblock), (16, Superblock), (17, Bitmap), (18, Journal)];
    assert_eq!(ranges[..4], first);
    assert_eq!(ranges[4..].iter().map(|(_, structure)| *structure).collect::<Vec<_>>(), [FsTree]);
}

#[test]
fn an_empty_image_is_unreadable_and_an_unknown_kind_is_reported() {
    let image = tempfile::tempfile().unwrap();
    image.set_len(16 << 20).unwrap();
    for kind in ["ext4", "xfs", "btrfs", "reiserfs"] {
        let error = Map::read(kind, &image, std::slice::from_ref(&(0..4096))).unwrap_err();
        assert!(error.to_string().contains("could not read the image"), "{kind}: {error}");
    }
    let error = Map::read("zfs", &image, &[]).unwrap_err().to_string();
    assert!(error.contains("cannot map zfs"), "{error}");
}
