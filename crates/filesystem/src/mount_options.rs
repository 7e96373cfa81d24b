//! The mount options that a spec may use, and those of its plan.

use fsdyno_record::suggest;

use crate::catalog::Journal;
use crate::known::Known;
use crate::mount::{self, FLAGS, find_flag};
use crate::period::PeriodSettings;
use crate::{Filesystem, Spec, SpecError};

/// The reason given for options of mount(8) that the kernel does not have.
const FSTAB_ONLY: &str = "it is an option of fstab(5), not of the kernel";

/// Mount options that make no sense in a trial, for any file system.
const NEVER: &[(&str, &str)] = &[
    ("ro", "a trial writes"),
    ("remount", "every trial mounts a fresh file system"),
    ("bind", "every trial mounts a fresh file system"),
    ("loop", "choose the medium with --on"),
    ("auto", FSTAB_ONLY),
    ("noauto", FSTAB_ONLY),
    ("user", FSTAB_ONLY),
    ("users", FSTAB_ONLY),
    ("nofail", FSTAB_ONLY),
    ("_netdev", FSTAB_ONLY),
];

/// Mount options of the kernel's security modules, valid for every file system.
const SECURITY: &[&str] = &["context", "fscontext", "defcontext", "rootcontext"];

impl Filesystem {
    /// Checks one mount option and its value.
    fn check_mount_option(&self, rules: &Known, option: &str) -> Result<(), SpecError> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let refused = |reason: &str| {
            SpecError::new(format!("the mount option '{name}' cannot be used here"), reason)
        };
        if let Some(reason) = rules.refused.get(&format!("mount {name}")) {
            return Err(refused(reason));
        }
        if let Some((_, reason)) = NEVER.iter().find(|(never, _)| *never == name) {
            return Err(refused(reason));
        }
        if find_flag(option).is_some() {
            return Ok(());
        }
        let known_names =
            if self.mount.known.is_empty() { &rules.mount } else { &self.mount.known };
        if SECURITY.contains(&name) || known_names.iter().any(|known| known == name) {
            rules.check_device(&format!("mount {name}"), value)?;
            return rules.check_value(option);
        }
        let names = FLAGS.iter().map(|flag| flag.name);
        let names: Vec<&str> = known_names.iter().map(String::as_str).chain(names).collect();
        let problem = format!("{} has no mount option '{name}'", self.name);
        Err(SpecError::new(problem, suggest::hint(name, names)))
    }

    /// Returns the mount options of a spec: the catalog's, the period's unless overridden, and the user's.
    pub(crate) fn mount_options(
        &self,
        spec: &Spec,
        external_journal: Option<&Journal>,
        period: Option<&PeriodSettings<'_>>,
    ) -> Result<String, SpecError> {
        let period_options =
            period.map(|period| period.settings.mount.as_slice()).unwrap_or_default();
        for option in period_options.iter().chain(&spec.mount) {
            self.check_mount_option(self.known(), option)?;
        }
        let journal_options = external_journal.map(|journal| &journal.mount);
        let fixed = [Some(&self.mount.options), journal_options];
        let fixed = fixed.into_iter().flatten().filter(|options| !options.is_empty());
        let period_options = period_options
            .iter()
            .filter(|option| !spec.mount.iter().any(|user| mount::same_setting(option, user)));
        let options: Vec<&str> =
            fixed.chain(period_options).chain(&spec.mount).map(String::as_str).collect();
        Ok(options.join(","))
    }
}
