//! `fsdyno agent`: the process that issues the operations, on this host or as PID 1 of a guest.

use crate::cli::Agent;
use crate::exit::{Exit, Failure};

/// Tests whether the kernel of a guest started this process as its PID 1.
pub fn is_guest() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    fsdyno_record::guest::INIT_ARGUMENTS
        .iter()
        .all(|wanted| arguments.next().is_some_and(|argument| argument == *wanted))
}

/// Runs one job from an inherited mailbox.
pub fn run(agent: &Agent) -> Result<Exit, Failure> {
    let code = fsdyno_agent::host(&fsdyno_agent::Given {
        mailbox: agent.mailbox_fd,
        root: agent.root_fd,
        input: agent.input_fd,
        devices: agent.devices.clone(),
        array: agent.array.clone(),
        uuids: agent.uuids,
    });
    if code == std::process::ExitCode::SUCCESS { Ok(Exit::Good) } else { Ok(Exit::TrialFailed) }
}
