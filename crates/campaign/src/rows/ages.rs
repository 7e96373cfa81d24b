//! Expands ages: each requested age is a separate row.

use fsdyno_record::Bytes;
use fsdyno_record::plan::AgePlan;
use fsdyno_workload::sizes::Sizes;

use super::Row;
use crate::matrix_request::MatrixError;

/// Checks the requested ages.
pub fn check(ages: &[Option<AgePlan>]) -> Result<(), MatrixError> {
    let invalid = |text| Err(MatrixError::Wrong(text));
    for (index, age) in ages.iter().enumerate() {
        let shown = age.as_ref().map_or("none".to_string(), ToString::to_string);
        if ages[..index].contains(age) {
            return invalid(format!("--age {shown} is given twice"));
        }
        let Some(age) = age else { continue };
        if age.files.parse::<Sizes>().is_err() {
            return invalid(format!(
                "--age {shown}: '{}' is not a file size; write 4096, 4K-1M, mix or \
                 lognormal:64K:1.5",
                age.files
            ));
        }
    }
    Ok(())
}

/// Returns a row for each age, with the space that aging leaves.
pub fn rows(row: Row, ages: &[Option<AgePlan>]) -> Result<Vec<Row>, MatrixError> {
    let age = |age: &Option<AgePlan>| {
        let mut aged = row.clone();
        if let (Some(age), Some(filesystem)) = (age, &mut aged.filesystem) {
            if filesystem.mkfs.is_empty() {
                return Err(MatrixError::Wrong(format!(
                    "--age {age} is not possible with {}: no mkfs creates a file system there that could \
                     age; leave one of them out",
                    row.label
                )));
            }
            aged.capacity =
                aged.capacity.map(|capacity| Bytes(capacity.0 / 100 * u64::from(100 - age.fill)));
            filesystem.age = Some(age.clone());
        }
        Ok(aged)
    };
    match ages.is_empty() {
        true => Ok(vec![row]),
        false => ages.iter().map(age).collect(),
    }
}
