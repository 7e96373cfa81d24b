//! Where things are in the lab's guest: the agreement between the lab, which builds it, and the
//! agent, which wakes up in it.

/// PCI address of the mailbox (an ivshmem-plain device; its memory is region 2).
pub const MAILBOX_PCI: &str = "0000:00:10.0";

/// PCI slot number of the mailbox.
pub const MAILBOX_SLOT: u8 = 0x10;

/// PCI address of the request log's memory.
pub const LOG_PCI: &str = "0000:00:0e.0";

/// PCI slot number of the request log's memory.
pub const LOG_SLOT: u8 = 0x0e;

/// PCI address of the workload's input file, where there is one.
pub const INPUT_PCI: &str = "0000:00:0f.0";

/// PCI slot number of the input file.
pub const INPUT_SLOT: u8 = 0x0f;

/// PCI slot number of the first modelled disk's bytes; the next disks follow.
pub const DISK_SLOT: u8 = 0x11;

/// PCI address of the bytes of modelled disk `index`.
pub fn disk_pci(index: u8) -> String {
    format!("0000:00:{:02x}.0", DISK_SLOT + index)
}

/// The I/O port of QEMU's pvpanic device: what is written there stops a machine that is to be saved.
pub const STOP_PORT: u64 = 0x505;

/// What is written there (`PVPANIC_PANICKED`, the kernel's uapi/misc/pvpanic.h).
pub const STOP_EVENT: u8 = 1;

/// The list of modules to load: one absolute path a line in dependency order, parameters after a
/// space.
pub const MODULE_LIST: &str = "/lab/modules";

/// A file that only takes room, and how many loops are to follow each unlink(2): what benches change to
/// see whether a comparison tells what means something from what means nothing. No usual guest has them.
pub const PADDING: &str = "/lab/padding";
/// See [`PADDING`]; a decimal number.
pub const PLANTED: &str = "/lab/planted";

/// The folder of tools (mkfs, check, ...) in the guest.
pub const TOOL_FOLDER: &str = "/bin";

/// What the kernel's command line hands to PID 1 after `--`.
pub const INIT_ARGUMENTS: &[&str] = &["agent", "--guest"];
