//! A document for people: the output of a command, as data. The renderers are in the sibling modules.

use std::collections::BTreeMap;

use super::data::{Head, Table};

/// A name and its meaning.
pub type Term = (String, String);

/// A command's output for people.
#[derive(Clone, Debug, Default)]
pub struct Document(pub Vec<Block>);

/// A part of a document.
#[derive(Clone, Debug)]
pub enum Block {
    /// A heading.
    Title(String),
    /// A title and its subject, one paragraph each.
    Lead(Vec<String>),
    /// Lines of a drawing made of characters, printed unchanged.
    Verbatim(Vec<String>),
    /// A sentence that must not be missed.
    Strong(String),
    /// The answer that follows from the tables, in sentences. Formats that are read from the top show it before the
    /// tables.
    Answer(String),
    /// A paragraph.
    Paragraph(String),
    /// A paragraph written by fsdyno, which may contain Markdown.
    Markup(String),
    /// A list.
    Items(Vec<String>),
    /// A list with a separate heading; nothing if it has no items.
    List(&'static str, Vec<String>),
    /// A table.
    Table(Table),
    /// The meaning of the displayed columns, and of other terms.
    Legend(Legend),
    /// Failed trials, one entry each.
    Failures(Vec<Failure>),
    /// The labs that trials ran in.
    Labs(Vec<Lab>),
}

/// A legend. The columns are those of the tables before it.
#[derive(Clone, Debug, Default)]
pub struct Legend {
    /// Terms after those of the columns.
    pub terms: Vec<Term>,
    /// Sentences after the terms.
    pub notes: Vec<String>,
    /// The flags and their meanings, after the other terms.
    pub flags: Vec<Term>,
    /// The marks and flags in a few words: they replace the other entries in a brief text.
    pub brief: Vec<String>,
}

/// A trial that did not succeed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// `failed` or `skipped`.
    pub outcome: &'static str,
    /// Workload, label, seeds.
    pub what: String,
    /// The reason, in one or more lines.
    pub reason: String,
}

/// A lab with the rows that ran in it.
#[derive(Clone, Debug)]
pub struct Lab {
    /// Its identity.
    pub id: String,
    /// The names of the rows.
    pub rows: String,
    /// The components in which it differs from an earlier lab of the same rows, or empty if there is none.
    pub differs: String,
}

impl Document {
    /// Every table.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.0.iter().filter_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        })
    }

    /// The blocks with the answers, and sentences that must not be missed, before all others.
    pub fn answer_first(&self) -> impl Iterator<Item = &Block> {
        let is_first = |block: &&Block| matches!(block, Block::Answer(_) | Block::Strong(_));
        let (first, rest): (Vec<&Block>, Vec<&Block>) = self.0.iter().partition(is_first);
        first.into_iter().chain(rest)
    }

    /// Adds a list, unless it is empty.
    pub fn items(&mut self, items: Vec<String>) {
        if !items.is_empty() {
            self.0.push(Block::Items(items));
        }
    }

    /// The document with every special part as lists and paragraphs, for formats that do not treat them specially.
    pub fn simplified(&self) -> Vec<Block> {
        let columns = || {
            legend(
                self.tables()
                    .flat_map(|table| table.shown().map(|index| (index, &table.heads[index]))),
            )
        };
        let terms = |all: Vec<Term>| {
            Block::Items(
                all.into_iter().map(|(name, meaning)| format!("{name}: {meaning}")).collect(),
            )
        };
        let mut out = Vec::new();
        for block in self.answer_first() {
            match block {
                Block::Strong(text) | Block::Markup(text) | Block::Answer(text) => {
                    out.push(Block::Paragraph(text.clone()))
                }
                Block::Lead(all) => out.extend(all.iter().cloned().map(Block::Paragraph)),
                Block::List(head, items) if !items.is_empty() => {
                    out.extend((!head.is_empty()).then(|| Block::Paragraph((*head).into())));
                    out.push(Block::Items(items.clone()));
                }
                Block::List(..) => {}
                Block::Legend(legend) => {
                    out.push(terms(
                        [columns(), legend.terms.clone(), legend.flags.clone()].concat(),
                    ));
                    out.extend(legend.notes.iter().cloned().map(Block::Paragraph));
                }
                Block::Failures(all) => {
                    let all = all.iter().map(|failure| {
                        (format!("{}: {}", failure.outcome, failure.what), failure.line())
                    });
                    out.push(terms(all.collect()));
                }
                Block::Labs(all) => {
                    let lab = |lab: &Lab| (format!("lab {}", lab.id), lab.rows.clone());
                    out.push(terms(all.iter().map(lab).collect()));
                }
                simple => out.push(simple.clone()),
            }
        }
        out.retain(|block| !matches!(block, Block::Items(items) if items.is_empty()));
        out
    }
}

impl Failure {
    /// The reason in one line.
    pub fn line(&self) -> String {
        crate::number::sanitize(&self.reason.replace('\n', " "))
    }
}

/// The meaning of columns, given with their indices in their tables: one entry for each term, and one for adjacent
/// columns with the same meaning.
pub fn legend<'h>(columns: impl Iterator<Item = (usize, &'h Head)>) -> Vec<Term> {
    let mut heads: BTreeMap<usize, &Head> = BTreeMap::new();
    columns.for_each(|(index, head)| _ = heads.entry(index).or_insert(head));
    let mut terms: Vec<Term> = Vec::new();
    for (index, head) in &heads {
        let previous = index.checked_sub(1).and_then(|index| heads.get(&index));
        let previous =
            previous.filter(|previous| !head.joint.is_empty() && previous.meaning.is_empty());
        let term = head.term().to_string();
        match (previous, terms.last_mut()) {
            (Some(previous), _) => {
                terms.push((format!("{}, {term}", previous.term()), head.joint.into()))
            }
            _ if head.meaning.is_empty() => {}
            (None, Some((names, meaning))) if *meaning == head.meaning && *names != term => {
                names.push_str(&format!(", {term}"));
            }
            _ => {
                terms.retain(|(known, _)| *known != term);
                terms.push((term, head.meaning.clone()));
            }
        }
    }
    terms
}
