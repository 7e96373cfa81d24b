//! The paths of calls, and the entries that each path lookup reads.

use fsdyno_trace::At;
use fsdyno_workload::memory_fs::{Inode, ROOT as ROOT_INODE};

use crate::compile::Compiler;
use crate::order::{Access, Resource};
use crate::plan::{Skip, Touch};

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
}
