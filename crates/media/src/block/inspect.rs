//! Collects all reasons to refuse erasing a drive; writes nothing.

use std::fs::File;
use std::io;

use fsdyno_record::Bytes;

use super::drive::Drive;
use super::layout::{GUARD, KernelPart, Layout, MIN_DRIVE_SIZE};
use super::mark::{DataContents, DriveMark, normalize_uuid};
use super::refusal::{BlockError, Reason};
use super::{InspectedDrive, blkid, users};

/// Inspects a drive, and returns all reasons to refuse erasing it. `held` is true if this process has it
/// open exclusively.
pub fn inspect(drive: Drive, held: bool) -> Result<(InspectedDrive, Vec<Reason>), BlockError> {
    let (size, serial, parts) = (drive.size(), drive.serial(), drive.parts());
    let layout = Layout::of(size);
    let mut reasons = intrinsic_reasons(&drive, size, serial.as_deref());
    let mut inspected =
        InspectedDrive { drive, layout, serial: serial.unwrap_or_default(), mark: None };
    let (users, working) = find_users(&inspected, &parts);
    let no_known_user = users.is_empty() && !working && !held;
    reasons.extend(users);
    let opened = match inspected.drive.open_to_read() {
        Ok(opened) => opened,
        // If the drive cannot be opened, the reasons found so far are more useful than that error.
        Err(_) if !reasons.is_empty() => return Ok((inspected, reasons)),
        Err(error) => return Err(error),
    };
    inspected.mark = read_own_mark(&inspected, &opened)?;
    // The kernel's own claim is decisive but least informative, so it is tested only if no user is found.
    let busy = no_known_user && is_busy(&inspected.drive)?;
    let matches_layout = parts.iter().all(|part| layout.contains(part));
    if working || (busy && matches_layout && !parts.is_empty()) {
        reasons.push(Reason::Working);
    } else {
        reasons.extend(busy.then_some(Reason::Busy));
        // A killed run leaves its two partitions in the kernel's table.
        if !(parts.is_empty() || (matches_layout && inspected.mark.is_some())) {
            reasons.push(Reason::Partitions(parts.into_iter().map(|part| part.name).collect()));
        }
    }
    reasons.extend(foreign_contents(&inspected)?);
    // This is slow, and adds nothing for a drive that is refused anyway.
    if reasons.is_empty() {
        reasons.extend(lost_partition(&inspected)?);
    }
    Ok((inspected, reasons))
}

/// Returns the reasons that are properties of the drive.
fn intrinsic_reasons(drive: &Drive, size: Bytes, serial: Option<&str>) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = drive.mapping().map(Reason::Mapping).into_iter().collect();
    if drive.is_read_only() {
        reasons.push(Reason::ReadOnly);
    }
    if size < MIN_DRIVE_SIZE {
        reasons.push(Reason::TooSmall { size });
    }
    if serial.is_none() {
        reasons.push(Reason::NoSerial);
    }
    reasons
}

/// Returns the users of a drive, and whether one of them is another fsdyno, which has the guard part open.
fn find_users(inspected: &InspectedDrive, parts: &[KernelPart]) -> (Vec<Reason>, bool) {
    let mut users = users::list_users(&inspected.drive, parts);
    let guard = parts.iter().find(|part| part.number == GUARD && inspected.layout.contains(part));
    let is_fsdyno = |reason: &Reason| match (reason, guard) {
        (Reason::Open { part, .. }, Some(guard)) => *part == guard.name,
        _ => false,
    };
    let working = users.iter().any(is_fsdyno);
    users.retain(|reason| !is_fsdyno(reason));
    (users, working)
}

/// Returns the mark on the drive, if it was written on this drive.
fn read_own_mark(
    inspected: &InspectedDrive,
    opened: &File,
) -> Result<Option<DriveMark>, BlockError> {
    let mark = DriveMark::read(opened)
        .map_err(|error| BlockError::io("read", inspected.drive.path(), error))?;
    Ok(mark.filter(|mark| mark.serial == inspected.serial && mark.size == inspected.drive.size()))
}

/// Returns the reasons given by contents on the drive that do not stem from fsdyno.
fn foreign_contents(inspected: &InspectedDrive) -> Result<Vec<Reason>, BlockError> {
    let (path, size) = (inspected.drive.path(), inspected.drive.size());
    let mut reasons = Vec::new();
    if size.0 == 0 {
        return Ok(reasons);
    }
    let signatures = blkid::whole_device_signatures(&path)?;
    if !signatures.is_empty() {
        reasons.push(Reason::Signed(signatures));
    }
    if size < MIN_DRIVE_SIZE {
        return Ok(reasons);
    }
    if let Some(found) = blkid::part_signature(&path, inspected.layout.data)? {
        match inspected.mark.as_ref().map(|mark| &mark.left) {
            Some(DataContents::Unfinished(uuids))
                if uuids.contains(&normalize_uuid(&found.uuid)) => {}
            Some(DataContents::Formatted(left)) if *left == found.to_string() => {}
            Some(DataContents::Unfinished(_)) => {
                let why = "it was killed, and the UUIDs that it recorded do not include this one";
                reasons.push(Reason::ForeignContents { found, left: why.to_string() });
            }
            Some(left) => reasons.push(Reason::ForeignContents { found, left: left.to_string() }),
            None => reasons.push(Reason::Lost { found, at: inspected.layout.data.start }),
        }
    }
    Ok(reasons)
}

/// Returns a signature at one of the other common starts of a first partition, if there is no table.
fn lost_partition(inspected: &InspectedDrive) -> Result<Option<Reason>, BlockError> {
    for part in inspected.layout.other_starts(inspected.mark.is_some()) {
        if let Some(found) = blkid::part_signature(&inspected.drive.path(), part)? {
            return Ok(Some(Reason::Lost { found, at: part.start }));
        }
    }
    Ok(None)
}

/// Reports whether another process has the drive, or a partition of it, open exclusively.
fn is_busy(drive: &Drive) -> Result<bool, BlockError> {
    match drive.open_exclusively() {
        Ok(_) => Ok(false),
        Err(BlockError::Io { source, .. }) if source.kind() == io::ErrorKind::ResourceBusy => {
            Ok(true)
        }
        Err(error) => Err(error),
    }
}
