//! The name and note of a result, in a separate file of its folder that no record, hash or identity covers.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use fsdyno_record::bounded::{self, WRITTEN};
use fsdyno_record::suggest;
use fsdyno_report::results_below;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::files::{pretty, write_file};
use crate::store::ABOUT as FILE;
use crate::target::RESULTS;

/// Maximum length of a name in characters, to keep tables readable.
const MAX_NAME: usize = 40;

/// Maximum length of a note in characters: a sentence or two.
const MAX_NOTE: usize = 300;

/// The name and note that a user gave a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The name that commands accept in place of the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A remark for human readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Checks a name; an empty string means no name.
///
/// # Errors
/// The reason why it is not a valid name.
pub fn parse_name(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let length = text.chars().count();
    match text.chars().find(|c| !is_allowed(*c)) {
        Some(c) => Err(format!("{c:?} cannot be in a name; use letters, digits, '.', '_' and '-'")),
        None if text.starts_with(['.', '-']) => {
            Err("a name begins with a letter, a digit or '_'".into())
        }
        None if length > MAX_NAME => {
            Err(format!("it has {length} characters, and a name has {MAX_NAME} at most"))
        }
        None => Ok(text.into()),
    }
}

/// Checks a note; an empty string means no note.
///
/// # Errors
/// The reason why it is not a valid note.
pub fn parse_note(text: &str) -> Result<String, String> {
    let length = text.chars().count();
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(format!("{c:?} cannot be in a note, which is one line of text")),
        None if length > MAX_NOTE => {
            Err(format!("it has {length} characters, and a note has {MAX_NOTE} at most"))
        }
        None => Ok(text.into()),
    }
}

impl About {
    /// Reads the name and note of a result; both are `None` if its folder has no such file.
    ///
    /// # Errors
    /// A file that is unreadable, or contains anything other than a name and a note.
    pub fn read(folder: &Path) -> Result<About, Failure> {
        let path = folder.join(FILE);
        let failed = |why: String| {
            Failure::invalid_use(format!("failed to read '{}': {why}", path.display()))
        };
        let text = match bounded::read_to_string(&path, &WRITTEN) {
            Ok(text) => text,
            Err(error)
                if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) =>
            {
                return Ok(About::default());
            }
            Err(error) => return Err(failed(error.to_string())),
        };
        let about: About =
            serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        let check = |text: &Option<String>, parse: fn(&str) -> Result<String, String>| match text {
            Some(text) => parse(text).map(drop).map_err(failed),
            None => Ok(()),
        };
        check(&about.name, parse_name)?;
        check(&about.note, parse_note)?;
        Ok(about)
    }

    /// Returns the name and note that a result is to have after a change; `None` if neither changes.
    ///
    /// # Errors
    /// Another result has the name, or the folder has a file that is not fsdyno's.
    pub fn requested(
        folder: &Path,
        name: Option<&str>,
        note: Option<&str>,
    ) -> Result<Option<About>, Failure> {
        if name.is_none() && note.is_none() {
            return Ok(None);
        }
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            check_free(name, folder)?;
        }
        About::read(folder).map(|about| Some(about.changed(name, note)))
    }

    /// Returns the name and note after a change: an empty string removes a value, `None` keeps it.
    #[must_use]
    pub fn changed(self, name: Option<&str>, note: Option<&str>) -> About {
        let new = |old: Option<String>, new: Option<&str>| match new {
            Some("") => None,
            Some(new) => Some(new.into()),
            None => old,
        };
        About { name: new(self.name, name), note: new(self.note, note) }
    }

    /// Stores the name and note in a result folder.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn store(&self, folder: &Path) -> Result<(), Failure> {
        let text = pretty(self)?;
        write_file(&folder.join(FILE), text + "\n")
    }
}

impl std::fmt::Display for About {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.name, &self.note) {
            (None, None) => write!(f, "no name and no note"),
            (Some(name), None) => write!(f, "named {name}"),
            (None, Some(note)) => write!(f, "noted: {note}"),
            (Some(name), Some(note)) => write!(f, "named {name}; noted: {note}"),
        }
    }
}

/// Refuses a name that another result in the default results folder has.
///
/// # Errors
/// A name that is taken; the message names the result that has it.
fn check_free(name: &str, folder: &Path) -> Result<(), Failure> {
    let is_this_folder = |other: &Path| match (other.canonicalize(), folder.canonicalize()) {
        (Ok(other), Ok(folder)) => other == folder,
        _ => false,
    };
    let results = results_with_names(Path::new(RESULTS));
    let holder = results.iter().find(|(path, names)| names.is(name) && !is_this_folder(path));
    holder.map_or(Ok(()), |(path, _)| {
        Err(Failure::invalid_use(format!(
            "'{name}' is the name of '{0}'; choose another name, or take it from that result: fsdyno note {0} --name ''",
            path.display()
        )))
    })
}

/// Returns the path of a result: the given path if it exists, else the result with that name in the default folder.
///
/// # Errors
/// A name that no result has, or that several have.
pub fn find(given: &Path) -> Result<PathBuf, Failure> {
    find_below(Path::new(RESULTS), given)
}

fn find_below(root: &Path, given: &Path) -> Result<PathBuf, Failure> {
    let mut parts = given.components();
    let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else {
        return Ok(given.into());
    };
    let Some(name) = name.to_str().filter(|_| given.symlink_metadata().is_err()) else {
        return Ok(given.into());
    };
    let results = results_with_names(root);
    let found: Vec<&PathBuf> =
        results.iter().filter(|(_, names)| names.is(name)).map(|(path, _)| path).collect();
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(Failure::invalid_use(unknown_message(root, name, &results))),
        several => {
            let list: Vec<String> = several.iter().map(|it| it.display().to_string()).collect();
            Err(Failure::invalid_use(format!(
                "several results have the name '{name}': {}; give the path of one",
                list.join(", ")
            )))
        }
    }
}

/// Returns the message for a name that no result has.
fn unknown_message(root: &Path, name: &str, results: &[(PathBuf, Names)]) -> String {
    let root = root.display();
    let known: Vec<&str> = results.iter().flat_map(|(_, names)| names.all()).collect();
    let hint = match suggest::nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None if results.is_empty() => "name a result folder or its trials.ndjson".into(),
        None => "fsdyno list results prints all".into(),
    };
    format!(
        "failed to find the result '{name}': no such path, and no such name below {root}; {hint}"
    )
}

/// The names by which a result can be found: its own, and that of its folder.
struct Names {
    name: Option<String>,
    folder: String,
}

impl Names {
    fn is(&self, name: &str) -> bool {
        self.all().any(|it| it == name)
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        let is_text = |name: &&str| !name.chars().any(char::is_control);
        self.name.iter().map(String::as_str).chain([self.folder.as_str()]).filter(is_text)
    }
}

/// Returns the results below a folder, with their names.
fn results_with_names(root: &Path) -> Vec<(PathBuf, Names)> {
    let names = |path: &Path| Names {
        // An unreadable file counts as having no name; `list results` reports it.
        name: About::read(path).ok().and_then(|about| about.name),
        folder: path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default(),
    };
    results_below(root).into_iter().map(|path| (path.clone(), names(&path))).collect()
}

#[cfg(test)]
mod tests {
    use fsdyno_record::lines::FILE as TRIALS;

    use super::*;

    /// Creates results in a temporary folder, each with its name, if it has one.
    fn results(all: &[(&str, Option<&str>)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (folder, name) in all {
            let folder = root.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(TRIALS), "").unwrap();
            About::default().changed(*name, None).store(&folder).unwrap();
        }
        root
    }

    #[test]
    fn a_result_is_found_by_its_name_that_of_its_folder_and_its_path() {
        let root = results(&[("2026-a", Some("before")), ("deep/2026-b", None)]);
        let found = |given: &str| find_below(root.path(), Path::new(given)).unwrap();
        assert_eq!(found("before"), root.path().join("2026-a"));
        assert_eq!(found("2026-b"), root.path().join("deep/2026-b"));
        // An existing path, and one that cannot be a name, are returned as given.
        assert_eq!(found("src"), Path::new("src"));
        assert_eq!(found("no/such"), Path::new("no/such"));
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest_one_and_an_ambiguous_one_with_its_paths() {
        let root = results(&[("a", Some("before")), ("b", Some("twice")), ("c", Some("twice"))]);
        let message = |root: &Path, given: &str| {
            find_below(root, Path::new(given))
                .unwrap_err()
                .message
                .replace(root.to_str().unwrap(), "R")
        };
        let unknown = message(root.path(), "befroe");
        assert!(unknown.ends_with("no such name below R; did you mean 'before'?"), "{unknown}");
        let ambiguous = message(root.path(), "twice");
        assert_eq!(
            ambiguous,
            "several results have the name 'twice': R/b, R/c; give the path of one"
        );
        let empty = message(&root.path().join("a"), "before");
        assert!(empty.ends_with("below R; name a result folder or its trials.ndjson"));
    }

    #[test]
    fn a_name_fits_a_command_line_and_a_note_is_one_line() {
        for (name, why) in [
            ("a b", "' ' cannot be in a name"),
            ("../x", "'/' cannot be in a name"),
            ("-x", "a name begins with"),
            (&"x".repeat(41), "it has 41 characters"),
        ] {
            let error = parse_name(name).unwrap_err();
            assert!(error.starts_with(why), "{name}: {error}");
        }
        assert_eq!(parse_name("v6.12_x-1"), Ok("v6.12_x-1".into()));
        assert!(parse_note("a\x1b[31m").unwrap_err().starts_with("'\\u{1b}' cannot be in a note"));
        assert!(parse_note(&"é".repeat(301)).unwrap_err().starts_with("it has 301 characters"));
        assert_eq!(parse_note("größer: 6.12"), Ok("größer: 6.12".into()));
    }

    #[test]
    fn an_empty_text_removes_a_value_and_a_foreign_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let read = || About::read(folder.path());
        assert_eq!(read().unwrap(), About::default());
        let both = About::default().changed(Some("x"), Some("a note"));
        both.store(folder.path()).unwrap();
        assert_eq!(read().unwrap(), both);
        let one = both.changed(Some(""), None);
        assert_eq!(one, About { name: None, note: Some("a note".into()) });
        for text in ["[1]", "{\"name\": \"a b\"}", "{\"note\": \"\\u001b[2J\"}"] {
            std::fs::write(folder.path().join(FILE), text).unwrap();
            let message = read().unwrap_err().message;
            assert!(message.starts_with("failed to read '"), "{message}");
        }
    }
}
