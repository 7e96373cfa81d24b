//! The flags of a result: the meaning of each, and its effect on verdicts.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use crate::exports;

/// A condition that limits what a number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flag {
    /// The file system's own check, or the comparison of what is on disk, found a fault.
    CheckFailed,
    /// The calls were never issued: the times are those of the instrument.
    NoCalls,
    /// An option, or the file system itself, gives up durability: acknowledged data may be lost.
    Unsafe,
    /// A process (FUSE), not the kernel, did the file system's work.
    UserSpace,
    /// Work was done but did not reach the device.
    Cached,
    /// More bytes were transferred in the time than the device can transfer.
    AboveDeviceSpeed,
    /// The phase requested cold caches and found warm ones.
    NotCold,
    /// There is no proof that the device's own cache was empty.
    NotDurable,
    /// The phase returned too soon to mean anything.
    TooShort,
    /// The instrument took more than [`crate::validity::INSTRUMENT_LIMIT`] of the time. A row of a report has the flag
    /// only if this limits what it shows.
    InstrumentBound,
    /// CPU time that is counted in instructions, by a model whose error is not known, took more than
    /// [`crate::validity::CPU_LIMIT`] of the time.
    CpuBound,
    /// The repeats scatter by more than [`crate::validity::NOISE_LIMIT`] of their mean, or their interval is wider than
    /// [`crate::validity::INTERVAL_LIMIT`], and the ratio to another row is not known more precisely.
    Noisy,
}

/// Writes a flag as its name in tables.
impl Serialize for Flag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl JsonSchema for Flag {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Flag".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema =
            exports::string_enum(Flag::ALL.iter().map(|flag| (flag.name(), flag.meaning())));
        let about = "A condition that limits what a number means.";
        schema.insert("description".into(), about.into());
        schema
    }
}

impl Flag {
    /// Every flag, the most serious first.
    pub const ALL: &[Flag] = &[
        Flag::CheckFailed,
        Flag::NoCalls,
        Flag::Unsafe,
        Flag::UserSpace,
        Flag::Cached,
        Flag::AboveDeviceSpeed,
        Flag::NotCold,
        Flag::NotDurable,
        Flag::TooShort,
        Flag::InstrumentBound,
        Flag::CpuBound,
        Flag::Noisy,
    ];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Flag::CheckFailed => "CHECK FAILED",
            Flag::NoCalls => "NO CALLS",
            Flag::Unsafe => "UNSAFE",
            Flag::UserSpace => "USER SPACE",
            Flag::Cached => "CACHED",
            Flag::AboveDeviceSpeed => "ABOVE DEVICE SPEED",
            Flag::NotCold => "NOT COLD",
            Flag::NotDurable => "NOT DURABLE",
            Flag::TooShort => "TOO SHORT",
            Flag::InstrumentBound => "INSTRUMENT-BOUND",
            Flag::CpuBound => "CPU-BOUND",
            Flag::Noisy => "NOISY",
        }
    }

    /// The meaning in a few words.
    pub fn brief(self) -> &'static str {
        match self {
            Flag::CheckFailed => {
                "the check or the verification found a fault; do not use this number"
            }
            Flag::NoCalls => "no call was issued: this is the cost of the instrument",
            Flag::Unsafe => "acknowledged data may be lost at a power cut; not ranked",
            Flag::UserSpace => "a process did the work (FUSE), not the kernel",
            Flag::Cached => "the work never reached the device: this is the speed of memory",
            Flag::AboveDeviceSpeed => {
                "faster than the device can be: part of the data stayed in memory"
            }
            Flag::NotCold => "the caches were still warm; run as root or in the lab",
            Flag::NotDurable => {
                "the drive's cache could not be flushed, so there is no durable time"
            }
            Flag::TooShort => "start-up cost and background work distort it; give it more work",
            Flag::InstrumentBound => {
                "fsdyno itself used over 3 % of the time; ignore differences up to its share"
            }
            Flag::CpuBound => {
                "the processor was busy for over 90 % of the time, so this is only as accurate as its model"
            }
            Flag::Noisy => "trust the interval, not the mean; repeat more often (--repeat N)",
        }
    }

    /// The meaning, in a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Flag::CheckFailed => {
                "The file system's own check or the verification found a fault; the numbers of this trial do not \
                 count."
            }
            Flag::NoCalls => {
                "The calls were generated but never issued (--issuer null): every time and rate is the cost of the \
                 instrument, not of a file system."
            }
            Flag::Unsafe => {
                "Data acknowledged as durable may be lost at a power cut, because of what is named with the row; the \
                 row is listed after the others, is never the best, and no ratio is taken to it unless it is the \
                 named baseline."
            }
            Flag::UserSpace => {
                "A process did the file system's work (FUSE), and not the kernel: the row is comparable with the \
                 others, but no claim about a kernel is judged by it."
            }
            Flag::Cached => {
                "The work never reached the device: no request was counted up to the last time stamp, so this is the \
                 speed of memory."
            }
            Flag::AboveDeviceSpeed => {
                "More bytes were written or read in the time than the device can transfer, so part of them stayed in \
                 memory (or was compressed): this is not the speed of the device. Use more bytes than memory caches, \
                 or look at the time to durable."
            }
            Flag::NotCold => {
                "The workload requested cold caches before this phase (a remount, or caches dropped), but that was \
                 not possible here: the phase found in memory what the previous one had left, and disks may look as \
                 fast as memory. Run as root, or in the lab (--on lab)."
            }
            Flag::NotDurable => {
                "Nothing shows that the data had left the drive's own cache at the end, so there is no durable time."
            }
            Flag::TooShort => {
                "The phase took under 0.5 s (0.1 s of virtual time in the lab), so start-up cost and timed \
                 background work (journal commits, write-back) distort it. Use more files or more bytes (fsdyno show \
                 workload NAME); for a replay, more copies (--set copies=N) or a longer recording."
            }
            Flag::InstrumentBound => {
                "fsdyno itself (the modelled disk, its histograms) used more than 3 % of the time, which limits what \
                 the row shows. Ignore differences up to its share; larger ones, CPU times and request counts are \
                 valid. More files than memory caches (--set files=N) or a slower disk reduce the share."
            }
            Flag::CpuBound => {
                "CPU time took more than 90 % of the elapsed time, so the result is as exact as the lab's CPU. With \
                 a plain speed every instruction takes the same time, and ratios between different file systems have \
                 been up to 2.2 times off those of a real processor; versions and options of one file system compare \
                 well. With a processor profile (--cpu NAME) of known error, there is no such flag. A slower disk or \
                 more files than memory caches make the disk count."
            }
            Flag::Noisy => {
                "The standard deviation over the repeats, or half the 95 % interval, is more than 10 % of their \
                 mean, and no ratio to another row is known better than that: trust the interval, not the mean, and \
                 repeat with more seeds (--repeat N) to narrow it."
            }
        }
    }
}

/// The effect of a flag on a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictEffect {
    /// No verdict: something other than the requested comparison was measured.
    Forbids,
    /// A verdict with the flag named: the interval does not cover this condition.
    Weakens,
    /// No effect: the interval covers it, or it does not concern the compared times.
    None,
}

impl Flag {
    /// The effect on verdicts: the one list that tables, answers and comparisons use.
    pub fn verdict_effect(self) -> VerdictEffect {
        match self {
            Flag::CheckFailed | Flag::NoCalls => VerdictEffect::Forbids,
            Flag::Unsafe
            | Flag::UserSpace
            | Flag::Cached
            | Flag::AboveDeviceSpeed
            | Flag::NotCold
            | Flag::TooShort
            | Flag::InstrumentBound
            | Flag::CpuBound => VerdictEffect::Weakens,
            // Without a time to durable, the time to returned is compared, and the report states this.
            Flag::NotDurable | Flag::Noisy => VerdictEffect::None,
        }
    }

    /// Returns true if values with this flag get no verdict.
    pub fn forbids_verdict(self) -> bool {
        self.verdict_effect() == VerdictEffect::Forbids
    }

    /// Returns true if a verdict must name this flag.
    pub fn weakens_verdict(self) -> bool {
        self.verdict_effect() != VerdictEffect::None
    }
}

impl std::fmt::Display for Flag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
