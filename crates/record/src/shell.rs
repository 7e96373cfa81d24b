//! Shell quoting, for commands that users can copy.

/// Returns true if this character needs no quotes anywhere in a word of a POSIX shell.
pub fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c)
}

/// Quotes a word if a POSIX shell needs it.
pub fn quote(word: &str) -> String {
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_string()
    } else {
        single_quote(word)
    }
}

/// Encloses a word in single quotes.
pub fn single_quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_quoted() {
        assert_eq!(quote("--set=files=10"), "--set=files=10");
        assert_eq!(quote("ext4 -I 128"), "'ext4 -I 128'");
        assert_eq!(quote("it's $(rm)"), r"'it'\''s $(rm)'");
        assert_eq!(quote(""), "''");
    }
}
