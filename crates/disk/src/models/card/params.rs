//! Parameters of the flash-card model: their ranges, the maximum rates, and the card built from them.

use fsdyno_record::Bytes;
use serde::{Deserialize, Serialize};

use super::{FlashCard, MAX_OPEN, MAX_UNITS};
use crate::disk::Disk;
use crate::limits::Limits;
use crate::models::parameters::Parameters;
use crate::spec::{Check, DiskSpec, SpecError};

/// Parameters of a flash card or stick. Rates are in units of 1000 bytes per second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Rate of the bus, in kB/s.
    pub bus_rate_kb: u64,
    /// Time of a read in addition to its data on the bus, in microseconds.
    pub read_us: u64,
    /// Time of a write in addition to its data on the bus, its programs, copies and erasures, in microseconds.
    pub write_us: u64,
    /// Bytes that the flash programs at once; programming a part of them takes as long as programming all.
    pub program_size: Bytes,
    /// Rate of programming, in kB/s.
    pub program_rate_kb: u64,
    /// Size of an allocation unit, which the card erases and manages as a whole.
    pub unit: Bytes,
    /// Number of allocation units that the card can hold open for writes.
    pub open_units: u32,
    /// Rate of copying within the card, reading and programming, in kB/s.
    pub copy_rate_kb: u64,
    /// Time to erase an allocation unit, in microseconds.
    pub erase_us: u64,
    /// Time of a discard, in microseconds.
    pub trim_us: u64,
}

impl Parameters for Card {
    fn check(&self, spec: &DiskSpec, check: &Check<'_>) -> Result<(), SpecError> {
        for (name, rate) in [
            ("model.bus_rate_kb", self.bus_rate_kb),
            ("model.program_rate_kb", self.program_rate_kb),
            ("model.copy_rate_kb", self.copy_rate_kb),
        ] {
            check.within(name, rate, 100, 10_000_000)?;
        }
        for (name, time, minimum) in [
            ("model.read_us", self.read_us, 1),
            ("model.write_us", self.write_us, 1),
            ("model.erase_us", self.erase_us, 0),
            ("model.trim_us", self.trim_us, 0),
        ] {
            check.within(name, time, minimum, 10_000_000)?;
        }
        check.within("model.program_size", self.program_size.0, 512, 1 << 20)?;
        let range = "a multiple of 512";
        check.require(
            "model.program_size",
            self.program_size,
            self.program_size.0 % 512 == 0,
            range,
        )?;
        check.within("model.unit", self.unit.0, self.program_size.0, 256 << 20)?;
        let is_valid = self.unit.0 % self.program_size.0 == 0;
        check.require("model.unit", self.unit, is_valid, "a multiple of model.program_size")?;
        check.within("model.open_units", self.open_units.into(), 1, MAX_OPEN as u64)?;
        let units = spec.capacity.0.div_ceil(self.unit.0);
        let range = format!("such that the card has {} to {MAX_UNITS} units", self.open_units);
        let is_valid = (u64::from(self.open_units)..=MAX_UNITS).contains(&units);
        check.require("model.unit", self.unit, is_valid, &range)
    }

    fn limits(&self) -> Option<Limits> {
        let rate = self.bus_rate_kb as f64 * 1e3;
        Some(Limits { read: rate, write: rate })
    }

    fn build(&self, spec: &DiskSpec, _: u64) -> Box<dyn Disk> {
        Box::new(FlashCard::new(spec, self))
    }
}
