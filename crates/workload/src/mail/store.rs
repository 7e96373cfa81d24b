//! The stores of messages: the parameters that select messages, and unpacking.

use fsdyno_record::quote;

use crate::input::Setting;
use crate::mail::job::{Job, Split, next_header};
use crate::mail::layout::MailLayout;
use crate::mail::messages::Messages;
use crate::mail::protocol::{MAKE_READ_STORE, MAKE_WRITE_STORE, UNPACK};
use crate::params::{Domain, Param, ParamError, Values};
use crate::workload::GapKind;

/// The parameter `size`.
pub const SIZE: Param = Param {
    name: "size",
    default: "mix",
    domain: Domain::Or("mix", &Domain::Size { min: 0, max: 1 << 30 }),
    about: "Size of every message; mix is log-normal with a median of 3.5 KiB and a standard \
            deviation of 1.4 octaves; one in 64 is sixteen times as long because of an attachment.",
    source: "[OWN] the sizes of the original's mail are not published",
};

/// The parameter `source`.
pub const SOURCE: Param = Param {
    name: "source",
    default: "none",
    domain: Domain::Or("none", &Domain::File),
    about: "A directory of real mail: its regular files sorted by name are the messages, repeated \
            from the beginning if more are needed; their bytes and lines are used as they are.",
    source: "[OWN] the original's mail is lost",
};

/// The parameter `gap`.
pub const GAP: Param = Param {
    name: "gap",
    default: "sync",
    domain: Domain::Choice(&["none", "back-to-back", "sync", "drop", "remount"]),
    about: "The step between unpacking the messages and using them; back-to-back means no step at \
            all, between any phases.",
    source: "[OWN] the state of the original's cache is not published",
};

/// Returns the value of the parameter `gap`.
pub fn gap(values: &Values) -> GapKind {
    GapKind::named(values.text("gap"))
}

/// Returns the messages that the parameters `source` and `size` select.
///
/// # Errors
/// A source is given with a size or without an input, or the input is not an archive of messages.
pub fn messages(values: &Values, setting: &Setting) -> Result<Messages, ParamError> {
    let size = values.number("size");
    let source = &*quote::escape(values.text("source"));
    match (&setting.input, source, size) {
        (_, "none", size) => Ok(Messages::synthetic(size)),
        (_, _, Some(size)) => Err(ParamError::Conflict(format!(
            "size={size} contradicts source={source}: real messages have their own sizes; omit \
             one of them"
        ))),
        (Some(input), _, None) => Messages::real(input)
            .map_err(|error| ParamError::Conflict(format!("--set source={source}: {error}"))),
        (None, _, None) => Err(ParamError::Conflict(format!(
            "--set source={source}: the directory has not been read"
        ))),
    }
}

/// Returns the jobs that unpack the stores from an archive: for the write store and then the read store, the directory
/// and its messages; an empty store has no jobs.
pub fn unpack(layout: &MailLayout) -> impl Iterator<Item = Job> + Send + '_ {
    let (writes, reads) = (layout.write_store, layout.read_store);
    let mut header = 0;
    [(MAKE_WRITE_STORE, 0..writes), (MAKE_READ_STORE, writes..writes + reads)]
        .into_iter()
        .filter(|(_, messages)| !messages.is_empty())
        .flat_map(|(make_steps, messages)| {
            let folder = Job::new(make_steps);
            let files = messages.map(|message| Job { message, ..Job::new(UNPACK) });
            std::iter::once(folder).chain(files)
        })
        .map(move |job| {
            let split = Split::Records(header);
            let is_file = job.steps == UNPACK;
            header = next_header(header, if is_file { layout.length(&job) } else { 0 });
            Job { split, ..job }
        })
}
