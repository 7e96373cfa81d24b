//! `fsdyno show workload`: describes a workload, its parameters and phases; with --sources also its definition.

use fsdyno_campaign::{Failure, server_defaults};
use fsdyno_report::table::Prose;
use fsdyno_workload::workloads::Kind;
use fsdyno_workload::{Setting, Threads, Workload, workloads};
use serde_json::{Value, json};

use super::Shown;

/// The legend of the marks that state the source of each fact in the texts of workloads.
const MARKS: &str = "\n\
[SRC] read in the original's source or documentation; [RUN] observed by running it; [PUB]\n\
published elsewhere; [DER] derived or inferred; [MEM] from memory, unconfirmed; [OWN] our choice\n";

/// Describes a workload, in brief or, with `sources`, with its definition, the accepted values, the sources of all
/// facts, and exact counts.
///
/// # Errors
/// An unknown name.
pub fn workload(name: &str, sources: bool, prose: Prose) -> Shown {
    let kind = workloads::find(name)?;
    let mut text = format!("{}: {}\nsource: {}\n\n", kind.name, kind.about, kind.source);
    for paragraph in kind.doc.split("\n\n") {
        text.push_str(&prose.wrapped(paragraph));
        text.push('\n');
    }
    text.push_str("parameters:\n");
    let mut rows = Vec::new();
    let mut params = Vec::new();
    for param in kind.params {
        let takes = param.domain.describe();
        rows.push(vec![
            format!("  {}", param.name),
            format!("default {}", param.default),
            format!("takes {takes}"),
        ]);
        let explained = format!("{} {}", param.about, param.source);
        rows.push(vec![prose.indented(&explained, 6).trim_end().to_string()]);
        params.push(json!({
            "name": param.name, "default": param.default, "takes": takes,
            "about": param.about, "source": param.source,
        }));
    }
    if kind.config.is_some() {
        rows.push(vec![
            "  config".into(),
            "default none".into(),
            "takes the path of a configuration file of the original program".into(),
        ]);
        rows.push(vec![
            "      Replaces the parameters above, except those given with --set.".into(),
        ]);
    }
    text.push_str(&parameter_lines(&rows, prose));
    let values = kind.resolve(&[])?;
    // Some workloads need a file or a command first.
    let bound = kind.build(&values, &Setting::default());
    text.push_str(MARKS);
    text.push_str(&match &bound {
        Ok(_) => "\nphases with these defaults (random counts are those of seed 0):\n".to_string(),
        Err(error) => prose.wrapped(&format!("\nphases: not known yet; {error}")),
    });
    let (lines, phases) = bound
        .as_ref()
        .map_or_else(|_| Default::default(), |workload| phases_of(workload.as_ref(), prose));
    text.push_str(&lines);
    let text = if sources { text } else { brief(kind, prose)? };
    let value = json!({
        "name": kind.name, "about": kind.about, "source": kind.source, "doc": kind.doc,
        "params": params, "phases": phases,
    });
    Ok((text, value))
}

/// Describes the phases of a workload with their counts, as text and as JSON.
fn phases_of(bound: &dyn Workload, prose: Prose) -> (String, Vec<Value>) {
    let (mut text, mut phases) = (String::new(), Vec::new());
    for (index, phase) in bound.phases().into_iter().enumerate() {
        let counts = bound.counts(index, phase.threads.count_of(1));
        let threads = match phase.threads {
            Threads::One => "one".to_string(),
            Threads::Any => "set by --threads".to_string(),
            Threads::Exactly(n) => n.to_string(),
        };
        let ops: Vec<String> = counts.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        text.push_str(&prose.indented(&format!("{}: {}", phase.name, ops.join(", ")), 2));
        text.push_str(&format!("      before it: {}; threads: {threads}\n", phase.gap.name()));
        phases.push(json!({"name": phase.name, "before": phase.gap.name(), "threads": threads, "ops": counts}));
    }
    (text, phases)
}

/// Formats parameters: for each one, a line in columns with its explanation below.
fn parameter_lines(rows: &[Vec<String>], prose: Prose) -> String {
    let heads: Vec<Vec<String>> = rows.iter().filter(|row| row.len() > 1).cloned().collect();
    let mut heads = prose.rows_of(&heads).into_iter();
    let lines = rows.iter().map(|row| match row.as_slice() {
        [explanation] => explanation.clone(),
        _ => heads.next().unwrap_or_default().trim_end().to_string(),
    });
    lines.map(|line| line + "\n").collect()
}

/// Describes in brief what a user needs to run a workload: one line per parameter, and the names of the phases.
fn brief(kind: &Kind, prose: Prose) -> Result<String, Failure> {
    let mut text = prose.wrapped(&format!("{}: {}", kind.name, kind.about));
    text.push_str(&prose.wrapped(&format!("source: {}", kind.source)));
    let defaults = server_defaults::defaults(kind);
    let default =
        |name: &str| defaults.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    if let Some(note) = server_defaults::note(kind) {
        text.push_str(&prose.wrapped(&note));
    }
    text.push_str("\nparameters (--set NAME=VALUE) and their defaults:\n");
    let row = |param: &fsdyno_workload::params::Param| {
        let default = default(param.name).unwrap_or(param.default).to_string();
        vec![format!("  {}", param.name), default, param.about.to_string()]
    };
    let mut rows: Vec<Vec<String>> = kind.params.iter().map(row).collect();
    if kind.config.is_some() {
        let about = "A configuration file of the original program".to_string();
        rows.push(vec!["  config".into(), "none".into(), about]);
    }
    text.push_str(&prose.columns(&rows));
    let values = kind.resolve(defaults)?;
    text.push_str(&match kind.build(&values, &Setting::default()) {
        Ok(bound) => {
            let phases: Vec<&str> = bound.phases().iter().map(|phase| phase.name).collect();
            format!("\nphases: {}\n", phases.join(", "))
        }
        Err(error) => format!("\n{}", prose.wrapped(&format!("phases: not known yet; {error}"))),
    });
    text.push_str(&prose.wrapped(&format!(
        "definition, accepted values, counts of calls, and the source of each: fsdyno show workload {} --sources",
        kind.name
    )));
    Ok(text)
}
