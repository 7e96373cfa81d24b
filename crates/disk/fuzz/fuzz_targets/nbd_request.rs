//! Any bytes as requests of an NBD driver: each is parsed, or refused with the data that the reply and the
//! rest of the stream need. A parsed request lies within the disk, in whole sectors.
//!
//! `make fuzz` runs it from the seeds in `corpus/nbd_request`. Findings are in
//! `fuzz/artifacts/nbd_request`; each becomes a test of the parser.
#![no_main]

#[allow(dead_code)]
#[path = "../../../agent/src/serve_disk/protocol.rs"]
mod protocol;

use fsdyno_disk::Action;
use libfuzzer_sys::fuzz_target;
use protocol::{Command, Malformed, REQUEST_LENGTH, parse};

fuzz_target!(|bytes: &[u8]| {
    let Some((size, mut stream)) = bytes.split_first_chunk() else { return };
    let sectors = u64::from_le_bytes(*size) >> 9;
    while let Some((header, rest)) = stream.split_first_chunk::<REQUEST_LENGTH>() {
        let payload = match parse(header, sectors) {
            Ok(Command::Disconnect) | Err(Malformed::Magic) => return,
            Ok(Command::Disk { request, length }) => {
                let end = request.sector.checked_add(request.sectors.into());
                assert!(end.is_some_and(|end| end <= sectors), "{request:?} of {sectors}");
                match request.action {
                    Action::Flush => assert_eq!(length, 0),
                    _ => assert_eq!(u64::from(length), u64::from(request.sectors) * 512),
                }
                assert!(request.action == Action::Flush || length > 0, "{request:?}");
                if request.action == Action::Write { length } else { 0 }
            }
            Err(Malformed::Invalid { payload, .. }) => payload,
        };
        let Some(next) = rest.get(payload as usize..) else { return };
        stream = next;
    }
});
