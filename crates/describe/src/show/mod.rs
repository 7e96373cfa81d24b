//! Shows one item in full.

use fsdyno_campaign::Failure;
use fsdyno_disk::DiskSpec;
use fsdyno_disk::catalog::{CatalogError, UnknownDisk};
use fsdyno_disk::profile::{self, Profile};
use fsdyno_machine::Source;
use fsdyno_record::suggest;
use fsdyno_report::table::Prose;
use serde_json::{Value, json};

mod log;
mod machine;
mod model;
mod network;
mod period;
mod schema;
mod space;
mod study;
mod trace;
mod workload;

pub use log::log;
pub use machine::machine;
pub use network::network;
pub use period::period;
pub use schema::{all as schemas, schema};
pub use space::space;
pub use study::study;
pub use trace::trace;
pub use workload::workload;

/// Returns the sources of an item's values, and the item's file, as text.
fn origin(prose: Prose, sources: &[Source], option: &str, file: &str) -> String {
    let mut text = String::new();
    for source in sources {
        text.push_str(&prose.indented(&format!("{}: {}", source.what, source.from), 2));
    }
    text + &format!("\nits file (copy it, change it, and give its path to {option}):\n\n{file}")
}

/// The description of an item, as text and as JSON.
pub type Shown = Result<(String, Value), Failure>;

/// Shows the configuration that a user's own kernel needs.
///
/// # Errors
/// A name other than `config`.
pub fn kernel(name: &str) -> Shown {
    if name != "config" {
        return Err(Failure::invalid_use(format!(
            "unknown name '{name}' for a kernel; the only possible name is: config"
        )));
    }
    let options: serde_json::Map<String, Value> =
        fsdyno_lab::config::options().map(|(name, value)| (name.into(), value.into())).collect();
    Ok((fsdyno_lab::config::FRAGMENT.to_string(), Value::Object(options)))
}

/// Describes a file system of the catalog, or a model.
///
/// # Errors
/// An unknown name.
pub fn filesystem(name: &str, prose: Prose) -> Shown {
    if let Some(variant) = fsdyno_ext2dir::find::by_name(name) {
        return Ok(model::model(variant, prose));
    }
    let kind =
        fsdyno_filesystem::catalog::get(name).map_err(|error| unknown_filesystem(&error.name))?;
    let kernels = match &kind.until {
        Some(until) => format!("Linux {} to {until}", kind.since),
        None => format!("Linux {} and later", kind.since),
    };
    let in_lab = kind.lab.as_ref().map(|lab| format!("; in the lab {} and later", lab.since));
    let kernels = kernels + &in_lab.unwrap_or_default();
    let command = |argv: &[String]| match argv {
        [] => "(none)".to_string(),
        argv => argv.join(" "),
    };
    let (mkfs, check) = (command(&kind.mkfs.argv), command(&kind.check.argv));
    let mount = match kind.mount.command.as_slice() {
        [] => format!("-t {} {}", kind.mount.kind, options(&kind.mount.options)),
        argv => argv.join(" "),
    };
    let tools = match kind.tools.as_slice() {
        [] => "(none)".to_string(),
        tools => format!("{} (Debian package {})", tools.join(", "), kind.package),
    };
    let mut text = format!("{}: {}\n\n", kind.name, kind.about);
    text.push_str(&prose.columns(&[
        vec!["kernels".into(), kernels.clone()],
        vec!["modules".into(), kind.modules.join(", ")],
        vec!["tools".into(), tools],
        vec!["make".into(), mkfs.clone()],
        vec!["mount".into(), mount],
        vec!["check".into(), check],
        vec!["smallest".into(), kind.minimum_size.to_string()],
        vec!["longest name".into(), format!("{} bytes", kind.longest_name)],
    ]));
    let limits = kind.limits.as_ref().map(|known| limits(known, prose));
    text.push_str(limits.as_ref().map_or("", |(text, _)| text));
    text.push_str(&exit_codes(&kind.check));
    if !kind.lacks.is_empty() {
        text.push_str("\nunsupported:\n");
    }
    for (what, reason) in &kind.lacks {
        text.push_str(&format!("  {what}: {reason}\n"));
    }
    text.push_str(&format!("\n{}\n", kind.notes.trim()));
    let value = json!({
        "name": kind.name, "about": kind.about, "since": kind.since, "until": kind.until,
        "lab_since": kind.lab.as_ref().map(|lab| &lab.since),
        "modules": kind.modules, "package": kind.package, "tools": kind.tools,
        "mkfs": kind.mkfs.argv, "mount_command": kind.mount.command, "lacks": kind.lacks,
        "mount_type": kind.mount.kind, "mount_options": kind.mount.options,
        "check": kind.check.argv, "check_codes": kind.check.codes, "check_clean": kind.check.clean,
        "minimum_size": kind.minimum_size, "longest_name": kind.longest_name,
        "limits": limits.map(|(_, value)| value),
        "notes": kind.notes.trim(),
    });
    Ok((text, value))
}

fn unknown_filesystem(name: &str) -> Failure {
    let models = fsdyno_ext2dir::find::ALL.iter().map(|variant| variant.name);
    let names: Vec<&str> = fsdyno_filesystem::catalog::names().into_iter().chain(models).collect();
    let foreign = fsdyno_filesystem::lookup::foreign_hint(name);
    let hint = foreign.unwrap_or_else(|| suggest::hint(name, names));
    Failure::invalid_use(format!("unknown file system '{name}'; {hint}"))
}

/// Returns the meanings of a check's exit codes as text, which is empty if none are listed.
fn exit_codes(check: &fsdyno_filesystem::catalog::Check) -> String {
    let mut codes: Vec<_> = check.codes.iter().collect();
    codes.sort_by_key(|(code, _)| code.parse::<i32>().unwrap_or(i32::MAX));
    let mut text = String::new();
    if !codes.is_empty() {
        text.push_str("\nexit codes of the check:\n");
    }
    for (code, meaning) in codes {
        text.push_str(&format!("  {code}  {meaning}\n"));
    }
    text
}

/// Returns the size limits as text and as JSON.
fn limits(limits: &fsdyno_filesystem::catalog::Limits, prose: Prose) -> (String, Value) {
    let known = [
        ("file", Some(&limits.file)),
        ("filesystem", Some(&limits.filesystem)),
        ("files", Some(&limits.files)),
        ("directory", limits.directory.as_ref()),
    ];
    let mut text = "\nlimits (sources: the catalog's file):\n".to_string();
    let mut value = serde_json::Map::new();
    for (name, limit) in known.into_iter().filter_map(|(name, limit)| Some((name, limit?))) {
        let head = match name {
            "file" => "largest file",
            "filesystem" => "largest file system",
            "files" => "most files",
            _ => "in a directory",
        };
        text.push_str(&prose.indented(&format!("{head}: {limit}"), 2));
        value.insert(name.to_string(), json!(limit));
    }
    (text, value.into())
}

fn options(options: &str) -> String {
    if options.is_empty() { "(no options)".into() } else { format!("-o {options}") }
}

/// Shows a processor profile of the catalog or in a file.
///
/// # Errors
/// An unknown name, or an invalid file.
pub fn processor(name: &str) -> Shown {
    let text = fsdyno_processor::text(name)?;
    let profile = fsdyno_processor::profile(name)?;
    let value = serde_json::to_value(&profile).map_err(|error| {
        Failure::invalid_use(format!("failed to write processor '{name}': {error}"))
    })?;
    Ok((text, value))
}

/// Describes a disk profile of the catalog or in a file, with the rates that its model computes.
///
/// # Errors
/// An unknown name, or an invalid file.
pub fn disk(name: &str, prose: Prose) -> Shown {
    let (name, spec) = fsdyno_disk::catalog::find(name).map_err(|error| match error {
        CatalogError::Unknown(UnknownDisk { name, hint }) => {
            Failure::invalid_use(format!("unknown disk '{name}'; {hint}"))
        }
        other => Failure::invalid_use(format!("failed to {other}")),
    })?;
    let mut value = serde_json::to_value(&spec)
        .map_err(|error| Failure::invalid_use(format!("failed to write disk '{name}': {error}")))?;
    let mut text = format!("{name}: {}\n\n", spec.about);
    text.push_str(&settings(&spec, &value, prose));
    text.push_str("\nsources ([MEM]: from memory, unconfirmed):\n");
    for source in &spec.source {
        text.push_str(&prose.indented(&format!("{}: {}", source.what, source.value), 2));
        text.push_str(&prose.indented(&source.from, 6));
    }
    if !spec.model.takes_time() {
        text.push_str("\nevery request completes at once, so there are no rates\n");
        return Ok((text, value));
    }
    let profile = profile::profile(&spec, PROFILE_SEED);
    text.push_str(&rates(&profile, prose));
    value["computed"] = serde_json::to_value(&profile)
        .map_err(|error| Failure::invalid_use(format!("failed to write disk '{name}': {error}")))?;
    Ok((text, value))
}

/// The seed of the displayed rates. Another seed changes them by about 1 %.
const PROFILE_SEED: u64 = 1;

/// Returns every parameter of the profile, one per line.
fn settings(spec: &DiskSpec, value: &Value, prose: Prose) -> String {
    let unquoted = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Object(parts) => {
            let parts: Vec<String> =
                parts.iter().map(|(name, value)| format!("{name} {value}")).collect();
            parts.join(", ")
        }
        other => other.to_string(),
    };
    let mut rows = vec![
        vec!["capacity".to_string(), format!("{} ({} bytes)", spec.capacity, spec.capacity.0)],
        vec!["attach".to_string(), unquoted(&value["attach"])],
    ];
    for part in ["queue", "model"] {
        let parts = value[part].as_object().into_iter().flatten();
        rows.extend(parts.map(|(name, value)| vec![format!("{part}.{name}"), unquoted(value)]));
    }
    prose.columns(&rows)
}

/// Computes rates with the model, as text.
fn rates(profile: &Profile, prose: Prose) -> String {
    let row = |cells: &[&str]| cells.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut text = format!(
        "\ncomputed from the model (seed {}):\n\n\
         random requests of 4 KiB per second; writes including a final flush:\n",
        profile.seed
    );
    let mut rows = vec![row(&["  in flight", "read", "in 32 GiB", "write", "in 32 GiB"])];
    rows.extend(profile.random.iter().map(|rate| {
        let rates = [rate.reads, rate.reads_in_part, rate.writes, rate.writes_in_part];
        let mut cells = vec![format!("  {}", rate.depth)];
        cells.extend(rates.map(|rate| format!("{rate:.1}")));
        cells
    }));
    text.push_str(&prose.columns(&rows));
    text.push_str("\nsequential requests over 64 MiB, in MB/s (1,000,000 bytes per second):\n");
    let mut rows = vec![row(&["  from", "read", "write"])];
    rows.extend(profile.sequential.iter().map(|rate| {
        let mb = |rate| format!("{rate:.1}");
        vec![format!("  {}", rate.at), mb(rate.read_mb), mb(rate.write_mb)]
    }));
    text.push_str(&prose.columns(&rows));
    if let Some(writes) = profile.preconditioned_writes {
        text.push_str(&format!(
            "\nafter being filled and overwritten at random (prefilled_percent = 100): {writes:.1} random writes \
             of 4 KiB per second\n"
        ));
    }
    text
}
