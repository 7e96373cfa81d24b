//! Checks which parts of fsdyno work on this host, and finds the commands that install what is missing.

use fsdyno_campaign::leftovers;
use fsdyno_filesystem::array;
use fsdyno_lab::{Cache, Lab, LabOptions};
use fsdyno_record::Bytes;
use fsdyno_report::table::{Block, Column, Document, Fit, Rows, Table};
use fsdyno_report::{Output, ReportError};
use fsdyno_venue::agent::location;
use fsdyno_venue::{Agent, tools};
use serde::Serialize;
use std::path::Path;

/// The result of one check.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    state: State,
    /// The version, path or error found.
    detail: String,
    /// The command that installs the part if it is missing.
    #[serde(rename = "cure")]
    remedy: Option<String>,
    /// True if the lab needs the part.
    needed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Missing,
    Note,
}

/// Returns the parts that the lab needs and this host lacks, each with the command that installs it.
pub fn missing() -> Vec<String> {
    let findings = [agent(), qemu(), kernel()].into_iter();
    let missing = findings.filter(|finding| finding.state == State::Missing);
    let line = |finding: Finding| {
        let remedy = finding.remedy.map(|remedy| format!("  ->  {remedy}")).unwrap_or_default();
        format!("{}: {}{remedy}", finding.what, finding.detail)
    };
    missing.map(line).collect()
}

/// Runs all checks. Rows wider than `limit` are stacked.
pub fn check_all(limit: Option<usize>) -> Findings {
    let mut findings = vec![agent(), qemu(), kernel()];
    findings.extend(
        fsdyno_filesystem::catalog::all().iter().filter(|kind| !kind.tools.is_empty()).map(tools),
    );
    findings.extend([arrays(), kvm(), apt(), space(), leftover_items()]);
    findings.extend(caches());
    Findings { findings, limit }
}

/// Checks the caches that runs share.
fn caches() -> Vec<Finding> {
    let note = |what: &str, detail: String| finding(what, State::Note, detail);
    // If the folder is unusable, the finding for the kernel contains the reason.
    let Ok(cache) = Cache::of_user() else { return Vec::new() };
    match fsdyno_lab::caches(&cache) {
        Ok(caches) => caches
            .iter()
            .map(|cache| {
                let limit = cache.limit.map(|limit| format!(" of at most {limit}"));
                let (folder, limit) = (cache.folder.display(), limit.unwrap_or_default());
                note(cache.what, format!("{} in {folder}, {}{limit}", cache.files, cache.bytes))
            })
            .collect(),
        Err(error) => vec![note("caches", format!("cannot be read: {error}"))],
    }
}

fn finding(what: &str, state: State, detail: impl Into<String>) -> Finding {
    Finding { what: what.into(), state, detail: detail.into(), remedy: None, needed: false }
}

fn agent() -> Finding {
    let found = match Agent::find() {
        Ok(_) => finding("agent", State::Ok, location().display().to_string()),
        Err(error) => finding("agent", State::Missing, error.to_string()),
    };
    Finding { needed: true, ..found }
}

fn qemu() -> Finding {
    let found = match fsdyno_lab::probe_qemu(None) {
        Ok(qemu) => finding("qemu", State::Ok, format!("{} {}", qemu.path.display(), qemu.version)),
        Err(error) => Finding {
            remedy: error.hint(),
            ..finding("qemu", State::Missing, format!("failed to {error}"))
        },
    };
    Finding { needed: true, ..found }
}

/// Checks the lab's kernel. A missing kernel is only a note if apt can download one.
fn kernel() -> Finding {
    let cache = match Cache::of_user() {
        Ok(cache) => cache,
        Err(error) => {
            let found = finding("kernel", State::Missing, format!("failed to {error}"));
            return Finding { remedy: error.hint(), needed: true, ..found };
        }
    };
    let options = LabOptions { kernel: None, qemu: None, cache, offline: true };
    let kernels = fsdyno_lab::local_kernels(&options.cache);
    let found = match Lab::find(&options, &|_| ()) {
        Ok(lab) => finding("kernel", State::Ok, lab.kernel_release()),
        Err(_) if kernels.is_empty() && fsdyno_lab::find_program("apt-get").is_ok() => finding(
            "kernel",
            State::Note,
            "none yet; the first run downloads the distribution's (apt-get download)",
        ),
        Err(error) => match kernels.first() {
            // Lab::find failed only because QEMU is missing; the kernel is installed.
            Some(kernel) => finding("kernel", State::Ok, &kernel.release),
            None => Finding {
                remedy: error.hint(),
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
    if fsdyno_lab::can_download_tools(kind) {
        let detail = "no tools yet; the first run in the lab downloads them into the cache";
        return finding(&kind.name, State::Note, detail);
    }
    Finding {
        remedy: Some(format!("apt-get install {}", kind.package)),
        ..finding(&kind.name, State::Missing, format!("no {}", missing.join(", ")))
    }
}

fn arrays() -> Finding {
    match tools::version_line(&array::version()) {
        Some(version) => finding("md RAID", State::Ok, version),
        None => Finding {
            remedy: Some(format!("apt-get install {}", array::PACKAGE)),
            ..finding("md RAID", State::Missing, format!("no {} (for --raid)", array::TOOL))
        },
    }
}

fn kvm() -> Finding {
    let detail = match Path::new("/dev/kvm").exists() {
        true => "present",
        false => "missing",
    };
    let use_note = "used only by --accel kvm, since virtual time needs emulation";
    finding("/dev/kvm", State::Note, format!("{detail}; {use_note}"))
}

fn apt() -> Finding {
    match fsdyno_lab::find_program("apt-get") {
        Ok(path) => finding("apt", State::Ok, path.display().to_string()),
        Err(_) => finding("apt", State::Note, "missing; give kernels as --kernel IMAGE:MODULES"),
    }
}

/// Checks the space in the temporary directory: unnamed files there hold the disks' data while a trial runs.
fn space() -> Finding {
    let folder = std::env::temp_dir();
    let what = format!("space in {}", folder.display());
    // A few gibibytes hold the largest default workload on any file system of the catalog.
    let required = fsdyno_media::Room { bytes: Bytes(8 << 30), ..Default::default() };
    match fsdyno_media::check(&folder, &required) {
        Ok(()) => finding(&what, State::Ok, "at least 8 GiB"),
        Err(error) => Finding {
            remedy: Some("set TMPDIR to a larger file system".into()),
            ..finding(&what, State::Note, error.to_string())
        },
    }
}

fn leftover_items() -> Finding {
    let folder = std::env::current_dir().unwrap_or_else(|_| ".".into());
    match leftovers::find(Some(&folder)) {
        Ok(found) if found.is_empty() => {
            finding("leftovers", State::Ok, "none on this machine or in this directory")
        }
        Ok(found) => {
            let items: Vec<String> = found.iter().map(leftovers::LeftoverItem::describe).collect();
            Finding {
                remedy: Some("fsdyno doctor --clean".to_string()),
                ..finding("leftovers", State::Note, format!("of killed runs: {}", items.join("; ")))
            }
        }
        Err(error) => finding("leftovers", State::Note, error.to_string()),
    }
}

/// The results of all checks.
pub struct Findings {
    findings: Vec<Finding>,
    limit: Option<usize>,
}

impl Findings {
    /// Returns true if nothing that the lab needs is missing.
    pub fn lab_can_run(&self) -> bool {
        self.findings.iter().all(|finding| !finding.needed || finding.state != State::Missing)
    }

    fn columns() -> Vec<Column<'static, Finding>> {
        let state = |finding: &Finding| match finding.state {
            State::Ok => "ok".to_string(),
            State::Missing => "missing".into(),
            State::Note => "note".into(),
        };
        vec![
            Column::words("state", state),
            Column::words("what", |finding: &Finding| finding.what.clone()),
            Column::words("detail", |finding: &Finding| {
                let remedy = finding.remedy.as_ref().map(|remedy| format!("  ->  {remedy}"));
                format!("{}{}", finding.detail, remedy.unwrap_or_default())
            }),
        ]
    }
}

impl Output for Findings {
    fn document(&self) -> Document {
        let fit = Fit::Stack { within: self.limit, heads: false };
        let table = Table { fit, ..Table::of(Findings::columns(), &self.findings) };
        Document(vec![Block::Table(table)])
    }

    fn rows(&self, out: &mut dyn Rows) {
        let mut columns = Findings::columns();
        columns.pop();
        columns.push(Column::words("detail", |finding: &Finding| finding.detail.clone()));
        columns.push(Column::words("cure", |finding: &Finding| {
            finding.remedy.clone().unwrap_or_default()
        }));
        let heads: Vec<String> = columns.iter().map(|column| column.head.text.clone()).collect();
        out.row(&heads);
        for finding in &self.findings {
            out.row(&columns.iter().map(|column| (column.cell)(finding)).collect::<Vec<_>>());
        }
    }

    fn json(&self) -> Result<String, ReportError> {
        Ok(serde_json::to_string_pretty(&self.findings)? + "\n")
    }
}
