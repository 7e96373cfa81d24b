//! Lists the available items, and whether they can run here.

use fsdyno_campaign::Failure;
use fsdyno_campaign::notes::say;
use fsdyno_filesystem::Filesystem;
use fsdyno_record::units::rough;
use fsdyno_report::table::Block;
use fsdyno_study::file::catalog;
use fsdyno_venue::capabilities::{self, CanRun, Capabilities};
use serde_json::{Value, json};

use crate::listing::Listing;
use crate::show;

mod results;

pub use results::{about, listing as results};

/// Lists the workloads.
pub fn workloads() -> Listing {
    let rows = fsdyno_workload::workloads::ALL
        .iter()
        .map(|kind| vec![kind.name.to_string(), threads(kind).into(), kind.about.to_string()])
        .collect();
    let notes = vec![Block::Paragraph(THREADS.into())];
    Listing { heads: &["name", "threads", "about"], rows, notes, ..Listing::default() }
}

const THREADS: &str = "threads: 'any' supports --threads N; 'fixed' has a number set by its own parameters (fsdyno show workload NAME lists it for each phase)";

/// Returns `any` if the workload supports --threads N with its default parameters, `fixed` if its own parameters
/// determine the number.
fn threads(kind: &fsdyno_workload::workloads::Kind) -> &'static str {
    if kind.has_shared_phase() { "any" } else { "fixed" }
}

/// A file system, and the venues that can run it.
struct FilesystemRow {
    name: &'static str,
    about: &'static str,
    /// The backing of the file system: a block device, memory, or a directory.
    backing: &'static str,
    lab: CanRun,
    host: CanRun,
    /// Its entry in the catalog, or `None` if it is a model.
    kind: Option<&'static Filesystem>,
}

/// Returns the file systems of the catalog, followed by the models.
fn filesystem_rows(host: &Capabilities) -> Vec<FilesystemRow> {
    let kinds = fsdyno_filesystem::catalog::all().iter().map(|kind| FilesystemRow {
        name: &kind.name,
        about: &kind.about,
        backing: capabilities::backing(kind),
        lab: host.in_lab(kind),
        host: host.on_host(kind),
        kind: Some(kind),
    });
    let models = fsdyno_ext2dir::find::ALL.iter().map(|variant| FilesystemRow {
        name: variant.name,
        about: variant.about,
        backing: "a model in this program",
        lab: capabilities::model_support(),
        host: capabilities::model_support(),
        kind: None,
    });
    kinds.chain(models).collect()
}

/// Lists the file systems with the venues that can run them, followed by the reasons why others cannot.
pub fn filesystems() -> Listing {
    let host = Capabilities::inspect();
    let filesystem_rows = filesystem_rows(&host);
    let yes_or_no = |venue: &CanRun| if venue.is_possible { "yes" } else { "no" };
    let rows = filesystem_rows.iter().map(|row| {
        let linux = row.kind.map_or("-".to_string(), releases);
        [row.name, yes_or_no(&row.lab), yes_or_no(&row.host), row.backing, &linux, row.about]
            .map(String::from)
            .to_vec()
    });
    let kernel = host.lab_kernel().unwrap_or("the one that the first run downloads");
    let notes = vec![
        Block::Items(vec![
            format!("lab: with the default kernel, {kernel}; for others see --kernel"),
            "host: made and mounted by this host; --on DIR runs on the file system mounted there"
                .into(),
        ]),
        Block::List("", filesystem_rows.iter().flat_map(FilesystemRow::reasons).collect()),
    ];
    Listing {
        heads: &["name", "lab", "host", "backing", "linux", "about"],
        rows: rows.collect(),
        notes,
        value: Some(filesystem_rows.iter().map(FilesystemRow::json).collect()),
        ..Listing::default()
    }
}

impl FilesystemRow {
    fn json(&self) -> Value {
        let value = |place: &CanRun| json!({"can": place.is_possible, "why": place.reason, "cure": place.remedy});
        json!({
            "name": self.name, "about": self.about, "lies_on": self.backing,
            "model": self.kind.is_none(),
            "userspace": self.kind.is_some_and(Filesystem::in_user_space),
            "since": self.kind.map(|kind| &kind.since),
            "until": self.kind.and_then(|kind| kind.until.as_ref()),
            "lab": value(&self.lab), "host": value(&self.host),
        })
    }

    /// Returns the reasons why the file system cannot run: one per venue, or one for both venues.
    fn reasons(&self) -> Vec<String> {
        let places = match self.lab == self.host {
            true => vec![("", &self.lab)],
            false => vec![(" in the lab", &self.lab), (" on this host", &self.host)],
        };
        let lines = places.into_iter().filter_map(|(place, can)| {
            let cure = can.remedy.as_ref().map(|cure| format!("  ->  {cure}")).unwrap_or_default();
            Some(format!("{}{place}: {}{cure}", self.name, can.reason.as_ref()?))
        });
        lines.collect()
    }
}

/// Returns the releases of Linux that include a file system: `2.4.1 to 6.12`.
fn releases(kind: &Filesystem) -> String {
    match &kind.until {
        Some(until) => format!("{} to {until}", kind.since),
        None => format!("{} on", kind.since),
    }
}

/// Lists the machines.
///
/// # Errors
/// An invalid file of the catalog.
pub fn machines() -> Result<Listing, Failure> {
    let mut rows = Vec::new();
    for name in fsdyno_machine::names() {
        let machine = fsdyno_machine::find(name)?;
        let (cpu, ram) = (machine.cpu.to_string(), machine.ram.to_string());
        rows.push(vec![name.to_string(), machine.disk, cpu, ram, machine.about]);
    }
    let notes = vec![Block::Paragraph(MACHINES.into())];
    let heads = &["name", "disk", "cpu", "ram", "about"];
    Ok(Listing { heads, rows, notes, ..Listing::default() })
}

const MACHINES: &str =
    "sources: fsdyno show machine NAME; cpu: a processor profile, or instructions per nanosecond";

/// Lists the modelled disks.
///
/// # Errors
/// An invalid file of the catalog.
pub fn disks() -> Result<Listing, Failure> {
    let mut rows = Vec::new();
    for name in fsdyno_disk::catalog::names() {
        let spec = fsdyno_disk::catalog::get(name)
            .map_err(|error| Failure::invalid_use(format!("failed to {error}")))?;
        rows.push(vec![name.to_string(), spec.capacity.to_string(), spec.about]);
    }
    Ok(Listing { heads: &["name", "capacity", "about"], rows, ..Listing::default() })
}

/// Lists the processor profiles.
///
/// # Errors
/// An invalid file of the catalog.
pub fn processors() -> Result<Listing, Failure> {
    let mut rows = Vec::new();
    for name in fsdyno_processor::names() {
        let profile = fsdyno_processor::profile(name)?;
        let estimate = if profile.estimate { ", estimate" } else { "" };
        let error = profile.error_percent.map(|error| format!("{} %{estimate}", error.median));
        rows.push(vec![name.to_string(), error.unwrap_or_else(|| "-".into()), profile.about]);
    }
    Ok(Listing { heads: &["name", "error", "about"], rows, ..Listing::default() })
}

/// Lists the modelled networks.
///
/// # Errors
/// An invalid file of the catalog.
pub fn networks() -> Result<Listing, Failure> {
    let mut rows = Vec::new();
    for name in fsdyno_network::names() {
        rows.push(vec![name.to_string(), fsdyno_network::find(name)?.about]);
    }
    Ok(Listing { heads: &["name", "about"], rows, ..Listing::default() })
}

/// Lists the periods.
pub fn periods() -> Listing {
    let rows = fsdyno_filesystem::period::all().iter().map(|period| {
        let kinds: Vec<&str> = period.filesystem.keys().map(String::as_str).collect();
        vec![period.name.clone(), period.disk.clone(), kinds.join(" "), period.about.clone()]
    });
    let heads = &["name", "disk", "file systems", "about"];
    Listing { heads, rows: rows.collect(), ..Listing::default() }
}

/// Lists the studies that come with fsdyno.
///
/// # Errors
/// An invalid file of the catalog.
pub fn studies() -> Result<Listing, Failure> {
    let mut rows = Vec::new();
    for name in catalog::names() {
        let study = fsdyno_study::built_in(name)?;
        let year = study.year.map_or("-".to_string(), |year| year.to_string());
        let (runs, claims) = (study.runs.len().to_string(), study.claims.len().to_string());
        let prefix = |same_work: bool| if same_work { "" } else { "~" };
        let time = fsdyno_study::time_of(name);
        let time = time.map_or("-".into(), |estimate| {
            format!("{}{}", prefix(estimate.same_work), rough(estimate.time))
        });
        rows.push(vec![name.to_string(), year, runs, claims, time, study.title]);
    }
    let has_times = rows.iter().any(|row| row.get(4).is_some_and(|time| time != "-"));
    let notes = has_times.then(|| Block::Paragraph(TIME.into()));
    Ok(Listing {
        heads: &["name", "year", "runs", "claims", "time", "about"],
        rows,
        notes: notes.into_iter().collect(),
        empty: "this fsdyno includes no study; fsdyno study accepts the path of a study file",
        ..Listing::default()
    })
}

const TIME: &str = "time: of all trials, one after the other, and of the guests that boot once for --boot snapshot, as if none had booted yet; estimated from earlier trials on this machine, '~': roughly, from trials of other workloads; '-': unknown, because no such trial has run here; less with --scale and --jobs (fsdyno study NAME --dry-run)";

/// Lists the kernels on this host and in Debian's suites, newest first.
///
/// # Errors
/// An unusable cache folder.
pub fn available_kernels() -> Result<Listing, Failure> {
    let cache = fsdyno_lab::Cache::of_user()?;
    let progress = |line: &str| say(&format!("fsdyno: {line}"));
    let rows = fsdyno_lab::kernels_available(&cache, &progress)?.into_iter().map(|kernel| {
        let series = fsdyno_lab::Series::of(&kernel.release);
        let download = kernel.download.map_or("-".into(), |size| size.to_string());
        vec![series.map_or("-".into(), |series| series.to_string()), kernel.release, download]
    });
    let notes = vec![Block::Paragraph(DOWNLOAD.into())];
    let heads = &["series", "release", "download"];
    Ok(Listing { heads, rows: rows.collect(), notes, ..Listing::default() })
}

const DOWNLOAD: &str = "download: the size of the packages that --kernel downloads once; '-' for a kernel that is on this host. --kernel accepts a series, a release, and a range of series (5.10..7.3, all)";

/// Lists the JSON Schemas.
pub fn schemas() -> Listing {
    let rows =
        show::schemas().map(|schema| vec![schema.name.to_string(), schema.about.to_string()]);
    Listing { heads: &["name", "about"], rows: rows.collect(), ..Listing::default() }
}

/// Lists the kernels on this host.
///
/// # Errors
/// An unusable cache folder.
pub fn kernels() -> Result<Listing, Failure> {
    let rows = fsdyno_lab::local_kernels(&fsdyno_lab::Cache::of_user()?)
        .into_iter()
        .map(|kernel| {
            let built = match kernel.built_here() {
                names if names.is_empty() => "-".into(),
                names => names.join(", "),
            };
            vec![
                kernel.release,
                built,
                kernel.image.display().to_string(),
                kernel.modules.display().to_string(),
            ]
        })
        .collect();
    let empty = "no kernel yet; fsdyno run downloads the distribution's (apt-get download)";
    Ok(Listing {
        heads: &["release", "built", "image", "modules"],
        rows,
        empty,
        ..Listing::default()
    })
}
