//! Fits the catalog's disk models to timed reads of a real drive, and reports the prediction error for
//! reads that were not part of the fit.
//!
//! Each parameter is determined by reads that isolate it: the controller's overhead by hits in the
//! drive's memory, the rotation by reading backwards, the rates by long reads. The seeks
//! are fitted by least squares to the times of single reads, minus the model's time for everything
//! but the seek; reads with a queue separate them from overhead that overlaps. Solid-state
//! disks have a different model ([`fit_flash`]). Nothing is written, so all parameters of writes are
//! estimates, and are marked as such.

mod drive;
mod hard_disk;
mod probe;
mod solid_state;
mod text;

pub use drive::{Drive, Modelled};
pub use hard_disk::fit;
pub use probe::{BLOCK, Check, LongRead, Samples, TimedRead, probe};
pub use solid_state::{FlashSamples, fit_flash, mean_read_time, probe_flash};

use fsdyno_record::Nanos;

use crate::spec::{DiskSpec, Queue, SpecError};

/// Facts about a drive that are known without a probe.
#[derive(Clone, Debug)]
pub struct Facts {
    /// One-sentence description.
    pub about: String,
    /// The kernel's settings of its queue.
    pub queue: Queue,
    /// Revolutions per minute, if the drive reports them, and the source.
    pub rpm: Option<(u32, String)>,
    /// True for ATA, whose flush is not a queued command.
    pub ata: bool,
    /// True for NVMe.
    pub nvme: bool,
    /// System and time of the probe.
    pub probed: String,
}

/// A parameter with its value and source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name in the model.
    pub name: &'static str,
    /// Value, a number or a table of numbers.
    pub value: serde_json::Value,
    /// Source of the value.
    pub from: String,
}

/// Rates of random reads, measured and predicted by the fitted model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Reads in flight.
    pub depth: u32,
    /// Number of reads.
    pub reads: usize,
    /// Reads per second of the drive.
    pub measured: f64,
    /// Reads per second of the model.
    pub predicted: f64,
}

impl Prediction {
    /// Returns the prediction error in percent of the measured rate.
    pub fn error(&self) -> f64 {
        (self.predicted / self.measured - 1.0) * 100.0
    }
}

/// A fitted disk, and its accuracy.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The disk.
    pub spec: DiskSpec,
    /// Predictions for reads that were not part of the fit.
    pub predictions: Vec<Prediction>,
    /// Number of seeks in the fit; 0 for a solid-state disk.
    pub seeks: usize,
    /// Number of seeks excluded because rotation cannot explain their times: other load, retries, cache hits.
    pub outliers: usize,
}

impl Fitted {
    /// Returns the disk profile, with the prediction errors in its header.
    ///
    /// # Errors
    /// Errors from the TOML writer.
    pub fn text(&self, facts: &Facts) -> Result<String, toml::ser::Error> {
        text::write(self, facts)
    }
}

/// An error in fitting a drive.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// The drive is faster than any rotating platter.
    #[error(
        "random reads took {mean_us} us on average, less than half a revolution ({half_us} us): \
         this is not a rotating disk (but flash, a virtual disk, or a cache in front of it)"
    )]
    NotRotating {
        /// Mean time of a random read, in microseconds.
        mean_us: u64,
        /// Half a revolution, in microseconds.
        half_us: u64,
    },
    /// The drive is faster than flash.
    #[error(
        "a random read of 4 KiB took {took} on average, but flash takes at least {least}: \
         memory answered (a RAM disk, a cache in front of the drive, or the holes of a file)"
    )]
    Memory {
        /// Mean time of a random read.
        took: Nanos,
        /// Minimum time of a read from flash.
        least: Nanos,
    },
    /// Even the best model has a large error.
    #[error(
        "the best solid-state model predicts {predicted:.0} reads/s with {depth} in flight, but \
         {measured:.0} were measured ({error:+.0} %): other load, a cache in front of the drive, or not a \
         solid-state disk; repeat with more --seconds while nothing else uses it"
    )]
    Inaccurate {
        /// Reads in flight.
        depth: u32,
        /// Reads per second of the drive.
        measured: f64,
        /// Reads per second of the model.
        predicted: f64,
        /// The error, in percent.
        error: f64,
    },
    /// The rotation speed can be neither queried nor measured.
    #[error(
        "the drive does not report its rotation speed, and reading backwards took {median_us} us, which is not a \
         revolution of a disk: its own cache answered; give the speed with --rpm"
    )]
    NoRevolution {
        /// Median time of a read backwards, in microseconds.
        median_us: u64,
    },
    /// Too few reads were made.
    #[error("only {0} seeks were timed, but a curve needs at least 100; use more --seconds")]
    TooFew(usize),
    /// The fitted parameters are out of range.
    #[error("the measurements fit no disk of this model: failed to {0}")]
    Spec(#[from] SpecError),
    /// The base disk of the catalog cannot be read.
    #[error("failed to {0}")]
    Base(#[from] crate::catalog::CatalogError),
    /// The base disk is not a hard disk.
    #[error("the catalog's {0}, the base of the fit, is not a hard disk")]
    NoHardDisk(&'static str),
    /// The base disk is not a solid-state disk.
    #[error("the catalog's {0}, the base of the fit, is not a solid-state disk")]
    NoSolidState(&'static str),
    /// A value has no JSON form.
    #[error("failed to write the profile: {0}")]
    Json(#[from] serde_json::Error),
    /// The model failed.
    #[error("failed to run the model: {0}")]
    Model(#[from] std::io::Error),
}
