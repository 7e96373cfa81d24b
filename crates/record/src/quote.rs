//! Makes input from users and files safe to show in a one-line message.

/// Maximum length of a value in a message.
const MAX_LENGTH: usize = 100;

/// Escapes control characters; does not shorten the text, so that file names remain recognisable.
pub fn escape(text: &str) -> String {
    let escape_letter = |letter: char| match letter {
        '\'' | '"' | '\\' => letter.to_string(),
        control => control.escape_debug().to_string(),
    };
    text.chars().map(escape_letter).collect()
}

/// Escapes control characters and truncates the text to 100 characters.
pub fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_LENGTH) {
        Some((offset, _)) => format!("{}...", escape(&text[..offset])),
        None => escape(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_long_text_is_truncated() {
        assert_eq!(escape("it's ext4 'ä'"), "it's ext4 'ä'");
        assert_eq!(escape("a\nb\u{1b}[2J\0"), "a\\nb\\u{1b}[2J\\0");
        assert_eq!(short(&"ä".repeat(100)), "ä".repeat(100));
        assert_eq!(short(&"ä\n".repeat(51)), format!("{}...", "ä\\n".repeat(50)));
    }
}
