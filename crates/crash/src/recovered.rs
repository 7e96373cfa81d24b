//! The result of a recovery: how the file system was mounted, and its tree.
//!
//! The recovering guest writes one record per image into memory that the venue reads meanwhile: three words (a mark,
//! and the lengths of the two parts that follow), the [`Recovery`] as JSON, then the tree. An entry of the tree
//! consists of kind (8 bits), error number (8), length of its path (16), number of hashes (32), size (64), inode (64),
//! path, hashes (32 each).

use fsdyno_record::Nanos;
use fsdyno_record::seed::mix;
use serde::{Deserialize, Serialize};

/// Bytes per hash.
pub const SECTOR: usize = 512;

const MARK: u64 = u64::from_le_bytes(*b"fsdynocu");

/// The course of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// Number of the cut within its guest, from 0; in results the cut's number.
    pub index: u32,
    /// Reason why the first mount was refused, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Virtual time of the mount on the modelled disk, recovery included.
    pub mount_ns: Nanos,
    /// Errors reported by the check, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unclean: Option<String>,
    /// Outcome of the repair, if one was attempted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<String>,
    /// Outcome of the last resort, if the repair failed and there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_resort: Option<String>,
    /// Reason why it could not be mounted or read even then, in which case there is no tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// Kernel messages that report damage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel: Vec<String>,
}

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A regular file.
    File = 0,
    /// A directory.
    Directory = 1,
    /// A symbolic link, or any other type.
    Other = 2,
}

/// One entry of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Type.
    pub kind: Kind,
    /// Error number from reading it; 0 on success.
    pub error: u8,
    /// Path below the trial's root.
    pub path: Vec<u8>,
    /// Size in bytes.
    pub size: u64,
    /// Inode number.
    pub inode: u64,
    /// The [`hash`] of each 512 bytes of a file, and of the remainder at its end.
    pub hashes: Vec<u32>,
}

/// A recovered tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveredTree {
    /// Course of the recovery.
    pub recovery: Recovery,
    /// Its entries, in any order.
    pub entries: Vec<Entry>,
}

/// Returns the hash of up to 512 bytes: 0 if and only if all bytes are zero.
pub fn hash(bytes: &[u8]) -> u32 {
    let mut sum = bytes.len() as u64;
    let mut any = 0;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word = word.try_into().map(u64::from_le_bytes).unwrap_or(0);
        any |= word;
        sum = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    for byte in words.remainder() {
        any |= u64::from(*byte);
        sum = (sum ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    if any == 0 { 0 } else { (mix(sum) as u32).max(1) }
}

/// Appends an entry to the encoding of a tree.
pub fn put(tree: &mut Vec<u8>, entry: &Entry) {
    tree.extend([entry.kind as u8, entry.error]);
    tree.extend((entry.path.len() as u16).to_le_bytes());
    tree.extend((entry.hashes.len() as u32).to_le_bytes());
    tree.extend(entry.size.to_le_bytes());
    tree.extend(entry.inode.to_le_bytes());
    tree.extend(&entry.path);
    entry.hashes.iter().for_each(|hash| tree.extend(hash.to_le_bytes()));
}

/// Encodes a record.
pub fn record(recovery: &Recovery, tree: &[u8]) -> Vec<u8> {
    let words = serde_json::to_vec(recovery).unwrap_or_default();
    let mut record = Vec::with_capacity(24 + words.len() + tree.len());
    for word in [MARK, words.len() as u64, tree.len() as u64] {
        record.extend(word.to_le_bytes());
    }
    record.extend(words);
    record.extend(tree);
    record.resize(record.len().next_multiple_of(8), 0);
    record
}

/// Returns the length of a record that begins with these 24 bytes; `None` if it is not a record.
pub fn length(head: &[u8]) -> Option<usize> {
    let [mark, words, tree] = lengths(head)?;
    let sum = words.checked_add(tree)?.checked_add(24)?;
    (mark == MARK).then_some(usize::try_from(sum).ok()?.next_multiple_of(8))
}

fn lengths(head: &[u8]) -> Option<[u64; 3]> {
    let mut words = [0; 3];
    for (word, bytes) in words.iter_mut().zip(head.get(..24)?.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    Some(words)
}

/// Decodes a record; `None` if it is damaged.
pub fn read(record: &[u8]) -> Option<RecoveredTree> {
    let [_, words, tree] = lengths(record)?;
    let words_end = 24 + usize::try_from(words).ok()?;
    let recovery = serde_json::from_slice(record.get(24..words_end)?).ok()?;
    let mut rest = record.get(words_end..words_end + usize::try_from(tree).ok()?)?;
    let mut entries = Vec::new();
    while !rest.is_empty() {
        entries.push(entry(&mut rest)?);
    }
    Some(RecoveredTree { recovery, entries })
}

fn entry(rest: &mut &[u8]) -> Option<Entry> {
    let head = take(rest, 24)?;
    let kind = [Kind::File, Kind::Directory, Kind::Other];
    let kind = *kind.get(usize::from(head[0]))?;
    let path = usize::from(u16::from_le_bytes([head[2], head[3]]));
    let count = u32::from_le_bytes(head[4..8].try_into().ok()?) as usize;
    let size = u64::from_le_bytes(head[8..16].try_into().ok()?);
    let inode = u64::from_le_bytes(head[16..24].try_into().ok()?);
    let error = head[1];
    let path = take(rest, path)?.to_vec();
    let hashes = take(rest, count.checked_mul(4)?)?.chunks_exact(4);
    let hash = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).unwrap_or(0);
    Some(Entry { kind, error, path, size, inode, hashes: hashes.map(hash).collect() })
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (part, more) = rest.split_at_checked(length)?;
    *rest = more;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_record_is_decoded_and_a_truncated_one_is_refused() {
        let entry = Entry {
            kind: Kind::File,
            error: 5,
            path: b"d/f1".to_vec(),
            size: 700,
            inode: 12,
            hashes: vec![0, 77],
        };
        let recovery = Recovery { index: 3, unclean: Some("x".into()), ..Recovery::default() };
        let mut tree = Vec::new();
        put(&mut tree, &entry);
        put(&mut tree, &Entry { kind: Kind::Directory, hashes: vec![], ..entry.clone() });
        let bytes = record(&recovery, &tree);
        assert_eq!(length(&bytes), Some(bytes.len()));
        let found = read(&bytes).unwrap();
        assert_eq!(
            (&found.recovery, &found.entries[0], found.entries.len()),
            (&recovery, &entry, 2)
        );
        assert!(read(&bytes[..bytes.len() - 16]).is_none() && length(&bytes[8..]).is_none());
    }

    #[test]
    fn only_zeros_have_the_hash_of_zeros() {
        assert_eq!([hash(&[0; 512]), hash(&[0; 3]), hash(&[])], [0, 0, 0]);
        let mut bytes = [0; 512];
        bytes[511] = 1;
        let one = hash(&bytes);
        bytes[511] = 0;
        bytes[3] = 1;
        assert!(one != 0 && hash(&bytes) != one && hash(&bytes[..511]) != hash(&bytes));
        assert!(hash(&[1]) != 0 && hash(&[1, 0]) != hash(&[1]));
    }
}
