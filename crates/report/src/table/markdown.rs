//! Markdown, for an issue tracker.

use super::data::{Kind, Table, Tone};
use super::document::{Block, Document, legend};

/// The document as Markdown.
pub fn markdown(document: &Document) -> String {
    let mut out = String::new();
    // In a section, the title of a table ranks below that of the section.
    let mut in_section = false;
    for block in document.answer_first() {
        match block {
            Block::Title(text) => {
                in_section = true;
                out.push_str(&format!("### {}\n\n", escape(text)));
            }
            Block::Lead(lead) => {
                let mut lead = lead.iter().map(|text| escape(text));
                out.push_str(&format!("**{}** ", lead.next().unwrap_or_default()));
                lead.for_each(|text| out.push_str(&format!("{text}\n\n")));
            }
            Block::Verbatim(lines) => out.push_str(&format!("```\n{}\n```\n\n", lines.join("\n"))),
            Block::Strong(text) => out.push_str(&format!("**{}**\n\n", escape(text))),
            Block::Answer(text) | Block::Paragraph(text) => out.push_str(&paragraph(text)),
            Block::Markup(text) => out.push_str(&format!("{text}\n\n")),
            Block::Items(items) => out.push_str(&list(items)),
            Block::List(_, items) if items.is_empty() => {}
            Block::List(head, items) => {
                if !head.is_empty() {
                    out.push_str(&format!("{}\n\n", escape(head)));
                }
                out.push_str(&list(items));
            }
            Block::Table(table) => out.push_str(&table_with_title(table, in_section)),
            Block::Legend(extra) => {
                let shown_heads = |table| -> Vec<_> {
                    Table::shown(table).map(|index| (index, &table.heads[index])).collect()
                };
                let columns = legend(document.tables().flat_map(shown_heads));
                for (name, meaning) in columns.iter().chain(&extra.terms).chain(&extra.flags) {
                    out.push_str(&format!("- **{}**: {}\n", escape(name), escape(meaning)));
                }
                extra.notes.iter().for_each(|note| out.push_str(&format!("- {}\n", escape(note))));
                out.push('\n');
            }
            Block::Failures(all) => {
                for failure in all {
                    let what = format!("{}: {}", escape(&failure.what), escape(&failure.line()));
                    out.push_str(&format!("- {}: {what}\n", failure.outcome));
                }
            }
            Block::Labs(labs) => {
                for lab in labs {
                    out.push_str(&format!("\nLab `{}`: {}\n", lab.id, escape(&lab.rows)));
                    if !lab.differs.is_empty() {
                        let differs = escape(&lab.differs);
                        out.push_str(&format!("(differs from the lab above in: {differs})\n"));
                    }
                }
            }
        }
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn paragraph(text: &str) -> String {
    format!("{}\n\n", escape(text))
}

fn list(items: &[String]) -> String {
    let items: String =
        items.iter().map(|item| format!("- {}\n", escape(item.trim_start_matches("- ")))).collect();
    items + "\n"
}

/// A table with its title, its caption and the lines below it.
fn table_with_title(table: &Table, in_section: bool) -> String {
    let shown: Vec<usize> = table.shown().collect();
    let mut out = String::new();
    if !table.title.is_empty() {
        let title = escape(&table.title_of(shown.iter().copied()));
        out.push_str(&if in_section {
            format!("**{title}**\n\n")
        } else {
            format!("### {title}\n\n")
        });
    }
    if !table.caption.is_empty() {
        out.push_str(&format!("{}\n\n", escape(&table.caption)));
    }
    if table.heads.is_empty() {
        return out;
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let heads = || shown.iter().map(|index| &table.heads[*index]);
    out.push_str(&line(heads().map(|head| escape(&head.text)).collect()));
    out.push_str(&line(heads().map(|head| rule(head.kind.is_left())).collect()));
    for row in &table.rows {
        let cell = |index: &usize| {
            let text = escape(&row.cells[*index].replace('\n', " "));
            let bold = table.heads[*index].kind == Kind::Verdict && row.tone == Tone::Bad;
            if bold { format!("**{text}**") } else { text }
        };
        out.push_str(&line(shown.iter().map(cell).collect()));
    }
    out.push('\n');
    if !table.details.is_empty() || !table.verbose_details.is_empty() {
        out.push_str(&list(&[&table.details[..], &table.verbose_details[..]].concat()));
    }
    out
}

fn rule(align_left: bool) -> String {
    if align_left { "---".into() } else { "---:".into() }
}

/// Escapes untrusted text: it must not end a cell, begin a tag, or be struck out by `~`.
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
