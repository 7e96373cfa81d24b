//! The requirements on every refusal.

/// Checks that a message is one line of text for a terminal.
pub fn check(message: &str) {
    assert!(!message.is_empty(), "the message is empty");
    assert!(message.chars().count() <= 1000, "{} letters", message.chars().count());
    assert!(!message.chars().any(char::is_control), "not one line of text: {message:?}");
}
