//! The result as a document, as rows and as JSON.

use super::sentences::{
    certificate, change, confirmation_sentence, disagreement, effort, recommendation,
};
use super::{Candidate, OptionEffect, PointTime, Reduction, Tuned, TunedFilesystem};
use crate::error::ReportError;
use crate::number::{self, sanitize};
use crate::table::{Block, Column, Document, Kind, Legend, Output, Rows, Table};

/// The maximum number of configurations in a table.
const MAX_SHOWN: usize = 10;

fn change_or_dash(part: Option<f64>) -> String {
    part.map_or("-".into(), change)
}

/// The columns of the effects of options.
pub fn effect_columns() -> Vec<Column<'static, OptionEffect>> {
    vec![
        Column::words("option", |option: &OptionEffect| sanitize(&option.what)),
        Column::words("note", |option: &OptionEffect| mark(option).into()).means(
            "*: recommended; UNSAFE: it gives up durability or security; (c): it gives up compatibility; none: no measurable \
             difference",
        ),
        Column::number("alone", |option: &OptionEffect| change_or_dash(option.alone))
            .means("change of the time with this option alone, all others at their defaults"),
        Column::new(Kind::Spread, "±", |option: &OptionEffect| match option.alone_deviation > 0.0 {
            true => number::percent(2.0 * option.alone_deviation),
            false => String::new(),
        })
        .means("two standard deviations of that change due to noise"),
        Column::number("with winner", |option: &OptionEffect| change_or_dash(option.with_winner))
            .means("the same together with the recommended options"),
        Column::number("average", |option: &OptionEffect| change_or_dash(option.average))
            .means("the same on average over the space, by a model of all measured points"),
        Column::words("sets", |option: &OptionEffect| sanitize(&option.sets)).priority(1),
    ]
}

fn mark(option: &OptionEffect) -> &'static str {
    let is_unsafe = option.gives_up.iter().any(|loss| !loss.starts_with("compatibility"));
    match (option.is_recommended, is_unsafe, option.is_nothing) {
        (true, true, _) => "* UNSAFE",
        (true, false, _) if !option.gives_up.is_empty() => "* (c)",
        (true, false, _) => "*",
        (false, true, _) => "UNSAFE",
        (false, false, true) => "none",
        (false, false, false) if !option.gives_up.is_empty() => "(c)",
        _ => "",
    }
}

/// The columns of candidates.
pub fn front_columns() -> Vec<Column<'static, Candidate>> {
    vec![
        Column::words("options", |candidate: &Candidate| sanitize(&candidate.words)),
        Column::number("time", |candidate: &Candidate| number::seconds(candidate.seconds)),
        Column::number("lost", |candidate: &Candidate| match candidate.losses {
            Some(lost) => format!("{lost} / {}", candidate.cuts),
            None => "-".into(),
        })
        .means("power cuts after which acknowledged work was missing or the file system could not be mounted / all cuts"),
        Column::number("bound", |candidate: &Candidate| candidate.bound.map_or("-".into(), number::percent))
            .means("upper bound, at 95 % confidence, on the probability of such a loss at a power cut"),
        Column::number("repaired", |candidate: &Candidate| candidate.repairs.to_string())
            .means("power cuts after which the file system needed its repair tool"),
        Column::number("space", |candidate: &Candidate| fsdyno_record::Bytes(candidate.space).to_string())
            .means("in use at the end of the last phase"),
        Column::words("front", |candidate: &Candidate| if candidate.is_on_front { "yes" } else { "" }.into())
            .means("no other candidate is better in one of time, losses and space, and not worse in the others"),
    ]
}

fn point_columns() -> Vec<Column<'static, PointTime>> {
    vec![
        Column::words("configuration", |point: &PointTime| sanitize(&point.words)),
        Column::number("time", |point: &PointTime| number::seconds(point.seconds)),
        Column::number("change", |point: &PointTime| change(point.change)),
        Column::number("n", |point: &PointTime| point.trials.to_string()),
    ]
}

impl Output for Tuned {
    fn document(&self) -> Document {
        let mut out = Document(vec![Block::Lead(vec![
            format!("Options for {}", sanitize(&self.workload)),
            format!("{}; {}", sanitize(&self.target), sanitize(&self.objective)),
        ])]);
        let reductions = self.reductions.iter().map(Reduction::sentence);
        out.0.extend(reductions.map(|text| Block::Paragraph(sanitize(&text))));
        for result in &self.filesystems {
            self.add_filesystem(result, &mut out);
        }
        out.0.push(Block::List("Between file systems:", self.between.clone()));
        out.0.push(Block::Legend(Legend::default()));
        out
    }

    fn rows(&self, out: &mut dyn Rows) {
        type FsRow = (String, OptionEffect);
        let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let columns = vec![
            Column::words("filesystem", |row: &FsRow| row.0.clone()),
            Column::words("option", |row: &FsRow| row.1.what.clone()),
            Column::words("sets", |row: &FsRow| row.1.sets.clone()),
            Column::number("alone", move |row: &FsRow| number(row.1.alone)),
            Column::number("with_winner", move |row: &FsRow| number(row.1.with_winner)),
            Column::number("average", move |row: &FsRow| number(row.1.average)),
            Column::words("recommended", |row: &FsRow| row.1.is_recommended.to_string()),
            Column::words("nothing", |row: &FsRow| row.1.is_nothing.to_string()),
        ];
        let rows = self.filesystems.iter().flat_map(|result| {
            result.effects.iter().map(|effect| (result.filesystem.clone(), effect.clone()))
        });
        out.table(&columns, rows);
    }

    fn json(&self) -> Result<String, ReportError> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

impl Tuned {
    fn add_filesystem(&self, result: &TunedFilesystem, out: &mut Document) {
        out.0.push(Block::Strong(recommendation(self, result)));
        out.0.extend(disagreement(self, result).map(Block::Strong));
        out.0.push(Block::Verbatim(lines(result)));
        if !result.recommended.gives_up.is_empty() {
            out.0.push(Block::List("It gives up:", result.recommended.gives_up.clone()));
        }
        out.items(result.why.clone());
        out.0.push(Block::Paragraph(effort(result)));
        out.0.push(Block::Table(in_group(0, Table::of(effect_columns(), &result.effects))));
        let ineffective: Vec<&str> = result
            .effects
            .iter()
            .filter(|option| option.is_nothing)
            .map(|option| option.what.as_str())
            .collect();
        if !ineffective.is_empty() {
            let least = number::difference(self.least);
            let text = format!(
                "No measurable difference here (below {least}): {}",
                ineffective.join(", ")
            );
            out.0.push(Block::Paragraph(sanitize(&text)));
        }
        let pairs = result.interactions.iter().map(|pair| {
            format!("{} with {}: {} in addition", pair.one, pair.other, change(pair.change))
        });
        out.0.push(Block::List(
            "Options whose combined effect is not the sum of their effects (average over the space, by the model):",
            pairs.collect(),
        ));
        if !result.front.is_empty() {
            out.0.push(Block::Table(in_group(1, Table::of(front_columns(), &result.front))));
        }
        let confirmations = result
            .truth
            .iter()
            .map(|confirmation| confirmation_sentence(confirmation, self.least))
            .collect();
        out.0
            .push(Block::List("Under conditions that were not used in the search:", confirmations));
        let fastest = Table::of(point_columns(), result.points.iter().take(MAX_SHOWN));
        out.0.push(Block::Table(in_group(2, fastest)));
        out.0.push(Block::List("Certificate:", certificate(&result.certificate)));
        let reasons = |reasons: &[super::Reason]| -> Vec<String> {
            let line = |reason: &super::Reason| format!("{}: {}", reason.what, reason.why);
            reasons.iter().map(|reason| sanitize(&line(reason))).collect()
        };
        out.0.push(Block::List(
            "Refused by mkfs or mount, with its message:",
            reasons(&result.refused),
        ));
        out.0.push(Block::List("Not tried:", reasons(&result.dropped)));
    }
}

/// A table whose columns are aligned with those of the other tables in the group.
fn in_group(column_group: usize, table: Table) -> Table {
    Table { column_group, ..table }
}

/// The lines that set the recommended options.
pub fn lines(result: &TunedFilesystem) -> Vec<String> {
    let recommended = &result.recommended;
    let mut lines = vec![
        format!("    {}", sanitize(&recommended.mkfs)),
        format!("    {}", sanitize(&recommended.fstab)),
    ];
    lines.extend(recommended.sysctls.iter().map(|line| format!("    sysctl {}", sanitize(line))));
    lines.extend(
        recommended
            .scheduler
            .iter()
            .map(|scheduler| format!("    block scheduler: {}", sanitize(scheduler))),
    );
    lines
}
