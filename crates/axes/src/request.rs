//! The values that a command or a study run requests for all axes.

use fsdyno_record::Bytes;
use fsdyno_record::plan::{AgePlan, IssuerPlan, LabPlan, NetworkPlan, RaidPlan, VerifyMode};

/// The default RAM of the guest.
pub const DEFAULT_RAM: Bytes = Bytes(1 << 30);

/// The requested values of all axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Specs of file systems.
    pub filesystems: Vec<String>,
    /// Targets; the lab if empty.
    pub on: Vec<String>,
    /// Machines, by name or by file.
    pub machines: Vec<String>,
    /// Disks, by name or by file.
    pub disks: Vec<String>,
    /// An array of several disks or devices.
    pub raid: Option<RaidPlan>,
    /// The disk of an external journal, by name or by file.
    pub journal_disk: Option<String>,
    /// The size of the partition or device of an external journal.
    pub journal_size: Option<Bytes>,
    /// The size of the file system.
    pub size: Size,
    /// Kernels, by name or by file.
    pub kernels: Vec<String>,
    /// Periods, by name; `None` means the present.
    pub periods: Vec<Option<String>>,
    /// The guest, except for its kernel.
    pub guest: LabPlan,
    /// The number of threads that issue operations.
    pub threads: u32,
    /// The issuer of operations.
    pub issuer: IssuerPlan,
    /// The scope of verification.
    pub verify: VerifyMode,
    /// The numbers of clients that mount a shared file system.
    pub clients: Vec<u32>,
    /// The networks between the clients and the server.
    pub networks: Vec<NetworkPlan>,
    /// The aging of the file systems; `None` means a fresh file system.
    pub ages: Vec<Option<AgePlan>>,
    /// The keys of the axes that were set to a value other than the default (for parts of a machine, to any value), in
    /// the order of the request.
    pub explicit: Vec<&'static str>,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            filesystems: Vec::new(),
            on: Vec::new(),
            machines: Vec::new(),
            disks: Vec::new(),
            raid: None,
            journal_disk: None,
            journal_size: None,
            size: Size::default(),
            kernels: Vec::new(),
            periods: Vec::new(),
            guest: LabPlan::new("", DEFAULT_RAM),
            threads: 1,
            issuer: IssuerPlan::default(),
            verify: VerifyMode::default(),
            clients: Vec::new(),
            networks: Vec::new(),
            ages: Vec::new(),
            explicit: Vec::new(),
        }
    }
}

/// The size of the file system on a modelled disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Size {
    /// The default size, or the whole disk if that is smaller.
    #[default]
    Default,
    /// The whole disk.
    Whole,
    /// The given size.
    Exactly(Bytes),
}

/// Formats a number of bytes in the largest unit that divides it exactly, in the form that options accept.
pub fn bytes(Bytes(bytes): Bytes) -> String {
    let whole = [(30, "G"), (20, "M"), (10, "K")].into_iter().find(|(shift, _)| {
        let unit = 1u64 << shift;
        bytes >= unit && bytes % unit == 0
    });
    whole.map_or(bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}
