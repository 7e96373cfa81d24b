//! `fsdyno list`: what there is, and whether it can run here.

use fsdyno_filesystem::Filesystem;
use fsdyno_venue::tools;
use serde_json::{Value, json};

use crate::cli::{DataFormat, List, Listable};
use crate::exit::{Exit, Failure};
use crate::output;

/// Lists what was asked for.
pub fn run(list: &List) -> Result<Exit, Failure> {
    let table = match list.what {
        Listable::Workloads => workloads(),
        Listable::Filesystems => filesystems(),
        Listable::Disks => disks()?,
        Listable::Kernels => kernels(),
        Listable::Periods => periods(),
    };
    match list.format {
        DataFormat::Text => output::data(&table.text())?,
        DataFormat::Json => output::json(&table.json())?,
    }
    Ok(Exit::Good)
}

/// Rows with named columns: one source for both formats.
struct Table {
    heads: &'static [&'static str],
    rows: Vec<Vec<String>>,
    /// What to say where there is no row.
    empty: &'static str,
}

impl Table {
    fn text(&self) -> String {
        if self.rows.is_empty() {
            return self.empty.to_string();
        }
        let heads = self.heads.iter().map(|head| head.to_uppercase()).collect();
        let rows: Vec<Vec<String>> = std::iter::once(heads).chain(self.rows.clone()).collect();
        output::columns(&rows)
    }

    fn json(&self) -> Value {
        let row = |row: &Vec<String>| -> Value {
            self.heads.iter().zip(row).map(|(head, cell)| (head.to_string(), json!(cell))).collect()
        };
        self.rows.iter().map(row).collect()
    }
}

fn workloads() -> Table {
    let rows = fsdyno_workload::workloads::ALL
        .iter()
        .map(|kind| vec![kind.name.to_string(), threads(kind).into(), kind.about.to_string()])
        .collect();
    Table { heads: &["name", "threads", "about"], rows, empty: "" }
}

/// `any` if it takes --threads N with its default parameters; `fixed` if it has as many as its own parameters say.
fn threads(kind: &fsdyno_workload::workloads::Kind) -> &'static str {
    let built = kind.build(&Default::default(), &fsdyno_workload::Setting::seed(1));
    let shared = built.is_ok_and(|workload| {
        workload.phases().iter().any(|phase| phase.threads == fsdyno_workload::Threads::Any)
    });
    if shared { "any" } else { "fixed" }
}

fn filesystems() -> Table {
    let qemu = fsdyno_lab::probe_qemu(None).is_ok();
    let kernels = fsdyno_lab::kernels_here(&fsdyno_lab::user_cache());
    let releases: Vec<&str> = kernels.iter().map(|kernel| kernel.release.as_str()).collect();
    let rows = fsdyno_filesystem::catalog::all()
        .iter()
        .map(|kind| {
            let tools = match tools::missing(kind).is_empty() {
                true => "installed".to_string(),
                false => format!("apt-get install {}", kind.package),
            };
            let lab = in_lab(kind, qemu, &releases);
            vec![kind.name.clone(), lab, tools, on_this_host(&kind.mount.kind), kind.about.clone()]
        })
        .collect();
    Table { heads: &["name", "lab", "tools", "this kernel", "about"], rows, empty: "" }
}

/// Whether it can run in the lab, or what keeps it from that.
fn in_lab(kind: &Filesystem, qemu: bool, kernels: &[&str]) -> String {
    if !qemu {
        return "no: apt-get install qemu-system-x86".into();
    }
    if !tools::missing(kind).is_empty() {
        return "no: tools".into();
    }
    match kernels {
        [] => "yes, kernel is brought".into(),
        some if some.iter().any(|release| kind.check_kernel(release).is_ok()) => "yes".into(),
        _ => "no: needs an older --kernel".into(),
    }
}

/// Whether the kernel of this host drives it now; `--on DIR` runs on whatever is mounted.
fn on_this_host(mount_type: &str) -> String {
    let driven = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let known = driven.lines().any(|line| line.split_whitespace().last() == Some(mount_type));
    if known { "yes".into() } else { "not loaded".into() }
}

fn disks() -> Result<Table, Failure> {
    let mut rows = Vec::new();
    for name in fsdyno_disk::catalog::names() {
        let spec = fsdyno_disk::catalog::get(name)
            .map_err(|error| Failure::wrong(format!("failed to {error}")))?;
        rows.push(vec![name.to_string(), spec.capacity.to_string(), spec.about]);
    }
    Ok(Table { heads: &["name", "capacity", "about"], rows, empty: "" })
}

fn periods() -> Table {
    let rows = fsdyno_filesystem::period::all().iter().map(|period| {
        let kinds: Vec<&str> = period.filesystem.keys().map(String::as_str).collect();
        vec![period.name.clone(), period.disk.clone(), kinds.join(" "), period.about.clone()]
    });
    Table { heads: &["name", "disk", "file systems", "about"], rows: rows.collect(), empty: "" }
}

fn kernels() -> Table {
    let rows = fsdyno_lab::kernels_here(&fsdyno_lab::user_cache())
        .into_iter()
        .map(|kernel| {
            vec![
                kernel.release,
                kernel.image.display().to_string(),
                kernel.modules.display().to_string(),
            ]
        })
        .collect();
    let empty = "no kernel is here yet; fsdyno run brings the distribution's with apt-get download";
    Table { heads: &["release", "image", "modules"], rows, empty }
}
