//! The meaning of the columns of the tables.

use crate::against::Standing;
use crate::columns::BYTES;
use crate::measure::Measure;
use crate::view::{self, Row, Run, Section};

/// The columns among `heads`, each with its meaning, in their order; then `~` and `=`, if some ratio
/// has them.
pub fn legend(sections: &[Section<'_>], heads: &[&str]) -> Vec<(String, String)> {
    let Some(first) = sections.first() else { return Vec::new() };
    let mut entries: Vec<(String, String)> = Vec::new();
    let mut entry = |name: &str, head: &str, meaning: &str| {
        if heads.contains(&head) {
            entries.push((name.into(), meaning.into()));
        }
    };
    entry("returned", "returned", "until the last call returned");
    entry("files", "files", "number of files when the file system was full");
    entry("durable", "durable", &durable(sections));
    entry("±", "±", spread(sections));
    entry("CPU", "CPU", cpu(sections));
    let rate = first.rate_head();
    entry("/s", &rate, "over the time to returned");
    entry("MiB/s", "MiB/s", throughput_meaning(sections));
    let latency = "50 % and 99 % of these ops returned within this time";
    let several = heads.contains(&"p50") && heads.contains(&"p99");
    entry(if several { "p50, p99" } else { "p99" }, "p99", if several { latency } else { P99 });
    let versus = first.ratio_head();
    entry(&versus, &versus, &ratio(sections));
    if view::has(sections, Standing::Open) {
        entries.push(("~".into(), view::OPEN.into()));
    }
    if view::has(sections, Standing::Same) {
        entries.push(("=".into(), view::same(first.least)));
    }
    entries
}

const P99: &str = "99 % of these ops returned within this time";

/// The meaning of durable: memory below a loop device has no cache to empty.
fn durable(sections: &[Section<'_>]) -> String {
    let rows = || sections.iter().flat_map(|section| &section.rows).flat_map(|row| &row.trials);
    let in_memory = |(trial, _): &Run<'_>| {
        trial.plan.device().is_some_and(|device| device.on.starts_with("ram:"))
    };
    let cache = "until the device's own cache was also empty";
    match (rows().any(in_memory), rows().all(in_memory)) {
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

fn spread(sections: &[Section<'_>]) -> &'static str {
    let mut rows = sections.iter().flat_map(|section| &section.rows);
    if rows.all(|row| row.trials.iter().all(|(trial, _)| trial.lab_id.is_some())) {
        "95 % interval of the mean over n seeds; comparisons pair trials of equal seed"
    } else {
        "95 % interval of the mean over n trials"
    }
}

fn cpu(sections: &[Section<'_>]) -> &'static str {
    if rows(sections).all(|row| row.durable.is_some()) {
        "of the threads that issue the calls, until durable"
    } else {
        "of the threads that issue the calls, until durable, if known, else until synced"
    }
}

fn rows<'s, 'a>(sections: &'s [Section<'a>]) -> impl Iterator<Item = &'s Row<'a>> {
    sections.iter().flat_map(|section| &section.rows)
}

/// The comparison uses logarithms (stats::compare), so its ratio is of geometric means.
const MEANS: &str = " (geometric means)";

/// The meaning of a ratio: the times it is of, and its base.
fn ratio(sections: &[Section<'_>]) -> String {
    let by = |measure| sections.iter().filter(|section| section.measure == measure).count();
    let (space, each) = (by(Measure::Space), by(Measure::Operation));
    let time = match (by(Measure::Durable), by(Measure::Returned)) {
        (_, 0) => "the time to durable",
        (0, _) => "the time to returned",
        _ => "the time to durable (to returned if a row has none)",
    };
    let of_space = "the device space per file";
    let of_each = "the time per operation";
    let time = match sections.len() {
        all if space == all => of_space.to_string(),
        all if each == all => of_each.to_string(),
        all => {
            let filled = format!(", if file systems were filled {of_space}");
            let ended = format!(", if a phase ended by time {of_each}");
            let parts = [(space, filled), (each, ended)]
                .map(|(n, text)| if n > 0 { text } else { String::new() });
            let comma = if space + each > 0 { "," } else { "" };
            let base = if space + each == all { "" } else { time };
            format!("{base}{}{comma}", parts.concat()).trim_start_matches(", ").to_string()
        }
    };
    match sections.first().map(|section| section.versus.as_str()) {
        Some("best") | None => format!("{time} over that of the best in the table{MEANS}"),
        Some(label) => format!("{time} over that of {label}{MEANS}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::columns;
    use crate::fixture;

    #[test]
    fn every_column_but_name_and_n_is_explained() {
        let trials = fixture::trials();
        let sections = view::sections(&trials, None);
        let columns = columns(&sections[0]);
        let heads: Vec<&str> = columns.iter().map(|column| column.head.as_str()).collect();
        let names: Vec<String> = legend(&sections, &heads).into_iter().map(|e| e.0).collect();
        assert_eq!(
            names,
            ["returned", "durable", "±", "CPU", "/s", "MiB/s", "p50, p99", "vs best"]
        );
        let few = legend(&sections, &["returned", "p99"]);
        assert_eq!(few.len(), 2, "{few:?}");
    }

    #[test]
    fn memory_below_a_loop_has_no_cache_to_empty() {
        let on = |target: &str| {
            let mut trials = fixture::on_a_loop();
            for trial in &mut trials {
                let device = fsdyno_record::plan::DevicePlan {
                    on: target.into(),
                    raid: None,
                    journal_size: None,
                };
                trial.plan.medium = fsdyno_record::plan::MediumPlan::Device(device);
                trial.plan = trial.plan.clone().sealed();
                trial.trial_id = fsdyno_record::trial::trial_id(&trial.plan, trial.seed);
            }
            trials
        };
        let meaning = |trials: &[fsdyno_record::Trial]| {
            legend(&view::sections(trials, None), &["durable"]).remove(0).1
        };
        assert_eq!(meaning(&on("loop:8G")), "until the device's own cache was also empty");
        assert!(meaning(&on("ram:8G")).ends_with("which is in memory"));
        let both = meaning(&[on("loop:8G"), on("ram:8G")].concat());
        assert!(both.ends_with("; ram:SIZE is in memory and has none"), "{both}");
    }

    #[test]
    fn a_host_pairs_nothing_and_is_measured_by_returned() {
        let trials = fixture::on_a_host();
        let sections = view::sections(&trials, Some("ext4"));
        let all = legend(&sections, &["±", "vs ext4"]);
        assert_eq!(all[0].1, "95 % interval of the mean over n trials");
        assert_eq!(all[1].1, "the time to returned over that of ext4 (geometric means)");
    }
}
