//! Whether a result is what it seems, judged from the record of a phase alone.

use fsdyno_record::plan::IssuerPlan;
use fsdyno_record::trial::{Phase, Trial};
use fsdyno_record::{Nanos, OpKind};

use crate::interval::Summary;

/// Share of the elapsed time above which the instrument, not the file system, may be what was
/// measured (design.md, Rules).
pub const INSTRUMENT_LIMIT: f64 = 0.03;

/// A phase on a host that returned sooner is too short for its clock, scheduler and caches to even
/// out: bonnie++ prints `+++++` below this (its MinTime, 0.5 s).
pub const SHORTEST_ON_HOST: Nanos = Nanos(500_000_000);

/// Virtual time has no jitter, so the lab may go lower, but periodic work (jbd2, write-back) must
/// still be small beside a phase: the least time that pyperf lets a sample take (`--min-time`).
pub const SHORTEST_IN_LAB: Nanos = Nanos(100_000_000);

/// Relative standard deviation above which pyperf warns that a benchmark is unstable.
pub const NOISE_LIMIT: f64 = 0.10;

/// Half the 95 % interval, relative, above which a mean is too little known to be read as a number: the
/// same tenth, asked of what is shown. With two or three repeats it is the interval that is too
/// wide long before the deviation is (1.1 % and 4.0 % of the mean make a tenth).
pub const INTERVAL_LIMIT: f64 = 0.10;

/// How far above its device a result must be to be called so: a baseline taken on the device itself
/// is known no better. Choice of ours; linuxinsight's write of 63 MB/s on a platter of 57 (2006) is
/// 10 % above.
pub const SPEED_SLACK: f64 = 0.05;

/// What a device can do at best: sequential bytes a second, from its baseline or its model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceSpeed {
    /// Bytes read a second.
    pub read: f64,
    /// Bytes written a second, its own cache emptied.
    pub write: f64,
}

/// A reason not to take a number at face value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flag {
    /// The file system's own check, or the comparison of what is on disk, found a fault.
    CheckFailed,
    /// The ops were never issued: the times are the instrument's own.
    NoCalls,
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
    /// The instrument took over [`INSTRUMENT_LIMIT`] of the time.
    InstrumentBound,
    /// The repeats scatter by more than [`NOISE_LIMIT`] of their mean, or leave it unknown by more than
    /// [`INTERVAL_LIMIT`].
    Noisy,
}

impl Flag {
    /// Every flag, the gravest first.
    pub const ALL: &[Flag] = &[
        Flag::CheckFailed,
        Flag::NoCalls,
        Flag::UserSpace,
        Flag::Cached,
        Flag::AboveDeviceSpeed,
        Flag::NotCold,
        Flag::NotDurable,
        Flag::TooShort,
        Flag::InstrumentBound,
        Flag::Noisy,
    ];

    /// The words in tables.
    pub fn name(self) -> &'static str {
        match self {
            Flag::CheckFailed => "CHECK FAILED",
            Flag::NoCalls => "NO CALLS",
            Flag::UserSpace => "USER SPACE",
            Flag::Cached => "CACHED",
            Flag::AboveDeviceSpeed => "ABOVE DEVICE SPEED",
            Flag::NotCold => "NOT COLD",
            Flag::NotDurable => "NOT DURABLE",
            Flag::TooShort => "TOO SHORT",
            Flag::InstrumentBound => "INSTRUMENT-BOUND",
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
                 3 % of the elapsed time of a trial, so differences of that size mean nothing; \
                 larger ones, CPU times and request counts stand. More files than memory caches \
                 (--set files=N) or a slower disk make its share smaller."
            }
            Flag::Noisy => {
                "The standard deviation over the repeats, or half the 95 % interval, is more than 10 % \
                 of their mean: look at the interval before the mean, and repeat with more seeds \
                 (--repeat N) to narrow it."
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
            Flag::UserSpace
            | Flag::Cached
            | Flag::AboveDeviceSpeed
            | Flag::NotCold
            | Flag::TooShort
            | Flag::InstrumentBound => Bearing::Weakens,
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

/// The flags of one phase of a trial, the gravest first; of a device whose speed is not known.
pub fn flags(trial: &Trial, phase: &Phase) -> Vec<Flag> {
    flags_on(trial, phase, None)
}

/// The flags of one phase of a trial on a device of this speed, the gravest first.
pub fn flags_on(trial: &Trial, phase: &Phase, speed: Option<DeviceSpeed>) -> Vec<Flag> {
    let virtual_time = matches!(trial.conditions.venue.as_str(), "lab" | "model");
    let shortest = if virtual_time { SHORTEST_IN_LAB } else { SHORTEST_ON_HOST };
    let judge = |flag: &Flag| match flag {
        Flag::CheckFailed => check_failed(trial),
        Flag::NoCalls => trial.plan.issuer == IssuerPlan::Null,
        Flag::UserSpace => trial.conditions.userspace,
        // What was never issued cannot reach a device.
        Flag::Cached => cached(phase) && trial.plan.issuer != IssuerPlan::Null,
        Flag::AboveDeviceSpeed => {
            let issued = trial.plan.issuer != IssuerPlan::Null;
            issued && speed.is_some_and(|speed| above_device_speed(phase, speed))
        }
        Flag::NotCold => not_cold(trial, phase),
        Flag::NotDurable => phase.durable_ns.is_none(),
        Flag::TooShort => phase.returned_ns < shortest,
        Flag::InstrumentBound => instrument_share(phase) > INSTRUMENT_LIMIT,
        // A matter of several trials; see `noisy`.
        Flag::Noisy => false,
    };
    Flag::ALL.iter().copied().filter(judge).collect()
}

/// Whether repeats scatter too much, or are too few for how they scatter, to be read as one number.
pub fn noisy(summary: &Summary) -> bool {
    let size = summary.mean.abs();
    summary.sd.is_some_and(|sd| sd > NOISE_LIMIT * size)
        || summary.half_width.is_some_and(|half| half > INTERVAL_LIMIT * size)
}

/// Whether a phase passed more bytes up to its last stamp ([`elapsed`]) than the device could have,
/// by more than [`SPEED_SLACK`]; a speed that is not positive limits nothing. Reads and writes are
/// held against their own limits, for some devices do both at once.
pub fn above_device_speed(phase: &Phase, speed: DeviceSpeed) -> bool {
    let seconds = elapsed(phase).seconds();
    let above = |bytes: u64, speed: f64| {
        speed > 0.0 && bytes as f64 > (1.0 + SPEED_SLACK) * speed * seconds
    };
    above(phase.bytes_written.0, speed.write) || above(phase.bytes_read.0, speed.read)
}

/// Elapsed time to the last stamp there is: durable, else synced, else returned.
pub fn elapsed(phase: &Phase) -> Nanos {
    phase.durable_ns.or(phase.synced_ns).unwrap_or(phase.returned_ns)
}

/// CPU time of the disk's server, of the engine's own work and of the sampler as a share of [`elapsed`].
pub fn instrument_share(phase: &Phase) -> f64 {
    let it = &phase.instrument;
    let cost = it.server_cpu_ns + it.engine_ns + it.sampler_cpu_ns;
    if cost.0 == 0 { 0.0 } else { cost.seconds() / elapsed(phase).seconds() }
}

fn check_failed(trial: &Trial) -> bool {
    trial.measured.check.as_ref().is_some_and(|check| !check.clean)
        || trial.measured.verify.problems > 0
}

/// Whether the gap before the phase wanted cold caches and left them warm.
fn not_cold(trial: &Trial, phase: &Phase) -> bool {
    let cold = |gap: &str| matches!(gap, "drop" | "remount");
    let mut before = trial.measured.gaps.iter().filter(|gap| gap.before == phase.name);
    before.any(|gap| cold(&gap.wanted) && !cold(&gap.done))
}

/// Changes must cause writes, and data read must cause reads, or memory was measured.
fn cached(phase: &Phase) -> bool {
    let Some(device) = phase.device else { return false };
    let changed = phase.bytes_written.0 > 0 || phase.ops.keys().any(|kind| changes(*kind));
    let silent_write = changed && device.writes == 0;
    let silent_read = phase.bytes_read.0 > 0 && device.reads == 0 && !changed;
    silent_write || silent_read
}

/// Whether an op leaves something that a sync must bring to the device.
fn changes(kind: OpKind) -> bool {
    use OpKind::*;
    !matches!(kind, Open | Close | Read | Stat | Readdir | Fsync)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_record::Bytes;
    use fsdyno_record::plan::{MediumPlan, Plan, VerifyMode, WorkloadPlan};
    use fsdyno_record::trial::{
        CheckReport, Conditions, Device, Gap, Host, Measured, OpStats, Outcome,
    };

    fn trial(venue: &str) -> Trial {
        Trial {
            schema: 1,
            trial_id: String::new(),
            lab_id: None,
            lab: Default::default(),
            seed: 1,
            repeats: None,
            deadline_ns: None,
            version: String::new(),
            outcome: Outcome::Ok,
            reason: None,
            plan: Plan {
                label: String::new(),
                workload: WorkloadPlan {
                    name: String::new(),
                    params: Default::default(),
                    input: None,
                },
                filesystem: None,
                medium: MediumPlan::Directory { path: String::new() },
                threads: 1,
                issuer: fsdyno_record::plan::IssuerPlan::Sync,
                verify: VerifyMode::Full,
                sysctls: Default::default(),
                hash: String::new(),
            },
            conditions: Conditions { venue: venue.into(), ..Default::default() },
            measured: Measured::default(),
            host: Host::default(),
        }
    }

    fn sound() -> Phase {
        Phase {
            returned_ns: Nanos(1_000_000_000),
            synced_ns: Some(Nanos(1_500_000_000)),
            durable_ns: Some(Nanos(2_000_000_000)),
            ops: [(OpKind::Create, OpStats { count: 10, ..Default::default() })].into(),
            bytes_written: Bytes(4096),
            device: Some(Device { writes: 3, ..Default::default() }),
            ..Default::default()
        }
    }

    #[test]
    fn a_sound_phase_has_no_flag() {
        assert_eq!(flags(&trial("lab"), &sound()), []);
    }

    #[test]
    fn a_change_that_the_device_never_saw_is_cached() {
        let silent = Phase { device: Some(Device::default()), ..sound() };
        assert_eq!(flags(&trial("lab"), &silent), [Flag::Cached]);
        let blind = Phase { device: None, ..sound() };
        assert_eq!(flags(&trial("host"), &blind), [], "without counters nothing is claimed");
    }

    #[test]
    fn data_read_without_a_device_read_is_cached_and_a_stat_is_not() {
        let only = |kind| [(kind, OpStats { count: 10, ..Default::default() })].into();
        let device = Some(Device::default());
        let read = Phase {
            ops: only(OpKind::Read),
            bytes_read: Bytes(1),
            bytes_written: Bytes(0),
            device,
            ..sound()
        };
        let stat = Phase { ops: only(OpKind::Stat), bytes_read: Bytes(0), ..read.clone() };
        assert_eq!(flags(&trial("lab"), &read), [Flag::Cached]);
        assert_eq!(flags(&trial("lab"), &stat), []);
    }

    #[test]
    fn a_phase_without_a_durable_stamp_is_not_durable() {
        assert_eq!(
            flags(&trial("host"), &Phase { durable_ns: None, ..sound() }),
            [Flag::NotDurable]
        );
    }

    #[test]
    fn a_phase_that_wanted_cold_caches_and_got_warm_ones_is_not_cold() {
        let phase = Phase { name: "delete".into(), ..sound() };
        let judged = |before: &str, wanted: &str, done: &str| {
            let mut trial = trial("host");
            let (before, wanted, done) = (before.into(), wanted.into(), done.into());
            trial.measured.gaps.push(Gap { before, wanted, done, elapsed_ns: Nanos(1) });
            flags(&trial, &phase)
        };
        for (wanted, done) in [("remount", "sync"), ("drop", "none"), ("drop", "sync")] {
            assert_eq!(judged("delete", wanted, done), [Flag::NotCold], "{wanted} -> {done}");
            assert_eq!(judged("create", wanted, done), [], "of another phase");
        }
        for (wanted, done) in [("remount", "drop"), ("remount", "remount"), ("sync", "sync")] {
            assert_eq!(judged("delete", wanted, done), [], "{wanted} -> {done}");
        }
    }

    #[test]
    fn the_lab_may_be_shorter_than_a_host() {
        let short = Phase { returned_ns: Nanos(200_000_000), ..sound() };
        assert_eq!(flags(&trial("host"), &short), [Flag::TooShort]);
        assert_eq!(flags(&trial("lab"), &short), []);
        let shorter = Phase { returned_ns: Nanos(99_999_999), ..sound() };
        assert_eq!(flags(&trial("lab"), &shorter), [Flag::TooShort]);
    }

    #[test]
    fn a_trial_without_calls_says_so_first() {
        let mut trial = trial("host");
        trial.plan.issuer = IssuerPlan::Null;
        let phase = Phase { device: Some(Device::default()), ..sound() };
        assert_eq!(flags(&trial, &phase), [Flag::NoCalls]);
    }

    #[test]
    fn the_instrument_may_take_three_percent_to_the_durable_stamp_and_no_more() {
        let mut phase = sound();
        phase.instrument.server_cpu_ns = Nanos(40_000_000);
        phase.instrument.engine_ns = Nanos(20_000_000);
        assert_eq!(flags(&trial("lab"), &phase), []);
        phase.instrument.engine_ns = Nanos(20_000_001);
        assert_eq!(flags(&trial("lab"), &phase), [Flag::InstrumentBound]);
    }

    #[test]
    fn a_dirty_check_or_a_difference_on_disk_fails() {
        let mut dirty = trial("lab");
        dirty.measured.check = Some(CheckReport { clean: false, ..Default::default() });
        assert_eq!(flags(&dirty, &sound()), [Flag::CheckFailed]);
        let mut differs = trial("lab");
        differs.measured.verify.problems = 1;
        assert_eq!(flags(&differs, &sound()), [Flag::CheckFailed]);
    }

    #[test]
    fn bytes_that_the_device_cannot_have_passed_are_above_its_speed() {
        // Linuxinsight 2006: 63 MB/s written, 53 read, on a platter that passes 57.
        let speed = Some(DeviceSpeed { read: 57e6, write: 57e6 });
        let wrote = |bytes| Phase { bytes_written: Bytes(bytes), ..sound() };
        let phase = wrote(126_000_000);
        let written = flags_on(&trial("lab"), &phase, speed);
        assert_eq!(written, [Flag::AboveDeviceSpeed]);
        assert_eq!(flags(&trial("lab"), &phase), [], "of an unknown device nothing is claimed");
        // Two seconds to durable: 57 MB/s and 5 % are 119.7 MB.
        assert_eq!(flags_on(&trial("lab"), &wrote(119_700_000), speed), []);
        assert_eq!(flags_on(&trial("lab"), &wrote(119_700_001), speed), [Flag::AboveDeviceSpeed]);
        let read = Phase { bytes_read: Bytes(106_000_000), ..sound() };
        assert_eq!(flags_on(&trial("lab"), &read, speed), []);
        let slow = Some(DeviceSpeed { read: 20e6, write: 57e6 });
        assert_eq!(flags_on(&trial("lab"), &read, slow), [Flag::AboveDeviceSpeed]);
        let unknown = Some(DeviceSpeed { read: 0.0, write: f64::NAN });
        assert_eq!(flags_on(&trial("lab"), &phase, unknown), []);
        let mut null = trial("lab");
        null.plan.issuer = IssuerPlan::Null;
        assert_eq!(flags_on(&null, &phase, speed), [Flag::NoCalls]);
    }

    #[test]
    fn an_interval_too_wide_is_noisy_where_the_deviation_is_not() {
        // Two values 1.5 % apart: deviation 1.06 %, half the interval 9.5 %; 1.7 %: 10.8 %.
        assert!(!noisy(&Summary::of(&[1.0, 1.015]).unwrap()));
        assert!(noisy(&Summary::of(&[1.0, 1.017]).unwrap()));
        let five = Summary::of(&[1.0, 1.05, 0.95, 1.04, 0.97]).unwrap();
        assert!(!noisy(&five), "{five:?}");
    }

    #[test]
    fn repeats_that_scatter_are_noisy_and_one_is_not() {
        assert!(noisy(&Summary::of(&[1.0, 1.3, 0.8]).unwrap()));
        assert!(!noisy(&Summary::of(&[1.0, 1.01, 0.99]).unwrap()));
        assert!(!noisy(&Summary::of(&[1.0]).unwrap()));
    }
}
