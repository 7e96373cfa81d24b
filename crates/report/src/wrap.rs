//! Prose in lines of a given width.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The minimum width of a column of text and of a terminal's line.
pub const MIN_WIDTH: usize = 8;

/// Wraps prose between words; lines after the first are indented. A word longer than a line is broken.
/// Spaces before the first word are kept.
pub fn wrap(text: &str, indent: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = text[..text.len() - text.trim_start().len()].to_string();
    let mut empty = true;
    let space = width.max(MIN_WIDTH + indent.len());
    // A number is kept on the same line as its percent sign.
    let text = text.replace(" %", "\u{a0}%");
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        let mut word = word.replace('\u{a0}', " ");
        if !empty && line.width() + 1 + word.width() > width {
            lines.push(std::mem::replace(&mut line, indent.to_string()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        while line.width() + word.width() > space {
            let head = truncate(&word, space - line.width().min(space - 2));
            word = word[head.len()..].to_string();
            line.push_str(&head);
            lines.push(std::mem::replace(&mut line, indent.to_string()));
        }
        line.push_str(&word);
        empty = false;
    }
    lines.push(line);
    lines
}

/// The start of a text that fits into this number of columns.
pub fn truncate(text: &str, width: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    text.chars().take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_broken_only_if_they_do_not_fit() {
        assert_eq!(wrap("one two three", "  ", 8), ["one two", "  three"]);
        assert_eq!(wrap("  a 10 % b", "", 8), ["  a 10 %", "b"]);
        assert_eq!(wrap("abcdefghijklmnop", "", 8), ["abcdefgh", "ijklmnop"]);
        assert_eq!(wrap("", "  ", 8), [""]);
    }

    #[test]
    fn a_wide_character_takes_two_columns() {
        assert_eq!(truncate("a\u{6f22}b", 2), "a");
        assert_eq!(truncate("a\u{6f22}b", 3), "a\u{6f22}");
    }
}
