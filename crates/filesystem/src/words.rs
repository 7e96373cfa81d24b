//! Words and quotes as a shell has them, without anything else that a shell does.

use fsdyno_record::shell;

use crate::SpecError;

/// One word of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// What it says, quotes taken off.
    pub text: String,
    /// Where it begins, in characters from 1.
    pub column: usize,
    /// Whether it begins with an `@` outside quotes, which begins the mount options.
    pub at_sign: bool,
}

/// Splits a text into words. Blanks part words; `'...'`, `"..."` and `\` keep them together.
///
/// # Errors
/// A quote that nobody closes, a backslash at the end, a control character inside a word.
pub(crate) fn split(text: &str) -> Result<Vec<Word>, SpecError> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut characters = text.chars().zip(1..).peekable();
    while let Some((c, column)) = characters.next() {
        if matches!(c, ' ' | '\t' | '\n' | '\r') {
            words.extend(word.take());
            continue;
        }
        let begun =
            word.get_or_insert_with(|| Word { text: String::new(), column, at_sign: c == '@' });
        match c {
            '\'' | '"' => quoted(c, column, &mut characters, &mut begun.text)?,
            '\\' => match characters.next() {
                Some((next, at)) => begun.text.push(printable(next, at)?),
                None => {
                    let hint = "write two for one that is meant";
                    return Err(SpecError::at(column, "a backslash ends the spec", hint));
                }
            },
            _ => begun.text.push(printable(c, column)?),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Takes characters up to the closing quote. Inside double quotes a backslash keeps a quote or a
/// backslash; inside single quotes nothing is special.
fn quoted(
    quote: char,
    opened: usize,
    characters: &mut impl Iterator<Item = (char, usize)>,
    text: &mut String,
) -> Result<(), SpecError> {
    let open = || SpecError::at(opened, format!("the quote {quote} is never closed"), "close it");
    loop {
        let (c, column) = characters.next().ok_or_else(open)?;
        if c == quote {
            return Ok(());
        }
        if c == '\\' && quote == '"' {
            let (next, at) = characters.next().ok_or_else(open)?;
            if !matches!(next, '"' | '\\') {
                text.push('\\');
            }
            text.push(printable(next, at)?);
        } else {
            text.push(printable(c, column)?);
        }
    }
}

fn printable(c: char, column: usize) -> Result<char, SpecError> {
    if c.is_control() {
        let problem = format!("a control character (U+{:04X})", u32::from(c));
        return Err(SpecError::at(column, problem, "leave it out"));
    }
    Ok(c)
}

/// The word with the quotes that [`split`] takes off again.
pub(crate) fn quote(word: &str) -> String {
    // A spec is no command line: what only a shell would expand stands for itself in it.
    let plain = |c: char| shell::is_plain(c) || "^{}".contains(c);
    if !word.is_empty() && !word.starts_with('@') && word.chars().all(plain) {
        return word.to_string();
    }
    shell::quoted(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        split(text).unwrap().into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn quotes_keep_blanks_and_backslashes_keep_quotes() {
        assert_eq!(texts(r#" a  'b c' "d \"e\"" f\ g '' "#), ["a", "b c", "d \"e\"", "f g", ""]);
        assert_eq!(texts(r#"x'y'"z\n""#), [r"xyz\n"]);
    }

    #[test]
    fn what_is_never_closed_is_shown_where_it_was_opened() {
        assert_eq!(split("ext4 -L 'a b").unwrap_err().column, Some(9));
        assert_eq!(split(r"ext4 \").unwrap_err().column, Some(6));
        assert_eq!(split("ext4 a\u{7}").unwrap_err().column, Some(7));
    }

    #[test]
    fn only_an_unquoted_at_sign_begins_the_mount_options() {
        let signs: Vec<bool> = split("@ '@' @x a@").unwrap().iter().map(|w| w.at_sign).collect();
        assert_eq!(signs, [true, false, true, false]);
    }
}
