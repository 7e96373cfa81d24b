//! The verdicts that are known while a study runs: the new ones are shown after each study run.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use fsdyno_campaign::notes;
use fsdyno_record::quote::short;
use fsdyno_report::counted;
use fsdyno_report::study::{Judged, counts};

use crate::file::StudyFile;
use crate::judge::judge;
use crate::stored;

/// The time of a study run below which no verdicts are shown after it: the others follow soon. [OWN]
const MIN_RUN: Duration = Duration::from_secs(15);

/// The minimum ratio of the time of a study run to that of judging the trials. [OWN]
const MIN_RATIO: u32 = 50;

/// The maximum number of lines after a study run.
const MAX_LINES: usize = 5;

/// The verdicts of a study so far.
pub struct SoFar<'a> {
    folder: &'a Path,
    file: &'a StudyFile,
    /// The verdicts that have been shown, by variant and claim.
    shown: BTreeMap<(String, String), String>,
    /// The time that the last judgement took.
    cost: Duration,
}

impl<'a> SoFar<'a> {
    /// Creates the verdicts of a study that has just begun, or is resumed: verdicts of an earlier command are not new.
    pub fn new(folder: &'a Path, file: &'a StudyFile) -> SoFar<'a> {
        let mut so_far = SoFar { folder, file, shown: BTreeMap::new(), cost: Duration::ZERO };
        if notes::are_shown() {
            so_far.omit_earlier();
        }
        so_far
    }

    /// Judges the stored trials, so that the verdicts that they allow are not shown.
    fn omit_earlier(&mut self) {
        let Some(judged) = self.judge() else { return };
        for variant in &judged.variants {
            for claim in variant.claims.iter().filter(|claim| claim.is_judged()) {
                self.set_shown(&variant.name, &claim.id, &claim.verdict_text());
            }
        }
    }

    /// Judges the stored trials; `None` if a file is unreadable.
    fn judge(&mut self) -> Option<Judged> {
        let begin = Instant::now();
        let results = stored::results_with(self.folder, self.file, &|_| ());
        let judged = results.map(|results| judge(self.file, &results).merged());
        self.cost = begin.elapsed();
        judged.ok()
    }

    /// Shows the new verdicts after a study run that took this time. A file that is unreadable is reported at the end
    /// of the study.
    pub fn say(&mut self, took: Duration) {
        if !notes::are_shown() || took < MIN_RUN || took < self.cost * MIN_RATIO {
            return;
        }
        let Some(judged) = self.judge() else { return };
        self.lines(&judged).iter().for_each(|line| notes::say(&format!("fsdyno: {line}")));
    }

    fn set_shown(&mut self, variant: &str, claim: &str, verdict: &str) {
        self.shown.extend(keys(variant, claim).map(|key| (key, verdict.to_string())));
    }

    /// Returns the lines on new verdicts: the numbers of verdicts of their variants, then some of them.
    fn lines(&mut self, judged: &Judged) -> Vec<String> {
        let (mut summaries, mut new) = (Vec::new(), Vec::new());
        for (variant, summary) in judged.variants.iter().zip(counts(judged)) {
            let before = new.len();
            for claim in variant.claims.iter().filter(|claim| claim.is_judged()) {
                let verdict = claim.verdict_text();
                let is_shown = |key: (String, String)| self.shown.get(&key) == Some(&verdict);
                if !keys(&variant.name, &claim.id).all(is_shown) {
                    let (id, text) = (&claim.id, short(&claim.text));
                    let line = format!("{id} {}: {verdict}: {text}", variant.name);
                    new.push((line, (&variant.name, id), verdict));
                }
            }
            if new.len() > before {
                summaries.push(format!("so far, {summary}"));
            }
        }
        summaries.truncate(MAX_LINES - 2);
        let left = MAX_LINES - summaries.len();
        let more = (new.len() > left).then(|| new.split_off(left - 1).len());
        let more = more.map(|more| format!("and {}", counted(more, "more new verdict")));
        let mut lines = summaries;
        for (line, (variant, claim), verdict) in new {
            lines.push(line);
            self.set_shown(variant, claim, &verdict);
        }
        lines.extend(more);
        lines
    }
}

/// Returns the keys of a claim. Conditions with the same results so far are one variant with both names.
fn keys(variant: &str, claim: &str) -> impl Iterator<Item = (String, String)> {
    variant.split(" and ").map(move |name| (name.to_string(), claim.to_string()))
}

#[cfg(test)]
mod tests {
    use fsdyno_report::study::{Claim, Variant, Verdict};

    use super::*;

    fn judged(verdicts: &[Verdict]) -> Judged {
        let claim = |(index, verdict): (usize, &Verdict)| Claim {
            id: format!("C{}", index + 1),
            text: "It is so".into(),
            verdict: *verdict,
            why: String::new(),
            check: None,
            unit: String::new(),
            published: None,
            measured: None,
            p: None,
            notes: Vec::new(),
            scale: 1,
            one_seed: false,
            full_scale: None,
        };
        let variant = Variant {
            name: "as then".into(),
            conditions: "as then".into(),
            kernel: None,
            scale: 1,
            kernels: Vec::new(),
            claims: verdicts.iter().enumerate().map(claim).collect(),
            factors: Vec::new(),
            tables: Vec::new(),
        };
        let [title, question, source] = Default::default();
        Judged { title, question, source, variants: vec![variant] }
    }

    fn lines(steps: &[&[Verdict]]) -> Vec<Vec<String>> {
        let file = crate::built_in("layton-journal-size").unwrap();
        let mut so_far = SoFar::new(Path::new("unused"), &file);
        steps.iter().map(|verdicts| so_far.lines(&judged(verdicts))).collect()
    }

    #[test]
    fn new_verdicts_are_shown_once() {
        use Verdict::{NotRun, NotTestable, Reversed, StillHolds, Undecided};
        let shown = lines(&[
            &[NotRun, NotRun, NotTestable],
            &[StillHolds, NotRun, NotTestable],
            &[StillHolds, NotRun, NotTestable],
            &[Undecided, Reversed, NotTestable],
        ]);
        assert_eq!(shown[0], [""; 0]);
        assert_eq!(
            shown[1],
            [
                "so far, as then: 3 claims: 1 still holds, 1 not testable here, 1 not run yet",
                "C1 as then: still holds: It is so",
            ]
        );
        assert_eq!(shown[2], [""; 0]);
        assert_eq!(
            shown[3][1..],
            ["C1 as then: undecided: It is so", "C2 as then: reversed: It is so"],
            "a verdict that changes is shown again"
        );
    }

    #[test]
    fn the_verdicts_of_a_resumed_study_are_not_new() {
        let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results");
        let folder = Path::new(results).join("2026-11-22-layton-journal-size");
        let file = crate::built_in("layton-journal-size").unwrap();
        let mut so_far = SoFar::new(&folder, &file);
        let judged = so_far.judge().unwrap();
        so_far.shown.clear();
        assert!(so_far.lines(&judged).len() > 1);
        so_far.shown.clear();
        so_far.omit_earlier();
        assert_eq!(so_far.lines(&judged), [""; 0]);
    }

    #[test]
    fn a_verdict_of_two_conditions_is_not_new_once_their_results_differ() {
        let file = crate::built_in("layton-journal-size").unwrap();
        let mut so_far = SoFar::new(Path::new("unused"), &file);
        let mut both = judged(&[Verdict::StillHolds, Verdict::NotRun]);
        both.variants[0].name = "as then and as today".into();
        let shown = so_far.lines(&both);
        assert_eq!(shown[1], "C1 as then and as today: still holds: It is so");
        let mut differ = judged(&[Verdict::StillHolds, Verdict::Reversed]);
        differ.variants.extend(judged(&[Verdict::StillHolds, Verdict::NotRun]).variants);
        differ.variants[1].name = "as today".into();
        assert_eq!(so_far.lines(&differ)[1..], ["C2 as then: reversed: It is so"]);
    }

    #[test]
    fn many_new_verdicts_take_five_lines() {
        let shown = lines(&[&[Verdict::StillHolds; 12], &[Verdict::Reversed; 12]]);
        for lines in shown {
            assert_eq!(lines.len(), MAX_LINES, "{lines:?}");
            assert_eq!(lines[4], "and 9 more new verdicts");
        }
        assert_eq!(lines(&[&[Verdict::StillHolds; 4]])[0].len(), MAX_LINES);
    }

    #[test]
    fn a_folder_without_results_and_a_short_run_show_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = crate::built_in("layton-journal-size").unwrap();
        let mut so_far = SoFar::new(folder.path(), &file);
        so_far.say(MIN_RUN);
        so_far.say(Duration::ZERO);
        assert!(so_far.shown.is_empty());
    }
}
