//! The built-in studies, one TOML file each.

use fsdyno_record::suggest;

use super::FileName;

/// All built-in studies in the order of `fsdyno list studies`: today's machines first, then publications by year, then
/// the claims that readers proposed, and the comparison of kernels. A new study needs a file and a row here.
const FILES: &[(&str, &str)] = &[
    ("today", include_str!("../../../../studies/today.toml")),
    ("phillips-2001", include_str!("../../../../studies/phillips-2001.toml")),
    ("maildir-2004", include_str!("../../../../studies/maildir-2004.toml")),
    ("linuxinsight-2006", include_str!("../../../../studies/linuxinsight-2006.toml")),
    ("guenter-2008", include_str!("../../../../studies/guenter-2008.toml")),
    ("layton-journal-size", include_str!("../../../../studies/layton-journal-size.toml")),
    ("wishes", include_str!("../../../../studies/wishes.toml")),
    ("kernels", include_str!("../../../../studies/kernels.toml")),
];

/// Returns the names of all built-in studies, in the order of `FILES`.
pub fn names() -> Vec<&'static str> {
    FILES.iter().map(|(name, _)| *name).collect()
}

/// Returns the text of the study with this name.
///
/// # Errors
/// [`Unknown`], with the nearest valid name.
pub fn text(name: &str) -> Result<&'static str, Unknown> {
    let found = FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    found.ok_or_else(|| Unknown { name: name.into(), hint: hint(name) })
}

/// Returns the nearest valid name, compared as a whole or by its first word (`phillips`), or else all names.
fn hint(name: &str) -> String {
    let first_word = |name: &'static str| name.split('-').next().unwrap_or(name);
    let by_first_word = || {
        let near = suggest::nearest(name, names().into_iter().map(first_word))?;
        names().into_iter().find(|candidate| first_word(candidate) == near)
    };
    match suggest::nearest(name, names()).or_else(by_first_word) {
        Some(near) => format!("did you mean '{near}'?"),
        None => suggest::hint(name, names()),
    }
}

/// Returns the file name of a built-in study, for error messages.
pub fn file_name(name: &str) -> FileName {
    FileName::BuiltIn(name.to_string())
}

/// An unknown study name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no study '{name}'; {hint} (or the path of your own file, such as ./my-study.toml)"
)]
pub struct Unknown {
    /// The requested name.
    pub name: String,
    /// The nearest valid name, or all names.
    pub hint: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::StudyFile;

    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies");

    #[test]
    fn every_study_can_be_parsed() {
        for (name, text) in FILES {
            let study = StudyFile::parse(file_name(name), text);
            let study = study.unwrap_or_else(|error| panic!("{error}"));
            let is_judged = !study.claims.is_empty() || !study.factors.is_empty();
            assert!(is_judged && !study.about.is_empty(), "{name}");
        }
    }

    #[test]
    fn an_unknown_study_gets_the_nearest_name_or_all_names() {
        for (name, expected) in [
            ("philips", "no study 'philips'; did you mean 'phillips-2001'? (or the path"),
            ("guenther-2008", "did you mean 'guenter-2008'?"),
            ("nothing-of-these", "there are: today, phillips-2001, "),
        ] {
            let error = text(name).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn every_study_in_the_folder_is_listed() {
        let files = std::fs::read_dir(FOLDER).into_iter().flatten().flatten();
        let mut files: Vec<String> = files
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(".toml").map(String::from))
            .collect();
        files.sort();
        let mut listed = names();
        listed.sort_unstable();
        assert_eq!(files, listed, "left: the folder studies/, right: FILES in file/catalog.rs");
    }
}
