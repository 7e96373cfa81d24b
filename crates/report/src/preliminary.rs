//! The times of the first trial of each row, in a line, while a run goes on.

use fsdyno_record::Trial;

use crate::answer;
use crate::measure::Measure;
use crate::model::{Row, Section};
use crate::number;
use crate::view;

/// Maximum number of phases in the line.
const MAX_PHASES: usize = 3;

/// Maximum number of rows of a phase.
const MAX_ROWS: usize = 6;

/// Returns the times of main phases after one trial of each row, the fastest first:
/// `maildir deliver-4: xfs 104 ms, ext4 174 ms (1.67x)`; `None` without a phase of several rows. There is no verdict,
/// because the spread is not known yet.
pub fn preliminary(trials: &[Trial]) -> Option<String> {
    let sections = view::sections_of(trials.iter(), None);
    let comparable = sections
        .iter()
        .filter(|section| section.rows.len() > 1 && section.measure != Measure::Space);
    let (main, _) = answer::main_phases(comparable.collect());
    let phases: Vec<String> = main.into_iter().take(MAX_PHASES).map(phase).collect();
    (!phases.is_empty()).then(|| number::sanitize(&phases.join("; ")))
}

/// The rows of a phase. Unsafe rows come last.
fn phase(section: &Section<'_>) -> String {
    let mut rows: Vec<&Row<'_>> = section.rows.iter().collect();
    let key = |row: &Row<'_>| (!row.is_safe(), row.measured.mean);
    rows.sort_by(|a, b| {
        let ((unsafe_a, a), (unsafe_b, b)) = (key(a), key(b));
        unsafe_a.cmp(&unsafe_b).then(a.total_cmp(&b))
    });
    let best = rows.first().map_or(0.0, |row| row.measured.mean);
    let text = |(index, row): (usize, &&Row<'_>)| {
        let ratio = match index > 0 && best > 0.0 {
            true => format!(" ({})", number::format_ratio(row.measured.mean / best)),
            false => String::new(),
        };
        format!("{} {}{ratio}", row.marked_name(), number::seconds(row.measured.mean))
    };
    let mut texts: Vec<String> = rows.iter().enumerate().take(MAX_ROWS).map(text).collect();
    if rows.len() > MAX_ROWS {
        texts.push(format!("and {} more", rows.len() - MAX_ROWS));
    }
    format!("{}: {}", answer::place(section, &rows), texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_rows_of_a_phase_are_listed_by_their_times_with_ratios_to_the_first() {
        let trials = fixture::single();
        let text = preliminary(&trials).unwrap();
        let sections = view::sections_of(trials.iter(), None);
        let first = text.split("; ").next().unwrap();
        let (title, rows) = first.split_once(": ").unwrap();
        assert!(title.starts_with(&sections[0].title()), "{text}");
        let mut times: Vec<(f64, &str)> =
            sections[0].rows.iter().map(|row| (row.measured.mean, row.name.as_str())).collect();
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let names: Vec<&str> = times.iter().map(|(_, name)| *name).collect();
        let listed: Vec<&str> =
            rows.split(", ").map(|row| row.split(' ').next().unwrap()).collect();
        assert_eq!(listed, names);
        let ratio = number::format_ratio(times[1].0 / times[0].0);
        assert!(rows.split(", ").nth(1).unwrap().ends_with(&format!("({ratio})")), "{rows}");
    }

    #[test]
    fn a_single_row_is_not_compared() {
        let trials = fixture::single();
        let one: Vec<Trial> = trials.into_iter().filter(|it| it.plan.label == "ext4").collect();
        assert!(!one.is_empty());
        assert_eq!(preliminary(&one), None);
    }
}
