//! Additions to a study's results: series over time, explanations, and the cost of power cuts.

use fsdyno_crash::Row;
use fsdyno_record::series::Series;
use fsdyno_why::{StoredExplanation, sentences};
use schemars::JsonSchema;
use serde::Serialize;

use crate::number::sanitize;
use crate::table::{Block, Document};
use crate::why::title;

/// Data in addition to the trials.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras<'a> {
    /// Phases over time.
    pub series: &'a [Series],
    /// Explanations of `fsdyno why`.
    pub explanations: &'a [StoredExplanation],
    /// The run of each explanation, in their order: `postmark as then`; missing ones are omitted.
    pub places: &'a [String],
    /// Results of `fsdyno crash`.
    pub crashed: &'a [Row],
    /// Conditions of the study without a trial.
    pub not_run: &'a [NotRun],
}

/// Conditions of a study without a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotRun {
    /// `as then`.
    pub conditions: String,
    /// The reason, in a sentence.
    pub why: String,
}

impl NotRun {
    /// `as then: not run. No trial of ... exists.`
    fn sentence(&self) -> String {
        sanitize(&format!("{}: not run. {}", self.conditions, self.why))
    }
}

/// The heading of the cost of power cuts.
const COST_HEADING: &str = "What a power cut costs";

impl Extras<'_> {
    /// A sentence for each of the conditions that were not run, like those of [`super::counts`].
    pub fn not_run(&self) -> Vec<String> {
        self.not_run.iter().map(NotRun::sentence).collect()
    }

    /// The heading of each explanation: its run, its conditions and its trial.
    fn why_heads(&self) -> impl Iterator<Item = (String, &StoredExplanation)> {
        self.explanations.iter().enumerate().map(|(index, explanation)| {
            let place =
                self.places.get(index).map(|place| format!(" ({place})")).unwrap_or_default();
            (
                sanitize(&format!(
                    "Why{place}: {}",
                    title(&explanation.explained, explanation.baseline.as_ref())
                )),
                explanation,
            )
        })
    }

    /// Explanations and power cuts, after a study's results.
    pub fn blocks(&self) -> Vec<Block> {
        let mut out = Document::default();
        for (head, explanation) in self.why_heads() {
            out.0.push(Block::Title(head));
            let sentences =
                sentences::sentences(&explanation.explained, explanation.baseline.as_ref());
            out.items(sentences.iter().map(|sentence| sanitize(sentence)).collect());
        }
        if !self.crashed.is_empty() {
            out.0.push(Block::Title(COST_HEADING.into()));
            out.0.extend(crate::crash::blocks(self.crashed));
        }
        out.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Results;
    use crate::table::{Format, Style};
    use crate::why::tests::{HOSTILE, explained};
    use crate::{crash_fixture, fixture};

    fn text(extras: Extras<'_>, format: Format) -> String {
        let judged = crate::study::sample::judged();
        format.write(&Results { extras, ..Results::of(&judged) }, Style::default()).unwrap()
    }

    #[test]
    fn a_study_has_explanations_and_costs_if_requested() {
        let explanations =
            [StoredExplanation { schema: 1, explained: explained(HOSTILE), baseline: None }];
        let crashed = crash_fixture::crashed();
        let extras = Extras { explanations: &explanations, crashed: &crashed, ..Extras::default() };
        for format in [Format::Text, Format::Mail, Format::Markdown] {
            let text = text(extras, format);
            assert!(text.contains("75 % of disk time") && text.contains("VIOLATIONS"), "{text}");
            assert!(!text.contains('\u{1b}'), "{text}");
        }
        assert!(text(extras, Format::Mail).is_ascii());
        assert!(Extras::default().blocks().is_empty());
        let judged = crate::study::sample::judged();
        let page = crate::study_page(&judged, &fixture::trials(), extras, None).unwrap();
        let position = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
        // A sentence at the front links to each addition; the additions themselves are at the end.
        assert!(
            position("href=\"#w0\"") < position("id=\"overview\"")
                && position("id=\"overview\"") < position("id=\"w0\"")
        );
        assert!(
            position("href=\"#crash\"") < position("id=\"overview\"")
                && position("id=\"s0\"") < position("id=\"crash\"")
        );
        assert!(
            position("acknowledged bytes or names were lost in 2 of 3 cuts")
                < position("id=\"overview\"")
        );
        let plain =
            crate::study_page(&judged, &fixture::trials(), Extras::default(), None).unwrap();
        assert!(!plain.contains("href=\"#crash\"") && !plain.contains("href=\"#w0\""));
    }

    #[test]
    fn an_explanation_names_its_run_and_its_conditions() {
        let one = StoredExplanation { schema: 1, explained: explained(HOSTILE), baseline: None };
        let explanations = [one.clone(), one];
        let places = ["postmark as then\u{1b}".to_string(), "sources as today".to_string()];
        let extras = Extras { explanations: &explanations, places: &places, ..Extras::default() };
        for format in [Format::Text, Format::Mail, Format::Markdown] {
            let text = text(extras, format);
            for head in ["Why (postmark as then", "Why (sources as today): "] {
                assert!(text.contains(head), "{text}");
            }
            assert!(!text.contains('\u{1b}'), "{text}");
        }
        let page =
            crate::study_page(&crate::study::sample::judged(), &fixture::trials(), extras, None);
        assert!(page.unwrap().contains("Why (sources as today): "));
    }

    #[test]
    fn conditions_not_run_are_named_after_the_counts_and_in_json() {
        let not_run = [NotRun {
            conditions: "as then".into(),
            why: "No trial of it is in 'out/then'.".into(),
        }];
        let extras = Extras { not_run: &not_run, ..Extras::default() };
        let text = "as then: not run. No trial of it is in 'out/then'.\n";
        let counts = "as then: 6 claims: ";
        for (format, item) in [(Format::Text, ""), (Format::Markdown, "- ")] {
            let written = self::text(extras, format);
            assert!(written.starts_with(&format!("{item}{counts}")), "{written}");
            assert!(written.contains(&format!("\n{item}{text}")), "{written}");
        }
        let judged = crate::study::sample::judged();
        let page = crate::study_page(&judged, &fixture::trials(), extras, None).unwrap();
        let position = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
        assert!(position("as then: 6 claims") < position("as then: not run. "));
        let json = crate::study::json(&judged, extras).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["not_run"][0]["conditions"], "as then");
    }
}
