//! On-disk directory entries (ext2_dir_entry_2 of Linux, include/linux/ext2_fs.h):
//! inode, length of the record, length of the name, file type, name. The records of a block fill it
//! without gaps; a record whose inode is 0 is free.

/// Bytes of an entry before its name.
pub const HEADER: usize = 8;

/// `file_type` of a regular file.
pub const FILE: u8 = 1;

/// `file_type` of a directory.
pub const DIRECTORY: u8 = 2;

/// Returns the number of bytes that a name needs: header and name, rounded up to a multiple of four (EXT2_DIR_REC_LEN).
pub const fn record_length(name: usize) -> usize {
    (HEADER + name + 3) & !3
}

/// A parsed entry of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Inode number; 0 is free.
    pub inode: u32,
    /// Length of the record, up to the next entry.
    pub record: usize,
    /// File type.
    pub kind: u8,
    /// Name; in a free entry, leftover bytes.
    pub name: &'a [u8],
}

impl Entry<'_> {
    /// Returns the minimum length of its record: 0 if it is free.
    pub fn min_length(&self) -> usize {
        if self.inode == 0 { 0 } else { record_length(self.name.len()) }
    }
}

/// Parses the entry at `offset`, which must be the start of an entry.
#[inline]
pub fn read(block: &[u8], offset: usize) -> Entry<'_> {
    let bytes = &block[offset..];
    let name = usize::from(bytes[6]).min(bytes.len() - HEADER);
    let record = usize::from(u16::from_le_bytes([bytes[4], bytes[5]]));
    Entry {
        inode: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
        // A length of zero would never reach the end of the block.
        record: record.max(HEADER),
        kind: bytes[7],
        name: &bytes[HEADER..HEADER + name],
    }
}

/// Writes an entry of `record` bytes at `offset`.
pub fn write(block: &mut [u8], offset: usize, record: usize, inode: u32, kind: u8, name: &[u8]) {
    let bytes = &mut block[offset..];
    bytes[..4].copy_from_slice(&inode.to_le_bytes());
    bytes[4..6].copy_from_slice(&(record as u16).to_le_bytes());
    (bytes[6], bytes[7]) = (name.len() as u8, kind);
    bytes[HEADER..HEADER + name.len()].copy_from_slice(name);
}

fn set_record(block: &mut [u8], offset: usize, record: usize) {
    block[offset + 4..offset + 6].copy_from_slice(&(record as u16).to_le_bytes());
}

/// Returns an empty block: one free entry.
pub fn empty(size: usize) -> Vec<u8> {
    let mut block = vec![0; size];
    set_record(&mut block, 0, size);
    block
}

/// The result of a scan of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockScan {
    /// Offset of the entry, or of the space, if found.
    pub offset: Option<usize>,
    /// Number of entries examined.
    pub entries: u64,
}

/// Looks for a name in a block, as ext2_find_entry does: entries that start where the name would not
/// fit are not examined.
pub fn find(block: &[u8], name: &[u8]) -> BlockScan {
    let last = block.len().saturating_sub(record_length(name.len()));
    let (mut offset, mut entries) = (0, 0);
    while offset <= last {
        entries += 1;
        let entry = read(block, offset);
        if entry.inode != 0 && entry.name == name {
            return BlockScan { offset: Some(offset), entries };
        }
        offset += entry.record;
    }
    BlockScan { offset: None, entries }
}

/// Looks for free space for a name in a block: the first free entry that is long enough, or the first used one
/// with enough space after its own name (ext2_add_link).
pub fn find_space(block: &[u8], name: &[u8]) -> BlockScan {
    let length = record_length(name.len());
    let last = block.len().saturating_sub(length);
    let (mut offset, mut entries) = (0, 0);
    while offset <= last {
        entries += 1;
        let entry = read(block, offset);
        if entry.record >= entry.min_length() + length {
            return BlockScan { offset: Some(offset), entries };
        }
        offset += entry.record;
    }
    BlockScan { offset: None, entries }
}

/// Inserts a name at the result of [`find_space`]: a used entry is shortened to its minimum length.
pub fn insert(block: &mut [u8], offset: usize, inode: u32, kind: u8, name: &[u8]) {
    let old = read(block, offset);
    let (record, used) = (old.record, old.min_length());
    if used > 0 {
        set_record(block, offset, used);
    }
    write(block, offset + used, record - used, inode, kind, name);
}

/// Removes the entry at `at`: it becomes part of the preceding one, or a free entry if it is the first one in
/// its block (ext2_delete_entry). Returns the number of entries passed to find the preceding one.
pub fn remove(block: &mut [u8], at: usize) -> u64 {
    let (mut offset, mut preceding, mut passed) = (0, None, 0);
    while offset < at {
        passed += 1;
        preceding = Some(offset);
        offset += read(block, offset).record;
    }
    if let Some(preceding) = preceding {
        let end = at + read(block, at).record;
        set_record(block, preceding, end - preceding);
    }
    block[at..at + 4].fill(0);
    passed
}

/// Returns all entries of a block with their offsets, including free ones.
pub fn entries(block: &[u8]) -> impl Iterator<Item = (usize, Entry<'_>)> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        (offset + HEADER <= block.len()).then(|| {
            let (at, entry) = (offset, read(block, offset));
            offset += entry.record;
            (at, entry)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(block: &[u8]) -> Vec<(usize, Vec<u8>)> {
        entries(block)
            .filter(|(_, e)| e.inode > 0)
            .map(|(_, e)| (e.record, e.name.to_vec()))
            .collect()
    }

    #[test]
    fn entries_fill_their_block_and_a_removed_entry_extends_the_preceding_one() {
        let mut block = empty(64);
        for (inode, name) in [(11, "one"), (12, "three"), (13, "x")] {
            let space = find_space(&block, name.as_bytes()).offset.unwrap();
            insert(&mut block, space, inode, FILE, name.as_bytes());
        }
        assert_eq!(
            names(&block),
            [(12, b"one".to_vec()), (16, b"three".to_vec()), (36, b"x".to_vec())]
        );
        let scan = find(&block, b"three");
        assert_eq!(scan, BlockScan { offset: Some(12), entries: 2 });
        assert_eq!(remove(&mut block, 12), 1);
        assert_eq!(names(&block), [(28, b"one".to_vec()), (36, b"x".to_vec())]);
        assert_eq!(find_space(&block, b"seven").offset, Some(0), "the first with enough space");
        assert_eq!(remove(&mut block, 0), 0);
        assert_eq!(read(&block, 0).record, 28, "free, with its former length");
        assert_eq!(find(&block, b"one").offset, None, "a free entry is not found by its old name");
        let total: usize = entries(&block).map(|(_, entry)| entry.record).sum();
        assert_eq!(total, 64);
    }

    #[test]
    fn a_name_of_eight_bytes_takes_sixteen() {
        assert_eq!([1, 2, 4, 5, 8, 9, 255].map(record_length), [12, 12, 12, 16, 16, 20, 264]);
    }
}
