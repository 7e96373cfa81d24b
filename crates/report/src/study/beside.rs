//! What stands beside a study's trials: what was recorded over time, why some of them are as they are, and what a
//! power cut costs.

use fsdyno_crash::Row;
use fsdyno_record::series::Series;
use fsdyno_why::{StoredExplanation, say};
use serde::Serialize;

use super::text::{MAIL, Paper};
use crate::markdown::escape;
use crate::number::clean;
use crate::page::why_title;
use crate::table::{Format, Style};

/// What lies beside the trials.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'a> {
    /// Phases over time.
    pub series: &'a [Series],
    /// Explanations of `fsdyno why`.
    pub told: &'a [StoredExplanation],
    /// Where each of those is from, in their order: `postmark as then`. What has none here is told without.
    pub places: &'a [String],
    /// What `fsdyno crash` found.
    pub crashed: &'a [Row],
    /// What the study would be run under too and has no trial of.
    pub not_run: &'a [NotRun],
}

/// Conditions of a study of which there is no trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotRun {
    /// `as then`.
    pub conditions: String,
    /// Why nothing is told of them, in a sentence.
    pub why: String,
}

impl NotRun {
    /// `as then: not run. No trial of ... is there.`
    fn told(&self) -> String {
        clean(&format!("{}: not run. {}", self.conditions, self.why))
    }
}

/// Heads what a power cut costs.
const COST: &str = "What a power cut costs";

impl Beside<'_> {
    /// What was not run, a sentence for each, as [`super::counts`] tells of what was.
    pub fn not_run(&self) -> Vec<String> {
        self.not_run.iter().map(NotRun::told).collect()
    }

    /// The same for before a study's end, which begins with its counts.
    pub fn head(&self, format: Format, style: Style) -> String {
        let paper = match format {
            Format::Text => Paper { style, ascii: false },
            Format::Mail => MAIL,
            Format::Markdown => {
                return self.not_run().iter().map(|line| format!("- {}\n", escape(line))).collect();
            }
            _ => return String::new(),
        };
        self.not_run().iter().map(|line| paper.paragraph(line, "  ")).collect()
    }

    /// What heads an explanation: of which run it is, as what, and of which trial.
    fn why_heads(&self) -> impl Iterator<Item = (String, &StoredExplanation)> {
        self.told.iter().enumerate().map(|(at, told)| {
            let place = self.places.get(at).map(|place| format!(" ({place})")).unwrap_or_default();
            (clean(&format!("Why{place}: {}", why_title(told))), told)
        })
    }

    /// Explanations and power cuts for behind a study's end; empty where there are none, and in formats that have no
    /// sentences.
    pub fn text(&self, format: Format, style: Style) -> String {
        let mut out = String::new();
        let paper = match format {
            Format::Text => Paper { style, ascii: false },
            Format::Mail => MAIL,
            Format::Markdown => return self.markdown(),
            _ => return out,
        };
        for (head, told) in self.why_heads() {
            out += "\n";
            out += &paper.paragraph(&head, "  ");
            for sentence in say::sentences(&told.it, told.against.as_ref()) {
                out += &paper.paragraph(&format!("  {}", clean(&sentence)), "  ");
            }
        }
        if let Some(table) = self.cost(format, style) {
            out += &format!("\n{COST}:\n\n{table}");
        }
        out
    }

    fn markdown(&self) -> String {
        let mut out = String::new();
        for (head, told) in self.why_heads() {
            out += &format!("\n### {}\n\n", escape(&head));
            for sentence in say::sentences(&told.it, told.against.as_ref()) {
                out += &format!("- {}\n", escape(&clean(&sentence)));
            }
        }
        if let Some(table) = self.cost(Format::Markdown, Style::default()) {
            out += &format!("\n### {COST}\n\n{table}");
        }
        out
    }

    fn cost(&self, format: Format, style: Style) -> Option<String> {
        let table = || crate::crash::table(self.crashed, format, style);
        (!self.crashed.is_empty()).then(table).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::tests::{HOSTILE, explained};
    use crate::{crash_fixture, fixture};

    #[test]
    fn a_study_tells_why_and_what_it_costs_where_that_was_asked() {
        let told = [StoredExplanation { schema: 1, it: explained(HOSTILE), against: None }];
        let crashed = crash_fixture::crashed();
        let beside = Beside { told: &told, crashed: &crashed, ..Beside::default() };
        for format in [Format::Text, Format::Mail, Format::Markdown] {
            let text = beside.text(format, Style::default());
            assert!(text.contains("75 % of the disk") && text.contains("VIOLATIONS"), "{text}");
            assert!(!text.contains('\u{1b}'), "{text}");
        }
        assert!(beside.text(Format::Mail, Style::default()).is_ascii());
        assert_eq!(beside.text(Format::Csv, Style::default()), "");
        assert_eq!(Beside::default().text(Format::Text, Style::default()), "");
        let judged = crate::study::sample::judged();
        let page = crate::study_page(&judged, &fixture::trials(), beside, None).unwrap();
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is not there"));
        // In front a sentence that leads there, and all of it behind.
        assert!(
            at("href=\"#w0\"") < at("id=\"overview\"") && at("id=\"overview\"") < at("id=\"w0\"")
        );
        assert!(
            at("href=\"#crash\"") < at("id=\"overview\"") && at("id=\"s0\"") < at("id=\"crash\"")
        );
        assert!(at("acknowledged bytes or names were lost in 2 of 3 cuts") < at("id=\"overview\""));
        let plain =
            crate::study_page(&judged, &fixture::trials(), Beside::default(), None).unwrap();
        assert!(!plain.contains("href=\"#crash\"") && !plain.contains("href=\"#w0\""));
    }

    #[test]
    fn an_explanation_says_of_which_run_it_is_and_under_which_conditions() {
        let one = StoredExplanation { schema: 1, it: explained(HOSTILE), against: None };
        let told = [one.clone(), one];
        let places = ["postmark as then\u{1b}".to_string(), "sources as today".to_string()];
        let beside = Beside { told: &told, places: &places, ..Beside::default() };
        for format in [Format::Text, Format::Mail, Format::Markdown] {
            let text = beside.text(format, Style::default());
            for head in ["Why (postmark as then", "Why (sources as today): "] {
                assert!(text.contains(head), "{text}");
            }
            assert!(!text.contains('\u{1b}'), "{text}");
        }
        let page =
            crate::study_page(&crate::study::sample::judged(), &fixture::trials(), beside, None);
        assert!(page.unwrap().contains("Why (sources as today): "));
    }

    #[test]
    fn what_was_not_run_is_told_before_the_counts_and_in_json() {
        let not_run = [NotRun {
            conditions: "as then".into(),
            why: "No trial of it is in 'out/then'.".into(),
        }];
        let beside = Beside { not_run: &not_run, ..Beside::default() };
        let said = "as then: not run. No trial of it is in 'out/then'.\n";
        assert_eq!(beside.head(Format::Text, Style::default()), said);
        assert_eq!(beside.head(Format::Mail, Style::default()), said);
        assert_eq!(beside.head(Format::Markdown, Style::default()), format!("- {said}"));
        assert_eq!(beside.head(Format::Csv, Style::default()), "");
        let judged = crate::study::sample::judged();
        let page = crate::study_page(&judged, &fixture::trials(), beside, None).unwrap();
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is not there"));
        assert!(at("as then: not run. ") < at("as then: 6 claims"));
        let json = crate::study::json(&judged, beside).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["not_run"][0]["conditions"], "as then");
    }
}
