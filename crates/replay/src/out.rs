//! Writes the compiled form of a recording.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use fsdyno_record::OpKind;
use fsdyno_workload::MemoryFs;
use fsdyno_workload::memory_fs::{NodeKind, ROOT};
use fsdyno_workload::replay::format::{
    HEADER_SIZE, MAGIC, MAX_PATH, OP_SIZE, OpRecord, SECTIONS, TreeNode,
};
use fsdyno_workload::replay::{Boundary, Section};

use crate::ReplayError;
use crate::order::Point;
use crate::starts::MAX_STARTS;

/// Bytes of a rank's ops that are buffered before they are written.
const BUFFER: usize = OP_SIZE * 1024;

/// The compiled form under construction. Sections follow one another; each rank's ops have reserved space.
pub struct CompiledWriter {
    file: BufWriter<File>,
    at: u64,
    sections: [(u64, u64); SECTIONS],
    strings: Vec<u8>,
    known: HashMap<Box<[u8]>, u32>,
    ranks: Vec<RankOut>,
    waits: BufWriter<File>,
    wait_count: u32,
    pieces: Vec<u8>,
    boundaries: Vec<u8>,
    /// The facts, by name.
    pub facts: BTreeMap<String, String>,
}

/// The space of a rank's ops.
struct RankOut {
    /// Offset in the file.
    from: u64,
    /// Number of ops written.
    count: u64,
    capacity: u64,
    buffer: Vec<u8>,
}

fn limit_error(text: &str) -> ReplayError {
    ReplayError::Limit(text.to_string())
}

impl CompiledWriter {
    /// Creates a writer to an empty file.
    pub fn new(file: &File) -> Result<CompiledWriter, ReplayError> {
        let mut out = CompiledWriter {
            file: BufWriter::with_capacity(1 << 16, file.try_clone()?),
            at: 0,
            sections: [(0, 0); SECTIONS],
            strings: Vec::new(),
            known: HashMap::new(),
            ranks: Vec::new(),
            waits: BufWriter::new(tempfile::tempfile()?),
            wait_count: 0,
            pieces: Vec::new(),
            boundaries: Vec::new(),
            facts: BTreeMap::new(),
        };
        out.put(&[0; HEADER_SIZE])?;
        // The string at offset 0 stands for a missing name.
        out.strings.extend_from_slice(&[1, 0, b'.']);
        out.known.insert(b".".as_slice().into(), 0);
        Ok(out)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), ReplayError> {
        self.at += bytes.len() as u64;
        self.file.write_all(bytes)?;
        Ok(())
    }

    /// Returns the offset of a path or another string; each is stored once.
    pub fn string(&mut self, text: &[u8]) -> Result<u32, ReplayError> {
        if let Some(at) = self.known.get(text) {
            return Ok(*at);
        }
        if text.len() > MAX_PATH {
            let begin = String::from_utf8_lossy(&text[..60]).escape_debug().to_string();
            return Err(ReplayError::Limit(format!(
                "has the path '{begin}...' of {} bytes; a replay supports at most {MAX_PATH}",
                text.len()
            )));
        }
        let at = u32::try_from(self.strings.len());
        let at = at.map_err(|_| limit_error("has more than 4 GiB of distinct paths"))?;
        self.strings.extend_from_slice(&(text.len() as u16).to_le_bytes());
        self.strings.extend_from_slice(text);
        self.known.insert(text.into(), at);
        Ok(at)
    }

    /// Returns the offset of a string; for an empty string 0, which stands for a missing name.
    pub fn optional(&mut self, text: &[u8]) -> Result<u32, ReplayError> {
        if text.is_empty() { Ok(0) } else { self.string(text) }
    }

    /// Writes an op of the initial tree.
    pub fn initial(&mut self, record: &OpRecord) -> Result<(), ReplayError> {
        self.put(&record.bytes())
    }

    /// Ends the initial tree and reserves the space of all ranks: that of their calls, and of the directories that they
    /// open.
    pub fn begin_ranks(&mut self, capacities: &[u64]) -> Result<(), ReplayError> {
        self.sections[Section::Initial as usize] =
            (HEADER_SIZE as u64, self.at - HEADER_SIZE as u64);
        self.file.flush()?;
        let mut from = self.at;
        for capacity in capacities.iter().map(|calls| calls + u64::from(MAX_STARTS)) {
            self.ranks.push(RankOut { from, count: 0, capacity, buffer: Vec::new() });
            from += capacity * OP_SIZE as u64;
        }
        self.sections[Section::Ops as usize] = (self.at, from - self.at);
        self.file.get_ref().set_len(from)?;
        self.file.seek(SeekFrom::Start(from))?;
        self.at = from;
        Ok(())
    }

    /// Adds points to wait for; returns the index of the first one.
    pub fn waits(&mut self, points: &[Point]) -> Result<u32, ReplayError> {
        let first = self.wait_count;
        for (at, (rank, ops)) in points.iter().enumerate() {
            let mut bytes = [0; 8];
            bytes[..2].copy_from_slice(&rank.to_le_bytes());
            bytes[2] = u8::from(at + 1 == points.len());
            bytes[4..].copy_from_slice(&ops.to_le_bytes());
            self.waits.write_all(&bytes)?;
        }
        let count = first.checked_add(points.len() as u32);
        self.wait_count =
            count.ok_or_else(|| limit_error("has more than 2^32 points to wait for"))?;
        Ok(first)
    }

    /// Adds a position at which a phase can begin: the number of ops of each rank, and of each kind, up to there.
    pub fn boundary(
        &mut self,
        is_mark: bool,
        name: &[u8],
        ops: &[u32],
        counts: &BTreeMap<OpKind, u64>,
    ) -> Result<(), ReplayError> {
        let name = self.string(name)?;
        self.boundaries.extend_from_slice(&Boundary::bytes(is_mark, name, ops, counts));
        Ok(())
    }

    /// Writes the next op of a rank.
    pub fn op(&mut self, rank: u16, record: &OpRecord) -> Result<(), ReplayError> {
        let file = self.file.get_ref();
        let Some(out) = self.ranks.get_mut(usize::from(rank)) else { return Ok(()) };
        out.buffer.extend_from_slice(&record.bytes());
        if out.count + (out.buffer.len() / OP_SIZE) as u64 > out.capacity {
            return Err(limit_error("has more calls than the first pass found; this is a bug"));
        }
        if out.buffer.len() >= BUFFER { out.flush(file) } else { Ok(()) }
    }

    /// Writes a tree: its nodes, sorted by path, and the pieces of its files.
    pub fn tree(&mut self, section: Section, fs: &MemoryFs) -> Result<(), ReplayError> {
        let mut paths: Vec<(Vec<u8>, usize)> = fs.walk(ROOT).collect();
        paths.sort_unstable();
        let mut nodes = Vec::with_capacity(paths.len());
        let mut pieces_by_inode: HashMap<usize, (u32, u32)> = HashMap::new();
        for (path, inode) in paths {
            let Some(node) = fs.node(inode) else { continue };
            let mut flat = TreeNode {
                path: self.string(&path)?,
                mode: node.mode,
                links: node.links,
                group: inode as u32,
                ..TreeNode::default()
            };
            match &node.kind {
                NodeKind::Directory(_) => {}
                NodeKind::Symlink(target) => (flat.kind, flat.target) = (2, self.string(target)?),
                NodeKind::File(content) => {
                    (flat.kind, flat.size) = (1, content.size());
                    let known = pieces_by_inode.get(&inode).copied();
                    (flat.first_piece, flat.pieces) = match known {
                        Some(known) => known,
                        None => self.pieces_of(content)?,
                    };
                    pieces_by_inode.insert(inode, (flat.first_piece, flat.pieces));
                }
                NodeKind::Archive(archive) => (flat.kind, flat.size) = (1, archive.size),
            }
            nodes.push(flat);
        }
        let from = self.at;
        for node in nodes {
            self.put(&node.bytes())?;
        }
        self.sections[section as usize] = (from, self.at - from);
        Ok(())
    }

    fn pieces_of(
        &mut self,
        content: &fsdyno_workload::memory_fs::Content,
    ) -> Result<(u32, u32), ReplayError> {
        let first = self.pieces.len() / fsdyno_workload::replay::format::PIECE_SIZE;
        let (mut at, mut count) = (0, 0);
        while let Some(piece) = content.piece(at) {
            for number in [at, piece.id, piece.offset, u64::from(piece.length)] {
                self.pieces.extend_from_slice(&number.to_le_bytes());
            }
            at += u64::from(piece.length);
            count += 1;
        }
        let first = u32::try_from(first);
        Ok((first.map_err(|_| limit_error("has files of more than 2^32 pieces"))?, count))
    }

    fn section(&mut self, section: Section, bytes: &[u8]) -> Result<(), ReplayError> {
        self.sections[section as usize] = (self.at, bytes.len() as u64);
        self.put(bytes)
    }

    /// Writes the remaining sections; returns the length of the file.
    pub fn finish(mut self) -> Result<u64, ReplayError> {
        let mut ranks = Vec::new();
        let ops = self.sections[Section::Ops as usize].0;
        for rank in &mut self.ranks {
            rank.flush(self.file.get_ref())?;
            ranks.extend_from_slice(&((rank.from - ops) / OP_SIZE as u64).to_le_bytes());
            ranks.extend_from_slice(&rank.count.to_le_bytes());
        }
        let (strings, pieces) =
            (std::mem::take(&mut self.strings), std::mem::take(&mut self.pieces));
        let facts: String =
            self.facts.iter().map(|(fact, value)| format!("{fact} {value}\n")).collect();
        self.section(Section::Ranks, &ranks)?;
        self.section(Section::Strings, &strings)?;
        self.section(Section::Pieces, &pieces)?;
        let boundaries = std::mem::take(&mut self.boundaries);
        self.section(Section::Boundaries, &boundaries)?;
        self.section(Section::Facts, facts.as_bytes())?;
        self.put_waits()?;
        let mut head = MAGIC.to_vec();
        for (from, length) in self.sections {
            head.extend_from_slice(&from.to_le_bytes());
            head.extend_from_slice(&length.to_le_bytes());
        }
        self.file.flush()?;
        self.file.get_ref().write_all_at(&head, 0)?;
        Ok(self.at)
    }

    fn put_waits(&mut self) -> Result<(), ReplayError> {
        self.waits.flush()?;
        let (mut at, end) = (0, u64::from(self.wait_count) * 8);
        self.sections[Section::Waits as usize] = (self.at, end);
        let mut chunk = vec![0; 1 << 16];
        while at < end {
            let length = (end - at).min(chunk.len() as u64) as usize;
            self.waits.get_ref().read_exact_at(&mut chunk[..length], at)?;
            self.file.write_all(&chunk[..length])?;
            at += length as u64;
        }
        self.at += end;
        Ok(())
    }
}

impl RankOut {
    fn flush(&mut self, file: &File) -> Result<(), ReplayError> {
        file.write_all_at(&self.buffer, self.from + self.count * OP_SIZE as u64)?;
        self.count += (self.buffer.len() / OP_SIZE) as u64;
        self.buffer.clear();
        Ok(())
    }
}
