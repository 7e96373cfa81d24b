//! Tests of the server, in which the test acts as the driver: on the host's clock, with files in place of a guest's
//! memory.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;

use fsdyno_disk::catalog;
use fsdyno_disk::log::data::DataLog;
use fsdyno_disk::log::region;
use fsdyno_disk::store::{View, region_size};
use fsdyno_disk::{DiskSpec, WriteCache};
use fsdyno_record::{Bytes, mailbox};
use proptest::prelude::*;

use super::protocol::{EINVAL, ENOSPC, REPLY_LENGTH};
use super::*;

const SIZE: u64 = 32 << 20;
const START: u64 = 1 << 20;

/// The driver's end of the connection.
struct Driver {
    socket: UnixStream,
    server: JoinHandle<io::Result<()>>,
    bytes: File,
    log: File,
    data: File,
    shared: Shared,
}

fn driver(spec: DiskSpec, stored: u64) -> Driver {
    let file = |size| {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        file
    };
    let (bytes, log) = (file(region_size(spec.capacity, Bytes(stored))), file(1 << 20));
    let data = file(256 << 20);
    let (server_socket, socket) = UnixStream::pair().unwrap();
    let shared = Shared::new().unwrap();
    let (region, log_region) = (bytes.try_clone().unwrap(), log.try_clone().unwrap());
    let data_region = data.try_clone().unwrap();
    let server = std::thread::spawn(move || {
        let words = (0..mailbox::SIZE / 8).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let mailbox = Mailbox::new(words.leak()).unwrap();
        let disk = fsdyno_disk::build(&spec, 1);
        let store = Store::create(Windows::new(region)?, spec.capacity).unwrap();
        let log = Writer::create(Windows::new(log_region)?, 0);
        let partition = Partition { start: Bytes(START), size: Bytes(SIZE) };
        let data = data::Writer::create(Windows::new(data_region)?, 256 << 20, spec.capacity);
        let server = Server::new(server_socket, disk, store, log, shared, mailbox, partition);
        server.with_data(Some(data)).run()
    });
    Driver { socket, server, bytes, log, data, shared }
}

fn disk() -> DiskSpec {
    catalog::get("hdd-7200").unwrap()
}

impl Driver {
    fn send(&mut self, type_word: u32, id: u64, offset: u64, length: u32) {
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend(type_word.to_be_bytes());
        bytes.extend(id.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        self.socket.write_all(&bytes).unwrap();
    }

    /// Returns the handle and the error of the next reply.
    fn reply(&mut self) -> (u64, u32) {
        let mut bytes = [0; REPLY_LENGTH];
        self.socket.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes[..4], [0x67, 0x44, 0x66, 0x98]);
        let errno = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
        (u64::from_be_bytes(bytes[8..].try_into().unwrap()), errno)
    }

    fn write(&mut self, id: u64, offset: u64, bytes: &[u8]) {
        self.send(1, id, offset, bytes.len() as u32);
        self.socket.write_all(bytes).unwrap();
    }

    fn read(&mut self, id: u64, offset: u64, length: u32) -> Vec<u8> {
        self.send(0, id, offset, length);
        assert_eq!(self.reply(), (id, 0));
        let mut bytes = vec![0; length as usize];
        self.socket.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Returns the bytes of the partition that a power cut would leave now.
    fn medium(&self) -> Vec<u8> {
        let windows = Windows::new(self.bytes.try_clone().unwrap()).unwrap();
        image(&mut Store::open(windows).unwrap(), View::Medium)
    }

    /// Ends the server. Replaying its log of bytes must then yield the disk that it left, in both views, and it must
    /// have a reply for each request in the request log.
    fn disconnect(mut self) {
        self.send(2, 0, 0, 0);
        self.server.join().unwrap().unwrap();
        let windows = |file: &File| Windows::new(file.try_clone().unwrap()).unwrap();
        let mut remaining = Store::open(windows(&self.bytes)).unwrap();
        let mut log = DataLog::open(windows(&self.data)).unwrap();
        let size = region_size(log.capacity(), Bytes(4 * SIZE)) as usize;
        let mut replayed = Store::create(vec![0; size], log.capacity()).unwrap();
        log.replay(0..log.events().len(), &mut replayed).unwrap();
        for view in [View::Visible, View::Medium] {
            assert!(image(&mut remaining, view) == image(&mut replayed, view), "{view:?}");
        }
        let logged = region::read(&mut windows(&self.log)).unwrap();
        assert_eq!(logged.entries.len() + logged.lost as usize, log.requests());
    }
}

fn image(store: &mut Store<impl fsdyno_disk::store::Memory>, view: View) -> Vec<u8> {
    let mut image = vec![0; SIZE as usize];
    store.export(view, &mut |offset, bytes| {
        image[(offset - START) as usize..][..bytes.len()].copy_from_slice(bytes);
    });
    image
}

fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut draws = fsdyno_record::seed::SplitMix64::new(seed);
    (0..length.div_ceil(8)).flat_map(|_| draws.draw().to_le_bytes()).take(length).collect()
}

#[test]
fn a_request_past_the_end_is_an_error_and_the_next_one_succeeds() {
    let mut driver = driver(disk(), 1 << 20);
    driver.send(0, 1, SIZE, 4096);
    assert_eq!(driver.reply(), (1, EINVAL));
    driver.write(2, SIZE - 512, &[7; 4096]);
    assert_eq!(driver.reply(), (2, EINVAL));
    assert_eq!(driver.read(3, SIZE - 4096, 4096), vec![0; 4096]);
    assert!(driver.shared.error().is_none(), "an invalid request is not an error of the lab");
    driver.disconnect();
}

#[test]
fn data_written_before_a_flush_is_on_the_medium_when_the_flush_is_answered() {
    let mut driver = driver(disk(), 16 << 20);
    let mut image = vec![0; SIZE as usize];
    let mut draws = fsdyno_record::seed::stream(5, "writes");
    for round in 0..12u64 {
        for id in 0..8 {
            let (offset, length) = (draws.below(400) * 512, (1 + draws.below(64)) as usize * 512);
            let bytes = pattern(round * 8 + id, length);
            driver.write(id, offset, &bytes);
            assert_eq!(driver.reply(), (id, 0));
            image[offset as usize..][..length].copy_from_slice(&bytes);
        }
        driver.send(3, 99, 0, 0);
        assert_eq!(driver.reply(), (99, 0));
        assert!(driver.medium() == image, "round {round}");
        assert!(driver.shared.is_flushed());
    }
    assert!(driver.read(1, 0, 1 << 20) == image[..1 << 20]);
    let log = driver.log.try_clone().unwrap();
    driver.disconnect();
    let logged = region::read(&mut Windows::new(log).unwrap()).unwrap();
    assert_eq!((logged.entries.len(), logged.lost), (12 * 9 + 1, 0));
    assert!(logged.entries.iter().all(|entry| !entry.untimed && entry.response > Nanos(0)));
    assert!(logged.entries.iter().any(|entry| entry.action == Action::Flush));
}

#[test]
fn a_disk_without_a_cache_answers_a_write_once_it_is_on_the_medium() {
    let mut spec = disk();
    spec.queue.write_cache = WriteCache::WriteThrough;
    let mut driver = driver(spec, 16 << 20);
    for id in 0..10 {
        let bytes = pattern(id, 8192);
        driver.write(id, id * 2048, &bytes);
        assert_eq!(driver.reply(), (id, 0));
        assert!(driver.medium()[(id * 2048) as usize..][..8192] == bytes, "write {id}");
    }
    driver.disconnect();
}

#[test]
fn an_untimed_write_is_on_the_medium_immediately_and_an_untimed_flush_empties_the_cache() {
    let mut driver = driver(disk(), 16 << 20);
    let (early, late) = (pattern(1, 4096), pattern(2, 4096));
    driver.write(1, 0, &early);
    assert_eq!(driver.reply(), (1, 0));
    driver.shared.set_timed(false);
    driver.write(2, 8192, &late);
    assert_eq!(driver.reply(), (2, 0));
    assert!(driver.medium()[8192..12288] == late);
    driver.send(3, 3, 0, 0);
    assert_eq!(driver.reply(), (3, 0));
    assert!(driver.medium()[..4096] == early);
    driver.disconnect();
}

#[test]
fn a_full_region_is_an_error_for_the_write_and_for_the_trial() {
    let mut driver = driver(disk(), 64 << 10);
    let mut errno = 0;
    for id in 0..3000 {
        driver.write(id, id * 8192, &pattern(id, 4096));
        errno = driver.reply().1;
        if errno != 0 {
            break;
        }
    }
    assert_eq!(errno, ENOSPC);
    assert_eq!(driver.shared.error().unwrap().raw_os_error(), Some(ENOSPC as i32));
    assert_eq!(driver.read(1, 0, 4096), pattern(0, 4096), "stored bytes can still be read");
    driver.disconnect();
}

#[test]
fn a_driver_that_disconnects_during_a_write_leaves_the_previous_bytes() {
    let mut driver = driver(disk(), 1 << 20);
    driver.shared.set_timed(false);
    driver.write(1, 0, &pattern(1, 4096));
    assert_eq!(driver.reply(), (1, 0));
    driver.shared.set_timed(true);
    driver.send(1, 2, 0, 8192);
    driver.socket.write_all(&[7; 5000]).unwrap();
    driver.socket.shutdown(std::net::Shutdown::Both).unwrap();
    let Driver { server, bytes, socket, log, shared, data } = driver;
    let error = server.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    let (_, idle) = UnixStream::pair().unwrap();
    drop(socket);
    let server = std::thread::spawn(|| Ok(()));
    let remaining = Driver { socket: idle, server, bytes, log, shared, data };
    assert!(remaining.medium()[..4096] == pattern(1, 4096));
    assert!(remaining.medium()[4096..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_stream_out_of_sync_ends_the_server_with_the_reason() {
    let mut driver = driver(disk(), 1 << 20);
    driver.socket.write_all(&[9; REQUEST_LENGTH]).unwrap();
    let error = driver.server.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn any_bytes_end_the_server_or_are_answered_and_never_break_it(
        requests in prop::collection::vec((0u32..6, any::<u16>(), any::<u16>()), 0..12),
        rest in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut driver = driver(disk(), 1 << 20);
        driver.shared.set_timed(false);
        let mut reader = driver.socket.try_clone().unwrap();
        let reading = std::thread::spawn(move || reader.read_to_end(&mut Vec::new()));
        for (action, offset, length) in requests {
            // Most are within the disk, some are past the end, some are neither.
            let (offset, length) = (u64::from(offset) * 1024, u32::from(length) * 2);
            let payload = if action == 1 { length as usize } else { 0 };
            let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
            bytes.extend(action.to_be_bytes());
            bytes.extend(1u64.to_be_bytes());
            bytes.extend(offset.to_be_bytes());
            bytes.extend(length.to_be_bytes());
            bytes.resize(bytes.len() + payload, 3);
            if driver.socket.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = driver.socket.write_all(&rest);
        driver.socket.shutdown(std::net::Shutdown::Write).unwrap();
        // The server ends, successfully or with a reason; a panic would surface in the join.
        let _ = driver.server.join().unwrap();
        let _ = reading.join().unwrap();
    }
}
