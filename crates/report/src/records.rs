//! The rows of records: one per trial, phase and op, for a spreadsheet or a script.

use fsdyno_axes::AXES;
use fsdyno_record::trial::{Device, OpStats, Outcome, Phase};
use fsdyno_record::{Nanos, OpKind, Trial};

use crate::device;
use crate::part::Part;
use crate::table::{Column, Rows};

/// One row: a trial, one of its phases, and one of the phase's ops.
struct Record<'a> {
    part: &'a Part<'a>,
    trial: &'a Trial,
    phase: Option<&'a Phase>,
    op: Option<(OpKind, &'a OpStats)>,
}

/// The records as rows. Numbers are those of the record, without rounding; an unknown value is empty. A trial without
/// phases has one row. For a study, each row names its run and its conditions.
pub fn rows(parts: &[Part<'_>], out: &mut dyn Rows) {
    let trials = parts.iter().flat_map(|part| part.trials.iter().map(move |trial| (part, trial)));
    let records = trials.flat_map(|(part, trial)| {
        let no_phase = Record { part, trial, phase: None, op: None };
        let no_phase = trial.measured.phases.is_empty().then_some(no_phase);
        let ops = trial.measured.phases.iter().flat_map(move |phase| {
            let record = move |op| Record { part, trial, phase: Some(phase), op: Some(op) };
            phase.ops.iter().map(|(kind, stats)| (*kind, stats)).map(record)
        });
        no_phase.into_iter().chain(ops)
    });
    out.table(&columns(), records);
}

/// The columns. Other programs refer to them by name, so new columns are only appended.
fn columns<'a>() -> Vec<Column<'static, Record<'a>>> {
    let mut columns = trial_columns();
    columns.extend(phase_columns());
    columns.extend(op_columns());
    columns.extend(appended_columns());
    // Axes without a column above.
    for axis in AXES {
        if columns.iter().all(|column| column.head.text != axis.key) {
            columns.push(Column::words(axis.key, |record: &Record<'_>| {
                axis.text(&record.trial.plan).unwrap_or_default()
            }));
        }
    }
    // The processes or clients that shared the work; empty if one did all of it.
    columns.push(trial_column("shared_by", |trial| {
        trial.plan.venue.shared_by().map(|number| number.to_string()).unwrap_or_default()
    }));
    columns
}

/// Columns of the trial.
#[rustfmt::skip]
fn trial_columns<'a>() -> Vec<Column<'static, Record<'a>>> {
    vec![
        trial_column("trial_id", |trial| trial.trial_id.clone()),
        trial_column("lab_id", |trial| trial.lab_id.clone().unwrap_or_default()),
        trial_column("seed", |trial| trial.seed.to_string()),
        trial_column("outcome", |trial| outcome(trial.outcome).into()),
        trial_column("reason", |trial| trial.reason.clone().unwrap_or_default()),
        trial_column("workload", |trial| trial.plan.workload.name.clone()),
        trial_column("parameters", parameters),
        trial_column("threads", |trial| trial.plan.threads.to_string()),
        trial_column("issuer", |trial| trial.plan.issuer.to_string()),
        trial_column("label", |trial| trial.plan.label.clone()),
        trial_column("filesystem", |trial| {
            trial.plan.filesystem.as_ref().map(|fs| fs.spec.clone()).unwrap_or_default()
        }),
        trial_column("age", |trial| trial.plan.age().map(ToString::to_string).unwrap_or_default()),
        trial_column("disk", |trial| trial.plan.disk_name().unwrap_or_default().into()),
        trial_column("kernel", |trial| {
            trial.conditions.kernel.split(' ').next().unwrap_or_default().into()
        }),
    ]
}

/// Columns of the phase.
#[rustfmt::skip]
fn phase_columns<'a>() -> Vec<Column<'static, Record<'a>>> {
    vec![
        phase_column("phase", |phase| phase.name.clone()),
        phase_column("returned_ns", |phase| phase.returned_ns.0.to_string()),
        phase_column("synced_ns", |phase| nanoseconds(phase.synced_ns)),
        phase_column("durable_ns", |phase| nanoseconds(phase.durable_ns)),
        phase_column("cpu_ns", |phase| phase.cpu_ns.0.to_string()),
        phase_column("kernel_cpu_ns", |phase| {
            phase.kernel_cpu_ns.values().map(|ns| ns.0).sum::<u64>().to_string()
        }),
        phase_column("bytes_written", |phase| phase.bytes_written.0.to_string()),
        phase_column("bytes_read", |phase| phase.bytes_read.0.to_string()),
        phase_column("books", units),
        device_column("device_reads", |device| Some(device.reads)),
        device_column("device_writes", |device| Some(device.writes)),
        device_column("device_flushes", |device| Some(device.flushes)),
        device_column("device_bytes_read", |device| Some(device.bytes_read.0)),
        device_column("device_bytes_written", |device| Some(device.bytes_written.0)),
        device_column("device_seeks", |device| device.seeks),
        Column::number("space_used", |record: &Record<'_>| {
            // For a directory, this would be the space of the whole file system.
            let phase = record.trial.plan.filesystem.as_ref().and(record.phase);
            phase.map(|phase| phase.space_used.0.to_string()).unwrap_or_default()
        }),
        phase_column("server_cpu_ns", |phase| phase.instrument.server_cpu_ns.0.to_string()),
        phase_column("driver_cpu_ns", |phase| phase.instrument.driver_cpu_ns.0.to_string()),
        phase_column("late_ns", |phase| phase.instrument.late_ns.0.to_string()),
        phase_column("engine_ns", |phase| phase.instrument.engine_ns.0.to_string()),
        phase_column("sampler_cpu_ns", |phase| phase.instrument.sampler_cpu_ns.0.to_string()),
    ]
}

/// Columns of the kind of op.
#[rustfmt::skip]
fn op_columns<'a>() -> Vec<Column<'static, Record<'a>>> {
    vec![
        Column::words("op", |record: &Record<'_>| {
            record.op.map(|(kind, _)| kind.name().to_string()).unwrap_or_default()
        }),
        op_column("count", |op| op.count),
        op_column("total_ns", |op| op.total_ns.0),
        op_column("p50_ns", |op| op.p50_ns.0),
        op_column("p90_ns", |op| op.p90_ns.0),
        op_column("p99_ns", |op| op.p99_ns.0),
        op_column("p999_ns", |op| op.p999_ns.0),
        op_column("max_ns", |op| op.max_ns.0),
    ]
}

/// Columns that later versions appended.
#[rustfmt::skip]
fn appended_columns<'a>() -> Vec<Column<'static, Record<'a>>> {
    vec![
        trial_column("repeats_wanted", |trial| {
            let required = trial.repeats.and_then(|rule| rule.wanted);
            required.map(|n| n.to_string()).unwrap_or_default()
        }),
        trial_column("repeats_at_most", |trial| {
            trial.repeats.map(|rule| rule.at_most.to_string()).unwrap_or_default()
        }),
        // If each run is a separate trial, this distinguishes it from others of the same plan and seed.
        trial_column("started", |trial| trial.identity().started.to_string()),
        phase_column("user_ns", |phase| phase.user_ns.0.to_string()),
        phase_column("system_ns", |phase| phase.system_ns.0.to_string()),
        Column::words("run", |record: &Record<'_>| record.part.run.into()),
        Column::words("as", |record: &Record<'_>| record.part.variant.into()),
        trial_column("period", |trial| {
            trial.plan.filesystem.as_ref().and_then(|filesystem| filesystem.period.clone()).unwrap_or_default()
        }),
        // Empty if all memory may hold caches.
        trial_column("cacheable", |trial| {
            let cacheable = trial.plan.lab().and_then(|lab| lab.cacheable);
            cacheable.map(|size| size.0.to_string()).unwrap_or_default()
        }),
        trial_column("unsafe", |trial| device::risks(trial).join("; ")),
    ]
}

fn trial_column<'a>(head: &str, cell: fn(&Trial) -> String) -> Column<'static, Record<'a>> {
    Column::words(head, move |record: &Record<'_>| cell(record.trial))
}

fn phase_column<'a>(head: &str, cell: fn(&Phase) -> String) -> Column<'static, Record<'a>> {
    Column::number(head, move |record: &Record<'_>| record.phase.map(cell).unwrap_or_default())
}

fn device_column<'a>(head: &str, cell: fn(&Device) -> Option<u64>) -> Column<'static, Record<'a>> {
    Column::number(head, move |record: &Record<'_>| {
        let device = record.phase.and_then(|phase| phase.device.as_ref());
        device.and_then(cell).map(|n| n.to_string()).unwrap_or_default()
    })
}

fn op_column<'a>(head: &str, cell: fn(&OpStats) -> u64) -> Column<'static, Record<'a>> {
    Column::number(head, move |record: &Record<'_>| {
        record.op.map(|(_, stats)| cell(stats).to_string()).unwrap_or_default()
    })
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Failed => "failed",
        Outcome::Skipped => "skipped",
    }
}

fn parameters(trial: &Trial) -> String {
    let params = trial.plan.workload.params.iter().map(|(key, value)| format!("{key}={value}"));
    params.collect::<Vec<_>>().join(" ")
}

fn units(phase: &Phase) -> String {
    let counts = phase.books.iter().map(|(unit, n)| format!("{}={n}", unit.replace(' ', "-")));
    counts.collect::<Vec<_>>().join(" ")
}

/// A time in nanoseconds, or empty if it is unknown.
fn nanoseconds(time: Option<Nanos>) -> String {
    time.map(|ns| ns.0.to_string()).unwrap_or_default()
}

/// The heads of the columns.
#[cfg(test)]
pub fn heads() -> Vec<String> {
    columns().into_iter().map(|column| column.head.text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::table;

    fn csv(parts: &[Part<'_>]) -> String {
        table::csv(|out| rows(parts, out))
    }

    #[test]
    fn every_trial_phase_and_op_has_a_line() {
        insta::assert_snapshot!(csv(&[Part::whole(&fixture::trials()[..1])]));
    }

    #[test]
    fn a_failed_trial_has_a_separate_line_with_every_column() {
        let trials = fixture::with_failures();
        let failed: Vec<&Trial> = trials.iter().filter(|t| t.measured.phases.is_empty()).collect();
        assert!(!failed.is_empty());
        let text = csv(&[Part::whole(&trials)]);
        let line = text.lines().find(|line| line.contains(",skipped,")).unwrap();
        assert_eq!(line.matches(',').count(), heads().len() - 1);
    }

    #[test]
    fn lines_of_a_study_name_their_run_and_their_conditions() {
        let mut trials = fixture::single();
        trials.truncate(2);
        trials[0].plan.filesystem.as_mut().unwrap().period = Some("2001".into());
        trials[0].plan.lab_mut().unwrap().cacheable = Some(fsdyno_record::Bytes(64 << 20));
        let part = |run, variant, trials| Part { run, variant, kernel: None, trials };
        let parts = [part("curve", "then", &trials[..1]), part("curve", "today", &trials[1..])];
        let text = csv(&parts);
        let heads: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        assert_eq!(
            heads[46..53],
            ["user_ns", "system_ns", "run", "as", "period", "cacheable", "unsafe"]
        );
        let phase = &trials[0].measured.phases[0];
        let times = format!(",{},{}", phase.user_ns.0, phase.system_ns.0);
        let line = |index: usize| text.lines().nth(index).unwrap();
        assert!(line(1).contains(&format!("{times},curve,then,2001,67108864,,")), "{text}");
        assert!(text.lines().last().unwrap().contains(",curve,today,,,,"), "{text}");
        assert!(text.lines().all(|line| line.matches(',').count() == heads.len() - 1), "{text}");
    }
}
