//! The flags of a result: what each says, and how it bears on verdicts.

/// A reason not to take a number at face value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flag {
    /// The file system's own check, or the comparison of what is on disk, found a fault.
    CheckFailed,
    /// The ops were never issued: the times are the instrument's own.
    NoCalls,
    /// An option, or the file system itself, gives up durability: what was acknowledged may be lost.
    Unsafe,
    /// A process did the file system's work, and not the kernel.
    UserSpace,
    /// Work was done but the device saw none of it.
    Cached,
    /// More bytes passed in the time than the device can pass.
    AboveDeviceSpeed,
    /// The phase was to begin with cold caches and found warm ones.
    NotCold,
    /// It could not be shown that the device's own cache was empty.
    NotDurable,
    /// The phase returned too soon to mean anything.
    TooShort,
    /// The instrument took over [`crate::validity::INSTRUMENT_LIMIT`] of the time.
    InstrumentBound,
    /// CPU time by instructions took over [`crate::validity::CPU_LIMIT`] of the time.
    CpuBound,
    /// The repeats scatter by more than [`crate::validity::NOISE_LIMIT`] of their mean, or leave it unknown by more than
    /// [`crate::validity::INTERVAL_LIMIT`], and the ratio to another row is known no better.
    Noisy,
}

impl Flag {
    /// Every flag, the gravest first.
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

    /// The words in tables.
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

    /// What it means, in a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Flag::CheckFailed => {
                "The file system's own check or the verification found a fault; the numbers of \
                 this trial count for nothing."
            }
            Flag::NoCalls => {
                "The ops were made up but never issued (--issuer null): every time and rate here is \
                 the cost of the instrument itself, of no file system."
            }
            Flag::Unsafe => {
                "What the file system acknowledged as durable may be lost at a power cut, by the option that \
                 is named with the row; it is shown after the others, is called the best of nothing, and no \
                 ratio is taken to it unless it is the named baseline."
            }
            Flag::UserSpace => {
                "A process did the file system's work (FUSE), and not the kernel: it is shown beside \
                 the others, and no claim about a kernel is ever judged by it."
            }
            Flag::Cached => {
                "The work never reached the device: no request was counted up to the last time \
                 stamp, so this is the speed of memory."
            }
            Flag::AboveDeviceSpeed => {
                "More bytes were written or read in the time than the device can pass at its best, so \
                 part of them stayed in memory (or was compressed): this is not the speed of the \
                 device. Use more bytes than memory caches, or look at the time to durable."
            }
            Flag::NotCold => {
                "The workload wanted cold caches before this phase (a remount, or caches dropped), \
                 but that could not be done here: the phase found in memory what the one before \
                 had left, and disks may look as fast as memory. Run as root, or in the lab \
                 (--on lab)."
            }
            Flag::NotDurable => {
                "It could not be shown that the device's own cache was empty at the end, so there \
                 is no time to durable."
            }
            Flag::TooShort => {
                "The phase returned in under 0.5 s (0.1 s of virtual time in the lab), so what it \
                 costs to begin weighs too much, and work that comes by timer (the journal every \
                 5 s, write-back) may fall in or out of it. Give it more to do: more files, more \
                 bytes (fsdyno show workload NAME)."
            }
            Flag::InstrumentBound => {
                "fsdyno's own work (serving the modelled disk, keeping histograms) took more than \
                 3 % of the elapsed time, so differences of that size mean nothing; \
                 larger ones, CPU times and request counts stand. More files than memory caches \
                 (--set files=N) or a slower disk make its share smaller."
            }
            Flag::CpuBound => {
                "CPU time took more than 90 % of the elapsed time, and the lab's processor takes the same \
                 time for every instruction: this is a count of instructions. Ratios between different file \
                 systems have been up to 2.2 times off those of a real processor; versions and options of \
                 one file system compare well. A slower disk or more files than memory caches make the disk count."
            }
            Flag::Noisy => {
                "The standard deviation over the repeats, or half the 95 % interval, is more than 10 % \
                 of their mean, and no ratio to another row is known better than that: trust the interval, \
                 not the mean, and repeat with more seeds (--repeat N) to narrow it."
            }
        }
    }
}

/// How a flag bears on a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bearing {
    /// No verdict is given: what was compared is not what was asked for.
    Forbids,
    /// A verdict is given, and the flag named with it: no interval answers for what it says.
    Weakens,
    /// It is in the interval already, or says nothing of the times that are compared.
    None,
}

impl Flag {
    /// How it bears on verdicts: the one list that tables, answers and comparisons go by.
    pub fn bearing(self) -> Bearing {
        match self {
            Flag::CheckFailed | Flag::NoCalls => Bearing::Forbids,
            Flag::Unsafe
            | Flag::UserSpace
            | Flag::Cached
            | Flag::AboveDeviceSpeed
            | Flag::NotCold
            | Flag::TooShort
            | Flag::InstrumentBound
            | Flag::CpuBound => Bearing::Weakens,
            // Without a time to durable that to returned is compared, and said to be.
            Flag::NotDurable | Flag::Noisy => Bearing::None,
        }
    }

    /// Whether no verdict may be given of values that bear it.
    pub fn forbids_verdict(self) -> bool {
        self.bearing() == Bearing::Forbids
    }

    /// Whether it is to be named with a verdict.
    pub fn weakens_verdict(self) -> bool {
        self.bearing() != Bearing::None
    }
}

impl std::fmt::Display for Flag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
