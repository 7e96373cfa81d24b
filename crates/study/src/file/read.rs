//! A TOML document with the position of every item, and accessors for its values.

use std::ops::Range;

use fsdyno_record::suggest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{FileError, FileName, Spot};

/// A file's text and name.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Name in errors.
    pub file: &'a FileName,
    /// The text.
    pub text: &'a str,
    /// Byte offset of each line, see [`line_starts`].
    pub lines: &'a [usize],
}

/// Returns the byte offset of each line of a text. Computed once per file, because every item has a position.
pub fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(newline, _)| newline + 1)).collect()
}

impl<'a> Source<'a> {
    /// Parses the document.
    pub fn document(self) -> Result<Spanned<DeTable<'a>>, FileError> {
        DeTable::parse(self.text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            self.error(offset, error.message().trim(), "the file must be TOML (https://toml.io)")
        })
    }

    /// Returns the position of a byte offset.
    pub fn spot(self, offset: usize) -> Spot {
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or_default();
        let before = self.text.get(start..offset).unwrap_or_default();
        Spot { line, column: before.chars().count() + 1 }
    }

    /// Returns an error at a byte offset.
    pub fn error(
        self,
        offset: usize,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> FileError {
        FileError {
            file: self.file.clone(),
            spot: self.spot(offset),
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }
}

/// A table of the document.
#[derive(Clone)]
pub struct Node<'a> {
    pub source: Source<'a>,
    table: &'a DeTable<'a>,
    /// Byte offset of its beginning.
    pub offset: usize,
    /// Name in errors.
    pub what: String,
}

impl<'a> Node<'a> {
    /// Returns the root table of the document.
    pub fn top(source: Source<'a>, table: &'a DeTable<'a>) -> Node<'a> {
        Node { source, table, offset: 0, what: "the file".to_string() }
    }

    /// Returns the table with a different name in errors.
    pub fn named(self, what: impl Into<String>) -> Node<'a> {
        Node { what: what.into(), ..self }
    }

    /// Returns the position of its beginning.
    pub fn spot(&self) -> Spot {
        self.source.spot(self.offset)
    }

    /// Returns an error about the table as a whole.
    pub fn error(&self, problem: impl Into<String>, remedy: impl Into<String>) -> FileError {
        self.source.error(self.offset, problem, remedy)
    }

    /// Rejects all keys except these.
    pub fn keys(&self, known: &[&str]) -> Result<(), FileError> {
        for (key, item) in self.entries() {
            if !known.contains(&key.as_str()) {
                let hint = suggest::hint(&key, known.iter().copied());
                return Err(item.key_error(format!("{} has no '{key}'", self.what), hint));
            }
        }
        Ok(())
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<Item<'a>> {
        let (found, value) = self.table.get_key_value(key)?;
        Some(self.item(found, value))
    }

    /// Returns the value of a required key; `remedy` applies if it is missing.
    pub fn require(&self, key: &str, remedy: &str) -> Result<Item<'a>, FileError> {
        self.get(key).ok_or_else(|| self.error(format!("{} lacks '{key}'", self.what), remedy))
    }

    /// Returns all keys and values, in the order of the file.
    pub fn entries(&self) -> Vec<(String, Item<'a>)> {
        let mut entries: Vec<(String, Item<'a>)> = self
            .table
            .iter()
            .map(|(key, value)| (key.get_ref().to_string(), self.item(key, value)))
            .collect();
        entries.sort_by_key(|(_, item)| item.key_offset);
        entries
    }

    /// Returns the tables with the heading `[[key]]`.
    pub fn tables(&self, key: &str) -> Result<Vec<Node<'a>>, FileError> {
        let Some(item) = self.get(key) else { return Ok(Vec::new()) };
        let remedy = format!("begin each with a line [[{key}]]");
        match item.value {
            DeValue::Array(_) => item.list()?.into_iter().map(|item| item.table(&remedy)).collect(),
            _ => Err(item.key_error(format!("'{key}' is not a list of tables"), remedy)),
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
            key_offset: key.span().start,
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
    key_offset: usize,
    /// Its key.
    pub name: String,
}

impl<'a> Item<'a> {
    /// Returns the position of its key.
    pub fn spot(&self) -> Spot {
        self.source.spot(self.key_offset)
    }

    /// Returns the byte offset of its value.
    pub fn offset(&self) -> usize {
        self.span.start
    }

    /// Returns an error at the key.
    pub fn key_error(&self, problem: impl Into<String>, remedy: impl Into<String>) -> FileError {
        self.source.error(self.key_offset, problem, remedy)
    }

    /// Returns an error at the value.
    pub fn error(&self, problem: impl Into<String>, remedy: impl Into<String>) -> FileError {
        self.source.error(self.span.start, problem, remedy)
    }

    /// Returns the text of the value in the file.
    pub fn written(&self) -> &'a str {
        self.source.text.get(self.span.clone()).unwrap_or_default()
    }

    /// Returns the value as a non-empty string.
    pub fn text(&self) -> Result<String, FileError> {
        match self.value.as_str() {
            Some(text) if !text.trim().is_empty() => Ok(text.trim().to_string()),
            Some(_) => Err(self.error(format!("'{}' is empty", self.name), "write some text")),
            None => Err(self.type_error("a string", "write it in quotes")),
        }
    }

    /// Returns the value as a finite number.
    pub fn number(&self) -> Result<f64, FileError> {
        let written = match self.value {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
            DeValue::Float(number) => number.as_str(),
            DeValue::Integer(_) => return Err(self.type_error("a number", "write it in decimal")),
            DeValue::String(_) => {
                return Err(self.type_error("a number", "write it without quotes"));
            }
            _ => return Err(self.type_error("a number", "write one, such as 1.5")),
        };
        match written.parse() {
            Ok(number) if f64::is_finite(number) => Ok(number),
            _ => Err(self.type_error("a number", "write a finite one")),
        }
    }

    /// Returns the value as a whole number within bounds.
    pub fn whole(&self, min: u64, max: u64) -> Result<u64, FileError> {
        let Some(number) = self.value.as_integer() else {
            return Err(
                self.type_error("a whole number", &format!("it is one from {min} to {max}"))
            );
        };
        let found = Some(number).filter(|number| number.radix() == 10);
        let found = found.and_then(|number| number.as_str().parse().ok());
        found.filter(|number| (min..=max).contains(number)).ok_or_else(|| {
            let problem = format!("'{}' is {}", self.name, self.written());
            self.error(problem, format!("it must be a whole number from {min} to {max}"))
        })
    }

    /// Returns the values of the list; each has the list's name in errors.
    pub fn list(&self) -> Result<Vec<Item<'a>>, FileError> {
        let DeValue::Array(values) = self.value else {
            return Err(self.type_error("a list", "write it in square brackets"));
        };
        let item = |value: &'a Spanned<DeValue<'a>>| Item {
            source: self.source,
            value: value.get_ref(),
            span: value.span(),
            key_offset: value.span().start,
            name: self.name.clone(),
        };
        Ok(values.iter().map(item).collect())
    }

    /// Returns the strings of the list, or a single string as a list of one.
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

    /// Returns the value as a table.
    pub fn table(&self, remedy: &str) -> Result<Node<'a>, FileError> {
        match self.value {
            DeValue::Table(table) => Ok(Node {
                source: self.source,
                table,
                offset: self.span.start,
                what: format!("'{}'", self.name),
            }),
            _ => Err(self.type_error("a table", remedy)),
        }
    }

    /// Returns the value in the form of the command line: a string, a number, true or false.
    pub fn argument(&self) -> Result<String, FileError> {
        match self.value {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_string()),
            DeValue::Float(number) => Ok(number.as_str().to_string()),
            DeValue::Boolean(value) => Ok(value.to_string()),
            _ => Err(self.type_error("a string or a number", "write it as on the command line")),
        }
    }

    /// Returns the error for a value of the wrong type.
    fn type_error(&self, expected: &str, remedy: &str) -> FileError {
        let kind = match self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let state = if kind == expected { "is not valid".into() } else { format!("is {kind}") };
        self.error(format!("'{}' {state}; it must be {expected}", self.name), remedy)
    }
}
