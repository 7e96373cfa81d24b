//! Spaces: the options of a file system that are worth trying.

mod builtin;
mod file;
mod render;
mod restrict;

#[cfg(test)]
mod tests;

use fsdyno_record::suggest;

pub use builtin::{find, names, text};
pub use render::Configuration;
pub use restrict::{Dropped, Restriction};

/// The maximum number of options of a space.
pub const MAX_OPTIONS: usize = 40;

/// The maximum number of values of an option.
pub const MAX_VALUES: usize = 16;

/// The options of a file system that are worth trying, each with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    /// The name of the file system in the catalog.
    pub filesystem: String,
    /// A one-line description.
    pub about: String,
    /// The options.
    pub options: Vec<TuneOption>,
    /// Values of two options that cannot be combined.
    pub conflicts: Vec<Conflict>,
}

/// An option of a space.
#[derive(Clone, Debug, PartialEq)]
pub struct TuneOption {
    /// The name.
    pub name: String,
    /// A one-line description.
    pub about: String,
    /// The values. The first is the default and sets nothing.
    pub values: Vec<Value>,
}

/// A value of an option.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Value {
    /// The name.
    pub name: String,
    /// Arguments for mkfs.
    pub mkfs: String,
    /// Mount options.
    pub mount: String,
    /// Sysctls: `KEY=VALUE`.
    pub sysctls: Vec<String>,
    /// The block scheduler, or `None` for the disk's own.
    pub scheduler: Option<String>,
    /// The losses that come with the value, each with a reason.
    pub gives_up: Vec<AcceptedLoss>,
    /// The first kernel release that supports the value.
    pub since: Option<String>,
    /// The last kernel release that supports the value.
    pub until: Option<String>,
}

/// Something that a value gives up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedLoss {
    /// The kind of loss.
    pub loss: Loss,
    /// The reason, in a sentence.
    pub why: String,
}

/// A kind of loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// Acknowledged work, or the consistency of the file system, may be lost in a power cut.
    Durability,
    /// Protection of data from errors or from other users is reduced.
    Security,
    /// Older kernels or tools cannot use the file system, or its limits are smaller.
    Compatibility,
}

impl Loss {
    /// All kinds, with their names in files.
    pub const ALL: [(&'static str, Loss); 3] = [
        ("durability", Loss::Durability),
        ("security", Loss::Security),
        ("compatibility", Loss::Compatibility),
    ];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Loss::Durability => "durability",
            Loss::Security => "security",
            Loss::Compatibility => "compatibility",
        }
    }

    /// Returns true if a safe search excludes values with this loss.
    pub fn is_unsafe(self) -> bool {
        self != Loss::Compatibility
    }
}

/// Two values that cannot be combined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The option and its value, as indices.
    pub one: (usize, u8),
    /// The other option and its value.
    pub other: (usize, u8),
    /// The reason.
    pub why: String,
}

/// A point of a space: the index of the value of each option.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point(pub Vec<u8>);

/// An error in a space or in a choice of its options; the message is one line and states what would be valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// The file system has no built-in space.
    #[error("no space for file system '{name}'; {hint}")]
    Unknown {
        /// The name.
        name: String,
        /// A hint with the most similar names.
        hint: String,
    },
    /// The file is invalid.
    #[error("{0}")]
    File(String),
    /// The choice of options or values is invalid.
    #[error("{0}")]
    Choice(String),
}

impl Space {
    /// Returns the default point: the first value of each option.
    pub fn default_point(&self) -> Point {
        Point(vec![0; self.options.len()])
    }

    /// Returns the number of values of each option.
    pub fn levels(&self) -> Vec<u8> {
        self.options.iter().map(|option| option.values.len() as u8).collect()
    }

    /// Returns the conflict of a point, if it has one.
    pub fn conflict(&self, point: &Point) -> Option<&Conflict> {
        let has = |(option, value): (usize, u8)| point.0.get(option) == Some(&value);
        self.conflicts.iter().find(|conflict| has(conflict.one) && has(conflict.other))
    }

    /// Returns true if no two values of a point are in conflict.
    pub fn allows(&self, point: &Point) -> bool {
        self.conflict(point).is_none()
    }

    /// Returns the number of combinations of values, including conflicts; saturates.
    pub fn combinations(&self) -> u64 {
        self.options
            .iter()
            .fold(1u64, |count, option| count.saturating_mul(option.values.len() as u64))
    }

    /// Returns all points without conflicts, in order, or `None` if there are more than `max` combinations.
    pub fn points(&self, max: u64) -> Option<Vec<Point>> {
        let count = self.combinations();
        if count > max {
            return None;
        }
        let levels = self.levels();
        let point = |mut index: u64| {
            let value = |levels: &u8| {
                let value = (index % u64::from(*levels)) as u8;
                index /= u64::from(*levels);
                value
            };
            Point(levels.iter().map(value).collect())
        };
        Some((0..count).map(point).filter(|point| self.allows(point)).collect())
    }

    /// Returns the points that differ from a point in exactly one option.
    pub fn neighbours(&self, point: &Point) -> Vec<Point> {
        let mut all = Vec::new();
        for (option, definition) in self.options.iter().enumerate() {
            let values = 0..definition.values.len() as u8;
            for value in values.filter(|value| point.0[option] != *value) {
                all.push(point.with(option, value));
            }
        }
        all.retain(|point| self.allows(point));
        all
    }

    /// Returns a point as text: each option that does not have its default.
    pub fn describe(&self, point: &Point) -> String {
        let choices = self.options.iter().zip(&point.0).filter(|(_, value)| **value > 0);
        let word = |(option, value): (&TuneOption, &u8)| {
            let name = option.values.get(usize::from(*value)).map_or("", |value| &value.name);
            format!("{}={name}", option.name)
        };
        let chosen: Vec<String> = choices.map(word).collect();
        if chosen.is_empty() { "default".into() } else { chosen.join(" ") }
    }

    /// Finds the index of an option.
    ///
    /// # Errors
    /// An unknown name.
    pub fn option(&self, name: &str) -> Result<usize, SpaceError> {
        let known = || self.options.iter().map(|option| option.name.as_str());
        known().position(|known| known == name).ok_or_else(|| {
            let hint = suggest::hint(name, known());
            SpaceError::Choice(format!(
                "the space of {} has no option '{name}'; {hint}",
                self.filesystem
            ))
        })
    }

    /// Finds the index of a value of an option.
    ///
    /// # Errors
    /// An unknown name.
    pub fn value(&self, option: usize, name: &str) -> Result<u8, SpaceError> {
        let definition = &self.options[option];
        let known = || definition.values.iter().map(|value| value.name.as_str());
        let index = known().position(|known| known == name);
        index.map(|index| index as u8).ok_or_else(|| {
            let hint = suggest::hint(name, known());
            SpaceError::Choice(format!(
                "option '{}' has no value '{name}'; {hint}",
                definition.name
            ))
        })
    }
}

impl Point {
    /// Returns the point with a different value for one option.
    pub fn with(&self, option: usize, value: u8) -> Point {
        let mut point = self.clone();
        point.0[option] = value;
        point
    }

    /// Returns true if every option has its default.
    pub fn is_default(&self) -> bool {
        self.0.iter().all(|value| *value == 0)
    }
}
