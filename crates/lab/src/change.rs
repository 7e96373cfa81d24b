//! Changes of a lab that benches ask for: such as mean nothing, and one that is known to slow unlink down.
//!
//! They show whether a comparison of two labs is honest (bench/honesty.sh). Each is part of the lab's
//! identity, as whatever else is in its guests.

use std::str::FromStr;

use fsdyno_record::guest::{PADDING, PLANTED};

use crate::Parts;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A word more on the kernel's command line. It looks like a parameter of a module that is not there:
    /// other unknown words the kernel hands to PID 1.
    Word(String),
    /// So many bytes more in the initramfs.
    Padding(usize),
    /// A kernel module more, which is loaded and not used.
    Module(String),
    /// After each unlink(2), so many empty loops, in the time that counts as the call's.
    Unlink(u32),
}

/// The largest padding: with it the initramfs is about twice as large.
const MOST_PADDING: usize = 16 << 20;

/// What a change can be, for messages.
const FORMS: &str = "word=TEXT, padding=BYTES (up to 16777216), module=NAME or unlink=LOOPS";

impl FromStr for Change {
    type Err = String;

    fn from_str(typed: &str) -> Result<Change, String> {
        let wrong = || format!("'{typed}' is no change; it is one of {FORMS}");
        let (kind, value) = typed.split_once('=').ok_or_else(wrong)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "._=-".contains(c);
        let is_plain = !value.is_empty() && value.chars().all(plain) && value != "--";
        match kind {
            "word" if is_plain => Ok(Change::Word(value.into())),
            "module" if is_plain => Ok(Change::Module(value.into())),
            "padding" => {
                let bytes = value.parse().ok().filter(|bytes| *bytes <= MOST_PADDING);
                bytes.map(Change::Padding).ok_or_else(wrong)
            }
            "unlink" => value.parse().map(Change::Unlink).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

impl Change {
    /// Makes it in the parts of a guest.
    pub fn make(&self, parts: &mut Parts) {
        match self {
            Change::Word(word) => {
                let gap = if parts.words.is_empty() { "" } else { " " };
                parts.words.push_str(&format!("{gap}fsdyno.change={word}"));
            }
            Change::Padding(bytes) => parts.files.push((PADDING.into(), vec![b'.'; *bytes])),
            Change::Module(name) => parts.modules.push(name.clone()),
            Change::Unlink(loops) => {
                parts.files.push((PLANTED.into(), loops.to_string().into_bytes()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_made_and_what_cannot_be_says_what_can() {
        let mut parts = Parts::default();
        for typed in ["word=a", "word=b", "padding=3", "module=crc7", "unlink=90"] {
            typed.parse::<Change>().unwrap().make(&mut parts);
        }
        assert_eq!(
            (parts.words.as_str(), parts.modules.as_slice()),
            ("fsdyno.change=a fsdyno.change=b", &["crc7".into()][..])
        );
        assert_eq!(parts.files[0], (PADDING.to_string(), b"...".to_vec()));
        assert_eq!(parts.files[1], (PLANTED.to_string(), b"90".to_vec()));
        for wrong in
            ["", "word", "word=", "word=a b", "word=--", "padding=-1", "padding=99999999", "x=1"]
        {
            assert!(wrong.parse::<Change>().unwrap_err().contains("padding=BYTES"), "{wrong}");
        }
    }
}
