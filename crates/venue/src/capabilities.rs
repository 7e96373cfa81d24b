//! Determines, without starting anything, whether a file system can run in the lab and on this host, and what is
//! missing if it cannot.

use std::fs;
use std::path::Path;

use fsdyno_filesystem::{Backing, Filesystem};
use fsdyno_lab::{LabError, Modules};

use crate::{prerequisites, tools};

/// A venue's support for a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanRun {
    /// Whether it can run.
    pub is_possible: bool,
    /// The reason why it cannot run, or a remark.
    pub reason: Option<String>,
    /// The command or option that makes it possible.
    pub remedy: Option<String>,
}

impl CanRun {
    fn yes() -> CanRun {
        CanRun { is_possible: true, reason: None, remedy: None }
    }

    fn no(reason: impl Into<String>, remedy: impl Into<String>) -> CanRun {
        CanRun { is_possible: false, reason: Some(reason.into()), remedy: Some(remedy.into()) }
    }
}

/// The facts about the lab and this host that decide which file systems can run.
#[derive(Debug)]
pub struct Capabilities {
    /// The lab's kernel, if downloaded: its release and its modules.
    kernel: Option<(String, Modules)>,
    /// Other kernels that the lab can run without a download.
    kernels: Vec<String>,
    /// The problem that prevents the lab from running any file system, and its remedy.
    lab_problem: Option<(String, String)>,
    /// The contents of /proc/filesystems.
    proc_filesystems: String,
    /// This host's kernel release, and the kernel's modules if they are on disk.
    host: (String, Option<Modules>),
    root: bool,
}

impl Capabilities {
    /// Inspects QEMU, the downloaded kernels, and this host.
    pub fn inspect() -> Capabilities {
        let cache = fsdyno_lab::Cache::of_user();
        let default = cache.as_ref().ok().and_then(fsdyno_lab::default_kernel);
        let kernel = default.and_then(|kernel| {
            let modules = Modules::of(&kernel).ok()?;
            Some((kernel.release, modules))
        });
        let kernels = cache.as_ref().map(fsdyno_lab::local_kernels).unwrap_or_default();
        let kernels = kernels.into_iter().map(|kernel| kernel.release);
        let problem = |problem: &str, error: &LabError| {
            (problem.to_string(), error.hint().unwrap_or_else(|| "fsdyno doctor".into()))
        };
        let no_qemu = fsdyno_lab::probe_qemu(None).err();
        let lab_problem = no_qemu
            .map(|error| problem("no QEMU that can run it", &error))
            .or(cache.err().map(|error| problem("no safe folder for kernels", &error)));
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let release = read("/proc/sys/kernel/osrelease").trim().to_string();
        let modules = Modules::open(&Path::new("/lib/modules").join(&release), &release).ok();
        Capabilities {
            kernel,
            kernels: kernels.collect(),
            lab_problem,
            proc_filesystems: read("/proc/filesystems"),
            host: (release, modules),
            root: rustix::process::geteuid().is_root(),
        }
    }

    /// Returns the release of the lab's default kernel, if downloaded.
    pub fn lab_kernel(&self) -> Option<&str> {
        self.kernel.as_ref().map(|(release, _)| release.as_str())
    }

    /// Determines whether the lab with its default kernel can run a file system.
    pub fn in_lab(&self, kind: &Filesystem) -> CanRun {
        if let Some((reason, remedy)) = &self.lab_problem {
            return CanRun::no(reason, remedy);
        }
        let tools_problem = missing_tools(kind).filter(|_| !fsdyno_lab::can_download_tools(kind));
        tools_problem.unwrap_or_else(|| self.by_lab_kernel(kind))
    }

    fn by_lab_kernel(&self, kind: &Filesystem) -> CanRun {
        let Some((release, modules)) = &self.kernel else {
            let reason = "the first run downloads a kernel".to_string();
            return match &kind.kernel_hint {
                Some(hint) => CanRun::no("no distribution's kernel supports it", hint),
                None => CanRun { reason: Some(reason), ..CanRun::yes() },
            };
        };
        if let Err(error) = kind.check_kernel(release) {
            let suitable = self.kernels.iter().find(|suitable| kind.check_kernel(suitable).is_ok());
            let remedy = match (suitable, &kind.until) {
                // The series may have the file system even if a distribution's kernel of that series does not.
                _ if kind.kernel.is_some() => error.hint,
                (Some(suitable), _) => format!("--kernel {suitable}"),
                (None, Some(until)) => format!("--kernel {until}"),
                (None, None) => error.hint,
            };
            return CanRun::no(error.problem, remedy);
        }
        match kind.modules.iter().find(|module| !modules.accepts(module)) {
            None => CanRun::yes(),
            Some(module) => {
                let command = || fsdyno_lab::build::module_command(module, release);
                let remedy = kind.kernel_hint.clone().or_else(command).or(kind.kernels());
                let remedy = remedy.unwrap_or("--kernel with a kernel that supports it".into());
                CanRun::no(format!("kernel {release} has no module {module}"), remedy)
            }
        }
    }

    /// Determines whether this host's kernel can mount a file system, as root. `--on DIR` does not need this.
    pub fn on_host(&self, kind: &Filesystem) -> CanRun {
        let (release, modules) = &self.host;
        let mount_type = kind.mount.kind.as_str();
        // The raw device is not mounted.
        if mount_type.is_empty() && kind.lies_on == Backing::Device {
            return match self.root {
                true => CanRun::yes(),
                false => CanRun::no("only root can set up its loop device", "sudo, or the lab"),
            };
        }
        if !prerequisites::supports(kind, &self.proc_filesystems, modules.as_ref()) {
            let remedy = match &kind.kernel_hint {
                Some(hint) => hint.clone(),
                None => "run it in the lab, or boot a kernel that supports it".into(),
            };
            return CanRun::no(format!("this kernel ({release}) has no {mount_type}"), remedy);
        }
        if let Some(answer) = missing_tools(kind) {
            return answer;
        }
        if kind.in_user_space() && !Path::new("/dev/fuse").exists() {
            return CanRun::no("no /dev/fuse", "modprobe fuse");
        }
        match self.root {
            true => CanRun::yes(),
            false => {
                CanRun::no("only root can make and mount it", "sudo, or --on a directory of it")
            }
        }
    }
}

/// Returns the answer of the lab and of the host for a file system that only `--on model` has.
pub fn model_support() -> CanRun {
    CanRun::no("it is a model in this program, not a kernel's file system", "--on model")
}

fn missing_tools(kind: &Filesystem) -> Option<CanRun> {
    let missing = tools::missing(kind);
    let remedy = || format!("apt-get install {}", kind.package);
    (!missing.is_empty()).then(|| CanRun::no(format!("no {}", missing.join(", ")), remedy()))
}

/// Describes the backing of a file system briefly.
pub fn backing(kind: &Filesystem) -> &'static str {
    match kind.lies_on {
        Backing::Device => "a device",
        Backing::Memory => "memory",
        Backing::Filesystem => "another file system",
        Backing::Command => "whatever its command uses",
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_filesystem::catalog;

    use super::*;

    fn bare(release: &str) -> Capabilities {
        Capabilities {
            kernel: None,
            kernels: Vec::new(),
            lab_problem: None,
            proc_filesystems: "nodev\ttmpfs\n\text4\n".into(),
            host: (release.into(), None),
            root: true,
        }
    }

    fn modules(release: &str, names: &[&str]) -> (tempfile::TempDir, (String, Modules)) {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join("kernel/fs").join(format!("{name}.ko"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"").unwrap();
        }
        let opened = Modules::open(folder.path(), release).unwrap();
        (folder, (release.to_string(), opened))
    }

    fn kind(name: &str) -> &'static Filesystem {
        catalog::get(name).unwrap()
    }

    #[test]
    fn the_lab_needs_the_module_of_its_kernel() {
        let (_folder, kernel) = modules("6.1.0-56-amd64", &["ext4", "overlay", "f2fs"]);
        let capabilities = Capabilities { kernel: Some(kernel), ..bare("6.1") };
        for name in ["ext4", "overlayfs", "tmpfs", "f2fs"] {
            assert_eq!(capabilities.by_lab_kernel(kind(name)), CanRun::yes(), "{name}");
        }
        let fuse = capabilities.by_lab_kernel(kind("fuse"));
        assert_eq!(fuse.reason.as_deref(), Some("kernel 6.1.0-56-amd64 has no module fuse"));
        let reiser4 = capabilities.by_lab_kernel(kind("reiser4"));
        assert!(!reiser4.is_possible && reiser4.remedy.unwrap().contains("--kernel IMAGE:MODULES"));
    }

    #[test]
    fn a_removed_file_system_needs_an_older_kernel() {
        let (_folder, kernel) = modules("6.13.2", &["reiserfs"]);
        let capabilities = Capabilities { kernel: Some(kernel), ..bare("6.13") };
        let answer = capabilities.by_lab_kernel(kind("reiserfs"));
        assert_eq!(answer.reason.as_deref(), Some("Linux 6.13.2 no longer has reiserfs"));
        assert_eq!(answer.remedy.as_deref(), Some("--kernel 6.12"));
        let capabilities =
            Capabilities { kernels: vec!["6.13.2".into(), "6.1.0-9".into()], ..capabilities };
        assert_eq!(
            capabilities.by_lab_kernel(kind("reiserfs")).remedy.as_deref(),
            Some("--kernel 6.1.0-9")
        );
    }

    #[test]
    fn the_first_download_provides_only_what_distributions_have() {
        let none = bare("6.1");
        assert!(!none.by_lab_kernel(kind("reiser4")).is_possible);
        assert!(
            none.by_lab_kernel(kind("reiserfs")).reason.unwrap().contains("downloads a kernel")
        );
    }

    #[test]
    fn a_host_needs_its_own_kernels_driver_and_root() {
        let capabilities = bare("6.18.4");
        assert!(capabilities.on_host(kind("tmpfs")).is_possible);
        let answer = capabilities.on_host(kind("f2fs"));
        assert_eq!(answer.reason.as_deref(), Some("this kernel (6.18.4) has no f2fs"));
        assert_eq!(capabilities.on_host(kind("raw")), CanRun::yes());
        let unprivileged = Capabilities { root: false, ..capabilities };
        for name in ["tmpfs", "raw"] {
            assert!(
                unprivileged.on_host(kind(name)).reason.unwrap().contains("only root"),
                "{name}"
            );
        }
    }

    #[test]
    fn without_qemu_there_is_no_lab() {
        let lab_problem =
            Some(("no QEMU".to_string(), "apt-get install qemu-system-x86".to_string()));
        let capabilities = Capabilities { lab_problem, ..bare("6.1") };
        let answer = capabilities.in_lab(kind("ext4"));
        assert_eq!(answer.remedy.as_deref(), Some("apt-get install qemu-system-x86"));
    }
}
