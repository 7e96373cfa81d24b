//! Maps xfs: xfs_db builds its own table of blocks (`blockget`) and prints the requested ones.

use std::fmt::Write;
use std::fs::File;

use super::tool::{MapError, Tool};
use super::{Map, Range, Structure, number};

const XFS_DB: Tool = Tool::new("xfs_db");

/// Sector size of xfs_db (`daddr`).
const SECTOR_SIZE: u64 = 512;

/// Reads the map of the blocks in `requested`. An image whose log has to be replayed cannot be mapped, because xfs_db
/// does not read the log.
pub fn read(image: &File, requested: &[Range]) -> Result<Map, MapError> {
    let superblock =
        XFS_DB.run(&["-r", "{image}"], image, "sb 0\np blocksize agblocks dblocks\n")?;
    let field = |name: &str| {
        let line = superblock.text.lines().find_map(|line| line.trim().strip_prefix(name));
        line.and_then(number)
    };
    let geometry = (field("blocksize ="), field("agblocks ="), field("dblocks ="));
    let (Some(block_size), Some(group), Some(blocks)) = geometry else {
        return Err(XFS_DB.unreadable(&superblock));
    };
    let mut commands = String::from("blockget -n\n");
    for range in block_ranges(requested, block_size, blocks) {
        // xfs_db rejects a count that extends beyond the end of an allocation group.
        let mut block = range.start;
        while block < range.end {
            let end = range.end.min((block / group + 1) * group);
            // Writing to a String cannot fail.
            let _ = writeln!(commands, "daddr {}", block * (block_size / SECTOR_SIZE));
            let _ = writeln!(commands, "blockuse -c {}", end - block);
            block = end;
        }
    }
    let output = XFS_DB.run(&["-r", "{image}"], image, &commands)?;
    let mut map = Map::default();
    let mut has_blocks = false;
    for line in output.text.lines() {
        // `block 16 (0/16) type inode`, or the same with the prompt before it.
        let Some((location, kind)) = line.split_once(" type ") else { continue };
        let Some((_, location)) = location.rsplit_once('(') else { continue };
        let Some((ag, block_in_group)) = location.trim_end_matches(')').split_once('/') else {
            continue;
        };
        let (Ok(ag), Ok(block_in_group)) = (ag.parse::<u64>(), block_in_group.parse::<u64>())
        else {
            continue;
        };
        has_blocks = true;
        let byte = (ag * group + block_in_group) * block_size;
        let kind = kind.split_whitespace().next().unwrap_or("");
        if let Some(structure) = structure(kind) {
            map.assign(byte..byte + block_size, structure);
        }
    }
    if !has_blocks && !requested.is_empty() {
        return Err(XFS_DB.unreadable(&output));
    }
    Ok(map)
}

/// Returns the structure of a block type, named as in xfs_db's db/check.c; `None` for a free block or unknown type.
fn structure(kind: &str) -> Option<Structure> {
    Some(match kind {
        // The block of a group's superblock also holds its agf, agi and agfl.
        "sb" | "agf" | "agi" | "agfl" => Structure::AgHeader,
        "btbno" | "btcnt" | "freelist" => Structure::FreeSpaceTree,
        "btino" | "btfino" => Structure::InodeTree,
        "btrmap" | "btrefcnt" | "cowdata" => Structure::OwnerTree,
        "inode" => Structure::InodeChunk,
        "dir" => Structure::Directory,
        "attr" | "symlink" => Structure::Attribute,
        "btmapa" | "btmapd" => Structure::Extents,
        "log" => Structure::Journal,
        "data" | "rtdata" => Structure::Data,
        "quota" | "rtbitmap" | "rtsum" => Structure::Bitmap,
        // free1, free2, unknown, missing, and types of later versions of xfs_db.
        _ => return None,
    })
}

/// Converts ranges of bytes to ranges of blocks and merges adjacent ones.
fn block_ranges(requested: &[Range], block_size: u64, blocks: u64) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for range in requested {
        let (start, end) = (range.start / block_size, range.end.div_ceil(block_size).min(blocks));
        if start >= end {
            continue;
        }
        match ranges.last_mut().filter(|last| start <= last.end) {
            Some(last) => last.end = last.end.max(end),
            None => ranges.push(start..end),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_blocks_are_queried_at_once() {
        let requested = [0..512, 512..4096, 4096..4097, 20_000..20_001, 1 << 40..1 << 41];
        assert_eq!(block_ranges(&requested, 4096, 100), [0..2, 4..5]);
    }

    #[test]
    fn a_block_of_unknown_kind_stays_unattributed() {
        assert_eq!(structure("btcnt"), Some(Structure::FreeSpaceTree));
        for kind in ["free1", "unknown", "missing", "not_yet_known", ""] {
            assert_eq!(structure(kind), None, "{kind}");
        }
    }
}
