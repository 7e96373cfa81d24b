//! The input file of a workload on its way from rank 0 to the others. Processes of one host share one copy: they open
//! the file of the process that has it through /proc. Only one process of every other host receives the bytes.

use std::fs::File;
use std::os::fd::AsRawFd;

use fsdyno_workload::Input;
use serde::{Deserialize, Serialize};

use crate::meet;

/// An input file of a trial, which only rank 0 has.
#[derive(Clone, Debug)]
pub struct TrialInput<'a> {
    /// The SHA-256 of its bytes, in hex.
    pub sha256: &'a str,
    /// Its bytes.
    pub input: Input,
    /// The file, which begins with these bytes.
    pub file: &'a File,
}

/// An input file, as rank 0 offers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The SHA-256 of its bytes, in hex.
    pub sha256: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// A place where processes of one host can open it.
    pub place: Option<Place>,
    /// True if a worker that cannot open it there must receive it from rank 0.
    pub fetch: bool,
}

/// An open file of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The host, as [`home`] identifies it.
    pub home: String,
    /// The path of the file in /proc.
    pub path: String,
}

impl Place {
    /// Returns the place of an open file of this process; None if other processes cannot be identified here.
    pub fn of(file: &File) -> Option<Place> {
        // The ID of this process in the PID namespace of /proc, which may be an outer one.
        let process = std::fs::read_link("/proc/self").ok()?;
        let path = format!("/proc/{}/fd/{}", process.display(), file.as_raw_fd());
        Some(Place { home: home()?, path })
    }
}

/// Identifies the processes that see each other in /proc by the same numbers: by the host's boot and the PID namespace.
pub fn home() -> Option<String> {
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    let boot = meet::boot();
    (!boot.is_empty()).then(|| format!("{boot} {}", namespace.display()))
}
