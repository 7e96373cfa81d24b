//! Converts a point to the text of its options.

use fsdyno_filesystem::{Context, Spec, catalog};

use super::{Point, Space, Value};

/// The settings of a point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The file system with its options, in the syntax of `--fs`.
    pub spec: String,
    /// Arguments for mkfs.
    pub mkfs: String,
    /// Mount options, separated by commas.
    pub mount: String,
    /// Sysctls: `KEY=VALUE`.
    pub sysctls: Vec<String>,
    /// The block scheduler, or `None` for the disk's own.
    pub scheduler: Option<String>,
}

impl Space {
    /// Returns the values of a point. A default has no settings, unless `--fix` replaced it by another value.
    pub fn chosen<'s>(&'s self, point: &'s Point) -> impl Iterator<Item = &'s Value> {
        let pairs = self.options.iter().zip(&point.0);
        pairs.filter_map(|(option, value)| option.values.get(usize::from(*value)))
    }

    /// Returns the settings of a point. Values for the same option of mkfs, such as `-O`, are joined by a comma.
    pub fn configuration(&self, point: &Point) -> Configuration {
        let mut mkfs_options: Vec<(String, Vec<String>)> = Vec::new();
        let mut settings = Configuration::default();
        let mut mount = Vec::new();
        for value in self.chosen(point) {
            let mut words = value.mkfs.split_whitespace().peekable();
            while let Some(option) = words.next() {
                let argument = words.next_if(|word| !word.starts_with('-')).map(String::from);
                match mkfs_options.iter_mut().find(|(known, _)| known == option) {
                    Some((_, arguments)) => arguments.extend(argument),
                    None => mkfs_options.push((option.into(), argument.into_iter().collect())),
                }
            }
            if !value.mount.is_empty() {
                mount.push(value.mount.clone());
            }
            settings.sysctls.extend(value.sysctls.iter().cloned());
            settings.scheduler = value.scheduler.clone().or(settings.scheduler);
        }
        let mkfs_options =
            mkfs_options.into_iter().map(|(option, values)| match values.is_empty() {
                true => option,
                false => format!("{option} {}", values.join(",")),
            });
        settings.mkfs = mkfs_options.collect::<Vec<_>>().join(" ");
        settings.mount = mount.join(",");
        settings.spec.clone_from(&self.filesystem);
        if !settings.mkfs.is_empty() {
            settings.spec += &format!(" {}", settings.mkfs);
        }
        if !settings.mount.is_empty() {
            settings.spec += &format!(" @ {}", settings.mount);
        }
        settings
    }

    /// Checks each value against the catalog of file systems: alone, because no value may depend on another.
    pub(super) fn check_values(&self) -> Result<(), String> {
        let kind = catalog::get(&self.filesystem)
            .map_err(|error| format!("filesystem '{}': {error}", self.filesystem))?;
        for (index, option) in self.options.iter().enumerate() {
            for value in 1..option.values.len() as u8 {
                let point = self.default_point().with(index, value);
                let spec = self.configuration(&point).spec;
                let context = || {
                    format!(
                        "option '{}', value '{}'",
                        option.name,
                        option.values[usize::from(value)].name
                    )
                };
                let parsed = Spec::parse(&spec)
                    .map_err(|error| format!("{}: '{spec}': {error}", context()))?;
                if parsed.label.is_some() || parsed.kind != self.filesystem {
                    return Err(format!(
                        "{}: '{spec}' is not a specification of {}",
                        context(),
                        self.filesystem
                    ));
                }
                if let Some(key) =
                    parsed.mkfs.iter().chain(&parsed.mount).find(|word| word.contains('{'))
                {
                    return Err(format!(
                        "{}: '{key}' names a second disk, which a space must not",
                        context()
                    ));
                }
                // The newest tool is assumed: the search drops the values that the tool on this host refuses, with the
                // tool's message.
                kind.plan(&parsed, Context::Lab, Some("999.0"))
                    .map_err(|error| format!("{}: '{spec}': {error}", context()))?;
            }
        }
        Ok(())
    }
}
