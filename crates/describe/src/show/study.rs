//! `fsdyno show study`: prints a study's question, conditions, published values and claims.

use fsdyno_record::shell::quote;
use fsdyno_report::study::FullScale;
use fsdyno_report::table::Prose;
use fsdyno_study::file::{
    Cell, Check, Claim, Conditions, Factors, Published, Run, StudyFile, Test,
};
use fsdyno_study::full_scale::{self, FullScaleVerdict};
use serde_json::{Value, json};

use super::Shown;

/// Describes the study with this name or in this file, as text and as JSON.
///
/// # Errors
/// An unknown name, or an invalid file.
pub fn study(name: &str, prose: Prose) -> Shown {
    let (_, file) = fsdyno_study::find_study(name)?;
    Ok((clean(&text(&file, prose)), value(&file)))
}

/// Replaces control characters, which a study file may contain, except newlines.
fn clean(text: &str) -> String {
    text.split('\n').map(fsdyno_report::sanitize).collect::<Vec<_>>().join("\n")
}

fn text(file: &StudyFile, prose: Prose) -> String {
    let mut text = prose.wrapped(&file.title);
    text.push_str(&prose.wrapped(&file.question));
    if !file.source.is_empty() {
        text.push_str(&prose.wrapped(&format!("source: {}", file.source)));
    }
    for paragraph in file.about.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        text.push('\n');
        text.push_str(&prose.wrapped(&paragraph.replace('\n', " ")));
    }
    text.push_str("\nruns:\n");
    for run in &file.runs {
        text.push_str(&format!("  {} ({})\n", run.name, run.workload));
        for variant in run.variants() {
            let conditions = run.conditions(variant).unwrap_or_default();
            let line = format!("{}: {}", variant.words(), command(run, &conditions));
            text.push_str(&prose.indented(&line, 6));
        }
        if !run.scales.is_empty() {
            let line = format!(
                "--scale divides: {}, cacheable memory, and the sizes of file systems and journals",
                run.scales.join(", ")
            );
            text.push_str(&prose.indented(&line, 6));
        }
    }
    for table in &file.published {
        text.push_str(&published(table, prose));
    }
    if !file.factors.is_empty() {
        text.push_str("\nfactors to the best:\n");
    }
    for table in &file.factors {
        text.push_str(&prose.indented(&format!("{}: {}", table.name, table.caption), 2));
        let runs = table.columns.iter().map(|column| column.run()).collect::<Vec<_>>().join(", ");
        let cell = table.columns.first().map(|column| column.cell_of("each row"));
        let figure =
            cell.map(|cell| format!("{}, {}", cell.phases.join(" + "), cell.figure.name()));
        text.push_str(&prose.indented(&format!("{} of {runs}", figure.unwrap_or_default()), 6));
    }
    if !file.claims.is_empty() {
        text.push_str("\nclaims:\n");
    }
    for claim in &file.claims {
        text.push_str(&prose.indented(&format!("{}: {}", claim.id, claim.text), 2));
        text.push_str(&prose.indented(&test(claim), 6));
        if let Some(line) = stored(file, claim) {
            text.push_str(&prose.indented(&line, 6));
        }
    }
    text
}

/// Describes the stored verdicts on a claim as text; `None` if there are none.
fn stored(file: &StudyFile, claim: &Claim) -> Option<String> {
    let text = |stored: &FullScaleVerdict| {
        let FullScale { result, verdict, one_seed, .. } = &stored.full_scale;
        let one_seed = if *one_seed { ", one seed" } else { "" };
        format!("{} {}{one_seed} (results/{result})", stored.conditions, verdict.word())
    };
    let verdicts: Vec<String> =
        full_scale::verdicts_on(&file.title, claim).iter().map(text).collect();
    (!verdicts.is_empty()).then(|| format!("stored: {}", verdicts.join("; ")))
}

/// Returns the `fsdyno run` command of a study run.
fn command(run: &Run, conditions: &Conditions) -> String {
    let arguments = conditions.arguments().into_iter().map(|word| quote(&word.text));
    let mut command = format!("fsdyno run {}", run.workload);
    for word in arguments {
        command.push(' ');
        command.push_str(&word);
    }
    command
}

fn published(table: &Published, prose: Prose) -> String {
    let source =
        if table.source.is_empty() { String::new() } else { format!(" ({})", table.source) };
    let mut text = format!("\npublished, {}:\n", table.name);
    text.push_str(&prose.indented(&format!("{}{source}", table.caption), 2));
    let head = table.columns.iter().map(|column| format!("{} {}", column.name, column.unit.name));
    let mut rows = vec![std::iter::once("  ".to_string()).chain(head).collect::<Vec<_>>()];
    for row in &table.rows {
        let cell = |cell: &Option<fsdyno_study::file::Value>| match cell {
            None => "-".to_string(),
            Some(value) => match &value.deviation_text {
                Some(deviation) => format!("{} ± {deviation}", value.text),
                None => value.text.clone(),
            },
        };
        let cells = row.cells.iter().map(cell);
        rows.push(std::iter::once(format!("  {}", row.label)).chain(cells).collect());
    }
    text.push_str(&prose.columns(&rows));
    for doubt in &table.doubts {
        let line = format!("{}, {}: doubtful: {}", doubt.row, doubt.column, doubt.why);
        text.push_str(&prose.indented(&line, 2));
    }
    text
}

/// Describes the check of a claim as text.
fn test(claim: &Claim) -> String {
    let published =
        claim.published.map(|value| format!(" (published: {value})")).unwrap_or_default();
    let check = match &claim.test {
        Test::Untestable(reason) => return format!("not testable here: {reason}"),
        Test::Check(check) => check,
    };
    let names = |cells: &[Cell]| cells.iter().map(name).collect::<Vec<_>>().join(", ");
    let check = match check {
        Check::Ratio { numerator, denominator, bound } => {
            format!("{} over {} is {bound}", name(numerator), name(denominator))
        }
        Check::Order(cells) => format!("in ascending order: {}", names(cells)),
        Check::Within { cells, at_most } => {
            format!("the largest over the smallest is at most {at_most}: {}", names(cells))
        }
        Check::Value { cell, bound } => format!("{} is {bound} {}", name(cell), cell.unit.name),
        Check::Exponent { cell, bound } => format!("the exponent of {} is {bound}", name(cell)),
    };
    check + &published
}

/// Describes a cell as text.
fn name(cell: &Cell) -> String {
    let params: Vec<String> = cell.at.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let params =
        if params.is_empty() { String::new() } else { format!(" at {}", params.join(" ")) };
    let op = cell.op.map(|op| format!(" of {op}")).unwrap_or_default();
    let (phases, figure) = (cell.phases.join(" + "), cell.figure.name());
    format!("{} ({}, {phases}, {figure}{op}{params})", cell.row, cell.run)
}

fn value(file: &StudyFile) -> Value {
    let run = |run: &Run| {
        let variants: serde_json::Map<String, Value> = run
            .variants()
            .into_iter()
            .map(|variant| {
                let conditions = run.conditions(variant).unwrap_or_default();
                let words: Vec<String> =
                    conditions.arguments().into_iter().map(|word| word.text).collect();
                (variant.name().to_string(), json!(words))
            })
            .collect();
        json!({"name": run.name, "workload": run.workload, "scales": run.scales, "options": variants})
    };
    let table = |table: &Published| {
        let columns: Vec<Value> = table
            .columns
            .iter()
            .map(|column| json!({"name": column.name, "unit": column.unit.name}))
            .collect();
        let rows: serde_json::Map<String, Value> = table
            .rows
            .iter()
            .map(|row| (row.label.clone(), row.cells.iter().map(published_cell).collect()))
            .collect();
        let doubts: Vec<Value> = table
            .doubts
            .iter()
            .map(|doubt| json!({"row": doubt.row, "column": doubt.column, "why": doubt.why}))
            .collect();
        json!({
            "name": table.name, "caption": table.caption, "source": table.source,
            "columns": columns, "rows": rows, "doubts": doubts,
        })
    };
    let claim = |claim: &Claim| {
        json!({
            "id": claim.id, "text": claim.text, "published": claim.published,
            "least": claim.margin, "check": test(claim), "stored": full_scale::verdicts_on(&file.title, claim),
        })
    };
    let factors = |table: &Factors| {
        let columns: serde_json::Map<String, Value> =
            table.columns.iter().map(|column| (column.head.clone(), json!(column.run()))).collect();
        json!({"name": table.name, "caption": table.caption, "runs": columns})
    };
    json!({
        "title": file.title, "question": file.question, "source": file.source, "about": file.about,
        "year": file.year,
        "factors": file.factors.iter().map(factors).collect::<Vec<_>>(),
        "runs": file.runs.iter().map(run).collect::<Vec<_>>(),
        "published": file.published.iter().map(table).collect::<Vec<_>>(),
        "claims": file.claims.iter().map(claim).collect::<Vec<_>>(),
    })
}

/// Returns a cell of a published table as JSON.
fn published_cell(cell: &Option<fsdyno_study::file::Value>) -> Option<Value> {
    cell.as_ref().map(|cell| json!({"value": cell.value, "deviation": cell.deviation}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_a_study_do_not_reach_the_terminal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        let example = "title = \"t\\u001b[2J\"\nquestion = \"q\\u0007\"\nsource = \"s\\r\"\n\
                   about = \"a\\u009b\"\n[[run]]\nname = \"a\"\nworkload = \"dirops\"\n";
        std::fs::write(&path, example).unwrap();
        let (text, value) =
            study(&path.display().to_string(), Prose { width: 100, limit: None }).unwrap();
        assert!(text.starts_with("t\u{fffd}[2J\n"), "{text}");
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        assert_eq!(value["title"], "t\u{1b}[2J");
    }
}
