//! What a user types for a file system: `[NAME=]KIND [mkfs options...] [@ mount,options]`.

use std::fmt;
use std::str::FromStr;

use crate::words::{self, Word};
use crate::{SpecError, catalog, mount};

/// A file system as it was typed, such as `far=ext4 -J size=64 @ data=writeback,noatime`.
///
/// The words of a spec are quoted like a shell's. A spec that parsed is shown (`Display`) in a form
/// that parses to the same spec. Whether the kind and the options exist is the catalog's to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The name in tables, if one was given: letters, digits and `_ . + -`, and not the name of a
    /// file system, because a row called `xfs` that is an ext4 would deceive its reader.
    pub label: Option<String>,
    /// The name in the catalog.
    pub kind: String,
    /// Options for mkfs, one word each, as typed.
    pub mkfs: Vec<String>,
    /// Mount options, one each; a comma inside double quotes does not part two.
    pub mount: Vec<String>,
}

impl Spec {
    /// Reads a spec.
    ///
    /// # Errors
    /// What does not fit the grammar, with its column.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        let words = words::split(text)?;
        let Some((first, rest)) = words.split_first() else {
            let kinds = catalog::names().join(", ");
            return Err(SpecError::at(1, "an empty spec", format!("there are: {kinds}")));
        };
        let (label, kind) = head(first)?;
        let end = rest.iter().position(|word| word.at_sign).unwrap_or(rest.len());
        let (mkfs, mount) = rest.split_at(end);
        Ok(Spec {
            label,
            kind,
            mkfs: mkfs.iter().map(|word| word.text.clone()).collect(),
            mount: mount_options(mount)?,
        })
    }

    /// The name in tables: the label, or else the spec itself.
    pub fn name(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.unlabelled())
    }

    /// Whether it names the second disk, `{journal}`.
    pub fn names_second_disk(&self) -> bool {
        self.mkfs.iter().chain(&self.mount).any(|word| word.contains("{journal}"))
    }

    /// The spec as a user would type it without a label.
    pub fn unlabelled(&self) -> String {
        let mut text = self.kind.clone();
        for word in &self.mkfs {
            text.push(' ');
            text.push_str(&words::quote(word));
        }
        if !self.mount.is_empty() {
            text.push_str(" @ ");
            text.push_str(&words::quote(&self.mount.join(",")));
        }
        text
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Spec, SpecError> {
        Spec::parse(text)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(label) = &self.label {
            write!(f, "{label}=")?;
        }
        f.write_str(&self.unlabelled())
    }
}

/// The first word: `KIND` or `NAME=KIND`.
fn head(word: &Word) -> Result<(Option<String>, String), SpecError> {
    let (label, kind) = match word.text.split_once('=') {
        Some((label, kind)) => (Some(label), kind),
        None => (None, word.text.as_str()),
    };
    if let Some(label) = label {
        check_label(label, word.column)?;
    }
    if !is_name(kind) || kind.starts_with('-') {
        let problem = format!("'{kind}' is no name of a file system");
        let hint = "a spec is [NAME=]KIND [mkfs options...] [@ mount,options]";
        return Err(SpecError::at(word.column, problem, hint));
    }
    Ok((label.map(String::from), kind.to_string()))
}

fn check_label(label: &str, column: usize) -> Result<(), SpecError> {
    if !is_name(label) {
        let problem = format!("the label '{label}'");
        return Err(SpecError::at(column, problem, "a label is letters, digits and _ . + -"));
    }
    if catalog::names().contains(&label) {
        let problem = format!("the label '{label}' is the name of a file system");
        return Err(SpecError::at(column, problem, format!("write my-{label}, for example")));
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.+-".contains(c))
}

/// The words from the `@` on, of which the options must be one.
fn mount_options(words: &[Word]) -> Result<Vec<String>, SpecError> {
    let Some((sign, rest)) = words.split_first() else {
        return Ok(Vec::new());
    };
    let hint = "write them with commas and without blanks, as in '@ noatime,commit=30'";
    let attached = &sign.text[1..];
    let (options, column, extra) = match (attached.is_empty(), rest.split_first()) {
        (false, _) => (attached, sign.column + 1, rest.first()),
        (true, Some((word, extra))) => (word.text.as_str(), word.column, extra.first()),
        (true, None) => return Err(SpecError::at(sign.column, "no mount options after @", hint)),
    };
    if let Some(word) = extra {
        let problem = format!("'{}' after the mount options", word.text);
        return Err(SpecError::at(word.column, problem, hint));
    }
    mount::items(options).map_err(|problem| SpecError::at(column, problem.to_string(), hint))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spec(text: &str) -> Spec {
        Spec::parse(text).unwrap()
    }

    #[test]
    fn the_examples_of_the_design_are_read() {
        assert_eq!(
            spec("ext4"),
            Spec { label: None, kind: "ext4".into(), mkfs: vec![], mount: vec![] }
        );
        assert_eq!(spec("ext4 -I 128").mkfs, ["-I", "128"]);
        let both = spec("ext3 -J size=64 @ data=writeback,noatime");
        assert_eq!(both.mkfs, ["-J", "size=64"]);
        assert_eq!(both.mount, ["data=writeback", "noatime"]);
        let far = spec("far=ext4 -J device={journal}");
        assert_eq!(far.label.as_deref(), Some("far"));
        assert_eq!(far.mkfs, ["-J", "device={journal}"]);
        assert_eq!(far.name(), "far");
        assert_eq!(far.unlabelled(), "ext4 -J device={journal}");
    }

    #[test]
    fn an_attached_at_sign_and_quoted_blanks_are_understood() {
        assert_eq!(spec("xfs @noatime").mount, ["noatime"]);
        assert_eq!(spec("ext4 -L 'a b'").mkfs, ["-L", "a b"]);
        assert_eq!(spec("ext4 -L '@'").mkfs, ["-L", "@"]);
        let context = spec(r#"ext4 @ 'context="a,b",noatime'"#);
        assert_eq!(context.mount, [r#"context="a,b""#, "noatime"]);
    }

    #[test]
    fn a_mistake_is_named_with_its_column() {
        for (text, column, part) in [
            ("", 1, "ext4"),
            ("  ", 1, "empty"),
            ("xfs=ext4", 1, "name of a file system"),
            ("a b=ext4 @", 10, "no mount options"),
            ("a/b=ext4", 1, "letters"),
            ("-I 128", 1, "KIND"),
            ("ext4 @ a b", 10, "'b' after"),
            ("ext4 @ a,,b", 8, "empty"),
            ("ext4 @ a @ b", 10, "after the mount"),
            ("ext4 -L \"x", 9, "never closed"),
        ] {
            let error = Spec::parse(text).unwrap_err();
            assert_eq!(error.column, Some(column), "{text}: {error}");
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic_and_what_parses_is_shown_as_it_is_read(text in ".*") {
            if let Ok(first) = Spec::parse(&text) {
                prop_assert_eq!(Spec::parse(&first.to_string()), Ok(first));
            }
        }

        #[test]
        fn every_spec_survives_its_own_text(
            label in proptest::option::of("[A-Z][A-Za-z0-9_.+-]{0,6}"),
            kind in "[a-z][a-z0-9]{0,8}",
            mkfs in proptest::collection::vec("[ -~é@]{0,8}", 0..4),
            mount in proptest::collection::vec("[!#-+--~ ]{1,8}", 0..4),
        ) {
            let spec = Spec { label, kind, mkfs, mount };
            prop_assert_eq!(Spec::parse(&spec.to_string()), Ok(spec));
        }
    }
}
