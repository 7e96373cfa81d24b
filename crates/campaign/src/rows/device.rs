//! Builds and checks the rows of devices of this host: one per file system.

use fsdyno_filesystem::{Backing, Context, Spec, catalog, check_on_host, shared};
use fsdyno_record::Bytes;
use fsdyno_record::plan::VenuePlan;

use super::{Row, ages, created_filesystem, missing_operations, specs};
use crate::matrix_request::{DEFAULT_JOURNAL, DevicePlace, MatrixError, MatrixRequest};

/// Returns a row for each file system, in the given order.
pub fn device_rows(
    matrix_request: &MatrixRequest,
    place: &DevicePlace,
) -> Result<Vec<Row>, MatrixError> {
    if !matrix_request.sysctls.is_empty() {
        return Err(MatrixError::Wrong(
            "--sysctl is for the lab: on this host it would affect all programs; \
             set it yourself (sysctl -w), and every record contains the values in effect"
                .to_string(),
        ));
    }
    ages::check(&matrix_request.ages)?;
    let specs = specs(&matrix_request.filesystems)?;
    if specs.is_empty() {
        return Err(MatrixError::Wrong(format!(
            "--on {} needs a file system to create there, such as --fs ext4",
            place.device
        )));
    }
    check_journal(place, &specs)?;
    let mut rows = Vec::new();
    for (text, spec) in &specs {
        let row = device_row(matrix_request, place, (text, spec))?;
        rows.extend(ages::rows(row, &matrix_request.ages)?);
    }
    Ok(rows)
}

/// Checks the size of a journal on a separate device.
fn check_journal(place: &DevicePlace, specs: &[(String, Spec)]) -> Result<(), MatrixError> {
    let second = specs.iter().any(|(_, spec)| spec.names_second_disk());
    match place.journal_size {
        Some(_) if !second => Err(MatrixError::Wrong(
            "--journal-size is for a file system whose spec names {journal}, and none does; \
                 write --fs 'ext4 -J device={journal}', for example, or leave --journal-size out"
                .to_string(),
        )),
        Some(Bytes(size)) if size == 0 || size % (1 << 20) != 0 => Err(MatrixError::Wrong(
            format!("--journal-size {} is not valid: it must be in whole mebibytes", Bytes(size)),
        )),
        _ => Ok(()),
    }
}

/// Returns the row of a file system.
fn device_row(
    matrix_request: &MatrixRequest,
    place: &DevicePlace,
    (text, spec): (&str, &Spec),
) -> Result<Row, MatrixError> {
    let unknown = |error: catalog::Unknown| MatrixError::Spec {
        spec: text.to_string(),
        error: error.to_string(),
    };
    // The spec's own kind and, for a stacked file system, the kind below it.
    let top = catalog::get(&spec.kind).map_err(unknown)?;
    let filesystem = created_filesystem(spec).map_err(unknown)?;
    if filesystem.lies_on == Backing::Memory {
        return Err(MatrixError::Wrong(format!(
            "{} is in memory and cannot be on a device such as --on {}; use --on lab, or a \
             directory where it is mounted",
            filesystem.name, place.device
        )));
    }
    if shared::protocol(&spec.kind).is_some() {
        return Err(MatrixError::Wrong(format!(
            "{} is served over a modelled network, which exists only in the lab; use --on lab, or a directory where a \
             network file system is mounted, with --ranks",
            spec.unlabelled()
        )));
    }
    check_on_host(spec, matrix_request.author).map_err(MatrixError::spec(text))?;
    let version = matrix_request.tool_versions.get(&filesystem.name).map(String::as_str);
    let plan = top.plan(spec, Context::Host, version).map_err(MatrixError::spec(text))?;
    if place.size < filesystem.minimum_size {
        return Err(MatrixError::Wrong(format!(
            "--on {} is too small for {}, which needs at least {}",
            place.device, spec.kind, filesystem.minimum_size
        )));
    }
    let journal = place.journal_size.unwrap_or(DEFAULT_JOURNAL);
    Ok(Row {
        label: spec.name(),
        filesystem: Some(plan),
        medium: place.medium(spec.names_second_disk().then_some(journal)),
        venue: VenuePlan::Host,
        max_name_length: Some(top.longest_name.min(filesystem.longest_name)),
        capacity: Some(place.size),
        missing_operations: missing_operations(top, filesystem),
        skip: None,
    })
}

#[cfg(test)]
mod tests {
    use fsdyno_record::plan::{IssuerPlan, Target};

    use super::*;
    use crate::matrix::matrix;
    use crate::matrix_request::{HostDevice, Place};

    fn place(on: &str, size: u64) -> DevicePlace {
        let device = match Target::parse(on) {
            Ok(Target::Ephemeral(device)) => HostDevice::Ephemeral(device),
            _ => HostDevice::Drive(on.into()),
        };
        DevicePlace { device, size: Bytes(size), raid: None, journal_size: None }
    }

    fn request(filesystems: &[&str]) -> MatrixRequest {
        MatrixRequest {
            workloads: vec!["dirops".into()],
            filesystems: filesystems.iter().map(ToString::to_string).collect(),
            threads: 1,
            issuer: IssuerPlan::Sync,
            ..MatrixRequest::default()
        }
    }

    #[test]
    fn only_a_spec_that_names_a_journal_device_gets_one() {
        let matrix_request = request(&["far=ext4 -J device={journal}", "ext4", "xfs"]);
        let cells = matrix(&matrix_request, &Place::Device(place("loop:8G", 8 << 30))).unwrap();
        let journals: Vec<Option<Bytes>> =
            cells.iter().map(|cell| cell.plan.medium.journal_size()).collect();
        assert_eq!(journals, [Some(DEFAULT_JOURNAL), None, None]);
        assert_eq!(cells[0].plan.label, "far");
        // The blocks of a host's device are not zeroed in advance.
        let mkfs = cells[1].plan.filesystem.as_ref().unwrap().mkfs.join(" ");
        assert!(!mkfs.contains("assume_storage_prezeroed"), "{mkfs}");
    }

    #[test]
    fn on_a_device_an_age_is_a_separate_row_and_leaves_less_space() {
        let ages = vec![None, "fill=80%".parse().ok()];
        let matrix_request = MatrixRequest { ages, ..request(&["ext4"]) };
        let cells = matrix(&matrix_request, &Place::Device(place("loop:1G", 1 << 30))).unwrap();
        let fills: Vec<Option<u32>> =
            cells.iter().map(|cell| cell.plan.age().map(|age| age.fill)).collect();
        assert_eq!(fills, [None, Some(80)]);
        let parameters = vec!["files=10000".to_string(), "size=32K".to_string()];
        let refused = matrix(
            &MatrixRequest { parameters, ..matrix_request },
            &Place::Device(place("loop:1G", 1 << 30)),
        );
        assert!(refused.unwrap_err().to_string().contains("has 204"), "a fifth of a gibibyte");
        let raw = MatrixRequest {
            workloads: vec!["bonnie".into()],
            parameters: vec!["bonnie.files=0".into()],
            ages: vec!["fill=80%".parse().ok()],
            ..request(&["raw"])
        };
        let text = matrix(&raw, &Place::Device(place("loop:1G", 1 << 30))).unwrap_err().to_string();
        assert!(text.contains("no mkfs creates a file system there"), "{text}");
    }

    #[test]
    fn requests_impossible_on_a_host_are_refused_with_a_remedy() {
        let refused = |matrix_request: &MatrixRequest, place: DevicePlace| {
            matrix(matrix_request, &Place::Device(place)).unwrap_err().to_string()
        };
        let loops = || place("loop:8G", 8 << 30);
        assert!(refused(&request(&[]), loops()).contains("--fs ext4"));
        assert!(
            refused(&request(&["xfs"]), place("loop:8M", 8 << 20)).contains("needs at least 300")
        );
        let sysctls = vec!["vm.swappiness=1".to_string()];
        let text = refused(&MatrixRequest { sysctls, ..request(&["ext4"]) }, loops());
        assert!(text.contains("sysctl -w"), "{text}");
        let journal = |size| DevicePlace { journal_size: Some(Bytes(size)), ..loops() };
        assert!(refused(&request(&["ext4"]), journal(1 << 30)).contains("none does"));
        let outer = request(&["ext4 -J device={journal}"]);
        assert!(refused(&outer, journal(1000)).contains("whole mebibytes"));
        let files = MatrixRequest {
            parameters: vec!["files=4000000".into(), "size=8K".into()],
            ..request(&["ext4"])
        };
        let text = refused(&files, loops());
        assert!(text.ends_with("or the file system larger with a larger loop:SIZE"), "{text}");
        let drive = refused(&files, place("/dev/disk/by-id/x:y", 8 << 30));
        assert!(drive.ends_with("larger with a larger drive"), "{drive}");
        let fills = MatrixRequest { workloads: vec!["capacity".into()], ..request(&["ext4"]) };
        let text = refused(&fills, loops());
        assert!(text.contains("--on loop:256M") && !text.contains("--size"), "{text}");
    }
}
