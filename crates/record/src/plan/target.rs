//! The value of `--on`: the only place where its syntax is parsed and formatted.

use std::fmt;

use super::medium::EphemeralSize;

/// The target that a user selects with `--on`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The lab.
    Lab,
    /// A model of a file system.
    Model,
    /// A device that is created for each trial.
    Ephemeral(EphemeralSize),
    /// The path of a directory or of a drive.
    Path(String),
}

/// The value of `--on` for the lab.
const LAB: &str = "lab";

/// The value of `--on` for the model.
const MODEL: &str = "model";

impl Target {
    /// Parses a value of `--on`, without examining this host.
    ///
    /// # Errors
    /// An ephemeral device with an invalid size.
    pub fn parse(text: &str) -> Result<Target, String> {
        match text {
            LAB => Ok(Target::Lab),
            MODEL => Ok(Target::Model),
            _ => match EphemeralSize::parse(text) {
                Some(ephemeral) => ephemeral.map(Target::Ephemeral),
                None => Ok(Target::Path(text.to_string())),
            },
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Lab => f.write_str(LAB),
            Target::Model => f.write_str(MODEL),
            Target::Ephemeral(ephemeral) => ephemeral.fmt(f),
            Target::Path(path) => f.write_str(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_target_is_the_value_of_its_option() {
        for text in ["lab", "model", "loop:8G", "ram:512M", "/srv", "/dev/sdb", "x", "./ram:1G"] {
            assert_eq!(Target::parse(text).unwrap().to_string(), text);
        }
        assert!(matches!(Target::parse("laboratory"), Ok(Target::Path(_))));
        assert!(Target::parse("loop:x").unwrap_err().contains("loop:4G"));
    }
}
