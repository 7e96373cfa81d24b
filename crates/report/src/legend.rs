//! What the columns of the tables mean, for whoever reads them without the manual.

use crate::against::Standing;
use crate::columns::BYTES;
use crate::measure::Measure;
use crate::view::{self, Row, Run, Section};

/// The columns among `heads`, each with its meaning, in the order of the columns; at the end `~` and `=`,
/// where some ratio has them.
pub fn legend(sections: &[Section<'_>], heads: &[&str]) -> Vec<(String, String)> {
    let Some(first) = sections.first() else { return Vec::new() };
    let mut entries: Vec<(String, String)> = Vec::new();
    let mut entry = |name: &str, head: &str, meaning: &str| {
        if heads.contains(&head) {
            entries.push((name.into(), meaning.into()));
        }
    };
    entry("returned", "returned", "until the last call came back");
    entry("files", "files", "how many there were when the file system was full");
    entry("durable", "durable", &durable(sections));
    entry("±", "±", spread(sections));
    entry("CPU", "CPU", cpu(sections));
    let rate = first.rate_head();
    entry("/s", &rate, "over the time to returned");
    entry("MiB/s", "MiB/s", moved(sections));
    let latency = "the time within which 50 % and 99 % of these ops came back";
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

const P99: &str = "the time within which 99 % of these ops came back";

/// Until when: memory below a loop has no cache that could be emptied.
fn durable(sections: &[Section<'_>]) -> String {
    let rows = || sections.iter().flat_map(|section| &section.rows).flat_map(|row| &row.trials);
    let in_memory = |(trial, _): &Run<'_>| {
        trial.plan.device().is_some_and(|device| device.on.starts_with("ram:"))
    };
    let cache = "until the device's own cache was empty too";
    match (rows().any(in_memory), rows().all(in_memory)) {
        (false, _) => cache.to_string(),
        (_, true) => "until all was written to the device, which lies in memory".to_string(),
        _ => format!("{cache}; ram:SIZE lies in memory and has none"),
    }
}

/// What a workload's own books count once.
fn moved(sections: &[Section<'_>]) -> &'static str {
    let mut phases = sections.iter().flat_map(|section| &section.rows).flat_map(|row| &row.trials);
    let rewritten = |(_, phase): &Run<'_>| {
        phase.bytes_read.0.min(phase.bytes_written.0) > 0 && phase.books.contains_key(BYTES)
    };
    match phases.any(rewritten) {
        true => "bytes written and read, those of a rewrite once, over the time to returned",
        false => "bytes written and read, over the time to returned",
    }
}

fn spread(sections: &[Section<'_>]) -> &'static str {
    let mut rows = sections.iter().flat_map(|section| &section.rows);
    if rows.all(|row| row.trials.iter().all(|(trial, _)| trial.lab_id.is_some())) {
        "95 % interval of the mean over n seeds; comparisons pair the trials of equal seed"
    } else {
        "95 % interval of the mean over n trials"
    }
}

fn cpu(sections: &[Section<'_>]) -> &'static str {
    if rows(sections).all(|row| row.durable.is_some()) {
        "of the threads that issue the calls, until durable"
    } else {
        "of the threads that issue the calls, until durable, where that is known, else until synced"
    }
}

fn rows<'s, 'a>(sections: &'s [Section<'a>]) -> impl Iterator<Item = &'s Row<'a>> {
    sections.iter().flat_map(|section| &section.rows)
}

/// The comparison is made of logarithms (stats::compare), so its ratio is of geometric means.
const MEANS: &str = " (geometric means)";

/// Of which times the ratio is, and to whom.
fn ratio(sections: &[Section<'_>]) -> String {
    let by = |measure| sections.iter().filter(|section| section.measure == measure).count();
    let (room, each) = (by(Measure::Room), by(Measure::Operation));
    let time = match (by(Measure::Durable), by(Measure::Returned)) {
        (_, 0) => "the time to durable",
        (0, _) => "the time to returned",
        _ => "the time to durable (to returned where a row has none)",
    };
    let of_room = "the device's bytes for each file that it held";
    let of_each = "the time of one operation";
    let time = match sections.len() {
        all if room == all => of_room.to_string(),
        all if each == all => of_each.to_string(),
        all => {
            let filled = format!(", where file systems were filled {of_room}");
            let ended = format!(", where a phase ended by time {of_each}");
            let parts = [(room, filled), (each, ended)]
                .map(|(n, text)| if n > 0 { text } else { String::new() });
            let comma = if room + each > 0 { "," } else { "" };
            let base = if room + each == all { "" } else { time };
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
    fn every_column_but_the_names_and_their_number_is_explained() {
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
        let on = |typed: &str| {
            let mut trials = fixture::on_a_loop();
            for trial in &mut trials {
                let device = fsdyno_record::plan::DevicePlan {
                    on: typed.into(),
                    raid: None,
                    journal_size: None,
                };
                trial.plan.medium = fsdyno_record::plan::MediumPlan::Device(device);
                trial.plan = trial.plan.clone().sealed();
                trial.trial_id = fsdyno_record::trial::trial_id(&trial.plan, trial.seed);
            }
            trials
        };
        let told = |trials: &[fsdyno_record::Trial]| {
            legend(&view::sections(trials, None), &["durable"]).remove(0).1
        };
        assert_eq!(told(&on("loop:8G")), "until the device's own cache was empty too");
        assert!(told(&on("ram:8G")).ends_with("which lies in memory"));
        let both = told(&[on("loop:8G"), on("ram:8G")].concat());
        assert!(both.ends_with("; ram:SIZE lies in memory and has none"), "{both}");
    }

    #[test]
    fn a_host_pairs_nothing_and_is_measured_by_what_returned() {
        let trials = fixture::on_a_host();
        let sections = view::sections(&trials, Some("ext4"));
        let all = legend(&sections, &["±", "vs ext4"]);
        assert_eq!(all[0].1, "95 % interval of the mean over n trials");
        assert_eq!(all[1].1, "the time to returned over that of ext4 (geometric means)");
    }
}
