//! The requirements on every refusal.

/// Checks for one line that is fit for a terminal, for any contents.
pub fn check(message: &str) {
    assert!(!message.is_empty(), "the message is empty");
    assert!(message.chars().count() <= 1000, "{} letters", message.chars().count());
    assert!(!message.chars().any(char::is_control), "not one line of text: {message:?}");
}
