//! Writes the model's volume as a disk image for e2fsck and debugfs, and checks the model's directories.

use std::collections::BTreeSet;
use std::io::{self, Seek, SeekFrom, Write};

use crate::dirent;
use crate::ext2::{Directory, Ext2};
use crate::hash::half_md4;
use crate::volume::{DESCRIPTOR, FIRST_INODE, INODE, Volume};

/// Features of the superblock: compat dir_index, incompat filetype (include/linux/ext3_fs.h).
const DIR_INDEX: u32 = 0x20;
const FILETYPE: u32 = 0x2;
/// `s_flags`: hashes treat characters as signed (EXT2_FLAGS_SIGNED_HASH).
const SIGNED_HASH: u32 = 0x1;
/// `i_flags` of an indexed directory (EXT3_INDEX_FL).
const INDEX_FLAG: u32 = 0x1000;

/// A structure of little-endian fields at fixed offsets.
struct Fields(Vec<u8>);

impl Fields {
    fn new(size: u64) -> Fields {
        Fields(vec![0; size as usize])
    }

    fn put16(&mut self, at: usize, value: u64) {
        self.0[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
    }

    fn put32(&mut self, at: usize, value: u64) {
        self.0[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
    }
}

/// Writes the volume as a sparse image: blocks without content are left as holes.
///
/// # Errors
/// The writer fails, or no block is free for an indirect block (`StorageFull`).
pub fn write(ext2: &Ext2, out: &mut (impl Write + Seek)) -> io::Result<()> {
    let layout = ext2.volume.layout;
    // The model has no indirect blocks; the image needs them, so they are allocated here.
    let mut volume = ext2.volume.clone();
    let mut indirect_blocks: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut inodes: Vec<(u32, Vec<u8>)> = Vec::new();
    for (number, directory) in &ext2.directories {
        let mut new_block = || {
            let storage_full = |_| io::Error::from(io::ErrorKind::StorageFull);
            volume.new_block(*number, None).map_err(storage_full)
        };
        let inode =
            directory_inode(directory, &mut indirect_blocks, layout.block_size, &mut new_block)?;
        inodes.push((*number, inode));
    }
    inodes.extend(ext2.files.iter().map(|file| (*file, file_inode())));
    let mut put = |block: u64, offset: u64, bytes: &[u8]| {
        out.seek(SeekFrom::Start(block * layout.block_size + offset))?;
        out.write_all(bytes)
    };
    // Writes the last byte first, so that the image is as long as the volume.
    put(layout.blocks() - 1, layout.block_size - 1, &[0])?;
    let descriptors = descriptors(&volume);
    for group in 0..layout.groups {
        let start = layout.group_start(group);
        put(start, if start == 0 { 1024 } else { 0 }, &superblock(ext2, &volume, group))?;
        put(start + 1, 0, &descriptors)?;
        put(layout.block_bitmap(group), 0, &volume.bitmap(group, false))?;
        put(layout.inode_bitmap(group), 0, &volume.bitmap(group, true))?;
    }
    for (number, inode) in &inodes {
        let offset = u64::from(number - 1) % layout.inodes_per_group() * INODE;
        put(layout.block_of_inode(*number), offset % layout.block_size, inode)?;
    }
    for directory in ext2.directories.values() {
        for (number, address) in directory.addresses.iter().enumerate() {
            put(*address, 0, directory.blocks.bytes(number))?;
        }
    }
    indirect_blocks.iter().try_for_each(|(block, bytes)| put(*block, 0, bytes))
}

/// Returns the inode of an empty file.
fn file_inode() -> Vec<u8> {
    let mut fields = Fields::new(INODE);
    fields.put16(0, 0o100_644);
    fields.put16(26, 1);
    fields.0
}

/// Returns the superblock (ext2_super_block).
fn superblock(ext2: &Ext2, volume: &Volume, group: u64) -> Vec<u8> {
    let layout = volume.layout;
    let inodes = layout.groups * layout.inodes_per_group();
    let group_counts = || (0..layout.groups).map(|group| volume.group_counts(group));
    let mut fields = Fields::new(1024);
    fields.put32(0, inodes);
    fields.put32(4, layout.blocks());
    fields.put32(12, group_counts().map(|(blocks, _, _)| blocks).sum());
    fields.put32(16, group_counts().map(|(_, inodes, _)| inodes).sum());
    fields.put32(20, layout.first_block());
    let log_block_size = u64::from(layout.block_size.trailing_zeros()) - 10;
    fields.put32(24, log_block_size);
    fields.put32(28, log_block_size);
    fields.put32(32, layout.blocks_per_group());
    fields.put32(36, layout.blocks_per_group());
    fields.put32(40, layout.inodes_per_group());
    fields.put16(54, 0xffff); // checks by mount count disabled
    fields.put16(56, 0xef53);
    fields.put16(58, 1); // clean
    fields.put16(60, 1); // on errors: continue
    fields.put32(76, 1); // revision with features
    fields.put32(84, u64::from(FIRST_INODE));
    fields.put16(88, INODE);
    fields.put16(90, group);
    fields.put32(92, if ext2.variant().index { DIR_INDEX.into() } else { 0 });
    fields.put32(96, FILETYPE.into());
    fields.0[104..120].copy_from_slice(b"fsdyno model uid");
    for (at, word) in ext2.seed().iter().enumerate() {
        fields.put32(236 + 4 * at, u64::from(*word));
    }
    fields.0[252] = 1; // half-MD4
    fields.put32(352, SIGNED_HASH.into());
    fields.0
}

fn descriptors(volume: &Volume) -> Vec<u8> {
    let layout = volume.layout;
    let mut fields = Fields::new(layout.groups * DESCRIPTOR);
    for group in 0..layout.groups {
        let at = (group * DESCRIPTOR) as usize;
        let (blocks, inodes, directories) = volume.group_counts(group);
        fields.put32(at, layout.block_bitmap(group));
        fields.put32(at + 4, layout.inode_bitmap(group));
        fields.put32(at + 8, layout.inode_table(group));
        fields.put16(at + 12, blocks);
        fields.put16(at + 14, inodes);
        // The volume does not count the root directory, which mke2fs creates.
        fields.put16(at + 16, directories + u64::from(group == 0));
    }
    fields.0
}

/// Returns a directory's inode, with its block map: twelve direct blocks, then an indirect block, then a
/// double-indirect one.
fn directory_inode(
    directory: &Directory,
    indirect_blocks: &mut Vec<(u64, Vec<u8>)>,
    block_size: u64,
    new_block: &mut dyn FnMut() -> io::Result<u64>,
) -> io::Result<Vec<u8>> {
    let mut fields = Fields::new(INODE);
    let addresses = &directory.addresses;
    let addresses_per_block = (block_size / 4) as usize;
    let mut indirect_count = 0;
    let mut add_indirect_block = |addresses: &[u64]| -> io::Result<u64> {
        let block = new_block()?;
        indirect_count += 1;
        let mut fields = Fields::new(block_size);
        addresses.iter().enumerate().for_each(|(at, address)| fields.put32(4 * at, *address));
        indirect_blocks.push((block, fields.0));
        Ok(block)
    };
    for (at, address) in addresses.iter().take(12).enumerate() {
        fields.put32(40 + 4 * at, *address);
    }
    let remaining = addresses.get(12..).unwrap_or_default();
    if !remaining.is_empty() {
        fields.put32(
            40 + 48,
            add_indirect_block(&remaining[..remaining.len().min(addresses_per_block)])?,
        );
    }
    let remaining = remaining.get(addresses_per_block..).unwrap_or_default();
    if !remaining.is_empty() {
        let single_indirect: Vec<u64> = remaining
            .chunks(addresses_per_block)
            .map(&mut add_indirect_block)
            .collect::<io::Result<_>>()?;
        fields.put32(40 + 52, add_indirect_block(&single_indirect)?);
    }
    fields.put16(0, 0o040_755);
    fields.put32(4, addresses.len() as u64 * block_size);
    fields.put16(26, u64::from(directory.links));
    fields.put32(28, (addresses.len() as u64 + indirect_count) * block_size / 512);
    fields.put32(32, if directory.find.has_index() { INDEX_FLAG.into() } else { 0 });
    Ok(fields.0)
}

/// Checks that, in the model's directories, records fill their blocks, names are unique,
/// inodes exist, and the search finds every name. Returns a description of each fault.
pub fn check(ext2: &Ext2) -> Vec<String> {
    let mut faults = Vec::new();
    for (inode, directory) in &ext2.directories {
        let mut names = BTreeSet::new();
        for number in 0..directory.blocks.count() {
            let bytes = directory.blocks.bytes(number);
            let mut end = 0;
            for (at, entry) in dirent::entries(bytes) {
                end = at + entry.record;
                if entry.record < entry.min_length() || entry.record % 4 != 0 {
                    faults.push(format!(
                        "directory {inode}, block {number}: a record is too short or not 4-aligned"
                    ));
                }
                let inode_exists = ext2.files.contains(&entry.inode)
                    || ext2.directories.contains_key(&entry.inode);
                if entry.inode != 0 && !inode_exists {
                    faults.push(format!(
                        "directory {inode}: an entry refers to inode {}, which does not exist",
                        entry.inode
                    ));
                }
                if entry.inode != 0 && !names.insert(entry.name.to_vec()) {
                    faults.push(format!("directory {inode}: a name occurs twice"));
                }
            }
            if end != bytes.len() {
                faults.push(format!("directory {inode}, block {number} is not filled"));
            }
        }
        let mut blocks = directory.blocks.clone();
        let mut find = (ext2.variant().make)(ext2.seed());
        // The search starts in its state after a mount, in which only the existence of an index is known.
        find.on_mount(directory.find.has_index());
        let is_dots = |name: &[u8]| matches!(name, b"." | b"..");
        for name in names.iter().filter(|name| !is_dots(name)) {
            if find.find(&mut blocks, name).is_none() {
                let hash = half_md4(name, ext2.seed());
                let name = String::from_utf8_lossy(name);
                faults.push(format!("directory {inode}: {name} (hash {hash:x}) is not found"));
            }
        }
    }
    faults
}
