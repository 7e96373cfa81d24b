//! `fsdyno doctor`: what works here, what is missing, and what brings it.

use std::path::Path;

use fsdyno_filesystem::array;
use fsdyno_lab::{Cache, Lab, LabOptions};
use fsdyno_record::Bytes;
use fsdyno_venue::tools;
use serde::Serialize;

use crate::cli::{DataFormat, Doctor};
use crate::commands::clean;
use crate::exit::{Exit, Failure};
use crate::output::{self, say};

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    state: State,
    /// What was seen.
    detail: String,
    /// What brings it, where it is missing.
    cure: Option<String>,
    /// Whether the lab cannot run without it.
    needed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Missing,
    Note,
}

/// Looks, or cleans.
pub fn run(doctor: &Doctor) -> Result<Exit, Failure> {
    if let Some(directory) = &doctor.clean {
        return clean::run(directory);
    }
    if doctor.clear_caches {
        let files = fsdyno_lab::clear_caches(&Cache::of_user()?)
            .map_err(|error| Failure::wrong(format!("failed to empty the caches: {error}")))?;
        let files = fsdyno_report::counted(files, "file");
        say(&format!("{files} removed; what is needed again is made again"));
        return Ok(Exit::Good);
    }
    let findings = look();
    match doctor.format {
        DataFormat::Text => output::data(&text(&findings))?,
        DataFormat::Json => output::json(&findings)?,
    }
    let lab = findings.iter().all(|finding| !finding.needed || finding.state != State::Missing);
    say(if lab { "the lab can run here" } else { "the lab cannot run here yet" });
    Ok(if lab { Exit::Good } else { Exit::Missing })
}

fn look() -> Vec<Finding> {
    let mut findings = vec![qemu(), kernel()];
    findings.extend(
        fsdyno_filesystem::catalog::all().iter().filter(|kind| !kind.tools.is_empty()).map(tools),
    );
    findings.extend([arrays(), kvm(), apt(), space(), leftovers()]);
    findings.extend(caches());
    findings
}

/// What is kept from one run for the next.
fn caches() -> Vec<Finding> {
    let note = |what: &str, detail: String| finding(what, State::Note, detail);
    // Of a folder that cannot be used the kernel's line says why.
    let Ok(cache) = Cache::of_user() else { return Vec::new() };
    match fsdyno_lab::caches(&cache) {
        Ok(caches) => caches
            .iter()
            .map(|kept| {
                let (files, bytes, limit) = (kept.files, kept.bytes, kept.limit);
                let folder = kept.folder.display();
                note(kept.what, format!("{files} in {folder}, {bytes} of at most {limit}"))
            })
            .collect(),
        Err(error) => vec![note("caches", format!("cannot be read: {error}"))],
    }
}

fn finding(what: &str, state: State, detail: impl Into<String>) -> Finding {
    Finding { what: what.into(), state, detail: detail.into(), cure: None, needed: false }
}

fn qemu() -> Finding {
    let found = match fsdyno_lab::probe_qemu(None) {
        Ok(qemu) => finding("qemu", State::Ok, format!("{} {}", qemu.path.display(), qemu.version)),
        Err(error) => Finding {
            cure: error.hint(),
            ..finding("qemu", State::Missing, format!("failed to {error}"))
        },
    };
    Finding { needed: true, ..found }
}

/// A kernel that is not here yet is no obstacle where apt can bring it.
fn kernel() -> Finding {
    let cache = match Cache::of_user() {
        Ok(cache) => cache,
        Err(error) => {
            let found = finding("kernel", State::Missing, format!("failed to {error}"));
            return Finding { cure: error.hint(), needed: true, ..found };
        }
    };
    let options = LabOptions { kernel: None, qemu: None, cache, offline: true };
    let here = fsdyno_lab::kernels_here(&options.cache);
    let found = match Lab::find(&options, &|_| ()) {
        Ok(lab) => finding("kernel", State::Ok, lab.kernel_release()),
        Err(_) if here.is_empty() && fsdyno_lab::find_program("apt-get").is_ok() => finding(
            "kernel",
            State::Note,
            "none here yet; the first run brings the distribution's with apt-get download",
        ),
        Err(error) => match here.first() {
            // Without QEMU no lab is found, but the kernel is there.
            Some(kernel) => finding("kernel", State::Ok, &kernel.release),
            None => Finding {
                cure: error.hint(),
                ..finding("kernel", State::Missing, format!("failed to {error}"))
            },
        },
    };
    Finding { needed: true, ..found }
}

fn tools(kind: &fsdyno_filesystem::Filesystem) -> Finding {
    let missing = tools::missing(kind);
    if missing.is_empty() {
        let version = tools::version(kind).unwrap_or_else(|| "installed".into());
        return finding(&kind.name, State::Ok, version);
    }
    Finding {
        cure: Some(format!("apt-get install {}", kind.package)),
        ..finding(&kind.name, State::Missing, format!("no {}", missing.join(", ")))
    }
}

fn arrays() -> Finding {
    match tools::version_by(&array::version()) {
        Some(version) => finding("md RAID", State::Ok, version),
        None => Finding {
            cure: Some(format!("apt-get install {}", array::PACKAGE)),
            ..finding("md RAID", State::Missing, format!("no {} (for --raid)", array::TOOL))
        },
    }
}

fn kvm() -> Finding {
    let there = Path::new("/dev/kvm").exists();
    let detail = match there {
        true => "there, and used by --accel kvm alone",
        false => "not there, and only --accel kvm would use it",
    };
    finding("/dev/kvm", State::Note, format!("{detail}: virtual time is emulation by design"))
}

fn apt() -> Finding {
    match fsdyno_lab::find_program("apt-get") {
        Ok(path) => finding("apt", State::Ok, path.display().to_string()),
        Err(_) => {
            finding("apt", State::Note, "not there; name kernels with --kernel IMAGE:MODULES")
        }
    }
}

/// The disks' bytes lie in nameless files here while a trial runs.
fn space() -> Finding {
    let folder = std::env::temp_dir();
    let what = format!("space in {}", folder.display());
    // A few gibibytes hold the largest default workload on any file system of the catalog.
    let wanted = fsdyno_media::Room { bytes: Bytes(8 << 30), ..Default::default() };
    match fsdyno_media::check(&folder, &wanted) {
        Ok(()) => finding(&what, State::Ok, "at least 8 GiB"),
        Err(error) => Finding {
            cure: Some("set TMPDIR to a larger file system".into()),
            ..finding(&what, State::Note, error.to_string())
        },
    }
}

fn leftovers() -> Finding {
    let folder = std::env::current_dir().unwrap_or_else(|_| ".".into());
    match clean::find(Some(&folder)) {
        Ok(found) if found.is_empty() => {
            finding("leftovers", State::Ok, "none on this machine, none in this directory")
        }
        Ok(found) => {
            let words: Vec<String> = found.iter().map(clean::Left::words).collect();
            Finding {
                cure: Some("fsdyno doctor --clean".to_string()),
                ..finding("leftovers", State::Note, format!("of killed runs: {}", words.join("; ")))
            }
        }
        Err(error) => finding("leftovers", State::Note, error.to_string()),
    }
}

fn text(findings: &[Finding]) -> String {
    let rows: Vec<Vec<String>> = findings
        .iter()
        .map(|finding| {
            let state = match finding.state {
                State::Ok => "ok",
                State::Missing => "missing",
                State::Note => "note",
            };
            let cure = finding.cure.as_ref().map(|cure| format!("  ->  {cure}"));
            vec![
                state.to_string(),
                finding.what.clone(),
                format!("{}{}", finding.detail, cure.unwrap_or_default()),
            ]
        })
        .collect();
    output::columns(&rows)
}
