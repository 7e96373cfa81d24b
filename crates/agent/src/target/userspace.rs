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
    /// As many as the command left behind.
    pub pids: Vec<Pid>,
    said: Option<File>,
}

/// Runs the command until something is mounted at `at`.
///
/// This process has no other children while the file system is mounted: all that it has then are taken
/// for the file system's.
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
    let mut workers = Workers { pids: Vec::new(), said: Some(said) };
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
    workers.pids = children()?;
    Ok(workers)
}

impl Workers {
    /// Waits until all have ended, after the unmount: until then they may write.
    ///
    /// # Errors
    /// One that does not end, or not well.
    pub fn wait(&mut self) -> io::Result<()> {
        let started = clock::now();
        for pid in std::mem::take(&mut self.pids) {
            loop {
                match process::ended(pid) {
                    Ok(Some(how)) if how == "exit code 0" => break,
                    Ok(Some(how)) => {
                        return Err(io::Error::other(format!(
                            "the file system's process ended with {how}: {}",
                            self.words()
                        )));
                    }
                    Ok(None) => {}
                    // The command itself, which had gone before.
                    Err(error) if error.raw_os_error() == Some(libc::ECHILD) => break,
                    Err(error) => return Err(error),
                }
                if clock::now().since(started) > LIMIT {
                    return Err(io::Error::other(format!(
                        "the file system's process has not ended within {LIMIT} of its unmount"
                    )));
                }
                std::thread::sleep(PERIOD);
            }
        }
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
fn children() -> io::Result<Vec<Pid>> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
        else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // "pid (comm) state ppid ..."
        let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let (state, parent) = (fields.next(), fields.next());
        if parent == Some(own.as_str()) && state != Some("Z") {
            found.push(pid);
        }
    }
    found.sort_unstable_by_key(|pid| pid.as_raw_nonzero());
    Ok(found)
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
    fn a_command_that_mounts_nothing_is_told() {
        let text = error(&["true"]);
        assert!(text.ends_with("ended and mounted nothing: it said nothing"), "{text}");
    }
}
