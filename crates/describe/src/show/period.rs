//! `fsdyno show period`: describes a year's settings, their sources, and the differences that no setting covers.

use fsdyno_campaign::Failure;
use fsdyno_filesystem::period::{self, Period, Settings};
use fsdyno_record::shell::quote;
use fsdyno_report::table::Prose;

use super::Shown;

/// Describes the period with this name, as text and as JSON.
///
/// # Errors
/// An unknown name.
pub fn period(name: &str, prose: Prose) -> Shown {
    let period = period::get(name)?;
    let value = serde_json::to_value(period).map_err(|error| {
        Failure::invalid_use(format!("failed to write period '{name}': {error}"))
    })?;
    Ok((text(period, prose), value))
}

fn text(period: &Period, prose: Prose) -> String {
    let mut text = format!("{}: {}\n\n", period.name, period.about);
    let sysctls: Vec<String> =
        period.sysctls.iter().map(|(key, value)| format!("{key}={value}")).collect();
    text.push_str(&prose.columns(&[
        vec!["kernel".into(), period.kernel.clone()],
        vec!["tools".into(), period.tools.clone()],
        vec!["disk".into(), format!("--disk {} (not set by --period)", period.disk)],
        vec!["sysctls".into(), sysctls.join(" ")],
    ]));
    text.push_str("\ndefaults by file system (explicit options override them):\n");
    for (kind, settings) in &period.filesystem {
        text.push_str(&prose.indented(&format!("{kind}: {}", as_spec(settings)), 2));
        for from in &settings.from {
            let line = format!("from {} on: {}", from.size, join_options(&from.mkfs));
            text.push_str(&prose.indented(&line, 6));
        }
        for (name, value) in &settings.env {
            text.push_str(&prose.indented(&format!("with {name}={value}"), 6));
        }
        if let Some(cache) = &settings.write_cache {
            text.push_str(&prose.indented(&format!("the disk's write cache: {cache}"), 6));
        }
    }
    text.push_str("\nnot covered by settings:\n");
    for lost in &period.lost {
        text.push_str(&prose.indented(lost, 2));
    }
    for (kind, settings) in &period.filesystem {
        for lost in &settings.lost {
            text.push_str(&prose.indented(&format!("{kind}: {lost}"), 2));
        }
    }
    text.push_str("\nsources ([MEM]: from memory, unconfirmed):\n");
    for source in &period.source {
        text.push_str(&prose.indented(&source.what, 2));
        text.push_str(&prose.indented(&source.from, 6));
    }
    text
}

/// Formats the settings in the syntax of a spec.
fn as_spec(settings: &Settings) -> String {
    let mount = match settings.mount.is_empty() {
        true => None,
        false => Some(format!("@ {}", settings.mount.join(","))),
    };
    let parts = [Some(join_options(&settings.mkfs)).filter(|options| !options.is_empty()), mount];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "current defaults".into() } else { parts.join(" ") }
}

fn join_options(options: &[String]) -> String {
    options.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}
