//! FUSE commands of a spec: their syntax, and the devices and programs that they may name.

use fsdyno_record::plan::FilesystemPlan;

use crate::{Context, Filesystem, Spec, SpecError};

impl Filesystem {
    /// Plans the commands of a FUSE spec, `[MKFS... ;] MOUNT...`.
    pub(crate) fn plan_command(
        &self,
        spec: &Spec,
        context: Context,
    ) -> Result<FilesystemPlan, SpecError> {
        let parts: Vec<&[String]> = spec.mkfs.split(|word| word == ";").collect();
        let (mkfs, mount) = match parts[..] {
            [mount] => (&[][..], mount),
            [mkfs, mount] => (mkfs, mount),
            _ => {
                let hint = "write an mkfs command, ';' and a mount command";
                return Err(SpecError::new("there are more than two commands", hint));
            }
        };
        let invalid = |problem: &str| {
            SpecError::new(problem, "write it like 'fuse: fuse2fs {device} {mount} -f'")
        };
        let contains =
            |command: &[String], what: &str| command.iter().any(|word| word.contains(what));
        if mkfs.is_empty() && parts.len() == 2 || mount.is_empty() {
            return Err(invalid("a command is empty"));
        }
        if !contains(mount, "{mount}") {
            return Err(invalid("the mount command does not contain {mount}"));
        }
        if contains(mkfs, "{mount}") || parts.len() == 2 && !contains(mkfs, "{device}") {
            return Err(invalid(
                "the mkfs command must contain {device} and must not contain {mount}",
            ));
        }
        if let Some(word) = spec.mkfs.iter().find(|word| names_device(word)) {
            let problem =
                format!("'{word}' names a device of this machine, and the command runs as root");
            let hint = "write {device} for the trial's own device; fsdyno touches no other";
            return Err(SpecError::new(problem, hint));
        }
        for program in [mkfs.first(), mount.first()].into_iter().flatten() {
            check_program(program, context)?;
        }
        if spec.names_second_disk() {
            return Err(invalid("a FUSE file system has one device, {device}, and no {journal}"));
        }
        Ok(FilesystemPlan {
            kind: self.name.clone(),
            spec: spec.unlabelled(),
            mkfs: mkfs.to_vec(),
            env: self.env.clone(),
            mount_type: self.mount.kind.clone(),
            mount_command: mount.to_vec(),
            modules: self.modules.clone(),
            ..FilesystemPlan::default()
        })
    }
}

/// Top-level paths that the lab's guest uses itself, so that no user's program can be copied there.
const GUEST_OWNED: &[&str] = &["/dev", "/init", "/lab", "/mnt", "/proc", "/sys"];

/// Checks that a program's name means the same on this host and in a guest: a name to be found in PATH, or an
/// absolute path, to which the program is copied in a guest.
fn check_program(program: &str, context: Context) -> Result<(), SpecError> {
    if !program.contains('/') {
        return Ok(());
    }
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    let parts = program.strip_prefix('/').filter(|path| path.split('/').all(plain));
    let Some(path) = parts else {
        let problem = format!("'{program}' is neither the name of a program nor an absolute path");
        let hint = "write a name found in PATH, or an absolute path without '.', '..' or '//'";
        return Err(SpecError::new(problem, hint));
    };
    let top = GUEST_OWNED.iter().find(|top| path.split('/').next() == top.strip_prefix('/'));
    match top {
        Some(top) if context.is_lab() => Err(SpecError::new(
            format!("'{program}' cannot be copied into the lab's guest, which uses {top} itself"),
            "install the program elsewhere",
        )),
        _ => Ok(()),
    }
}

/// Devices that hold no data and that any FUSE program may use.
pub const HARMLESS: &[&str] = &["/dev/fuse", "/dev/null"];

/// Tags that name a device by its contents (libblkid).
const TAGS: &[&str] = &["LABEL=", "UUID=", "PARTLABEL=", "PARTUUID="];

/// Reports whether an argument of a command, or a part of it, names a device: below /dev, or by its contents.
/// (Symbolic links and device nodes elsewhere are checked on the host where the command runs.)
fn names_device(word: &str) -> bool {
    if word.split(',').any(|part| TAGS.iter().any(|tag| part.contains(tag))) {
        return true;
    }
    word.split([',', '=', ':']).any(|part| {
        let mut plain = part.replace("/./", "/");
        while plain.contains("//") {
            plain = plain.replace("//", "/");
        }
        let path = plain.trim_end_matches('/');
        if HARMLESS.contains(&path) {
            return false;
        }
        path.contains("/dev/") || path.ends_with("/dev")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    fn plan(text: &str) -> Result<FilesystemPlan, SpecError> {
        let spec = Spec::parse(text).unwrap();
        catalog::get(&spec.kind).unwrap().plan(&spec, Context::Lab, None)
    }

    #[test]
    fn a_fuse_file_system_is_mounted_by_its_command() {
        let fuse2fs = plan("fuse2fs -I 128 @ kernel_cache,noatime").unwrap();
        let words = "fuse2fs {device} {mount} -f -o kernel_cache,noatime";
        assert_eq!(fuse2fs.mount_command.join(" "), words);
        assert!(fuse2fs.in_user_space() && fuse2fs.mkfs.join(" ").ends_with("-I 128 {device}"));
        assert_eq!(plan("fuse2fs").unwrap().mount_command.join(" "), "fuse2fs {device} {mount} -f");
        let by_path = plan("fuse: /opt/mkfs.x {device} ; /mntx/x {device} {mount}").unwrap();
        assert_eq!([&by_path.mkfs[0], &by_path.mount_command[0]], ["/opt/mkfs.x", "/mntx/x"]);
        let on_host = Spec::parse("fuse: /mnt/x {device} {mount}").unwrap();
        assert!(catalog::get("fuse").unwrap().plan(&on_host, Context::Host, None).is_ok());
        let any = plan("fuse: mkfs.ntfs -Q {device} ; ntfs-3g {device} {mount}").unwrap();
        assert_eq!(any.mkfs.join(" "), "mkfs.ntfs -Q {device}");
        assert_eq!(any.mount_command.join(" "), "ntfs-3g {device} {mount}");
        assert!(any.check.is_empty() && any.in_user_space());
    }

    #[test]
    fn a_command_may_use_the_trials_device_and_no_other() {
        for word in [
            "/dev/sda",
            "-odev=/dev/sda1",
            "/dev//disk/by-id/x",
            "//dev/vda",
            "-o a,/./dev/x",
            "/dev",
            "/dev/",
            "../dev/sda",
            "-Jdevice=UUID=1-2",
            "LABEL=home",
        ] {
            let spec = Spec {
                mkfs: vec!["x".into(), "{device}".into(), "{mount}".into(), word.into()],
                ..Spec::parse("fuse: x {device} {mount}").unwrap()
            };
            let error = catalog::get("fuse").unwrap().plan(&spec, Context::Lab, None).unwrap_err();
            assert!(error.to_string().contains("write {device}"), "{word}: {error}");
        }
        for text in [
            "fuse: x {device} {mount} -o fuse=/dev/fuse,log=/dev/null,fsname=device",
            "fuse: mkfs.x -U 1-2 {device} ; x {device} {mount} -o uuid=1,dev,subtype=a:b",
        ] {
            assert!(plan(text).is_ok(), "{text}: {:?}", plan(text));
        }
        let text =
            plan("fuse: mke2fs /dev/sda {device} ; x {device} {mount}").unwrap_err().to_string();
        assert!(text.starts_with("'/dev/sda' names a device of this machine"), "{text}");
    }
}
