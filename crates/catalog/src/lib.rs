//! Catalogs of TOML files that are part of the program; a user's file can be used in place of an entry.

mod file;

use std::path::Path;

use fsdyno_record::bounded::{self, WRITTEN};
use fsdyno_record::suggest;

pub use file::{FileError, Source, Text, one_line};

/// A catalog: files of one folder, by name.
#[derive(Clone, Copy, Debug)]
pub struct Catalog {
    /// The kind of its entries, such as "machine".
    pub kind: &'static str,
    /// Its folder in the project.
    pub folder: &'static str,
    /// Name and text of every entry, in listing order.
    pub rows: &'static [(&'static str, &'static str)],
}

/// An error when finding an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// The name is unknown.
    #[error("{name}: there is no {kind} with this name; {hint}")]
    Unknown {
        /// The kind of the entry.
        kind: &'static str,
        /// The requested name.
        name: String,
        /// The nearest name, or all names.
        hint: String,
    },
    /// The user's file cannot be read.
    #[error("{file}: cannot be read: {error}")]
    Unreadable {
        /// The file.
        file: String,
        /// The read error.
        error: String,
    },
    /// The content of the file is invalid.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Returns true if a name is the path of a file: it contains a slash or ends in `.toml`.
pub fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

impl Catalog {
    /// Returns the names of all entries, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        self.rows.iter().map(|(name, _)| *name)
    }

    /// Returns the text of an entry, with comments, by name or path.
    ///
    /// # Errors
    /// [`CatalogError::Unknown`] or [`CatalogError::Unreadable`].
    pub fn text(&self, name: &str) -> Result<String, CatalogError> {
        if is_path(name) {
            return bounded::read_to_string(Path::new(name), &WRITTEN).map_err(|error| {
                CatalogError::Unreadable { file: name.into(), error: error.to_string() }
            });
        }
        let row = self.rows.iter().find(|(known, _)| *known == name);
        row.map(|(_, text)| text.to_string()).ok_or_else(|| CatalogError::Unknown {
            kind: self.kind,
            name: name.into(),
            hint: suggest::hint(name, self.names()),
        })
    }

    /// Returns the path of an entry's file, as shown in messages.
    pub fn file(&self, name: &str) -> String {
        if is_path(name) { name.to_string() } else { format!("{}/{name}.toml", self.folder) }
    }

    /// Checks that each file of the catalog's folder below the project's `root` has a row, and each row a file.
    ///
    /// # Errors
    /// The files and the rows, if they differ.
    pub fn check_rows(&self, root: &Path) -> Result<(), String> {
        let folder = root.join(self.folder);
        let entries = std::fs::read_dir(&folder).map_err(|error| error.to_string())?;
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            let file = entry.ok()?.file_name().into_string().ok()?;
            file.strip_suffix(".toml").map(str::to_string)
        };
        let mut files: Vec<String> = entries.filter_map(name).collect();
        files.sort_unstable();
        let mut rows: Vec<&str> = self.names().collect();
        rows.sort_unstable();
        match files == rows {
            true => Ok(()),
            false => Err(format!("{} has the files {files:?} and the rows {rows:?}", self.folder)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CATALOG: Catalog =
        Catalog { kind: "colour", folder: "colours", rows: &[("red", "r"), ("green", "g")] };

    #[test]
    fn an_unknown_name_suggests_the_nearest_one_and_a_path_is_a_file() {
        assert_eq!(CATALOG.text("green").unwrap(), "g");
        assert_eq!(
            (CATALOG.file("red"), CATALOG.file("./my")),
            ("colours/red.toml".into(), "./my".into())
        );
        let error = CATALOG.text("gren").unwrap_err().to_string();
        assert_eq!(error, "gren: there is no colour with this name; did you mean 'green'?");
        let error = CATALOG.text("./no.toml").unwrap_err().to_string();
        assert!(error.starts_with("./no.toml: cannot be read: "), "{error}");
    }

    #[test]
    fn a_file_without_a_row_and_a_row_without_a_file_are_found() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("colours");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("red.toml"), "").unwrap();
        assert!(CATALOG.check_rows(root.path()).is_err());
        std::fs::write(folder.join("green.toml"), "").unwrap();
        assert_eq!(CATALOG.check_rows(root.path()), Ok(()));
        std::fs::write(folder.join("blue.toml"), "").unwrap();
        assert!(CATALOG.check_rows(root.path()).unwrap_err().contains("blue"));
    }
}
