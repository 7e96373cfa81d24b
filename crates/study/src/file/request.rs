//! The conditions of a run as a typed request.

use fsdyno_axes::{AXES, Axis, whole_number};
use fsdyno_campaign::RunSpec;
use fsdyno_campaign::spec::{DEADLINES, REPEATS, SEEDS};
use fsdyno_filesystem::Author;

use super::conditions::{Conditions, RunOption};
use super::error::Spot;

/// A value that is invalid by itself, and its position in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidValue {
    /// The position of the value in the file.
    pub spot: Spot,
    /// The message: the value, the option, and the remedy.
    pub message: String,
}

impl Conditions {
    /// Replaces an option's values with those given on the command line; if there are none, keeps those of the file.
    pub fn replace(&mut self, option: &str, values: &[String], spot: Spot) {
        if values.is_empty() {
            return;
        }
        self.options.retain(|known| known.option != option);
        let options = values.iter().map(|value| RunOption {
            option: option.to_string(),
            value: Some(value.clone()),
            spot,
        });
        self.options.extend(options);
    }

    /// Returns the spec for `fsdyno run` with these conditions.
    ///
    /// # Errors
    /// The first value that is invalid by itself.
    pub fn request(&self, workload: &str) -> Result<RunSpec, InvalidValue> {
        let pair = |key: &str, value: &str| format!("{key}={value}");
        let mut run = RunSpec {
            author: Author::File,
            workloads: vec![workload.to_string()],
            parameters: self.set.iter().map(|setting| pair(&setting.key, &setting.value)).collect(),
            sysctls: self.sysctl.iter().map(|setting| pair(&setting.key, &setting.value)).collect(),
            ..RunSpec::default()
        };
        if let Some(axis) = Axis::of("fs") {
            for row in self.rows.iter().flatten() {
                // A label that equals the spec is omitted.
                let value = match row.label == row.spec {
                    true => row.spec.clone(),
                    false => pair(&row.label, &row.spec),
                };
                set_axis(&mut run, axis, &value, row.spot)?;
            }
        }
        // In the order of `AXES`, as on the command line.
        for axis in AXES.iter().filter(|axis| axis.key != "fs") {
            for option in self.options.iter().filter(|option| option.option == axis.key) {
                set_axis(&mut run, axis, option.value.as_deref().unwrap_or_default(), option.spot)?;
            }
        }
        for option in &self.options {
            set_option(&mut run, option)?;
        }
        Ok(run)
    }
}

/// Sets the value of an axis.
fn set_axis(run: &mut RunSpec, axis: &Axis, value: &str, spot: Spot) -> Result<(), InvalidValue> {
    let names = (axis.names)();
    let (key, value_name) = (axis.key, axis.value_name);
    if !names.is_empty() && names.iter().all(|(name, _)| *name != value) {
        let names = names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let message = format!(
            "invalid value '{value}' for '--{key} <{value_name}>'; [possible values: {names}]"
        );
        return Err(InvalidValue { spot, message });
    }
    axis.put(&mut run.axes, value).map_err(|error| invalid(value, (key, value_name), error, spot))
}

/// Sets the value of an option that is not an axis; an axis is ignored.
fn set_option(run: &mut RunSpec, option: &RunOption) -> Result<(), InvalidValue> {
    let value = option.value.as_deref().unwrap_or_default();
    let invalid_value = |name: &'static str| {
        move |error: String| invalid(value, (option.option.as_str(), name), error, option.spot)
    };
    match option.option.as_str() {
        "repeat" => run.repeat = whole_number::<u32>(REPEATS)(value).map_err(invalid_value("N"))?,
        "seed" => run.seed = whole_number::<u64>(SEEDS)(value).map_err(invalid_value("N"))?,
        "baseline" => run.baseline = Some(value.to_string()),
        "deadline" => {
            run.deadline =
                Some(whole_number::<u64>(DEADLINES)(value).map_err(invalid_value("SECONDS"))?);
        }
        "keep-log" => run.keep_log = true,
        _ => {}
    }
    Ok(())
}

/// Returns the error for a value, worded as on the command line.
fn invalid(
    value: &str,
    (key, value_name): (&str, &str),
    error: String,
    spot: Spot,
) -> InvalidValue {
    let message = format!("invalid value '{value}' for '--{key} <{value_name}>': {error}");
    InvalidValue { spot, message }
}

#[cfg(test)]
mod tests {
    use super::super::StudyFile;
    use super::*;

    fn request(run: &str) -> Result<RunSpec, InvalidValue> {
        let text = format!(
            "title = \"t\"\nquestion = \"q?\"\nsource = \"s\"\n[[run]]\nname = \"r\"\nworkload = \"dirops\"\n{run}\n"
        );
        let file = StudyFile::parse("s.toml", &text).unwrap();
        file.runs[0].common.request("dirops")
    }

    #[test]
    fn conditions_are_a_request_with_the_same_values() {
        let run = request(
            "threads = 4\nrepeat = 3\nseed = 9\nkeep-log = true\ndeadline = 60\nbaseline = \"a\"\n\
             disk = \"ssd-sata\"\nset = { files = 10 }\nfs = { a = \"ext4 -I 128\", ext4 = \"ext4\" }",
        )
        .unwrap();
        assert_eq!((run.axes.threads, run.repeat, run.seed, run.deadline), (4, 3, 9, Some(60)));
        assert_eq!((run.keep_log, run.baseline.as_deref()), (true, Some("a")));
        assert_eq!(run.axes.filesystems, ["a=ext4 -I 128", "ext4"]);
        assert_eq!(
            (run.axes.disks, run.parameters),
            (vec!["ssd-sata".into()], vec!["files=10".into()])
        );
        assert_eq!(run.author, Author::File);
    }

    #[test]
    fn an_invalid_value_has_its_position_whatever_its_message_says() {
        let error = request("threads = 4\nverify = \"ful\"").unwrap_err();
        assert_eq!(error.spot.line, 8);
        assert!(error.message.contains("invalid value 'ful' for '--verify"), "{}", error.message);
        let error = request("size = \"8 potatoes\"\nthreads = 4").unwrap_err();
        assert_eq!(error.spot.line, 7);
        assert!(error.message.contains("'--size <SIZE>': "), "{}", error.message);
        let error = request("repeat = 100000").unwrap_err();
        assert_eq!(
            error.message,
            "invalid value '100000' for '--repeat <N>': expected a whole number from 1 to 10,000"
        );
    }
}
