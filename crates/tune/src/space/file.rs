//! Parses the file that defines a space.

use std::collections::BTreeMap;

use fsdyno_catalog::one_line;
use serde::Deserialize;

use super::{
    AcceptedLoss, Conflict, Loss, MAX_OPTIONS, MAX_VALUES, Space, SpaceError, TuneOption, Value,
};

/// The maximum size of a space file, in bytes.
pub const MAX_FILE_SIZE: usize = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    filesystem: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    option: Vec<OptionEntry>,
    #[serde(default)]
    conflict: Vec<ConflictEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionEntry {
    name: String,
    #[serde(default)]
    about: String,
    /// The name of the default value, which sets nothing.
    default: String,
    #[serde(default)]
    value: Vec<ValueEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ValueEntry {
    name: String,
    #[serde(default)]
    mkfs: String,
    #[serde(default)]
    mount: String,
    #[serde(default)]
    sysctls: Vec<String>,
    scheduler: Option<String>,
    #[serde(default)]
    gives_up: BTreeMap<String, String>,
    since: Option<String>,
    until: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConflictEntry {
    between: (String, String),
    #[serde(default)]
    why: String,
}

impl Space {
    /// Parses the text of a space file, which error messages call `file_name`.
    ///
    /// # Errors
    /// The first error in the file.
    pub fn parse(text: &str, file_name: &str) -> Result<Space, SpaceError> {
        let file_error = |message: String| SpaceError::File(format!("{file_name}: {message}"));
        if text.len() > MAX_FILE_SIZE {
            return Err(file_error(format!("it is larger than {MAX_FILE_SIZE} bytes")));
        }
        let file: File =
            toml::from_str(text).map_err(|error| file_error(one_line(text, &error)))?;
        let mut space = Space {
            filesystem: file.filesystem,
            about: file.about,
            options: Vec::new(),
            conflicts: Vec::new(),
        };
        for entry in file.option {
            space.options.push(option(entry).map_err(file_error)?);
        }
        space.check_shape().map_err(file_error)?;
        for entry in file.conflict {
            let conflict = conflict(&space, &entry).map_err(file_error)?;
            space.conflicts.push(conflict);
        }
        space.check_values().map_err(file_error)?;
        Ok(space)
    }

    /// Checks counts and names.
    fn check_shape(&self) -> Result<(), String> {
        if self.options.is_empty() {
            return Err("it has no options; add at least one [[option]]".into());
        }
        if self.options.len() > MAX_OPTIONS {
            let count = self.options.len();
            return Err(format!("it has {count} options; at most {MAX_OPTIONS} are possible"));
        }
        for (index, option) in self.options.iter().enumerate() {
            check_name(&option.name, "option")?;
            if self.options[..index].iter().any(|other| other.name == option.name) {
                return Err(format!("option '{}' is given twice; give it once", option.name));
            }
            let count = option.values.len();
            if !(2..=MAX_VALUES).contains(&count) {
                return Err(format!(
                    "option '{}' has {} values besides its default; it needs 1 to {}",
                    option.name,
                    count.saturating_sub(1),
                    MAX_VALUES - 1
                ));
            }
            for (index, value) in option.values.iter().enumerate() {
                check_name(&value.name, "value")?;
                if option.values[..index].iter().any(|other| other.name == value.name) {
                    return Err(format!(
                        "option '{}' has value '{}' twice",
                        option.name, value.name
                    ));
                }
            }
        }
        Ok(())
    }
}

fn check_name(name: &str, noun: &str) -> Result<(), String> {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "_.+-:/".contains(letter);
    if !name.is_empty() && name.len() <= 40 && name.chars().all(is_allowed) {
        return Ok(());
    }
    Err(format!(
        "'{}' is not a valid {noun} name; a name has 1 to 40 characters: letters, digits and _.+-:/",
        name.escape_default()
    ))
}

fn option(entry: OptionEntry) -> Result<TuneOption, String> {
    let mut values = vec![Value { name: entry.default, ..Value::default() }];
    for value in entry.value {
        values.push(self::value(&entry.name, value)?);
    }
    Ok(TuneOption { name: entry.name, about: entry.about, values })
}

fn value(option: &str, entry: ValueEntry) -> Result<Value, String> {
    let context = format!("option '{option}', value '{}'", entry.name);
    let has_settings = !entry.mkfs.trim().is_empty()
        || !entry.mount.trim().is_empty()
        || !entry.sysctls.is_empty()
        || entry.scheduler.is_some();
    if !has_settings {
        return Err(format!("{context} sets nothing; give mkfs, mount, sysctls or scheduler"));
    }
    if let Some(invalid) = entry.sysctls.iter().find(|setting| !setting.contains('=')) {
        return Err(format!("{context}: sysctl '{invalid}' has no '='; write KEY=VALUE"));
    }
    let mut gives_up = Vec::new();
    for (name, why) in entry.gives_up {
        let known = Loss::ALL.iter().find(|(known, _)| *known == name);
        let Some((_, loss)) = known else {
            return Err(format!(
                "{context} gives up '{name}'; possible are: durability, security, compatibility"
            ));
        };
        gives_up.push(AcceptedLoss { loss: *loss, why });
    }
    for release in [&entry.since, &entry.until].into_iter().flatten() {
        if super::restrict::numbers(release).is_empty() {
            return Err(format!(
                "{context}: '{release}' is not a kernel release; write one such as 5.10"
            ));
        }
    }
    Ok(Value {
        name: entry.name,
        mkfs: entry.mkfs.trim().into(),
        mount: entry.mount.trim().into(),
        sysctls: entry.sysctls,
        scheduler: entry.scheduler,
        gives_up,
        since: entry.since,
        until: entry.until,
    })
}

fn conflict(space: &Space, entry: &ConflictEntry) -> Result<Conflict, String> {
    let parse = |text: &str| {
        let (option, value) = text
            .split_once('=')
            .ok_or_else(|| format!("conflict '{text}' is not valid; write OPTION=VALUE"))?;
        let option = space.option(option).map_err(|error| error.to_string())?;
        let value = space.value(option, value).map_err(|error| error.to_string())?;
        Ok::<_, String>((option, value))
    };
    let (first, second) = (parse(&entry.between.0)?, parse(&entry.between.1)?);
    if first.0 == second.0 {
        let (first, second) = &entry.between;
        return Err(format!(
            "conflict between {first} and {second}: two values of the same option cannot occur together"
        ));
    }
    if first.1 == 0 && second.1 == 0 {
        let (first, second) = &entry.between;
        return Err(format!(
            "conflict between {first} and {second}: both are defaults, which must be possible"
        ));
    }
    Ok(Conflict { one: first, other: second, why: entry.why.clone() })
}
