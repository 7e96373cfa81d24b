//! Replays stores to mapped files as writes when the mapping is synced or ends, because no recorder observes stores.

use fsdyno_trace::{At, Call, Event, FileId, NodeId};
use fsdyno_workload::memory_fs::Inode;
use fsdyno_workload::{Call as OpCall, OpenFlags, RareCall};

use crate::compile::Compiler;
use crate::initial::ROOT;
use crate::order::{Access, Resource};
use crate::plan::{Compare, Opened, Plan, Plans, Touch, plan};

impl Compiler {
    /// Stores the name of an open file, for a mapping that outlives it.
    pub(crate) fn opened_as(&mut self, file: FileId, at: &At) {
        let (Some(dir), Some(name)) = (self.nodes.get(&at.dir), &at.name) else { return };
        self.places.insert(file, (*dir, name.bytes().to_vec()));
    }

    /// Records the start of a mapping.
    pub(crate) fn map(&mut self, file: FileId, stores: bool) {
        if let (true, Some(open), Some(place)) =
            (stores, self.files.get(&file), self.places.get(&file))
        {
            self.mapped.insert(open.inode, place.clone());
        }
    }

    /// Returns the writes for a mapping that is synced or ends: the whole mapping, up to the end of the file, because
    /// it is not known which bytes were stored.
    pub(crate) fn plan_stores(&mut self, event: &Event) -> Plans {
        const NONE: &str = "calls-on-memory-mapped-files";
        let (node, offset, length, sync) = match event.call {
            Call::Unmap { node, offset, length, stores: true, .. } => (node, offset, length, false),
            Call::Msync { node, offset, length, stores: true, synchronous } => {
                (node, offset, length, synchronous)
            }
            _ => return Err(NONE),
        };
        let inode = self.inode_of(node).ok_or("mappings-of-files-that-the-tree-does-not-have")?;
        let size = self.fs.node(inode).and_then(|node| node.size()).unwrap_or(0);
        let length = length.min(size.saturating_sub(offset)).min(0x7fff_f000);
        if length == 0 {
            return Err(NONE);
        }
        // The lowest number makes the choice deterministic.
        let writer = |(id, open): (&FileId, &Opened)| {
            let is_writer = self.fs.open_file(0, open.slot).is_some_and(|state| state.write);
            (open.inode == inode && is_writer).then_some((id.0, *open))
        };
        let writer = self.files.iter().filter_map(writer).min_by_key(|(id, _)| *id);
        let (open, name) = match writer {
            Some((_, open)) => (open, None),
            None => {
                let name = self.name_of(inode).ok_or("stores-to-mapped-files-without-a-name")?;
                (Opened { slot: self.assign_slot()?, inode }, Some(name))
            }
        };
        let class = 0;
        let payload = self.payload(inode, class, offset, length as u32);
        let touches = || {
            vec![
                (Resource::slot(open.slot.0), Access::Read),
                (Resource::data(inode), Access::Change),
            ]
        };
        let write = OpCall::WriteAt { file: open.slot, offset, payload };
        let mut plans = vec![plan(write, touches(), Compare::Success)];
        if sync {
            let call = RareCall::Fdatasync { file: open.slot };
            plans.push(plan(OpCall::Rare(call), touches(), Compare::Success));
        }
        if let Some((name, mut to_open)) = name {
            let flags = OpenFlags { write: true, nofollow: true, ..OpenFlags::NONE };
            to_open.push((Resource::slot(open.slot.0), Access::Change));
            let call = OpCall::Open { dir: ROOT, file: open.slot, flags };
            plans.insert(0, Plan { name, ..plan(call, to_open, Compare::Success) });
            let touches = vec![(Resource::slot(open.slot.0), Access::Change)];
            plans.push(plan(OpCall::Close { file: open.slot }, touches, Compare::Success));
        }
        self.stored = self.stored.saturating_add(length);
        Ok(plans)
    }

    fn inode_of(&self, node: NodeId) -> Option<Inode> {
        self.nodes.get(&node).copied()
    }

    /// Returns the path by which a mapped file was opened, if it still names that file, and the entries that lead to
    /// it.
    fn name_of(&mut self, inode: Inode) -> Option<(Vec<u8>, Vec<Touch>)> {
        let (dir, name) = self.mapped.get(&inode)?.clone();
        let (path, touches) = self.path_in(dir, Some(&name), Access::Read).ok()?;
        (self.fs.find(&path) == Some(inode)).then_some((path, touches))
    }
}
