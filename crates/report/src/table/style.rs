//! The width and the colours of text for people.

/// The terminal's capabilities; the caller checks for a terminal and `NO_COLOR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// True if ANSI colours may be used.
    pub color: bool,
    /// Columns of the terminal.
    pub width: usize,
    /// True to print everything: the meaning of columns and flags, work units, times of calls, lab identities.
    pub full: bool,
}

impl Default for Style {
    /// No colour, 100 columns, everything.
    fn default() -> Style {
        Style { color: false, width: 100, full: true }
    }
}

/// Columns of an email: a quoted reply still fits into 80 columns.
pub const MAIL_WIDTH: usize = 72;
