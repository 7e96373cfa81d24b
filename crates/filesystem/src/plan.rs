//! From a spec and the catalog to the commands of a trial.

use fsdyno_record::plan::{FilesystemPlan, OuterJournalPlan};
use fsdyno_record::suggest;

use crate::catalog::{Addition, Filesystem, Journal};
use crate::options::{self, Item, Known};
use crate::{Spec, SpecError, mount, version};

/// Where the commands will run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// In the lab, on a modelled disk that nobody has written to and that reads zeros.
    Lab,
    /// On a loop file or a real device, which may hold anything.
    Host,
}

impl Filesystem {
    /// The commands for this spec: the catalog's options with the user's merged in.
    ///
    /// `tool` is what the [`Filesystem::version`] command printed (its first line is enough). Without
    /// it the oldest supported version is assumed, which only makes mkfs do more work.
    ///
    /// # Errors
    /// An option, a name in an option's list or a mount option that does not exist or cannot be
    /// used, before anything is run.
    pub fn plan(
        &self,
        spec: &Spec,
        context: Context,
        tool: Option<&str>,
    ) -> Result<FilesystemPlan, SpecError> {
        let outer = self.outer_journal(spec, context)?;
        let mkfs = self.mkfs_items(spec, context, tool, outer)?;
        Ok(FilesystemPlan {
            kind: self.name.clone(),
            spec: spec.unlabelled(),
            journal: outer.map(|outer| outer.plan(&mkfs)),
            mkfs: self.mkfs_command(mkfs),
            env: self.env.clone(),
            mount_type: self.mount.kind.clone(),
            mount_options: self.mount_options(spec, outer)?,
            check: self.check_command(outer),
            check_clean: self.check.clean.clone(),
            features: self.features.argv.clone(),
            feature_keys: self.features.keys.clone(),
            modules: self.modules.clone(),
            age: None,
        })
    }

    /// The options of mkfs: the catalog's own with the user's merged in.
    fn mkfs_items(
        &self,
        spec: &Spec,
        context: Context,
        tool: Option<&str>,
        outer: Option<&Journal>,
    ) -> Result<Vec<Item>, SpecError> {
        let known = self.known();
        let (program, own, _) = self.mkfs_words();
        let mut items = known.read(program, own)?;
        for addition in self.mkfs.add.iter().filter(|addition| holds(addition, context, tool)) {
            items = known.merge(items, known.read(program, &addition.options)?);
        }
        let user = known.read(program, &spec.mkfs)?;
        known.check(program, &user)?;
        self.check_journal(&user, &spec.mount, outer)?;
        let mut items = known.merge(items, user);
        for (option, usual) in outer.iter().flat_map(|outer| &outer.shared) {
            if !items.iter().any(|item| item.option == *option) {
                items.push(Item { option: option.clone(), value: Some(usual.clone()) });
            }
        }
        Ok(items)
    }

    /// The catalog's mkfs: program, what stands before the user's options, what stands behind.
    fn mkfs_words(&self) -> (&str, &[String], &[String]) {
        let (program, words) = match self.mkfs.argv.split_first() {
            Some((program, words)) => (program.as_str(), words),
            None => ("mkfs", &[][..]),
        };
        let place = words.iter().position(|word| word == "{options}").unwrap_or(words.len());
        (program, &words[..place], words.get(place + 1..).unwrap_or_default())
    }

    fn mkfs_command(&self, items: Vec<Item>) -> Vec<String> {
        let (program, _, after) = self.mkfs_words();
        let mut command = vec![program.to_string()];
        command.extend(options::write(items));
        command.extend(after.iter().cloned());
        command
    }

    fn mount_options(&self, spec: &Spec, outer: Option<&Journal>) -> Result<String, SpecError> {
        for option in &spec.mount {
            self.check_mount_option(self.known(), option)?;
        }
        let own = [Some(&self.mount.options), outer.map(|outer| &outer.mount)];
        let own = own.into_iter().flatten().filter(|options| !options.is_empty());
        let all: Vec<&str> = own.chain(&spec.mount).map(String::as_str).collect();
        Ok(all.join(","))
    }

    fn check_command(&self, outer: Option<&Journal>) -> Vec<String> {
        let mut argv = self.check.argv.clone();
        let device = argv.iter().position(|word| word == "{device}").unwrap_or(argv.len());
        argv.splice(device..device, outer.iter().flat_map(|outer| outer.check.iter().cloned()));
        argv
    }

    /// The catalog's word on a journal on a second disk, where the spec wants one.
    fn outer_journal(&self, spec: &Spec, context: Context) -> Result<Option<&Journal>, SpecError> {
        if !spec.names_second_disk() {
            return Ok(None);
        }
        if context == Context::Host {
            let problem = "{journal} is a second disk, and only the lab has one";
            return Err(SpecError::new(problem, "leave the journal inside, or use --on lab"));
        }
        let none = || {
            let problem = format!("{} has no journal that a second disk could hold", self.name);
            let with = crate::catalog::all().iter().filter(|kind| kind.journal.is_some());
            let names: Vec<&str> = with.map(|kind| kind.name.as_str()).collect();
            SpecError::new(problem, format!("leave {{journal}} out; {} have", names.join(", ")))
        };
        self.journal.as_ref().map(Some).ok_or_else(none)
    }

    /// `{journal}` stands where the catalog says, and nothing that does not go with it stands beside.
    fn check_journal(
        &self,
        user: &[Item],
        mount: &[String],
        outer: Option<&Journal>,
    ) -> Result<(), SpecError> {
        let Some(outer) = outer else { return Ok(()) };
        let mut places: Vec<(String, &str)> = Vec::new();
        for Item { option, value } in user {
            let value = value.as_deref().unwrap_or_default();
            match self.known().lists.contains_key(option) {
                false => places.push((option.clone(), value)),
                true => places.extend(value.split(',').map(|entry| {
                    let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
                    (format!("{option} {name}"), value)
                })),
            }
        }
        for option in mount {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            places.push((format!("mount {name}"), value));
        }
        for (place, value) in &places {
            if value.contains("{journal}") && *place != outer.at {
                let problem = format!("{{journal}} cannot stand at '{place}' of {}", self.name);
                let joined = if outer.at.contains(' ') { '=' } else { ' ' };
                let hint =
                    format!("write {}{joined}{{journal}}; the rest follows by itself", outer.at);
                return Err(SpecError::new(problem, hint));
            }
            if let Some(why) = outer.excludes.get(place) {
                let problem = format!("'{place}' does not go with a journal on a second disk");
                return Err(SpecError::new(problem, why));
            }
        }
        Ok(())
    }

    fn check_mount_option(&self, known: &Known, option: &str) -> Result<(), SpecError> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let refused = |why: &str| {
            SpecError::new(format!("the mount option '{name}' cannot be used here"), why)
        };
        if let Some(why) = known.refused.get(&format!("mount {name}")) {
            return Err(refused(why));
        }
        if let Some((_, why)) = NEVER.iter().find(|(never, _)| *never == name) {
            return Err(refused(why));
        }
        if mount::flag_named(option).is_some() {
            return Ok(());
        }
        if SECURITY.contains(&name) || known.mount.iter().any(|have| have == name) {
            return known.check_device(&format!("mount {name}"), value);
        }
        let names = mount::FLAGS.iter().map(|flag| flag.name);
        let names: Vec<&str> = known.mount.iter().map(String::as_str).chain(names).collect();
        let problem = format!("{} has no mount option '{name}'", self.name);
        Err(SpecError::new(problem, suggest::hint(name, names)))
    }
}

/// Mount options that make no sense in a trial, whatever the file system.
const NEVER: &[(&str, &str)] = &[
    ("ro", "a trial writes"),
    ("remount", "every trial mounts a fresh file system"),
    ("bind", "every trial mounts a fresh file system"),
    ("loop", "choose the medium with --on"),
    ("auto", "it is for fstab and the kernel does not know it"),
    ("noauto", "it is for fstab and the kernel does not know it"),
    ("user", "it is for fstab and the kernel does not know it"),
    ("users", "it is for fstab and the kernel does not know it"),
    ("nofail", "it is for fstab and the kernel does not know it"),
    ("_netdev", "it is for fstab and the kernel does not know it"),
];

/// What the kernel's security modules take from every file system's data.
const SECURITY: &[&str] = &["context", "fscontext", "defcontext", "rootcontext"];

fn holds(addition: &Addition, context: Context, tool: Option<&str>) -> bool {
    let place = !addition.lab || context == Context::Lab;
    let known = match (&addition.since, tool) {
        (None, _) => true,
        (Some(since), Some(line)) => version::at_least(line, since),
        (Some(_), None) => false,
    };
    place && known
}

impl Journal {
    /// The commands of a journal for a file system that is made with these options.
    fn plan(&self, mkfs: &[Item]) -> OuterJournalPlan {
        let shared = mkfs.iter().filter(|item| self.shared.contains_key(&item.option));
        let shared = options::write(shared.cloned().collect());
        let mut make = self.make.clone();
        if let Some(place) = make.iter().position(|word| word == "{options}") {
            make.splice(place..=place, shared);
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
    use super::*;
    use crate::catalog;

    const NEW: Option<&str> = Some("mke2fs 1.47.0 (5-Feb-2023)");

    fn plan(text: &str) -> Result<FilesystemPlan, SpecError> {
        let spec = Spec::parse(text).unwrap();
        catalog::get(&spec.kind).unwrap().plan(&spec, Context::Lab, NEW)
    }

    fn mkfs(text: &str) -> String {
        plan(text).unwrap().mkfs.join(" ")
    }

    #[test]
    fn every_file_systems_own_options_are_among_those_it_knows() {
        for filesystem in catalog::all() {
            let spec = Spec::parse(&filesystem.name).unwrap();
            for context in [Context::Lab, Context::Host] {
                let plan = filesystem.plan(&spec, context, Some("x 99.9")).unwrap();
                assert_eq!(plan.mkfs.iter().filter(|word| *word == "{device}").count(), 1);
                assert_eq!(plan.mkfs.last().map(String::as_str), Some("{device}"));
                assert!(!plan.mkfs.contains(&"{options}".to_string()), "{}", filesystem.name);
            }
        }
    }

    #[test]
    fn an_extended_option_joins_the_labs_own() {
        let typed = mkfs("ext4 -E stride=4 -I 128 -O ^dir_index");
        assert!(typed.contains(",lazy_journal_init=0,nodiscard,"), "{typed}");
        assert!(typed.contains("hash_seed={hash_seed},"), "{typed}");
        assert!(typed.ends_with(",stride=4 -I 128 -O ^dir_index {device}"), "{typed}");
        assert_eq!(typed.matches("-E").count(), 1);
    }

    #[test]
    fn a_users_value_takes_the_place_of_the_labs() {
        let typed = mkfs("ext4 -U clear -E lazy_itable_init=1");
        assert!(typed.contains("-U clear") && !typed.contains("{uuid}"), "{typed}");
        assert!(
            typed.contains("lazy_itable_init=1") && !typed.contains("itable_init=0"),
            "{typed}"
        );
        let typed = mkfs("xfs -m crc=0 -l size=64m");
        assert!(typed.contains("-m uuid={uuid},crc=0 -K -l size=64m {device}"), "{typed}");
        assert!(mkfs("reiserfs --hash=tea").contains(" -h tea "));
    }

    #[test]
    fn what_only_a_newer_mke2fs_or_the_lab_can_bear_waits_for_it() {
        let ext4 = catalog::get("ext4").unwrap();
        let spec = Spec::parse("ext4").unwrap();
        let zeroed = |context, tool| {
            let plan = ext4.plan(&spec, context, tool).unwrap();
            plan.mkfs.join(" ").contains("assume_storage_prezeroed=1")
        };
        assert!(zeroed(Context::Lab, NEW));
        assert!(!zeroed(Context::Lab, Some("mke2fs 1.46.5 (30-Dec-2021)")));
        assert!(!zeroed(Context::Lab, None));
        assert!(!zeroed(Context::Host, NEW));
    }

    #[test]
    fn mount_options_are_kept_in_order() {
        let made = plan("ext3 -J size=64 @ data=writeback,noatime").unwrap();
        assert_eq!(made.mount_options, "data=writeback,noatime");
        assert_eq!(made.mount_type, "ext3");
        assert_eq!(made.spec, "ext3 -J size=64 @ data=writeback,noatime");
    }

    #[test]
    fn what_does_not_exist_is_refused_with_the_nearest_right_name() {
        for (text, expected) in [
            ("ext4 -Z", "mke2fs has no option -Z; there are: -"),
            ("ext4 -O dir_indx", "mke2fs -O knows no 'dir_indx'; did you mean 'dir_index'?"),
            ("ext3 -J sise=64", "mke2fs -J knows no 'sise'; did you mean 'size'?"),
            ("ext4 @ noatme", "ext4 has no mount option 'noatme'; did you mean 'noatime'?"),
            ("xfs @ logbuf=8", "xfs has no mount option 'logbuf'; did you mean 'logbufs'?"),
            ("xfs -m reflnk=0", "mkfs.xfs -m knows no 'reflnk'; did you mean 'reflink'?"),
            (
                "btrfs --nodsize 4096",
                "mkfs.btrfs has no option --nodsize; did you mean '--nodesize'?",
            ),
            ("ext4 -t ext3", "mke2fs -t cannot be used here; "),
            ("ext4 @ ro", "the mount option 'ro' cannot be used here; a trial writes"),
            (
                "ext4 -J device={journal},size=64",
                "'-J size' does not go with a journal on a second",
            ),
            (
                "ext4 -L {journal}",
                "{journal} cannot stand at '-L' of ext4; write -J device={journal}",
            ),
            (
                "xfs -r rtdev={journal}",
                "{journal} cannot stand at '-r rtdev' of xfs; write -l logdev=",
            ),
            (
                "jfs -J device={journal}",
                "{journal} cannot stand at '-J device' of jfs; write -j {jou",
            ),
            (
                "btrfs -L {journal}",
                "btrfs has no journal that a second disk could hold; leave {jour",
            ),
            ("ext2 -J device={journal}", "ext2 has no journal that a second disk could hold"),
            ("ext4 -J device=/dev/sdb", "'/dev/sdb' is no device for '-J device'"),
            ("xfs -l logdev=/dev/sdb", "'/dev/sdb' is no device for '-l logdev'"),
            ("xfs @ logdev=/dev/sdb", "'/dev/sdb' is no device for 'mount logdev'"),
            ("btrfs /dev/sdb", "'/dev/sdb' is no option of mkfs.btrfs"),
            ("jfs -j /dev/sdb", "'/dev/sdb' is no device for '-j'"),
            ("reiserfs -j /dev/sdb", "'/dev/sdb' is no device for '-j'"),
        ] {
            let error = plan(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn an_outer_journal_is_made_named_at_the_mount_and_checked_with_its_file_system() {
        let ext4 = plan("far=ext4 -I 128 -J device={journal}").unwrap();
        let words = ext4.mkfs.join(" ");
        assert!(words.ends_with("-I 128 -J device={journal} -b 4096 {device}"), "{words}");
        let journal = ext4.journal.unwrap();
        let made = "mke2fs -q -F -O journal_dev -U {uuid:journal} -b 4096 {journal}";
        assert_eq!(journal.make.join(" "), made);
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
            let made = plan(text).unwrap();
            assert!(made.check.ends_with(&["-j", "{journal}", "{device}"].map(String::from)));
        }
    }

    #[test]
    fn a_host_has_no_second_disk_and_an_inner_journal_needs_none() {
        let spec = Spec::parse("ext4 -J device={journal}").unwrap();
        let host = catalog::get("ext4").unwrap().plan(&spec, Context::Host, NEW);
        assert!(host.unwrap_err().to_string().starts_with("{journal} is a second disk"));
        assert_eq!(plan("ext4 -J size=64").unwrap().journal, None);
    }

    #[test]
    fn what_people_really_type_is_taken() {
        for text in [
            "ext2 -O ^dir_index -b 1024 -i 4096 -N 100000 -m 0",
            "ext3 -T news -J size=256 -O dir_index @ data=journal,commit=60,barrier=0,nodiratime",
            "ext4 -O ^has_journal,metadata_csum,inline_data -G 32 @ nobarrier,journal_async_commit",
            "ext4 -O fast_commit -E packed_meta_blocks=1 @ delalloc,stripe=16,lazytime",
            "xfs -b size=1024 -d su=16k,sw=3,agcount=8 -i size=2048 -n size=8k @ logbsize=256k,inode64",
            "xfs -m crc=0,finobt=0 -s size=4096 -l lazy-count=0,version=2 @ allocsize=64k,noquota",
            "btrfs -m single -d single -n 4k --csum xxhash -O ^no-holes -R free-space-tree \
             @ compress=zstd:1,nodatacow,space_cache=v2,ssd,commit=120,noacl",
            "reiserfs -b 4096 -s 513 -t 256 @ notail,data=writeback,barrier=flush",
            "jfs -s 64 -O @ iocharset=utf8,nointegrity,errors=continue",
        ] {
            assert!(plan(text).is_ok(), "{text}: {}", plan(text).unwrap_err());
        }
    }
}
