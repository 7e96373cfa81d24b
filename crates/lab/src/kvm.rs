//! Probes KVM by booting a kernel with a deadline.
//!
//! The existence of /dev/kvm proves nothing: on a nested host it could be opened and returned its API version, but a
//! guest hung in its firmware at 100 % CPU. Therefore the lab's own kernel is booted without an initramfs: it then
//! panics, the panic causes a reboot, and the reboot ends QEMU.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fsdyno_child::Process;

use crate::qemu::path;

/// Host time after which the probe's boot counts as hung; with working KVM it takes about two seconds.
const DEADLINE: Duration = Duration::from_secs(10);

/// The lab's CPU model, so that a guest has the same instructions as in virtual time.
const CPU: &str = "Nehalem-v1";

/// The polling interval.
const PERIOD: Duration = Duration::from_millis(20);

/// The kernel's command line for the probe.
const KERNEL_COMMAND_LINE: &str = "console=ttyS0 panic=-1 lsm= audit=0";

/// Probes KVM; the error is the reason why KVM cannot be used.
pub fn probe(qemu: &Path, kernel: &File) -> Result<(), String> {
    let device = std::fs::File::options().read(true).write(true).open("/dev/kvm");
    device.map_err(|error| format!("/dev/kvm cannot be opened: {error}"))?;
    let mut command = Command::new(qemu);
    command.args(["-accel", "kvm", "-cpu", CPU, "-M", crate::qemu::MACHINE_TYPE, "-m", "256M"]);
    command.args(["-display", "none", "-monitor", "none", "-serial", "none", "-nodefaults"]);
    command.args(["-no-user-config", "-no-reboot", "-append", KERNEL_COMMAND_LINE]);
    command.args(["-kernel", &path(kernel.as_raw_fd())]);
    run_probe(command, &[kernel.as_fd()], DEADLINE)
}

/// Runs a QEMU that should end by itself; if it does not, it is killed on drop.
fn run_probe(command: Command, files: &[BorrowedFd<'_>], deadline: Duration) -> Result<(), String> {
    let mut process = Process::start(command, files)
        .map_err(|error| format!("QEMU cannot be started: {error}"))?;
    let started = Instant::now();
    loop {
        match process.poll() {
            Ok(Some(ended)) if ended.status.success() => return Ok(()),
            Ok(Some(_)) => {
                return Err(format!("QEMU failed: {}", process.last_lines(3).join(" / ")));
            }
            Ok(None) if started.elapsed() >= deadline => {
                return Err(format!(
                    "it hangs: /dev/kvm exists, but a kernel that should panic at once did not end \
                     within {} s",
                    deadline.as_secs()
                ));
            }
            Ok(None) => std::thread::sleep(PERIOD),
            Err(error) => return Err(format!("waiting for QEMU failed: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn success_failure_and_hang_are_distinguished() {
        let limit = Duration::from_millis(300);
        assert_eq!(run_probe(sh("exit 0"), &[], DEADLINE), Ok(()));
        let refused =
            run_probe(sh("echo no such accelerator >&2; exit 1"), &[], DEADLINE).unwrap_err();
        assert!(refused.contains("no such accelerator"), "{refused}");
        let started = Instant::now();
        let hung = run_probe(sh("while :; do :; done"), &[], limit).unwrap_err();
        assert!(hung.contains("hangs") && started.elapsed() < DEADLINE, "{hung}");
    }
}
