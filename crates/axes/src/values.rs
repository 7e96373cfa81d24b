//! Helpers for the rows of the axis table: their defaults, reading values from plans, naming them, and parsing option
//! values.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use fsdyno_record::plan::{LabPlan, MediumPlan, NetworkPlan, Plan, Target};
use fsdyno_record::{Bytes, Count};

use crate::subject::Subject;
use crate::{Axis, Crash, Label, TargetKind, Value};

/// The defaults of the rows of the table.
pub(crate) const ROW: Axis = Axis {
    key: "",
    value_name: "",
    help: "",
    default: "",
    names: Vec::new,
    many: false,
    list: false,
    joined: false,
    targets: &[TargetKind::Lab],
    of_machine: false,
    unsupported_reason: "",
    crash: Crash::One,
    set: |_, _| Ok(()),
    value: |_| Value::Absent,
    labels: &[],
    setting: false,
    versions: false,
    names_rows: false,
};

/// The targets of an axis that all targets support.
pub(crate) const ALL_TARGETS: &[TargetKind] = &[
    TargetKind::Lab,
    TargetKind::Model,
    TargetKind::Directory,
    TargetKind::Ephemeral,
    TargetKind::Drive,
];

/// Returns a label with this text.
pub(crate) const fn label(text: fn(&Subject<'_>) -> Option<String>) -> Label {
    Label { text, within_label: false, of_machine: false, compared: false, condition: false }
}

/// Returns a label that counts only among rows with the same label.
pub(crate) const fn within_label(text: fn(&Subject<'_>) -> Option<String>) -> Label {
    Label { within_label: true, ..label(text) }
}

/// Returns a label for a part of a machine.
pub(crate) const fn machine_part(text: fn(&Subject<'_>) -> Option<String>) -> Label {
    Label { of_machine: true, ..label(text) }
}

impl Label {
    pub(crate) const fn compared(self) -> Label {
        Label { compared: true, ..self }
    }

    pub(crate) const fn condition(self) -> Label {
        Label { condition: true, ..self }
    }
}

pub(crate) fn default_or(value: impl ToString, is_default: bool) -> Value {
    Value::or_default((!is_default).then_some(value))
}

/// Returns a value of the lab; absent if the plan has no lab.
pub(crate) fn lab_value(plan: &Plan, value: fn(&LabPlan) -> Value) -> Value {
    plan.lab().map_or(Value::Absent, value)
}

pub(crate) fn parse<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// Returns the value with the given name.
pub(crate) fn parse_name<T: Copy>(all: &[(&str, &str, T)], text: &str) -> Result<T, String> {
    let found = all.iter().find(|(name, ..)| *name == text);
    found.map(|(_, _, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, ..)| *name).collect();
        format!("'{text}' is not one of {}", names.join(", "))
    })
}

/// Returns a parser of whole numbers within a range: `20000`, `20k`, `1M`, `1_000_000`.
pub fn whole_number<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let bounds = format!("from {} to {}", Count(*range.start()), Count(*range.end()));
        let Count(number) =
            text.parse().map_err(|error| format!("{error}; expected a number {bounds}"))?;
        let number = Some(number).filter(|number| range.contains(number));
        number
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| format!("expected a whole number {bounds}"))
    }
}

/// Splits text at commas.
///
/// # Errors
/// An empty part next to a comma.
pub fn parts(text: &str) -> Result<Vec<&str>, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    match parts.len() > 1 && parts.contains(&"") {
        true => Err("empty value before or after a comma".into()),
        false => Ok(parts),
    }
}

/// Returns the network with this name, or the one defined in this file.
pub(crate) fn network(text: &str) -> Result<NetworkPlan, String> {
    if text.is_empty() {
        let all = fsdyno_network::names().collect::<Vec<_>>().join(", ");
        return Err(format!("no network name given; available networks: {all}"));
    }
    fsdyno_network::plan(text).map_err(|error| error.to_string())
}

/// Returns the target as a condition: its kind instead of its path.
pub(crate) fn target(plan: &Plan) -> String {
    match plan.target() {
        Target::Path(_) if plan.medium.drive().is_some() => "drive".into(),
        Target::Path(_) => "directory".into(),
        target => target.to_string(),
    }
}

/// Returns the path after `--on`, if any.
pub(crate) fn path(plan: &Plan) -> Option<String> {
    plan.medium.directory().or(plan.medium.drive()).map(String::from)
}

/// Returns true if the file system is on disks that fsdyno provides, modelled or ephemeral.
pub(crate) fn on_disks(plan: &Plan) -> bool {
    !matches!(plan.medium, MediumPlan::Directory { .. } | MediumPlan::Memory { .. })
}

/// Returns the size of the file system as text; `None` on hosts, where the size of a device is part of its name.
pub(crate) fn size(plan: &Plan) -> Option<String> {
    let is_separate = !plan.on_hosts();
    let size: Option<Bytes> = plan.medium.size();
    let text = size.map_or("the whole disk".to_string(), |size| format!("file system of {size}"));
    is_separate.then_some(text)
}
