//! From reads of a real drive and how long they took to a disk's file: the same law as the catalog's
//! disks have, with the error with which it foretells reads that it was not fitted to.
//!
//! Each part of the law is taken from reads that show it alone: the controller's time from what the
//! drive's memory answers, the turn from reading backwards, the rates from long reads. The seeks are
//! left, and are fitted by least squares to the times of single reads, less what the model itself says
//! of all but the seek; reads with a queue tell them from what a drive does beside them. A disk of which nothing
//! turns has a law of its own ([`fit_flash`]). Writes are never made, so whatever belongs to them is an
//! estimate and says so.

mod drive;
mod hard_disk;
mod probe;
mod solid_state;
mod text;

pub use drive::{Drive, Modelled};
pub use hard_disk::fit;
pub use probe::{BLOCK, Check, Long, Samples, Timed, probe};
pub use solid_state::{FlashSamples, first_look, fit_flash, probe_flash};

use fsdyno_record::Nanos;

use crate::spec::{DiskSpec, Queue, SpecError};

/// What is known of a drive without a probe.
#[derive(Clone, Debug)]
pub struct Facts {
    /// What it is, in a sentence.
    pub about: String,
    /// The kernel's settings of its queue.
    pub queue: Queue,
    /// Revolutions a minute, where the drive tells, and who says so.
    pub rpm: Option<(u32, String)>,
    /// Whether it speaks ATA, whose flush is no queued command.
    pub ata: bool,
    /// On what the probe ran, and when.
    pub probed: String,
}

/// A parameter with its value and how it was come by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the law.
    pub name: &'static str,
    /// Its value, a number or a table of them.
    pub value: serde_json::Value,
    /// How it was come by.
    pub from: String,
}

/// Random reads as they were measured and as the fitted law foretells them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Foretold {
    /// Reads in flight.
    pub depth: u32,
    /// How many reads were made.
    pub reads: usize,
    /// Reads a second of the drive.
    pub measured: f64,
    /// Reads a second of the model.
    pub foretold: f64,
}

impl Foretold {
    /// The error of what was foretold, in percent of what was measured.
    pub fn error(&self) -> f64 {
        (self.foretold / self.measured - 1.0) * 100.0
    }
}

/// A drive as a disk's file, and how far it can be trusted.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The disk.
    pub spec: DiskSpec,
    /// How well it foretells reads that it was not fitted to.
    pub foretold: Vec<Foretold>,
    /// Seeks that the curve was fitted to; 0 for a disk of which nothing turns.
    pub seeks: usize,
    /// Further ones that no turn of the platter explains: other load, retries, hits in a cache.
    pub outliers: usize,
}

impl Fitted {
    /// The disk's file, with the errors in its head.
    ///
    /// # Errors
    /// Only what the TOML writer says.
    pub fn text(&self, facts: &Facts) -> Result<String, toml::ser::Error> {
        text::write(self, facts)
    }
}

/// Why there is no law for a drive.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// It answers faster than a platter turns.
    #[error(
        "reads at random places took {took_us} us on average, less than the {half_us} us of half a turn: \
         nothing turns there (flash, a virtual disk, or a cache in front of it)"
    )]
    NothingTurns {
        /// Mean time of a random read, in microseconds.
        took_us: u64,
        /// Half a turn, in microseconds.
        half_us: u64,
    },
    /// It answers faster than flash can.
    #[error(
        "a read of 4 KiB at a random place took {took} on average, and no flash answers in less than {least}: \
         memory answered (a RAM disk, a cache in front of the drive, or the holes of a file)"
    )]
    Memory {
        /// Mean time of a random read.
        took: Nanos,
        /// The least that flash can take.
        least: Nanos,
    },
    /// Even the nearest law is far off.
    #[error(
        "the solid-state disk that comes nearest makes {foretold:.0} reads a second with {depth} in flight, and \
         {measured:.0} were measured ({error:+.0} %): other load, a cache in front of the drive, or no \
         solid-state disk; give it more --seconds when nothing else uses it"
    )]
    Far {
        /// Reads in flight.
        depth: u32,
        /// Reads a second of the drive.
        measured: f64,
        /// Reads a second of the model.
        foretold: f64,
        /// The error, in percent.
        error: f64,
    },
    /// The turn can be neither read nor seen.
    #[error(
        "the drive does not tell how fast it turns, and reads backwards took {took_us} us, which is no \
         turn of a disk: its own cache answered; say it with --rpm"
    )]
    NoTurn {
        /// Median time of a read backwards, in microseconds.
        took_us: u64,
    },
    /// Too few reads were made.
    #[error(
        "only {0} seeks were timed, and 100 are the least that tell a curve; give it more --seconds"
    )]
    TooFew(usize),
    /// What came out is no disk that can be.
    #[error("what was measured is no disk of this law: failed to {0}")]
    Spec(#[from] SpecError),
    /// The catalog's disk that the rest is taken from cannot be had.
    #[error("failed to {0}")]
    Base(#[from] crate::catalog::CatalogError),
    /// That disk is another kind of disk.
    #[error("the catalog's {0}, from which comes what reading cannot tell, is no hard disk")]
    NoHardDisk(&'static str),
    /// That disk is another kind of disk.
    #[error("the catalog's {0}, from which comes what reading cannot tell, is no solid-state disk")]
    NoSolidState(&'static str),
    /// A value has no JSON form.
    #[error("failed to write the disk down: {0}")]
    Json(#[from] serde_json::Error),
    /// The model could not be asked.
    #[error("failed to ask the model: {0}")]
    Model(#[from] std::io::Error),
}
