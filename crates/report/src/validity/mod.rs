//! Flags: conditions that limit what a result means, determined from the record of a phase alone.

mod flag;
pub(crate) mod more_work;

use fsdyno_record::plan::{AccelPlan, IssuerPlan};
use fsdyno_record::trial::{Phase, Trial};
use fsdyno_record::{Nanos, OpKind};

use fsdyno_stats::Summary;
use fsdyno_stats::compare::Comparison;

pub use self::flag::{Flag, VerdictEffect};

/// Share of the elapsed time above which the instrument, not the file system, may be what was
/// measured (design.md, Rules).
pub const INSTRUMENT_LIMIT: f64 = 0.03;

/// Share of the elapsed time above which a row is flagged if it differs by no more than that from any other row of its
/// table, and not only from those compared with it.
pub const INSTRUMENT_MAXIMUM: f64 = 0.10;

/// The minimum time to returned of a phase on a host: below it, the effects of clock, scheduler and caches do not
/// average out; bonnie++ prints `+++++` below this (its MinTime, 0.5 s).
pub const MIN_ON_HOST: Nanos = Nanos(500_000_000);

/// The minimum time in the lab. Virtual time has no jitter, so it may be lower, but periodic work
/// (jbd2, write-back) must still be small compared with a phase. The value is pyperf's minimum time of a sample
/// (`--min-time`).
pub const MIN_IN_LAB: Nanos = Nanos(100_000_000);

/// Share of the elapsed time above which a phase in the lab is almost only CPU time. It limits the result unless the
/// error of the CPU's model is known, because comparisons then take that error into account.
pub const CPU_LIMIT: f64 = 0.90;

/// Relative standard deviation above which pyperf warns that a benchmark is unstable.
pub const NOISE_LIMIT: f64 = 0.10;

/// The relative half-width of the 95 % interval above which a mean is too uncertain to be read as a number: the same
/// 10 % as for the deviation. With two or three repeats, the interval reaches the limit long before the deviation does
/// (at a deviation of 1.1 % or 4.0 % of the mean).
pub const INTERVAL_LIMIT: f64 = 0.10;

/// The relative excess over the device's speed above which a result is flagged, because a baseline measured on the
/// device itself is no more accurate. The value is fsdyno's own choice: linuxinsight's write of 63 MB/s on a platter of
/// 57 MB/s (2006) is 10 % above.
pub const SPEED_TOLERANCE: f64 = 0.05;

/// The maximum speed of a device: sequential bytes per second, from its baseline or its model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceSpeed {
    /// Bytes read per second.
    pub read: f64,
    /// Bytes written per second, including emptying its own cache.
    pub write: f64,
}

/// One phase in one trial.
pub type Run<'a> = (&'a Trial, &'a Phase);

/// The flags of repeats of one phase, the most serious first. A fault in any repeat flags all; a condition of
/// size (too short, the instrument's share, the CPU's) is judged by the sum over the repeats, because their mean is
/// displayed.
/// `speed` returns the speed of a trial's device, if it is known.
///
/// [`Flag::Unsafe`] and [`Flag::Noisy`] are not determined here: the first follows from the options of a plan, the
/// second from the comparisons of the trials.
pub fn flags(runs: &[Run<'_>], speed: impl Fn(&Trial, &Phase) -> Option<DeviceSpeed>) -> Vec<Flag> {
    let any = |test: &dyn Fn(&Trial, &Phase) -> bool| {
        runs.iter().any(|(trial, phase)| test(trial, phase))
    };
    let is_issued = |trial: &Trial| trial.plan.issuer != IssuerPlan::Null;
    let judge = |flag: &Flag| match flag {
        Flag::CheckFailed => any(&|trial, _| check_failed(trial)),
        Flag::NoCalls => any(&|trial, _| !is_issued(trial)),
        Flag::UserSpace => any(&|trial, _| trial.conditions.userspace),
        // Calls that were never issued cannot reach a device.
        Flag::Cached => {
            any(&|trial, phase| cached(phase) && is_issued(trial) && !continues(trial, phase))
        }
        Flag::AboveDeviceSpeed => any(&|trial, phase| {
            is_issued(trial)
                && speed(trial, phase).is_some_and(|speed| above_device_speed(phase, speed))
        }),
        Flag::NotCold => any(&not_cold),
        Flag::NotDurable => {
            any(&|trial, phase| phase.durable_ns.is_none() && !continues(trial, phase))
        }
        Flag::TooShort => too_short(runs),
        Flag::InstrumentBound => instrument_share(runs) > INSTRUMENT_LIMIT,
        Flag::CpuBound => {
            cpu_share(runs) > CPU_LIMIT && !runs.iter().all(|(trial, _)| has_known_error(trial))
        }
        Flag::Unsafe | Flag::Noisy => false,
    };
    Flag::ALL.iter().copied().filter(judge).collect()
}

/// Returns true if a phase of a replay is not synced at its end, because the program continues: data that it leaves in
/// memory belongs to the phases after it.
fn continues(trial: &Trial, phase: &Phase) -> bool {
    trial.conditions.replay.is_some() && phase.synced_ns.is_none()
}

/// Returns true if the mean time to returned of repeats is under the minimum.
fn too_short(runs: &[Run<'_>]) -> bool {
    let needed: u64 = runs.iter().map(|(trial, _)| minimum(trial).0).sum();
    let returned: u64 = runs.iter().map(|(_, phase)| phase.returned_ns.0).sum();
    returned < needed
}

/// Returns the minimum time to returned of a phase of a trial.
fn minimum(trial: &Trial) -> Nanos {
    match trial.conditions.venue.as_str() {
        "lab" | "model" => MIN_IN_LAB,
        _ => MIN_ON_HOST,
    }
}

/// The share of the time of repeats that the lab's CPU took ([`counted_cpu_time`]).
pub fn cpu_share(runs: &[Run<'_>]) -> f64 {
    share_of_time(runs, counted_cpu_time)
}

/// Returns true if a trial's CPU times are those of a processor profile with a measured error.
fn has_known_error(trial: &Trial) -> bool {
    let processor = trial.plan.lab().and_then(|lab| lab.cpu.processor());
    processor.is_some_and(|processor| processor.error.is_some())
}

/// The time that repeats spent on something, as a share of their total elapsed time.
fn share_of_time(runs: &[Run<'_>], time: impl Fn(&Trial, &Phase) -> Nanos) -> f64 {
    let spent: f64 = runs.iter().map(|(trial, phase)| time(trial, phase).seconds()).sum();
    let total: f64 = runs.iter().map(|(_, phase)| elapsed(phase).seconds()).sum();
    if spent == 0.0 { 0.0 } else { spent / total }
}

/// CPU time that is counted in instructions: in the lab, that of the threads that issue the calls and of kernel
/// threads.
fn counted_cpu_time(trial: &Trial, phase: &Phase) -> Nanos {
    if trial.plan.lab().is_none_or(|lab| lab.accel == AccelPlan::Kvm) {
        return Nanos(0);
    }
    Nanos(phase.cpu_ns.0 + phase.kernel_cpu_ns.values().map(|ns| ns.0).sum::<u64>())
}

/// Returns true if repeats scatter too much, or are too few for their spread, to be read as one number.
pub fn noisy(summary: &Summary) -> bool {
    let size = summary.mean.abs();
    summary.sd.is_some_and(|sd| sd > NOISE_LIMIT * size)
        || summary.half_width.is_some_and(|half| half > INTERVAL_LIMIT * size)
}

/// Returns true if half the 95 % interval of a ratio is at most [`INTERVAL_LIMIT`].
pub fn is_precise(ratio: &Comparison) -> bool {
    ratio.interval.is_some_and(|(low, high)| (high / low).sqrt() - 1.0 <= INTERVAL_LIMIT)
}

/// Returns true if a phase transferred more bytes up to its last time stamp ([`elapsed`]) than the device
/// can, by more than [`SPEED_TOLERANCE`]; a speed that is not positive limits nothing. Reads and writes
/// have separate limits, because some devices do both at once.
pub fn above_device_speed(phase: &Phase, speed: DeviceSpeed) -> bool {
    let seconds = elapsed(phase).seconds();
    let above = |bytes: u64, speed: f64| {
        speed > 0.0 && bytes as f64 > (1.0 + SPEED_TOLERANCE) * speed * seconds
    };
    above(phase.bytes_written.0, speed.write) || above(phase.bytes_read.0, speed.read)
}

/// Elapsed time until durable, else until synced, else until returned.
pub fn elapsed(phase: &Phase) -> Nanos {
    phase.durable_ns.or(phase.synced_ns).unwrap_or(phase.returned_ns)
}

/// CPU time of the disk's server, of the engine itself and of the sampler.
fn instrument(phase: &Phase) -> Nanos {
    let instrument = &phase.instrument;
    instrument.server_cpu_ns + instrument.engine_ns + instrument.sampler_cpu_ns
}

/// The instrument's CPU time as a share of [`elapsed`], over all repeats of a phase.
pub fn instrument_share(runs: &[Run<'_>]) -> f64 {
    share_of_time(runs, |_, phase| instrument(phase))
}

fn check_failed(trial: &Trial) -> bool {
    trial.measured.check.as_ref().is_some_and(|check| !check.clean)
        || trial.measured.verify.problems > 0
}

/// Returns true if the gap before the phase requested cold caches and left them warm.
fn not_cold(trial: &Trial, phase: &Phase) -> bool {
    let is_cold = |gap: &str| matches!(gap, "drop" | "remount");
    let mut gaps = trial.measured.gaps.iter().filter(|gap| gap.before == phase.name);
    gaps.any(|gap| is_cold(&gap.wanted) && !is_cold(&gap.done))
}

/// Returns true if changes caused no writes or data read caused no reads: memory was measured.
fn cached(phase: &Phase) -> bool {
    let Some(device) = phase.device else { return false };
    let changed = phase.bytes_written.0 > 0 || phase.ops.keys().any(|kind| changes(*kind));
    let unwritten = changed && device.writes == 0;
    let unread = phase.bytes_read.0 > 0 && device.reads == 0 && !changed;
    unwritten || unread
}

/// Returns true if an op leaves something for a sync to write to the device.
fn changes(kind: OpKind) -> bool {
    use OpKind::*;
    !matches!(kind, Open | Close | Read | Stat | Readdir | Fsync)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_record::Bytes;
    use fsdyno_record::plan::{
        CpuPlan, DiskPlan, LabPlan, MediumPlan, Plan, VenuePlan, VerifyMode, WorkloadPlan,
    };
    use fsdyno_record::trial::{
        CheckReport, Conditions, Device, Gap, Host, Measured, OpStats, Outcome,
    };

    fn flags(trial: &Trial, phase: &Phase) -> Vec<Flag> {
        super::flags(&[(trial, phase)], |_, _| None)
    }

    fn flags_on(trial: &Trial, phase: &Phase, speed: Option<DeviceSpeed>) -> Vec<Flag> {
        super::flags(&[(trial, phase)], |_, _| speed)
    }

    fn trial(venue: &str) -> Trial {
        Trial {
            schema: 1,
            trial_id: String::new(),
            lab_id: None,
            lab: Default::default(),
            seed: 1,
            repeats: None,
            row: None,
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
                venue: VenuePlan::Host,
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
    fn a_change_without_a_device_write_is_cached() {
        let without_writes = Phase { device: Some(Device::default()), ..sound() };
        assert_eq!(flags(&trial("lab"), &without_writes), [Flag::Cached]);
        let without_counters = Phase { device: None, ..sound() };
        assert_eq!(
            flags(&trial("host"), &without_counters),
            [],
            "without counters there is no flag"
        );
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
    fn a_phase_of_a_replay_that_is_not_synced_is_neither_cached_nor_not_durable() {
        let mut replay = trial("lab");
        replay.conditions.replay = Some(Default::default());
        let device = Some(Device::default());
        let unsynced = Phase { synced_ns: None, durable_ns: None, device, ..sound() };
        assert_eq!(flags(&replay, &unsynced), []);
        assert_eq!(flags(&trial("lab"), &unsynced), [Flag::Cached, Flag::NotDurable]);
        let synced = Phase { synced_ns: Some(Nanos(1)), ..unsynced };
        assert_eq!(flags(&replay, &synced), [Flag::Cached, Flag::NotDurable]);
    }

    #[test]
    fn a_phase_that_requested_cold_caches_and_got_warm_ones_is_not_cold() {
        let phase = Phase { name: "delete".into(), ..sound() };
        let judged = |before: &str, wanted: &str, done: &str| {
            let mut trial = trial("host");
            let (before, wanted, done) = (before.into(), wanted.into(), done.into());
            trial.measured.gaps.push(Gap { before, wanted, done, elapsed_ns: Nanos(1) });
            flags(&trial, &phase)
        };
        for (wanted, done) in [("remount", "sync"), ("drop", "none"), ("drop", "sync")] {
            assert_eq!(judged("delete", wanted, done), [Flag::NotCold], "{wanted} -> {done}");
            assert_eq!(judged("create", wanted, done), [], "the gap of another phase");
        }
        for (wanted, done) in [("remount", "drop"), ("remount", "remount"), ("sync", "sync")] {
            assert_eq!(judged("delete", wanted, done), [], "{wanted} -> {done}");
        }
    }

    #[test]
    fn a_phase_in_the_lab_may_be_shorter_than_on_a_host() {
        let short = Phase { returned_ns: Nanos(200_000_000), ..sound() };
        assert_eq!(flags(&trial("host"), &short), [Flag::TooShort]);
        assert_eq!(flags(&trial("lab"), &short), []);
        let shorter = Phase { returned_ns: Nanos(99_999_999), ..sound() };
        assert_eq!(flags(&trial("lab"), &shorter), [Flag::TooShort]);
    }

    #[test]
    fn one_short_trial_among_long_ones_is_not_too_short() {
        let host = trial("host");
        let phase = |ns| Phase { returned_ns: Nanos(ns), ..sound() };
        let flags_of = |times: &[u64]| {
            let phases: Vec<Phase> = times.iter().map(|ns| phase(*ns)).collect();
            let runs: Vec<Run<'_>> = phases.iter().map(|phase| (&host, phase)).collect();
            super::flags(&runs, |_, _| None)
        };
        assert_eq!(flags_of(&[1_440_000_000, 499_999_999, 900_000_000]), []);
        assert_eq!(flags_of(&[500_000_000, 499_999_999, 499_999_999]), [Flag::TooShort]);
    }

    #[test]
    fn the_instrument_is_judged_by_its_share_of_all_repeats() {
        let lab = trial("lab");
        let phase_with_instrument = |ns| {
            let mut phase = sound();
            phase.instrument.server_cpu_ns = Nanos(ns);
            phase
        };
        let flags_of = |one: u64, other: u64| {
            let phases = [phase_with_instrument(one), phase_with_instrument(other)];
            super::flags(&[(&lab, &phases[0]), (&lab, &phases[1])], |_, _| None)
        };
        assert_eq!(flags_of(80_000_000, 0), []);
        assert_eq!(flags_of(80_000_000, 60_000_000), [Flag::InstrumentBound]);
    }

    #[test]
    fn a_phase_of_almost_only_cpu_time_is_flagged_only_in_the_lab() {
        let mut lab = trial("lab");
        let disk = DiskPlan { name: "instant".into(), spec: Default::default() };
        lab.plan.medium = MediumPlan::Modelled(disk.into());
        lab.plan.venue = VenuePlan::Lab(LabPlan::new("6.1.0", Bytes(1 << 30)));
        let mut phase = sound();
        phase.cpu_ns = Nanos(1_000_000_000);
        phase.kernel_cpu_ns = [("kworker".to_string(), Nanos(800_000_000))].into();
        assert_eq!(flags(&lab, &phase), []);
        phase.kernel_cpu_ns = [("kworker".to_string(), Nanos(800_000_001))].into();
        assert_eq!(flags(&lab, &phase), [Flag::CpuBound]);
        assert_eq!(flags(&trial("host"), &phase), []);
        let lab_of = |cpu: CpuPlan| {
            let mut lab = lab.clone();
            lab.plan.lab_mut().unwrap().cpu = cpu;
            lab
        };
        let mut profile = crate::fixture::processor(20);
        let known = lab_of(CpuPlan::Profile(Box::new(profile.clone())));
        assert_eq!(flags(&known, &phase), [], "verdicts take a known error into account");
        profile.error = None;
        let unknown = lab_of(CpuPlan::Profile(Box::new(profile)));
        assert_eq!(flags(&unknown, &phase), [Flag::CpuBound]);
        lab.plan.lab_mut().unwrap().accel = AccelPlan::Kvm;
        assert_eq!(flags(&lab, &phase), []);
    }

    #[test]
    fn no_calls_is_the_first_flag() {
        let mut trial = trial("host");
        trial.plan.issuer = IssuerPlan::Null;
        let phase = Phase { device: Some(Device::default()), ..sound() };
        assert_eq!(flags(&trial, &phase), [Flag::NoCalls]);
    }

    #[test]
    fn the_instrument_may_take_three_percent_of_the_time_to_durable_and_no_more() {
        let mut phase = sound();
        phase.instrument.server_cpu_ns = Nanos(40_000_000);
        phase.instrument.engine_ns = Nanos(20_000_000);
        assert_eq!(flags(&trial("lab"), &phase), []);
        phase.instrument.engine_ns = Nanos(20_000_001);
        assert_eq!(flags(&trial("lab"), &phase), [Flag::InstrumentBound]);
    }

    #[test]
    fn a_failed_check_or_a_difference_on_disk_is_flagged() {
        let mut unclean = trial("lab");
        unclean.measured.check = Some(CheckReport { clean: false, ..Default::default() });
        assert_eq!(flags(&unclean, &sound()), [Flag::CheckFailed]);
        let mut differs = trial("lab");
        differs.measured.verify.problems = 1;
        assert_eq!(flags(&differs, &sound()), [Flag::CheckFailed]);
    }

    #[test]
    fn more_bytes_than_the_device_can_transfer_are_above_its_speed() {
        // Linuxinsight 2006: 63 MB/s written and 53 read, on a platter with 57 MB/s.
        let speed = Some(DeviceSpeed { read: 57e6, write: 57e6 });
        let wrote = |bytes| Phase { bytes_written: Bytes(bytes), ..sound() };
        let phase = wrote(126_000_000);
        let written = flags_on(&trial("lab"), &phase, speed);
        assert_eq!(written, [Flag::AboveDeviceSpeed]);
        assert_eq!(flags(&trial("lab"), &phase), [], "for an unknown device there is no flag");
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
    fn a_wide_interval_is_noisy_even_if_the_deviation_is_small() {
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
