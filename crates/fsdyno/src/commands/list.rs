//! `fsdyno list`: what there is, and whether it can run here.

use fsdyno_venue::here::{self, CanRun, Here};
use serde_json::{Value, json};

use crate::cli::{DataFormat, List, Listable};
use crate::exit::{Exit, Failure};
use crate::output;

/// Lists what was asked for.
pub fn run(list: &List) -> Result<Exit, Failure> {
    let table = match list.what {
        Listable::Workloads => workloads(),
        Listable::Filesystems => return filesystems(list.format),
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

/// The table says where each can run; below it stand the reasons where it cannot.
fn filesystems(format: DataFormat) -> Result<Exit, Failure> {
    let here = Here::look();
    let kinds = fsdyno_filesystem::catalog::all();
    let places = kinds.iter().map(|kind| (kind, here.in_lab(kind), here.on_host(kind)));
    if format == DataFormat::Json {
        let value = |place: CanRun| json!({"can": place.can, "why": place.why, "cure": place.cure});
        let rows: Value = places
            .map(|(kind, lab, host)| {
                json!({
                    "name": kind.name, "about": kind.about, "lies_on": here::ground(kind),
                    "userspace": kind.in_user_space(), "since": kind.since, "until": kind.until,
                    "lab": value(lab), "host": value(host),
                })
            })
            .collect();
        output::json(&rows)?;
        return Ok(Exit::Good);
    }
    let mut rows = vec![["NAME", "LAB", "HOST", "LIES ON", "ABOUT"].map(String::from).to_vec()];
    let mut reasons = String::new();
    for (kind, lab, host) in places {
        let word = |place: &CanRun| if place.can { "yes" } else { "no" }.to_string();
        let ground = here::ground(kind).to_string();
        rows.push(vec![kind.name.clone(), word(&lab), word(&host), ground, kind.about.clone()]);
        for (place, can) in [("in the lab", lab), ("on this host", host)] {
            let Some(why) = can.why else { continue };
            let cure = can.cure.map(|cure| format!("  ->  {cure}")).unwrap_or_default();
            let line = format!("{} {place}: {why}{cure}", kind.name);
            reasons.push_str(&output::indented(&line, 2));
        }
    }
    let mut text = output::columns(&rows);
    let kernel = here.lab_kernel().unwrap_or("the one that the first run brings");
    text.push_str(&format!("\nlab: with its usual kernel, {kernel}; --kernel takes others\n"));
    text.push_str(
        "host: made and mounted by this host; --on DIR runs on whatever is mounted there\n",
    );
    if !reasons.is_empty() {
        text.push_str(&format!("\n{reasons}"));
    }
    output::data(&text)?;
    Ok(Exit::Good)
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
