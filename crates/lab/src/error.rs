//! Errors before a guest runs ([`LabError`]) and while it runs ([`RunError`]).

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsdyno_filesystem::lookup;

use crate::build::module_command;
use crate::elf::ElfError;

/// The reason why no guest could be prepared.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// No QEMU was found.
    #[error("find QEMU: {0}")]
    NoQemu(String),
    /// QEMU was found, but cannot run a lab.
    #[error("use {path}: {reason}")]
    WrongQemu {
        /// The program.
        path: PathBuf,
        /// The missing feature.
        reason: String,
    },
    /// No suitable kernel was found, and none could be downloaded.
    #[error("find a kernel: {0}")]
    NoKernel(String),
    /// Other users could change the lab's cache.
    #[error("use the cache folder {folder}: {reason}")]
    UnsafeCache {
        /// The folder of the cache.
        folder: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Guests cannot run on this host's own CPU.
    #[error("use KVM: {0}")]
    NoKvm(String),
    /// The kernel named by `--kernel` cannot be used.
    #[error("use the kernel {what}: {reason}")]
    WrongKernel {
        /// The kernel as given or found.
        what: String,
        /// The problem.
        reason: String,
    },
    /// The kernel does not have this module.
    #[error("find the module '{module}' of kernel {release}{}", searched_folder(module, folder))]
    NoModule {
        /// The name of the module.
        module: String,
        /// The kernel's release.
        release: String,
        /// The folder that was searched.
        folder: PathBuf,
    },
    /// A program that the guest needs is not installed.
    #[error("find the program '{0}'{place}", place = searched_path(.0))]
    NoTool(String),
    /// The tools of a file system could not be downloaded from Debian's suites.
    #[error("download the tools of {kind}: {why}")]
    NoToolSet {
        /// The file system.
        kind: String,
        /// The reason.
        why: String,
    },
    /// The requested kernel must be built first.
    #[error("use the kernel {what}: it is not built yet")]
    UnbuiltKernel {
        /// The kernel as given.
        what: String,
        /// The command that builds it.
        command: &'static str,
    },
    /// Programs or headers that a build needs are not installed.
    #[error("build {what}: it needs {missing}")]
    NoBuildTool {
        /// The name of the build.
        what: String,
        /// The missing programs and headers.
        missing: String,
        /// The Debian packages that provide them.
        packages: String,
    },
    /// A build cannot run, because this user may not create namespaces.
    #[error("build {what}: {problem}")]
    NoNamespace {
        /// The name of the build.
        what: String,
        /// The message of unshare(1).
        problem: String,
    },
    /// A module cannot be built for a kernel.
    #[error("build {module} for {release}: {why}")]
    NoModuleBuild {
        /// The name of the module.
        module: String,
        /// The kernel as given or found.
        release: String,
        /// The reason.
        why: String,
    },
    /// A build failed.
    #[error("build {what}: {why}")]
    NotBuilt {
        /// The name of the build.
        what: String,
        /// The reason.
        why: String,
        /// The log of the build.
        log: PathBuf,
    },
    /// A source to build is not the required one.
    #[error("use the source {what}: {why}")]
    WrongSource {
        /// The source as given.
        what: String,
        /// The problem.
        why: String,
    },
    /// A shared library that a program needs is not installed.
    #[error("find the library '{library}' that {needed_by} needs")]
    NoLibrary {
        /// The soname of the library.
        library: String,
        /// The file that needs it.
        needed_by: PathBuf,
    },
    /// A file is damaged or has an unsupported format.
    #[error("read {path}: {reason}")]
    BadFile {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// A file or folder could not be read or written.
    #[error("{action} {path}: {error}")]
    Io {
        /// `read`, `write`, `create`, ...
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the host.
        error: io::Error,
    },
}

impl LabError {
    /// Returns a function that creates a [`LabError::BadFile`], for `map_err`.
    pub(crate) fn damaged(path: &Path) -> impl FnOnce(ElfError) -> LabError {
        move |error| LabError::BadFile { path: path.to_path_buf(), reason: error.to_string() }
    }

    /// Returns a function that creates a [`LabError::Io`], for `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LabError {
        let path = path.to_path_buf();
        move |error| LabError::Io { action, path, error }
    }

    /// Returns true if something is missing (exit code 3), as opposed to misused or broken.
    pub fn is_missing(&self) -> bool {
        use LabError::*;
        match self {
            NoQemu(_)
            | WrongQemu { .. }
            | NoKernel(_)
            | NoKvm(_)
            | NoTool(_)
            | NoToolSet { .. }
            | UnbuiltKernel { .. }
            | NoBuildTool { .. }
            | NoNamespace { .. }
            | NoLibrary { .. } => true,
            NoModule { .. } => true,
            UnsafeCache { .. }
            | WrongKernel { .. }
            | NotBuilt { .. }
            | NoModuleBuild { .. }
            | WrongSource { .. }
            | BadFile { .. }
            | Io { .. } => false,
        }
    }

    /// Returns a remedy: a command or a sentence.
    pub fn hint(&self) -> Option<String> {
        use LabError::*;
        Some(match self {
            NoQemu(_) => "apt-get install qemu-system-x86".into(),
            WrongQemu { .. } => {
                "install QEMU 7.1 or newer for x86 (apt-get install qemu-system-x86) \
                                 or name another with --qemu"
                    .into()
            }
            NoKernel(_) => "apt-get update, so that apt knows linux-image-amd64 (Debian) or \
                            linux-image-generic (Ubuntu); or give a kernel of your own with \
                            --kernel IMAGE:MODULES"
                .into(),
            UnsafeCache { .. } => "give the cache a folder that only its user can change: \
                                   XDG_CACHE_HOME=FOLDER (for root, XDG_CACHE_HOME=/var/cache)"
                .into(),
            NoKvm(_) => {
                "remove --accel kvm: virtual time needs no KVM, and its results are bit-identical"
                    .into()
            }
            WrongKernel { .. } => {
                "--kernel takes a release (6.1.0-56-amd64), the beginning of one \
                                   (6.1), an image (/boot/vmlinuz-6.1.0-56-amd64), or IMAGE:MODULES"
                    .into()
            }
            NoModule { module, release, .. } => module_hint(module, release),
            NoTool(path) if path.contains('/') => {
                "it must be an executable file, given by its absolute path".into()
            }
            NoToolSet { .. } => {
                "they are downloaded with apt from Debian's archive; check the network, \
                                 or install them"
                    .into()
            }
            NoTool(tool) => match lookup::package_of(tool) {
                Some(package) => format!("apt-get install {package}"),
                None => format!("install the package that provides {tool}"),
            },
            NoLibrary { .. } => {
                "reinstall the package of the program; ldd shows what is missing".into()
            }
            UnbuiltKernel { command, .. } => (*command).into(),
            NoBuildTool { packages, .. } => format!("apt-get install {packages}"),
            NoNamespace { .. } => "run it as root, or allow users to create namespaces (sysctl \
                                   user.max_user_namespaces; on Ubuntu \
                                   kernel.apparmor_restrict_unprivileged_userns=0)"
                .into(),
            NotBuilt { log, .. } => format!("the whole output is in {}", log.display()),
            NoModuleBuild { .. } | WrongSource { .. } | BadFile { .. } | Io { .. } => return None,
        })
    }
}

/// Returns the remedy for a kernel without a module.
fn module_hint(module: &str, release: &str) -> String {
    let hint = lookup::kernel_hint_of(module).map(String::from);
    let hint = hint.or_else(|| lookup::kernels_note(module)).unwrap_or_else(|| {
        format!(
            "choose a kernel that has {module}, for example with --kernel 6.1 (Linux 6.13 removed reiserfs)"
        )
    });
    match module_command(module, release) {
        Some(command) => format!("build it: {command}; or {hint}"),
        None => hint,
    }
}

/// Describes where a module was searched for; the result is empty if no distribution's kernel has it.
fn searched_folder(module: &str, folder: &Path) -> String {
    if lookup::kernel_hint_of(module).is_some() {
        return ": no distribution's kernel has it".into();
    }
    format!(": it is neither in {} nor built in", folder.display())
}

/// Describes where a program was searched for.
fn searched_path(tool: &str) -> &'static str {
    if tool.contains('/') { "" } else { " in PATH, /usr/sbin or /sbin" }
}

/// The reason why a guest ended without a report. `Display` includes the last lines of its console.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The guest's kernel panicked.
    #[error("run the guest: its kernel panicked{}{}", cause(console), tail(console))]
    Panicked {
        /// Lines of its console.
        console: Vec<String>,
    },
    /// The guest showed no sign of life.
    #[error("run the guest: no sign of life for {} s{}", after.as_secs(), tail(console))]
    Stalled {
        /// The silence, in host time.
        after: Duration,
        /// Lines of its console.
        console: Vec<String>,
    },
    /// The guest exceeded its time limit.
    #[error("run the guest: not finished after {} s of host time{}", after.as_secs(), tail(console))]
    Deadline {
        /// The limit, in host time.
        after: Duration,
        /// Lines of its console.
        console: Vec<String>,
    },
    /// QEMU ended without a report.
    #[error("run the guest: QEMU {how} before the report was complete{}", tail(console))]
    Died {
        /// `was killed by signal 9`, `exited with status 1`, ...
        how: String,
        /// True if QEMU ended normally, as it does when its guest powers off.
        powered_off: bool,
        /// Lines of its console and of QEMU's own messages.
        console: Vec<String>,
    },
    /// QEMU ran without the clock guard.
    #[error(
        "guard the guest's clock: QEMU did not load the library that keeps host time out of it{}",
        tail(console)
    )]
    Unguarded {
        /// Lines of its console and of QEMU's own messages.
        console: Vec<String>,
    },
    /// The folder of the disks' files is full.
    #[error("store the modelled disk: no space left in {workdir}")]
    OutOfSpace {
        /// The folder.
        workdir: PathBuf,
    },
    /// A file that is part of the lab's identity was replaced.
    #[error("use {path}: it was replaced after the lab's identity was computed")]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(LabError),
    /// The watcher requested a stop.
    #[error("finish: stopped on request")]
    Stopped,
    /// The job does not fit into the mailbox.
    #[error("pass the job to the guest: {0}")]
    Job(#[from] fsdyno_record::mailbox::MailboxError),
    /// A system call of the host failed.
    #[error("{action}: {error}")]
    Host {
        /// The attempted action.
        action: &'static str,
        /// The error of the host.
        error: io::Error,
    },
}

impl RunError {
    /// Returns the last lines of the guest's console, if it had one.
    pub fn console(&self) -> &[String] {
        use RunError::*;
        match self {
            Panicked { console }
            | Stalled { console, .. }
            | Deadline { console, .. }
            | Died { console, .. }
            | Unguarded { console } => console,
            OutOfSpace { .. } | Replaced { .. } | Cache(_) | Stopped | Job(_) | Host { .. } => &[],
        }
    }

    /// Returns a remedy.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            RunError::Cache(error) => return error.hint(),
            RunError::OutOfSpace { .. } => "free some space, or set TMPDIR to a larger file system",
            RunError::Replaced { .. } => "run again when no package is being installed",
            RunError::Unguarded { .. } => {
                "use a QEMU that is linked dynamically with glibc (apt-get install \
                 qemu-system-x86), on a host that executes files in memory (sysctl \
                 vm.memfd_noexec is 0 or 1)"
            }
            _ => return None,
        };
        Some(hint.into())
    }
}

/// Returns the reason for a panic, if the panic's own message does not state it.
fn cause(console: &[String]) -> &'static str {
    if console.iter().any(|line| line.contains("Initramfs unpacking failed: write error")) {
        return " because its programs did not fit into memory; increase --ram";
    }
    ""
}

/// Formats the most relevant lines of a console, to be appended to a sentence: those around the first sign of a
/// problem, because a panic prints thirty lines of registers after its reason; or else the last lines.
fn tail(console: &[String]) -> String {
    const LINES: usize = 20;
    const BEFORE: usize = 5;
    const TROUBLE: &[&str] = &["BUG: ", "Oops: ", "Kernel panic", "Out of memory"];
    if console.is_empty() {
        return "; its console is empty".into();
    }
    let trouble = console.iter().position(|line| TROUBLE.iter().any(|sign| line.contains(sign)));
    let start = trouble.map_or(console.len().saturating_sub(LINES), |at| at.saturating_sub(BEFORE));
    let shown = &console[start..console.len().min(start + LINES)];
    format!("; its console says:\n    {}", shown.join("\n    "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_missing_tool_names_its_package() {
        let error = LabError::NoTool("mkfs.xfs".into());
        assert_eq!(error.hint().unwrap(), "apt-get install xfsprogs");
        let path = LabError::NoTool("/opt/x".into());
        assert_eq!(path.to_string(), "find the program '/opt/x'");
        assert!(path.hint().unwrap().contains("executable file"));
        assert!(error.is_missing());
    }

    #[test]
    fn a_hung_guest_shows_the_last_twenty_lines_of_its_console() {
        let console: Vec<String> = (1..=30).map(|n| format!("line {n}.")).collect();
        let text = RunError::Stalled { after: Duration::from_secs(9), console }.to_string();
        assert!(text.starts_with("run the guest: no sign of life for 9 s; its console says:"));
        assert!(text.contains("line 30.") && text.contains("line 11."), "{text}");
        assert!(!text.contains("line 10."), "{text}");
    }

    #[test]
    fn a_panic_shows_its_reason_and_not_only_the_registers_after_it() {
        let mut console: Vec<String> = (1..=60).map(|n| format!("line {n}.")).collect();
        console[29] = "Kernel panic - not syncing: Attempted to kill init!".into();
        let text = RunError::Panicked { console }.to_string();
        assert!(text.contains("Attempted to kill init") && text.contains("line 25."), "{text}");
        assert!(!text.contains("line 24.") && !text.contains("line 60."), "{text}");
        assert!(!text.contains("memory"), "{text}");
        let console = vec!["[    0.5] Initramfs unpacking failed: write error".to_string()];
        let text = RunError::Panicked { console }.to_string();
        assert!(text.contains("did not fit into memory") && text.contains("--ram"), "{text}");
    }
}
