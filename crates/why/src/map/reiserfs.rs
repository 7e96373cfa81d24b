//! reiserfs: debugreiserfs prints the superblock and, leaf by leaf, the tree with the blocks that
//! indirect items point to.

use std::fs::File;

use super::tool::{MapError, Tool};
use super::{Map, Structure, number};

const DEBUGREISERFS: Tool = Tool::new("debugreiserfs", "reiserfsprogs");

/// Bytes before the superblock's block.
const SUPERBLOCK_AT: u64 = 64 << 10;

/// The map of an image.
pub fn read(image: &File) -> Result<Map, MapError> {
    let dump = DEBUGREISERFS.ask(&["-d", "{image}"], image, "")?;
    of(&dump.text).ok_or_else(|| DEBUGREISERFS.unreadable(&dump))
}

/// The map that a dump tells; none where it is none.
fn of(text: &str) -> Option<Map> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
        line.and_then(number)
    };
    let (block, blocks) = (field("Blocksize:")?, field("Count of blocks on the device:")?);
    let mut map = Map::default();
    let first = SUPERBLOCK_AT / block;
    let mut paint = |from: u64, count: u64, structure| {
        map.paint(from * block..(from + count) * block, structure);
    };
    paint(first, 1, Structure::Superblock);
    // One bitmap after the superblock, the others at the start of each stretch that one is for.
    let covers = block * 8;
    paint(first + 1, 1, Structure::Bitmap);
    (1..blocks.div_ceil(covers)).for_each(|at| paint(at * covers, 1, Structure::Bitmap));
    // `Size 8193 blocks (including 1 for journal header) (first block 18)`
    let journal = text.lines().find(|line| line.contains("(first block "));
    if let Some(line) = journal
        && let Some((size, at)) = line.split_once("(first block ")
        && let (Some(size), Some(at)) = (number(size), number(at))
    {
        paint(at, size, Structure::Journal);
    }
    let mut indirect = false;
    for line in text.lines() {
        if let Some((_, node)) =
            line.split_once("LEAF NODE (").or_else(|| line.split_once("INTERNAL NODE ("))
        {
            indirect = false;
            if let Some(at) = number(node) {
                paint(at, 1, Structure::FsTree);
            }
        } else if line.starts_with('|') && line.contains(", len ") {
            indirect = line.contains(" IND (");
        } else if indirect
            && let Some((_, list)) = line.split_once('[')
            && let Some((list, _)) = list.split_once(']')
        {
            // `8215(3) 9000`: a block, and how many follow one another.
            for run in list.split_whitespace() {
                let Some(at) = number(run).filter(|at| *at > 0) else { continue };
                let count = run.split_once('(').and_then(|(_, count)| number(count)).unwrap_or(1);
                paint(at, count, Structure::Data);
            }
        }
    }
    Some(map)
}
