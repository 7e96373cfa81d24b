//! btrfs: `btrfs inspect-internal dump-tree` prints every tree; the chunk tree says where on the device
//! the addresses lie that all others speak of.

use std::fs::File;

use super::tool::{MapError, Tool};
use super::{Map, Range, Structure, number};

const BTRFS: Tool = Tool::new("btrfs", "btrfs-progs");

/// Where superblocks lie, and their size (btrfs's on-disk format).
const SUPERBLOCKS: [u64; 3] = [64 << 10, 64 << 20, 256 << 30];
const SUPERBLOCK: u64 = 4096;

/// A chunk: the addresses it is for, and where on the device its copies begin.
struct Chunk {
    logical: Range,
    copies: Vec<u64>,
    system: bool,
    metadata: bool,
}

/// The map of an image.
pub fn read(image: &File) -> Result<Map, MapError> {
    let size = image.metadata().map_err(|source| MapError::Host { tool: "btrfs", source })?.len();
    let dump = BTRFS.ask(&["inspect-internal", "dump-tree", "{image}"], image, "")?;
    let chunks = chunks(&dump.text);
    if chunks.is_empty() {
        return Err(BTRFS.unreadable(&dump));
    }
    let node = dump.text.lines().find_map(|line| line.strip_prefix("nodesize "));
    let node = node.and_then(number).or_else(|| node_size(image)).unwrap_or(16 << 10);
    let mut map = Map::default();
    // A block of a tree that was freed still lies in a chunk that holds nothing else.
    for chunk in chunks.iter().filter(|chunk| chunk.metadata) {
        let kind = if chunk.system { Structure::RootTree } else { Structure::FreedTree };
        paint(&mut map, &chunks, &chunk.logical, kind);
    }
    for line in dump.text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["leaf" | "node", address, .., "owner", owner] if words.contains(&"items") => {
                if let Ok(address) = address.parse::<u64>() {
                    paint(&mut map, &chunks, &(address..address + node), tree(owner));
                }
            }
            ["extent", "data", "disk", "byte", address, "nr", length] => {
                if let (Ok(address), Ok(length)) = (address.parse::<u64>(), length.parse::<u64>())
                    && address > 0
                {
                    paint(&mut map, &chunks, &(address..address + length), Structure::Data);
                }
            }
            _ => {}
        }
    }
    for at in SUPERBLOCKS.into_iter().filter(|at| at + SUPERBLOCK <= size) {
        map.paint(at..at + SUPERBLOCK, Structure::Superblock);
    }
    Ok(map)
}

/// The size of a tree's block, from the superblock (offset 0x94 of struct btrfs_super_block).
fn node_size(image: &File) -> Option<u64> {
    use std::os::unix::fs::FileExt;
    let mut bytes = [0; 4];
    image.read_exact_at(&mut bytes, SUPERBLOCKS[0] + 0x94).ok()?;
    let size = u64::from(u32::from_le_bytes(bytes));
    (4096..=65536).contains(&size).then_some(size)
}

fn tree(owner: &str) -> Structure {
    match owner {
        "ROOT_TREE" | "CHUNK_TREE" | "DEV_TREE" | "UUID_TREE" => Structure::RootTree,
        "EXTENT_TREE" | "FREE_SPACE_TREE" | "BLOCK_GROUP_TREE" => Structure::ExtentTree,
        "CSUM_TREE" => Structure::ChecksumTree,
        "TREE_LOG" => Structure::LogTree,
        _ => Structure::FsTree,
    }
}

/// Paints addresses where they lie on the device, each copy.
fn paint(map: &mut Map, chunks: &[Chunk], logical: &Range, structure: Structure) {
    for chunk in chunks {
        let (start, end) =
            (logical.start.max(chunk.logical.start), logical.end.min(chunk.logical.end));
        if start < end {
            for copy in &chunk.copies {
                let at = copy + (start - chunk.logical.start);
                map.paint(at..at + (end - start), structure);
            }
        }
    }
}

/// The chunks of one device whose stripes are whole copies (single and DUP).
fn chunks(text: &str) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("item ") {
            open = false;
            let at = line.split_once(" CHUNK_ITEM ").and_then(|(_, at)| number(at));
            if let Some(at) = at {
                let (system, metadata) = (false, false);
                chunks.push(Chunk { logical: at..at, copies: Vec::new(), system, metadata });
                open = true;
            }
            continue;
        }
        let Some(chunk) = chunks.last_mut().filter(|_| open) else { continue };
        if let Some(rest) = line.strip_prefix("length ") {
            chunk.logical.end = chunk.logical.start + number(rest).unwrap_or(0);
            let kind = rest.split_once(" type ").map_or("", |(_, kind)| kind);
            chunk.system = kind.contains("SYSTEM");
            chunk.metadata = chunk.system || kind.contains("METADATA");
        } else if line.starts_with("stripe ")
            && let Some((_, at)) = line.split_once(" offset ")
        {
            chunk.copies.extend(number(at));
        }
    }
    chunks
}
