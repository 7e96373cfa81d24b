//! A file system whose work a process does (FUSE): mounted by its command, and waited for.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use fsdyno_engine::clock;
use fsdyno_record::Nanos;
use rustix::fs::MemfdFlags;
use rustix::process::Pid;

use crate::mount_info::{self, Mount};
use crate::process;

/// How long a command may take to mount, and its process to end after the unmount: it may have
/// gigabytes to write on a slow disk.
const LIMIT: Nanos = Nanos(3600 * 1_000_000_000);

/// A command that goes to the background has mounted before, or will soon after.
const AFTER_ITS_END: Nanos = Nanos(10_000_000_000);

const PERIOD: Duration = Duration::from_millis(1);

/// How many of the command's last lines are kept.
const LINES: usize = 6;

/// The processes that do the work of a mounted file system.
#[derive(Debug, Default)]
pub struct Workers {
    /// What the command says; none while nothing is mounted.
    said: Option<File>,
    /// Those that were seen at work, so that how they end is asked for even if it was at once.
    pids: Vec<Pid>,
    /// Children of ours that were there before the command: the modelled disks' servers.
    others: Vec<Pid>,
}

/// Runs the command until something is mounted at `at`.
///
/// This process starts nothing else while the file system is mounted: all children that it has then and had
/// not before are taken for the file system's, and are waited for after the unmount.
///
/// # Errors
/// The command's own words, if it fails or does not mount.
pub fn mount<'a>(
    argv: &[String],
    env: impl IntoIterator<Item = (&'a String, &'a String)>,
    at: &Path,
) -> io::Result<Workers> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "an empty command"));
    };
    // A process that goes to the background stays our child, so that its end can be waited for.
    // SAFETY: takes numbers only.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // Nobody reads a pipe's other end for as long as the process lives.
    let said = File::from(rustix::fs::memfd_create("fsdyno-fuse", MemfdFlags::CLOEXEC)?);
    let others = children()?;
    let child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/bin:/sbin:/usr/bin:/usr/sbin")
        .envs(env)
        .stdin(Stdio::null())
        .stdout(said.try_clone()?)
        .stderr(said.try_clone()?)
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    let workers = Workers { said: Some(said), pids: Vec::new(), others };
    let failed = |workers: &Workers, how: &str| {
        io::Error::other(format!("{} {how}: {}", argv.join(" "), workers.words()))
    };
    let started = clock::now();
    let mut ended_at = None;
    let place = at.to_string_lossy();
    while mount_info::in_effect(&Mount::At(&place))?.is_none() {
        let now = clock::now();
        if ended_at.is_none()
            && let Some(how) =
                Pid::from_raw(child.id() as i32).map(process::ended).transpose()?.flatten()
        {
            if how != "exit code 0" {
                return Err(failed(&workers, &format!("failed ({how})")));
            }
            ended_at = Some(now);
        }
        if ended_at.is_some_and(|ended| now.since(ended) > AFTER_ITS_END) {
            return Err(failed(&workers, "ended and mounted nothing"));
        }
        if now.since(started) > LIMIT {
            return Err(failed(&workers, &format!("has not mounted within {LIMIT}")));
        }
        std::thread::sleep(PERIOD);
    }
    Ok(workers)
}

impl Workers {
    /// The processes that do its work now: a command that goes to the background does so after the mount, so
    /// that what works is not what was started.
    pub fn now(&self) -> Vec<Pid> {
        if self.said.is_some() { self.living().unwrap_or_default() } else { Vec::new() }
    }

    /// Takes down who works, once the file system has answered.
    pub fn look(&mut self) {
        self.pids = self.now();
    }

    fn living(&self) -> io::Result<Vec<Pid>> {
        Ok(children()?.into_iter().filter(|pid| !self.others.contains(pid)).collect())
    }

    /// Waits until all have ended, after the unmount: until then they may write. One that ends may leave
    /// another one to us, so all are looked for anew until there are none.
    ///
    /// # Errors
    /// One that does not end, or not well.
    pub fn wait(&mut self) -> io::Result<()> {
        if self.said.is_none() {
            return Ok(());
        }
        let started = clock::now();
        let mut waited = std::mem::take(&mut self.pids);
        loop {
            let found = self.living()?;
            waited
                .extend(found.into_iter().filter(|pid| !waited.contains(pid)).collect::<Vec<_>>());
            if waited.is_empty() {
                break;
            }
            let mut ended = Vec::new();
            for pid in &waited {
                match process::ended(*pid) {
                    Ok(Some(how)) if how == "exit code 0" => ended.push(*pid),
                    Ok(Some(how)) => {
                        return Err(io::Error::other(format!(
                            "the file system's process ended with {how}: {}",
                            self.words()
                        )));
                    }
                    Ok(None) => {}
                    Err(error) if error.raw_os_error() == Some(libc::ECHILD) => ended.push(*pid),
                    Err(error) => return Err(error),
                }
            }
            waited.retain(|pid| !ended.contains(pid));
            if clock::now().since(started) > LIMIT {
                return Err(io::Error::other(format!(
                    "the file system's process has not ended within {LIMIT} of its unmount"
                )));
            }
            if ended.is_empty() {
                std::thread::sleep(PERIOD);
            }
        }
        self.said = None;
        Ok(())
    }

    /// The last words of the command.
    fn words(&self) -> String {
        let mut text = String::new();
        if let Some(mut said) = self.said.as_ref()
            && said.rewind().is_ok()
        {
            let _ = said.read_to_string(&mut text);
        }
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        match lines.len() {
            0 => "it said nothing".into(),
            some => lines[some.saturating_sub(LINES)..].join(" / "),
        }
    }
}

/// The living children of this process, by /proc.
///
/// On a host this process is the first of a namespace of process numbers and /proc is still that of the
/// namespace outside, where kernel threads are seen: there we and our children have other numbers than
/// those that waitpid(2) takes, which are the last of `NSpid` (proc(5)).
fn children() -> io::Result<Vec<Pid>> {
    let own = fs::read_link("/proc/self")?;
    let own = own.to_str().unwrap_or_default();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.bytes().all(|b| b.is_ascii_digit()))
        else {
            continue;
        };
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        found.extend(living_child(&status, own, name).and_then(Pid::from_raw));
    }
    found.sort_unstable_by_key(|pid| pid.as_raw_nonzero());
    Ok(found)
}

/// The number of a living child of `parent` as that one knows it, by its /proc/NAME/status.
fn living_child(status: &str, parent: &str, name: &str) -> Option<i32> {
    let field = |key: &str| {
        let mut lines = status.lines();
        lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
    };
    if field("PPid") != Some(parent) || field("State")?.starts_with('Z') {
        return None;
    }
    // Kernels before 4.1 do not tell; then there is one number, or the wait for it fails.
    field("NSpid").and_then(|all| all.split_whitespace().last()).unwrap_or(name).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(argv: &[&str]) -> String {
        let argv: Vec<String> = argv.iter().map(ToString::to_string).collect();
        mount(&argv, [], Path::new("/no/such/place")).unwrap_err().to_string()
    }

    #[test]
    fn a_command_that_fails_is_told_with_its_own_words() {
        let text = error(&["sh", "-c", "echo no such option >&2; exit 3"]);
        assert!(text.ends_with("failed (exit code 3): no such option"), "{text}");
        assert!(error(&["no-such-fuse"]).starts_with("no-such-fuse: "));
    }

    #[test]
    fn a_child_is_known_by_the_numbers_of_proc_and_told_by_its_own() {
        let status = |state: &str, ppid: u32| {
            format!("Name:\tfuse2fs\nState:\t{state} (x)\nPPid:\t{ppid}\nNSpid:\t4711\t2\n")
        };
        assert_eq!(living_child(&status("S", 4710), "4710", "4711"), Some(2));
        assert_eq!(living_child(&status("Z", 4710), "4710", "4711"), None);
        // A daemon of the host, whose parent is the host's first process.
        assert_eq!(living_child(&status("S", 1), "4710", "4711"), None);
        let old = "State:\tR (running)\nPPid:\t1\n";
        assert_eq!(living_child(old, "1", "7"), Some(7));
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let found = children().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.iter().any(|pid| pid.as_raw_nonzero().get() == child.id() as i32));
    }

    #[test]
    fn all_that_the_command_left_is_waited_for() {
        // In a process of its own: other tests have children too.
        let alone = process::fork(|| {
            let mut other = Command::new("sleep").arg("1000").spawn()?;
            let others = children()?;
            // As a daemon does: in a session of its own, and left to us by what was started.
            let daemon = "sh -c 'setsid sleep 0.2 & exit 0'";
            // SAFETY: takes numbers only.
            unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
            Command::new("sh").args(["-c", daemon]).spawn()?;
            let said = || Some(tempfile::tempfile().unwrap());
            let mut workers = Workers { said: said(), pids: Vec::new(), others: others.clone() };
            workers.wait()?;
            if children()? != others || !workers.now().is_empty() {
                return Err(io::Error::other("a child is left"));
            }
            // Once unmounted nothing is waited for.
            workers.wait()?;
            let bad = Command::new("false").spawn()?;
            std::thread::sleep(Duration::from_millis(100));
            let ended = Workers { said: said(), pids: vec![Pid::from_child(&bad)], others }.wait();
            other.kill()?;
            match ended {
                Err(error) if error.to_string().contains("ended with exit code 1") => Ok(()),
                other => Err(io::Error::other(format!("{other:?}"))),
            }
        })
        .unwrap();
        loop {
            if let Some(how) = process::ended(alone).unwrap() {
                break assert_eq!(how, "exit code 0");
            }
            std::thread::sleep(PERIOD);
        }
    }

    #[test]
    fn a_command_that_mounts_nothing_is_told() {
        let text = error(&["true"]);
        assert!(text.ends_with("ended and mounted nothing: it said nothing"), "{text}");
    }
}
