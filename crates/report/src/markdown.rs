//! Tables and sentences as Markdown, for an issue tracker.

use crate::validity::Flag;
use fsdyno_record::Trial;

use crate::against::Basis;
use crate::columns::{self, Column, columns, flags};
use crate::curve::{self, Curve};
use crate::view::{self, Section};
use crate::{answer, calls, described, disks, legend, number, repeatability, subject, work_units};

/// The subject, a table for each section, the answer, the legend, and the meaning of the flags.
pub fn markdown(trials: &[Trial], basis: Basis<'_>) -> String {
    let mut out = String::new();
    for sentence in repeatability::differences(trials) {
        out.push_str(&format!("**{}**\n\n", escape(&sentence)));
    }
    for line in subject::lines(trials) {
        out.push_str(&format!("- {}\n", escape(&line)));
    }
    out.push('\n');
    let sections = view::sections(trials, basis);
    for section in &sections {
        out.push_str(&table(section));
        let counts = work_units::lines(section).into_iter().chain(calls::lines(section));
        for line in counts.chain(disks::lines(section)).chain(described::lines(section)) {
            out.push_str(&format!("- {}\n", escape(&line)));
        }
        out.push('\n');
    }
    let curves = curve::curves(trials);
    curves.iter().for_each(|curve| out.push_str(&curve_table(curve)));
    if sections.is_empty() && !curves.is_empty() {
        // The curves have all rows.
    } else if sections.is_empty() {
        out.push_str("No trial succeeded.\n\n");
    } else {
        let answer = answer::sentences(&sections, basis.baseline).join(" ");
        out.push_str(&format!("{}\n\n", escape(&answer)));
    }
    out.push_str(&words(&sections, &curves));
    for trial in crate::unfinished::unfinished(trials) {
        let reason = number::clean(&trial.reason.replace('\n', " "));
        let what = format!("{}: {}", escape(&trial.what), escape(&reason));
        out.push_str(&format!("- {}: {what}\n", trial.outcome));
    }
    for lab in view::labs(trials) {
        let labels = number::clean(&lab.rows.join(", "));
        out.push_str(&format!("\nLab `{}`: {}\n", number::clean(lab.id), escape(&labels)));
        if !lab.differs.is_empty() {
            let differs = number::clean(&lab.differs.join(", "));
            out.push_str(&format!("(another lab than above: {})\n", escape(&differs)));
        }
    }
    out
}

/// Escapes foreign text: it must not end a cell, begin a tag, or be struck out by `~`.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '|' | '*' | '_' | '`' | '~' | '[' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
    out
}

fn curve_table(curve: &Curve<'_>) -> String {
    let (heads, rows) = curve::table(curve);
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| escape(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut out = format!("### {} (time until the last call returned)\n\n", escape(&curve.title));
    out.push_str(&line(&heads));
    out.push_str(&format!("|{}\n", " ---: |".repeat(heads.len())));
    rows.iter().for_each(|row| out.push_str(&line(row)));
    out.push('\n');
    for sentence in curve::sentences(curve) {
        out.push_str(&format!("- {}\n", escape(&sentence)));
    }
    out.push('\n');
    out
}

fn table(section: &Section<'_>) -> String {
    let columns = columns(section);
    let heads: Vec<String> = columns.iter().map(|c| escape(&c.head)).collect();
    let rule = |c: &Column| if c.left { " --- " } else { " ---: " };
    let rules: Vec<&str> = columns.iter().map(rule).collect();
    let note = columns::latency_note(section, &columns.iter().collect::<Vec<_>>());
    let mut out = format!("### {}\n\n", escape(&(section.title() + &note)));
    out.push_str(&format!("| {} | flags |\n|{}| --- |\n", heads.join(" | "), rules.join("|")));
    for (index, row) in section.rows.iter().enumerate() {
        let cells: Vec<String> = columns.iter().map(|c| escape(&c.cells[index])).collect();
        out.push_str(&format!("| {} | {} |\n", cells.join(" | "), flags(row)));
    }
    out.push('\n');
    out
}

/// The legend of the columns and the meaning of the flags, as a list.
fn words(sections: &[Section<'_>], curves: &[Curve<'_>]) -> String {
    let tables: Vec<Vec<Column>> = sections.iter().map(columns).collect();
    let heads: Vec<&str> = tables.iter().flatten().map(|column| column.head.as_str()).collect();
    let mut entries = legend::legend(sections, &heads);
    let flag = |flag: &Flag| (flag.name().to_string(), flag.meaning().to_string());
    entries.extend(view::flags(sections, curves).iter().map(flag));
    let line = |(name, meaning): &(String, String)| {
        format!("- **{}**: {}\n", escape(name), escape(meaning))
    };
    entries.iter().map(line).collect::<String>() + "\n"
}
