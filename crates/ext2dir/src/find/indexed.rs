//! Phillips's index (HTree), as merged into ext3: a directory of one block is searched linearly; when that block is
//! full, it becomes the root of an index of hashes, one or two levels above blocks of entries. A full block is split at
//! its middle hash, by number of entries. Blocks are never merged.

use super::{FindEntry, IndexFull, Location, Variant, add_to, scan};
use crate::blocks::Blocks;
use crate::dirent;
use crate::hash::half_md4;

/// The variant with an index.
pub const VARIANT: Variant = Variant {
    name: "indexed-ext2",
    about: "ext2 with Phillips's index of hashes (HTree, half-MD4) for directories above one block",
    make: |seed| Box::new(Indexed { seed, index: false }),
    index: true,
};

/// The number of half-MD4 in a root (DX_HASH_HALF_MD4).
const HALF_MD4: u8 = 1;

/// Offset, in a root, of the number of levels of nodes below it (dx_root_info.indirect_levels).
const LEVELS: usize = 30;

/// Offset of a root's entries, after ".", ".." and the root's own information.
const ROOT_ENTRIES: usize = 32;

/// Offset of the entries of any other node, after one free directory entry.
const NODE_ENTRIES: usize = 8;

/// Size of an index entry: a hash and a block. The hash of a node's first entry is implicitly zero;
/// its field holds the limit and the count.
const ENTRY: usize = 8;

struct Indexed {
    seed: [u32; 4],
    /// True once the directory has an index.
    index: bool,
}

/// A node of the index on the path to a block, with its entry on that path.
#[derive(Clone, Copy, Debug)]
struct Frame {
    block: usize,
    /// Offset of the entries in the block.
    entries: usize,
    /// Index of the current entry.
    index: usize,
}

fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    bytes
        .get(offset..offset + 4)
        .map_or(0, |word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

fn write_u32(bytes: &mut [u8], offset: usize, word: u32) {
    bytes[offset..offset + 4].copy_from_slice(&word.to_le_bytes());
}

impl Frame {
    fn limit_and_count(&self, bytes: &[u8]) -> (usize, usize) {
        let word = read_u32(bytes, self.entries);
        ((word & 0xffff) as usize, (word >> 16) as usize)
    }

    fn set_limit_and_count(&self, bytes: &mut [u8], limit: usize, count: usize) {
        write_u32(bytes, self.entries, limit as u32 | (count as u32) << 16);
    }

    fn hash(&self, bytes: &[u8], index: usize) -> u32 {
        if index == 0 { 0 } else { read_u32(bytes, self.entries + ENTRY * index) }
    }

    fn child(&self, bytes: &[u8], index: usize) -> usize {
        read_u32(bytes, self.entries + ENTRY * index + 4) as usize
    }

    fn is_full(&self, blocks: &Blocks) -> bool {
        let (limit, count) = self.limit_and_count(blocks.bytes(self.block));
        count >= limit
    }

    /// Inserts a block after the current entry (dx_insert_block).
    fn insert(&self, blocks: &mut Blocks, hash: u32, block: usize) {
        blocks.change(self.block, |bytes| {
            let (limit, count) = self.limit_and_count(bytes);
            let offset = self.entries + ENTRY * (self.index + 1);
            bytes.copy_within(offset..self.entries + ENTRY * count, offset + ENTRY);
            write_u32(bytes, offset, hash);
            write_u32(bytes, offset + 4, block as u32);
            self.set_limit_and_count(bytes, limit, count + 1);
        });
    }
}

impl Indexed {
    fn hash(&self, blocks: &mut Blocks, name: &[u8]) -> u32 {
        blocks.counts.hashes += 1;
        half_md4(name, self.seed)
    }

    /// Returns the nodes on the path from the root to the block of a hash (dx_probe).
    fn probe(&self, blocks: &mut Blocks, hash: u32) -> Vec<Frame> {
        let mut frames = Vec::with_capacity(2);
        let mut frame = Frame { block: 0, entries: ROOT_ENTRIES, index: 0 };
        let mut levels = blocks.lookup(0).get(LEVELS).copied().unwrap_or(0);
        loop {
            let bytes = blocks.bytes(frame.block);
            let (_, count) = frame.limit_and_count(bytes);
            let (mut low, mut high, mut probes) = (1, count, 0);
            while low < high {
                probes += 1;
                let middle = low + (high - 1 - low) / 2;
                if frame.hash(bytes, middle) > hash { high = middle } else { low = middle + 1 }
            }
            frame.index = low - 1;
            let child = frame.child(bytes, frame.index);
            blocks.counts.probes += probes;
            frames.push(frame);
            if levels == 0 {
                return frames;
            }
            levels -= 1;
            blocks.lookup(child);
            frame = Frame { block: child, entries: NODE_ENTRIES, index: 0 };
        }
    }

    /// Advances the frames to the next block if the entries of a hash continue there; returns true if they do
    /// (ext3_htree_next_block).
    fn advance(&self, blocks: &mut Blocks, frames: &mut [Frame], hash: u32) -> bool {
        let has_next = |frame: &Frame, blocks: &Blocks| {
            frame.index + 1 < frame.limit_and_count(blocks.bytes(frame.block)).1
        };
        let Some(level) = (0..frames.len()).rev().find(|level| has_next(&frames[*level], blocks))
        else {
            return false;
        };
        frames[level].index += 1;
        let frame = frames[level];
        if frame.hash(blocks.bytes(frame.block), frame.index) != hash | 1 {
            return false;
        }
        for lower in level + 1..frames.len() {
            let parent = frames[lower - 1];
            let block = parent.child(blocks.bytes(parent.block), parent.index);
            blocks.lookup(block);
            frames[lower] = Frame { block, entries: NODE_ENTRIES, index: 0 };
        }
        true
    }

    fn leaf(&self, blocks: &Blocks, frames: &[Frame]) -> usize {
        frames.last().map_or(0, |last| last.child(blocks.bytes(last.block), last.index))
    }

    /// Moves the entries of the only block, which is full, to a second block, and makes the first one the root
    /// (make_indexed_dir).
    fn make_root(&mut self, blocks: &mut Blocks) {
        let size = blocks.size();
        let parent = dirent::read(blocks.bytes(0), 12).inode;
        let old: Vec<UsedEntry> = entries(blocks.bytes(0)).skip(2).collect();
        let leaf = blocks.append();
        blocks.counts.moved += old.len() as u64;
        blocks.change(leaf, |bytes| fill(bytes, &old));
        blocks.change(0, |bytes| {
            bytes[12..].fill(0);
            dirent::write(bytes, 12, size - 12, parent, dirent::DIRECTORY, b"..");
            (bytes[28], bytes[29]) = (HALF_MD4, 8);
            let root = Frame { block: 0, entries: ROOT_ENTRIES, index: 0 };
            root.set_limit_and_count(bytes, (size - ROOT_ENTRIES) / ENTRY, 1);
            write_u32(bytes, ROOT_ENTRIES + 4, leaf as u32);
        });
        self.index = true;
    }

    /// Splits a full block of entries; returns which of the two blocks a name with this hash belongs to
    /// (do_split).
    fn split(&self, blocks: &mut Blocks, frame: Frame, leaf: usize, hash: u32) -> usize {
        let mut hashed: Vec<(u32, UsedEntry)> = Vec::new();
        for entry in entries(blocks.bytes(leaf)) {
            hashed.push((half_md4(&entry.2, self.seed), entry));
        }
        blocks.counts.hashes += hashed.len() as u64;
        hashed.sort_by_key(|(hash, _)| *hash);
        let middle = hashed.len() / 2;
        let boundary = hashed.get(middle).map_or(hash, |(hash, _)| *hash);
        // If the middle falls between two entries with the same hash, the lowest bit of the new block's hash
        // is set.
        let continued = middle > 0 && hashed[middle - 1].0 == boundary;
        let (low, high): (Vec<_>, Vec<_>) = {
            let high = hashed.split_off(middle);
            (
                hashed.into_iter().map(|(_, entry)| entry).collect(),
                high.into_iter().map(|(_, e)| e).collect(),
            )
        };
        blocks.counts.moved += (low.len() + high.len()) as u64;
        let new_block = blocks.append();
        blocks.change(leaf, |bytes| fill(bytes, &low));
        blocks.change(new_block, |bytes| fill(bytes, &high));
        frame.insert(blocks, boundary | u32::from(continued), new_block);
        if hash >= boundary { new_block } else { leaf }
    }

    /// Makes space for one more block in the lowest node on the path to a hash (ext3_dx_add_entry).
    fn make_space(&self, blocks: &mut Blocks, frames: &[Frame]) -> Result<(), IndexFull> {
        let (Some(root), Some(last)) = (frames.first(), frames.last()) else {
            return Err(IndexFull);
        };
        if !last.is_full(blocks) {
            return Ok(());
        }
        let size = blocks.size();
        let limit = (size - NODE_ENTRIES) / ENTRY;
        let node = |block| Frame { block, entries: NODE_ENTRIES, index: 0 };
        if frames.len() == 1 {
            // Adds a level: all entries of the root move to a new node.
            let new = blocks.append();
            let (_, count) = root.limit_and_count(blocks.bytes(0));
            let old = blocks.bytes(0)[ROOT_ENTRIES..ROOT_ENTRIES + ENTRY * count].to_vec();
            blocks.change(new, |bytes| {
                bytes[NODE_ENTRIES..NODE_ENTRIES + old.len()].copy_from_slice(&old);
                node(new).set_limit_and_count(bytes, limit, count);
            });
            blocks.change(0, |bytes| {
                let (limit, _) = root.limit_and_count(bytes);
                bytes[ROOT_ENTRIES..].fill(0);
                root.set_limit_and_count(bytes, limit, 1);
                write_u32(bytes, ROOT_ENTRIES + 4, new as u32);
                bytes[LEVELS] = 1;
            });
            return Ok(());
        }
        if root.is_full(blocks) {
            return Err(IndexFull);
        }
        let (_, count) = last.limit_and_count(blocks.bytes(last.block));
        let remaining = count / 2;
        let hash = last.hash(blocks.bytes(last.block), remaining);
        let from = NODE_ENTRIES + ENTRY * remaining;
        let moved = blocks.bytes(last.block)[from..NODE_ENTRIES + ENTRY * count].to_vec();
        let new = blocks.append();
        blocks.change(new, |bytes| {
            bytes[NODE_ENTRIES..NODE_ENTRIES + moved.len()].copy_from_slice(&moved);
            node(new).set_limit_and_count(bytes, limit, count - remaining);
        });
        blocks.change(last.block, |bytes| last.set_limit_and_count(bytes, limit, remaining));
        root.insert(blocks, hash, new);
        Ok(())
    }
}

/// A used entry: inode, kind, name.
type UsedEntry = (u32, u8, Vec<u8>);

/// Returns the used entries of a block.
fn entries(block: &[u8]) -> impl Iterator<Item = UsedEntry> + '_ {
    let used = dirent::entries(block).filter(|(_, entry)| entry.inode != 0);
    used.map(|(_, entry)| (entry.inode, entry.kind, entry.name.to_vec()))
}

/// Fills a block with entries, each as short as possible, except that the last one extends to the end.
fn fill(block: &mut [u8], entries: &[UsedEntry]) {
    let size = block.len();
    block.fill(0);
    block.copy_from_slice(&dirent::empty(size));
    let mut offset = 0;
    for (number, (inode, kind, name)) in entries.iter().enumerate() {
        let is_last = number + 1 == entries.len();
        let record = if is_last { size - offset } else { dirent::record_length(name.len()) };
        dirent::write(block, offset, record, *inode, *kind, name);
        offset += record;
    }
}

impl FindEntry for Indexed {
    fn find(&mut self, blocks: &mut Blocks, name: &[u8]) -> Option<Location> {
        if !self.index {
            return scan(blocks, 0, name);
        }
        let hash = self.hash(blocks, name);
        let mut frames = self.probe(blocks, hash);
        loop {
            let block = self.leaf(blocks, &frames);
            let scan = dirent::find(blocks.lookup(block), name);
            blocks.counts.entries += scan.entries;
            if let Some(offset) = scan.offset {
                return Some(Location { block, offset });
            }
            if !self.advance(blocks, &mut frames, hash) {
                return None;
            }
        }
    }

    fn add(
        &mut self,
        blocks: &mut Blocks,
        inode: u32,
        kind: u8,
        name: &[u8],
    ) -> Result<(), IndexFull> {
        if !self.index {
            if add_to(blocks, 0, inode, kind, name) {
                return Ok(());
            }
            self.make_root(blocks);
        }
        let hash = self.hash(blocks, name);
        loop {
            let frames = self.probe(blocks, hash);
            let leaf = self.leaf(blocks, &frames);
            if add_to(blocks, leaf, inode, kind, name) {
                return Ok(());
            }
            self.make_space(blocks, &frames)?;
            let frames = self.probe(blocks, hash);
            let Some(frame) = frames.last() else { return Err(IndexFull) };
            let target = self.split(blocks, *frame, leaf, hash);
            if add_to(blocks, target, inode, kind, name) {
                return Ok(());
            }
        }
    }

    fn on_mount(&mut self, index: bool) {
        self.index = index;
    }

    fn has_index(&self) -> bool {
        self.index
    }
}
