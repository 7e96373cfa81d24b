//! Expands `--set config=FILE`: the original program's own configuration file instead of parameters.

use std::collections::BTreeMap;
use std::path::Path;

use fsdyno_record::bounded::{self, WRITTEN};
use fsdyno_workload::workloads::Kind;

/// The settings of one workload: key → value.
pub type Settings = BTreeMap<String, String>;

/// The key that names the file.
pub const KEY: &str = "config";

/// Returns the settings with those of the file added. Other settings override the file, and the key `config` itself is
/// removed, so that the same work has the same plan, however it was specified.
///
/// # Errors
/// The error in the file, on one line with the file's name and the line number.
pub fn expand(kind: &Kind, settings: &Settings) -> Result<Settings, String> {
    let (Some(read), Some(file)) = (kind.config, settings.get(KEY)) else {
        return Ok(settings.clone());
    };
    let mut expanded = read(file, &read_contents)?;
    expanded.extend(settings.clone());
    expanded.remove(KEY);
    Ok(expanded)
}

fn read_contents(path: &str) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("it cannot be read: {error}");
    bounded::read(Path::new(path), &WRITTEN).map_err(failed)
}

#[cfg(test)]
mod tests {
    use fsdyno_workload::workloads::find;

    use super::*;

    fn expanded(text: &str, set: &[(&str, &str)]) -> Result<Settings, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("more"), "set seed 9\n").unwrap();
        let path = folder.path().join("pm.conf");
        std::fs::write(&path, text).unwrap();
        let mut settings: Settings =
            set.iter().map(|(key, value)| ((*key).to_string(), (*value).to_string())).collect();
        settings.insert(KEY.to_string(), path.to_str().unwrap().to_string());
        expand(find("postmark").unwrap(), &settings)
            .map_err(|error| error.replace(folder.path().to_str().unwrap(), "DIR"))
    }

    #[test]
    fn other_settings_override_the_file_and_the_file_leaves_no_trace() {
        let text = "set number 70\nset transactions 90\nload more\nrun\n";
        let settings = expanded(text, &[("number", "80"), ("gap", "sync")]).unwrap();
        let value = |key: &str| settings.get(key).map(String::as_str);
        assert_eq!((value("number"), value("transactions")), (Some("80"), Some("90")));
        assert_eq!((value("seed"), value("gap"), value(KEY)), (Some("9"), Some("sync"), None));
        let kind = find("postmark").unwrap();
        let resolve = |settings: &Settings| {
            let set: Vec<(&str, &str)> =
                settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            kind.resolve(&set).unwrap()
        };
        assert_eq!(resolve(&expanded("run\n", &[]).unwrap()), kind.resolve(&[]).unwrap());
        assert_ne!(resolve(&settings), kind.resolve(&[]).unwrap());
    }

    #[test]
    fn a_mistake_is_reported_with_file_and_line() {
        assert_eq!(
            expanded("run\nset number\n", &[]).unwrap_err(),
            "config 'DIR/pm.conf' line 2: 'set number' takes a whole number from 1 to 2147483647, \
             not ''"
        );
        let error = expanded("load nothing\n", &[]).unwrap_err();
        assert!(
            error.starts_with("config 'DIR/pm.conf' line 1: 'load' of 'DIR/nothing': it cannot")
        );
        let settings = Settings::from([(KEY.to_string(), "/".to_string())]);
        let error = expand(find("postmark").unwrap(), &settings).unwrap_err();
        assert_eq!(error, "config '/': it cannot be read: it is a folder; give the path of a file");
    }

    #[test]
    fn a_workload_without_such_files_keeps_the_key_which_is_refused_later() {
        let settings = Settings::from([(KEY.to_string(), "pm".to_string())]);
        assert_eq!(expand(find("dirops").unwrap(), &settings).unwrap(), settings);
    }
}
