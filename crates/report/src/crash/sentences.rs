//! The results of power cuts, in sentences: losses, and the confidence limits that follow from the number of cuts.

use std::collections::BTreeMap;

use fsdyno_crash::{CutOutcome, Row};
use fsdyno_filesystem::Guarantee;
use fsdyno_record::plan::DiskPlan;
use fsdyno_stats::proportion;

use super::{executed, name_with_disk, risks};
use crate::number;

/// The confidence of all limits.
const LEVEL: f64 = 0.95;

/// Candidate limits of the share of cuts with a loss. The first that is below half of the current limit is the next
/// goal: the sentence names the number of cuts without a loss that would demonstrate it.
const SHARES: [f64; 3] = [0.05, 0.01, 0.001];

/// Sentences on losses of acknowledged work by file system, with the limits of the share of cuts that cause them; on
/// cuts whose result could not be examined, or only after a repair; and on rows that could not run.
pub fn sentences(rows: &[Row]) -> Vec<String> {
    let mut lines = without_loss(rows);
    lines.extend(rows.iter().filter_map(risk_sentence));
    lines.extend(rows.iter().filter_map(loss_sentence));
    if executed(rows).any(|row| !row.outcomes.is_empty()) {
        lines.push(
            "Most crash points are where a loss is most likely, so these shares are of such cuts, not of power cuts at random \
             moments."
                .into(),
        );
    }
    lines.extend(rows.iter().filter_map(unexamined_sentence));
    lines.extend(rows.iter().flat_map(repair_sentences));
    lines.extend(executed(rows).filter_map(tear_sentence));
    for row in executed(rows).filter(|row| row.has_old_oracle() && !row.outcomes.is_empty()) {
        lines.push(format!(
            "{}: judged by an earlier fsdyno, which did not count a file found only under an old name as lost.",
            name_with_disk(row)
        ));
    }
    for row in executed(rows).filter(|row| row.outcomes.is_empty()) {
        lines.push(format!(
            "{}: its power was never cut, because none of its phases was timed.",
            name_with_disk(row)
        ));
    }
    for row in rows {
        if let Some(reason) = &row.skipped {
            let reason = number::sanitize(reason);
            lines.push(format!(
                "{} is skipped: {}.",
                name_with_disk(row),
                reason.trim_end_matches('.')
            ));
        }
    }
    lines
}

/// The confidence limits of the share of cuts that lose something acknowledged, or `None` without cuts.
pub fn limits(row: &Row) -> Option<(f64, f64)> {
    let (lost, cuts) = (violations_of(row), row.outcomes.len());
    (cuts > 0).then(|| proportion::interval(lost as u64, cuts as u64, LEVEL))
}

/// The number of cuts after which something acknowledged was lost, or the file system could not be examined.
pub fn violations_of(row: &Row) -> usize {
    row.count(|outcome| outcome.findings.violations() > 0 || outcome.recovery.lost.is_some())
}

/// The number of cuts as text: `400 cuts`.
fn counted_cuts(row: &Row) -> String {
    number::counted(row.outcomes.len(), "cut")
}

/// Sentences on rows that lost nothing, one for each number of cuts: cuts of different file systems are not added up.
fn without_loss(rows: &[Row]) -> Vec<String> {
    let mut by_cuts: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for row in rows.iter().filter(|row| lost_nothing(row) && risks(row).is_empty()) {
        by_cuts.entry(row.outcomes.len()).or_default().push(name_with_disk(row));
    }
    let sentence = |(cuts, names): (usize, Vec<String>)| {
        let (_, upper) = proportion::interval(0, cuts as u64, LEVEL);
        let (each, for_each) = match names.len() {
            1 => ("", ""),
            _ => (" each", "for each of them "),
        };
        let s = if cuts == 1 { "" } else { "s" };
        let next_share = SHARES.into_iter().find(|share| *share < upper / 2.0);
        let more = next_share.map_or(String::new(), |share| {
            let cuts = number::count(proportion::trials_to_show_below(share, LEVEL));
            format!("; {cuts} cuts without a loss would show fewer than {}", exact_percent(share))
        });
        format!(
            "No acknowledged byte or name was lost in {} cut{s}{each} of {}: with {} confidence {for_each}fewer than {} of such \
             cuts lose one{more}.",
            number::count(cuts as u64),
            names.join(", "),
            exact_percent(LEVEL),
            at_most(upper)
        )
    };
    by_cuts.into_iter().map(sentence).collect()
}

fn lost_nothing(row: &Row) -> bool {
    !row.may_lose_data() && !row.outcomes.is_empty()
}

/// A sentence on a row whose options give up durability, regardless of the results of the cuts.
fn risk_sentence(row: &Row) -> Option<String> {
    let risks = risks(row);
    let protected =
        row.plan.medium.disk().filter(|disk| has_protected_cache(disk)).map(|disk| &disk.name);
    let note = match (lost_nothing(row), protected) {
        (true, Some(disk)) => format!(
            "; {} has power-loss protection, so a cut loses nothing from its cache; on a drive without it, a cut may lose data",
            number::sanitize(disk)
        ),
        (true, None) => {
            "; that these cuts lost nothing acknowledged does not make it safe".to_string()
        }
        (false, _) => String::new(),
    };
    (!risks.is_empty()).then(|| format!("{} ({}){note}.", name_with_disk(row), risks.join("; ")))
}

/// Returns true if a power cut loses nothing that the modelled drive has acknowledged.
fn has_protected_cache(disk: &DiskPlan) -> bool {
    disk.spec
        .pointer("/model/power_loss_protection")
        .is_some_and(|value| value.as_bool() == Some(true))
}

fn loss_sentence(row: &Row) -> Option<String> {
    let (lower, upper) = limits(row).filter(|_| row.may_lose_data())?;
    let count = match row.violations() {
        0 => String::new(),
        count => format!(", {} in all", number::count(count)),
    };
    Some(format!(
        "{}: acknowledged bytes or names were lost in {} of {}{count}; with {} confidence {} to {} of such cuts lose \
         one.",
        name_with_disk(row),
        violations_of(row),
        counted_cuts(row),
        exact_percent(LEVEL),
        at_least(lower),
        at_most(upper)
    ))
}

fn unexamined_sentence(row: &Row) -> Option<String> {
    (row.unmountable() > 0).then(|| {
        format!(
            "{}: the state after {} of {} could not be examined (it could not be mounted, hung or panicked), so \
             everything acknowledged counts as lost there.",
            name_with_disk(row),
            row.unmountable(),
            counted_cuts(row)
        )
    })
}

fn repair_sentences(row: &Row) -> Vec<String> {
    let kind = row.plan.filesystem.as_ref().map_or("", |filesystem| filesystem.kind.as_str());
    let guarantee = Guarantee::of(kind);
    let tool =
        guarantee.and_then(|guarantee| guarantee.repair.first()).map_or("a repair", String::as_str);
    let repaired =
        |outcome: &CutOutcome| outcome.recovery.repair.is_some() && outcome.recovery.lost.is_none();
    let forced = row.count(|outcome| repaired(outcome) && outcome.recovery.last_resort.is_some());
    let repaired = row.count(repaired) - forced;
    let mut lines = Vec::new();
    if repaired > 0 {
        lines.push(format!(
            "{}: {repaired} of {} needed {tool}; the state after the repair was judged.",
            name_with_disk(row),
            counted_cuts(row)
        ));
    }
    if forced > 0 {
        lines.push(format!(
            "{}: after {forced} of {} no repair made it mountable; it was judged after the last resort, which discards \
             the journal.",
            name_with_disk(row),
            counted_cuts(row)
        ));
    }
    lines
}

fn tear_sentence(row: &Row) -> Option<String> {
    let (name, tear) = (name_with_disk(row), row.atomic_unit);
    let start = format!("{name}: writes were torn between sectors of {tear}, which is");
    match (row.sector_if_unit_is_finer(), row.sector_if_unit_is_coarser()) {
        (Some(whole), _) => {
            Some(format!("{start} harsher than its disk, which writes {whole} atomically."))
        }
        (_, Some(smaller)) => {
            Some(format!("{start} milder than its disk, which writes only {smaller} atomically."))
        }
        _ => None,
    }
}

/// A round share as a percentage.
fn exact_percent(share: f64) -> String {
    format!("{} %", number::format_significant(share * 100.0, 3))
}

/// An upper limit as a percentage with two digits, rounded up.
fn at_most(share: f64) -> String {
    round_percent(share, f64::ceil)
}

/// A lower limit as a percentage with two digits, rounded down.
fn at_least(share: f64) -> String {
    round_percent(share, f64::floor)
}

fn round_percent(share: f64, round: fn(f64) -> f64) -> String {
    let percent = share * 100.0;
    let decimals = if percent >= 10.0 {
        0
    } else if percent >= 1.0 {
        1
    } else {
        2
    };
    let scale = 10_f64.powi(decimals);
    format!("{:.*} %", decimals as usize, round(percent * scale) / scale)
}

#[cfg(test)]
mod tests {
    use fsdyno_crash::{AtomicUnit, DiskFault};

    use super::*;
    use crate::crash::with_unique_names;
    use crate::crash_fixture;

    /// A row with this number of cuts, `lost` of which lost a name.
    fn cut(label: &str, lost: usize, cuts: usize) -> Row {
        let mut row = crash_fixture::crashed().swap_remove(0);
        row.label = label.into();
        let mut outcome = row.outcomes[0].clone();
        row.outcomes = vec![outcome.clone(); cuts - lost];
        outcome.findings.acknowledged_names = 1;
        row.outcomes.extend(vec![outcome; lost]);
        row
    }

    #[test]
    fn few_cuts_without_a_loss_have_wide_limits_and_cuts_of_file_systems_are_not_added_up() {
        let text = sentences(&[cut("ext4", 0, 10), cut("off", 0, 10), cut("xfs", 0, 400)]);
        assert_eq!(
            text[0],
            "No acknowledged byte or name was lost in 10 cuts each of ext4, off: with 95 % confidence for each \
             of them fewer than 26 % of such cuts lose one; 59 cuts without a loss would show fewer than 5 %."
        );
        assert_eq!(
            text[1],
            "No acknowledged byte or name was lost in 400 cuts of xfs: with 95 % confidence fewer than 0.75 % of such \
             cuts lose one; 2,995 cuts without a loss would show fewer than 0.1 %."
        );
        assert!(text[2].contains("not of power cuts at random moments"), "{text:?}");
        assert!(!text.concat().contains("20 cuts") && !text.concat().contains("420"), "{text:?}");
    }

    #[test]
    fn cuts_that_lost_something_have_the_exact_interval() {
        let text = sentences(&[cut("off", 9, 80)]);
        assert_eq!(
            text[0],
            "off: acknowledged bytes or names were lost in 9 of 80 cuts, 9 in all; with 95 % confidence 5.2 % to 21 % \
             of such cuts lose one."
        );
        assert_eq!(limits(&cut("all", 3, 3)).unwrap().1, 1.0);
        assert_eq!(limits(&cut("none", 0, 3)).unwrap().0, 0.0);
    }

    #[test]
    fn limits_are_rounded_outwards() {
        assert_eq!(
            [0.2589, 0.0582, 0.00997, 1.0].map(at_most),
            ["26 %", "5.9 %", "1.00 %", "100 %"]
        );
        assert_eq!(
            [0.2589, 0.0588, 0.00997, 0.0].map(at_least),
            ["25 %", "5.8 %", "0.99 %", "0.00 %"]
        );
    }

    #[test]
    fn rows_that_could_not_run_or_be_examined_are_named() {
        let mut rows = crash_fixture::crashed();
        let plan = rows[0].plan.clone();
        rows.push(Row {
            label: "old".into(),
            ..Row::skipped(&plan, 1, DiskFault::Honest, "no such driver".into())
        });
        rows[1].outcomes.retain(|outcome| outcome.recovery.lost.is_some());
        let text = sentences(&rows).join(" ");
        for part in [
            "lost in 3 cuts of ext4: with 95 % confidence fewer than 64 %",
            "the state after 1 of 1 cut could not be examined",
            "old is skipped: no such driver.",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(rows[1].may_lose_data() && !rows[0].may_lose_data() && !rows[2].may_lose_data());
        assert!(!text.contains("never cut"), "{text}");
        rows[0].oracle = 1;
        let text = sentences(&rows).join(" ");
        assert!(text.contains("ext4: judged by an earlier fsdyno"), "{text}");
    }

    #[test]
    fn losses_repairs_and_torn_writes_are_stated_and_without_cuts_nothing_is_claimed() {
        let mut rows = crash_fixture::crashed();
        let text = sentences(&rows).join(" ");
        let disk = "off on a disk that drops flushes: ";
        assert!(
            text.contains(&format!("{disk}acknowledged bytes or names were lost in 2")),
            "{text}"
        );
        assert!(
            text.contains(&format!("{disk}1 of 3 cuts needed xfs_repair; the state")),
            "{text}"
        );
        rows[0].outcomes.clear();
        assert!(sentences(&rows).iter().any(|text| text.contains("never cut")));
        // Torn within a unit that the disk writes atomically.
        let spec = fsdyno_disk::catalog::get("hdd-7200").unwrap();
        let mut torn = rows[1].clone();
        torn.plan.medium.modelled_mut().unwrap().disk.spec =
            serde_json::to_value(&spec).unwrap().into();
        assert_eq!(torn.atomic_unit, AtomicUnit::MIN);
        let harsh = sentences(&[torn.clone()]).join(" ");
        let right = "sectors of 512 bytes, which is harsher than its disk, which writes 4096 bytes";
        assert!(harsh.contains(right), "{harsh}");
        torn.atomic_unit = AtomicUnit::of(&torn.plan);
        assert!(!sentences(&[torn.clone()]).join(" ").contains("harsher"));
        let rows = with_unique_names(&[torn, rows[1].clone()]);
        assert_eq!(rows[0].label, "off, torn at 4096 bytes");
    }
}
