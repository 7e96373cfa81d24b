//! What stands beside a study's trials: what was recorded over time, why some of them are as they are, and what a
//! power cut costs.

use fsdyno_crash::Row;
use fsdyno_record::series::Series;
use fsdyno_why::{Told, say};

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
    pub told: &'a [Told],
    /// What `fsdyno crash` found.
    pub crashed: &'a [Row],
}

/// Heads what a power cut costs.
const COST: &str = "What a power cut costs";

impl Beside<'_> {
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
        for told in self.told {
            out += "\n";
            out += &paper.paragraph(&format!("Why: {}", clean(&why_title(told))), "");
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
        for told in self.told {
            out += &format!("\n### Why: {}\n\n", escape(&clean(&why_title(told))));
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
        let told = [Told { schema: 1, it: explained(HOSTILE), against: None }];
        let crashed = crash_fixture::crashed();
        let beside = Beside { series: &[], told: &told, crashed: &crashed };
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
        assert!(at("acknowledged bytes or names were lost in 1 of 3 cuts") < at("id=\"overview\""));
        let plain =
            crate::study_page(&judged, &fixture::trials(), Beside::default(), None).unwrap();
        assert!(!plain.contains("href=\"#crash\"") && !plain.contains("href=\"#w0\""));
    }
}
