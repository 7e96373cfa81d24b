//! Resolves `--set [WORKLOAD.]KEY=VALUE` to workloads and their parameters.

use fsdyno_record::quote::short;
use fsdyno_record::suggest;
use fsdyno_workload::workloads::Kind;

use crate::config::{self, Settings};

/// An error in a setting, as one line of text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The setting contains no `=`.
    #[error(
        "--set '{}' has no value; write it as [WORKLOAD.]KEY=VALUE, such as files=1000",
        short(_0)
    )]
    NoValue(String),
    /// The workload before the dot is not requested.
    #[error(
        "--set '{}' is for workload '{}', which is not run; {hint}",
        short(setting),
        short(workload)
    )]
    OtherWorkload {
        /// The setting.
        setting: String,
        /// The part before the dot.
        workload: String,
        /// The nearest requested workload.
        hint: String,
    },
    /// No requested workload has such a parameter.
    #[error("no workload that is run has a parameter '{}'; {hint}", short(key))]
    UnknownKey {
        /// The key.
        key: String,
        /// The nearest valid key.
        hint: String,
    },
    /// One parameter is given two values.
    #[error(
        "--set gives {workload}.{} two values, '{}' and '{}'; keep one",
        short(key),
        short(first),
        short(second)
    )]
    Twice {
        /// The workload.
        workload: &'static str,
        /// The parameter.
        key: String,
        /// One value.
        first: String,
        /// The other value.
        second: String,
    },
}

/// Returns the settings of each workload in `kinds`, in the same order.
///
/// A key with a workload prefix applies to that workload and overrides the bare key; a bare key applies to every
/// workload that has such a parameter.
///
/// # Errors
/// The first invalid setting.
pub fn settings(
    kinds: &[&'static Kind],
    parameters: &[String],
) -> Result<Vec<Settings>, SettingError> {
    let mut bare = vec![Settings::new(); kinds.len()];
    let mut prefixed = bare.clone();
    for setting in parameters {
        let no_value = || SettingError::NoValue(setting.clone());
        let (name, value) = setting.split_once('=').ok_or_else(no_value)?;
        match name.split_once('.') {
            Some((workload, key)) => {
                let index = workload_index(kinds, setting, workload)?;
                insert_once(&mut prefixed[index], kinds[index], key, value)?;
            }
            None => {
                let owners = owners(kinds, name)?;
                for index in owners {
                    insert_once(&mut bare[index], kinds[index], name, value)?;
                }
            }
        }
    }
    for (bare, prefixed) in bare.iter_mut().zip(prefixed) {
        bare.extend(prefixed);
    }
    Ok(bare)
}

fn workload_index(kinds: &[&Kind], setting: &str, workload: &str) -> Result<usize, SettingError> {
    kinds.iter().position(|kind| kind.name == workload).ok_or_else(|| {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        SettingError::OtherWorkload {
            setting: setting.to_string(),
            workload: workload.to_string(),
            hint: suggest::hint(workload, names),
        }
    })
}

fn owners(kinds: &[&Kind], key: &str) -> Result<Vec<usize>, SettingError> {
    let has = |kind: &Kind| {
        kind.params.iter().any(|param| param.name == key)
            || (key == config::KEY && kind.config.is_some())
    };
    let owners: Vec<usize> = (0..kinds.len()).filter(|index| has(kinds[*index])).collect();
    if owners.is_empty() {
        let mut keys: Vec<&str> =
            kinds.iter().flat_map(|kind| kind.params.iter().map(|param| param.name)).collect();
        keys.extend(kinds.iter().filter(|kind| kind.config.is_some()).map(|_| config::KEY));
        keys.sort_unstable();
        keys.dedup();
        let hint = suggest::hint(key, keys);
        return Err(SettingError::UnknownKey { key: key.to_string(), hint });
    }
    Ok(owners)
}

fn insert_once(to: &mut Settings, kind: &Kind, key: &str, value: &str) -> Result<(), SettingError> {
    match to.insert(key.to_string(), value.to_string()) {
        Some(first) if first != value => Err(SettingError::Twice {
            workload: kind.name,
            key: key.to_string(),
            first,
            second: value.to_string(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_workload::workloads::find;

    use super::*;

    fn resolve_both(parameters: &[&str]) -> Result<Vec<Settings>, SettingError> {
        let kinds = [find("dirops").unwrap(), find("tarball").unwrap()];
        settings(&kinds, &parameters.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn a_bare_key_applies_to_all_workloads_that_have_it_and_a_prefixed_one_overrides_it() {
        let resolved = resolve_both(&["tarball.files=7", "files=5"]).unwrap();
        assert_eq!(resolved[0]["files"], "5");
        assert_eq!(resolved[1]["files"], "7");
    }

    #[test]
    fn a_configuration_file_applies_to_the_workloads_that_accept_one() {
        let kinds = [find("dirops").unwrap(), find("postmark").unwrap()];
        let resolved = settings(&kinds, &["config=pm.conf".to_string()]).unwrap();
        assert!(resolved[0].is_empty());
        assert_eq!(resolved[1]["config"], "pm.conf");
        let error = settings(&kinds, &["confg=pm.conf".to_string()]).unwrap_err();
        assert!(error.to_string().contains("did you mean 'config'?"), "{error}");
        assert!(matches!(resolve_both(&["config=pm.conf"]), Err(SettingError::UnknownKey { .. })));
    }

    #[test]
    fn invalid_settings_are_refused_with_the_nearest_valid_name() {
        assert!(resolve_both(&["fils=5"]).unwrap_err().to_string().contains("'files'"));
        assert!(resolve_both(&["tarbal.files=5"]).unwrap_err().to_string().contains("'tarball'"));
        assert!(matches!(resolve_both(&["files"]), Err(SettingError::NoValue(_))));
        assert!(matches!(resolve_both(&["files=1", "files=2"]), Err(SettingError::Twice { .. })));
    }
}
