//! The clock guard: keeps host time out of the guest's clock.
//!
//! If any event of the host wakes QEMU's main loop while the vCPU is about to halt, the main loop advances the guest's
//! clock too far (see guard/guard.c). The guard is a small library preloaded into QEMU (`LD_PRELOAD`) that lets the
//! main loop run only while the vCPU waits. It is compiled with this crate, and passed to QEMU as a file in memory. It
//! counts its actions in shared memory, so that a QEMU that did not load it is detected: a static one, or one on a host
//! that does not execute files in memory.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::process::Command;

use fsdyno_child::{memory_file, sealed_file};

/// The library, an ELF shared object for the host.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guard.so"));

/// A guard for one QEMU process.
#[derive(Debug)]
pub struct Guard {
    library: File,
    seen: File,
}

impl Guard {
    /// Creates a guard.
    ///
    /// # Errors
    /// The error of memfd_create(2) or write(2).
    pub fn new() -> io::Result<Guard> {
        let library = sealed_file(c"fsdyno-guard", LIBRARY)?;
        let seen = memory_file(c"fsdyno-guard-seen")?;
        seen.set_len(16)?;
        Ok(Guard { library, seen })
    }

    /// Preloads the guard into a command, which must inherit [`Guard::files`].
    pub fn preload_into(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", format!("/proc/self/fd/{}", self.library.as_raw_fd()))
            .env("FSDYNO_GUARD", self.seen.as_raw_fd().to_string());
    }

    /// Returns the files that a child must inherit.
    pub fn files(&self) -> [BorrowedFd<'_>; 2] {
        [self.library.as_fd(), self.seen.as_fd()]
    }

    /// Returns true if the guard is active: loaded, and attached to the vCPU. (Waits of the main loop would prove
    /// nothing: a short run may not wake the main loop at all.)
    ///
    /// # Errors
    /// The error of pread(2).
    pub fn is_active(&self) -> io::Result<bool> {
        // The layout is that of `struct seen` in guard.c.
        let mut parked = [0; 8];
        self.seen.read_exact_at(&mut parked, 0)?;
        Ok(parked != [0; 8])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    use fsdyno_child::Process;

    /// Compiles tests/guarded.c.
    fn program(folder: &Path) -> PathBuf {
        let program = folder.join("guarded");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guarded.c");
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-Wall", "-Werror", "-pthread", "-o"]).arg(&program).arg(source);
        assert!(compile.status().unwrap().success());
        program
    }

    /// Runs a command that inherits the guard's files, and returns its exit code.
    fn exit_code(command: Command, guard: &Guard) -> i32 {
        let mut child = Process::start(command, &guard.files()).unwrap();
        loop {
            if let Some(ended) = child.poll().unwrap() {
                return ended.status.code().unwrap_or(-1);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    #[test]
    fn the_main_loop_waits_while_the_vcpu_runs_and_only_with_the_guard() {
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path());
        let unused = Guard::new().unwrap();
        assert_eq!(
            exit_code(Command::new(&program), &unused),
            1,
            "the vCPU ran concurrently with the main loop"
        );
        assert!(!unused.is_active().unwrap());
        let guard = Guard::new().unwrap();
        let mut command = Command::new(&program);
        guard.preload_into(&mut command);
        assert_eq!(exit_code(command, &guard), 0, "the main loop did not wait");
        assert!(guard.is_active().unwrap());
    }

    #[test]
    fn a_vcpu_that_needs_the_main_loop_yields() {
        let folder = tempfile::tempdir().unwrap();
        let guard = Guard::new().unwrap();
        let mut command = Command::new("/usr/bin/timeout");
        command.arg("20").arg(program(folder.path())).arg("needed");
        guard.preload_into(&mut command);
        assert_eq!(exit_code(command, &guard), 0, "the vCPU waited forever");
        assert!(guard.is_active().unwrap());
    }

    #[test]
    fn a_program_without_a_vcpu_runs_normally_and_is_not_guarded() {
        let guard = Guard::new().unwrap();
        let mut command = Command::new("/bin/true");
        guard.preload_into(&mut command);
        assert_eq!(exit_code(command, &guard), 0);
        assert!(!guard.is_active().unwrap());
    }
}
