//! Changes to a lab, for benchmarks: some have no effect, and one slows unlink(2) down by a known amount.
//!
//! They test the comparison of two labs (bench/honesty.sh). Each of them is part of the lab's identity, like
//! everything in its guests.

use std::str::FromStr;

use fsdyno_record::guest::{PADDING, PLANTED};

use crate::Parts;

/// A change to a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// An additional parameter on the kernel's command line. It has the form of a parameter of a missing module,
    /// because the kernel passes other unknown parameters to PID 1.
    Word(String),
    /// Additional bytes in the initramfs.
    Padding(usize),
    /// An additional kernel module, loaded but not used.
    Module(String),
    /// A number of iterations of an empty loop after each unlink(2), counted as part of the call.
    Unlink(u32),
}

/// The maximum padding, in bytes; it roughly doubles the initramfs.
const MAX_PADDING: usize = 16 << 20;

/// The forms of a change, for messages.
const FORMS: &str = "word=TEXT, padding=BYTES (up to 16777216), module=NAME or unlink=LOOPS";

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Change, String> {
        let invalid = || format!("'{text}' is not a change; write {FORMS}");
        let (kind, value) = text.split_once('=').ok_or_else(invalid)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "._=-".contains(c);
        let is_plain = !value.is_empty() && value.chars().all(plain) && value != "--";
        match kind {
            "word" if is_plain => Ok(Change::Word(value.into())),
            "module" if is_plain => Ok(Change::Module(value.into())),
            "padding" => {
                let bytes = value.parse().ok().filter(|bytes| *bytes <= MAX_PADDING);
                bytes.map(Change::Padding).ok_or_else(invalid)
            }
            "unlink" => value.parse().map(Change::Unlink).map_err(|_| invalid()),
            _ => Err(invalid()),
        }
    }
}

impl Change {
    /// Applies the change to the parts of a guest.
    pub fn make(&self, parts: &mut Parts) {
        match self {
            Change::Word(word) => {
                let gap = if parts.extra_parameters.is_empty() { "" } else { " " };
                parts.extra_parameters.push_str(&format!("{gap}fsdyno.change={word}"));
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
    fn valid_changes_are_applied_and_others_refused_with_the_forms() {
        let mut parts = Parts::default();
        for text in ["word=a", "word=b", "padding=3", "module=crc7", "unlink=90"] {
            text.parse::<Change>().unwrap().make(&mut parts);
        }
        assert_eq!(
            (parts.extra_parameters.as_str(), parts.modules.as_slice()),
            ("fsdyno.change=a fsdyno.change=b", &["crc7".into()][..])
        );
        assert_eq!(parts.files[0], (PADDING.to_string(), b"...".to_vec()));
        assert_eq!(parts.files[1], (PLANTED.to_string(), b"90".to_vec()));
        for invalid in
            ["", "word", "word=", "word=a b", "word=--", "padding=-1", "padding=99999999", "x=1"]
        {
            assert!(invalid.parse::<Change>().unwrap_err().contains("padding=BYTES"), "{invalid}");
        }
    }
}
