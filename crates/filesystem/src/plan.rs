//! Resolves a spec and the catalog to the commands of a trial.

use fsdyno_record::plan::{BelowPlan, FilesystemPlan, RaidPlan};

use crate::catalog::{self, Addition, Backing, Filesystem, Journal};
use crate::options::{self, Item};
use crate::period::PeriodSettings;
use crate::{Spec, SpecError, shared, version};

/// The environment in which the commands will run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// In the lab, on an unwritten modelled disk that reads zeros.
    Lab,
    /// In the lab, on an array of such disks.
    LabArray,
    /// On a loop file or a real device with arbitrary contents.
    Host,
}

impl Context {
    /// Returns the context of a lab's plan.
    pub fn of_lab(raid: Option<RaidPlan>) -> Context {
        if raid.is_some() { Context::LabArray } else { Context::Lab }
    }

    pub(crate) fn is_lab(self) -> bool {
        self != Context::Host
    }
}

impl Filesystem {
    /// Plans the commands for this spec: the catalog's options merged with the user's.
    ///
    /// `tool` is the output of the base file system's [`Filesystem::version`] command (its first line is
    /// enough). Without it, the oldest supported version is assumed, which only makes mkfs do more work.
    ///
    /// # Errors
    /// An option, a name in an option's list or a mount option that does not exist or cannot be
    /// used. Nothing has been run at that point.
    pub fn plan(
        &self,
        spec: &Spec,
        context: Context,
        tool: Option<&str>,
    ) -> Result<FilesystemPlan, SpecError> {
        self.plan_for_period(spec, context, tool, None)
    }

    /// Plans the commands for this spec with a period's settings, which the user's options override.
    ///
    /// # Errors
    /// Same as [`Filesystem::plan`].
    pub fn plan_for_period(
        &self,
        spec: &Spec,
        context: Context,
        tool: Option<&str>,
        period: Option<&PeriodSettings<'_>>,
    ) -> Result<FilesystemPlan, SpecError> {
        if self.mount.kind.is_empty() && !(spec.mkfs.is_empty() && spec.mount.is_empty()) {
            let problem = format!("{} is the device itself and takes no options", self.name);
            return Err(SpecError::new(problem, format!("write {} alone", self.name)));
        }
        if let Some(below) = &spec.below {
            return self.plan_over(spec, below, context, tool);
        }
        if self.lies_on == Backing::Command {
            return self.plan_command(spec, context);
        }
        let outer = self.outer_journal(spec)?;
        let mkfs = self.mkfs_items(spec, context, tool, outer, period)?;
        let mut env = self.env.clone();
        env.extend(period.iter().flat_map(|period| period.settings.env.clone()));
        Ok(FilesystemPlan {
            kind: self.name.clone(),
            spec: spec.unlabelled(),
            journal: outer.map(|outer| outer.plan(&mkfs)),
            mkfs: self.mkfs_command(mkfs),
            env,
            mount_type: self.mount.kind.clone(),
            mount_options: self.mount_options(spec, outer, period)?,
            mount_command: self.mount_command(spec),
            pool: self.mount.pool.clone(),
            below: None,
            settles: self.mount.settles,
            check: self.check_command(outer),
            check_clean: self.check.clean.clone(),
            features: self.features.argv.clone(),
            feature_keys: self.features.keys.clone(),
            modules: self.modules.clone(),
            feature_words: self.features.words.clone(),
            journal_bytes: self.features.journal_bytes.clone(),
            period: period.map(|period| period.period.name.clone()),
            age: None,
        })
    }

    /// Plans the lower file system and mounts this one over it.
    fn plan_over(
        &self,
        spec: &Spec,
        below: &Spec,
        context: Context,
        tool: Option<&str>,
    ) -> Result<FilesystemPlan, SpecError> {
        let unknown = |error: catalog::Unknown| {
            SpecError::new(format!("there is no file system '{}'", error.name), error.hint)
        };
        let lower = catalog::get(&below.kind).map_err(unknown)?;
        if let Some(why) = lower.lacks.get(&self.name) {
            let problem = format!("{} cannot be mounted over {}: {why}", self.name, below.kind);
            return Err(SpecError::new(problem, "use another lower file system, such as ext4"));
        }
        if let Some(protocol) = shared::protocol(&self.name) {
            protocol.check(&spec.mount)?;
        }
        let lower_plan = lower.plan(below, context, tool)?;
        let below = BelowPlan {
            kind: lower_plan.kind,
            mount_type: lower_plan.mount_type,
            mount_options: lower_plan.mount_options,
        };
        Ok(FilesystemPlan {
            kind: self.name.clone(),
            spec: spec.unlabelled(),
            mount_type: self.mount.kind.clone(),
            mount_options: self.mount_options(spec, None, None)?,
            below: Some(below),
            modules: lower_plan.modules.iter().chain(&self.modules).cloned().collect(),
            ..lower_plan
        })
    }

    /// Returns the command that mounts it, if mount(2) does not.
    fn mount_command(&self, spec: &Spec) -> Vec<String> {
        let mut command = self.mount.command.clone();
        if let Some(at) = command.iter().position(|word| word == "{options}") {
            let options = match spec.mount.is_empty() {
                true => vec![],
                false => vec!["-o".to_string(), spec.mount.join(",")],
            };
            command.splice(at..=at, options);
        }
        command
    }

    /// Returns the options of mkfs: the catalog's, overridden by the period's, overridden by the user's.
    fn mkfs_items(
        &self,
        spec: &Spec,
        context: Context,
        tool: Option<&str>,
        outer: Option<&Journal>,
        period: Option<&PeriodSettings<'_>>,
    ) -> Result<Vec<Item>, SpecError> {
        let known = self.known();
        let MkfsWords { program, own, .. } = self.mkfs_words();
        if self.mkfs.argv.is_empty() {
            return match spec.mkfs.first() {
                None => Ok(Vec::new()),
                Some(word) => {
                    let problem =
                        format!("'{word}' is an mkfs option, and {} has no mkfs", self.name);
                    Err(SpecError::new(problem, "write its mount options after '@'"))
                }
            };
        }
        let mut items = known.read(program, own)?;
        for addition in self.mkfs.add.iter().filter(|addition| applies(addition, context, tool)) {
            items = known.merge(items, known.read(program, &addition.options)?);
        }
        let user = known.read(program, &spec.mkfs)?;
        known.check(program, &user)?;
        self.check_journal(&user, &spec.mount, outer)?;
        for options in period.iter().flat_map(|period| period.mkfs()) {
            let mut period_items = known.read(program, options)?;
            known.check(program, &period_items)?;
            period_items
                .retain(|item| !period.is_some_and(|period| period.is_overridden(item, &user)));
            if let Some(outer) = outer {
                known.drop_entries(&mut period_items, &outer.excludes);
            }
            items = known.merge(items, period_items);
        }
        let mut items = known.merge(items, user);
        for (option, default) in outer.iter().flat_map(|outer| &outer.shared) {
            if !items.iter().any(|item| item.option == *option) {
                items.push(Item { option: option.clone(), value: Some(default.clone()) });
            }
        }
        Ok(items)
    }

    /// Splits the catalog's mkfs command.
    fn mkfs_words(&self) -> MkfsWords<'_> {
        let (program, words) = match self.mkfs.argv.split_first() {
            Some((program, words)) => (program.as_str(), words),
            None => ("mkfs", &[][..]),
        };
        let is_action = |word: &String| !word.starts_with(['-', '{']);
        let begin = words.iter().position(|word| !is_action(word)).unwrap_or(words.len());
        let at = words.iter().position(|word| word == "{options}").unwrap_or(words.len());
        let after = words.get(at + 1..).unwrap_or_default();
        MkfsWords { program, action: &words[..begin], own: &words[begin..at], after }
    }

    fn mkfs_command(&self, items: Vec<Item>) -> Vec<String> {
        if self.mkfs.argv.is_empty() {
            return Vec::new();
        }
        let MkfsWords { program, action, after, .. } = self.mkfs_words();
        let mut command = vec![program.to_string()];
        command.extend(action.iter().cloned());
        command.extend(options::write(self.known().split_repeated(items)));
        command.extend(after.iter().cloned());
        command
    }

    fn check_command(&self, outer: Option<&Journal>) -> Vec<String> {
        let mut argv = self.check.argv.clone();
        let device = argv.iter().position(|word| word == "{device}").unwrap_or(argv.len());
        argv.splice(device..device, outer.iter().flat_map(|outer| outer.check.iter().cloned()));
        argv
    }
}

/// The parts of the catalog's mkfs command.
struct MkfsWords<'a> {
    program: &'a str,
    /// Words that are not options: `create` of `zpool create`.
    action: &'a [String],
    /// The catalog's own options.
    own: &'a [String],
    /// The words that follow the user's options.
    after: &'a [String],
}

fn applies(addition: &Addition, context: Context, tool: Option<&str>) -> bool {
    let fits_context =
        (!addition.lab || context.is_lab()) && (!addition.one_disk || context != Context::LabArray);
    let fits_version = match (&addition.since, tool) {
        (None, _) => true,
        (Some(since), Some(line)) => version::at_least(line, since),
        (Some(_), None) => false,
    };
    fits_context && fits_version
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
    fn a_raw_device_has_no_command_and_no_option() {
        let raw = plan("raw").unwrap();
        assert!(raw.is_raw() && raw.mkfs.is_empty() && raw.check.is_empty());
        assert!(!plan("ext4").unwrap().is_raw());
        for invalid in ["raw -b 1024", "raw @ noatime"] {
            let text = plan(invalid).unwrap_err().to_string();
            assert!(text.contains("the device itself and takes no options"), "{text}");
        }
    }

    #[test]
    fn the_catalogs_own_options_are_known_options() {
        for filesystem in catalog::all().iter().filter(|kind| !kind.mkfs.argv.is_empty()) {
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
    fn properties_of_a_pool_are_separate_options_after_the_action_of_its_command() {
        let command = mkfs("zfs -o ashift=12 -O compression=off,recordsize=16K");
        let pool = "zpool create -f -o cachefile=none -o ashift=12 -O mountpoint=legacy";
        let own = "-O compression=off -O recordsize=16K fsdyno {device}";
        assert_eq!(command, format!("{pool} {own}"));
        let pool = plan("zfs").unwrap().pool.unwrap();
        assert!(pool.import.contains(&pool.name) && pool.export.contains(&pool.name));
        for (invalid, text) in [
            ("zfs -o cachefile=/etc/x", "no other program may know the pool"),
            ("zfs -O mountpoint=/home", "the pool is mounted at the trial's mount point"),
            ("zfs -R /home", "the pool is mounted at the trial's mount point"),
            ("zfs -O compresion=off", "compresion"),
            ("zfs @ nosuch", "nosuch"),
        ] {
            let error = plan(invalid).unwrap_err().to_string();
            assert!(error.contains(text), "{invalid}: {error}");
        }
    }

    #[test]
    fn an_extended_option_is_merged_into_the_labs() {
        let command = mkfs("ext4 -E stride=4 -I 128 -O ^dir_index");
        assert!(command.contains(",lazy_journal_init=0,nodiscard,"), "{command}");
        assert!(command.contains("hash_seed={hash_seed},"), "{command}");
        assert!(command.ends_with(",stride=4 -I 128 -O ^dir_index {device}"), "{command}");
        assert_eq!(command.matches("-E").count(), 1);
    }

    #[test]
    fn a_users_value_replaces_the_labs() {
        let command = mkfs("ext4 -U clear -E lazy_itable_init=1");
        assert!(command.contains("-U clear") && !command.contains("{uuid}"), "{command}");
        assert!(
            command.contains("lazy_itable_init=1") && !command.contains("itable_init=0"),
            "{command}"
        );
        let command = mkfs("xfs -m crc=0 -l size=64m");
        assert!(command.contains("-m uuid={uuid},crc=0 -K -l size=64m {device}"), "{command}");
        assert!(mkfs("reiserfs --hash=tea").contains(" -h tea "));
    }

    #[test]
    fn a_single_modelled_disk_has_no_stripes_whatever_its_driver_reports() {
        let mkfs = |text: &str, context| {
            let spec = Spec::parse(text).unwrap();
            catalog::get(&spec.kind).unwrap().plan(&spec, context, NEW).unwrap().mkfs.join(" ")
        };
        for kind in ["ext2", "ext3", "ext4", "fuse2fs"] {
            assert!(mkfs(kind, Context::Lab).contains(",stripe_width=0"), "{kind}");
            assert!(!mkfs(kind, Context::LabArray).contains("stripe"), "{kind}");
            assert!(mkfs(kind, Context::LabArray).contains("nodiscard"), "{kind}");
            assert!(!mkfs(kind, Context::Host).contains("stripe"), "{kind}");
        }
        let command = mkfs("ext4 -E stripe_width=8", Context::Lab);
        assert!(
            command.contains("stripe_width=8") && !command.contains("stripe_width=0"),
            "{command}"
        );
    }

    #[test]
    fn conditional_options_need_a_newer_mke2fs_and_the_lab() {
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
    fn mount_options_stay_in_order() {
        let planned = plan("ext3 -J size=64 @ data=writeback,noatime").unwrap();
        assert_eq!(planned.mount_options, "data=writeback,noatime");
        assert_eq!(planned.mount_type, "ext3");
        assert_eq!(planned.spec, "ext3 -J size=64 @ data=writeback,noatime");
    }

    #[test]
    fn an_unknown_option_is_refused_with_the_nearest_valid_one() {
        for (text, expected) in [
            ("ext4 -Z", "mke2fs has no option -Z; there are: -"),
            ("ext4 -O dir_indx", "mke2fs -O has no 'dir_indx'; did you mean 'dir_index'?"),
            ("ext3 -J sise=64", "mke2fs -J has no 'sise'; did you mean 'size'?"),
            ("ext4 @ noatme", "ext4 has no mount option 'noatme'; did you mean 'noatime'?"),
            ("xfs @ logbuf=8", "xfs has no mount option 'logbuf'; did you mean 'logbufs'?"),
            ("xfs -m reflnk=0", "mkfs.xfs -m has no 'reflnk'; did you mean 'reflink'?"),
            (
                "btrfs --nodsize 4096",
                "mkfs.btrfs has no option --nodsize; did you mean '--nodesize'?",
            ),
            ("ext4 -t ext3", "mke2fs -t cannot be used here; "),
            ("ext4 @ ro", "the mount option 'ro' cannot be used here; a trial writes"),
            ("ext4 -J device=/dev/sdb", "'/dev/sdb' cannot be the device of '-J device'"),
            ("xfs -l logdev=/dev/sdb", "'/dev/sdb' cannot be the device of '-l logdev'"),
            ("xfs @ logdev=/dev/sdb", "'/dev/sdb' cannot be the device of 'mount logdev'"),
            ("btrfs /dev/sdb", "'/dev/sdb' is not an option of mkfs.btrfs"),
            (
                "ext4 xfs",
                "'xfs' is not an option of mke2fs; it is a file system: give --fs once for each",
            ),
            (
                "ext4 -o noatime,data=writeback",
                "'-o noatime,data=writeback' is an option of mount, not of mke2fs; mount options go after @: \
                 write '@ noatime,data=writeback'",
            ),
            ("xfs -onoatime", "'-o noatime' is an option of mount"),
            ("jfs -j /dev/sdb", "'/dev/sdb' cannot be the device of '-j'"),
            ("reiserfs -j /dev/sdb", "'/dev/sdb' cannot be the device of '-j'"),
        ] {
            let error = plan(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn the_lower_file_system_is_created_and_the_upper_one_is_mounted_over_it() {
        let over = plan("overlayfs,volatile:ext4 -I 128 @ noatime").unwrap();
        let alone = plan("ext4 -I 128 @ noatime").unwrap();
        assert_eq!((over.kind.as_str(), over.made_kind()), ("overlayfs", "ext4"));
        assert_eq!((&over.mkfs, &over.check), (&alone.mkfs, &alone.check));
        assert_eq!(
            (over.mount_type.as_str(), over.mount_options.as_str()),
            ("overlay", "volatile")
        );
        assert_eq!(over.below.unwrap().mount_options, "noatime");
        assert_eq!(over.modules, ["ext4", "overlay"]);
        assert!(plan("overlayfs:tmpfs @ size=10%").unwrap().mkfs.is_empty());
    }

    #[test]
    fn a_file_system_without_mkfs_takes_no_mkfs_options() {
        let tmpfs = plan("tmpfs @ size=256m,noatime").unwrap();
        assert!(tmpfs.mkfs.is_empty() && tmpfs.check.is_empty());
        assert_eq!(tmpfs.mount_options, "size=256m,noatime");
        assert!(plan("nilfs2").unwrap().check.is_empty());
    }

    #[test]
    fn inconsistent_specs_are_refused() {
        for (text, expected) in [
            ("tmpfs -I 128", "'-I' is an mkfs option, and tmpfs has no mkfs; write its mount"),
            ("tmpfs @ sise=1m", "tmpfs has no mount option 'sise'; did you mean 'size'?"),
            ("overlayfs:vfat", "overlayfs cannot be mounted over vfat: overlayfs refuses"),
            ("overlayfs:fuse2fs", "overlayfs cannot be mounted over fuse2fs"),
            ("overlayfs:ext5", "there is no file system 'ext5'; did you mean 'ext"),
            ("overlayfs:ext4 -Z", "mke2fs has no option -Z"),
            ("overlayfs,volatil:ext4", "overlayfs has no mount option 'volatil'; did you mean"),
            ("overlayfs,upperdir=/x:ext4", "the mount option 'upperdir' cannot be used here"),
            ("fuse2fs @ data=journal", "fuse2fs has no mount option 'data'"),
            ("fuse2fs -J device={journal}", "fuse2fs cannot have a journal on a second disk"),
            ("fuse: bindfs /home {device}", "the mount command does not contain {mount}"),
            ("fuse: mkfs.x ; x {mount}", "the mkfs command must contain {device}"),
            ("fuse: ; x {mount}", "a command is empty"),
            ("fuse: a {device} ; b ; c {mount}", "there are more than two commands"),
            (
                "fuse: ./a {device} {mount}",
                "'./a' is neither the name of a program nor an absolute",
            ),
            ("fuse: mk/x {device} ; a {device} {mount}", "'mk/x' is neither the name of a program"),
            ("fuse: /opt/../a {device} {mount}", "'/opt/../a' is neither the name of a program"),
            ("fuse: /mnt/a {device} {mount}", "'/mnt/a' cannot be copied into the lab's guest"),
            ("vfat --offset=3", "mkfs.vfat --offset cannot be used here"),
            ("nilfs2 @ cp=3", "the mount option 'cp' cannot be used here"),
        ] {
            let error = plan(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn realistic_specs_are_accepted() {
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
            "f2fs -o 5 -O extra_attr,inode_checksum @ background_gc=off,fsync_mode=strict",
            "nilfs2 -b 1024 -B 2048 -m 10 @ order=strict,nobarrier",
            "vfat -F 16 -s 64 -n STICK @ flush,utf8,tz=UTC",
            "reiser4 -o create=ccreg40 @ noatime,txmod=wa",
        ] {
            assert!(plan(text).is_ok(), "{text}: {}", plan(text).unwrap_err());
        }
    }
}
