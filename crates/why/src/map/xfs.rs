//! Maps xfs: xfs_db builds its own table of blocks (`blockget`) and prints the requested ones.

use std::fmt::Write;
use std::fs::File;

use super::tool::{MapError, Tool};
use super::{Map, Range, Structure, number};

const XFS_DB: Tool = Tool::new("xfs_db");

/// Sector size of xfs_db (`daddr`).
const SECTOR: u64 = 512;

/// Reads the map of the blocks in `wanted`. There is no map of an image whose log has to be replayed: xfs_db does not
/// read the log.
pub fn read(image: &File, wanted: &[Range]) -> Result<Map, MapError> {
    let about = XFS_DB.run(&["-r", "{image}"], image, "sb 0\np blocksize agblocks dblocks\n")?;
    let field = |name: &str| {
        let line = about.text.lines().find_map(|line| line.trim().strip_prefix(name));
        line.and_then(number)
    };
    let geometry = (field("blocksize ="), field("agblocks ="), field("dblocks ="));
    let (Some(block), Some(group), Some(blocks)) = geometry else {
        return Err(XFS_DB.unreadable(&about));
    };
    let mut questions = String::from("blockget -n\n");
    for range in block_ranges(wanted, block, blocks) {
        // xfs_db refuses a count that goes beyond the end of a group.
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / group + 1) * group);
            // Writing to a String cannot fail.
            let _ = writeln!(questions, "daddr {}", at * (block / SECTOR));
            let _ = writeln!(questions, "blockuse -c {}", end - at);
            at = end;
        }
    }
    let output = XFS_DB.run(&["-r", "{image}"], image, &questions)?;
    let mut map = Map::default();
    let mut seen = false;
    for line in output.text.lines() {
        // `block 16 (0/16) type inode`, or the same with the prompt before it.
        let Some((place, kind)) = line.split_once(" type ") else { continue };
        let Some((_, place)) = place.rsplit_once('(') else { continue };
        let Some((ag, within)) = place.trim_end_matches(')').split_once('/') else { continue };
        let (Ok(ag), Ok(within)) = (ag.parse::<u64>(), within.parse::<u64>()) else { continue };
        seen = true;
        let byte = (ag * group + within) * block;
        let kind = kind.split_whitespace().next().unwrap_or("");
        if let Some(structure) = structure(kind) {
            map.paint(byte..byte + block, structure);
        }
    }
    if !seen && !wanted.is_empty() {
        return Err(XFS_DB.unreadable(&output));
    }
    Ok(map)
}

/// Maps the names in xfs_db's db/check.c.
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
fn block_ranges(wanted: &[Range], block: u64, blocks: u64) -> Vec<Range> {
    let mut out: Vec<Range> = Vec::new();
    for range in wanted {
        let (start, end) = (range.start / block, range.end.div_ceil(block).min(blocks));
        if start >= end {
            continue;
        }
        match out.last_mut().filter(|last| start <= last.end) {
            Some(last) => last.end = last.end.max(end),
            None => out.push(start..end),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_blocks_are_queried_at_once() {
        let wanted = [0..512, 512..4096, 4096..4097, 20_000..20_001, 1 << 40..1 << 41];
        assert_eq!(block_ranges(&wanted, 4096, 100), [0..2, 4..5]);
    }

    #[test]
    fn a_block_of_unknown_kind_stays_unattributed() {
        assert_eq!(structure("btcnt"), Some(Structure::FreeSpaceTree));
        for kind in ["free1", "unknown", "missing", "of_tomorrow", ""] {
            assert_eq!(structure(kind), None, "{kind}");
        }
    }
}
