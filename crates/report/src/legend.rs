//! What the columns of the tables mean, for whoever reads them without the manual.

use crate::view::{self, Section};

/// The columns among `heads`, each with its meaning, in the order of the columns; at the end `~`,
/// where some ratio has it.
pub fn legend(sections: &[Section<'_>], heads: &[&str]) -> Vec<(String, String)> {
    let Some(first) = sections.first() else { return Vec::new() };
    let mut entries: Vec<(String, String)> = Vec::new();
    let mut entry = |name: &str, head: &str, meaning: &str| {
        if heads.contains(&head) {
            entries.push((name.into(), meaning.into()));
        }
    };
    entry("returned", "returned", "until the last call came back");
    entry("durable", "durable", "until the device's own cache was empty too");
    entry("±", "±", spread(sections));
    entry("CPU", "CPU", cpu(sections));
    let rate = first.rate_head();
    entry("/s", &rate, "over the time to returned");
    entry("MiB/s", "MiB/s", "bytes written and read, over the time to returned");
    let latency = "the time within which 50 % and 99 % of these ops came back";
    let several = heads.contains(&"p50") && heads.contains(&"p99");
    entry(if several { "p50, p99" } else { "p99" }, "p99", if several { latency } else { P99 });
    let versus = first.ratio_head();
    entry(&versus, &versus, &ratio(sections));
    if view::has_open(sections) {
        entries.push(("~".into(), view::OPEN.into()));
    }
    entries
}

const P99: &str = "the time within which 99 % of these ops came back";

fn spread(sections: &[Section<'_>]) -> &'static str {
    let mut rows = sections.iter().flat_map(|section| &section.rows);
    if rows.all(|row| row.trials.iter().all(|(trial, _)| trial.lab_id.is_some())) {
        "95 % interval of the mean over n seeds; comparisons pair the trials of equal seed"
    } else {
        "95 % interval of the mean over n trials"
    }
}

fn cpu(sections: &[Section<'_>]) -> &'static str {
    if sections.iter().all(|section| section.by_durable) {
        "of the threads that issue the calls, until durable"
    } else {
        "of the threads that issue the calls, until durable, where that is known, else until synced"
    }
}

/// The comparison is made of logarithms (stats::compare), so its ratio is of geometric means.
const MEANS: &str = " (geometric means)";

/// Of which times the ratio is, and to whom.
fn ratio(sections: &[Section<'_>]) -> String {
    let time = match sections.iter().filter(|section| section.by_durable).count() {
        0 => "the time to returned",
        n if n == sections.len() => "the time to durable",
        _ => "the time to durable (to returned where a row has none)",
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
    fn a_host_pairs_nothing_and_is_measured_by_what_returned() {
        let trials = fixture::on_a_host();
        let sections = view::sections(&trials, Some("ext4"));
        let all = legend(&sections, &["±", "vs ext4"]);
        assert_eq!(all[0].1, "95 % interval of the mean over n trials");
        assert_eq!(all[1].1, "the time to returned over that of ext4 (geometric means)");
    }
}
