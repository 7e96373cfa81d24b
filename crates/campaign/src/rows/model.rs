//! Builds and checks the rows of a model: disks x lookup methods.

use std::collections::BTreeMap;

use fsdyno_ext2dir::find;
use fsdyno_filesystem::Spec;
use fsdyno_record::plan::{
    FilesystemPlan, IssuerPlan, MediumPlan, ModelledPlan, VenuePlan, WorkloadPlan,
};
use fsdyno_record::suggest;
use fsdyno_workload::Workload;

use super::disk::{disk, largest};
use super::{Row, find_duplicate, specs};
use crate::matrix_request::{DEFAULT_SIZE, MatrixError, MatrixRequest, ModelPlace, Size};

/// Block sizes of the model; the first is the default.
pub const BLOCK_SIZES: [u32; 3] = [4096, 2048, 1024];

/// Returns a row for each disk and file system, in the given order; for all file systems if none is given.
pub fn model_rows(
    matrix_request: &MatrixRequest,
    place: &ModelPlace,
) -> Result<Vec<Row>, MatrixError> {
    if let Some(disk) = find_duplicate(&place.disks) {
        return Err(MatrixError::Wrong(format!("--disk names {disk} twice")));
    }
    let mut requested = matrix_request.filesystems.clone();
    if requested.is_empty() {
        requested.extend(find::ALL.iter().map(|variant| variant.name.to_string()));
    }
    let specs = specs(&requested)?;
    let mut rows = Vec::new();
    for name in &place.disks {
        let disk = disk(name)?;
        let largest = largest(&disk, None);
        let size = match place.size {
            Size::Default => DEFAULT_SIZE.min(largest),
            Size::Whole => largest,
            Size::Exactly(size) => size,
        };
        if size > largest || size.0 < 16 << 20 {
            return Err(MatrixError::Wrong(format!(
                "--size {size} is not possible: the model takes 16 MiB or more, and disk '{name}' has \
                 room for {largest}"
            )));
        }
        for (text, spec) in &specs {
            let block_size = block_size(text, spec)?;
            let modelled = ModelledPlan { size: Some(size), ..disk.plan(None)?.into() };
            rows.push(Row {
                label: spec.name(),
                filesystem: Some(plan(spec)),
                medium: MediumPlan::Modelled(modelled),
                venue: VenuePlan::Model { block_size },
                max_name_length: Some(255),
                capacity: Some(size),
                missing_operations: BTreeMap::new(),
                skip: None,
            });
        }
    }
    Ok(rows)
}

/// Checks the options of a model and returns its block size.
fn block_size(text: &str, spec: &Spec) -> Result<u32, MatrixError> {
    let invalid = |error: String| Err(MatrixError::Spec { spec: text.to_string(), error });
    if find::by_name(&spec.kind).is_none() {
        let names = find::ALL.iter().map(|variant| variant.name);
        let hint = suggest::hint(&spec.kind, names);
        return invalid(format!("there is no model '{}'; {hint}", spec.kind));
    }
    if let Some(option) = spec.mount.first() {
        return invalid(format!("the model takes no mount option, and '{option}' is one"));
    }
    let args: Vec<&str> = spec.mkfs.iter().map(String::as_str).collect();
    let size = match args.as_slice() {
        [] => return Ok(BLOCK_SIZES[0]),
        ["-b", size] => *size,
        [arg] if arg.starts_with("-b") => &arg[2..],
        _ => {
            return invalid(format!(
                "'{}' is not valid; the model accepts -b SIZE only",
                args.join(" ")
            ));
        }
    };
    match BLOCK_SIZES.iter().find(|known| known.to_string() == size) {
        Some(size) => Ok(*size),
        None => invalid(format!("-b {size} is not valid; it must be 1024, 2048 or 4096")),
    }
}

/// Returns the plan of a modelled file system, which is not created, mounted or checked by commands.
fn plan(spec: &Spec) -> FilesystemPlan {
    FilesystemPlan { kind: spec.kind.clone(), spec: spec.unlabelled(), ..FilesystemPlan::default() }
}

/// Checks that the model supports the request: one caller, and only operations on names.
///
/// # Errors
/// The first workload that the model cannot run, with the reason.
pub fn can_run<'a>(
    matrix_request: &MatrixRequest,
    works: impl Iterator<Item = (&'a WorkloadPlan, &'a dyn Workload)>,
) -> Result<(), MatrixError> {
    if matrix_request.threads != 1
        || matrix_request.issuer != IssuerPlan::Sync
        || !matrix_request.sysctls.is_empty()
    {
        return Err(MatrixError::Wrong(
            "the model has one caller and no kernel: leave --threads, --issuer and --sysctl out"
                .to_string(),
        ));
    }
    for (plan, workload) in works {
        fsdyno_ext2dir::can_run(workload).map_err(|why| {
            MatrixError::Wrong(format!(
                "workload '{}' cannot run in the model of ext2 directories, which has names and inodes \
                 only: {why}; dirops can",
                plan.name
            ))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Bytes;

    use super::*;
    use crate::matrix;
    use crate::matrix_request::Place;

    fn labels(
        workload: &str,
        filesystems: &[&str],
        parameters: &[&str],
    ) -> Result<Vec<String>, String> {
        let strings = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let matrix_request = MatrixRequest {
            workloads: strings(&[workload]),
            filesystems: strings(filesystems),
            parameters: strings(parameters),
            threads: 1,
            ..MatrixRequest::default()
        };
        let place =
            ModelPlace { disks: strings(&["ide-2001"]), size: Size::Exactly(Bytes(1 << 30)) };
        let cells =
            matrix(&matrix_request, &Place::Model(place)).map_err(|error| error.to_string())?;
        Ok(cells.into_iter().map(|cell| cell.plan.label).collect())
    }

    #[test]
    fn the_default_file_systems_are_the_three_of_2001() {
        assert_eq!(
            labels("dirops", &[], &[]).unwrap(),
            ["classic-ext2", "cached-ext2", "indexed-ext2"]
        );
        assert_eq!(labels("dirops", &["small=classic-ext2 -b 1024"], &[]).unwrap(), ["small"]);
    }

    #[test]
    fn unsupported_requests_are_refused_with_the_reason() {
        let refused = |workload, filesystems: &[&str], parameters: &[&str]| {
            labels(workload, filesystems, parameters).unwrap_err()
        };
        assert!(refused("dirops", &["ext2"], &[]).contains("there is no model 'ext2'"));
        assert!(refused("dirops", &["classic-ext2 -b 512"], &[]).contains("1024, 2048 or 4096"));
        assert!(refused("dirops", &["classic-ext2 -O x"], &[]).contains("-b SIZE only"));
        assert!(refused("dirops", &["classic-ext2 @ noatime"], &[]).contains("no mount option"));
        assert!(refused("dirops", &[], &["size=100"]).contains("its phase create calls write"));
        let text = refused("many-files", &[], &["size=0"]);
        assert!(text.contains("its phase remove removes, copies or packs whole trees"), "{text}");
    }
}
