//! The grammar of a file system spec: `[NAME=]KIND [mkfs options...] [@ mount,options]`.
//!
//! Some kinds have a colon after their name instead: `overlayfs[,option...]:SPEC`, mounted over another file system;
//! `nfs:SPEC` and `smb:SPEC`, which share another file system over a network; and `fuse: [MKFS... ;] COMMAND...`,
//! mounted by a command.

use std::fmt;
use std::str::FromStr;

use fsdyno_record::suggest;

use crate::catalog::{self, Backing};
use crate::words::{self, Word};
use crate::{SpecError, mount, shared};

/// A parsed file system spec, such as `far=ext4 -J size=64 @ data=writeback,noatime`.
///
/// The words of a spec are quoted as in a shell. `Display` writes a form that parses to the same spec.
/// The catalog checks whether the kind and the options exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The name in tables, if given: letters, digits and `_ . + -`. Names of file systems are not allowed: a
    /// table row named `xfs` for an ext4 would be misleading.
    pub label: Option<String>,
    /// The name in the catalog.
    pub kind: String,
    /// Options for mkfs, one word each, as given; for FUSE, all words of the command.
    pub mkfs: Vec<String>,
    /// Mount options, one per element; a comma inside double quotes does not separate.
    pub mount: Vec<String>,
    /// The lower file system, if this one is mounted over another.
    pub below: Option<Box<Spec>>,
}

impl Spec {
    /// Parses a spec.
    ///
    /// # Errors
    /// A grammar error, with its column.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        let words = words::split(text)?;
        let Some((first, remaining)) = words.split_first() else {
            let kinds = catalog::names().join(", ");
            return Err(SpecError::at(
                1,
                "an empty spec",
                format!("the file systems are: {kinds}"),
            ));
        };
        let (label, word) = split_label(first)?;
        if let Some((head, remainder)) = word.text.split_once(':') {
            let column = word.column + head.chars().count() + 1;
            let remainder = Word { text: remainder.to_string(), column, at_sign: false };
            let remainder = Some(remainder).filter(|word| !word.text.is_empty());
            let words: Vec<Word> = remainder.into_iter().chain(remaining.iter().cloned()).collect();
            let head = Word { text: head.to_string(), ..word };
            return Ok(Spec { label, ..parse_with_colon(&head, &words)? });
        }
        Ok(Spec { label, ..parse_plain(&word, remaining)? })
    }

    /// Returns the name in tables: the label, or else the spec itself.
    pub fn name(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.unlabelled())
    }

    /// Returns true if the spec uses the second disk, `{journal}`.
    pub fn names_second_disk(&self) -> bool {
        let base = self.base();
        base.mkfs.iter().chain(&base.mount).any(|word| word.contains("{journal}"))
    }

    /// Returns the spec of the file system that mkfs makes: the lower one if this one is mounted over another.
    pub fn base(&self) -> &Spec {
        self.below.as_deref().map_or(self, Spec::base)
    }

    /// Returns the text of the spec without its label.
    pub fn unlabelled(&self) -> String {
        let mut text = self.kind.clone();
        if let Some(below) = self.below.as_ref().filter(|_| shared::protocol(&self.kind).is_some())
        {
            let mount = self.mount.iter().chain(&below.mount).cloned().collect();
            let below = Spec { mount, ..Spec::clone(below) };
            return format!("{text}:{}", below.unlabelled());
        }
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

/// Splits the first word into an optional `NAME=` and the remainder. After a comma or a colon, an equals sign belongs
/// to an option.
fn split_label(word: &Word) -> Result<(Option<String>, Word), SpecError> {
    let options_start = word.text.find([',', ':']).unwrap_or(word.text.len());
    match word.text.split_once('=') {
        Some((label, remaining)) if label.len() < options_start => {
            check_label(label, word.column)?;
            Ok((Some(label.to_string()), Word { text: remaining.to_string(), ..word.clone() }))
        }
        _ => Ok((None, word.clone())),
    }
}

/// Parses `KIND [mkfs options...] [@ mount,options]`.
fn parse_plain(head: &Word, remaining: &[Word]) -> Result<Spec, SpecError> {
    if let Some((name, remainder)) = head.text.split_once('@').filter(|(name, _)| is_name(name)) {
        let column = head.column + name.chars().count();
        let sign = Word { text: format!("@{remainder}"), column, at_sign: true };
        let remaining: Vec<Word> = [sign].into_iter().chain(remaining.iter().cloned()).collect();
        return parse_plain(&Word { text: name.to_string(), ..head.clone() }, &remaining);
    }
    let kind = parse_kind(head)?;
    for (backing, hint) in [
        (Backing::Filesystem, format!("write the lower file system, as in '{kind}:ext4 -I 256'")),
        (
            Backing::Command,
            format!("write its command, as in '{kind}: fuse2fs {{device}} {{mount}}'"),
        ),
    ] {
        if backing_of(&kind) == Some(backing) {
            return Err(SpecError::at(head.column, format!("'{kind}' is incomplete"), hint));
        }
    }
    let end = remaining.iter().position(|word| word.at_sign).unwrap_or(remaining.len());
    let (mkfs, mount) = remaining.split_at(end);
    let mkfs = mkfs.iter().map(|word| word.text.clone()).collect();
    Ok(Spec { label: None, kind, mkfs, mount: mount_options(mount)?, below: None })
}

/// Parses `KIND[,option...]:` and the words after it.
fn parse_with_colon(head: &Word, remaining: &[Word]) -> Result<Spec, SpecError> {
    let (name, options) = match head.text.split_once(',') {
        Some((name, options)) => (name, Some(options)),
        None => (head.text.as_str(), None),
    };
    let kind = parse_kind(&Word { text: name.to_string(), ..head.clone() })?;
    let column = head.column + kind.chars().count() + 1;
    let empty = |missing: &str, hint: &str| {
        SpecError::at(head.column, format!("no {missing} after '{}:'", head.text), hint)
    };
    let mut spec = Spec { label: None, kind, mkfs: vec![], mount: vec![], below: None };
    match backing_of(&spec.kind) {
        Some(Backing::Filesystem) => {
            let hint = "write them with commas and without blanks, as in 'overlayfs,volatile:ext4'";
            let items = options.map(mount::items).transpose();
            let items =
                items.map_err(|problem| SpecError::at(column, problem.to_string(), hint))?;
            spec.mount = items.unwrap_or_default();
            let (first, remaining) = remaining.split_first().ok_or_else(|| {
                let hint = format!("write the lower one, as in '{}:ext4'", head.text);
                empty("file system", &hint)
            })?;
            let mut below = parse_plain(first, remaining)?;
            if let Some(protocol) = shared::protocol(&spec.kind) {
                let (own, lower) =
                    below.mount.into_iter().partition(|option| protocol.has_option(option));
                below.mount = lower;
                spec.mount.extend::<Vec<String>>(own);
            }
            spec.below = Some(Box::new(below));
        }
        Some(Backing::Command) if options.is_none() => {
            spec.mkfs = remaining.iter().map(|word| word.text.clone()).collect();
            if spec.mkfs.is_empty() {
                return Err(empty("command", "write it, as in 'fuse: fuse2fs {device} {mount}'"));
            }
        }
        _ => {
            let problem = format!("'{}:' does not begin a spec", head.text);
            let hint = "only overlayfs[,option...], nfs, smb and fuse take a colon";
            return Err(SpecError::at(head.column, problem, hint));
        }
    }
    Ok(spec)
}

/// Parses the name of a kind, known or not.
fn parse_kind(word: &Word) -> Result<String, SpecError> {
    let kind = word.text.as_str();
    if !is_name(kind) || kind.starts_with('-') {
        if let Some(error) = misspelt(word) {
            return Err(error);
        }
        let problem = format!("'{kind}' is not a file system name");
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

/// Returns the error for a list of names of which one is misspelt.
fn misspelt(word: &Word) -> Option<SpecError> {
    let list = Some(word.text.as_str()).filter(|text| text.contains(','))?;
    let unknown = list.split(',').find(|part| catalog::get(part).is_err())?;
    let nearest = suggest::nearest(unknown, catalog::names())?;
    let column = word.column + list.find(unknown).unwrap_or(0);
    let problem = format!("there is no file system '{unknown}'");
    Some(SpecError::at(column, problem, format!("did you mean '{nearest}'?")))
}

fn backing_of(kind: &str) -> Option<Backing> {
    catalog::get(kind).ok().map(|filesystem| filesystem.lies_on)
}

fn is_command(kind: &str) -> bool {
    backing_of(kind) == Some(Backing::Command)
}

fn check_label(label: &str, column: usize) -> Result<(), SpecError> {
    if !is_name(label) {
        let problem = format!("the label '{label}' is invalid");
        return Err(SpecError::at(column, problem, "use letters, digits and _ . + -"));
    }
    if catalog::names().contains(&label) {
        let problem = format!("the label '{label}' is the name of a file system");
        return Err(SpecError::at(column, problem, format!("use another, such as my-{label}")));
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.+-".contains(c))
}

/// Parses the words that begin with the `@`; the options must be a single word.
fn mount_options(words: &[Word]) -> Result<Vec<String>, SpecError> {
    let Some((sign, remaining)) = words.split_first() else {
        return Ok(Vec::new());
    };
    let hint = "write them with commas and without blanks, as in '@ noatime,commit=30'";
    let attached = &sign.text[1..];
    let (options, column, extra) = match (attached.is_empty(), remaining.split_first()) {
        (false, _) => (attached, sign.column + 1, remaining.first()),
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
    fn example_specs_are_parsed() {
        assert_eq!(
            spec("ext4"),
            Spec { label: None, kind: "ext4".into(), mkfs: vec![], mount: vec![], below: None }
        );
        assert_eq!(spec("ext4 -I 128").mkfs, ["-I", "128"]);
        let ext3 = spec("ext3 -J size=64 @ data=writeback,noatime");
        assert_eq!(ext3.mkfs, ["-J", "size=64"]);
        assert_eq!(ext3.mount, ["data=writeback", "noatime"]);
        let far = spec("far=ext4 -J device={journal}");
        assert_eq!(far.label.as_deref(), Some("far"));
        assert_eq!(far.mkfs, ["-J", "device={journal}"]);
        assert_eq!(far.name(), "far");
        assert_eq!(far.unlabelled(), "ext4 -J device={journal}");
    }

    #[test]
    fn an_attached_at_sign_and_quoted_blanks_are_parsed() {
        assert_eq!(spec("xfs @noatime").mount, ["noatime"]);
        assert_eq!(spec("ext4 -L 'a b'").mkfs, ["-L", "a b"]);
        assert_eq!(spec("ext4 -L '@'").mkfs, ["-L", "@"]);
        let context = spec(r#"ext4 @ 'context="a,b",noatime'"#);
        assert_eq!(context.mount, [r#"context="a,b""#, "noatime"]);
    }

    #[test]
    fn an_overlay_has_options_separate_from_those_of_its_lower_file_system() {
        let overlay = spec("u=overlayfs,metacopy=on,volatile:ext4 -I 128 @ noatime");
        assert_eq!((overlay.label.as_deref(), overlay.kind.as_str()), (Some("u"), "overlayfs"));
        assert_eq!(overlay.mount, ["metacopy=on", "volatile"]);
        assert_eq!(overlay.base(), &spec("ext4 -I 128 @ noatime"));
        assert_eq!(overlay.unlabelled(), "overlayfs,metacopy=on,volatile:ext4 -I 128 @ noatime");
        assert_eq!(spec("overlayfs: xfs").base().kind, "xfs");
        assert_eq!(spec("overlayfs:tmpfs @ size=1g").to_string(), "overlayfs:tmpfs @ size=1g");
        assert!(spec("overlayfs:ext4 -J device={journal}").names_second_disk());
    }

    #[test]
    fn a_fuse_spec_keeps_all_words_of_its_command() {
        let fuse = spec("n=fuse: mkfs.x -L 'a b' {device} ; x {device} {mount} -o a=b");
        assert_eq!(fuse.kind, "fuse");
        assert_eq!(fuse.mkfs[..3], ["mkfs.x", "-L", "a b"]);
        assert_eq!(fuse.mkfs.last().map(String::as_str), Some("a=b"));
        assert_eq!(Spec::parse(&fuse.to_string()), Ok(fuse));
    }

    #[test]
    fn an_error_has_its_column() {
        for (text, column, expected) in [
            ("", 1, "ext4"),
            ("  ", 1, "empty"),
            ("xfs=ext4", 1, "name of a file system"),
            ("a b=ext4 @", 10, "no mount options"),
            ("a/b=ext4", 1, "letters"),
            ("-I 128", 1, "KIND"),
            ("ext4,noatime", 1, "mount options go after @, as in 'ext4 @ noatime'"),
            ("ext4,xsf", 6, "did you mean 'xfs'?"),
            ("ext4,xfs -f", 1, "give --fs once for each file system"),
            ("ext4 @ a b", 10, "'b' after"),
            ("ext4 @ a,,b", 8, "empty"),
            ("ext4 @ a @ b", 10, "after the mount"),
            ("ext4 -L \"x", 9, "never closed"),
            ("overlayfs", 1, "write the lower file system, as in 'overlayfs:ext4"),
            ("a=overlayfs:", 1, "no file system after 'overlayfs:'"),
            ("overlayfs,a,,b:ext4", 11, "empty"),
            ("overlayfs:-I 128", 11, "not a file system name"),
            ("overlayfs:overlayfs:ext4", 11, "not a file system name"),
            ("overlayfs:fuse x", 11, "'fuse' is incomplete"),
            ("fuse:", 1, "no command"),
            ("fuse,x: y", 1, "does not begin a spec"),
            ("ext4:xfs", 1, "take a colon"),
        ] {
            let error = Spec::parse(text).unwrap_err();
            assert_eq!(error.column, Some(column), "{text}: {error}");
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn the_parser_never_panics_and_a_parsed_spec_round_trips_through_display(text in ".*") {
            if let Ok(first) = Spec::parse(&text) {
                prop_assert_eq!(Spec::parse(&first.to_string()), Ok(first));
            }
        }

        #[test]
        fn every_spec_round_trips_through_its_text(
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
