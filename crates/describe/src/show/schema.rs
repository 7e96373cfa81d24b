//! `fsdyno show schema`: prints a JSON Schema of data that the program stores, or prints for other programs.

use fsdyno_campaign::Failure;
use fsdyno_record::suggest;
use fsdyno_report::schemas::{self, Published};

use super::Shown;

/// Returns all published schemas.
pub fn all() -> impl Iterator<Item = &'static Published> + Clone {
    schemas::ALL.iter()
}

/// Returns the schema with this name, as text and as JSON.
///
/// # Errors
/// An unknown name.
pub fn schema(name: &str) -> Shown {
    let schema = all().find(|schema| schema.name == name).ok_or_else(|| {
        let hint = suggest::hint(name, all().map(|schema| schema.name));
        Failure::invalid_use(format!("'{name}' is not a schema; {hint}"))
    })?;
    let schema = schema.schema();
    Ok((format!("{schema:#}\n"), schema))
}
