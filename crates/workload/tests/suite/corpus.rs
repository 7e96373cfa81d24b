//! Archives with one mistake each, named for it, and their messages; and valid ones with changed bytes,
//! none of which may cause a panic.
//!
//! The files in `corpus/tar` are those of the table below, stored so that a fuzzer can begin with
//! them: `FSDYNO_WRITE_CORPUS=1 cargo test -p fsdyno-workload --test suite corpus` writes them.

use crate::archives::{archive, raw};
use fsdyno_workload::Input;
use fsdyno_workload::tar::unpack::Unpack;
use proptest::prelude::*;

fn valid_archive() -> Vec<u8> {
    archive(&[
        ('d', "d", 0o755, b""),
        ('f', "d/f", 0o644, b"hello"),
        ('s', "d/s", 0o777, b"../out"),
        ('h', "d/h", 0o644, b"d/f"),
    ])
}

fn with_byte(index: usize, byte: u8) -> Vec<u8> {
    let mut bytes = valid_archive();
    bytes[index] = byte;
    bytes
}

fn truncated(length: usize) -> Vec<u8> {
    valid_archive()[..length].to_vec()
}

fn pax(record: &[u8]) -> Vec<u8> {
    [raw(b'x', b"pax", b"", record), raw(b'0', b"f", b"", b"")].concat()
}

/// File name, contents, and a part of the message, which is empty for a valid archive.
#[rustfmt::skip]
fn cases() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let deep = [vec![b'd'; 90], b"/".to_vec()].concat().repeat(12);
    let long = [&deep[..], b"f"].concat();
    vec![
        ("good.tar", valid_archive(), ""),
        ("good-without-end.tar", raw(b'0', b"f", b"", b"x"), ""),
        ("good-v7-directory.tar", raw(0, b"d/", b"", b""), ""),
        ("good-label.tar", [raw(b'V', b"label", b"", b""), valid_archive()].concat(), ""),
        ("good-global-pax.tar", [raw(b'g', b"pax", b"", b"12 mtime=17\n"), raw(b'0', b"f", b"", b"")].concat(), ""),
        ("empty.tar", Vec::new(), "is not a tar archive"),
        ("not-tar.tar", b"hello, world\n".repeat(100), "is not a tar archive"),
        ("no-members.tar", vec![0; 1024], "is empty"),
        ("bad-checksum.tar", with_byte(512 + 1, b'!'), "at byte 512: the checksum"),
        ("cut-in-header.tar", truncated(700), "ends within a header"),
        ("cut-in-data.tar", truncated(1026), "5 bytes of data were expected, but only 2 exist"),
        ("huge-size.tar", pax(b"29 size=18446744073709551615\n"), "the archive is truncated"),
        ("size-no-number.tar", pax(b"10 size=x\n"), "the size in the header is not a valid number"),
        ("pax-length.tar", pax(b"99 path=a\n"), "LENGTH KEY=VALUE"),
        ("pax-sparse.tar", pax(b"22 GNU.sparse.major=1\n"), "sparse"),
        ("pax-nul.tar", pax(b"12 path=a\0b\n"), "NUL"),
        ("pax-at-end.tar", raw(b'x', b"pax", b"", b"9 path=a\n"), "not followed by the header of its member"),
        ("absolute.tar", raw(b'0', b"/etc/passwd", b"", b""), "'/etc/passwd' (at byte 0): has an absolute path"),
        ("dot-dot.tar", raw(b'0', b"a/../../b", b"", b""), "'a/../../b' (at byte 0): has '..'"),
        ("no-name.tar", raw(b'0', b"./.", b"", b""), "has no name"),
        ("long-path.tar", [raw(b'L', b"././@LongLink", b"", &long), raw(b'0', b"f", b"", b"")].concat(), "path of 1093 bytes"),
        ("long-name.tar", [raw(b'L', b"././@LongLink", b"", &[b'n'; 256]), raw(b'0', b"f", b"", b"")].concat(), "name of 256 bytes"),
        ("character-device.tar", raw(b'3', b"null", b"", b""), "'null' (at byte 0): is a character device"),
        ("block-device.tar", raw(b'4', b"sda", b"", b""), "is a block device"),
        ("pipe.tar", raw(b'6', b"pipe", b"", b""), "is a named pipe"),
        ("sparse.tar", raw(b'S', b"f", b"", b""), "sparse"),
        ("unknown-kind.tar", raw(b'Z', b"f", b"", b""), "has the type flag 'Z'"),
        ("link-to-nothing.tar", raw(b'2', b"s", b"", b""), "is a link without a target"),
        ("hard-link-to-missing-file.tar", raw(b'1', b"h", b"f", b""), "hard link to 'f', which is not an earlier file"),
        ("hard-link-out.tar", raw(b'1', b"h", b"../f", b""), "has '..'"),
        ("hard-link-to-itself.tar", [raw(b'0', b"f", b"", b""), raw(b'1', b"f", b"f", b"")].concat(), "to itself"),
        ("hard-link-to-symlink.tar", [raw(b'2', b"s", b"f", b""), raw(b'1', b"h", b"s", b"")].concat(), "which is not an earlier file"),
        ("below-symlink.tar", [raw(b'2', b"s", b"/etc", b""), raw(b'0', b"s/passwd", b"", b"")].concat(), "'s/passwd' (at byte 512): lies below 's', which is a symbolic link"),
        ("below-file.tar", [raw(b'0', b"f", b"", b""), raw(b'0', b"f/g", b"", b"")].concat(), "which is a file"),
        ("file-over-directory.tar", [raw(b'5', b"d", b"", b""), raw(b'0', b"d", b"", b"")].concat(), "would replace a directory"),
        ("over-link-that-leads-out.tar", [raw(b'2', b"s", b"/x", b""), raw(b'0', b"s", b"", b"")].concat(), "would replace a symbolic link"),
        ("good-global-pax-twice.tar", [raw(b'g', b"pax", b"", b"12 mtime=17\n"), raw(b'g', b"pax", b"", b"12 mtime=18\n"), raw(b'0', b"f", b"", b"")].concat(), ""),
        ("good-symlink-loop.tar", [raw(b'2', b"a", b"b", b""), raw(b'2', b"b", b"a", b"")].concat(), ""),
        ("below-symlink-loop.tar", [raw(b'2', b"a", b"b", b""), raw(b'2', b"b", b"a", b""), raw(b'0', b"a/f", b"", b"")].concat(), "lies below 'a', which is a symbolic link"),
        ("below-placeholder.tar", [raw(b'2', b"s", b"../..", b""), raw(b'5', b"s/d", b"", b"")].concat(), "lies below 's', which is a symbolic link"),
        ("file-directory-file.tar", [raw(b'0', b"x", b"", b""), raw(b'5', b"x", b"", b""), raw(b'0', b"x", b"", b"")].concat(), "'x' (at byte 1024): would replace a directory"),
        ("pax-absolute.tar", pax(b"20 path=/etc/passwd\n"), "'/etc/passwd' (at byte 1024): has an absolute path"),
        ("pax-dot-dot.tar", pax(b"18 path=../passwd\n"), "has '..'"),
        ("global-pax-dot-dot.tar", [raw(b'g', b"pax", b"", b"18 path=../passwd\n"), raw(b'0', b"f", b"", b"")].concat(), "'../passwd' (at byte 1024): has '..'"),
        ("hard-link-to-absolute.tar", raw(b'1', b"h", b"/etc/passwd", b""), "'h' (at byte 0): has an absolute path"),
        ("line-end-in-parent.tar", [raw(b'2', b"a\nb", b"c", b""), raw(b'0', b"a\nb/f", b"", b"")].concat(), r"lies below 'a\nb', which"),
        ("line-end-in-target.tar", raw(b'1', b"h", b"a\x1b\nb", b""), r"hard link to 'a\u{1b}\nb', which"),
        ("long-name-in-message.tar", [raw(b'L', b"././@LongLink", b"", &[b'n'; 3000]), raw(b'0', b"f", b"", b"")].concat(), "nnn...' (at byte 3584): has a name of 3000 bytes"),
    ]
}

#[test]
fn each_mistake_is_reported_with_the_member_and_its_position() {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/tar"));
    let write = std::env::var_os("FSDYNO_WRITE_CORPUS").is_some();
    let cases = cases();
    for (name, bytes, part) in &cases {
        if write {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        assert_eq!(&std::fs::read(folder.join(name)).unwrap(), bytes, "{name} has changed");
        assert!(bytes.len() <= 4096, "{name}");
        match Unpack::new(&Input::new(bytes.clone())) {
            Ok(_) => assert_eq!(*part, "", "{name} was accepted"),
            Err(error) => {
                let message = error.to_string();
                assert!(!part.is_empty() && message.contains(part), "{name}: {message}");
                assert!(!message.chars().any(char::is_control), "{name}: {message:?}");
                assert!(message.chars().count() <= 1000, "{name}: {message}");
            }
        }
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), cases.len(), "a file without a row");
}

fn fix_checksum(bytes: &mut [u8], offset: usize) {
    // Most changed headers would fail at their checksum; half of them get a correct one.
    let start = offset / 512 * 512;
    let Some(block) = bytes.get_mut(start..start + 512) else { return };
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn changed_archives_are_read_or_refused_without_a_panic(
        case_index in 0usize..64,
        changes in prop::collection::vec((prop::num::u16::ANY, prop::num::u8::ANY, prop::bool::ANY), 0..6),
        length in prop::option::of(prop::num::u16::ANY),
    ) {
        let cases = cases();
        let mut bytes = cases[case_index % cases.len()].1.clone();
        for (index, byte, fixes_checksum) in changes {
            let index = usize::from(index) % bytes.len().max(1);
            if let Some(slot) = bytes.get_mut(index) {
                *slot = byte;
                if fixes_checksum {
                    fix_checksum(&mut bytes, index);
                }
            }
        }
        if let Some(length) = length {
            bytes.truncate(usize::from(length));
        }
        if let Err(error) = Unpack::new(&Input::new(bytes)) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
