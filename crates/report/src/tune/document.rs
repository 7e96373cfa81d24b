//! The result as a document, as rows and as JSON.

use super::sentences::{
    certificate, change, confirmation_sentence, disagreement, effort, recommendation,
};
use super::{Candidate, OptionWorth, PointTime, Tuned, TunedFilesystem};
use crate::error::ReportError;
use crate::number::{self, sanitize};
use crate::table::{Block, Column, Document, Kind, Legend, Output, Rows, Table};

/// The maximum number of configurations in a table.
const SHOWN: usize = 10;

fn changed(part: Option<f64>) -> String {
    part.map_or("-".into(), change)
}

/// The columns of the effects of options.
pub fn worth_columns() -> Vec<Column<'static, OptionWorth>> {
    vec![
        Column::words("option", |it: &OptionWorth| sanitize(&it.what)),
        Column::words("note", |it: &OptionWorth| mark(it).into()).means(
            "*: recommended; UNSAFE: it gives up durability or security; (c): it gives up compatibility; none: no measurable \
             difference",
        ),
        Column::number("alone", |it: &OptionWorth| changed(it.alone))
            .means("change of the time with this option alone, all others at their defaults"),
        Column::new(Kind::Spread, "±", |it: &OptionWorth| match it.alone_deviation > 0.0 {
            true => number::percent(2.0 * it.alone_deviation),
            false => String::new(),
        })
        .means("two standard deviations of that change due to noise"),
        Column::number("with winner", |it: &OptionWorth| changed(it.with_winner))
            .means("the same together with the recommended options"),
        Column::number("average", |it: &OptionWorth| changed(it.average))
            .means("the same on average over the space, by a model of all measured points"),
        Column::words("sets", |it: &OptionWorth| sanitize(&it.sets)).priority(1),
    ]
}

fn mark(it: &OptionWorth) -> &'static str {
    let is_unsafe = it.gives_up.iter().any(|loss| !loss.starts_with("compatibility"));
    match (it.is_recommended, is_unsafe, it.is_nothing) {
        (true, true, _) => "* UNSAFE",
        (true, false, _) if !it.gives_up.is_empty() => "* (c)",
        (true, false, _) => "*",
        (false, true, _) => "UNSAFE",
        (false, false, true) => "none",
        (false, false, false) if !it.gives_up.is_empty() => "(c)",
        _ => "",
    }
}

/// The columns of candidates.
pub fn front_columns() -> Vec<Column<'static, Candidate>> {
    vec![
        Column::words("options", |it: &Candidate| sanitize(&it.words)),
        Column::number("time", |it: &Candidate| number::seconds(it.seconds)),
        Column::number("lost", |it: &Candidate| match it.losses {
            Some(lost) => format!("{lost} / {}", it.cuts),
            None => "-".into(),
        })
        .means("power cuts after which acknowledged work was missing or the file system could not be mounted / all cuts"),
        Column::number("bound", |it: &Candidate| it.bound.map_or("-".into(), number::percent))
            .means("upper bound, at 95 % confidence, on the probability of such a loss at a power cut"),
        Column::number("repaired", |it: &Candidate| it.repairs.to_string())
            .means("power cuts after which the file system needed its repair tool"),
        Column::number("space", |it: &Candidate| fsdyno_record::Bytes(it.space).to_string())
            .means("in use at the end of the last phase"),
        Column::words("front", |it: &Candidate| if it.is_on_front { "yes" } else { "" }.into())
            .means("no other candidate is better in one of time, losses and space, and not worse in the others"),
    ]
}

fn point_columns() -> Vec<Column<'static, PointTime>> {
    vec![
        Column::words("configuration", |it: &PointTime| sanitize(&it.words)),
        Column::number("time", |it: &PointTime| number::seconds(it.seconds)),
        Column::number("change", |it: &PointTime| change(it.change)),
        Column::number("n", |it: &PointTime| it.trials.to_string()),
    ]
}

impl Output for Tuned {
    fn document(&self) -> Document {
        let mut out = Document(vec![Block::Lead(vec![
            format!("Options for {}", sanitize(&self.workload)),
            format!("{}; {}", sanitize(&self.target), sanitize(&self.objective)),
        ])]);
        for of in &self.filesystems {
            self.add(of, &mut out);
        }
        out.0.push(Block::List("Between file systems:", self.between.clone()));
        out.0.push(Block::Legend(Legend::default()));
        out
    }

    fn rows(&self, out: &mut dyn Rows) {
        type FsRow = (String, OptionWorth);
        let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let columns = vec![
            Column::words("filesystem", |it: &FsRow| it.0.clone()),
            Column::words("option", |it: &FsRow| it.1.what.clone()),
            Column::words("sets", |it: &FsRow| it.1.sets.clone()),
            Column::number("alone", move |it: &FsRow| number(it.1.alone)),
            Column::number("with_winner", move |it: &FsRow| number(it.1.with_winner)),
            Column::number("average", move |it: &FsRow| number(it.1.average)),
            Column::words("recommended", |it: &FsRow| it.1.is_recommended.to_string()),
            Column::words("nothing", |it: &FsRow| it.1.is_nothing.to_string()),
        ];
        let rows = self
            .filesystems
            .iter()
            .flat_map(|of| of.effects.iter().map(|worth| (of.filesystem.clone(), worth.clone())));
        out.table(&columns, rows);
    }

    fn json(&self) -> Result<String, ReportError> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

impl Tuned {
    fn add(&self, of: &TunedFilesystem, out: &mut Document) {
        out.0.push(Block::Strong(recommendation(self, of)));
        out.0.extend(disagreement(self, of).map(Block::Strong));
        out.0.push(Block::Verbatim(lines(of)));
        if !of.recommended.gives_up.is_empty() {
            out.0.push(Block::List("It gives up:", of.recommended.gives_up.clone()));
        }
        out.items(of.why.clone());
        out.0.push(Block::Paragraph(effort(of)));
        out.0.push(Block::Table(of_kind(0, Table::of(worth_columns(), &of.effects))));
        let nothing: Vec<&str> =
            of.effects.iter().filter(|it| it.is_nothing).map(|it| it.what.as_str()).collect();
        if !nothing.is_empty() {
            let least = number::difference(self.least);
            let text =
                format!("No measurable difference here (below {least}): {}", nothing.join(", "));
            out.0.push(Block::Paragraph(sanitize(&text)));
        }
        let pairs = of
            .interactions
            .iter()
            .map(|it| format!("{} with {}: {} in addition", it.one, it.other, change(it.change)));
        out.0.push(Block::List(
            "Options whose combined effect is not the sum of their effects (average over the space, by the model):",
            pairs.collect(),
        ));
        if !of.front.is_empty() {
            out.0.push(Block::Table(of_kind(1, Table::of(front_columns(), &of.front))));
        }
        let truths = of.truth.iter().map(|it| confirmation_sentence(it, self.least)).collect();
        out.0.push(Block::List("Under conditions that were not used in the search:", truths));
        let fastest = Table::of(point_columns(), of.points.iter().take(SHOWN));
        out.0.push(Block::Table(of_kind(2, fastest)));
        out.0.push(Block::List("Certificate:", certificate(&of.certificate)));
        let reasons = |all: &[super::Reason]| -> Vec<String> {
            all.iter().map(|it| sanitize(&format!("{}: {}", it.what, it.why))).collect()
        };
        out.0
            .push(Block::List("Refused by mkfs or mount, with its message:", reasons(&of.refused)));
        out.0.push(Block::List("Not tried:", reasons(&of.dropped)));
    }
}

/// A table whose columns are laid out like those of other tables of its kind.
fn of_kind(column_group: usize, table: Table) -> Table {
    Table { column_group, ..table }
}

/// The lines that set the recommended options.
pub fn lines(of: &TunedFilesystem) -> Vec<String> {
    let it = &of.recommended;
    let mut lines =
        vec![format!("    {}", sanitize(&it.mkfs)), format!("    {}", sanitize(&it.fstab))];
    lines.extend(it.sysctls.iter().map(|line| format!("    sysctl {}", sanitize(line))));
    lines.extend(it.scheduler.iter().map(|it| format!("    block scheduler: {}", sanitize(it))));
    lines
}
