//! Addresses and paths in the lab's guest: the contract between the lab, which builds the guest, and the agent, which
//! runs in it.

/// PCI address of the mailbox (an ivshmem-plain device; its memory is region 2).
pub const MAILBOX_PCI: &str = "0000:00:10.0";

/// PCI slot number of the mailbox.
pub const MAILBOX_SLOT: u8 = 0x10;

/// PCI address of the request log's memory.
pub const LOG_PCI: &str = "0000:00:0e.0";

/// PCI slot number of the request log's memory.
pub const LOG_SLOT: u8 = 0x0e;

/// PCI address of the workload's input file, if any.
pub const INPUT_PCI: &str = "0000:00:0f.0";

/// PCI slot number of the input file.
pub const INPUT_SLOT: u8 = 0x0f;

/// PCI slot number of the bytes of the first modelled disk; those of the other disks follow.
pub const DISK_SLOT: u8 = 0x11;

/// Returns the PCI address of the bytes of modelled disk `index`.
pub fn disk_pci(index: u8) -> String {
    format!("0000:00:{:02x}.0", DISK_SLOT + index)
}

/// The I/O port of QEMU's pvpanic device: writing to it stops a machine whose state is to be saved.
pub const STOP_PORT: u64 = 0x505;

/// The byte to write to [`STOP_PORT`] (`PVPANIC_PANICKED`, the kernel's uapi/misc/pvpanic.h).
pub const STOP_EVENT: u8 = 1;

/// The list of modules to load: one absolute path per line, in dependency order, with parameters after a space.
pub const MODULE_LIST: &str = "/lab/modules";

/// A file that only takes up space. Benchmarks vary it to check that a comparison ignores irrelevant changes; guests
/// normally lack it.
pub const PADDING: &str = "/lab/padding";
/// The file with the number of spin loops after each unlink(2), in decimal: an injected slowdown that a comparison must
/// find. Guests normally lack it.
pub const PLANTED: &str = "/lab/planted";

/// The folder of tools (mkfs, check, ...) in the guest.
pub const TOOL_FOLDER: &str = "/bin";

/// The arguments of PID 1: the part of the kernel's command line after `--`.
pub const INIT_ARGUMENTS: &[&str] = &["--guest"];
