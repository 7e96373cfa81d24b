//! Plans a journal on a second disk: its option in a spec, and the commands that make and check it.

use fsdyno_record::plan::OuterJournalPlan;

use crate::catalog::{self, Filesystem, Journal};
use crate::options::{self, Item};
use crate::{Spec, SpecError};

impl Filesystem {
    /// Returns the catalog's entry for a journal on a second disk, if the spec uses one.
    pub(crate) fn outer_journal(&self, spec: &Spec) -> Result<Option<&Journal>, SpecError> {
        if !spec.names_second_disk() {
            return Ok(None);
        }
        let none = || {
            let problem = format!("{} cannot have a journal on a second disk", self.name);
            let capable = catalog::all().iter().filter(|kind| kind.journal.is_some());
            let names: Vec<&str> = capable.map(|kind| kind.name.as_str()).collect();
            SpecError::new(problem, format!("remove {{journal}}; {} can", names.join(", ")))
        };
        self.journal.as_ref().map(Some).ok_or_else(none)
    }

    /// Checks that `{journal}` is at the option that the catalog names, without conflicting options.
    pub(crate) fn check_journal(
        &self,
        user: &[Item],
        mount: &[String],
        outer: Option<&Journal>,
    ) -> Result<(), SpecError> {
        let Some(outer) = outer else { return Ok(()) };
        let mut options: Vec<(String, &str)> = Vec::new();
        for Item { option, value } in user {
            let value = value.as_deref().unwrap_or_default();
            match self.known().lists.contains_key(option) {
                false => options.push((option.clone(), value)),
                true => options.extend(value.split(',').map(|entry| {
                    let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
                    (format!("{option} {name}"), value)
                })),
            }
        }
        for option in mount {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            options.push((format!("mount {name}"), value));
        }
        for (option, value) in &options {
            if value.contains("{journal}") && *option != outer.at {
                let problem =
                    format!("{{journal}} cannot be the value of '{option}' of {}", self.name);
                let joined = if outer.at.contains(' ') { '=' } else { ' ' };
                let hint =
                    format!("write {}{joined}{{journal}}; fsdyno adds the other options", outer.at);
                return Err(SpecError::new(problem, hint));
            }
            if let Some(why) = outer.excludes.get(option) {
                let problem = format!("'{option}' conflicts with a journal on a second disk");
                return Err(SpecError::new(problem, why));
            }
        }
        Ok(())
    }
}

impl Journal {
    /// Returns the commands of the journal of a file system with these mkfs options.
    pub(crate) fn plan(&self, mkfs: &[Item]) -> OuterJournalPlan {
        let shared = mkfs.iter().filter(|item| self.shared.contains_key(&item.option));
        let shared = options::write(shared.cloned().collect());
        let mut make = self.make.clone();
        if let Some(at) = make.iter().position(|word| word == "{options}") {
            make.splice(at..=at, shared);
        }
        let (features, feature_keys) = match &self.features {
            Some(features) => (features.argv.clone(), features.keys.clone()),
            None => Default::default(),
        };
        OuterJournalPlan { make, features, feature_keys }
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_record::plan::FilesystemPlan;

    use super::*;
    use crate::Context;

    const NEW: Option<&str> = Some("mke2fs 1.47.0 (5-Feb-2023)");

    fn plan(text: &str) -> Result<FilesystemPlan, SpecError> {
        let spec = Spec::parse(text).unwrap();
        catalog::get(&spec.kind).unwrap().plan(&spec, Context::Lab, NEW)
    }

    #[test]
    fn a_journal_on_a_second_disk_is_made_mounted_and_checked_with_its_file_system() {
        let ext4 = plan("far=ext4 -I 128 -J device={journal}").unwrap();
        let words = ext4.mkfs.join(" ");
        assert!(words.ends_with("-I 128 -J device={journal} -b 4096 {device}"), "{words}");
        let journal = ext4.journal.unwrap();
        let expected = "mke2fs -q -F -O journal_dev -U {uuid:journal} -b 4096 {journal}";
        assert_eq!(journal.make.join(" "), expected);
        assert_eq!(journal.features.join(" "), "dumpe2fs -h {journal}");
        assert_eq!(ext4.check.join(" "), "e2fsck -f -n -j {journal} {device}");
        assert_eq!(ext4.mount_options, "");

        let small = plan("ext3 -J device={journal} -b 1024").unwrap();
        assert!(small.journal.unwrap().make.join(" ").ends_with("-b 1024 {journal}"));

        let xfs = plan("xfs -l logdev={journal},size=64m @ noatime").unwrap();
        assert_eq!(xfs.journal.unwrap(), OuterJournalPlan::default());
        assert_eq!(xfs.mount_options, "logdev={journal},noatime");
        assert_eq!(xfs.check.join(" "), "xfs_repair -n -l {journal} {device}");
        for text in ["jfs -j {journal}", "reiserfs -j {journal} -s 8193"] {
            let planned = plan(text).unwrap();
            assert!(planned.check.ends_with(&["-j", "{journal}", "{device}"].map(String::from)));
        }
    }

    #[test]
    fn a_host_has_a_second_disk_too_and_an_inner_journal_needs_none() {
        let spec = Spec::parse("ext4 -J device={journal}").unwrap();
        let host = catalog::get("ext4").unwrap().plan(&spec, Context::Host, NEW).unwrap();
        assert_eq!(host.journal, plan("ext4 -J device={journal}").unwrap().journal);
        assert_eq!(plan("ext4 -J size=64").unwrap().journal, None);
    }

    #[test]
    fn a_journal_at_an_invalid_option_is_refused_with_the_valid_one() {
        for (text, expected) in [
            ("ext4 -J device={journal},size=64", "'-J size' conflicts with a journal on a second"),
            (
                "ext4 -L {journal}",
                "{journal} cannot be the value of '-L' of ext4; write -J device={journal}",
            ),
            (
                "xfs -r rtdev={journal}",
                "{journal} cannot be the value of '-r rtdev' of xfs; write -l logdev=",
            ),
            (
                "jfs -J device={journal}",
                "{journal} cannot be the value of '-J device' of jfs; write -j {jou",
            ),
            ("btrfs -L {journal}", "btrfs cannot have a journal on a second disk; remove {jour"),
            ("ext2 -J device={journal}", "ext2 cannot have a journal on a second disk"),
        ] {
            let error = plan(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
