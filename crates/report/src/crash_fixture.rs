//! Results of power cuts, for tests.

use fsdyno_record::Nanos;

/// The results of power cuts of two file systems, the second on a faulty disk.
pub fn crashed() -> Vec<fsdyno_crash::Row> {
    use fsdyno_crash::cut::{Moment, SurvivingWrites};
    use fsdyno_crash::recovered::Recovery;
    use fsdyno_crash::{Cut, CutOutcome, DiskFault, Findings, Rate, Row};

    let outcome = |number: u32, findings: Findings, recovery: Recovery| {
        let (moment, choice) = (Moment::Between, SurvivingWrites::All);
        let cut = Cut { number, after: number, at: Nanos(9), moment, choice, draw: 1 };
        CutOutcome { cut, recovery, findings }
    };
    let mounted = |ms: u64| Recovery { mount_ns: Nanos(ms * 1_000_000), ..Recovery::default() };
    let rate = |per_second: f64| {
        let (phase, unit) = ("deliver-1".into(), "deliveries".into());
        Rate { phase, unit, per_second }
    };
    let losses = |files: u64, ms: u64| {
        let lost_ns = Nanos(ms * 1_000_000);
        Findings { files_lost: files, lost_ns, ..Findings::default() }
    };
    let plans =
        crate::fixture::single().into_iter().map(|trial| trial.plan).take(2).collect::<Vec<_>>();
    let sound = vec![
        outcome(0, Findings::default(), mounted(12)),
        outcome(1, losses(1, 22), mounted(41)),
        outcome(2, losses(0, 3), mounted(40)),
    ];
    let broken = Findings { acknowledged_lost: 2, acknowledged_names: 1, ..losses(7, 5012) };
    let doubled = Findings {
        names_doubled: 1,
        names_lost: 3,
        files_empty: 2,
        files_stale: 1,
        ..losses(4, 9)
    };
    let refused = Recovery {
        refused: Some("mount: structure needs cleaning".into()),
        lost: Some("mount: structure needs cleaning".into()),
        ..mounted(3)
    };
    let repaired = Recovery {
        unclean: Some("exit code 4".into()),
        repair: Some("exit code 1".into()),
        ..mounted(950)
    };
    let forced = Recovery {
        refused: Some("mount: bad message".into()),
        repair: Some("exit code 2".into()),
        last_resort: Some("exit code 0".into()),
        ..mounted(38)
    };
    let off = vec![
        outcome(0, broken, repaired),
        outcome(1, doubled, forced),
        outcome(2, Findings::default(), refused),
    ];
    let mut rows = vec![
        Row::new(&plans[0], 1, DiskFault::Honest, rate(48.04), sound),
        Row::new(&plans[1], 1, DiskFault::DropsFlushes, rate(1312.5), off),
    ];
    rows[1].label = "off".into();
    rows
}
