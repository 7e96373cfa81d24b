//! `fsdyno-agent`: PID 1 of the lab's guest, and the process that runs one trial for a venue on a host.
//!
//! The main program starts it; see [`fsdyno_record::agent`]. The bytes of this program are part of a lab identity, so
//! it contains only code that runs here: no command line, study, report or statistics, and no commit or version.

use std::ffi::OsString;
use std::process::ExitCode;

use fsdyno_record::agent::{HOST_ARGUMENT, Handover, NAME, PROTOCOL};
use fsdyno_record::guest::INIT_ARGUMENTS;

/// The protocol version, in a separate section: the main program reads it without starting the agent.
#[used]
// SAFETY: the section has no meaning to the linker or the loader, and its content is plain bytes.
#[unsafe(link_section = ".fsdyno.agent")]
static PROTOCOL_SECTION: [u8; 4] = PROTOCOL.to_le_bytes();

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments == INIT_ARGUMENTS {
        fsdyno_agent::guest();
    }
    match arguments.as_slice() {
        [host, handover] if host == HOST_ARGUMENT => match parse(handover) {
            Ok(handover) => fsdyno_agent::host(&handover),
            Err(error) => refuse(&format!("{HOST_ARGUMENT}: {error}")),
        },
        [version] if version == "--version" => {
            println!("{NAME}, protocol {}", u32::from_le_bytes(PROTOCOL_SECTION));
            ExitCode::SUCCESS
        }
        _ => refuse("this program is started by fsdyno; see fsdyno --help"),
    }
}

fn parse(handover: &OsString) -> serde_json::Result<Handover> {
    serde_json::from_slice(handover.as_encoded_bytes())
}

fn refuse(reason: &str) -> ExitCode {
    eprintln!("{NAME}: {reason}");
    ExitCode::from(2)
}
