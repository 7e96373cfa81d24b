//! What was typed or found in a file, fit for a message of one line.

/// More letters than this of one value say nothing more to a reader.
const LONGEST: usize = 100;

/// All of it, without what would begin a new line or move a terminal's cursor: for names of files,
/// which must be found again.
pub fn escaped(text: &str) -> String {
    let escape = |letter: char| match letter {
        '\'' | '"' | '\\' => letter.to_string(),
        other => other.escape_debug().to_string(),
    };
    text.chars().map(escape).collect()
}

/// The same, cut off where it is longer than a line of a terminal or two.
pub fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}...", escaped(&text[..at])),
        None => escaped(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_plain_stays_and_what_is_not_is_escaped_and_cut() {
        assert_eq!(escaped("it's ext4 'ä'"), "it's ext4 'ä'");
        assert_eq!(escaped("a\nb\u{1b}[2J\0"), "a\\nb\\u{1b}[2J\\0");
        assert_eq!(short(&"ä".repeat(100)), "ä".repeat(100));
        assert_eq!(short(&"ä\n".repeat(51)), format!("{}...", "ä\\n".repeat(50)));
    }
}
