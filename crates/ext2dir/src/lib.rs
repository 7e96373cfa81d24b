//! Ext2 directories as they were before and in 2001: a model in this program, on a modelled disk.
//!
//! No kernel that runs today searches a directory as ext2 of 2001 did. Here is that search, three
//! times, on entries as they lie on disk ([`dirent`]): from the first block (`classic`), from where
//! the last search ended (`cached`), and through an index of hashes (`indexed`), one file each below
//! `find/`. What is counted is exact; processor time is those counts times stated costs ([`cost`]),
//! and the device's is the disk's law. Nothing here makes a system call, so equal plans and seeds
//! give equal digits on any machine. What is assumed is in docs/classic-ext2.md.

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
