//! What power cuts showed, in sentences: what was lost, and what the number of cuts can show.

use std::collections::BTreeMap;

use fsdyno_crash::{CutOutcome, Row, guarantee};
use fsdyno_stats::proportion;

use super::{named, ran, risks};
use crate::number;

/// The confidence of all limits.
const LEVEL: f64 = 0.95;

/// Shares of cuts, one of which a number of cuts without a loss can be suggested for.
const SHARES: [f64; 3] = [0.05, 0.01, 0.001];

/// Whether anything acknowledged was lost, by which file system, and in how many of such cuts it may be lost; what
/// could not be examined, or only after a repair; what could not run.
pub fn sentences(rows: &[Row]) -> Vec<String> {
    let mut said = kept(rows);
    said.extend(rows.iter().filter_map(at_risk));
    said.extend(rows.iter().filter_map(lost));
    if ran(rows).any(|row| !row.tried.is_empty()) {
        said.push(
            "Most cuts come where a loss is likeliest, so these shares are of such cuts, not of power cuts at random \
             moments."
                .into(),
        );
    }
    said.extend(rows.iter().filter_map(unexamined));
    said.extend(rows.iter().flat_map(repaired));
    said.extend(ran(rows).filter_map(torn));
    for row in ran(rows).filter(|row| row.has_old_oracle() && !row.tried.is_empty()) {
        said.push(format!(
            "{}: judged by an earlier fsdyno, which took a file that was found under an old name only for kept.",
            named(row)
        ));
    }
    for row in ran(rows).filter(|row| row.tried.is_empty()) {
        said.push(format!("{}: its power was never cut, for nothing of it was timed.", named(row)));
    }
    for row in rows {
        if let Some(reason) = &row.skipped {
            let reason = number::clean(reason);
            said.push(format!("{} is skipped: {}.", named(row), reason.trim_end_matches('.')));
        }
    }
    said
}

/// The least and the most of such cuts that lose something acknowledged; none where there was no cut.
pub fn limits(row: &Row) -> Option<(f64, f64)> {
    let (lost, cuts) = (violated(row), row.tried.len());
    (cuts > 0).then(|| proportion::interval(lost as u64, cuts as u64, LEVEL))
}

/// After how many cuts something acknowledged was gone, or what was left could not be examined.
pub fn violated(row: &Row) -> usize {
    row.count(|tried| tried.findings.violations() > 0 || tried.recovery.lost.is_some())
}

fn all(row: &Row) -> String {
    number::counted(row.tried.len(), "cut")
}

/// Those that lost nothing, by how often their power was cut: cuts of different file systems show nothing together.
fn kept(rows: &[Row]) -> Vec<String> {
    let mut by_cuts: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for row in rows.iter().filter(|row| lost_nothing(row) && risks(row).is_empty()) {
        by_cuts.entry(row.tried.len()).or_default().push(named(row));
    }
    let say = |(cuts, names): (usize, Vec<String>)| {
        let (_, most) = proportion::interval(0, cuts as u64, LEVEL);
        let (each, of) = match names.len() {
            1 => ("", "such cuts"),
            _ => (" each", "such cuts of any one of them"),
        };
        let s = if cuts == 1 { "" } else { "s" };
        let more = SHARES.into_iter().find(|share| *share < most / 2.0);
        let more = more.map_or(String::new(), |share| {
            let more = number::count(proportion::trials_below(share, LEVEL));
            format!("; {more} cuts without a loss would show fewer than {}", plain(share))
        });
        format!(
            "No acknowledged byte or name was lost in {} cut{s}{each} of {}: with {} confidence fewer than {} of {of} \
             lose one{more}.",
            number::count(cuts as u64),
            names.join(", "),
            plain(LEVEL),
            at_most(most)
        )
    };
    by_cuts.into_iter().map(say).collect()
}

fn lost_nothing(row: &Row) -> bool {
    !row.is_bad() && !row.tried.is_empty()
}

/// What gives up durability by its options is never called kept, whatever the cuts found.
fn at_risk(row: &Row) -> Option<String> {
    let risks = risks(row);
    let found = match lost_nothing(row) {
        true => "; that these cuts lost nothing acknowledged does not make it safe",
        false => "",
    };
    (!risks.is_empty()).then(|| format!("{} ({}){found}.", named(row), risks.join("; ")))
}

fn lost(row: &Row) -> Option<String> {
    let (least, most) = limits(row).filter(|_| row.is_bad())?;
    let count = match row.violations() {
        0 => String::new(),
        count => format!(", {} in all", number::count(count)),
    };
    Some(format!(
        "{}: acknowledged bytes or names were lost in {} of {}{count}; with {} confidence {} to {} of such cuts lose \
         one.",
        named(row),
        violated(row),
        all(row),
        plain(LEVEL),
        at_least(least),
        at_most(most)
    ))
}

fn unexamined(row: &Row) -> Option<String> {
    (row.unmountable() > 0).then(|| {
        format!(
            "{}: what {} of {} left could not be examined (it could not be mounted, hung or panicked), so all that was \
             acknowledged counts as lost there.",
            named(row),
            row.unmountable(),
            all(row)
        )
    })
}

fn repaired(row: &Row) -> Vec<String> {
    let kind = row.plan.filesystem.as_ref().map_or("", |filesystem| filesystem.kind.as_str());
    let guarantee = guarantee::of(kind);
    let tool =
        guarantee.and_then(|guarantee| guarantee.repair.first()).copied().unwrap_or("a repair");
    let back =
        |tried: &CutOutcome| tried.recovery.repair.is_some() && tried.recovery.lost.is_none();
    let forced = row.count(|tried| back(tried) && tried.recovery.last_resort.is_some());
    let repaired = row.count(back) - forced;
    let mut said = Vec::new();
    if repaired > 0 {
        said.push(format!(
            "{}: {repaired} of {} needed {tool}; the result was judged after the repair.",
            named(row),
            all(row)
        ));
    }
    if forced > 0 {
        said.push(format!(
            "{}: after {forced} of {} no repair made it mountable; what was judged is what the last resort left, which \
             discards the journal.",
            named(row),
            all(row)
        ));
    }
    said
}

fn torn(row: &Row) -> Option<String> {
    let (name, tear) = (named(row), row.tear);
    let between = format!("{name}: writes were torn between sectors of {tear}, which is");
    match (row.finer_unit(), row.coarser_unit()) {
        (Some(whole), _) => Some(format!(
            "{between} harsher than its disk: that writes {whole} whole or not at all."
        )),
        (_, Some(smaller)) => {
            Some(format!("{between} milder than its disk: that writes only {smaller} whole."))
        }
        _ => None,
    }
}

/// A round share as a percentage.
fn plain(share: f64) -> String {
    format!("{} %", number::significant(share * 100.0, 3))
}

/// An upper limit as a percentage with two digits, which is never below it.
fn at_most(share: f64) -> String {
    rounded(share, f64::ceil)
}

/// A lower limit as a percentage with two digits, which is never above it.
fn at_least(share: f64) -> String {
    rounded(share, f64::floor)
}

fn rounded(share: f64, round: fn(f64) -> f64) -> String {
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
    use crate::crash::told_apart;
    use crate::crash_fixture;

    /// A row with so many cuts, so many of which lost a name.
    fn cut(label: &str, lost: usize, cuts: usize) -> Row {
        let mut row = crash_fixture::crashed().swap_remove(0);
        row.label = label.into();
        let mut tried = row.tried[0].clone();
        row.tried = vec![tried.clone(); cuts - lost];
        tried.findings.acknowledged_names = 1;
        row.tried.extend(vec![tried; lost]);
        row
    }

    #[test]
    fn few_cuts_without_a_loss_say_how_little_they_show_and_no_two_file_systems_are_added_up() {
        let said = sentences(&[cut("ext4", 0, 10), cut("off", 0, 10), cut("xfs", 0, 400)]);
        assert_eq!(
            said[0],
            "No acknowledged byte or name was lost in 10 cuts each of ext4, off: with 95 % confidence fewer than 26 % \
             of such cuts of any one of them lose one; 59 cuts without a loss would show fewer than 5 %."
        );
        assert_eq!(
            said[1],
            "No acknowledged byte or name was lost in 400 cuts of xfs: with 95 % confidence fewer than 0.75 % of such \
             cuts lose one; 2,995 cuts without a loss would show fewer than 0.1 %."
        );
        assert!(said[2].contains("not of power cuts at random moments"), "{said:?}");
        assert!(!said.concat().contains("20 cuts") && !said.concat().contains("420"), "{said:?}");
    }

    #[test]
    fn cuts_that_lost_something_have_the_exact_interval() {
        let said = sentences(&[cut("off", 9, 80)]);
        assert_eq!(
            said[0],
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
    fn what_could_not_run_and_what_could_not_be_examined_is_said() {
        let mut rows = crash_fixture::crashed();
        let plan = rows[0].plan.clone();
        rows.push(Row {
            label: "old".into(),
            ..Row::skipped(&plan, 1, DiskFault::Honest, "no such driver".into())
        });
        rows[1].tried.retain(|tried| tried.recovery.lost.is_some());
        let said = sentences(&rows).join(" ");
        for told in [
            "lost in 3 cuts of ext4: with 95 % confidence fewer than 64 %",
            "what 1 of 1 cut left could not be examined",
            "old is skipped: no such driver.",
        ] {
            assert!(said.contains(told), "{told}: {said}");
        }
        assert!(rows[1].is_bad() && !rows[0].is_bad() && !rows[2].is_bad());
        assert!(!said.contains("never cut"), "{said}");
        rows[0].oracle = 1;
        let said = sentences(&rows).join(" ");
        assert!(said.contains("ext4: judged by an earlier fsdyno"), "{said}");
    }

    #[test]
    fn what_was_found_is_a_sentence_and_nothing_is_claimed_where_nothing_was_cut() {
        let mut rows = crash_fixture::crashed();
        let said = sentences(&rows).join(" ");
        let disk = "off on a disk that drops flushes: ";
        assert!(
            said.contains(&format!("{disk}acknowledged bytes or names were lost in 2")),
            "{said}"
        );
        assert!(
            said.contains(&format!("{disk}1 of 3 cuts needed xfs_repair; the result")),
            "{said}"
        );
        rows[0].tried.clear();
        assert!(sentences(&rows).iter().any(|said| said.contains("never cut")));
        // Torn within what the disk writes whole.
        let spec = fsdyno_disk::catalog::get("hdd-7200").unwrap();
        let mut torn = rows[1].clone();
        let fsdyno_record::plan::MediumPlan::Lab(lab) = &mut torn.plan.medium else { panic!() };
        lab.disk.spec = serde_json::to_value(&spec).unwrap().into();
        assert_eq!(torn.tear, AtomicUnit::MIN);
        let harsh = sentences(&[torn.clone()]).join(" ");
        let right = "sectors of 512 bytes, which is harsher than its disk: that writes 4096 bytes";
        assert!(harsh.contains(right), "{harsh}");
        torn.tear = AtomicUnit::of(&torn.plan);
        assert!(!sentences(&[torn.clone()]).join(" ").contains("harsher"));
        let told = told_apart(&[torn, rows[1].clone()]);
        assert_eq!(told[0].label, "off, torn at 4096 bytes");
    }
}
