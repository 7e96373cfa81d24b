//! The bytes that the kernel's nbd driver and its server exchange.
//!
//! Source: the NBD protocol, "Transmission phase" (NetworkBlockDevice/nbd, doc/proto.md), with
//! simple replies, as linux/drivers/block/nbd.c expects.

use fsdyno_disk::{Action, Request};

/// Length of a request's header.
pub const REQUEST_LENGTH: usize = 28;
/// Length of a reply's header.
pub const REPLY_LENGTH: usize = 16;

/// `NBD_REQUEST_MAGIC`.
const REQUEST_MAGIC: u32 = 0x2560_9513;
/// `NBD_SIMPLE_REPLY_MAGIC`.
const REPLY_MAGIC: u32 = 0x6744_6698;
/// `NBD_CMD_FLAG_FUA`, in the upper half of the type word.
const FLAG_FUA: u32 = 1 << 16;

/// `EINVAL`, as the protocol encodes errors.
pub const EINVAL: u32 = 22;
/// `ENOSPC`.
pub const ENOSPC: u32 = 28;

/// A request as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// A request for the disk; `length` bytes of payload follow a write.
    Disk {
        /// The request as the disk model takes it; its id is the driver's handle.
        request: Request,
        /// Bytes to transfer.
        length: u32,
    },
    /// The driver disconnects.
    Disconnect,
}

/// A malformed request; the reply carries `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The stream is out of sync; nothing after it can be parsed.
    Magic,
    /// The request itself is invalid; its `payload` bytes still have to be read.
    Invalid {
        /// The driver's handle.
        id: u64,
        /// Number of payload bytes that follow.
        payload: u32,
    },
}

fn u32_at(bytes: &[u8; REQUEST_LENGTH], offset: usize) -> u32 {
    u32::from_be_bytes([bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]])
}

/// Parses a request's header for a disk of `sectors` sectors of 512 bytes.
///
/// # Errors
/// [`Malformed`]: a wrong magic, an unknown command, a range that is not in whole sectors or extends
/// past the end of the disk.
pub fn parse(bytes: &[u8; REQUEST_LENGTH], sectors: u64) -> Result<Command, Malformed> {
    if u32_at(bytes, 0) != REQUEST_MAGIC {
        return Err(Malformed::Magic);
    }
    let type_word = u32_at(bytes, 4);
    let id = (u64::from(u32_at(bytes, 8)) << 32) | u64::from(u32_at(bytes, 12));
    let offset = (u64::from(u32_at(bytes, 16)) << 32) | u64::from(u32_at(bytes, 20));
    let length = u32_at(bytes, 24);
    let action = match type_word & 0xffff {
        0 => Action::Read,
        1 => Action::Write,
        2 => return Ok(Command::Disconnect),
        3 => Action::Flush,
        4 => Action::Trim,
        _ => return Err(Malformed::Invalid { id, payload: 0 }),
    };
    let payload = if action == Action::Write { length } else { 0 };
    let (sector, count) = (offset / 512, length / 512);
    let is_whole_sectors =
        offset % 512 == 0 && length % 512 == 0 && (length > 0 || action == Action::Flush);
    let is_inside = sector.checked_add(u64::from(count)).is_some_and(|end| end <= sectors);
    if !is_whole_sectors || !is_inside {
        return Err(Malformed::Invalid { id, payload });
    }
    let request = Request { id, action, sector, sectors: count, fua: type_word & FLAG_FUA != 0 };
    Ok(Command::Disk { request, length: if action == Action::Flush { 0 } else { length } })
}

/// Returns the header of a reply.
pub fn reply(id: u64, errno: u32) -> [u8; REPLY_LENGTH] {
    let mut bytes = [0; REPLY_LENGTH];
    bytes[..4].copy_from_slice(&REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&errno.to_be_bytes());
    bytes[8..].copy_from_slice(&id.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(type_word: u32, offset: u64, length: u32) -> [u8; REQUEST_LENGTH] {
        let mut bytes = [0; REQUEST_LENGTH];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&type_word.to_be_bytes());
        bytes[8..16].copy_from_slice(&7u64.to_be_bytes());
        bytes[16..24].copy_from_slice(&offset.to_be_bytes());
        bytes[24..28].copy_from_slice(&length.to_be_bytes());
        bytes
    }

    #[test]
    fn a_write_with_fua_is_understood() {
        let request = Request { id: 7, action: Action::Write, sector: 8, sectors: 8, fua: true };
        assert_eq!(
            parse(&header(1 | FLAG_FUA, 4096, 4096), 16),
            Ok(Command::Disk { request, length: 4096 })
        );
    }

    #[test]
    fn a_request_past_the_end_is_an_error_whose_payload_is_still_read() {
        assert_eq!(
            parse(&header(1, 4096, 4608), 16),
            Err(Malformed::Invalid { id: 7, payload: 4608 })
        );
        assert_eq!(parse(&header(0, !511, 512), 16), Err(Malformed::Invalid { id: 7, payload: 0 }));
        assert_eq!(parse(&header(0, 100, 512), 16), Err(Malformed::Invalid { id: 7, payload: 0 }));
        assert_eq!(parse(&header(0, 0, 0), 16), Err(Malformed::Invalid { id: 7, payload: 0 }));
        assert_eq!(parse(&header(9, 0, 512), 16), Err(Malformed::Invalid { id: 7, payload: 0 }));
    }

    #[test]
    fn a_stream_out_of_sync_is_an_error() {
        assert_eq!(parse(&[0; REQUEST_LENGTH], 16), Err(Malformed::Magic));
    }

    #[test]
    fn flush_and_disconnect_have_no_payload() {
        assert_eq!(parse(&header(2, 0, 0), 16), Ok(Command::Disconnect));
        assert!(matches!(parse(&header(3, 0, 0), 16), Ok(Command::Disk { length: 0, .. })));
    }

    #[test]
    fn a_reply_names_the_handle_and_the_error() {
        let bytes = reply(7, ENOSPC);
        assert_eq!(bytes[..4], [0x67, 0x44, 0x66, 0x98]);
        assert_eq!(bytes[7], 28);
        assert_eq!(bytes[15], 7);
    }
}
