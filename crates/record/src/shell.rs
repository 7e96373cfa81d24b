//! Words as a shell reads them, for commands that are shown to be typed again.

/// Whether a POSIX shell reads this character as itself, wherever it stands in a word.
pub fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c)
}

/// The word, in quotes where a POSIX shell would read it otherwise.
pub fn quote(word: &str) -> String {
    if !word.is_empty() && word.chars().all(is_plain) { word.to_string() } else { quoted(word) }
}

/// The word in single quotes.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_read_is_quoted() {
        assert_eq!(quote("--set=files=10"), "--set=files=10");
        assert_eq!(quote("ext4 -I 128"), "'ext4 -I 128'");
        assert_eq!(quote("it's $(rm)"), r"'it'\''s $(rm)'");
        assert_eq!(quote(""), "''");
    }
}
