//! What a file may say of a file system that is made on this host: no command, and no option that names one.
//!
//! A study may be of somebody else. In a guest of the lab it can do no harm; on this host its file systems are made
//! and mounted as root. What is typed on the command line is the user's own affair.

use crate::catalog::{self, Filesystem};
use crate::options::Item;
use crate::{Ground, Spec, SpecError};

/// Who wrote a spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Author {
    /// Whoever types the command.
    #[default]
    User,
    /// A file, which may be of somebody else.
    File,
}

/// Checks a spec of a file that is to be made on this host.
///
/// # Errors
/// A command; an option that the catalog marks as one for the command line only (`only_typed`).
pub fn check_on_host(spec: &Spec, author: Author) -> Result<(), SpecError> {
    if author == Author::User {
        return Ok(());
    }
    let specs = std::iter::successors(Some(spec), |spec| spec.below.as_deref());
    for spec in specs {
        // A kind that there is not is refused elsewhere, in better words.
        if let Ok(kind) = catalog::get(&spec.kind) {
            kind.check_of_file(spec)?;
        }
    }
    Ok(())
}

impl Filesystem {
    fn check_of_file(&self, spec: &Spec) -> Result<(), SpecError> {
        if self.lies_on == Ground::Command {
            let problem =
                format!("'{}:' is a command, and a file names none on this host", self.name);
            return Err(SpecError::new(problem, HINT));
        }
        let items = self.known().read("mkfs", &spec.mkfs)?;
        let mount = spec.mount.iter().map(|option| format!("mount {}", name_of(option)));
        let mut used = items.iter().flat_map(entries).chain(mount);
        match used.find_map(|name| self.only_typed.get_key_value(&name)) {
            Some((name, why)) => {
                let problem = format!("'{name}' stands in a file, and {why}");
                Err(SpecError::new(problem, HINT))
            }
            None => Ok(()),
        }
    }
}

const HINT: &str =
    "leave it out, let the run be in the lab, or type it yourself: fsdyno run --fs SPEC";

/// The names that the catalog has for an option and for the entries of its list: `-E`, `-E stride`.
fn entries(item: &Item) -> Vec<String> {
    let value = item.value.iter().flat_map(|value| value.split(','));
    let entry = |entry| format!("{} {}", item.option, name_of(entry));
    std::iter::once(item.option.clone()).chain(value.map(entry)).collect()
}

fn name_of(entry: &str) -> &str {
    entry.split('=').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;

    fn in_file(text: &str) -> Result<(), String> {
        let spec = Spec::parse(text).unwrap();
        check_on_host(&spec, Author::User).unwrap();
        check_on_host(&spec, Author::File).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_names_no_command_on_this_host() {
        let error =
            in_file("x=fuse: sh -c 'id > x' {device} ; fuse2fs {device} {mount}").unwrap_err();
        assert!(error.starts_with("'fuse:' is a command") && error.contains("type it yourself"));
    }

    #[test]
    fn options_that_load_code_or_reach_beyond_the_trial_are_only_typed() {
        for (text, option) in [
            ("fuse2fs @ modules=x/evil", "mount modules"),
            ("fuse2fs -b 4096 @ kernel_cache,fsname=x", "mount fsname"),
            ("fuse2fs @ auto_unmount", "mount auto_unmount"),
            ("ext4 @ noatime,errors=panic", "mount errors"),
            ("jfs @ iocharset=evil", "mount iocharset"),
            ("overlayfs:btrfs @ fatal_errors=panic", "mount fatal_errors"),
        ] {
            let error = in_file(text).unwrap_err();
            assert!(error.starts_with(&format!("'{option}' stands in a file")), "{text}: {error}");
        }
        for text in ["ext4 -E stride=4 -O ^dir_index @ noatime", "overlayfs,volatile:xfs", "tmpfs"]
        {
            in_file(text).unwrap();
        }
    }

    /// Words by which options of mkfs programs, drivers and FUSE name a file, a device or a piece of code.
    const REACHING: &[&str] = &[
        "modules",
        "fsname",
        "subtype",
        "path",
        "dev",
        "device",
        "dir",
        "file",
        "helper",
        "uhelper",
        "iocharset",
        "codepage",
        "loop",
        "offset",
        "auto_unmount",
        "fatal_errors",
        "errors",
        "name",
        "root",
    ];

    #[test]
    fn no_option_of_the_catalog_lets_a_file_reach_beyond_the_trial() {
        let reaches = |name: &str| {
            let mut parts = name.split(['_', '-']);
            REACHING.contains(&name) || parts.any(|part| REACHING.contains(&part))
        };
        // What is called alike and only says what lies on the file system itself.
        let harmless = [
            "root_owner",
            "root_perms",
            "root_selinux",
            "data_err",
            "time_offset",
            "max_dir_size_kb",
            "orphan_file",
            "orphan_file_size",
            "dir_index",
            "dir_nlink",
            "huge_file",
            "large_dir",
            "large_file",
        ];
        for kind in catalog::all().iter().filter(|kind| kind.lies_on == Ground::Device) {
            let (known, own) = (kind.known(), &kind.mount.known);
            let mount = if own.is_empty() { &known.mount } else { own };
            let mount =
                mount.iter().map(|name| (name.clone(), format!("{} @ {name}=x", kind.name)));
            let list = |(option, names): (&String, &Vec<String>)| {
                let one =
                    |name: &String| (name.clone(), format!("{} {option} {name}=x", kind.name));
                names.iter().map(one).collect::<Vec<_>>()
            };
            for (name, text) in mount.chain(known.lists.iter().flat_map(list)) {
                if !reaches(&name) || harmless.contains(&name.as_str()) {
                    continue;
                }
                let spec = Spec::parse(&text).unwrap();
                let planned = kind.plan(&spec, Context::Host, None);
                assert!(planned.is_err() || in_file(&text).is_err(), "{text} is taken from a file");
            }
        }
    }
}
