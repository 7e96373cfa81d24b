//! Starts QEMU: its memory, its arguments, and the files that it inherits.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use fsdyno_child::{CpuLease, Process, SharedMailbox, memory_file};
use fsdyno_record::plan::CpuPlan;

use super::Run;
use crate::error::RunError;
use crate::guard::Guard;
use crate::machine::{Machine, StartMode};
use crate::probe::HashedFile;
use crate::processor::Plugin;
use crate::profile::{Code, Profile};
use crate::qemu::{self, Inherited};

/// The programs and settings with which a guest boots.
#[derive(Clone, Copy, Debug)]
pub struct BootConfig<'a> {
    /// QEMU.
    pub program: &'a Path,
    /// The kernel.
    pub kernel: &'a File,
    /// The initramfs.
    pub initramfs: &'a File,
    /// Files that must not have changed since they were hashed.
    pub files: &'a [HashedFile],
    /// The guest's CPU.
    pub cpu: &'a CpuPlan,
    /// Additional arguments on the kernel's command line.
    pub extra_parameters: &'a str,
}

impl BootConfig<'_> {
    pub(super) fn check_unchanged(&self) -> Result<(), RunError> {
        match self.files.iter().find(|file| !file.is_unchanged()) {
            Some(file) => Err(RunError::Replaced { path: file.path.clone() }),
            None => Ok(()),
        }
    }
}

/// The memory that the host shares with a guest.
struct Memory {
    mailbox: SharedMailbox,
    console: File,
    disks: Vec<File>,
    log: Option<File>,
    log_size: Option<u64>,
}

impl Memory {
    /// Creates the memory, with the job in the mailbox.
    fn new(machine: &Machine, job: &[u8]) -> Result<Memory, RunError> {
        let mailbox = SharedMailbox::new().map_err(host_error("get memory for a mailbox"))?;
        mailbox.mailbox()?.write_job(job)?;
        let console =
            memory_file(c"fsdyno-console").map_err(host_error("get memory for a console"))?;
        let region = |size: u64| {
            let file = tempfile::tempfile_in(&machine.workdir)?;
            file.set_len(size)?;
            Ok(file)
        };
        let disks = machine.disks.iter().map(|disk| region(disk.size()));
        let disks: Vec<File> =
            disks.collect::<io::Result<_>>().map_err(|error| no_space(error, machine))?;
        let log_size = machine.log.map(|log| log.0.next_power_of_two());
        let log = log_size.map(region).transpose().map_err(|error| no_space(error, machine))?;
        Ok(Memory { mailbox, console, disks, log, log_size })
    }

    /// Returns the descriptors that QEMU's arguments refer to.
    fn descriptors(
        &self,
        config: &BootConfig<'_>,
        machine: &Machine,
        control: Option<&UnixStream>,
    ) -> Result<Inherited, RunError> {
        let size = |file: &Arc<File>| Ok((file.as_raw_fd(), file.metadata()?.len()));
        let input = machine.input.as_ref().map(size).transpose();
        Ok(Inherited {
            kernel: config.kernel.as_raw_fd(),
            mailbox: self.mailbox.as_fd().as_raw_fd(),
            console: self.console.as_raw_fd(),
            initramfs: config.initramfs.as_raw_fd(),
            control: control.map(AsRawFd::as_raw_fd),
            input: input.map_err(host_error("inspect the workload's input"))?,
            disks: self.disks.iter().map(AsRawFd::as_raw_fd).collect(),
            log: self.log.as_ref().map(AsRawFd::as_raw_fd).zip(self.log_size),
        })
    }

    /// Returns the files that QEMU inherits.
    fn inherited<'a>(
        &'a self,
        config: &BootConfig<'a>,
        machine: &'a Machine,
        control: Option<&'a UnixStream>,
    ) -> Vec<BorrowedFd<'a>> {
        let mut files = vec![
            config.kernel.as_fd(),
            self.mailbox.as_fd(),
            self.console.as_fd(),
            config.initramfs.as_fd(),
        ];
        files.extend(control.map(AsFd::as_fd));
        files.extend(machine.input.iter().map(|file| file.as_fd()));
        files.extend(self.disks.iter().chain(&self.log).map(AsFd::as_fd));
        files
    }
}

impl<'a> Run<'a> {
    /// Starts QEMU with a job.
    pub(super) fn start(
        config: BootConfig<'a>,
        machine: &'a Machine,
        start_mode: StartMode,
        job: &[u8],
        code: Option<&Code>,
    ) -> Result<Run<'a>, RunError> {
        let BootConfig { program, cpu, extra_parameters, .. } = config;
        config.check_unchanged()?;
        let memory = Memory::new(machine, job)?;
        if start_mode != StartMode::Restore {
            copy_image(machine, &memory.disks)?;
        }
        let pair = (start_mode != StartMode::GoOn).then(UnixStream::pair).transpose();
        let (socket, qemu_socket) = pair.map_err(host_error("create a socket for QEMU"))?.unzip();
        let files = memory.descriptors(&config, machine, qemu_socket.as_ref())?;
        let mut command = Command::new(program);
        command
            .args(qemu::arguments(cpu, extra_parameters, machine, start_mode, &files))
            .env("LC_ALL", "C");
        let mut inherited = memory.inherited(&config, machine, qemu_socket.as_ref());
        let guard = Guard::new().map_err(host_error("get memory for the clock guard"))?;
        // A guest that boots to be saved is not measured, and its clock must stop with it. With the guard, the main
        // loop would always see the stopped processor before it knows that the machine has stopped, and let time jump
        // (snapshot.rs).
        if start_mode != StartMode::Save && machine.accel.is_exact() {
            guard.preload_into(&mut command);
        }
        inherited.extend(guard.files());
        let profile = code.map(Profile::new).transpose();
        let profile = profile.map_err(host_error("get memory for the counts of a profiled run"))?;
        if let Some(profile) = &profile {
            command.args(["-plugin", &profile.argument(files.mailbox)]);
            inherited.extend(profile.files());
        }
        let processor = cpu.processor().filter(|_| machine.accel.is_exact());
        let plugin = processor.map(Plugin::new).transpose();
        let plugin = plugin.map_err(host_error("get memory for the processor model"))?;
        if let Some(plugin) = &plugin {
            command.args(["-plugin", &plugin.qemu_option()]);
            inherited.push(plugin.file());
        }
        let process = Process::start_on(CpuLease::take(), command, &inherited)
            .map_err(host_error("start QEMU"))?;
        let Memory { mailbox, console, disks, log, log_size: _ } = memory;
        Ok(Run {
            config,
            machine,
            process,
            guard,
            mailbox,
            disks,
            log,
            console,
            profile,
            socket,
            control: None,
            started: Instant::now(),
        })
    }
}

/// Returns a function that creates a [`RunError::Host`], for `map_err`.
pub(super) fn host_error(action: &'static str) -> impl Fn(io::Error) -> RunError {
    move |error| RunError::Host { action, error }
}

/// Copies the machine's image, if it has one, to its disks.
pub(super) fn copy_image(machine: &Machine, disks: &[File]) -> Result<(), RunError> {
    match &machine.image {
        Some(image) => image.copy_to(disks).map_err(|error| no_space(error, machine)),
        None => Ok(()),
    }
}

fn no_space(error: io::Error, machine: &Machine) -> RunError {
    match error.kind() {
        io::ErrorKind::StorageFull => RunError::OutOfSpace { workdir: machine.workdir.clone() },
        _ => RunError::Host { action: "create the file of a modelled disk", error },
    }
}
