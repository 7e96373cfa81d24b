//! The tables for a spreadsheet: one line per row and phase, times in seconds, nothing rounded.

use fsdyno_record::Nanos;
use fsdyno_stats::Summary;

use crate::baseline::Basis;
use crate::model::{Row, Section};
use crate::part::Part;
use crate::table::{self, Column};
use crate::view;

/// A row with its section and part.
type Line<'s, 'a> = (&'s str, &'s Section<'a>, &'s Row<'a>);

/// The lines of all sections.
pub fn csv(parts: &[Part<'_>], basis: Basis<'_>) -> String {
    let sections: Vec<_> = parts
        .iter()
        .map(|part| (part.name().unwrap_or_default(), view::sections(part.trials, basis)))
        .collect();
    let lines = sections.iter().flat_map(|(name, sections)| {
        let line = move |section| move |row| (name.as_str(), section, row);
        sections.iter().flat_map(move |section| section.rows.iter().map(line(section)))
    });
    table::csv(|out| out.table(&columns(), lines))
}

/// Returns the 95 % interval of the ratio of a row.
fn ratio_interval(row: &Row<'_>) -> Option<(f64, f64)> {
    row.comparison.and_then(|comparison| comparison.interval)
}

/// The columns. Other programs refer to them by name and position: append new ones.
fn columns<'s, 'a: 's>() -> Vec<Column<'static, Line<'s, 'a>>> {
    let text = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let half_width =
        |summary: &Summary| summary.relative_half_width().map(|half| half * summary.mean);
    let percentile = |row: &Row<'_>, p: f64| {
        row.latency.as_ref().map(|latency| Nanos(latency.percentile(p)).seconds() * 1e6)
    };
    vec![
        Column::words("run", |(part, ..): &Line<'_, '_>| part.to_string()),
        Column::words("workload", |(_, section, _): &Line<'_, '_>| section.workload.clone()),
        Column::words("phase", |(_, section, _): &Line<'_, '_>| section.phase.clone()),
        Column::words("file system", |(.., row): &Line<'_, '_>| row.name.clone()),
        Column::number("n", |(.., row): &Line<'_, '_>| row.returned.n.to_string()),
        Column::number("returned s", |(.., row): &Line<'_, '_>| row.returned.mean.to_string()),
        Column::number("returned ± s", move |(.., row): &Line<'_, '_>| {
            text(half_width(&row.returned))
        }),
        Column::number("synced s", move |(.., row): &Line<'_, '_>| {
            text(row.mean(|phase| phase.synced_ns.map(Nanos::seconds)))
        }),
        Column::number("durable s", move |(.., row): &Line<'_, '_>| {
            text(row.durable.as_ref().map(|durable| durable.mean))
        }),
        Column::number("durable ± s", move |(.., row): &Line<'_, '_>| {
            text(row.durable.as_ref().and_then(half_width))
        }),
        Column::number("cpu s", |(.., row): &Line<'_, '_>| row.cpu.mean.to_string()),
        Column::words("unit of rate", |(_, section, _): &Line<'_, '_>| section.rate_head()),
        Column::number("rate", move |(.., row): &Line<'_, '_>| {
            text(row.rate.map(|rate| rate.mean))
        }),
        Column::number("p50 us", move |(.., row): &Line<'_, '_>| text(percentile(row, 50.0))),
        Column::number("p99 us", move |(.., row): &Line<'_, '_>| text(percentile(row, 99.0))),
        Column::words("versus", |(_, section, _): &Line<'_, '_>| section.versus.clone()),
        Column::number("ratio", move |(.., row): &Line<'_, '_>| {
            text(row.ratio.map(|ratio| ratio.value))
        }),
        Column::number("ratio low", move |(.., row): &Line<'_, '_>| {
            text(ratio_interval(row).map(|(low, _)| low))
        }),
        Column::number("ratio high", move |(.., row): &Line<'_, '_>| {
            text(ratio_interval(row).map(|(_, high)| high))
        }),
        Column::words("flags", |(.., row): &Line<'_, '_>| {
            row.flags.iter().map(|flag| flag.name()).collect::<Vec<_>>().join(", ")
        }),
        Column::words("shared by", |(.., row): &Line<'_, '_>| {
            let plan = row.trials.first().map(|(trial, _)| &trial.plan);
            let number = plan.and_then(|plan| plan.venue.shared_by());
            number.map(|number| number.to_string()).unwrap_or_default()
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn each_row_and_phase_has_a_line_with_times_rates_and_percentiles() {
        let trials = fixture::trials();
        let text = csv(&[Part::whole(&trials)], None.into());
        let mut lines = text.lines();
        let heads: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let sections = view::sections(&trials, None);
        let rows: usize = sections.iter().map(|section| section.rows.len()).sum();
        assert_eq!(lines.clone().count(), rows);
        let first: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let cell = |name: &str| first[heads.iter().position(|head| *head == name).unwrap_or(0)];
        assert_eq!(cell("phase"), sections[0].phase);
        let parsed = |name: &str| cell(name).parse::<f64>().unwrap_or(f64::NAN);
        assert_eq!(parsed("returned s"), sections[0].rows[0].returned.mean);
        assert!(parsed("rate") > 0.0 && parsed("p99 us") >= parsed("p50 us"), "{text}");
    }
}
