//! What every refusal must be.

/// One line that is fit for a terminal, however long or strange what it tells of.
pub fn check(message: &str) {
    assert!(!message.is_empty(), "nothing is said");
    assert!(message.chars().count() <= 1000, "{} letters", message.chars().count());
    assert!(!message.chars().any(char::is_control), "not one line of text: {message:?}");
}
