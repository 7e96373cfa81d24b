//! Repeats a finding: one crash point of a trial.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_axes::Request;
use fsdyno_crash::{CutOutcome, Finding, RecoveryRequest};
use fsdyno_filesystem::Author;
use fsdyno_record::Build;
use fsdyno_venue::{Commands, Venue};

use super::{Cuts, check, folder as result_folder, job};
use crate::notes::say;
use crate::{Failure, RunSpec, labs, rerun};

/// Reads a finding, and checks that it can be repeated.
///
/// # Errors
/// A file that is not a finding; a trial that cannot be crash-tested; commands that are not in the catalog.
pub fn read(path: &Path) -> Result<Finding, Failure> {
    let finding = result_folder::read_finding(path)?;
    // The finding may come from someone else, so its commands are checked, even with --dry-run.
    Commands::derive(&finding.plan)?;
    check(&finding.plan, &rerun::read_inputs(&[&finding.plan])?)?;
    Ok(finding)
}

/// Repeats a finding, on `kernel` if one is given. Writes the image at the crash point to `image`, if that is given.
///
/// # Errors
/// The reason that it ended early.
pub fn replay(
    finding: &Finding,
    (cuts, kernel, image): (Cuts, Option<String>, Option<&Path>),
    stop: &Arc<AtomicBool>,
    build: Option<&Build>,
) -> Result<CutOutcome, Failure> {
    // The plan has everything except the path of the kernel.
    let recorded = finding.plan.lab().map(|lab| lab.kernel.release.clone());
    let axes = Request { kernels: kernel.or(recorded).into_iter().collect(), ..Request::default() };
    let workloads = vec![finding.plan.workload.name.clone()];
    let run = RunSpec { author: Author::File, workloads, axes, ..RunSpec::default() };
    let (venue, _) = labs::lab_venue(&run, Path::new("."), stop)?;
    let venue = venue.with_inputs(rerun::read_inputs(&[&finding.plan])?);
    let test = cuts.test(&venue, stop, build);
    let job = job(&finding.plan, finding.seed, finding.deadline);
    let lab_id = venue.identity(&job.plan)?.map(|identity| identity.lab_id);
    if lab_id != finding.lab_id {
        say(
            "fsdyno: this lab differs from that of the finding; the crash point may be at a different operation",
        );
    }
    let logged = test.logged(&job)?;
    let (cuts, disk, tear) = (vec![finding.outcome.cut], finding.disk, finding.atomic_unit);
    let request = RecoveryRequest { cuts, disk, tear, ..RecoveryRequest::default() };
    if let Some(path) = image {
        result_folder::write_image(path, venue.image_of_cut(&job, &logged, &request)?)?;
    }
    let tried = test.recover(&job, &logged, request)?.into_iter().next();
    tried.ok_or_else(|| Failure::invalid_use("the crash point was not tested"))
}

/// Describes the result of a crash point.
pub fn describe(tried: &CutOutcome) -> String {
    let CutOutcome { cut, recovery, findings } = tried;
    let mut lines = vec![format!(
        "crash point {} at {} ({:?}, {:?}): {} violations",
        cut.number,
        cut.at,
        cut.moment,
        cut.choice,
        findings.violations()
    )];
    lines.push(format!("mounted in {}", recovery.mount_ns));
    let parts = [
        ("mount refused", &recovery.refused),
        ("check", &recovery.unclean),
        ("repair", &recovery.repair),
        ("last resort", &recovery.last_resort),
        ("lost", &recovery.lost),
    ];
    lines.extend(
        parts.iter().filter_map(|(what, text)| Some(format!("{what}: {}", text.as_ref()?))),
    );
    lines.extend(recovery.kernel.iter().map(|line| format!("kernel: {line}")));
    lines.extend(findings.examples.iter().cloned());
    lines.join("\n")
}
