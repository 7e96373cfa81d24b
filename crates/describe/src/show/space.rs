//! `fsdyno show space`: describes the options of a file system that `fsdyno tune` tries.

use fsdyno_campaign::Failure;
use fsdyno_record::bounded::{self, WRITTEN};
use fsdyno_report::table::Prose;
use fsdyno_tune::{Space, space};
use serde_json::{Value, json};
use std::path::Path;

use super::Shown;

/// Describes the space of a file system or in a file, as text and as JSON.
///
/// # Errors
/// An unknown name, or an invalid file.
pub fn space(name: &str, prose: Prose) -> Shown {
    let file = match name.contains('/') || name.ends_with(".toml") {
        true => bounded::read_to_string(Path::new(name), &WRITTEN)
            .map_err(|error| Failure::invalid_use(format!("failed to read '{name}': {error}")))?,
        false => space::text(name)?.to_string(),
    };
    let space = Space::parse(&file, name)?;
    let options: Vec<Value> = space.options.iter().map(option).collect();
    let value = json!({
        "filesystem": space.filesystem, "about": space.about, "combinations": space.combinations(),
        "options": options, "file": file,
    });
    Ok((text(&space, &file, prose), value))
}

fn option(option: &space::TuneOption) -> Value {
    let value = |value: &space::Value| {
        let losses = value
            .gives_up
            .iter()
            .map(|given_up| (given_up.loss.name().to_string(), json!(given_up.why)));
        json!({
            "name": value.name, "mkfs": value.mkfs, "mount": value.mount, "sysctls": value.sysctls,
            "scheduler": value.scheduler, "gives_up": losses.collect::<serde_json::Map<_, _>>(),
            "since": value.since, "until": value.until,
        })
    };
    let values: Vec<Value> = option.values.iter().map(value).collect();
    json!({ "name": option.name, "about": option.about, "values": values })
}

fn text(space: &Space, file: &str, prose: Prose) -> String {
    let mut text = format!("{}: {}\n\n", space.filesystem, space.about);
    let row = |option: &space::TuneOption| {
        let values = option.values.iter().map(|value| match value.is_unsafe() {
            true => format!("{} (unsafe)", value.name),
            false => value.name.clone(),
        });
        vec![option.name.clone(), values.collect::<Vec<_>>().join(", "), option.about.clone()]
    };
    text.push_str(&prose.columns(&space.options.iter().map(row).collect::<Vec<_>>()));
    text.push_str(&format!(
        "\n{} combinations; the first value of each option is the default.\n\
         \nits file (copy it, change it, and give its path to --space):\n\n",
        space.combinations()
    ));
    text.push_str(file);
    text
}
