//! Trials as `fsdyno report` and `fsdyno run` print them.

use crate::validity::{self, Flag};
use fsdyno_record::Trial;
use schemars::JsonSchema;
use serde::Serialize;

use crate::baseline::{Basis, DEFAULT_LEAST_DIFFERENCE};
use crate::curve::{self, Curve};
use crate::error::ReportError;
use crate::labs::{self, LabRows};
use crate::model::{Row, Section, Significance};
use crate::number::{difference, percent, sanitize};
use crate::original::original;
use crate::part::Part;
use crate::sort::sort;
use crate::table::{
    Block, Document, Format, Lab, Legend, Output, Rows, SpecialFormat, Style, Term,
};
use crate::view;
use crate::{
    answer, calls, columns, described, device, disks, fidelity, instrument, processor, ranks,
    records, repeatability, spreadsheet, statistics, subject, trees, unfinished, work_units,
};

/// Trials to print, with ratios to the label of the baseline or to the best.
#[derive(Clone, Copy, Debug)]
pub struct Trials<'a> {
    /// All trials.
    pub trials: &'a [Trial],
    /// The same trials, divided into parts; trials are compared only within their part.
    pub parts: &'a [Part<'a>],
    /// The base of ratios.
    pub basis: Basis<'a>,
}

/// The trials in a format; ends with a newline.
///
/// # Errors
/// Only [`ReportError::Json`], for a record that has no JSON form.
pub fn table<'b>(
    trials: &[Trial],
    basis: impl Into<Basis<'b>>,
    format: Format,
    style: Style,
) -> Result<String, ReportError> {
    let parts = [Part::whole(trials)];
    format.write(&Trials { trials, parts: &parts, basis: basis.into() }, style)
}

impl Output for Trials<'_> {
    fn document(&self) -> Document {
        document(self.trials, self.basis)
    }

    fn rows(&self, out: &mut dyn Rows) {
        records::rows(self.parts, out);
    }

    fn json(&self) -> Result<String, ReportError> {
        json(self.trials)
    }

    fn special(&self, format: SpecialFormat) -> Option<Result<String, ReportError>> {
        match format {
            SpecialFormat::Statistics => Some(statistics::json(self.parts, self.basis)),
            SpecialFormat::StatisticsCsv => Some(Ok(statistics::csv(self.parts, self.basis))),
            SpecialFormat::Spreadsheet => Some(Ok(spreadsheet::csv(self.parts, self.basis))),
            SpecialFormat::Original => Some(original(self.trials)),
            SpecialFormat::Junit => None,
        }
    }
}

/// A record, with the options that give up durability, which are derived and not stored.
#[derive(Serialize, JsonSchema)]
struct Reported<'a> {
    #[serde(flatten)]
    trial: &'a Trial,
    /// Options that give up durability, each with the reason.
    #[serde(rename = "unsafe", skip_serializing_if = "Vec::is_empty")]
    risks: Vec<String>,
}

/// The records of the given results, including failed and skipped ones, in the order of the table.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "records are written one per line; this is the schema of the whole")]
pub struct ReportedTrials<'a>(Vec<Reported<'a>>);

fn json(trials: &[Trial]) -> Result<String, ReportError> {
    let line = |trial| serde_json::to_string(&Reported { trial, risks: device::risks(trial) });
    let lines: Vec<String> = trials.iter().map(line).collect::<Result<_, _>>()?;
    Ok(format!("[{}]\n", lines.join(",\n")))
}

/// The subject, a table for each section, the answer, the legend, and the failed trials.
fn document(trials: &[Trial], basis: Basis<'_>) -> Document {
    let mut out = Document::default();
    out.0.extend(repeatability::differences(trials).into_iter().map(Block::Strong));
    out.items(subject::lines(trials));
    let mut sections = view::sections(trials, basis);
    if let Some(order) = basis.sort {
        sections.iter_mut().for_each(|section| sort(section, order));
    }
    let folded = folded(&sections);
    let mut column_group = 0;
    for (index, section) in sections.iter().enumerate() {
        // The columns of one workload's sections are aligned with each other, but not with those of another workload.
        let same = index > 0 && sections[index - 1].workload == section.workload;
        column_group += usize::from(!same);
        let mut table = columns::table(section, &sections, basis.columns);
        (table.column_group, table.is_folded) = (column_group, folded[index]);
        let (details, units) = work_units::lines(section);
        table.details = details.into_iter().chain(described::lines(section)).collect();
        let calls = calls::lines(section).into_iter().chain(disks::lines(section));
        table.verbose_details = units.into_iter().chain(calls).collect();
        out.0.push(Block::Table(table));
    }
    out.0.extend(ranks::tables(trials).map(Block::Table));
    let curves = curve::curves(trials);
    for curve in &curves {
        out.0.push(Block::Table(curve::table(curve)));
        out.items(curve::sentences(curve));
    }
    out.0.extend(crate::matrix::table(&sections).map(Block::Table));
    if !sections.is_empty() {
        let answer = answer::sentences(&sections, basis.baseline);
        out.0.push(Block::Answer(answer.join(" ")));
    } else if curves.is_empty() {
        out.0.push(Block::Paragraph("No trial succeeded.".into()));
    }
    out.0.extend(fidelity::sentences(trials).into_iter().map(Block::Paragraph));
    out.0.extend(trees::sentences(trials).into_iter().map(Block::Paragraph));
    out.0.push(Block::Legend(legend(sections, &folded, &curves)));
    let failures = unfinished::unfinished(trials);
    if !failures.is_empty() {
        out.0.push(Block::Failures(failures));
    }
    let lab = |lab: LabRows<'_>| Lab {
        id: sanitize(lab.id),
        rows: sanitize(&lab.rows.join(", ")),
        differs: sanitize(&lab.differs.join(", ")),
    };
    let labs: Vec<Lab> = labs::labs(trials).into_iter().map(lab).collect();
    if !labs.is_empty() {
        out.0.push(Block::Labs(labs));
    }
    out
}

/// For each section, whether brief text omits it: a phase that is too short to be compared in every row, next to phases
/// that take nearly all of the time, such as the creation of directories beforehand.
fn folded(sections: &[Section<'_>]) -> Vec<bool> {
    let (main, _) = answer::main_phases(sections.iter().collect());
    let is_main = |section: &Section<'_>| main.iter().any(|it| std::ptr::eq(*it, section));
    let is_short = |row: &Row<'_>| row.flags.contains(&Flag::TooShort);
    sections.iter().map(|it| !is_main(it) && it.rows.iter().all(is_short)).collect()
}

/// The legend. Its brief form explains only the sections that are not folded.
fn legend(sections: Vec<Section<'_>>, folded: &[bool], curves: &[Curve<'_>]) -> Legend {
    let flag = |flag: &Flag| (flag.name().to_string(), flag.meaning().to_string());
    let terms = marks(&sections).into_iter().chain(least_difference(&sections)).collect();
    let notes = [instrument::sentence(&sections), processor::sentence(&sections)];
    let flags = flags(&sections, curves).iter().map(flag).collect();
    let titles = sections.iter().zip(folded).filter(|(_, folded)| **folded);
    let titles: Vec<String> = titles.map(|(section, _)| section.title()).collect();
    let shown = sections.into_iter().zip(folded).filter(|(_, folded)| !**folded);
    let shown: Vec<Section<'_>> = shown.map(|(section, _)| section).collect();
    let mut brief = brief_legend(&shown, curves);
    if !titles.is_empty() {
        brief.push(format!("Not shown, too short to be compared: {}", titles.join(", ")));
    }
    Legend { terms, notes: notes.into_iter().flatten().collect(), flags, brief }
}

/// The marks in one line, then each flag with its meaning in a few words.
fn brief_legend(sections: &[Section<'_>], curves: &[Curve<'_>]) -> Vec<String> {
    let same = sections
        .first()
        .map(|section| format!("= within {}", difference(section.least_difference)));
    let marks = [
        Some("~ undecided".to_string())
            .filter(|_| has_significance(sections, Significance::Undecided)),
        same.filter(|_| has_significance(sections, Significance::Same)),
        Some("? within the processor model's error".to_string())
            .filter(|_| has_significance(sections, Significance::WithinError)),
    ];
    let marks: Vec<String> = marks.into_iter().flatten().collect();
    let marks = (!marks.is_empty()).then(|| marks.join("; "));
    let flags = flags(sections, curves);
    let flags = flags.iter().map(|flag| {
        let meaning = match flag {
            Flag::TooShort => flag.brief().to_string() + &more_work(sections),
            Flag::InstrumentBound => instrument_bound(sections, curves),
            _ => flag.brief().to_string(),
        };
        format!("{flag}: {meaning}")
    });
    marks.into_iter().chain(flags).chain(instrument_share(sections)).collect()
}

/// The meaning of [`Flag::InstrumentBound`], with the largest share of the flagged rows and points: `fsdyno itself used
/// up to 4.2 % of the time; ignore differences up to that`.
fn instrument_bound(sections: &[Section<'_>], curves: &[Curve<'_>]) -> String {
    let rows = sections.iter().flat_map(|section| &section.rows).chain(curve::rows(curves));
    let bound = rows.filter(|row| row.flags.contains(&Flag::InstrumentBound));
    let share = percent(largest_share(bound));
    format!("fsdyno itself used up to {share} of the time; ignore differences up to that")
}

/// A line with the largest share of the instrument in the times of rows without [`Flag::InstrumentBound`], if it is over
/// [`validity::INSTRUMENT_LIMIT`].
fn instrument_share(sections: &[Section<'_>]) -> Option<String> {
    let (main, _) = answer::main_phases(sections.iter().collect());
    let rows = main.into_iter().flat_map(|section| &section.rows);
    let is_bound = |row: &&Row<'_>| row.flags.contains(&Flag::InstrumentBound);
    let (bound, others): (Vec<_>, Vec<_>) = rows.partition(is_bound);
    let share = largest_share(others.into_iter());
    (share > validity::INSTRUMENT_LIMIT).then(|| {
        let rows = if bound.is_empty() { "a row's time" } else { "another row's time" };
        let share = percent(share);
        format!("fsdyno itself used up to {share} of {rows}; each difference is larger than its rows' shares")
    })
}

/// The largest share of the instrument in the times of rows.
fn largest_share<'a, 'b: 'a>(rows: impl Iterator<Item = &'a Row<'b>>) -> f64 {
    rows.map(|row| validity::instrument_share(&row.trials)).fold(0.0, f64::max)
}

/// The options that give main phases with [`Flag::TooShort`] enough work: `: --set files=12k`.
fn more_work(sections: &[Section<'_>]) -> String {
    let (main, _) = answer::main_phases(sections.iter().collect());
    let rows = main.into_iter().flat_map(|section| &section.rows);
    let short = rows.filter(|row| row.flags.contains(&Flag::TooShort));
    let short: Vec<_> = short.map(|row| row.trials.as_slice()).collect();
    match validity::more_work::options(&short) {
        options if options.is_empty() => options,
        options => format!(": {options}"),
    }
}

/// The meaning of `~`, `=` and `?` before a ratio, only for the marks that occur.
pub fn marks(sections: &[Section<'_>]) -> Vec<Term> {
    let mut terms = Vec::new();
    if has_significance(sections, Significance::Undecided) {
        terms.push(("~".into(), UNDECIDED.into()));
    }
    if let Some(first) = sections.first().filter(|_| has_significance(sections, Significance::Same))
    {
        terms.push(("=".into(), same_meaning(first.least_difference)));
    }
    if has_significance(sections, Significance::WithinError) {
        terms.push(("?".into(), processor::WITHIN_ERROR.into()));
    }
    terms
}

/// Every flag that at least one row or curve has, the most serious first.
pub fn flags(sections: &[Section<'_>], curves: &[Curve<'_>]) -> Vec<Flag> {
    let curve_flags = crate::curve::flags(curves);
    let is_shown = |flag: &Flag| {
        curve_flags.contains(flag)
            || sections.iter().flat_map(|section| &section.rows).any(|row| row.flags.contains(flag))
    };
    Flag::ALL.iter().copied().filter(is_shown).collect()
}

/// The meaning of `~` before a ratio.
const UNDECIDED: &str = "The 95 % interval of this ratio includes 1, or its p-value after Holm's correction is not below 5 %, so \
     the difference is undecided; more seeds (--repeat N) narrow the interval.";

/// The meaning of `=` before a ratio.
fn same_meaning(least: f64) -> String {
    format!(
        "The whole 95 % interval of this ratio lies within ±{}: no difference that matters.",
        difference(least)
    )
}

/// The smallest difference that matters, if some rows of several trials are compared.
fn least_difference(sections: &[Section<'_>]) -> Option<Term> {
    let is_tested = |row: &&Row<'_>| row.ratio.is_some() && row.trials.len() > 1;
    let has_tests = |section: &&Section<'_>| section.rows.iter().filter(is_tested).count() > 1;
    let least = difference(sections.iter().find(has_tests)?.least_difference);
    let default = difference(DEFAULT_LEAST_DIFFERENCE);
    let meaning = format!(
        "{least} (--least-difference, by default {default}): a ratio whose whole 95 % interval is within ±{least} is \
         marked =; others differ if it excludes 1 and the p-value after Holm's correction is below 5 %"
    );
    Some(("least difference".into(), meaning))
}

/// Returns true if some ratio has this significance.
fn has_significance(sections: &[Section<'_>], significance: Significance) -> bool {
    let mut ratios = sections.iter().flat_map(|section| &section.rows).filter_map(|row| row.ratio);
    ratios.any(|ratio| ratio.significance == significance)
}

#[cfg(test)]
mod tests;
