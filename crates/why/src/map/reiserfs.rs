//! Maps reiserfs: debugreiserfs prints the superblock and, leaf by leaf, the tree, including the blocks to which
//! indirect items point.

use std::fs::File;

use super::tool::{MapError, Tool};
use super::{Map, Structure, number};

const DEBUGREISERFS: Tool = Tool::new("debugreiserfs");

/// The offset of the block with the superblock.
const SUPERBLOCK_OFFSET: u64 = 64 << 10;
/// The offset of the superblock in the oldest format. Every mount reads this offset first (Linux,
/// fs/reiserfs/super.c). The block there is otherwise unused: all space below the superblock is reserved for boot
/// loaders.
const OLD_SUPERBLOCK_OFFSET: u64 = 8 << 10;

/// Reads the map of an image.
pub fn read(image: &File) -> Result<Map, MapError> {
    let dump = DEBUGREISERFS.run(&["-d", "{image}"], image, "")?;
    parse(&dump.text).ok_or_else(|| DEBUGREISERFS.unreadable(&dump))
}

/// Parses a dump; `None` if it has no superblock.
fn parse(text: &str) -> Option<Map> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
        line.and_then(number)
    };
    let (block_size, blocks) = (field("Blocksize:")?, field("Count of blocks on the device:")?);
    let mut map = Map::default();
    let first = SUPERBLOCK_OFFSET / block_size;
    let mut assign = |from: u64, count: u64, structure| {
        map.assign(from * block_size..(from + count) * block_size, structure);
    };
    assign(OLD_SUPERBLOCK_OFFSET / block_size, 1, Structure::Superblock);
    assign(first, 1, Structure::Superblock);
    // The first bitmap follows the superblock; every other bitmap is at the start of the blocks that it describes.
    let blocks_per_bitmap = block_size * 8;
    assign(first + 1, 1, Structure::Bitmap);
    (1..blocks.div_ceil(blocks_per_bitmap))
        .for_each(|index| assign(index * blocks_per_bitmap, 1, Structure::Bitmap));
    // `Size 8193 blocks (including 1 for journal header) (first block 18)`
    let journal = text.lines().find(|line| line.contains("(first block "));
    if let Some(line) = journal
        && let Some((size, index)) = line.split_once("(first block ")
        && let (Some(size), Some(index)) = (number(size), number(index))
    {
        assign(index, size, Structure::Journal);
    }
    let mut in_indirect_item = false;
    for line in text.lines() {
        if let Some((_, node)) =
            line.split_once("LEAF NODE (").or_else(|| line.split_once("INTERNAL NODE ("))
        {
            in_indirect_item = false;
            if let Some(index) = number(node) {
                assign(index, 1, Structure::FsTree);
            }
        } else if line.starts_with('|') && line.contains(", len ") {
            in_indirect_item = line.contains(" IND (");
        } else if in_indirect_item
            && let Some((_, list)) = line.split_once('[')
            && let Some((list, _)) = list.split_once(']')
        {
            // `8215(3) 9000`: a block, with the number of consecutive blocks.
            for run in list.split_whitespace() {
                let Some(index) = number(run).filter(|index| *index > 0) else { continue };
                let count = run.split_once('(').and_then(|(_, count)| number(count)).unwrap_or(1);
                assign(index, count, Structure::Data);
            }
        }
    }
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_files_and_holes_are_distinguished() {
        let text = "\
Reiserfs super block in block 16 on 0x0 of format 3.6 with standard journal
Count of blocks on the device: 65536
Blocksize: 4096
\tSize 8193 blocks (including 1 for journal header) (first block 18)
INTERNAL NODE (32941) contains level=2, nr_items=1, free_space=3872 rdkey
PTR 0: [dc_number=8211, dc_size=3416] KEY 0: [2 273 0x1 DRCT (2)] PTR 1: [dc_number=9000, dc_size=4064]
LEAF NODE (8211) contains level=1, nr_items=3, free_space=4 rdkey (real items 3)
|  0|2 11 0x0 SD (0), len 44, location 4052 entry count 0, fsck need 0, format new|
|  1|2 11 0x1 DRCT (2), len 44, location 4000 entry count 0, fsck need 0, format new|
\"no block: [ 5000(9)]\"
|  2|2 11 0x4001 IND (1), len 60, location 1280 entry count 0, fsck need 0, format new|
15 pointers
[ 34818(3) 0(2) 34900]
";
        let map = parse(text).unwrap();
        let found: Vec<_> = map
            .ranges()
            .map(|(range, structure)| (range.start / 4096, range.end / 4096, structure))
            .collect();
        use Structure::*;
        assert_eq!(
            found,
            [
                (2, 3, Superblock),
                (16, 17, Superblock),
                (17, 18, Bitmap),
                (18, 8211, Journal),
                (8211, 8212, FsTree),
                (32768, 32769, Bitmap),
                (32941, 32942, FsTree),
                (34818, 34821, Data),
                (34900, 34901, Data),
            ]
        );
        assert!(parse("no superblock").is_none());
    }
}
