//! Runs a file system's own tool on an image: read-only, with a deadline, and killed together with this process.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use fsdyno_child::{Process, memory_file};
use fsdyno_filesystem::{catalog, lookup};

/// Returns the names of the file systems that can be mapped, as text.
fn supported() -> String {
    let supported = catalog::all().iter().filter(|filesystem| filesystem.map.is_some());
    let names: Vec<&str> = supported.map(|filesystem| filesystem.name.as_str()).collect();
    match names.split_last() {
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

/// An error that prevents reading a map.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// A tool is not installed.
    #[error("'{tool}' is not installed; install it with: apt-get install {package}")]
    Missing {
        /// Its program.
        tool: &'static str,
        /// Its Debian package.
        package: &'static str,
    },
    /// A tool did not finish in time.
    #[error("{tool} did not finish within {} s of host time and was killed", .deadline.as_secs())]
    Timeout {
        /// Its program.
        tool: &'static str,
        /// Its deadline.
        deadline: Duration,
    },
    /// A tool could not read the image.
    #[error("{tool} could not read the image: {message}")]
    Unreadable {
        /// Its program.
        tool: &'static str,
        /// Its error output.
        message: String,
    },
    /// The kind of file system is not supported.
    #[error("fsdyno cannot map {kind}; it supports {}", supported(), kind = .0)]
    Unsupported(String),
    /// The tool could not be run.
    #[error("failed to run {tool}: {source}")]
    Host {
        /// Its program.
        tool: &'static str,
        /// The system call's error.
        source: std::io::Error,
    },
}

/// The maximum time for one image, in host time.
pub const DEADLINE: Duration = Duration::from_secs(300);

const POLL_INTERVAL: Duration = Duration::from_millis(3);

/// A tool of a file system.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Program.
    pub name: &'static str,
    /// Maximum run time.
    pub deadline: Duration,
}

impl Tool {
    /// Creates a tool with the default deadline.
    pub const fn new(name: &'static str) -> Tool {
        Tool { name, deadline: DEADLINE }
    }

    /// Runs the tool on an image and returns its output. In the arguments, `{image}` stands for the image; `input` is
    /// its stdin. The caller checks the exit code.
    ///
    /// # Errors
    /// The tool is missing, hangs, or cannot be started.
    pub fn run(
        &self,
        arguments: &[&str],
        image: &File,
        input: &str,
    ) -> Result<ToolOutput, MapError> {
        let to_error = |source| MapError::Host { tool: self.name, source };
        let program = self.find()?;
        let path = format!("/dev/fd/{}", image.as_raw_fd());
        let mut command = Command::new(program);
        command
            .args(arguments.iter().map(|word| word.replace("{image}", &path)))
            .env("LC_ALL", "C")
            .env("PATH", "/sbin:/usr/sbin:/bin:/usr/bin")
            .env("DEBUGFS_PAGER", "cat");
        let mut stdin = memory_file(c"fsdyno-tool-input").map_err(to_error)?;
        stdin.write_all(input.as_bytes()).map_err(to_error)?;
        let mut output = memory_file(c"fsdyno-tool-output").map_err(to_error)?;
        let mut process =
            Process::start_with_io(command, stdin, &output, &[image.as_fd()]).map_err(to_error)?;
        let started = Instant::now();
        let code = loop {
            if let Some(exit) = process.poll().map_err(to_error)? {
                break exit.status.code();
            }
            if started.elapsed() >= self.deadline {
                return Err(MapError::Timeout { tool: self.name, deadline: self.deadline });
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        let mut bytes = Vec::new();
        output.rewind().and_then(|()| output.read_to_end(&mut bytes)).map_err(to_error)?;
        let stderr = process.last_lines(5).join(" / ");
        Ok(ToolOutput { text: String::from_utf8_lossy(&bytes).into_owned(), stderr, code })
    }

    /// Returns the error for output that could not be used.
    pub fn unreadable(&self, output: &ToolOutput) -> MapError {
        let message = match output.stderr.is_empty() {
            true => output.text.lines().last().unwrap_or("nothing").to_string(),
            false => output.stderr.clone(),
        };
        MapError::Unreadable { tool: self.name, message }
    }

    /// Finds the tool in the folders of PATH, then in those of the administrator.
    fn find(&self) -> Result<PathBuf, MapError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let administrator_folders = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
        std::env::split_paths(&path)
            .chain(administrator_folders)
            .map(|folder| folder.join(self.name))
            .find(|path| path.is_file())
            .ok_or(MapError::Missing {
                tool: self.name,
                package: lookup::package_of(self.name).unwrap_or(self.name),
            })
    }
}

/// The output of a tool.
#[derive(Clone, Debug)]
pub struct ToolOutput {
    /// Its stdout.
    pub text: String,
    /// The last lines of its stderr.
    pub stderr: String,
    /// Exit code; `None` if it was killed.
    pub code: Option<i32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hanging_tool_is_killed_and_a_missing_tool_is_reported_with_its_package() {
        let image = tempfile::tempfile().unwrap();
        let slow = Tool { name: "sleep", deadline: Duration::ZERO };
        let error = slow.run(&["100"], &image, "").unwrap_err().to_string();
        assert!(error.contains("sleep did not finish"), "{error}");
        let missing = Tool::new("no-such-tool");
        let error = missing.run(&[], &image, "").unwrap_err().to_string();
        assert!(error.contains("apt-get install no-such-tool"), "{error}");
    }

    #[test]
    fn a_tool_reads_its_input_and_the_image() {
        let mut image = tempfile::tempfile().unwrap();
        image.write_all(b"the image").unwrap();
        let output = Tool::new("cat").run(&["-", "{image}"], &image, "input, then ").unwrap();
        assert_eq!((output.text.as_str(), output.code), ("input, then the image", Some(0)));
    }
}
