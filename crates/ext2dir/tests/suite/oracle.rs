//! Checks the model's disk images with e2fsprogs.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use std::path::Path;
use std::process::Command;

use crate::common::{filled, name, volume};
use fsdyno_ext2dir::ext2::Ext2;
use fsdyno_ext2dir::hash::half_md4;
use fsdyno_ext2dir::image;
use fsdyno_ext2dir::volume::ROOT;

/// The output of a tool of e2fsprogs; none if it is not installed.
fn tool(argv: &[&str]) -> Option<(i32, String)> {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let ran = Command::new(argv[0]).args(&argv[1..]).env("PATH", path).output();
    let Ok(ran) = ran else {
        println!("skipped: {} is not installed", argv[0]);
        return None;
    };
    let text = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    Some((ran.status.code().unwrap_or(-1), text.into_owned()))
}

/// Checks the volume with e2fsck and the names in `d` with debugfs.
fn check(ext2: &Ext2, expected: &[String]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    image::write(ext2, &mut std::fs::File::create(&path).unwrap()).unwrap();
    assert_eq!(image::check(ext2), Vec::<String>::new());
    let at = path.to_str().unwrap();
    let Some((exit, text)) = tool(&["e2fsck", "-f", "-n", at]) else { return };
    assert_eq!(exit, 0, "{text}");
    let Some((_, text)) = tool(&["debugfs", "-R", "ls -p /d", at]) else { return };
    let mut names: Vec<String> = text
        .lines()
        .map(|line| line.split('/').collect::<Vec<_>>())
        // A free entry, whose inode is 0, is listed with the remains of its name.
        .filter(|parts| parts.len() > 5 && parts[1] != "0" && !matches!(parts[5], "." | ".."))
        .map(|parts| parts[5].to_string())
        .collect();
    names.sort_unstable();
    assert!(names == expected, "found {} names, expected {}", names.len(), expected.len());
}

/// The depth of an index and its number of blocks of entries, from debugfs.
fn htree(path: &Path) -> Option<(u32, usize)> {
    let (_, text) = tool(&["debugfs", "-R", "htree_dump /d", path.to_str().unwrap()])?;
    let depth = text.lines().find_map(|line| line.trim().strip_prefix("Indirect levels: "));
    assert!(text.contains("Hash Version: 1"), "{text}");
    Some((depth.unwrap().trim().parse().unwrap(), text.matches("Reading directory block").count()))
}

#[test]
fn e2fsprogs_accepts_the_directories_of_each_variant() {
    for variant in ["classic-ext2", "cached-ext2", "indexed-ext2"] {
        for (block_size, mib, files) in [(4096, 128, 10_000), (4096, 128, 3), (1024, 64, 12_000)] {
            let mut ext2 = volume(variant, block_size, mib);
            filled(&mut ext2, files);
            let expected: Vec<String> = (0..files).map(name).collect();
            check(&ext2, &expected);
        }
    }
}

#[test]
fn e2fsprogs_accepts_a_directory_after_deletions_and_new_names() {
    for variant in ["classic-ext2", "cached-ext2", "indexed-ext2"] {
        let mut ext2 = volume(variant, 1024, 32);
        let dir = filled(&mut ext2, 3000);
        for number in (0..3000).filter(|number| number % 3 != 1).rev() {
            ext2.unlink(dir, name(number).as_bytes()).unwrap();
        }
        let mut expected: Vec<String> = (0..3000).filter(|n| n % 3 == 1).map(name).collect();
        check(&ext2, &expected);
        for number in 0..500 {
            let long = format!("a longer name than before {number}");
            ext2.create(dir, long.as_bytes(), true).unwrap();
            expected.push(long);
        }
        ext2.mkdir(dir, b"sub").unwrap();
        expected.push("sub".into());
        ext2.mkdir(ROOT, b"gone").unwrap();
        ext2.rmdir(ROOT, b"gone").unwrap();
        expected.sort_unstable();
        check(&ext2, &expected);
    }
}

#[test]
fn an_index_grows_to_two_levels_and_debugfs_reads_it() {
    let mut ext2 = volume("indexed-ext2", 1024, 128);
    // A root of 1 KiB has entries for 124 blocks, each of about 40 names.
    let dir = filled(&mut ext2, 20_000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    image::write(&ext2, &mut std::fs::File::create(&path).unwrap()).unwrap();
    if let Some((depth, leaves)) = htree(&path) {
        assert_eq!(depth, 1);
        let nodes = ext2.directories[&dir].blocks.count() - leaves;
        assert!((3..=12).contains(&nodes), "{nodes} blocks of index, {leaves} of entries");
    }
    let expected: Vec<String> = (0..20_000).map(name).collect();
    check(&ext2, &expected);
}

#[test]
fn half_md4_is_that_of_debugfs() {
    let long = "n".repeat(255);
    let names =
        ["f", "f0000001", "exactly four and so on 32 bytes.", "Ünïcödé", long.as_str(), "abc"];
    // Each seed as four 32-bit words, and in the form that debugfs takes: a UUID, in the order of bytes.
    let seeds = [
        ([0u32; 4], ""),
        (
            [0x0403_0201, 0x0807_0605, 0x0c0b_0a09, 0x100f_0e0d],
            "01020304-0506-0708-090a-0b0c0d0e0f10",
        ),
    ];
    for (seed, uuid) in seeds {
        for name in names {
            let seed_option = if uuid.is_empty() { String::new() } else { format!(" -s {uuid}") };
            let command = format!("dx_hash -h half_md4{seed_option} \"{name}\"");
            let Some((_, text)) = tool(&["debugfs", "-R", &command]) else { return };
            let hash = text.split("is 0x").nth(1).and_then(|rest| rest.split([' ', '(']).next());
            let hash = u32::from_str_radix(hash.unwrap_or_else(|| panic!("{text}")), 16).unwrap();
            assert_eq!(half_md4(name.as_bytes(), seed), hash, "{name}: {text}");
        }
    }
}
