//! Archives for tests, made by the `tar` crate.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "tests may unwrap, and not every test uses all functions"
)]

use tar::{Builder, EntryType, Header};

/// The modification time of members for which no other is given.
pub const TIME: u64 = 1_000_000_000;

/// Specification of a member: letter of its kind (`f`, `d`, `s`, `h`), path, mode, and contents or
/// target.
pub type Spec<'a> = (char, &'a str, u32, &'a [u8]);

/// An archive of these members, in GNU's format, with zeros at its end.
pub fn archive(members: &[Spec<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (kind, path, mode, text) in members {
        add(&mut builder, *kind, path, *mode, text, TIME);
    }
    builder.into_inner().unwrap()
}

/// Adds a member.
pub fn add(
    builder: &mut Builder<Vec<u8>>,
    kind: char,
    path: &str,
    mode: u32,
    text: &[u8],
    time: u64,
) {
    let mut header = Header::new_gnu();
    header.set_mode(mode);
    header.set_mtime(time);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header.set_entry_type(match kind {
        'd' => EntryType::Directory,
        's' => EntryType::Symlink,
        'h' => EntryType::Link,
        _ => EntryType::Regular,
    });
    if matches!(kind, 's' | 'h') {
        let target = std::str::from_utf8(text).unwrap();
        return builder.append_link(&mut header, path, target).unwrap();
    }
    let data = if kind == 'f' { text } else { b"" };
    header.set_size(data.len() as u64);
    builder.append_data(&mut header, path, data).unwrap();
}

/// A member with one header, made without the builder's checks: any name, link and kind.
pub fn raw(kind: u8, name: &[u8], target: &[u8], data: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name);
    header.as_gnu_mut().unwrap().linkname[..target.len()].copy_from_slice(target);
    header.set_mode(0o644);
    header.set_mtime(TIME);
    header.set_size(data.len() as u64);
    header.set_entry_type(EntryType::new(kind));
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}
