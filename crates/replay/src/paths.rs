//! The paths of calls, the directories in which they begin, and the entries that each path lookup reads.

use fsdyno_trace::{At, Base, Call, Event};
use fsdyno_workload::memory_fs::{Inode, ROOT as ROOT_INODE};
use fsdyno_workload::replay::code::encode;
use fsdyno_workload::replay::format::OpRecord;
use fsdyno_workload::{Call as OpCall, FileSlot, OpenFlags};

use crate::ReplayError;
use crate::compile::Compiler;
use crate::initial::ROOT;
use crate::order::{Access, Resource};
use crate::plan::{Compare, Plan, Skip, Touch, plan};
use crate::starts::{MAX_STARTS, Start, USES};

/// Returns the recorded arguments for the first and the second name of a call's op.
fn names(call: &Call) -> [Option<&At>; 2] {
    let [first, second] = call.identities().names;
    match call {
        Call::Link { .. } => [second, first],
        _ => [first, second],
    }
}

impl Compiler {
    /// Returns the path of a name, and the touched entries that lead to it.
    pub(crate) fn path(&mut self, at: &At, last: Access) -> Result<(Vec<u8>, Vec<Touch>), Skip> {
        const UNKNOWN: Skip = "calls-below-what-the-tree-does-not-have";
        // A root has no name in the trace: an absolute path to it names the directory itself.
        if let Some(root) = at.node.filter(|node| last == Access::Read && self.roots.contains(node))
        {
            let root = *self.nodes.get(&root).ok_or(UNKNOWN)?;
            return self.path_in(root, None, last);
        }
        let dir = *self.nodes.get(&at.dir).ok_or(UNKNOWN)?;
        let name = at.name.as_ref().map(|name| name.bytes());
        let (mut path, touches) = self.path_in(dir, name, last)?;
        for _ in 0..at.beyond {
            path.extend_from_slice(b"/x");
        }
        Ok((path, touches))
    }

    /// Returns the path of a name in a directory, or of the directory, and the touched entries that lead to it.
    pub(crate) fn path_in(
        &mut self,
        dir: Inode,
        name: Option<&[u8]>,
        last: Access,
    ) -> Result<(Vec<u8>, Vec<Touch>), Skip> {
        let mut path = self.fs.path(dir).ok_or("calls-below-a-removed-directory")?;
        let mut touches = Vec::new();
        if self.counts.len() > 1 {
            let mut inode = dir;
            while let Some((parent, name)) = self.fs.parent_and_name(inode) {
                touches.push((Resource::entry(parent, name), Access::Read));
                inode = parent;
            }
        }
        match name {
            Some(name) => {
                self.longest_name = self.longest_name.max(name.len());
                touches.push((Resource::entry(dir, name), last));
                if last == Access::Change {
                    touches.push((Resource::names(dir), Access::Member));
                }
                path.push(b'/');
                path.extend_from_slice(name);
            }
            None if dir == ROOT_INODE => path.push(b'.'),
            None => {}
        }
        Ok((path, touches))
    }

    /// Lets the paths of a planned op begin where those of the recorded call did, if these directories are open. May
    /// write the op that opens one.
    pub(crate) fn shorten(
        &mut self,
        event: &Event,
        plan: &mut Plan,
        record: &mut OpRecord,
    ) -> Result<(), ReplayError> {
        let [first, second] = names(&event.call);
        if record.dir == ROOT.0
            && let Some((slot, path)) = self.start(event, first, &plan.name)?
        {
            (record.dir, plan.name) = (slot.0, path);
        }
        if record.to == ROOT.0
            && let Some((slot, path)) = self.start(event, second, &plan.other)?
        {
            (record.to, plan.other) = (slot.0, path);
        }
        Ok(())
    }

    /// Returns the slot of the open directory in which a path begins, and the rest of the path.
    fn start(
        &mut self,
        event: &Event,
        at: Option<&At>,
        path: &[u8],
    ) -> Result<Option<(FileSlot, Vec<u8>)>, ReplayError> {
        let Some(base) = at.and_then(|at| self.base(at)) else { return Ok(None) };
        let Some(mut prefix) = self.fs.path(base) else { return Ok(None) };
        prefix.push(b'/');
        let Some(rest) = path.strip_prefix(prefix.as_slice()) else { return Ok(None) };
        let slot = self.start_slot(event, base)?;
        Ok(slot.map(|slot| (slot, rest.to_vec())))
    }

    /// Returns the directory in which the path of a call began, or one above it if the path had `..`; `None` if it began
    /// at `/` or followed links.
    fn base(&self, at: &At) -> Option<Inode> {
        if at.base == Base::Root || at.links > 0 || at.name.is_none() {
            return None;
        }
        let above = at.walked.checked_sub(at.beyond.checked_add(1)?)?;
        let mut inode = *self.nodes.get(&at.dir)?;
        for _ in 0..above {
            inode = self.fs.parent_and_name(inode)?.0;
        }
        (inode != ROOT_INODE).then_some(inode)
    }

    /// Counts a use of a directory, and returns its slot if it is open or is due to be opened.
    fn start_slot(&mut self, event: &Event, base: Inode) -> Result<Option<FileSlot>, ReplayError> {
        let rank = self.rank(event.thread);
        let start = self.starts.known.entry((rank, base)).or_insert(Start::Uses(0));
        match start {
            Start::Open(slot) => return Ok(Some(*slot)),
            Start::Never => return Ok(None),
            Start::Uses(count) if *count < USES => {
                *count += 1;
                return Ok(None);
            }
            Start::Uses(_) => {}
        }
        let slot = self.open_start(event, rank, base)?;
        self.starts.known.insert((rank, base), slot.map_or(Start::Never, Start::Open));
        Ok(slot)
    }

    /// Writes the op that opens a directory, unless the directory is removed later or is not readable, or too many are
    /// open.
    fn open_start(
        &mut self,
        event: &Event,
        rank: u16,
        base: Inode,
    ) -> Result<Option<FileSlot>, ReplayError> {
        let is_readable = self.fs.node(base).is_some_and(|node| node.mode & 0o400 != 0);
        let opened = self.starts.opened.get(&rank).copied().unwrap_or(0);
        if self.starts.removed.contains(&base) || !is_readable || opened >= MAX_STARTS {
            return Ok(None);
        }
        let Ok((path, mut touches)) = self.path_in(base, None, Access::Read) else {
            return Ok(None);
        };
        let Ok(slot) = self.assign_slot() else { return Ok(None) };
        touches.push((Resource::slot(slot.0), Access::Change));
        let flags = OpenFlags { read: true, directory: true, ..OpenFlags::NONE };
        let call = OpCall::Open { dir: ROOT, file: slot, flags };
        let mut record = OpRecord::default();
        encode(call, &mut record);
        let open = Plan { name: path, ..plan(call, touches, Compare::Success) };
        self.write_op(event, open, record)?;
        self.starts.opened.insert(rank, opened + 1);
        Ok(Some(slot))
    }
}
