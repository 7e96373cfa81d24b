//! The text of a catalog file, and errors with their lines.

use std::ops::Range;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The key of the value.
    pub what: String,
    /// The meaning of the value, and its source.
    pub from: String,
}

/// An invalid file: the position, the problem, and the correct form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {problem}", .line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct FileError {
    /// The file.
    pub file: String,
    /// The line, from 1; `None` if the problem is not on a line.
    pub line: Option<usize>,
    /// The problem, and the correct form.
    pub problem: String,
}

/// The text of a file.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// The path of the file, as shown in messages.
    pub file: &'a str,
    /// Its text.
    pub text: &'a str,
}

impl Text<'_> {
    /// Parses the file; `form` describes its valid keys in errors.
    ///
    /// # Errors
    /// [`FileError`] with the parser's message and the form.
    pub fn parse<T: DeserializeOwned>(&self, form: &str) -> Result<T, FileError> {
        toml::from_str(self.text).map_err(|error| FileError {
            file: self.file.to_string(),
            line: error
                .span()
                // A missing key is on no line.
                .filter(|span| !span.is_empty() || !error.message().starts_with("missing field"))
                .and_then(|span| self.line(span)),
            problem: format!("{}; {form}", error.message().replace('\n', ": ")),
        })
    }

    /// Returns the error for a value at a position.
    pub fn error_at(&self, span: Range<usize>, problem: String) -> FileError {
        FileError { file: self.file.to_string(), line: self.line(span), problem }
    }

    fn line(&self, span: Range<usize>) -> Option<usize> {
        self.text.get(..span.start).map(|before| before.matches('\n').count() + 1)
    }
}

/// Returns the parser's message on one line, with the line and the column of the error.
pub fn one_line(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', ", ");
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return message };
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
    format!("line {line}, column {column}: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_line_also_at_the_end_of_the_file() {
        let error = |text| {
            let parsed = Text { file: "m.toml", text }.parse::<Source>("keys: what, from");
            parsed.unwrap_err().to_string()
        };
        assert!(error("what = \"a\"\nfrom =").starts_with("m.toml:2: "));
        assert!(error("what = \"a\"\nfrm = \"b\"\n").starts_with("m.toml:2: unknown field"));
        assert!(error("what = \"a\"").starts_with("m.toml: missing field `from`; keys"));
    }
}
