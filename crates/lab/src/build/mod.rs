//! Kernels and modules that Debian does not ship, built on this host and stored in the cache: `fsdyno kernel build`.
//!
//! A build runs in its own cache folder, and all of its output goes to a log. Only finished kernels and modules get
//! their final names, so an interrupted build leaves nothing that a lab would use; the next build with that
//! name removes the leftovers.

mod commands;
mod linux;
mod reiser4;
mod root;
mod source;
mod stored;
mod zfs;

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fsdyno_child::Process;
use rustix::fs::{FlockOperation, flock};

use crate::apt;
use crate::cache::Cache;
use crate::error::LabError;
use crate::tools;

pub use commands::{command_for, is_requested, module_command};
pub use reiser4::{Sources, reiser4};
pub use stored::origin;
pub(crate) use stored::{FOLDER, modules_for, store_kernel, store_modules};
pub use zfs::zfs;

/// The cache folder of builds and their logs.
const BUILDS: &str = "builds";

/// The maximum number of log lines in an error.
const LINES: usize = 8;

/// The interval between messages about a long-running command.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// Environment variables that keep the date, user, host and language of a build out of its output.
const FIXED_ENVIRONMENT: &[(&str, &str)] = &[
    ("KBUILD_BUILD_TIMESTAMP", "1970-01-01 00:00:00 UTC"),
    ("KBUILD_BUILD_USER", "fsdyno"),
    ("KBUILD_BUILD_HOST", "fsdyno"),
    ("KBUILD_BUILD_VERSION", "1"),
    ("LC_ALL", "C"),
    ("TZ", "UTC"),
];

/// Returns the arguments that run a command in a PID namespace, whose processes all end with unshare(1), and in the
/// namespaces `extra`. A user other than root also needs a user namespace, with the mapping `user`.
fn in_namespaces(extra: &[&'static str], user: &'static str) -> Vec<&'static str> {
    let mut args = vec!["unshare", "--pid", "--fork", "--kill-child"];
    args.extend(extra);
    if !rustix::process::geteuid().is_root() {
        args.extend(["--user", user]);
    }
    args
}

/// Returns the reason why this user cannot run a command, if there is one.
fn problem_of(args: &[&str]) -> Option<String> {
    let mut command = Command::new(args[0]);
    command.args(&args[1..]).env("LC_ALL", "C").stdin(Stdio::null());
    match command.output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(apt::last_line(&output.stderr)),
        Err(error) => Some(format!("{} cannot be started: {error}", args[0])),
    }
}

/// The options of a build.
#[derive(Clone, Copy, Debug)]
pub struct BuildOptions {
    /// The maximum number of compilers that run at the same time.
    pub jobs: usize,
    /// True if the build folder is kept.
    pub keep: bool,
}

/// The result of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildResult {
    /// The release of the kernel that was built, or for which modules were built, in the form that `--kernel` accepts.
    pub release: String,
    /// The elapsed time.
    pub elapsed: Duration,
    /// The build folder, if it is kept.
    pub folder: Option<PathBuf>,
}

/// A requirement of a build: a program or a C header, and the Debian package that provides it.
#[derive(Clone, Copy, Debug)]
struct Need {
    what: &'static str,
    package: &'static str,
}

/// A build in progress: its name in messages, its folder and its log.
struct Build<'a> {
    what: &'static str,
    folder: PathBuf,
    log: PathBuf,
    started: Instant,
    options: BuildOptions,
    say: &'a dyn Fn(&str),
    /// The build's lock, held until the end.
    _lock: File,
}

impl Drop for Build<'_> {
    fn drop(&mut self) {
        if !self.options.keep {
            // The next build removes leftovers.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

impl<'a> Build<'a> {
    /// Begins a build with an empty folder and an empty log.
    fn begin(
        what: &'static str,
        options: BuildOptions,
        cache: &Cache,
        say: &'a dyn Fn(&str),
    ) -> Result<Build<'a>, LabError> {
        let builds = cache.folder(BUILDS)?;
        let folder = builds.join(what);
        let log = builds.join(format!("{what}.log"));
        let lock = builds.join(format!("{what}.lock"));
        let locked = File::create(&lock).map_err(LabError::io("create", &lock))?;
        if flock(&locked, FlockOperation::NonBlockingLockExclusive).is_err() {
            let why = "another process is building it".to_string();
            return Err(LabError::NotBuilt { what: what.into(), why, log });
        }
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(LabError::io("remove", &folder))?;
        }
        cache.folder(&format!("{BUILDS}/{what}"))?;
        fs::write(&log, "").map_err(LabError::io("write", &log))?;
        Ok(Build { what, folder, log, started: Instant::now(), options, say, _lock: locked })
    }

    /// Announces the next step.
    fn step(&self, step: &str) {
        (self.say)(&format!("{}: {step}", self.what));
    }

    /// Runs one command of the build in a folder, at low priority. All its processes are killed if this process ends.
    fn run(&self, args: &[&str], folder: &Path) -> Result<(), LabError> {
        let mut prefix = in_namespaces(&[], "--map-current-user");
        // Where this user may not create namespaces, only the command itself is killed, not its children.
        if problem_of(&[&prefix[..], &["true"]].concat()).is_some() {
            prefix.clear();
        }
        self.run_plainly(&[&prefix[..], args].concat(), folder)
    }

    /// Runs a command as [`Build::run`] does, but without a PID namespace. Of the user's environment, which could
    /// change the output, the command receives only PATH.
    fn run_plainly(&self, args: &[&str], folder: &Path) -> Result<(), LabError> {
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec >>\"$0\" 2>&1; exec nice -n 10 \"$@\""])
            .arg(&self.log)
            .args(args);
        command.current_dir(folder).env_clear().envs(FIXED_ENVIRONMENT.iter().copied());
        command.envs(env::var_os("PATH").map(|path| ("PATH", path)));
        let failed = |error: io::Error| self.failed(error.to_string());
        let mut child = Process::start(command, &[]).map_err(failed)?;
        let mut reported = Instant::now();
        let status = loop {
            match child.poll().map_err(failed)? {
                Some(ended) => break ended.status,
                None => thread::sleep(Duration::from_millis(50)),
            }
            if reported.elapsed() > REPORT_INTERVAL {
                reported = Instant::now();
                self.step(&self.progress());
            }
        };
        match status.success() {
            true => Ok(()),
            false => Err(self.failed(self.reason())),
        }
    }

    fn log_text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Describes the progress of a long-running command: the elapsed time, and the number of files compiled so far, if
    /// any.
    fn progress(&self) -> String {
        let text = self.log_text();
        let minutes = self.started.elapsed().as_secs_f64() / 60.0;
        match text.lines().filter(|line| line.starts_with("  CC ")).count() {
            0 => format!("{minutes:.1} min"),
            files => format!("{minutes:.1} min, {files} files compiled"),
        }
    }

    /// Returns the log lines that explain a failure: those from the first `error:` on, or else the last ones.
    fn reason(&self) -> String {
        let text = self.log_text();
        let lines: Vec<&str> = text.lines().collect();
        let start = lines.iter().position(|line| line.contains("rror: "));
        let start = start.unwrap_or(lines.len().saturating_sub(LINES));
        lines[start..].iter().take(LINES).map(|line| line.trim()).collect::<Vec<_>>().join(" / ")
    }

    fn failed(&self, why: String) -> LabError {
        LabError::NotBuilt { what: self.what.to_string(), why, log: self.log.clone() }
    }

    fn done(&self, release: String) -> BuildResult {
        let folder = self.options.keep.then(|| self.folder.clone());
        BuildResult { release, elapsed: self.started.elapsed(), folder }
    }
}

/// Checks that this host has the programs and headers that a build needs.
fn check_needs(what: &str, needs: &[Need]) -> Result<(), LabError> {
    let is_header = |need: &Need| need.what.ends_with(".h");
    let lacks = |need: &&Need| match is_header(need) {
        true => !has_header(need.what),
        false => tools::find(need.what).is_err(),
    };
    let missing: Vec<&Need> = needs.iter().filter(lacks).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = |field: fn(&Need) -> &'static str, separator: &str| {
        missing.iter().map(|need| field(need)).collect::<Vec<_>>().join(separator)
    };
    Err(LabError::NoBuildTool {
        what: what.to_string(),
        missing: list(|need| need.what, ", "),
        packages: list(|need| need.package, " "),
    })
}

/// Returns true if the compiler finds a header; false if there is no compiler.
fn has_header(name: &str) -> bool {
    let mut command = Command::new("gcc");
    command.args(["-E", "-x", "c", "-include", name, "/dev/null"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Replaces text that must occur exactly once in a file.
fn replace_once(build: &Build<'_>, file: &Path, old: &str, new: &str) -> Result<(), LabError> {
    let text = fs::read_to_string(file).map_err(LabError::io("read", file))?;
    match text.matches(old).count() {
        1 => fs::write(file, text.replace(old, new)).map_err(LabError::io("write", file)),
        count => Err(build.failed(format!(
            "{} has '{}' {count} times instead of once; its version is not supported",
            file.display(),
            old.lines().next().unwrap_or_default().trim()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: BuildOptions = BuildOptions { jobs: 1, keep: false };

    #[test]
    fn the_reason_of_a_failed_build_is_the_first_error_in_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let build = Build::begin("thing", OPTIONS, &cache, &|_| ()).unwrap();
        assert_eq!(build.progress(), "0.0 min");
        build.run(&["sh", "-c", "echo '  CC a.o'; echo one"], &build.folder).unwrap();
        assert_eq!(build.progress(), "0.0 min, 1 files compiled");
        let script = "echo a.c:3: error: no such member; echo make: stop; exit 2";
        let error = build.run(&["sh", "-c", script], &build.folder).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("build thing: a.c:3: error: no such member / make: stop"), "{text}");
        assert!(error.hint().unwrap().contains("thing.log"), "{:?}", error.hint());
        assert!(!error.is_missing());
    }

    #[test]
    fn the_folder_of_a_build_is_removed_unless_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let options = BuildOptions { keep: true, ..OPTIONS };
        let build = Build::begin("thing", options, &cache, &|_| ()).unwrap();
        let build_folder = build.folder.clone();
        fs::write(build_folder.join("old"), "").unwrap();
        // Only one build per name runs at a time.
        let error = Build::begin("thing", OPTIONS, &cache, &|_| ()).err().unwrap().to_string();
        assert!(error.contains("another process is building it"), "{error}");
        assert_eq!(build.done("1".into()).folder, Some(build_folder.clone()));
        drop(build);
        assert!(build_folder.join("old").is_file());
        // A process that another test is just starting has a copy of the lock until it executes its program.
        let begin = || Build::begin("thing", OPTIONS, &cache, &|_| ()).ok();
        let waits = std::iter::repeat_with(|| std::thread::sleep(Duration::from_millis(10)));
        let build = waits.take(1000).find_map(|()| begin()).unwrap();
        assert!(!build_folder.join("old").exists() && build_folder.is_dir());
        assert_eq!(build.done("1".into()).folder, None);
        drop(build);
        assert!(!build_folder.exists());
    }

    #[test]
    fn all_processes_of_a_command_end_with_the_one_that_started_it() {
        let prefix = in_namespaces(&[], "--map-current-user");
        if let Some(why) = problem_of(&[&prefix[..], &["true"]].concat()) {
            return println!("skipped: this user may not create namespaces: {why}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("alive");
        let script =
            format!("(while :; do echo x >>'{}'; sleep 0.01; done) & wait", file.display());
        let mut command = Command::new(prefix[0]);
        command.args(&prefix[1..]).args(["sh", "-c", &script]);
        let mut unshare = command.stdin(Stdio::null()).spawn().unwrap();
        let length = || fs::metadata(&file).map_or(0, |it| it.len());
        while length() == 0 {
            thread::sleep(Duration::from_millis(5));
        }
        unshare.kill().unwrap();
        unshare.wait().unwrap();
        thread::sleep(Duration::from_millis(100));
        let at_end = length();
        thread::sleep(Duration::from_millis(200));
        assert_eq!(length(), at_end);
    }

    #[test]
    fn all_missing_requirements_are_named_with_their_packages() {
        let need = |what, package| Need { what, package };
        check_needs("thing", &[need("sh", "dash")]).unwrap();
        let needs = [
            need("sh", "dash"),
            need("no-such-compiler", "compiler"),
            need("no/such/header.h", "header-dev"),
        ];
        let error = check_needs("thing", &needs).unwrap_err();
        let text = error.to_string();
        assert_eq!(text, "build thing: it needs no-such-compiler, no/such/header.h");
        assert_eq!(error.hint().unwrap(), "apt-get install compiler header-dev");
        assert!(error.is_missing());
    }

    #[test]
    fn a_text_that_does_not_occur_once_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let build = Build::begin("thing", OPTIONS, &cache, &|_| ()).unwrap();
        let file = folder.path().join("a.c");
        fs::write(&file, "one two two").unwrap();
        replace_once(&build, &file, "one", "1").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "1 two two");
        let error = replace_once(&build, &file, "two\nthree", "2").unwrap_err().to_string();
        assert!(error.contains("a.c has 'two' 0 times instead of once"), "{error}");
    }
}
