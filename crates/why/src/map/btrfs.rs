//! Maps btrfs: `btrfs inspect-internal dump-tree` prints every tree; the chunk tree maps logical addresses to the
//! device.

use std::fs::File;

use super::tool::{MapError, Tool};
use super::{Map, Range, Structure, number};

const BTRFS: Tool = Tool::new("btrfs");

/// Offsets of the superblocks, and their size (btrfs's on-disk format).
const SUPERBLOCK_OFFSETS: [u64; 3] = [64 << 10, 64 << 20, 256 << 30];
const SUPERBLOCK_SIZE: u64 = 4096;

/// A chunk: its logical addresses, and the starts of its copies on the device.
struct Chunk {
    logical: Range,
    copies: Vec<u64>,
    system: bool,
    metadata: bool,
}

/// Reads the map of an image.
pub fn read(image: &File) -> Result<Map, MapError> {
    let size = image.metadata().map_err(|source| MapError::Host { tool: "btrfs", source })?.len();
    let dump = BTRFS.run(&["inspect-internal", "dump-tree", "{image}"], image, "")?;
    let node_size = dump.text.lines().find_map(|line| line.strip_prefix("nodesize "));
    let node_size =
        node_size.and_then(number).or_else(|| read_node_size(image)).unwrap_or(16 << 10);
    parse(&dump.text, node_size, size).ok_or_else(|| BTRFS.unreadable(&dump))
}

/// Parses a dump, given the tree block size and the device size; `None` if it has no chunk.
fn parse(text: &str, node_size: u64, size: u64) -> Option<Map> {
    let chunks = chunks(text);
    if chunks.is_empty() {
        return None;
    }
    let mut map = Map::default();
    // A freed tree block lies in a chunk that holds only tree blocks.
    for chunk in chunks.iter().filter(|chunk| chunk.metadata) {
        let kind = if chunk.system { Structure::RootTree } else { Structure::FreedTree };
        assign(&mut map, &chunks, &chunk.logical, Some(kind));
    }
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["leaf" | "node", address, .., "owner", owner] if words.contains(&"items") => {
                if let Ok(address) = address.parse::<u64>() {
                    assign(
                        &mut map,
                        &chunks,
                        &(address..address + node_size),
                        structure_of_tree(owner),
                    );
                }
            }
            ["extent", "data", "disk", "byte", address, "nr", length] => {
                if let (Ok(address), Ok(length)) = (address.parse::<u64>(), length.parse::<u64>())
                    && address > 0
                {
                    assign(&mut map, &chunks, &(address..address + length), Some(Structure::Data));
                }
            }
            _ => {}
        }
    }
    for offset in SUPERBLOCK_OFFSETS.into_iter().filter(|offset| offset + SUPERBLOCK_SIZE <= size) {
        map.assign(offset..offset + SUPERBLOCK_SIZE, Structure::Superblock);
    }
    Some(map)
}

/// Returns the size of a tree block, from the superblock (offset 0x94 of struct btrfs_super_block).
fn read_node_size(image: &File) -> Option<u64> {
    use std::os::unix::fs::FileExt;
    let mut bytes = [0; 4];
    image.read_exact_at(&mut bytes, SUPERBLOCK_OFFSETS[0] + 0x94).ok()?;
    let size = u64::from(u32::from_le_bytes(bytes));
    (4096..=65536).contains(&size).then_some(size)
}

/// Returns the structure of a tree; `None` for an unknown tree, whose blocks stay unattributed.
fn structure_of_tree(owner: &str) -> Option<Structure> {
    Some(match owner {
        "ROOT_TREE" | "CHUNK_TREE" | "DEV_TREE" | "UUID_TREE" => Structure::RootTree,
        "EXTENT_TREE" | "FREE_SPACE_TREE" | "BLOCK_GROUP_TREE" => Structure::ExtentTree,
        "CSUM_TREE" => Structure::ChecksumTree,
        "TREE_LOG" => Structure::LogTree,
        "FS_TREE" | "DATA_RELOC_TREE" => Structure::FsTree,
        // Subvolumes and snapshots have numbers instead of names.
        number if number.bytes().all(|byte| byte.is_ascii_digit()) => Structure::FsTree,
        _ => return None,
    })
}

/// Assigns logical addresses to a structure, in each copy on the device; `None` clears their structure.
fn assign(map: &mut Map, chunks: &[Chunk], logical: &Range, structure: Option<Structure>) {
    for chunk in chunks {
        let (start, end) =
            (logical.start.max(chunk.logical.start), logical.end.min(chunk.logical.end));
        if start < end {
            for copy in &chunk.copies {
                let offset = copy + (start - chunk.logical.start);
                let bytes = offset..offset + (end - start);
                match structure {
                    Some(structure) => map.assign(bytes, structure),
                    None => map.clear(bytes),
                }
            }
        }
    }
}

/// Parses the chunks of a single device whose stripes are whole copies (single and DUP).
fn chunks(text: &str) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut in_chunk = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("item ") {
            in_chunk = false;
            let address = line.split_once(" CHUNK_ITEM ").and_then(|(_, address)| number(address));
            if let Some(address) = address {
                let (system, metadata) = (false, false);
                chunks.push(Chunk {
                    logical: address..address,
                    copies: Vec::new(),
                    system,
                    metadata,
                });
                in_chunk = true;
            }
            continue;
        }
        let Some(chunk) = chunks.last_mut().filter(|_| in_chunk) else { continue };
        if let Some(rest) = line.strip_prefix("length ") {
            chunk.logical.end = chunk.logical.start + number(rest).unwrap_or(0);
            let kind = rest.split_once(" type ").map_or("", |(_, kind)| kind);
            chunk.system = kind.contains("SYSTEM");
            chunk.metadata = chunk.system || kind.contains("METADATA");
        } else if line.starts_with("stripe ")
            && let Some((_, address)) = line.split_once(" offset ")
        {
            chunk.copies.extend(number(address));
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_unknown_trees_stay_unattributed_and_blocks_without_a_tree_were_freed() {
        let text = "\
\titem 0 key (FIRST_CHUNK_TREE CHUNK_ITEM 1048576) itemoff 16105 itemsize 80
\t\tlength 65536 owner 2 stripe_len 65536 type METADATA|single
\t\tio_align 65536 io_width 65536 sector_size 4096
\t\t\tstripe 0 devid 1 offset 2097152
leaf 1048576 items 3 free space 15000 generation 5 owner FS_TREE
leaf 1064960 items 3 free space 15000 generation 5 owner 256
leaf 1081344 items 3 free space 15000 generation 5 owner UNKNOWN_TREE
";
        let map = parse(text, 16 << 10, 16 << 20).unwrap();
        let structure_at = |block: u64| map.at(2_097_152 + block * (16 << 10)).0;
        use Structure::*;
        assert_eq!(
            [0, 1, 2, 3].map(structure_at),
            [Some(FsTree), Some(FsTree), None, Some(FreedTree)]
        );
        assert!(parse("no chunk at all", 16 << 10, 16 << 20).is_none());
    }
}
