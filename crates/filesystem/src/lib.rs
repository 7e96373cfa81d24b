//! The catalog of file systems: mkfs, mount, check, versions, modules, and the spec grammar.
//!
//! Pure data and text: this crate runs nothing. The text of a spec is parsed into a [`Spec`]; the catalog's entry for
//! its kind, a [`Filesystem`], turns it into a plan of commands; the agent fills in the device and values drawn from
//! the seed ([`fill`]), runs the commands and calls mount(2) with the flags and data from [`mount::split`].
//!
//! ```
//! use fsdyno_filesystem::{Context, Spec, catalog};
//!
//! let spec = Spec::parse("ext4 -E stride=4 @ noatime")?;
//! let filesystem = catalog::get(&spec.kind)?;
//! let plan = filesystem.plan(&spec, Context::Lab, Some("mke2fs 1.47.0 (5-Feb-2023)"))?;
//! assert_eq!(plan.mkfs[0], "mke2fs");
//! assert_eq!(plan.mount_options, "noatime");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod array;
mod author;
pub mod catalog;
pub mod durability;
mod error;
mod features;
mod fill;
mod foreign;
mod fuse;
mod guarantee;
mod journal_size;
mod known;
pub mod lookup;
pub mod memory;
pub mod mount;
mod mount_options;
mod options;
mod outer_journal;
pub mod period;
mod plan;
mod rederive;
pub mod shared;
mod sizing;
mod spec;
mod version;
mod words;

pub use author::{Author, check_on_host};
pub use catalog::{Backing, Filesystem, MapFormat};
pub use error::SpecError;
pub use features::{features, journal_bytes};
pub use fill::{Devices, fill, fill_word};
pub use fuse::HARMLESS;
pub use guarantee::{Guarantee, Names};
pub use period::Period;
pub use plan::Context;
pub use rederive::rederive;
pub use sizing::Sizing;
pub use spec::Spec;
