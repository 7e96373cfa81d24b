//! The name of a directory entry.

use crate::error::Problem;
use crate::wire::{Sink, Source, Wire};

/// The maximum length of a name, in bytes (NAME_MAX of Linux).
pub const NAME_MAX: usize = 255;

/// The name of a directory entry: 1 to 255 bytes of any value except '/' and NUL, and neither "." nor "..". Therefore
/// no sequence of names leads out of the directory in which it begins.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Creates a name from these bytes.
    ///
    /// # Errors
    /// Bytes that cannot be a name.
    pub fn new(bytes: &[u8]) -> Result<Name, Problem> {
        match bytes {
            [] => Err(Problem::Name("it is empty")),
            b"." | b".." => Err(Problem::Name("it is \".\" or \"..\"")),
            _ if bytes.len() > NAME_MAX => Err(Problem::Name("it is longer than 255 bytes")),
            _ if bytes.iter().any(|it| matches!(it, b'/' | 0)) => {
                Err(Problem::Name("it contains '/' or NUL"))
            }
            _ => Ok(Name(bytes.into())),
        }
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl Wire for Name {
    fn put(&self, out: &mut Sink) {
        out.put_text(&self.0);
    }

    fn get(from: &mut Source<'_>) -> Result<Name, Problem> {
        Name::new(from.text(NAME_MAX)?)
    }
}
