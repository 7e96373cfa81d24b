//! Restricts a space according to the user's choice, the kernel, the target and the required safety.

use super::{Conflict, Loss, Space, SpaceError, Value};

/// The restrictions of a space.
#[derive(Clone, Debug, Default)]
pub struct Restriction {
    /// The options to try; all options if empty.
    pub only: Vec<String>,
    /// Options (`NAME`) or values (`NAME=VALUE`) not to try.
    pub exclude: Vec<String>,
    /// Options with a fixed value: `NAME=VALUE`.
    pub fix: Vec<String>,
    /// The kernel's release, if known.
    pub kernel: Option<String>,
    /// False if the target supports neither sysctls nor schedulers.
    pub settings: bool,
    /// True if values that give up durability or security are not tried.
    pub safe: bool,
}

/// A value that is not tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The option and its value: `NAME=VALUE`.
    pub what: String,
    /// The reason.
    pub why: String,
}

impl Space {
    /// Returns the part of a space that a restriction keeps, and the values that it drops. A fixed value becomes the
    /// default of all points.
    ///
    /// # Errors
    /// An unknown option or value; fixed values that are in conflict; no option left to try.
    pub fn restricted(&self, by: &Restriction) -> Result<(Space, Vec<Dropped>), SpaceError> {
        for name in &by.only {
            self.option(name)?;
        }
        let (kept_values, dropped) = self.select_values(by)?;
        let space = self.with_values(&kept_values);
        if space.combinations() < 2 {
            let filesystem = &self.filesystem;
            let message = format!(
                "no option of {filesystem} remains to be tried; remove --only, --exclude or --fix, or name other \
                 options there"
            );
            return Err(SpaceError::Choice(message));
        }
        if let Some(conflict) = space.conflict(&space.default_point()) {
            let name = |(option, value): (usize, u8)| {
                let option = &space.options[option];
                format!("{}={}", option.name, option.values[usize::from(value)].name)
            };
            let (first, second) = (name(conflict.one), name(conflict.other));
            let message =
                format!("--fix: {first} and {second} cannot be combined: {}", conflict.why);
            return Err(SpaceError::Choice(message));
        }
        Ok((space, dropped))
    }

    /// Returns the values of each option that a restriction keeps, and the values that it drops.
    fn select_values(&self, by: &Restriction) -> Result<(Vec<Vec<u8>>, Vec<Dropped>), SpaceError> {
        let excluded =
            by.exclude.iter().map(|text| self.choice(text)).collect::<Result<Vec<_>, _>>()?;
        let fixed = self.fixed_values(by)?;
        let mut dropped = Vec::new();
        let mut kept: Vec<Vec<u8>> = Vec::new();
        for (index, option) in self.options.iter().enumerate() {
            let mut values = vec![0];
            for (value, definition) in (0u8..).zip(&option.values).skip(1) {
                let reason = match () {
                    () if fixed.iter().any(|(option, _)| *option == index) => continue,
                    () if !by.only.is_empty() && !by.only.contains(&option.name) => continue,
                    () if excluded.contains(&(index, None))
                        || excluded.contains(&(index, Some(value))) =>
                    {
                        Some("excluded by --exclude".into())
                    }
                    () => reason(definition, by),
                };
                let name = format!("{}={}", option.name, definition.name);
                match reason {
                    Some(why) => dropped.push(Dropped { what: name, why }),
                    None => values.push(value),
                }
            }
            if let Some((_, value)) = fixed.iter().find(|(option, _)| *option == index) {
                values = vec![*value];
            }
            kept.push(values);
        }
        Ok((kept, dropped))
    }

    /// Returns the options with a fixed value.
    fn fixed_values(&self, by: &Restriction) -> Result<Vec<(usize, u8)>, SpaceError> {
        let parse = |text: &String| match self.choice(text)? {
            (option, Some(value)) => Ok((option, value)),
            (_, None) => {
                let message = format!("--fix {text} has no value; write --fix {text}=VALUE");
                Err(SpaceError::Choice(message))
            }
        };
        by.fix.iter().map(parse).collect()
    }

    /// Parses `NAME` or `NAME=VALUE`.
    fn choice(&self, text: &str) -> Result<(usize, Option<u8>), SpaceError> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let option = self.option(name)?;
        Ok((option, value.map(|value| self.value(option, value)).transpose()?))
    }

    /// Returns the space with only these values of each option. An option that has only one value left is kept, so that
    /// option indices do not change.
    pub fn with_values(&self, kept: &[Vec<u8>]) -> Space {
        let mut space = self.clone();
        for (option, kept) in space.options.iter_mut().zip(kept) {
            option.values =
                kept.iter().map(|value| option.values[usize::from(*value)].clone()).collect();
        }
        let new_index = |(option, value): (usize, u8)| {
            let index = kept[option].iter().position(|known| *known == value)?;
            Some((option, index as u8))
        };
        let conflicts = self.conflicts.iter().filter_map(|conflict| {
            let (first, second) = new_index(conflict.one).zip(new_index(conflict.other))?;
            Some(Conflict { one: first, other: second, why: conflict.why.clone() })
        });
        space.conflicts = conflicts.collect();
        space
    }

    /// Returns the space without one value.
    pub fn without(&self, option: usize, value: u8) -> Space {
        let values = |(index, definition): (usize, &super::TuneOption)| {
            (0..definition.values.len() as u8)
                .filter(|known| index != option || *known != value)
                .collect()
        };
        self.with_values(&self.options.iter().enumerate().map(values).collect::<Vec<_>>())
    }
}

fn reason(value: &Value, by: &Restriction) -> Option<String> {
    if !by.settings && (!value.sysctls.is_empty() || value.scheduler.is_some()) {
        return Some(
            "fsdyno does not change the settings of a host; only the lab can try it".into(),
        );
    }
    if let Some(kernel) = &by.kernel {
        let kernel_numbers = numbers(kernel);
        if let Some(since) = value.since.as_ref().filter(|since| kernel_numbers < numbers(since)) {
            return Some(format!(
                "kernel {kernel} does not support it; Linux {since} and later do"
            ));
        }
        // "6.11" includes 6.11.3.
        let is_exceeded = |until: &&String| {
            let until = numbers(until);
            kernel_numbers.iter().take(until.len()).copied().collect::<Vec<_>>() > until
        };
        if let Some(until) = value.until.as_ref().filter(is_exceeded) {
            return Some(format!("kernel {kernel} does not support it; Linux up to {until} did"));
        }
    }
    let lost = value.gives_up.iter().find(|loss| by.safe && loss.loss.is_unsafe())?;
    Some(format!("it gives up {}: {}; --unsafe allows it", lost.loss.name(), lost.why))
}

impl Value {
    /// Returns true if the value gives up something that a safe search does not allow.
    pub fn is_unsafe(&self) -> bool {
        self.gives_up.iter().any(|accepted| accepted.loss.is_unsafe())
    }

    /// Returns the reason for a loss of this kind, if the value accepts it.
    pub fn loss(&self, loss: Loss) -> Option<&str> {
        self.gives_up
            .iter()
            .find(|accepted| accepted.loss == loss)
            .map(|accepted| accepted.why.as_str())
    }
}

/// Returns the numbers of a kernel release, up to the first part that is not a number.
pub fn numbers(release: &str) -> Vec<u32> {
    let release = release.split(['-', '+']).next().unwrap_or_default();
    release.split('.').map_while(|part| part.parse().ok()).collect()
}
