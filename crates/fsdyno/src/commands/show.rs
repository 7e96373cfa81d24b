//! `fsdyno show`: one workload, file system or disk with all that is known of it.

use fsdyno_record::suggest;
use fsdyno_workload::{Setting, Threads, workloads};
use serde_json::{Value, json};

use crate::cli::{DataFormat, Show, Showable};
use crate::exit::{Exit, Failure};
use crate::output;

/// Shows what was asked for.
pub fn run(show: &Show) -> Result<Exit, Failure> {
    let (text, value) = match show.kind {
        Showable::Workload => workload(&show.name)?,
        Showable::Filesystem => filesystem(&show.name)?,
        Showable::Disk => disk(&show.name)?,
    };
    match show.format {
        DataFormat::Text => output::data(&text)?,
        DataFormat::Json => output::json(&value)?,
    }
    Ok(Exit::Good)
}

/// What the marks in the texts of workloads say.
const MARKS: &str = "\n\
[SRC] read in the original's source or documentation; [RUN] seen by running it; [PUB] published\n\
elsewhere; [DER] derived or inferred; [MEM] from memory, unconfirmed; [OWN] our own choice\n";

fn workload(name: &str) -> Result<(String, Value), Failure> {
    let kind = workloads::find(name).map_err(|error| Failure::wrong(error.to_string()))?;
    let mut text = format!("{}: {}\nsource: {}\n\n", kind.name, kind.about, kind.source);
    for paragraph in kind.doc.split("\n\n") {
        text.push_str(&output::wrapped(paragraph));
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
        rows.push(vec![output::indented(&explained, 6).trim_end().to_string()]);
        params.push(json!({
            "name": param.name, "default": param.default, "takes": takes,
            "about": param.about, "source": param.source,
        }));
    }
    if kind.config.is_some() {
        rows.push(vec![
            "  config".into(),
            "default none".into(),
            "takes the path of a file in the original program's own form".into(),
        ]);
        rows.push(vec![
            "      Its settings in place of the parameters above; what is set beside it wins."
                .into(),
        ]);
    }
    text.push_str(&parameter_lines(&rows));
    let values = kind.resolve(&[]).map_err(|error| Failure::wrong(error.to_string()))?;
    let bound = kind
        .build(&values, &Setting::default())
        .map_err(|error| Failure::wrong(error.to_string()))?;
    text.push_str(MARKS);
    text.push_str(
        "\nphases with these defaults (counts that chance decides are those of seed 0):\n",
    );
    let mut phases = Vec::new();
    for (at, phase) in bound.phases().iter().enumerate() {
        let counts = bound.counts(at, phase.threads.of(1));
        let threads = match phase.threads {
            Threads::One => "one".to_string(),
            Threads::Any => "as many as --threads says".to_string(),
            Threads::Exactly(n) => n.to_string(),
        };
        let ops: Vec<String> = counts.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        text.push_str(&output::indented(&format!("{}: {}", phase.name, ops.join(", ")), 2));
        text.push_str(&format!("      before it: {}; threads: {threads}\n", phase.gap.name()));
        phases.push(json!({"name": phase.name, "before": phase.gap.name(), "threads": threads, "ops": counts}));
    }
    let value = json!({
        "name": kind.name, "about": kind.about, "source": kind.source, "doc": kind.doc,
        "params": params, "phases": phases,
    });
    Ok((text, value))
}

/// A parameter's own line is a row of columns; its explanation below it is not.
fn parameter_lines(rows: &[Vec<String>]) -> String {
    let heads: Vec<Vec<String>> = rows.iter().filter(|row| row.len() > 1).cloned().collect();
    let aligned = output::columns(&heads);
    let mut heads = aligned.lines();
    let lines = rows.iter().map(|row| match row.as_slice() {
        [explanation] => explanation.clone(),
        _ => heads.next().unwrap_or_default().to_string(),
    });
    lines.map(|line| line + "\n").collect()
}

fn filesystem(name: &str) -> Result<(String, Value), Failure> {
    let kind =
        fsdyno_filesystem::catalog::get(name).map_err(|error| Failure::wrong(error.to_string()))?;
    let kernels = match &kind.until {
        Some(until) => format!("Linux {} to {until}", kind.since),
        None => format!("Linux {} and later", kind.since),
    };
    let mkfs = kind.mkfs.argv.join(" ");
    let mut text = format!("{}: {}\n\n", kind.name, kind.about);
    text.push_str(&output::columns(&[
        vec!["kernels".into(), kernels.clone()],
        vec!["modules".into(), kind.modules.join(", ")],
        vec![
            "tools".into(),
            format!("{} (Debian package {})", kind.tools.join(", "), kind.package),
        ],
        vec!["make".into(), mkfs.clone()],
        vec!["mount".into(), format!("-t {} {}", kind.mount.kind, options(&kind.mount.options))],
        vec!["check".into(), kind.check.argv.join(" ")],
        vec!["smallest".into(), kind.minimum_size.to_string()],
        vec!["longest name".into(), format!("{} bytes", kind.longest_name)],
    ]));
    text.push_str("\nexit codes of the check:\n");
    for (code, meaning) in &kind.check.codes {
        text.push_str(&format!("  {code}  {meaning}\n"));
    }
    text.push_str(&format!("\n{}\n", kind.notes.trim()));
    let value = json!({
        "name": kind.name, "about": kind.about, "since": kind.since, "until": kind.until,
        "modules": kind.modules, "package": kind.package, "tools": kind.tools,
        "mkfs": kind.mkfs.argv, "mount_type": kind.mount.kind, "mount_options": kind.mount.options,
        "check": kind.check.argv, "check_codes": kind.check.codes, "check_clean": kind.check.clean,
        "minimum_size": kind.minimum_size, "longest_name": kind.longest_name,
        "notes": kind.notes.trim(),
    });
    Ok((text, value))
}

fn options(options: &str) -> String {
    if options.is_empty() { "(no options)".into() } else { format!("-o {options}") }
}

fn disk(name: &str) -> Result<(String, Value), Failure> {
    let wrong = |hint: String| Failure::wrong(format!("there is no disk '{name}'; {hint}"));
    let text = fsdyno_disk::catalog::text(name)
        .map_err(|_| wrong(suggest::hint(name, fsdyno_disk::catalog::names())))?;
    let spec = fsdyno_disk::catalog::get(name)
        .map_err(|error| Failure::wrong(format!("failed to {error}")))?;
    let value = serde_json::to_value(&spec)
        .map_err(|error| Failure::wrong(format!("disk '{name}': {error}")))?;
    // The file is written for people: every parameter with its comment and its source.
    Ok((text.to_string(), value))
}
