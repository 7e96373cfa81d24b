//! Explanations of `fsdyno why` on the page, phase by phase, with their pictures.

mod flame;
mod picture;

use fsdyno_why::{Explained, Phase, StoredExplanation, sentences};
use minijinja::Value;
use serde::Serialize;

use self::flame::Quantity;
use super::budget::{self, Budget};
use super::figure::Figure;
use super::files::ChartFile;
use super::part::{FigureView, figure_view, grid};
use crate::number::sanitize;
use crate::table::Table;
use crate::why::{rows, title};

/// The maximum number of explained trials on the page; the file has all.
pub const MAX_EXPLAINED: usize = 24;

/// An explained trial.
#[derive(Serialize)]
pub struct View {
    id: String,
    title: String,
    lines: Vec<String>,
    figures: Vec<FigureView>,
    /// Each with its caption.
    tables: Vec<(String, Value)>,
}

impl View {
    /// Returns its anchor in the page, its title, and its first sentence.
    pub fn lead(&self) -> (&str, &str, Option<&str>) {
        (&self.id, &self.title, self.lines.first().map(String::as_str))
    }
}

/// The explained trials that the page has space for, each with its run if it has one.
pub fn views(
    explanations: &[StoredExplanation],
    places: &[String],
    budget: &mut Budget,
) -> Vec<View> {
    let mut views = Vec::new();
    for (index, explanation) in explanations.iter().take(MAX_EXPLAINED).enumerate() {
        if !budget.next_part() {
            break;
        }
        let (explained, against) = (&explanation.explained, explanation.baseline.as_ref());
        let id = format!("w{index}");
        let place = places.get(index).map(|place| format!(" ({place})")).unwrap_or_default();
        let mut lines = sentences::sentences(explained, against);
        lines.extend(explained.account.iter().map(|_| rows::sums(explained)));
        lines.extend(explained.notes.iter().map(|note| format!("{note}.")));
        let lines = budget::lines(lines.iter().map(|line| sanitize(line)).collect());
        let mut figures = Vec::new();
        for (index, phase) in explained.phases.iter().enumerate() {
            for figure in phase_figures(explained, phase, against) {
                figures.extend(figure_view(figure, &format!("{id}-{index}"), budget));
            }
        }
        let is_gap = |place: &&rows::Requests| {
            explained
                .phases
                .iter()
                .all(|phase| phase.requests.is_none() || phase.name != place.place)
        };
        let places = rows::places(explained);
        let tables = places.iter().filter(is_gap).map(|place| {
            let caption = sanitize(&format!("Requests: {}", place.place));
            let table = budget.fit(Table { caption: caption.clone(), ..rows::requests(place) });
            (caption, grid(&table))
        });
        let tables = tables.collect();
        views.push(View {
            id,
            title: sanitize(&format!("Why{place}: {}", title(explained, against))),
            lines,
            figures,
            tables,
        });
    }
    views
}

/// The figures of a phase: its requests, and the functions that it executed.
fn phase_figures(explained: &Explained, phase: &Phase, against: Option<&Explained>) -> Vec<Figure> {
    let mut figures = Vec::new();
    let subject =
        sanitize(&format!("{} on {}, {}", explained.workload, explained.label, phase.name));
    if let Some(grid) = &phase.requests {
        let places = rows::places(explained);
        let place = places.iter().find(|place| place.place == phase.name);
        let table = place.map(rows::requests).unwrap_or_default();
        let caption = "Timed requests, by the structure that they touch first".to_string();
        figures.push(Figure {
            slug: "requests-by-time",
            title: format!("{}: requests", sanitize(&phase.name)),
            note: picture::note(grid),
            chart: picture::chart(&subject, grid),
            table: Table { caption, ..table },
        });
    }
    let other_phase = against.and_then(|other| {
        let found = other.phases.iter().find(|candidate| candidate.name == phase.name)?;
        Some((other, found))
    });
    for (by, slug, title) in [
        (Quantity::Instructions, "functions", "functions"),
        (Quantity::Time, "functions-by-time", "functions by estimated time"),
    ] {
        if let Some(chart) = flame::chart(explained, phase, other_phase, by) {
            let against_phase = other_phase.map(|(_, found)| found);
            figures.push(Figure {
                slug,
                title: format!("{}: {title}", sanitize(&phase.name)),
                note: flame::note(against_phase.is_some(), by),
                chart,
                table: rows::functions(phase, against_phase),
            });
        }
    }
    figures
}

/// Every picture of an explained trial as a separate file: `tarball-ext4-remove-requests-by-time.svg`.
pub fn why_charts(explained: &Explained, against: Option<&Explained>) -> Vec<ChartFile> {
    let mut files = super::files::ChartFiles::default();
    for phase in &explained.phases {
        for figure in phase_figures(explained, phase, against) {
            files.add(
                &format!("{} {} {}", explained.workload, explained.label, phase.name),
                &figure,
            );
        }
    }
    files.files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::why::tests::{HOSTILE, explained};

    fn explanation(against: bool) -> StoredExplanation {
        let against = against.then(|| explained("other"));
        StoredExplanation { schema: 1, explained: explained(HOSTILE), baseline: against }
    }

    #[test]
    fn a_page_explains_and_shows_why() {
        let page =
            super::super::html_with(&fixture::trials(), &[], &[explanation(true)], None).unwrap();
        for part in [
            "id=\"w0-0-requests-by-time\"",
            "id=\"w0-0-functions\"",
            "75 % of disk time",
            "inode table",
            "ext4_find_entry",
            "something is odd.",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<script>") && !page.contains('\u{1b}'));
        assert_eq!(page.matches("<table>").count(), page.matches("<caption>").count());
        let without = super::super::html_with(&fixture::trials(), &[], &[], None).unwrap();
        assert!(!without.contains("id=\"w0\""));
    }

    #[test]
    fn many_explained_trials_leave_the_page_its_size() {
        let many = vec![explanation(true); 2000];
        let page = super::super::html_with(&fixture::trials(), &[], &many, None).unwrap();
        assert!(page.len() < 1_500_000, "{}", page.len());
    }

    #[test]
    fn pictures_are_separate_files() {
        let files = why_charts(&explained(HOSTILE), None);
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "dirops-a-b-script-2j-unlink-requests-by-time.svg",
                "dirops-a-b-script-2j-unlink-functions.svg"
            ]
        );
        assert!(files.iter().all(|file| crate::is_chart(file.svg.as_bytes())));
    }
}
