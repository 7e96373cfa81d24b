//! The columns of a section's table, each with its cell and its meaning. A new column is added in [`times`] or
//! [`rates`].

use fsdyno_record::Nanos;
use fsdyno_record::plan::MediumPlan;
use fsdyno_record::trial::Phase;
use fsdyno_stats::Summary;

use crate::capacity;
use crate::measure::Measure;
use crate::model::{Row, Section};
use crate::number;
use crate::run::Run;
use crate::table::{Column, Kind, Row as Cells, Table, Term, Tone, legend};

/// The name of the work unit in which a workload counts its bytes.
pub const BYTES: &str = "bytes";

/// The names of the columns that can be chosen.
pub const COLUMN_NAMES: &[&str] = &[
    "n",
    "files",
    "returned",
    "synced",
    "durable",
    "cpu",
    "kernel-threads",
    "rate",
    "p50",
    "p99",
    "mib",
    "ratio",
];

/// The table of a section, which is one of `all` sections of a report, with the columns chosen from [`COLUMN_NAMES`],
/// or with the default columns if none are chosen.
pub fn table(section: &Section<'_>, all: &[Section<'_>], chosen: &[&str]) -> Table {
    let columns = columns(section, all).into_iter().filter(|column| match chosen.is_empty() {
        true => column.outputs != Outputs::Page,
        false => column.name.is_empty() || chosen.contains(&column.name),
    });
    let columns = columns.map(|OutputColumn { mut column, .. }| {
        // A requested column is not omitted.
        if !chosen.is_empty() {
            column.head.priority = 0;
        }
        column
    });
    let mut table = build_table(columns.collect(), section);
    table.title = section.title();
    table
}

/// The table of a section on a page, which has room for all columns and shows flags below their row.
pub fn page_table(section: &Section<'_>) -> Table {
    let all = std::slice::from_ref(section);
    let columns =
        columns(section, all).into_iter().filter(|column| column.outputs != Outputs::Text);
    let mut table = build_table(columns.map(|column| column.column).collect(), section);
    for (cells, row) in table.rows.iter_mut().zip(&section.rows) {
        cells.flags = row.flags.iter().map(|flag| flag.name()).collect();
    }
    table
}

/// The meaning of every column that any section has.
pub fn meanings(sections: &[Section<'_>]) -> Vec<Term> {
    let table = |section| {
        let columns = columns(section, sections).into_iter().map(|column| column.column);
        build_table(columns.collect(), section)
    };
    let tables: Vec<Table> = sections.iter().map(table).collect();
    let heads = |table| {
        Table::shown(table).map(|column| (column, &table.heads[column])).collect::<Vec<_>>()
    };
    legend(tables.iter().flat_map(heads))
}

fn build_table<'a>(columns: Vec<Column<'_, Row<'a>>>, section: &Section<'a>) -> Table {
    let mut table = Table::of(columns, &section.rows);
    let best = |row: &Row<'_>| if row.best { Tone::Good } else { Tone::Plain };
    let rows: &mut Vec<Cells> = &mut table.rows;
    rows.iter_mut().zip(&section.rows).for_each(|(cells, row)| cells.tone = best(row));
    table.without_empty()
}

/// The outputs in which a column appears.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outputs {
    All,
    Page,
    /// Only text output: a page shows these values in a separate figure.
    Text,
}

/// A column, the outputs that have it, and its name in [`COLUMN_NAMES`]; a column with an empty name is always shown.
struct OutputColumn<'s, 'a> {
    column: Column<'s, Row<'a>>,
    outputs: Outputs,
    name: &'static str,
}

/// Every column, in order. If space is short, the column with the highest priority number is omitted first.
fn columns<'s, 'a>(section: &'s Section<'a>, all: &[Section<'_>]) -> Vec<OutputColumn<'s, 'a>> {
    let mut columns = times(all);
    columns.extend(rates(section, all));
    columns
}

fn everywhere<'s, 'a>(name: &'static str, column: Column<'s, Row<'a>>) -> OutputColumn<'s, 'a> {
    OutputColumn { column, outputs: Outputs::All, name }
}

fn on_pages<'s, 'a>(name: &'static str, column: Column<'s, Row<'a>>) -> OutputColumn<'s, 'a> {
    OutputColumn { column, outputs: Outputs::Page, name }
}

fn in_text<'s, 'a>(name: &'static str, column: Column<'s, Row<'a>>) -> OutputColumn<'s, 'a> {
    OutputColumn { column, outputs: Outputs::Text, name }
}

fn dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
}

/// The file system, the number of trials, and the times.
fn times<'s, 'a>(all: &[Section<'_>]) -> Vec<OutputColumn<'s, 'a>> {
    let mean = |summary: &Summary| number::seconds(summary.mean);
    let kernel =
        |phase: &Phase| Some(phase.kernel_cpu_ns.values().map(|ns| ns.seconds()).sum::<f64>());
    vec![
        everywhere("", Column::words("file system", |row: &Row<'_>| row.name.clone())),
        everywhere(
            "n",
            Column::number("n", |row: &Row<'_>| row.returned.n.to_string()).priority(2),
        ),
        everywhere(
            "files",
            Column::number("files", move |row: &Row<'_>| {
                dash(capacity::files(row).map(|files| number::count(files.round() as u64)))
            })
            .means("number of files when the file system was full"),
        ),
        everywhere(
            "returned",
            Column::number("returned", move |row: &Row<'_>| mean(&row.returned))
                .priority(1)
                .means("until the last call returned"),
        ),
        everywhere("returned", spread(all, |row| spread_of(&row.returned)).priority(5)),
        on_pages(
            "synced",
            Column::number("synced", move |row: &Row<'_>| {
                dash(row.mean(|phase| phase.synced_ns.map(Nanos::seconds)).map(number::seconds))
            })
            .means("until syncfs(2), which writes out dirty data, returned"),
        ),
        everywhere(
            "durable",
            Column::number("durable", move |row: &Row<'_>| dash(row.durable.as_ref().map(mean)))
                .means(durable_meaning(all)),
        ),
        everywhere(
            "durable",
            spread(all, |row| row.durable.as_ref().map(spread_of).unwrap_or_default()).priority(4),
        ),
        everywhere(
            "cpu",
            Column::number("CPU", move |row: &Row<'_>| mean(&row.cpu))
                .priority(6)
                .means(cpu_meaning(all)),
        ),
        on_pages(
            "kernel-threads",
            Column::number("kernel threads", move |row: &Row<'_>| {
                dash(row.mean(kernel).map(number::seconds))
            }),
        ),
    ]
}

/// The rate, latencies, throughput, ratio and flags.
fn rates<'s, 'a>(section: &'s Section<'a>, all: &[Section<'_>]) -> Vec<OutputColumn<'s, 'a>> {
    // A single row has nothing to be compared with.
    let single_row = section.rows.len() < 2;
    let with_op = |column| with_latency_note(section, column);
    vec![
        everywhere(
            "rate",
            Column::number(section.rate_head(), move |row: &Row<'_>| {
                dash(
                    row.rate
                        .filter(|rate| rate.mean > 0.0)
                        .map(|rate| number::format_scaled(rate.mean)),
                )
            })
            .priority(3)
            .term("/s")
            .means("over the time to returned"),
        ),
        in_text(
            "p50",
            with_op(Column::number("p50", |row: &Row<'_>| latency(row, 50.0)).priority(8)),
        ),
        in_text(
            "p99",
            with_op(
                Column::number("p99", |row: &Row<'_>| latency(row, 99.0))
                    .priority(7)
                    .means("99 % of these ops returned within this time")
                    .joint_meaning("50 % and 99 % of these ops returned within this time"),
            ),
        ),
        everywhere(
            "mib",
            Column::number("MiB/s", move |row: &Row<'_>| dash(throughput(row)))
                .priority(9)
                .means(throughput_meaning(all)),
        ),
        everywhere(
            "ratio",
            Column::number(section.ratio_head(), move |row: &Row<'_>| match row.ratio {
                Some(ratio) if !single_row => ratio.to_string(),
                _ => "-".into(),
            })
            .means(ratio_meaning(all)),
        ),
        in_text(
            "",
            Column::new(Kind::Notes, "flags", |row: &Row<'_>| {
                row.flags.iter().map(|flag| flag.name()).collect::<Vec<_>>().join(", ")
            }),
        ),
    ]
}

/// A column for the spread of the column before it.
fn spread<'c, 'a>(
    all: &[Section<'_>],
    cell: impl Fn(&Row<'a>) -> String + 'c,
) -> Column<'c, Row<'a>> {
    let column = Column::new(Kind::Spread, "±", cell).means(spread_meaning(all));
    column.sentence_name("their spread (±)")
}

/// The relative half-width of the interval: `0.4 %`, or empty for a single trial.
fn spread_of(summary: &Summary) -> String {
    summary.relative_half_width().map(number::percent).unwrap_or_default()
}

/// A latency column, with a note if its op is different from the one that the rate counts.
fn with_latency_note<'c, 'a>(
    section: &Section<'_>,
    mut column: Column<'c, Row<'a>>,
) -> Column<'c, Row<'a>> {
    column.head.subject = section.latency_note();
    column
}

fn latency(row: &Row<'_>, p: f64) -> String {
    row.latency.as_ref().map_or("-".into(), |h| Nanos(h.percentile(p)).to_string())
}

/// The throughput over the time to returned, in MiB/s, or `None` if no bytes were moved. If the workload counts bytes
/// itself, its count is used, because it counts a rewrite once (Bonnie's rewrite reads and writes each byte); otherwise
/// all bytes written and read count.
pub fn throughput(row: &Row<'_>) -> Option<String> {
    let rate = row.mean(|phase| {
        let moved = phase.bytes_written.0 + phase.bytes_read.0;
        let bytes = phase.books.get(BYTES).copied().unwrap_or(moved) as f64;
        Some(bytes / phase.returned_ns.seconds() / 1048576.0).filter(|rate| rate.is_finite())
    })?;
    (rate > 0.0).then(|| number::format_scaled(rate))
}

fn rows<'s, 'a>(sections: &'s [Section<'a>]) -> impl Iterator<Item = &'s Row<'a>> {
    sections.iter().flat_map(|section| &section.rows)
}

/// The meaning of the column `durable`: memory below a loop device has no cache to empty.
fn durable_meaning(sections: &[Section<'_>]) -> String {
    let trials = || sections.iter().flat_map(|section| &section.rows).flat_map(|row| &row.trials);
    let in_memory = |(trial, _): &Run<'_>| matches!(trial.plan.medium, MediumPlan::Ram(_));
    let cache = "until the device's own cache was also empty";
    match (trials().any(in_memory), trials().all(in_memory)) {
        (false, _) => cache.to_string(),
        (_, true) => "until all data was written to the device, which is in memory".to_string(),
        _ => format!("{cache}; ram:SIZE is in memory and has none"),
    }
}

/// The meaning of MiB/s; some workloads count rewritten bytes once.
fn throughput_meaning(sections: &[Section<'_>]) -> &'static str {
    let mut phases = sections.iter().flat_map(|section| &section.rows).flat_map(|row| &row.trials);
    let rewritten = |(_, phase): &Run<'_>| {
        phase.bytes_read.0.min(phase.bytes_written.0) > 0 && phase.books.contains_key(BYTES)
    };
    match phases.any(rewritten) {
        true => "bytes written and read (a rewrite counts once) over the time to returned",
        false => "bytes written and read over the time to returned",
    }
}

fn spread_meaning(sections: &[Section<'_>]) -> &'static str {
    let mut rows = sections.iter().flat_map(|section| &section.rows);
    if rows.all(|row| row.trials.iter().all(|(trial, _)| trial.lab_id.is_some())) {
        "95 % interval of the mean over n seeds; comparisons pair trials with the same seed"
    } else {
        "95 % interval of the mean over n trials"
    }
}

fn cpu_meaning(sections: &[Section<'_>]) -> &'static str {
    if rows(sections).all(|row| row.durable.is_some()) {
        "of the threads that issue the calls, until durable"
    } else {
        "of the threads that issue the calls, until durable, or until synced if durable is unknown"
    }
}

/// The note on ratios: a comparison uses logarithms (stats::compare), so its ratio is a ratio of geometric means.
const GEOMETRIC_MEANS: &str = " (geometric means)";

/// The meaning of a ratio: the kind of time that is divided, and the base.
fn ratio_meaning(sections: &[Section<'_>]) -> String {
    let count_by = |measure| sections.iter().filter(|section| section.measure == measure).count();
    let (space, per_operation) = (count_by(Measure::Space), count_by(Measure::Operation));
    let time = match (count_by(Measure::Durable), count_by(Measure::Returned)) {
        (_, 0) => "the time to durable",
        (0, _) => "the time to returned",
        _ => "the time to durable (to returned if a row has none)",
    };
    let space_per_file = "the device space per file";
    let time_per_operation = "the time per operation";
    let time = match sections.len() {
        all if space == all => space_per_file.to_string(),
        all if per_operation == all => time_per_operation.to_string(),
        all => {
            let filled = format!(", {space_per_file} where file systems were filled");
            let ended = format!(", {time_per_operation} where a phase has a time limit");
            let parts = [(space, filled), (per_operation, ended)]
                .map(|(n, text)| if n > 0 { text } else { String::new() });
            let comma = if space + per_operation > 0 { "," } else { "" };
            let base = if space + per_operation == all { "" } else { time };
            format!("{base}{}{comma}", parts.concat()).trim_start_matches(", ").to_string()
        }
    };
    match sections.first().map(|section| section.versus.as_str()) {
        Some("best") | None => {
            format!("{time} over that of the best in the table{GEOMETRIC_MEANS}")
        }
        Some(label) => format!("{time} over that of {label}{GEOMETRIC_MEANS}"),
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_record::{Bytes, Trial};

    use super::*;
    use crate::{fixture, view};

    fn meanings_of(sections: &[Section<'_>], heads: &[&str]) -> Vec<(String, String)> {
        let table = table(&sections[0], sections, &[]);
        let shown = table.heads.iter().enumerate().filter(|(_, head)| heads.contains(&&*head.text));
        legend(shown)
    }

    #[test]
    fn a_rewrite_has_the_same_rate_wherever_it_is_printed() {
        let mut trials = fixture::single();
        let phase = &mut trials[0].measured.phases[0];
        (phase.bytes_read, phase.bytes_written) = (Bytes(64 << 20), Bytes(64 << 20));
        phase.returned_ns = Nanos(2_000_000_000);
        phase.books = [(BYTES.to_string(), 64 << 20)].into();
        let sections = view::sections(&trials[..1], None);
        assert_eq!(throughput(&sections[0].rows[0]).as_deref(), Some("32"));
        let lines = crate::work_units::lines(&sections[0]).1.concat();
        assert!(lines.contains("ext4 32 MiB/s"), "{lines}");
    }

    #[test]
    fn every_column_except_name_and_n_is_explained() {
        let trials = fixture::trials();
        let sections = view::sections(&trials, None);
        let table = table(&sections[0], &sections, &[]);
        let names: Vec<String> = legend(table.shown().map(|column| (column, &table.heads[column])))
            .into_iter()
            .map(|e| e.0)
            .collect();
        assert_eq!(
            names,
            ["returned", "durable", "±", "CPU", "/s", "p50, p99", "MiB/s", "vs best"]
        );
        let selected = meanings_of(&sections, &["returned", "p99"]);
        assert_eq!(selected.len(), 2, "{selected:?}");
        assert!(selected[1].1.starts_with("99 % of"), "{selected:?}");
    }

    #[test]
    fn a_page_has_more_columns_than_a_text_table_but_no_latencies() {
        let trials = fixture::trials();
        let sections = view::sections(&trials, None);
        let (page, table) = (page_table(&sections[0]), table(&sections[0], &sections, &[]));
        let heads = |table: &Table| -> Vec<String> {
            let heads = table
                .heads
                .iter()
                .filter(|head| head.kind != Kind::Notes && head.subject.is_none());
            heads
                .map(|head| head.text.clone())
                .filter(|head| !["p50", "p99"].contains(&&**head))
                .collect()
        };
        let (page, table) = (heads(&page), heads(&table));
        assert!(table.iter().all(|head| page.contains(head)) && page.len() > table.len());
    }

    #[test]
    fn a_loop_device_in_memory_has_no_cache_to_empty() {
        let on = |target: &str| {
            let mut trials = fixture::on_a_loop();
            for trial in &mut trials {
                fixture::put_on(trial, target);
                trial.plan = trial.plan.clone().with_hash();
                trial.trial_id = fsdyno_record::trial::trial_id(&trial.plan, trial.seed);
            }
            trials
        };
        let meaning =
            |trials: &[Trial]| meanings_of(&view::sections(trials, None), &["durable"]).remove(0).1;
        assert_eq!(meaning(&on("loop:8G")), "until the device's own cache was also empty");
        assert!(meaning(&on("ram:8G")).ends_with("which is in memory"));
        let both = meaning(&[on("loop:8G"), on("ram:8G")].concat());
        assert!(both.ends_with("; ram:SIZE is in memory and has none"), "{both}");
    }

    #[test]
    fn host_trials_are_not_paired_and_are_compared_by_the_time_to_returned() {
        let trials = fixture::on_a_host();
        let sections = view::sections(&trials, Some("ext4"));
        let all = meanings_of(&sections, &["±", "vs ext4"]);
        assert_eq!(all[0].1, "95 % interval of the mean over n trials");
        assert_eq!(all[1].1, "the time to returned over that of ext4 (geometric means)");
    }
}
