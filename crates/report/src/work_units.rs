//! The work of a phase in its workload's own units, and its rates.

use crate::capacity;
use crate::model::{Row, Section};
use crate::number;

/// The lines with the result of a phase, and those with further details. Each unit has a line: `transactions:
/// 10,000; ext4 98.3/s, xfs 110/s`. A unit whose name ends in `bytes` is shown in MiB; a unit that begins with `live`
/// is a level and has no rate. A count of zero has no line. Rates are means over the trials, to the time of the last
/// return.
pub fn lines(section: &Section<'_>) -> (Vec<String>, Vec<String>) {
    let phases = || section.rows.iter().flat_map(|row| &row.trials).map(|(_, phase)| *phase);
    let mut units: Vec<&String> = phases().flat_map(|phase| phase.books.keys()).collect();
    // The unit that represents the phase comes first.
    units.sort_by_key(|unit| (section.unit.as_deref() != Some(unit.as_str()), unit.as_str()));
    units.dedup();
    let line = |unit: &String| {
        let counts: Vec<u64> =
            phases().filter_map(|phase| phase.books.get(unit).copied()).collect();
        let (min, max) = (counts.iter().min()?, counts.iter().max()?);
        if *max == 0 {
            return None;
        }
        let shown = |n: &u64| match is_bytes(unit) {
            true => format!("{} MiB", number::format_scaled(*n as f64 / 1048576.0)),
            false => number::count(*n),
        };
        let count = match min == max {
            true => shown(max),
            false => format!("{} to {}", shown(min), shown(max)),
        };
        let rates: Vec<String> = section.rows.iter().filter_map(|row| rate(row, unit)).collect();
        let name = unit.strip_suffix(" bytes").unwrap_or(unit);
        let rates = if unit.starts_with("live") { String::new() } else { rates.join(", ") };
        let line = format!("{name}: {count}; {rates}");
        Some(number::sanitize(line.trim_end_matches("; ")))
    };
    (capacity::lines(section), units.into_iter().filter_map(line).collect())
}

/// Returns true if a unit is bytes.
fn is_bytes(unit: &str) -> bool {
    unit.ends_with("bytes") || unit.starts_with("bytes")
}

fn rate(row: &Row<'_>, unit: &str) -> Option<String> {
    let mean = row.mean(|phase| {
        let seconds = phase.returned_ns.seconds();
        Some(*phase.books.get(unit)? as f64 / seconds).filter(|rate| rate.is_finite())
    })?;
    Some(match is_bytes(unit) {
        true => format!("{} {} MiB/s", row.in_sentence(), number::format_scaled(mean / 1048576.0)),
        false => format!("{} {}/s", row.in_sentence(), number::format_scaled(mean)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};

    #[test]
    fn every_unit_has_its_count_and_a_rate_for_each_row() {
        let mut trials = fixture::single();
        for trial in &mut trials {
            let phase = &mut trial.measured.phases[0];
            phase.returned_ns = fsdyno_record::Nanos(2_000_000_000);
            phase.books =
                [("transactions".into(), 10_000), ("written bytes".into(), 3 << 20)].into();
        }
        let sections = view::sections(&trials, None);
        assert_eq!(
            lines(&sections[0]).1,
            [
                "transactions: 10,000; ext4 5.00k/s, xfs 5.00k/s, far 5.00k/s",
                "written: 3 MiB; ext4 1.50 MiB/s, xfs 1.50 MiB/s, far 1.50 MiB/s",
            ]
        );
        assert_eq!(lines(&sections[1]), (Vec::new(), Vec::new()));
    }
}
