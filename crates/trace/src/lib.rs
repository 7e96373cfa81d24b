//! Traces of file system calls: their data, and the versioned, compressed, streamed format (docs/trace-format.md).
//!
//! A trace is a [`Header`] and a stream of [`Item`]s: the roots and entries of the initial tree, the events, and the
//! end. The crate makes no system calls. A [`Writer`] and a [`Reader`] hold one frame at a time, so that a trace of any
//! length streams in bounded memory.

mod args;
mod build;
mod call;
mod check;
mod class;
mod error;
mod event;
mod format;
mod frame;
mod header;
mod ids;
mod name;
mod reader;
mod tree;
mod wire;
mod writer;

pub use args::{At, Base, CopyKind, LockOp, Object, StatKind, SyncKind, Target, UtimeChange};
pub use build::Builder;
pub use call::{Call, CallKind};
pub use check::{Checker, Identities};
pub use class::Compressibility;
pub use error::{Problem, TraceError};
pub use event::{End, Event, Item};
pub use format::{FRAME_LIMIT, VERSION};
pub use header::{Header, MAGIC};
pub use ids::{FileId, NodeId, ThreadId};
pub use name::{NAME_MAX, Name};
pub use reader::Reader;
pub use tree::{Entry, Kind, Root, RootKind, Xattr, XattrName};
pub use writer::Writer;
