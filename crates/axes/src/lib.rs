//! The axes of a matrix, in one table from which options, keys of study files, labels, commands and columns are
//! derived.
//!
//! [`AXES`] has one row per axis. Each row defines an option of `fsdyno run` and `fsdyno crash`, a key of study files,
//! a label for table rows that differ in it, a setting in reports and the dry run if it is not the default, an option
//! of the repeat command in reports, and a CSV column. docs/adding/axis.md explains how to add an axis.

pub mod along;
pub mod naming;
mod percent;
mod request;
pub mod subject;
mod table;
mod values;
pub mod venue;

use std::cmp::Ordering;

use fsdyno_record::Plan;
use subject::Subject;

pub use percent::{Percent, parse_width};
pub use request::{DEFAULT_RAM, Request, Size, bytes};
pub use table::{AXES, MAX_CLIENTS, MAX_THREADS, TODAY};
pub use values::{parts, whole_number};
pub use venue::TargetKind;

/// The reason why options that change settings of a kernel work only in the lab ([`Axis::unsupported_reason`]).
pub const HOST_SETTINGS: &str =
    "; fsdyno records the settings of this host but does not change them";

/// An axis of a matrix: a user's choice that is part of a plan.
#[derive(Clone, Copy)]
pub struct Axis {
    /// The long option of the command line, and the key of study files.
    pub key: &'static str,
    /// The placeholder for its value in help texts.
    pub value_name: &'static str,
    /// The help text, without the default if [`Axis::default`] states it.
    pub help: &'static str,
    /// The value that plans omit, which is also that of an absent option unless a machine sets it
    /// ([`Axis::of_machine`]), or empty if it depends on other options.
    pub default: &'static str,
    /// The possible values, each with a description, or empty if there are too many to list.
    pub names: fn() -> Vec<(&'static str, &'static str)>,
    /// True if `fsdyno run` accepts it several times, with one configuration per value.
    pub many: bool,
    /// True if a value may be a list, separated by commas ([`Axis::parts`]).
    pub list: bool,
    /// True if the command that repeats several trials includes all their values, false if it includes only one.
    pub joined: bool,
    /// The targets that support it.
    pub targets: &'static [TargetKind],
    /// True if a machine has a value for it, which is then the default.
    pub of_machine: bool,
    /// The reason why other targets do not support it, after a semicolon, or empty if obvious.
    pub unsupported_reason: &'static str,
    /// Its support in `fsdyno crash`.
    pub crash: Crash,
    /// Parses a value into a request.
    pub set: fn(&mut Request, &str) -> Result<(), String>,
    /// Returns its value in a plan.
    pub value: fn(&Plan) -> Value,
    /// The parts of a row's name that its value determines.
    pub labels: &'static [Label],
    /// True if report headers and the dry run show its labels, unless it has the default.
    pub setting: bool,
    /// True if its values are versions, which outputs along it sort as versions instead of in the order of the command.
    pub versions: bool,
    /// True if its value is the label of the row.
    pub names_rows: bool,
}

/// The axis whose values determine the values of other axes ([`Axis::of_machine`]).
const MACHINE: &str = "machine";

/// The value of an axis in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The axis does not apply to the plan.
    Absent,
    /// The default.
    Default,
    /// This value, in the form that the option takes.
    Set(String),
}

impl Value {
    /// Returns a value, or the default if there is none.
    pub fn or_default(value: Option<impl ToString>) -> Value {
        value.map_or(Value::Default, |value| Value::Set(value.to_string()))
    }

    /// Returns a value, or absence if there is none.
    pub fn or_absent(value: Option<impl ToString>) -> Value {
        value.map_or(Value::Absent, |value| Value::Set(value.to_string()))
    }
}

/// The support of an axis in `fsdyno crash`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// It takes one value.
    One,
    /// It takes several values.
    Many,
    /// It has no such option, for this reason.
    Unsupported(&'static str),
}

/// A part of a row's name: the value of a property in which rows may differ.
#[derive(Clone, Copy)]
pub struct Label {
    /// Returns the value as text; `None` if a subject lacks the property and therefore does not differ in it.
    pub text: fn(&Subject<'_>) -> Option<String>,
    /// True if a difference counts only among rows with the same label: between labels, the label expresses it.
    pub within_label: bool,
    /// True if it expresses a part of a machine: a difference counts only between rows of the same machine, and between
    /// these and rows without a machine.
    pub of_machine: bool,
    /// True if it may be the subject of a comparison of two results, rather than a condition.
    pub compared: bool,
    /// True if it is not part of the axis's value: it remains a condition of a comparison along the axis.
    pub condition: bool,
}

impl Axis {
    /// Returns the axis of an option.
    pub fn of(key: &str) -> Option<&'static Axis> {
        AXES.iter().find(|axis| axis.key == key)
    }

    /// Adds a value to a request.
    ///
    /// # Errors
    /// An invalid value.
    pub fn put(&self, request: &mut Request, value: &str) -> Result<(), String> {
        self.parts(value)?.into_iter().try_for_each(|part| (self.set)(request, part))?;
        let is_choice = value != self.default || self.of_machine;
        if is_choice && !request.explicit.contains(&self.key) {
            request.explicit.push(self.key);
        }
        Ok(())
    }

    /// Checks a value on its own.
    ///
    /// # Errors
    /// An invalid value.
    pub fn check(&self, value: &str) -> Result<(), String> {
        self.put(&mut Request::default(), value)
    }

    /// Splits a value into its parts, if the axis accepts several; a path is not split.
    ///
    /// # Errors
    /// An empty part next to a comma.
    pub fn parts<'v>(&self, value: &'v str) -> Result<Vec<&'v str>, String> {
        match self.list && !value.contains('/') {
            true => parts(value),
            false => Ok(vec![value]),
        }
    }

    /// Returns the help text, with the default.
    pub fn help_text(&self) -> String {
        match self.default.is_empty() || self.help.contains("[default: ") {
            true => self.help.to_string(),
            false => format!("{} [default: {}]", self.help, self.default),
        }
    }

    /// Returns the value in a plan as text, even if it is the default; `None` if the axis does not apply to the plan.
    pub fn text(&self, plan: &Plan) -> Option<String> {
        match (self.value)(plan) {
            Value::Absent => None,
            Value::Default => Some(self.default.to_string()),
            Value::Set(value) => Some(value),
        }
    }

    /// Returns the value of a subject as text, as in row names; `None` if the axis does not apply to the subject.
    pub fn words(&self, subject: &Subject<'_>) -> Option<String> {
        if self.names_rows {
            return Some(subject.plan.label.clone());
        }
        let value_labels = self.labels.iter().filter(|label| !label.condition);
        let labels: Vec<String> = value_labels.filter_map(|label| (label.text)(subject)).collect();
        (!labels.is_empty()).then(|| labels.join(", "))
    }

    /// Returns true if this axis sets the default of another axis, so that a step along it changes both.
    pub fn sets_default_of(&self, other: &Axis) -> bool {
        self.key == MACHINE && other.of_machine
    }

    /// Compares two values, given as text, as versions if the axis has versions; otherwise they are equal.
    pub fn compare(&self, one: &str, other: &str) -> Ordering {
        match self.versions {
            true => versions(one).cmp(&versions(other)),
            false => Ordering::Equal,
        }
    }

    /// Returns the labels of a plan, if the axis is a setting and its value is not the default.
    pub fn non_default_labels(&self, plan: &Plan) -> Option<String> {
        let Value::Set(value) = (self.value)(plan) else { return None };
        let subject = plan.into();
        let labels = self.labels.iter().filter_map(|label| (label.text)(&subject));
        let labels = labels.collect::<Vec<_>>().join(", ");
        // In addition to the name of a machine, each of its parts is listed.
        let of_machine = || self.of_machine && plan.lab().is_some_and(|lab| lab.machine.is_some());
        (self.setting && (value != self.default || of_machine())).then_some(labels)
    }
}

/// Splits a version into parts that compare by numeric value: 6.9 precedes 6.12.
fn versions(text: &str) -> Vec<(u64, &str)> {
    let parts = text.split(['.', '-', '+', '~', '_']);
    parts.map(|part| (part.parse().unwrap_or(0), part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers_and_other_values_are_not() {
        let kernel = Axis::of("kernel").unwrap();
        assert_eq!(kernel.compare("6.9.1-amd64", "6.12.43+deb13-amd64"), Ordering::Less);
        assert_eq!(kernel.compare("7.3.4", "6.12.43"), Ordering::Greater);
        assert_eq!(Axis::of("disk").unwrap().compare("b", "a"), Ordering::Equal);
    }

    #[test]
    fn several_values_are_separated_by_commas_and_a_path_is_a_single_value() {
        let put = |key: &str, value: &str| {
            let mut request = Request::default();
            Axis::of(key).unwrap().put(&mut request, value).map(|()| request)
        };
        assert_eq!(put("kernel", "6.1, 6.12").unwrap().kernels, ["6.1", "6.12"]);
        assert_eq!(put("kernel", "/boot/a,b").unwrap().kernels, ["/boot/a,b"]);
        assert_eq!(put("clients", "1,2,8").unwrap().clients, [1, 2, 8]);
        assert_eq!(put("network", "lan-1g,lan-10g").unwrap().networks.len(), 2);
        assert_eq!(put("kernel", "6.1,").unwrap_err(), "empty value before or after a comma");
        assert!(put("clients", "1,65").unwrap_err().contains("from 1 to 64"));
        assert!(Axis::of("threads").unwrap().check("1,2").is_err());
    }

    #[test]
    fn a_default_is_a_value_that_changes_nothing() {
        for axis in AXES {
            let mut request = Request::default();
            if axis.default.is_empty() || axis.many || axis.of_machine {
                continue;
            }
            axis.put(&mut request, axis.default).unwrap();
            assert_eq!(request, Request::default(), "{}", axis.key);
        }
    }

    #[test]
    fn each_axis_has_its_own_key_and_a_target() {
        for (index, axis) in AXES.iter().enumerate() {
            assert!(AXES[..index].iter().all(|other| other.key != axis.key), "{}", axis.key);
            assert!(axis.targets.contains(&TargetKind::Lab), "{}", axis.key);
            for (name, _) in (axis.names)() {
                assert_eq!(axis.check(name), Ok(()), "{} {name}", axis.key);
            }
        }
    }
}
