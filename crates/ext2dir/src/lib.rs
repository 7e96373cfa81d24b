//! A model of ext2 directories as of 2001 and earlier, run without a kernel, on a modelled disk.
//!
//! No current kernel searches a directory as ext2 of 2001 did. This crate implements that search in three variants, on
//! entries in their on-disk format ([`dirent`]): from the first block (`classic`), from where the last search ended
//! (`cached`), and through a hash index (`indexed`), one file each in `find/`. Counts are exact; processor time
//! is those counts times stated costs ([`cost`]), and device time comes from the disk model. The crate makes no system
//! calls, so equal plans and seeds give bit-identical results on any machine. docs/classic-ext2.md states the
//! assumptions.

pub mod blocks;
pub mod cost;
pub mod device;
pub mod dirent;
pub mod ext2;
pub mod find;
pub mod hash;
pub mod image;
pub mod trial;
pub mod volume;

pub use find::{FindEntry, Variant};
pub use trial::{can_run, run};
