//! The charts of the page as separate files.

use std::collections::BTreeSet;

use fsdyno_record::Trial;
use fsdyno_record::series::Series;

use super::chart::MARK;
use super::colour::Appearances;
use super::figure::Figure;
use super::figures::figures;
use super::{growth, overview, timeline};
use crate::baseline::Basis;
use crate::curve;
use crate::series::Index;
use crate::view;

/// A chart with its file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartFile {
    /// The name, of lower-case letters, digits and hyphens: `dirops-create-latency.svg`.
    pub name: String,
    /// A self-contained SVG document for a white background.
    pub svg: String,
}

/// Every chart of these trials, drawn as on the page: `overview.svg` and
/// `workload-phase-chart.svg`.
pub fn charts<'b>(
    trials: &[Trial],
    series: &[Series],
    basis: impl Into<Basis<'b>>,
) -> Vec<ChartFile> {
    let sections = view::sections(trials, basis);
    let curves = curve::curves(trials);
    let appearances = Appearances::of(
        sections.iter().flat_map(|s| &s.rows).chain(curves.iter().flat_map(growth::rows)),
    );
    let series = Index::of(series);
    let mut files = ChartFiles::default();
    if let Some(figure) = overview::figure(&sections, &appearances) {
        files.add("", &figure);
    }
    for timeline in &crate::timeline::timelines(trials) {
        files.add(&timeline.title, &timeline::figure(timeline));
    }
    for section in &sections {
        for figure in figures(section, &appearances, &series) {
            files.add(&section.title(), &figure);
        }
    }
    for curve in &curves {
        files.add(&curve.title, &growth::figure(curve, &appearances));
    }
    files.files
}

/// Returns true if the bytes are a chart written by fsdyno, which may be overwritten.
pub fn is_chart(bytes: &[u8]) -> bool {
    bytes.starts_with(MARK.as_bytes())
}

/// Chart files with unique names.
#[derive(Default)]
pub(super) struct ChartFiles {
    pub files: Vec<ChartFile>,
    names: BTreeSet<String>,
}

impl ChartFiles {
    /// Adds a chart; a name that is already used gets a number.
    pub fn add(&mut self, title: &str, figure: &Figure) {
        let stem = match title {
            "" => figure.slug.to_string(),
            title => format!("{}-{}", slug(title), figure.slug),
        };
        let numbered = (2..).map(|n| format!("{stem}-{n}.svg"));
        let mut names = std::iter::once(format!("{stem}.svg")).chain(numbered);
        let Some(name) = names.find(|name| !self.names.contains(name)) else { return };
        self.names.insert(name.clone());
        self.files.push(ChartFile { name, svg: figure.chart.standalone_svg() });
    }
}

/// Maximum length of a title in a name; more letters do not help to distinguish names.
const MAX_TITLE: usize = 80;

/// Reduces a title to lower-case letters, digits and single hyphens: a name must not lead out of its folder.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars().take(MAX_TITLE) {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => slug.push(c),
            _ if slug.ends_with('-') || slug.is_empty() => {}
            _ => slug.push('-'),
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "phase".into() } else { slug.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn every_chart_is_a_file_with_a_unique_name() {
        let trials = fixture::trials();
        let files = charts(&trials, &fixture::series(&trials), None);
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names.len(), 1 + 4 * 6, "{names:?}");
        for name in ["overview.svg", "dirops-create-times.svg", "tarball-remove-over-time.svg"] {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
        for file in &files {
            assert!(is_chart(file.svg.as_bytes()) && !file.svg.contains("var("));
            assert_eq!(file.svg.matches("<svg").count(), file.svg.matches("</svg>").count());
        }
    }

    #[test]
    fn hostile_titles_give_distinct_names_within_the_folder() {
        assert_eq!(slug("../../etc/passwd create"), "etc-passwd-create");
        assert_eq!(slug("///"), "phase");
        assert_eq!(slug("dirops files=10000 create"), "dirops-files-10000-create");
        let mut trials = fixture::trials();
        for trial in trials.iter_mut().filter(|trial| trial.plan.workload.name == "tarball") {
            trial.plan.workload.name = "dirops/".into();
            for (phase, name) in trial.measured.phases.iter_mut().zip(["create", "delete"]) {
                phase.name = name.into();
            }
        }
        let names: Vec<String> =
            charts(&trials, &[], None).into_iter().map(|file| file.name).collect();
        assert!(names.contains(&"dirops-create-times-2.svg".to_string()), "{names:?}");
    }
}
