//! Everything that speaks against erasing a drive, put together; nothing is written.

use std::fs::File;
use std::io;

use fsdyno_record::Bytes;

use super::drive::{Drive, KernelPart};
use super::layout::{GUARD, LEAST, Layout};
use super::mark::{Left, Mark, plain};
use super::refusal::{BlockError, Reason};
use super::{Seen, signature, users};

/// What a drive is, and everything that speaks against erasing it. `held` says that we hold it.
pub fn inspect(drive: Drive, held: bool) -> Result<(Seen, Vec<Reason>), BlockError> {
    let (size, serial, parts) = (drive.size(), drive.serial(), drive.parts());
    let layout = Layout::of(size);
    let mut reasons = nature(&drive, size, serial.as_deref());
    let mut seen = Seen { drive, layout, serial: serial.unwrap_or_default(), mark: None };
    let (users, working) = use_of(&seen, &parts);
    let unseen = users.is_empty() && !working && !held;
    reasons.extend(users);
    let opened = match seen.drive.open_to_read() {
        Ok(opened) => opened,
        // Where it may not even be opened, what is known without that is still the better answer.
        Err(_) if !reasons.is_empty() => return Ok((seen, reasons)),
        Err(error) => return Err(error),
    };
    seen.mark = own_mark(&seen, &opened)?;
    // The kernel's own claim is the last word, and says least: it is asked where nobody else is seen.
    let busy = unseen && is_busy(&seen.drive)?;
    let like_ours = parts.iter().all(|part| layout.has(part));
    if working || (busy && like_ours && !parts.is_empty()) {
        reasons.push(Reason::Working);
    } else {
        reasons.extend(busy.then_some(Reason::Busy));
        // A run that was killed leaves its own two parts in the kernel's table.
        if !(parts.is_empty() || (like_ours && seen.mark.is_some())) {
            reasons.push(Reason::Partitions(parts.into_iter().map(|part| part.name).collect()));
        }
    }
    reasons.extend(contents(&seen)?);
    // Tells nothing new of a drive that is refused, and takes a while.
    if reasons.is_empty() {
        reasons.extend(lost(&seen)?);
    }
    Ok((seen, reasons))
}

/// What it is by itself.
fn nature(drive: &Drive, size: Bytes, serial: Option<&str>) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = drive.mapping().map(Reason::Mapping).into_iter().collect();
    if drive.is_read_only() {
        reasons.push(Reason::ReadOnly);
    }
    if size < LEAST {
        reasons.push(Reason::TooSmall { size });
    }
    if serial.is_none() {
        reasons.push(Reason::NoSerial);
    }
    reasons
}

/// Who uses it, and whether one of them is a fsdyno: who has our guard part open.
fn use_of(seen: &Seen, parts: &[KernelPart]) -> (Vec<Reason>, bool) {
    let mut users = users::of(&seen.drive, parts);
    let guard = parts.iter().find(|part| part.number == GUARD && seen.layout.has(part));
    let at_work = |reason: &Reason| match (reason, guard) {
        (Reason::Open { part, .. }, Some(guard)) => *part == guard.name,
        _ => false,
    };
    let working = users.iter().any(at_work);
    users.retain(|reason| !at_work(reason));
    (users, working)
}

/// Our mark, if it was written on this very drive.
fn own_mark(seen: &Seen, opened: &File) -> Result<Option<Mark>, BlockError> {
    let mark =
        Mark::read(opened).map_err(|error| BlockError::io("read", seen.drive.path(), error))?;
    Ok(mark.filter(|mark| mark.serial == seen.serial && mark.size == seen.drive.size()))
}

/// What lies on it that fsdyno has not left there.
fn contents(seen: &Seen) -> Result<Vec<Reason>, BlockError> {
    let (path, size) = (seen.drive.path(), seen.drive.size());
    let mut reasons = Vec::new();
    if size.0 == 0 {
        return Ok(reasons);
    }
    let signed = signature::of_whole(&path)?;
    if !signed.is_empty() {
        reasons.push(Reason::Signed(signed));
    }
    if size < LEAST {
        return Ok(reasons);
    }
    if let Some(found) = signature::at(&path, seen.layout.data)? {
        match seen.mark.as_ref().map(|mark| &mark.left) {
            Some(Left::Unfinished(own)) if own.contains(&plain(&found.uuid)) => {}
            Some(Left::Made(left)) if *left == found.to_string() => {}
            Some(Left::Unfinished(_)) => {
                let left = "it was killed at work, and noted which UUIDs are its own: not this one";
                reasons.push(Reason::NotLeft { found, left: left.to_string() });
            }
            Some(left) => reasons.push(Reason::NotLeft { found, left: left.to_string() }),
            None => reasons.push(Reason::Lost { found, at: seen.layout.data.start }),
        }
    }
    Ok(reasons)
}

/// What begins at another place where a first partition may begin, though there is no table.
fn lost(seen: &Seen) -> Result<Option<Reason>, BlockError> {
    for part in seen.layout.other_starts(seen.mark.is_some()) {
        if let Some(found) = signature::at(&seen.drive.path(), part)? {
            return Ok(Some(Reason::Lost { found, at: part.start }));
        }
    }
    Ok(None)
}

/// Whether somebody holds it, or a part of it, for himself alone.
fn is_busy(drive: &Drive) -> Result<bool, BlockError> {
    match drive.open_to_hold() {
        Ok(_) => Ok(false),
        Err(BlockError::Io { source, .. }) if source.kind() == io::ErrorKind::ResourceBusy => {
            Ok(true)
        }
        Err(error) => Err(error),
    }
}
