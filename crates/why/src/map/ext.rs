//! Maps ext2, ext3 and ext4: dumpe2fs prints the layout of every group, and debugfs the blocks of every inode.

use std::fs::File;

use super::tool::{MapError, Tool, ToolOutput};
use super::{Map, Range, Structure, blocks, number};

const DUMPE2FS: Tool = Tool::new("dumpe2fs");
const DEBUGFS: Tool = Tool::new("debugfs");
const E2FSCK: Tool = Tool::new("e2fsck");

/// The inode of the reserved group descriptors (EXT2_RESIZE_INO in ext2_fs.h).
const RESIZE_INODE: u64 = 7;

/// Reads the map of an image.
pub fn read(image: &File) -> Result<Map, MapError> {
    let mut dump = DUMPE2FS.run(&["{image}"], image, "")?;
    // Blocks still in the journal are not in place yet. The image is a private copy, so the journal can be replayed.
    if field(&dump, "Filesystem features").is_some_and(|list| list.contains("needs_recovery")) {
        let output = E2FSCK.run(&["-f", "-y", "-E", "journal_only", "{image}"], image, "")?;
        dump = DUMPE2FS.run(&["{image}"], image, "")?;
        // If the journal is on another disk, it cannot be replayed here, and the image may be out of date.
        if field(&dump, "Filesystem features").is_some_and(|list| list.contains("needs_recovery")) {
            return Err(E2FSCK.unreadable(&output));
        }
    }
    let layout = Layout::parse(&dump).ok_or_else(|| DUMPE2FS.unreadable(&dump))?;
    let mut map = Map::default();
    let used_inodes = assign_groups(&dump.text, &layout, &mut map);
    let commands: String = used_inodes.iter().map(|inode| format!("stat <{inode}>\n")).collect();
    let output = DEBUGFS.run(&["-f", "-", "{image}"], image, &commands)?;
    if output.text.matches("Type: ").count() == 0 {
        return Err(DEBUGFS.unreadable(&output));
    }
    for text in output.text.split("debugfs: ").skip(1) {
        assign_inode(text, &layout, &mut map);
    }
    Ok(map)
}

/// Geometry from the superblock.
struct Layout {
    block_size: u64,
    inodes_per_group: u64,
    journal: Option<u64>,
    /// The orphan file inode of newer file systems.
    orphan_file: Option<u64>,
}

impl Layout {
    fn parse(dump: &ToolOutput) -> Option<Layout> {
        Some(Layout {
            block_size: field(dump, "Block size").and_then(number)?,
            inodes_per_group: field(dump, "Inodes per group").and_then(number)?,
            journal: field(dump, "Journal inode").and_then(number),
            orphan_file: field(dump, "Orphan file inode").and_then(number),
        })
    }

    fn bytes(&self, blocks: &Range) -> Range {
        blocks.start * self.block_size..blocks.end * self.block_size
    }
}

fn field<'a>(dump: &'a ToolOutput, name: &str) -> Option<&'a str> {
    let line = dump.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::trim)
}

/// Assigns the metadata of the groups to structures and returns the inodes in use.
fn assign_groups(text: &str, layout: &Layout, map: &mut Map) -> Vec<u64> {
    let mut used_inodes = Vec::new();
    let mut group = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Group ") {
            group = number(rest);
        }
        let line = line.trim();
        for (name, structure) in [
            ("Primary superblock at ", Structure::Superblock),
            ("Backup superblock at ", Structure::Superblock),
            ("Group descriptors at ", Structure::GroupDescriptors),
            ("Group descriptor at ", Structure::GroupDescriptors),
            ("Reserved GDT blocks at ", Structure::GroupDescriptors),
            ("Block bitmap at ", Structure::Bitmap),
            ("Inode bitmap at ", Structure::Bitmap),
            ("Inode table at ", Structure::InodeTable),
        ] {
            let Some((_, rest)) = line.split_once(name) else { continue };
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
            if let Some(blocks) = blocks(&rest[..end]) {
                map.assign(layout.bytes(&blocks), structure);
            }
        }
        if let (Some(group), Some(list)) = (group, line.strip_prefix("Free inodes:")) {
            let first = group * layout.inodes_per_group + 1;
            let mut next = first;
            for free in list.split(',').filter_map(blocks) {
                used_inodes.extend(next..free.start);
                next = free.end;
            }
            used_inodes.extend(next..first + layout.inodes_per_group);
        }
    }
    used_inodes
}

/// Assigns the blocks of one inode in the output of debugfs.
fn assign_inode(text: &str, layout: &Layout, map: &mut Map) {
    let Some((_, rest)) = text.split_once("Inode: ") else { return };
    let Some(inode) = number(rest) else { return };
    let kind = rest.split_once("Type: ").map_or("", |(_, kind)| kind.trim_start());
    let structure = match () {
        () if Some(inode) == layout.journal => Some(Structure::Journal),
        () if inode == RESIZE_INODE => Some(Structure::GroupDescriptors),
        () if Some(inode) == layout.orphan_file => Some(Structure::InodeTable),
        () if kind.starts_with("directory") => Some(Structure::Directory),
        () if kind.starts_with("symlink") => Some(Structure::Attribute),
        () if kind.starts_with("regular") => Some(Structure::Data),
        // The inode of bad blocks, and types that only later versions of debugfs print, stay unattributed.
        () => None,
    };
    let attributes = rest.split_once("File ACL: ").and_then(|(_, acl)| number(acl));
    if let Some(block) = attributes.filter(|block| *block > 0) {
        map.assign(layout.bytes(&(block..block + 1)), Structure::Attribute);
    }
    let list = rest.split_once("\nBLOCKS:\n").or_else(|| rest.split_once("\nEXTENTS:\n"));
    let Some((structure, (_, list))) = structure.zip(list) else { return };
    // `(0-11):524-535, (IND):536, (ETB0):33792`
    let list = list.split_once("\nTOTAL").map_or(list, |(list, _)| list);
    for part in list.split([',', '\n']) {
        let Some((logical, physical)) = part.split_once("):") else { continue };
        let Some(blocks) = blocks(physical) else { continue };
        let logical = logical.trim().trim_start_matches('(');
        let structure = match logical.starts_with(|c: char| c.is_ascii_digit()) {
            true => structure,
            false if matches!(structure, Structure::Journal | Structure::GroupDescriptors) => {
                structure
            }
            false => Structure::Extents,
        };
        map.assign(layout.bytes(&blocks), structure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_of_unknown_type_stays_unattributed() {
        let layout =
            Layout { block_size: 4096, inodes_per_group: 100, journal: Some(8), orphan_file: None };
        let ranges_of = |kind: &str, inode: u64| {
            let text = format!(
                "Inode: {inode}   Type: {kind}    Mode:  0644   Flags: 0x80000\nFile ACL: 0\n\
                 EXTENTS:\n(ETB0):9, (0-2):20-22\n"
            );
            let mut map = Map::default();
            super::assign_inode(&text, &layout, &mut map);
            map.ranges()
                .map(|(range, structure)| (range.start / 4096, structure))
                .collect::<Vec<_>>()
        };
        use Structure::*;
        assert_eq!(ranges_of("regular", 12), [(9, Extents), (20, Data)]);
        assert_eq!(ranges_of("directory", 12), [(9, Extents), (20, Directory)]);
        assert_eq!(ranges_of("regular", 8), [(9, Journal), (20, Journal)]);
        assert_eq!(ranges_of("bad type", 1), []);
    }
}
