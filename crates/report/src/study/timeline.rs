//! A study on several kernels in one table: the verdicts of each claim, and the cells of the published
//! tables.

use super::lines::{Grid, digits, format_measured, head};
use super::{Claim, Judged, Variant, Verdict};
use crate::number::sanitize;

/// The kernels of one set of conditions.
pub struct Timeline<'a> {
    /// The conditions: `as then`.
    pub conditions: &'a str,
    /// Its points, starting with the oldest kernel.
    pub points: Vec<&'a Variant>,
}

/// The timelines of a study: one for each set of conditions that has two kernels or more.
pub fn timelines(judged: &Judged) -> Vec<Timeline<'_>> {
    let mut timelines: Vec<Timeline<'_>> = Vec::new();
    for variant in judged.variants.iter().filter(|variant| variant.kernel.is_some()) {
        match timelines.iter_mut().find(|timeline| timeline.conditions == variant.conditions) {
            Some(timeline) => timeline.points.push(variant),
            None => {
                timelines.push(Timeline { conditions: &variant.conditions, points: vec![variant] })
            }
        }
    }
    timelines.retain(|timeline| timeline.points.len() > 1);
    timelines
}

impl Timeline<'_> {
    /// The title: `as then, scale 1/10, kernel by kernel`.
    pub fn title(&self) -> String {
        let scale = match self.points.first() {
            Some(point) if point.scale != 1 => format!(", scale 1/{}", point.scale),
            _ => String::new(),
        };
        sanitize(&format!("{}{scale}, kernel by kernel", self.conditions))
    }

    /// The kernels.
    pub fn kernels(&self) -> Vec<String> {
        let kernels = self.points.iter().filter_map(|point| point.kernel.as_deref());
        kernels.map(sanitize).collect()
    }

    /// Each claim that was run on some kernel, with its verdict on each; all kernels have the same claims.
    pub fn claims(&self) -> Vec<(&Claim, Vec<&Claim>)> {
        let first = self.points.first().map_or(&[][..], |point| point.claims.as_slice());
        let on_each = |id: &str| {
            let claims = self.points.iter().map(|point| point.claims.as_slice());
            claims.filter_map(|claims| claims.iter().find(|claim| claim.id == id)).collect()
        };
        let all = first.iter().map(|claim| (claim, on_each(&claim.id)));
        all.filter(|(_, states): &(_, Vec<&Claim>)| {
            states.iter().any(|claim| claim.verdict != Verdict::NotRun)
        })
        .collect()
    }

    /// The claims as text; those whose verdict differs between kernels are marked.
    pub fn claims_grid(&self) -> Option<Grid> {
        let claims = self.claims();
        let row = |(claim, states): &(&Claim, Vec<&Claim>)| {
            let mark = if changes(states) { CHANGES } else { "" };
            let mut line = vec![sanitize(&claim.id), mark.to_string()];
            line.extend(states.iter().map(|claim| short_verdict(claim)));
            vec![line]
        };
        let rows: Vec<Vec<Vec<String>>> = claims.iter().map(row).collect();
        let mut heads = vec!["claim".to_string(), String::new()];
        heads.extend(self.kernels());
        (!rows.is_empty()).then_some(Grid { heads, rows })
    }

    /// Each published table with the numbers measured on each kernel: its name and caption, and a line for each cell.
    pub fn tables(&self) -> Vec<(String, Grid)> {
        let Some(first) = self.points.first() else { return Vec::new() };
        let mut heads = vec![String::new(), String::new(), "published".to_string()];
        heads.extend(self.kernels());
        let grids = first.tables.iter().enumerate().map(|(table_index, table)| {
            let rows = table.rows.iter().enumerate().map(|(row_index, row)| {
                let lines = table.columns.iter().enumerate().map(|(column_index, column)| {
                    let label =
                        if column_index == 0 { sanitize(&row.label) } else { String::new() };
                    let cell = |variant: &Variant| {
                        let row = variant.tables.get(table_index)?.rows.get(row_index)?;
                        row.cells.get(column_index)?.measured.as_ref().map(format_measured)
                    };
                    let published =
                        row.cells.get(column_index).and_then(|cell| cell.published.as_deref());
                    let mut line = vec![label, head(column), sanitize(published.unwrap_or("-"))];
                    let dash = || "-".to_string();
                    line.extend(self.points.iter().map(|point| cell(point).unwrap_or_else(dash)));
                    line
                });
                lines.collect()
            });
            let title = sanitize(&format!("{}: {}", table.name, table.caption));
            (title, Grid { heads: heads.clone(), rows: rows.collect() })
        });
        grids.collect()
    }
}

/// The mark of a claim whose verdict differs between kernels.
const CHANGES: &str = "*";
/// The meaning of the cells and of [`CHANGES`].
pub const CHANGES_MEAN: &str = "The number after a verdict is the one that the claim's check \
    measured. * the verdict differs between kernels.";

/// Returns true if the verdicts of a claim differ.
pub fn changes(states: &[&Claim]) -> bool {
    states.windows(2).any(|pair| pair[0].verdict != pair[1].verdict)
}

/// The verdict in short form, with its number: `still holds 1.52`.
pub fn short_verdict(claim: &Claim) -> String {
    let verdict = claim.verdict;
    let full = claim.verdict_text();
    let short = if verdict == Verdict::NotTestable { "not testable" } else { &full };
    claim.measured.map_or(short.into(), |number| format!("{short} {}", digits(number.value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Results;
    use crate::study::sample;
    use crate::table::{Format, Style};

    #[test]
    fn kernels_are_in_one_table_and_changes_are_marked() {
        let judged = sample::on_kernels();
        let timelines = timelines(&judged);
        assert_eq!(timelines.len(), 1, "one kernel is not a timeline");
        let timeline = &timelines[0];
        assert_eq!(timeline.title(), "as then, kernel by kernel");
        let claims = timeline.claims_grid().unwrap();
        assert_eq!(claims.heads[2..], ["5.10.0-32-amd64", "6.12.38-amd64"]);
        assert_eq!(claims.rows[0], [["C1", "*", "still holds 1.72", "reversed 0.61"]]);
        assert_eq!(claims.rows[4], [["C5", "", "not testable", "not testable"]]);
        let (title, table) = &timeline.tables()[0];
        assert_eq!(title, "times: Extract and remove 725,000 files");
        assert_eq!(
            table.rows[0][0],
            ["ext4-128", "extract s", "618.991", "402.1 ±1.0 %", "300 ±1.0 %"]
        );
        assert_eq!(table.rows[0][1][..2], ["", "remove s"]);
        assert_eq!(table.rows[1][0][2..], ["148", "-", "-"]);
        // In all output formats, and before the individual variants.
        for format in [Format::Text, Format::Mail, Format::Markdown] {
            let text = format.write(&Results::of(&judged), Style::default()).unwrap();
            let position = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
            let own = "as then, kernel 5.10.0-32-amd64\n";
            assert!(position("kernel by kernel") < position(own));
            assert!(text.contains("reversed 0.61"), "{text}");
            assert!(!text.contains("amd64: kernel"), "{text}");
        }
    }
}
