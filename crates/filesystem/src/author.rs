//! Restrictions on specs from files when a file system is made on this host.
//!
//! A study file may come from someone else. In a guest of the lab it can do no harm; on this host, its file systems are
//! made and mounted as root, so it may contain neither commands nor options that load code or reach outside the trial.
//! The user's own command line is not restricted.

use crate::catalog::{self, Filesystem};
use crate::options::Item;
use crate::{Backing, Spec, SpecError};

/// The origin of a spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Author {
    /// The user's command line.
    #[default]
    User,
    /// A file, possibly written by someone else.
    File,
}

/// Checks a spec from a file for a file system on this host.
///
/// # Errors
/// A command, or an option that the catalog restricts to the command line (`only_typed`).
pub fn check_on_host(spec: &Spec, author: Author) -> Result<(), SpecError> {
    if author == Author::User {
        return Ok(());
    }
    let specs = std::iter::successors(Some(spec), |spec| spec.below.as_deref());
    for spec in specs {
        // Unknown kinds are reported elsewhere, with a hint.
        if let Ok(kind) = catalog::get(&spec.kind) {
            kind.check_file_spec(spec)?;
        }
    }
    Ok(())
}

impl Filesystem {
    fn check_file_spec(&self, spec: &Spec) -> Result<(), SpecError> {
        if self.lies_on == Backing::Command {
            let problem =
                format!("'{}:' is a command, which a file may not contain on this host", self.name);
            return Err(SpecError::new(problem, HINT));
        }
        let items = self.known().read("mkfs", &spec.mkfs)?;
        let mount = spec.mount.iter().map(|option| format!("mount {}", name_of(option)));
        let mut used = items.iter().flat_map(option_names).chain(mount);
        match used.find_map(|name| self.only_typed.get_key_value(&name)) {
            Some((name, reason)) => {
                let problem = format!("'{name}' is not allowed in a file: {reason}");
                Err(SpecError::new(problem, HINT))
            }
            None => Ok(()),
        }
    }
}

const HINT: &str =
    "remove it, run in the lab, or give it on the command line: fsdyno run --fs SPEC";

/// Returns the catalog's names of an option and of the entries of its list: `-E`, `-E stride`.
fn option_names(item: &Item) -> Vec<String> {
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

    fn check_in_file(text: &str) -> Result<(), String> {
        let spec = Spec::parse(text).unwrap();
        check_on_host(&spec, Author::User).unwrap();
        check_on_host(&spec, Author::File).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_may_contain_no_command_on_this_host() {
        let error = check_in_file("x=fuse: sh -c 'id > x' {device} ; fuse2fs {device} {mount}")
            .unwrap_err();
        assert!(
            error.starts_with("'fuse:' is a command")
                && error.contains("give it on the command line")
        );
    }

    #[test]
    fn options_that_load_code_or_reach_beyond_the_trial_are_refused_in_files() {
        for (text, option) in [
            ("fuse2fs @ modules=x/evil", "mount modules"),
            ("fuse2fs -b 4096 @ kernel_cache,fsname=x", "mount fsname"),
            ("fuse2fs @ auto_unmount", "mount auto_unmount"),
            ("ext4 @ noatime,errors=panic", "mount errors"),
            ("jfs @ iocharset=evil", "mount iocharset"),
            ("overlayfs:btrfs @ fatal_errors=panic", "mount fatal_errors"),
        ] {
            let error = check_in_file(text).unwrap_err();
            assert!(
                error.starts_with(&format!("'{option}' is not allowed in a file")),
                "{text}: {error}"
            );
        }
        for text in ["ext4 -E stride=4 -O ^dir_index @ noatime", "overlayfs,volatile:xfs", "tmpfs"]
        {
            check_in_file(text).unwrap();
        }
    }

    /// Words with which options of mkfs programs, drivers and FUSE name a file, a device or a piece of code.
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
        // Similar names that refer only to the file system itself.
        let harmless = [
            "root_owner",
            "root_reserve_percent",
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
        for kind in catalog::all().iter().filter(|kind| kind.lies_on == Backing::Device) {
            let (known, mount_known) = (kind.known(), &kind.mount.known);
            let mount = if mount_known.is_empty() { &known.mount } else { mount_known };
            let mount =
                mount.iter().map(|name| (name.clone(), format!("{} @ {name}=x", kind.name)));
            let list = |(option, names): (&String, &Vec<String>)| {
                let spec =
                    |name: &String| (name.clone(), format!("{} {option} {name}=x", kind.name));
                names.iter().map(spec).collect::<Vec<_>>()
            };
            for (name, text) in mount.chain(known.lists.iter().flat_map(list)) {
                if !reaches(&name) || harmless.contains(&name.as_str()) {
                    continue;
                }
                let spec = Spec::parse(&text).unwrap();
                let planned = kind.plan(&spec, Context::Host, None);
                assert!(
                    planned.is_err() || check_in_file(&text).is_err(),
                    "{text} is accepted from a file"
                );
            }
        }
    }
}
