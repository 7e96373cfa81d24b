//! The agent's file: its location, and whether its protocol is that of this program.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use fsdyno_record::agent::{NAME, PROTOCOL, SECTION, VARIABLE};
use fsdyno_record::bounded;

use crate::error::VenueError;

/// An agent with this program's protocol, held open so that all trials of a command run the same file, even if it is
/// replaced in the meantime.
#[derive(Debug)]
pub struct Agent(File);

impl Agent {
    /// Opens the agent at [`location`].
    ///
    /// # Errors
    /// [`VenueError::Missing`], with the commands that install it.
    pub fn find() -> Result<Agent, VenueError> {
        Agent::open(&location())
    }

    fn open(path: &Path) -> Result<Agent, VenueError> {
        let unusable = |problem: &str| {
            VenueError::Missing(format!("the agent '{}' {problem}", path.display()))
        };
        let agent = match bounded::open(path) {
            Ok(file) => Agent(file),
            Err(error) => return Err(unusable(&format!("cannot be opened: {error}; {INSTALL}"))),
        };
        // A file that is not an ELF file does not have such a section either.
        let protocol = fsdyno_lab::section(&agent.path(), SECTION).unwrap_or_default();
        match protocol.map(|bytes| bytes.try_into().map(u32::from_le_bytes)) {
            Some(Ok(PROTOCOL)) => Ok(agent),
            Some(Ok(other_protocol)) => Err(unusable(&format!(
                "belongs to a different fsdyno: its protocol is {other_protocol}, this program's is {PROTOCOL}; \
                 {INSTALL}"
            ))),
            _ => Err(unusable(&format!("is not an {NAME}; {INSTALL}"))),
        }
    }

    /// Returns the path through which this process and its children access the open file.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// Returns the path of the agent: `$FSDYNO_AGENT`, or `fsdyno-agent` in the folder of this program, or, if a package
/// installed it there, in `../lib/fsdyno`.
pub fn location() -> PathBuf {
    match std::env::var_os(VARIABLE) {
        Some(path) => path.into(),
        None => agent_path_for(&std::env::current_exe().unwrap_or_default()),
    }
}

/// Returns the path of the agent for the program at this path.
fn agent_path_for(program: &Path) -> PathBuf {
    let adjacent = program.with_file_name(NAME);
    let packaged =
        program.parent().and_then(Path::parent).map(|prefix| prefix.join("lib/fsdyno").join(NAME));
    match packaged.filter(|packaged| !adjacent.exists() && packaged.exists()) {
        Some(packaged) => packaged,
        None => adjacent,
    }
}

/// The commands that install the agent.
const INSTALL: &str = "'make build' in a checkout puts it next to fsdyno; 'cargo install --locked --path crates/agent' \
     puts it next to an fsdyno that cargo installed; FSDYNO_AGENT=/path/to/fsdyno-agent selects another";

#[cfg(test)]
mod tests {
    use super::*;

    fn open_error(path: &str) -> String {
        match Agent::open(Path::new(path)) {
            Err(VenueError::Missing(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[used]
    // SAFETY: the section has no meaning for the linker and the loader.
    #[unsafe(link_section = ".fsdyno.agent")]
    static OTHER: [u8; 4] = (PROTOCOL + 1).to_le_bytes();

    #[test]
    fn a_missing_or_incompatible_agent_is_refused_with_the_commands_that_install_one() {
        for (path, expected) in [
            ("/no/such/agent", "cannot be opened: No such file"),
            ("/dev/null", "it is a device"),
            ("/bin/sh", "is not an fsdyno-agent"),
            ("/proc/self/exe", "its protocol is 2, this program's is 1"),
        ] {
            let text = open_error(path);
            assert!(text.contains(expected) && text.contains("make build"), "{text}");
        }
    }

    #[test]
    fn a_packaged_agent_is_found_in_lib_fsdyno() {
        let folder = tempfile::tempdir().unwrap();
        let path_of = |name: &str| folder.path().join(name);
        let program = path_of("bin/fsdyno");
        for name in ["bin", "lib/fsdyno"] {
            std::fs::create_dir_all(path_of(name)).unwrap();
        }
        assert_eq!(agent_path_for(&program), path_of("bin/fsdyno-agent"));
        std::fs::write(path_of("lib/fsdyno/fsdyno-agent"), "").unwrap();
        assert_eq!(agent_path_for(&program), path_of("lib/fsdyno/fsdyno-agent"));
        std::fs::write(path_of("bin/fsdyno-agent"), "").unwrap();
        assert_eq!(agent_path_for(&program), path_of("bin/fsdyno-agent"));
    }

    #[test]
    fn an_agent_is_searched_for_next_to_this_program() {
        if std::env::var_os(VARIABLE).is_none() {
            let program = std::env::current_exe().unwrap();
            assert_eq!(location(), program.parent().unwrap().join("fsdyno-agent"));
        }
    }
}
