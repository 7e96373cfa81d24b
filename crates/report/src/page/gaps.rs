//! Work between the phases, and its duration.

use std::collections::BTreeMap;

use fsdyno_record::trial::Gap;
use fsdyno_stats::Summary;

use crate::model::Section;
use crate::number;
use crate::table::{Row, Table};

/// The table, or `None` if there was no such work.
pub fn table(sections: &[Section<'_>]) -> Option<Table> {
    let heads = ["<workload", "<file system", "<position", "<action", "time", "n"];
    let mut table = Table::new("Means over n trials", &heads);
    let row = |cells| Row { cells, ..Row::default() };
    table.rows = lines(sections).into_iter().map(row).collect();
    (!table.rows.is_empty()).then_some(table)
}

/// Workload, row, position, the actual action, its mean duration, and the number of trials.
fn lines(sections: &[Section<'_>]) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for section in sections {
        for row in &section.rows {
            let mut times: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
            for (trial, phase) in &row.trials {
                let phases = &trial.measured.phases;
                let last = phases.last().is_some_and(|p| p.name == phase.name);
                // If nothing was requested and nothing done, there is no cost.
                let is_idle = |gap: &&Gap| gap.wanted == "none" && gap.done == "none";
                for gap in trial.measured.gaps.iter().filter(|gap| !is_idle(gap)) {
                    if gap.before == phase.name || (last && gap.before.is_empty()) {
                        // The key has the executed action, which may differ from the requested one.
                        let key = (gap.before.as_str(), gap.done.as_str());
                        times.entry(key).or_default().push(gap.elapsed_ns.seconds());
                    }
                }
            }
            for ((before, done), times) in times.into_iter().rev() {
                let Some(summary) = Summary::of(&times) else { continue };
                let position = match before {
                    "" => "after the last phase".to_string(),
                    name => format!("before {name}"),
                };
                let workload = section.workload.clone();
                lines.push(vec![
                    workload,
                    row.name.clone(),
                    position,
                    done.into(),
                    number::seconds(summary.mean),
                    summary.n.to_string(),
                ]);
            }
        }
    }
    lines
}
