//! Splits a spec into words with the quoting rules of a shell, but without any other shell syntax.

use fsdyno_record::shell;

use crate::SpecError;

/// One word of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The text, without quotes.
    pub text: String,
    /// The column of its first character, from 1.
    pub column: usize,
    /// True if it begins with an unquoted `@`, which starts the mount options.
    pub at_sign: bool,
}

/// Splits a spec into words at blanks; `'...'`, `"..."` and `\` quote.
///
/// # Errors
/// An unclosed quote, a backslash at the end, or a control character inside a word.
pub(crate) fn split(text: &str) -> Result<Vec<Word>, SpecError> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut characters = text.chars().zip(1..).peekable();
    while let Some((c, column)) = characters.next() {
        if matches!(c, ' ' | '\t' | '\n' | '\r') {
            words.extend(word.take());
            continue;
        }
        let current =
            word.get_or_insert_with(|| Word { text: String::new(), column, at_sign: c == '@' });
        match c {
            '\'' | '"' => read_quoted(c, column, &mut characters, &mut current.text)?,
            '\\' => match characters.next() {
                Some((next, next_column)) => current.text.push(check_printable(next, next_column)?),
                None => {
                    let hint = r"write \\ for a literal backslash";
                    return Err(SpecError::at(column, "a backslash ends the spec", hint));
                }
            },
            _ => current.text.push(check_printable(c, column)?),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Reads characters up to the closing quote. Inside double quotes, a backslash escapes a quote or a backslash; inside
/// single quotes, nothing is special.
fn read_quoted(
    quote: char,
    start: usize,
    characters: &mut impl Iterator<Item = (char, usize)>,
    text: &mut String,
) -> Result<(), SpecError> {
    let unclosed =
        || SpecError::at(start, format!("the quote {quote} is never closed"), "close it");
    loop {
        let (c, column) = characters.next().ok_or_else(unclosed)?;
        if c == quote {
            return Ok(());
        }
        if c == '\\' && quote == '"' {
            let (next, next_column) = characters.next().ok_or_else(unclosed)?;
            if !matches!(next, '"' | '\\') {
                text.push('\\');
            }
            text.push(check_printable(next, next_column)?);
        } else {
            text.push(check_printable(c, column)?);
        }
    }
}

fn check_printable(c: char, column: usize) -> Result<char, SpecError> {
    if c.is_control() {
        let problem = format!("a control character (U+{:04X})", u32::from(c));
        return Err(SpecError::at(column, problem, "remove it"));
    }
    Ok(c)
}

/// Quotes a word so that [`split`] returns it.
pub(crate) fn quote(word: &str) -> String {
    // Characters that only a shell would expand need no quotes in a spec.
    let is_plain = |c: char| shell::is_plain(c) || "^{}".contains(c);
    if !word.is_empty() && !word.starts_with('@') && word.chars().all(is_plain) {
        return word.to_string();
    }
    shell::single_quote(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        split(text).unwrap().into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn quotes_protect_blanks_and_backslashes_protect_quotes() {
        assert_eq!(texts(r#" a  'b c' "d \"e\"" f\ g '' "#), ["a", "b c", "d \"e\"", "f g", ""]);
        assert_eq!(texts(r#"x'y'"z\n""#), [r"xyz\n"]);
    }

    #[test]
    fn the_error_of_an_open_quote_has_the_column_of_its_start() {
        assert_eq!(split("ext4 -L 'a b").unwrap_err().column, Some(9));
        assert_eq!(split(r"ext4 \").unwrap_err().column, Some(6));
        assert_eq!(split("ext4 a\u{7}").unwrap_err().column, Some(7));
    }

    #[test]
    fn only_an_unquoted_at_sign_starts_the_mount_options() {
        let signs: Vec<bool> = split("@ '@' @x a@").unwrap().iter().map(|w| w.at_sign).collect();
        assert_eq!(signs, [true, false, true, false]);
    }
}
