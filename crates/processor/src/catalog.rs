//! The processors shipped with fsdyno: one file each in catalog/processors, and one row each here.

use fsdyno_catalog::{Catalog, CatalogError, FileError};
use fsdyno_record::plan::CpuPlan;
use fsdyno_record::processor::{Processor, Speed};
use fsdyno_record::suggest;

use crate::profile::{Profile, ProfileError};

/// All processors, in listing order.
const CATALOG: Catalog = Catalog {
    kind: "processor",
    folder: "catalog/processors",
    rows: &[
        ("desktop-2008", include_str!("../../../catalog/processors/desktop-2008.toml")),
        ("epyc-2021", include_str!("../../../catalog/processors/epyc-2021.toml")),
        ("epyc-2024", include_str!("../../../catalog/processors/epyc-2024.toml")),
        ("laptop-2024", include_str!("../../../catalog/processors/laptop-2024.toml")),
        ("nas-2024", include_str!("../../../catalog/processors/nas-2024.toml")),
        ("pc-2001", include_str!("../../../catalog/processors/pc-2001.toml")),
        ("pi-2024", include_str!("../../../catalog/processors/pi-2024.toml")),
        ("server-2004", include_str!("../../../catalog/processors/server-2004.toml")),
    ],
};

/// The name of the plain speed: one instruction per nanosecond.
const INSTRUCTIONS: &str = "instructions";

/// An error when finding a processor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProcessorError {
    /// The name is neither that of a processor nor a speed.
    #[error(
        "'{name}' is not a valid speed for the lab's CPU; it must be a power of two in instructions per nanosecond, from \
         1/64 to 8, or a processor profile, by name or file; {hint}"
    )]
    Unknown {
        /// The requested name.
        name: String,
        /// The nearest name, or all names.
        hint: String,
    },
    /// The user's file cannot be read.
    #[error("failed to read the processor profile in {file}: {error}")]
    Unreadable {
        /// The file.
        file: String,
        /// The read error.
        error: String,
    },
    /// The profile is invalid (for profiles of the catalog, a test excludes this).
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// Returns the names of all processors, in order.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    CATALOG.names()
}

impl From<CatalogError> for ProcessorError {
    fn from(error: CatalogError) -> ProcessorError {
        match error {
            CatalogError::Unknown { name, hint, .. } => ProcessorError::Unknown { name, hint },
            CatalogError::Unreadable { file, error } => ProcessorError::Unreadable { file, error },
            CatalogError::File(FileError { file, problem, .. }) => {
                ProcessorError::Unreadable { file, error: problem }
            }
        }
    }
}

/// Returns the text of a processor profile, with comments, by name or path.
///
/// # Errors
/// [`ProcessorError`].
pub fn text(name: &str) -> Result<String, ProcessorError> {
    Ok(CATALOG.text(name)?)
}

/// Returns the profile of a processor, by name or by the path of its file.
///
/// # Errors
/// [`ProcessorError`].
pub fn profile(name: &str) -> Result<Profile, ProcessorError> {
    Ok(Profile::from_toml(&CATALOG.file(name), &text(name)?)?)
}

/// Finds a processor by name, or by the path of its profile.
///
/// # Errors
/// [`ProcessorError`].
pub fn find(name: &str) -> Result<Processor, ProcessorError> {
    Ok(profile(name)?.recorded(name))
}

/// Parses the value of `--cpu`: a plain speed, a processor, or the file of a profile.
///
/// # Errors
/// [`ProcessorError`].
pub fn parse(value: &str) -> Result<CpuPlan, ProcessorError> {
    if value == INSTRUCTIONS {
        return Ok(CpuPlan::default());
    }
    let is_number = value.chars().all(|c| c.is_ascii_digit() || c == '/');
    match value.parse::<Speed>() {
        Ok(speed) => Ok(CpuPlan::Speed(speed)),
        Err(_) if is_number => {
            Err(ProcessorError::Unknown { name: value.into(), hint: suggest::hint(value, names()) })
        }
        Err(_) => Ok(CpuPlan::Profile(Box::new(find(value)?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_has_its_row_and_is_valid() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        CATALOG.check_rows(&root).unwrap();
        for name in names() {
            assert_eq!(find(name).unwrap().name, name);
        }
    }

    #[test]
    fn an_estimate_is_described_as_an_estimate() {
        for name in names() {
            let profile = profile(name).unwrap();
            assert_eq!(profile.about.starts_with("Estimate: "), profile.estimate, "{name}");
            let description = find(name).unwrap().describe();
            let is_described =
                description.contains("an estimate from published figures; error of CPU times: ");
            assert_eq!(is_described, profile.estimate, "{description}");
        }
        assert!(!profile("epyc-2024").unwrap().estimate && profile("pi-2024").unwrap().estimate);
    }

    #[test]
    fn a_cpu_is_a_speed_a_name_or_a_file() {
        assert!(parse("instructions").unwrap().is_default());
        assert_eq!(parse("1/2").unwrap().to_string(), "1/2");
        assert_eq!(parse("epyc-2024").unwrap().to_string(), "epyc-2024");
        let error = parse("epyc-2042").unwrap_err().to_string();
        assert!(
            error.starts_with("'epyc-2042' is not a valid speed for the lab's CPU")
                && error.contains("epyc-2024"),
            "{error}"
        );
        let error = parse("1/3").unwrap_err().to_string();
        assert!(error.starts_with("'1/3' is not a valid speed for the lab's CPU"), "{error}");
        let error = parse("./no.toml").unwrap_err().to_string();
        assert!(
            error.starts_with("failed to read the processor profile in ./no.toml: "),
            "{error}"
        );
    }
}
