//! The tree of a working set: the files live at one point in time, looked up by name.

use crate::op::Payload;
use crate::steady::parts::Parts;
use crate::steady::paths::Path;
use crate::steady::population::{File, Population};
use crate::workload::{Expected, Links, Tree};

/// The files live at one point in time.
pub struct LiveTree<'a> {
    parts: &'a Parts,
    populations: Vec<Population>,
    names: u64,
}

impl<'a> LiveTree<'a> {
    /// Creates the tree from the populations of all parts, in their order.
    pub fn new(parts: &'a Parts, mut populations: Vec<Population>) -> LiveTree<'a> {
        populations.iter_mut().for_each(Population::sort);
        let names = populations.iter().map(Population::names).sum();
        LiveTree { parts, populations, names }
    }

    fn find(&self, path: Path) -> Option<(u32, &Population, File)> {
        let Path::File { directory, serial, name } = path else { return None };
        let part = self.parts.part_with(directory);
        let population = self.populations.get(part as usize)?;
        let expected_directory = self.parts.directory(part, population.random_word(serial, name));
        let file = population.find(serial, name).filter(|_| expected_directory == directory)?;
        Some((part, population, file))
    }
}

impl Tree for LiveTree<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let path = self.parts.paths.parse(path)?;
        if let Path::Directory(_) = path {
            return Some(Expected::DIRECTORY);
        }
        let (part, population, file) = self.find(path)?;
        let expected = match file.has_head() {
            true => Expected::pieces(u64::from(file.length)),
            false => Expected::file(population.content(file, 0)),
        };
        // A file with one name has no links entry, because a verifier stores every group that it receives.
        let group = u64::from(part) << 32 | u64::from(file.serial);
        match file.link_count() {
            1 => Some(expected),
            count => Some(expected.with_links(Links { group, count: u64::from(count) })),
        }
    }

    fn files(&self) -> u64 {
        self.names
    }

    fn directories(&self) -> u64 {
        self.parts.directories
    }

    fn piece(&self, path: &[u8], offset: u64) -> Option<Payload> {
        let (_, population, file) = self.find(self.parts.paths.parse(path)?)?;
        Some(population.content(file, u32::try_from(offset).ok()?))
    }
}
