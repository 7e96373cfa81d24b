//! A file system's own tool, asked about an image: read-only, with a deadline, ended with us.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use fsdyno_child::{Process, memory_file};

/// Why there is no map of an image.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// A tool is not installed.
    #[error("'{tool}' is not installed; install it with: apt-get install {package}")]
    Missing {
        /// Its name.
        tool: &'static str,
        /// The package that brings it, as Debian names it.
        package: &'static str,
    },
    /// A tool did not end.
    #[error("{tool} was not done with the image after {} s of host time; it was ended", .after.as_secs())]
    Hangs {
        /// Its name.
        tool: &'static str,
        /// How long it was waited for.
        after: Duration,
    },
    /// A tool could not read the image.
    #[error("{tool} could not read the image: {said}")]
    Unreadable {
        /// Its name.
        tool: &'static str,
        /// What it said.
        said: String,
    },
    /// There is no map of this kind of file system.
    #[error("there is no map of {0}; there is one of ext2, ext3, ext4, xfs, btrfs and reiserfs")]
    Unknown(String),
    /// This host refused something.
    #[error("failed to ask {tool}: {source}")]
    Host {
        /// Its name.
        tool: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// How long a tool may look at one image, in host time.
pub const DEADLINE: Duration = Duration::from_secs(300);

const PERIOD: Duration = Duration::from_millis(3);

/// A tool and the package that brings it.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Its program.
    pub name: &'static str,
    /// Debian's package.
    pub package: &'static str,
    /// How long it may take.
    pub deadline: Duration,
}

impl Tool {
    /// A tool with the usual deadline.
    pub const fn new(name: &'static str, package: &'static str) -> Tool {
        Tool { name, package, deadline: DEADLINE }
    }

    /// What it writes to stdout about an image: its arguments, of which `{image}` stands for the image,
    /// and what it reads on stdin. Its exit code is left to who reads the answer.
    ///
    /// # Errors
    /// It is missing, hangs, or cannot be started.
    pub fn ask(&self, arguments: &[&str], image: &File, input: &str) -> Result<Answer, MapError> {
        let host = |source| MapError::Host { tool: self.name, source };
        let program = self.find()?;
        let path = format!("/dev/fd/{}", image.as_raw_fd());
        let mut command = Command::new(program);
        command
            .args(arguments.iter().map(|word| word.replace("{image}", &path)))
            .env("LC_ALL", "C")
            .env("PATH", "/sbin:/usr/sbin:/bin:/usr/bin")
            .env("DEBUGFS_PAGER", "cat");
        let mut stdin = memory_file(c"fsdyno-questions").map_err(host)?;
        stdin.write_all(input.as_bytes()).map_err(host)?;
        let mut output = memory_file(c"fsdyno-answers").map_err(host)?;
        let mut process =
            Process::start_between(command, stdin, &output, &[image.as_fd()]).map_err(host)?;
        let started = Instant::now();
        let code = loop {
            if let Some(ended) = process.poll().map_err(host)? {
                break ended.status.code();
            }
            if started.elapsed() >= self.deadline {
                return Err(MapError::Hangs { tool: self.name, after: self.deadline });
            }
            std::thread::sleep(PERIOD);
        };
        let mut text = Vec::new();
        output.rewind().and_then(|()| output.read_to_end(&mut text)).map_err(host)?;
        let words = process.last_words(5).join(" / ");
        Ok(Answer { text: String::from_utf8_lossy(&text).into_owned(), words, code })
    }

    /// The error of an answer that is none.
    pub fn unreadable(&self, answer: &Answer) -> MapError {
        let said = match answer.words.is_empty() {
            true => answer.text.lines().last().unwrap_or("nothing").to_string(),
            false => answer.words.clone(),
        };
        MapError::Unreadable { tool: self.name, said }
    }

    /// Where it lies: in the folders of PATH, then in those of the administrator.
    fn find(&self) -> Result<PathBuf, MapError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let more = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
        std::env::split_paths(&path)
            .chain(more)
            .map(|folder| folder.join(self.name))
            .find(|path| path.is_file())
            .ok_or(MapError::Missing { tool: self.name, package: self.package })
    }
}

/// What a tool said.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What it wrote to stdout.
    pub text: String,
    /// The last lines of its stderr.
    pub words: String,
    /// Its exit code; none if it was killed.
    pub code: Option<i32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_hangs_is_ended_and_one_that_is_missing_named_with_its_package() {
        let image = tempfile::tempfile().unwrap();
        let slow = Tool { name: "sleep", package: "coreutils", deadline: Duration::ZERO };
        let error = slow.ask(&["100"], &image, "").unwrap_err().to_string();
        assert!(error.contains("sleep was not done"), "{error}");
        let none = Tool::new("no-such-tool", "some-package");
        let error = none.ask(&[], &image, "").unwrap_err().to_string();
        assert!(error.contains("apt-get install some-package"), "{error}");
    }

    #[test]
    fn a_tool_reads_its_questions_and_sees_the_image() {
        let mut image = tempfile::tempfile().unwrap();
        image.write_all(b"of the image").unwrap();
        let answer =
            Tool::new("cat", "coreutils").ask(&["-", "{image}"], &image, "first ").unwrap();
        assert_eq!((answer.text.as_str(), answer.code), ("first of the image", Some(0)));
    }
}
