//! A TOML document with the place of everything in it, and the questions that a reader of it asks.

use std::ops::Range;

use fsdyno_record::suggest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{FileError, FileName, Spot};

/// The text of a file and its name.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The name in errors.
    pub file: &'a FileName,
    /// All of its text.
    pub text: &'a str,
    /// The byte that each of its lines begins at, see [`line_starts`].
    pub lines: &'a [usize],
}

/// The byte that each line of a text begins at: looked for once, as every item of a file has a place.
pub fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

impl<'a> Source<'a> {
    /// The document.
    pub fn document(self) -> Result<Spanned<DeTable<'a>>, FileError> {
        DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.error(at, error.message().trim(), "it has to be TOML (https://toml.io)")
        })
    }

    /// The place of a byte.
    pub fn spot(self, at: usize) -> Spot {
        let line = self.lines.partition_point(|start| *start <= at).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or_default();
        let before = self.text.get(start..at).unwrap_or_default();
        Spot { line, column: before.chars().count() + 1 }
    }

    /// A mistake at a byte.
    pub fn error(
        self,
        at: usize,
        problem: impl Into<String>,
        right: impl Into<String>,
    ) -> FileError {
        FileError {
            file: self.file.clone(),
            spot: self.spot(at),
            problem: problem.into(),
            right: right.into(),
        }
    }
}

/// A table of the document.
#[derive(Clone)]
pub struct Node<'a> {
    pub source: Source<'a>,
    table: &'a DeTable<'a>,
    /// Where it begins.
    pub at: usize,
    /// What errors call it.
    pub what: String,
}

impl<'a> Node<'a> {
    /// The document's own table.
    pub fn top(source: Source<'a>, table: &'a DeTable<'a>) -> Node<'a> {
        Node { source, table, at: 0, what: "the file".to_string() }
    }

    /// The same under another name in errors.
    pub fn called(self, what: impl Into<String>) -> Node<'a> {
        Node { what: what.into(), ..self }
    }

    /// The place of its beginning.
    pub fn spot(&self) -> Spot {
        self.source.spot(self.at)
    }

    /// A mistake that is no single key's.
    pub fn error(&self, problem: impl Into<String>, right: impl Into<String>) -> FileError {
        self.source.error(self.at, problem, right)
    }

    /// Refuses every key that is none of these.
    pub fn keys(&self, known: &[&str]) -> Result<(), FileError> {
        for (key, item) in self.entries() {
            if !known.contains(&key.as_str()) {
                let hint = suggest::hint(&key, known.iter().copied());
                return Err(item.at_key(format!("{} has no '{key}'", self.what), hint));
            }
        }
        Ok(())
    }

    /// What stands at a key.
    pub fn get(&self, key: &str) -> Option<Item<'a>> {
        let (found, value) = self.table.get_key_value(key)?;
        Some(self.item(found, value))
    }

    /// What has to stand at a key; `right` says how.
    pub fn need(&self, key: &str, right: &str) -> Result<Item<'a>, FileError> {
        self.get(key).ok_or_else(|| self.error(format!("{} lacks '{key}'", self.what), right))
    }

    /// All that it has, in the order of the file.
    pub fn entries(&self) -> Vec<(String, Item<'a>)> {
        let mut entries: Vec<(String, Item<'a>)> = self
            .table
            .iter()
            .map(|(key, value)| (key.get_ref().to_string(), self.item(key, value)))
            .collect();
        entries.sort_by_key(|(_, item)| item.key_at);
        entries
    }

    /// The tables of `[[key]]`, none where there is none.
    pub fn tables(&self, key: &str) -> Result<Vec<Node<'a>>, FileError> {
        let Some(item) = self.get(key) else { return Ok(Vec::new()) };
        let right = format!("begin each with a line [[{key}]]");
        match item.value {
            DeValue::Array(_) => item.list()?.into_iter().map(|item| item.table(&right)).collect(),
            _ => Err(item.at_key(format!("'{key}' is not a list of tables"), right)),
        }
    }

    fn item(
        &self,
        key: &'a Spanned<toml::de::DeString<'a>>,
        value: &'a Spanned<DeValue<'a>>,
    ) -> Item<'a> {
        Item {
            source: self.source,
            value: value.get_ref(),
            span: value.span(),
            key_at: key.span().start,
            name: key.get_ref().to_string(),
        }
    }
}

/// A value of the document.
#[derive(Clone)]
pub struct Item<'a> {
    source: Source<'a>,
    /// The value.
    pub value: &'a DeValue<'a>,
    span: Range<usize>,
    key_at: usize,
    /// The key that it stands at.
    pub name: String,
}

impl<'a> Item<'a> {
    /// The place of its key.
    pub fn spot(&self) -> Spot {
        self.source.spot(self.key_at)
    }

    /// The byte that its value begins at.
    pub fn at(&self) -> usize {
        self.span.start
    }

    /// A mistake in the key.
    pub fn at_key(&self, problem: impl Into<String>, right: impl Into<String>) -> FileError {
        self.source.error(self.key_at, problem, right)
    }

    /// A mistake in the value.
    pub fn error(&self, problem: impl Into<String>, right: impl Into<String>) -> FileError {
        self.source.error(self.span.start, problem, right)
    }

    /// As it stands in the file.
    pub fn written(&self) -> &'a str {
        self.source.text.get(self.span.clone()).unwrap_or_default()
    }

    /// A text in quotes.
    pub fn text(&self) -> Result<String, FileError> {
        match self.value.as_str() {
            Some(text) if !text.trim().is_empty() => Ok(text.trim().to_string()),
            Some(_) => Err(self.error(format!("'{}' is empty", self.name), "write a text")),
            None => Err(self.kind("a text", "write it in quotes")),
        }
    }

    /// A finite number.
    pub fn number(&self) -> Result<f64, FileError> {
        let written = match self.value {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
            DeValue::Float(number) => number.as_str(),
            DeValue::Integer(_) => return Err(self.kind("a number", "write it in decimal")),
            DeValue::String(_) => return Err(self.kind("a number", "write it without quotes")),
            _ => return Err(self.kind("a number", "write one, such as 1.5")),
        };
        match written.parse() {
            Ok(number) if f64::is_finite(number) => Ok(number),
            _ => Err(self.kind("a number", "write a finite one")),
        }
    }

    /// A whole number within bounds.
    pub fn whole(&self, least: u64, most: u64) -> Result<u64, FileError> {
        let Some(number) = self.value.as_integer() else {
            return Err(self.kind("a whole number", &format!("it is one from {least} to {most}")));
        };
        let found = Some(number).filter(|number| number.radix() == 10);
        let found = found.and_then(|number| number.as_str().parse().ok());
        found.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            let problem = format!("'{}' is {}", self.name, self.written());
            self.error(problem, format!("it is a whole number from {least} to {most}"))
        })
    }

    /// The values of a list; each is called as the list is.
    pub fn list(&self) -> Result<Vec<Item<'a>>, FileError> {
        let DeValue::Array(values) = self.value else {
            return Err(self.kind("a list", "write it in square brackets"));
        };
        let item = |value: &'a Spanned<DeValue<'a>>| Item {
            source: self.source,
            value: value.get_ref(),
            span: value.span(),
            key_at: value.span().start,
            name: self.name.clone(),
        };
        Ok(values.iter().map(item).collect())
    }

    /// The texts of a list, or the one text that stands in its place.
    pub fn texts(&self) -> Result<Vec<String>, FileError> {
        match self.value {
            DeValue::Array(_) => {
                let texts = self.list()?.iter().map(Item::text).collect::<Result<Vec<_>, _>>()?;
                if texts.is_empty() {
                    return Err(self.error(format!("'{}' is an empty list", self.name), "name one"));
                }
                Ok(texts)
            }
            _ => Ok(vec![self.text()?]),
        }
    }

    /// A table.
    pub fn table(&self, right: &str) -> Result<Node<'a>, FileError> {
        match self.value {
            DeValue::Table(table) => Ok(Node {
                source: self.source,
                table,
                at: self.span.start,
                what: format!("'{}'", self.name),
            }),
            _ => Err(self.kind("a table", right)),
        }
    }

    /// A value as the command line takes it: text, number or true.
    pub fn typed(&self) -> Result<String, FileError> {
        match self.value {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_string()),
            DeValue::Float(number) => Ok(number.as_str().to_string()),
            DeValue::Boolean(value) => Ok(value.to_string()),
            _ => Err(self.kind("a text or a number", "write it as it is typed after its option")),
        }
    }

    /// That it is not what it has to be.
    fn kind(&self, wanted: &str, right: &str) -> FileError {
        let kind = match self.value {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let is = if kind == wanted { "is not right".into() } else { format!("is {kind}") };
        self.error(format!("'{}' {is}; it has to be {wanted}", self.name), right)
    }
}
