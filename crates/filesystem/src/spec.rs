//! What a user types for a file system: `[NAME=]KIND [mkfs options...] [@ mount,options]`.
//!
//! Two kinds are typed otherwise, with a colon behind their name: one that lies over another,
//! `overlayfs[,option...]:SPEC`, and one that is a command, `fuse: [MKFS... ;] COMMAND...`.

use std::fmt;
use std::str::FromStr;

use crate::catalog::{self, Ground};
use crate::words::{self, Word};
use crate::{SpecError, mount};

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
    /// Options for mkfs, one word each, as typed; of a file system that is a command all its words.
    pub mkfs: Vec<String>,
    /// Mount options, one each; a comma inside double quotes does not part two.
    pub mount: Vec<String>,
    /// The file system that this one lies over.
    pub below: Option<Box<Spec>>,
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
        let (label, word) = label(first)?;
        if let Some((head, behind)) = word.text.split_once(':') {
            let column = word.column + head.chars().count() + 1;
            let behind = Word { text: behind.to_string(), column, at_sign: false };
            let behind = Some(behind).filter(|word| !word.text.is_empty());
            let words: Vec<Word> = behind.into_iter().chain(rest.iter().cloned()).collect();
            let head = Word { text: head.to_string(), ..word };
            return Ok(Spec { label, ..with_colon(&head, &words)? });
        }
        Ok(Spec { label, ..plain(&word, rest)? })
    }

    /// The name in tables: the label, or else the spec itself.
    pub fn name(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.unlabelled())
    }

    /// Whether it names the second disk, `{journal}`.
    pub fn names_second_disk(&self) -> bool {
        let made = self.made();
        made.mkfs.iter().chain(&made.mount).any(|word| word.contains("{journal}"))
    }

    /// The spec of the file system that is made: the one below, where this one lies over another.
    pub fn made(&self) -> &Spec {
        self.below.as_deref().map_or(self, Spec::made)
    }

    /// The spec as a user would type it without a label.
    pub fn unlabelled(&self) -> String {
        let mut text = self.kind.clone();
        if let Some(below) = &self.below {
            for option in &self.mount {
                text.push_str(&format!(",{option}"));
            }
            return format!("{}:{}", words::quote(&text), below.unlabelled());
        }
        if is_command(&self.kind) {
            text.push(':');
        }
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

/// The first word parted: `NAME=` if it begins so, and the rest of it. Behind a comma or a colon an
/// equals sign belongs to an option.
fn label(word: &Word) -> Result<(Option<String>, Word), SpecError> {
    let before = word.text.find([',', ':']).unwrap_or(word.text.len());
    match word.text.split_once('=') {
        Some((label, rest)) if label.len() < before => {
            check_label(label, word.column)?;
            Ok((Some(label.to_string()), Word { text: rest.to_string(), ..word.clone() }))
        }
        _ => Ok((None, word.clone())),
    }
}

/// `KIND [mkfs options...] [@ mount,options]`.
fn plain(head: &Word, rest: &[Word]) -> Result<Spec, SpecError> {
    let kind = kind(head)?;
    for (ground, right) in [
        (Ground::Filesystem, format!("write what it lies over, as in '{kind}:ext4 -I 256'")),
        (
            Ground::Command,
            format!("write its command, as in '{kind}: fuse2fs {{device}} {{mount}}'"),
        ),
    ] {
        if ground_of(&kind) == Some(ground) {
            return Err(SpecError::at(head.column, format!("'{kind}' alone"), right));
        }
    }
    let end = rest.iter().position(|word| word.at_sign).unwrap_or(rest.len());
    let (mkfs, mount) = rest.split_at(end);
    let mkfs = mkfs.iter().map(|word| word.text.clone()).collect();
    Ok(Spec { label: None, kind, mkfs, mount: mount_options(mount)?, below: None })
}

/// `KIND[,option...]` before a colon, and what stands behind it.
fn with_colon(head: &Word, rest: &[Word]) -> Result<Spec, SpecError> {
    let (name, options) = match head.text.split_once(',') {
        Some((name, options)) => (name, Some(options)),
        None => (head.text.as_str(), None),
    };
    let kind = kind(&Word { text: name.to_string(), ..head.clone() })?;
    let column = head.column + kind.chars().count() + 1;
    let empty = |what: &str, right: &str| {
        SpecError::at(head.column, format!("no {what} behind '{}:'", head.text), right)
    };
    let mut spec = Spec { label: None, kind, mkfs: vec![], mount: vec![], below: None };
    match ground_of(&spec.kind) {
        Some(Ground::Filesystem) => {
            let hint = "write them with commas and without blanks, as in 'overlayfs,volatile:ext4'";
            let items = options.map(mount::items).transpose();
            let items =
                items.map_err(|problem| SpecError::at(column, problem.to_string(), hint))?;
            spec.mount = items.unwrap_or_default();
            let (first, rest) = rest.split_first().ok_or_else(|| {
                empty("file system", "write the one below, as in 'overlayfs:ext4'")
            })?;
            spec.below = Some(Box::new(plain(first, rest)?));
        }
        Some(Ground::Command) if options.is_none() => {
            spec.mkfs = rest.iter().map(|word| word.text.clone()).collect();
            if spec.mkfs.is_empty() {
                return Err(empty("command", "write it, as in 'fuse: fuse2fs {device} {mount}'"));
            }
        }
        _ => {
            let problem = format!("'{}:' does not begin a spec", head.text);
            let hint = "a colon stands behind overlayfs[,option...] and behind fuse only";
            return Err(SpecError::at(head.column, problem, hint));
        }
    }
    Ok(spec)
}

/// The name of a kind, whether there is one or not.
fn kind(word: &Word) -> Result<String, SpecError> {
    let kind = word.text.as_str();
    if !is_name(kind) || kind.starts_with('-') {
        let problem = format!("'{kind}' is no name of a file system");
        let hint = match kind.contains(',') {
            true => {
                "give --fs once for each file system; mount options go after @, as in 'ext4 @ noatime'"
            }
            false => "a spec is [NAME=]KIND [mkfs options...] [@ mount,options]",
        };
        return Err(SpecError::at(word.column, problem, hint));
    }
    Ok(kind.to_string())
}

fn ground_of(kind: &str) -> Option<Ground> {
    catalog::get(kind).ok().map(|filesystem| filesystem.lies_on)
}

fn is_command(kind: &str) -> bool {
    ground_of(kind) == Some(Ground::Command)
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
            Spec { label: None, kind: "ext4".into(), mkfs: vec![], mount: vec![], below: None }
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
    fn one_lies_over_another_with_options_of_its_own() {
        let over = spec("u=overlayfs,metacopy=on,volatile:ext4 -I 128 @ noatime");
        assert_eq!((over.label.as_deref(), over.kind.as_str()), (Some("u"), "overlayfs"));
        assert_eq!(over.mount, ["metacopy=on", "volatile"]);
        assert_eq!(over.made(), &spec("ext4 -I 128 @ noatime"));
        assert_eq!(over.unlabelled(), "overlayfs,metacopy=on,volatile:ext4 -I 128 @ noatime");
        assert_eq!(spec("overlayfs: xfs").made().kind, "xfs");
        assert_eq!(spec("overlayfs:tmpfs @ size=1g").to_string(), "overlayfs:tmpfs @ size=1g");
        assert!(spec("overlayfs:ext4 -J device={journal}").names_second_disk());
    }

    #[test]
    fn one_is_a_command_with_all_its_words() {
        let fuse = spec("n=fuse: mkfs.x -L 'a b' {device} ; x {device} {mount} -o a=b");
        assert_eq!(fuse.kind, "fuse");
        assert_eq!(fuse.mkfs[..3], ["mkfs.x", "-L", "a b"]);
        assert_eq!(fuse.mkfs.last().map(String::as_str), Some("a=b"));
        assert_eq!(Spec::parse(&fuse.to_string()), Ok(fuse));
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
            ("ext4,noatime", 1, "mount options go after @, as in 'ext4 @ noatime'"),
            ("ext4,xfs -f", 1, "give --fs once for each file system"),
            ("ext4 @ a b", 10, "'b' after"),
            ("ext4 @ a,,b", 8, "empty"),
            ("ext4 @ a @ b", 10, "after the mount"),
            ("ext4 -L \"x", 9, "never closed"),
            ("overlayfs", 1, "write what it lies over, as in 'overlayfs:ext4"),
            ("a=overlayfs:", 1, "no file system behind 'overlayfs:'"),
            ("overlayfs,a,,b:ext4", 11, "empty"),
            ("overlayfs:-I 128", 11, "no name of a file system"),
            ("overlayfs:overlayfs:ext4", 11, "no name of a file system"),
            ("overlayfs:fuse x", 11, "'fuse' alone"),
            ("fuse:", 1, "no command"),
            ("fuse,x: y", 1, "does not begin a spec"),
            ("ext4:xfs", 1, "a colon stands behind"),
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
            let spec = Spec { label, kind, mkfs, mount, below: None };
            prop_assert_eq!(Spec::parse(&spec.to_string()), Ok(spec));
        }
    }
}
