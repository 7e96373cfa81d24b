//! The files of the tenants and their neighbour, and the ops that create them.

use fsdyno_record::Nanos;

use crate::contents::VERSION_STRIDE;
use crate::numbered::Numbered;
use crate::op::{Call, DirSlot, FileSlot, Name, Op, OpenFlags, Payload};
use crate::op_source::OpSource;

/// The neighbour's file.
pub const STREAM: &[u8] = b"stream";

pub(super) const ROOT: DirSlot = DirSlot::ROOT;
pub(super) const FILE: FileSlot = FileSlot(0);
pub(super) const WRITE: OpenFlags = OpenFlags { write: true, ..OpenFlags::NONE };
const EXCLUSIVE: OpenFlags = OpenFlags { exclusive: true, ..WRITE };
const CREATE: Call = Call::Create { dir: ROOT, file: FILE, flags: EXCLUSIVE, mode: 0o644 };

/// The work of the tenants and their neighbour.
#[derive(Debug)]
pub struct TenantSpec {
    /// Number of tenants.
    pub tenants: u32,
    /// Number of files per tenant.
    pub files_per_tenant: u64,
    /// Size of each file in bytes.
    pub size: u32,
    /// Number of rounds per tenant in a phase.
    pub rounds: u64,
    /// Average think time of a tenant before a round.
    pub think: Nanos,
    /// True to call fsync on new files.
    pub fsync: bool,
    /// Number of bytes that the neighbour writes.
    pub stream: u64,
    /// Number of bytes per write of the neighbour.
    pub block: u64,
    /// Number of bytes that the neighbour has written when the tenants begin.
    pub lead: u64,
    /// Seed of all draws.
    pub seed: u64,
    /// Names of the tenants' directories.
    pub directories: Numbered,
    /// Names of the tenants' files.
    pub names: Numbered,
}

impl TenantSpec {
    /// Returns the number of writes by the neighbour.
    pub fn block_count(&self) -> u64 {
        self.stream.div_ceil(self.block)
    }

    /// Returns the content of a tenant's file.
    pub fn payload(&self, tenant: u32, file: u64) -> Payload {
        let id = file * u64::from(self.tenants) + u64::from(tenant);
        Payload { id, offset: 0, length: self.size }
    }

    /// Returns the content of the neighbour's file from `offset` on, to the end of the block or of the file, or `None`
    /// at or past the end of the file.
    pub fn stream_payload(&self, offset: u64) -> Option<Payload> {
        let remaining = self.stream.checked_sub(offset).filter(|remaining| *remaining > 0)?;
        let (block, offset_in_block) = (offset / self.block, offset % self.block);
        let length = (self.block - offset_in_block).min(remaining) as u32;
        Some(Payload { id: VERSION_STRIDE + block, offset: offset_in_block, length })
    }

    /// Writes the path of a tenant's directory, or of a file in it.
    pub fn write_path(&self, name: &mut Name, tenant: u32, file: Option<u64>) {
        name.clear();
        self.directories.push(name, u64::from(tenant));
        if let Some(file) = file {
            name.push(b"/");
            self.names.push(name, file);
        }
    }

    /// Returns the length of the longest name, in bytes.
    pub fn longest_name(&self) -> usize {
        STREAM.len().max(self.names.length_of(2 * self.rounds + self.files_per_tenant))
    }
}

/// The next op of a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Mkdir,
    Create,
    Write,
    Close,
    CreateStream,
    CloseStream,
    End,
}

/// Creates all directories and files.
pub struct Fill<'a> {
    spec: &'a TenantSpec,
    tenant: u32,
    file: u64,
    step: Step,
}

impl<'a> Fill<'a> {
    /// Creates the fill, beginning with the first tenant.
    pub fn new(spec: &'a TenantSpec) -> Fill<'a> {
        Fill { spec, tenant: 0, file: 0, step: Step::Mkdir }
    }

    fn advance(&mut self) -> Step {
        self.file += 1;
        if self.file < self.spec.files_per_tenant {
            return Step::Create;
        }
        (self.tenant, self.file) = (self.tenant + 1, 0);
        if self.tenant < self.spec.tenants { Step::Mkdir } else { Step::CreateStream }
    }
}

impl OpSource for Fill<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        let (spec, file) = (self.spec, FILE);
        (op.call, self.step) = match self.step {
            Step::Mkdir => {
                spec.write_path(&mut op.name, self.tenant, None);
                (Call::Mkdir { dir: ROOT, mode: 0o755 }, Step::Create)
            }
            Step::Create => {
                spec.write_path(&mut op.name, self.tenant, Some(self.file));
                (CREATE, Step::Write)
            }
            Step::Write => {
                let payload = spec.payload(self.tenant, self.file);
                (Call::Write { file, payload }, Step::Close)
            }
            Step::Close => (Call::Close { file }, self.advance()),
            Step::CreateStream => {
                op.name.clear();
                op.name.push(STREAM);
                (CREATE, Step::CloseStream)
            }
            Step::CloseStream => (Call::Close { file }, Step::End),
            Step::End => return false,
        };
        true
    }
}
