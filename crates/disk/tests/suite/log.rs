//! Tests the file of a request log: a written log is read back, and anything else is refused.

#![allow(clippy::unwrap_used, reason = "test helpers may panic")]

use fsdyno_disk::Action;
use fsdyno_disk::log::Entry;
use fsdyno_disk::log::file::{self, LogError};
use fsdyno_disk::log::region::RequestLog;
use fsdyno_record::Nanos;
use fsdyno_record::mailbox::Stage;
use proptest::prelude::*;

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let action = prop_oneof![
        Just(Action::Read),
        Just(Action::Write),
        Just(Action::Flush),
        Just(Action::Trim)
    ];
    let stage = prop_oneof![Just(Stage::Preparing), Just(Stage::Running), Just(Stage::Done)];
    let numbers = (0u64..1 << 50, any::<u64>(), any::<u64>(), any::<u32>());
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let entry = (numbers, action, flags, (0u8..3, stage, 0u16..3)).prop_map(
        |((arrived, response, sector, sectors), action, (fua, untimed, failed), origin)| Entry {
            arrived: Nanos(arrived),
            response: Nanos(response),
            action,
            sector,
            sectors,
            fua,
            untimed,
            failed,
            disk: origin.0,
            stage: origin.1,
            phase: origin.2,
        },
    );
    prop::collection::vec(entry, 0..50).prop_map(|mut entries| {
        entries.sort_by_key(|entry| entry.arrived);
        entries
    })
}

fn bytes(log: &RequestLog) -> Vec<u8> {
    let mut bytes = Vec::new();
    file::write(log, &mut bytes).unwrap();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn a_written_log_is_read_back(entries in entries(), lost in any::<u64>(), cut in any::<u16>()) {
        let bytes = bytes(&RequestLog { entries: entries.clone(), lost });
        let log = file::open(&bytes).unwrap();
        prop_assert_eq!((log.declared_entries(), log.lost()), (entries.len() as u64, lost));
        let read: Result<Vec<Entry>, LogError> = log.collect();
        prop_assert_eq!(read.as_ref(), Ok(&entries));

        // A truncated log gives an error after the complete entries.
        let cut = usize::from(cut) % bytes.len();
        if let Ok(log) = file::open(&bytes[..cut]) {
            let read: Vec<_> = log.collect();
            let (last, whole) = read.split_last().unwrap();
            prop_assert_eq!(last, &Err(LogError::Damaged { at: read.len() as u64, entries: entries.len() as u64 }));
            prop_assert!(whole.iter().zip(&entries).all(|(read, expected)| read.as_ref() == Ok(expected)));
        }
        let longer = [&bytes[..], &[0]].concat();
        prop_assert_eq!(file::open(&longer).unwrap().last(), Some(Err(LogError::Trailing)));
    }

    #[test]
    fn any_bytes_are_refused_or_read(rest in prop::collection::vec(any::<u8>(), 0..200), count in 0u64..40) {
        let head = bytes(&RequestLog::default());
        let mut all = [&head[..12], &count.to_le_bytes()[..], &head[20..], &rest[..]].concat();
        // At most the promised number of entries, followed by an error.
        prop_assert!(file::open(&all).unwrap().count() as u64 <= count + 1);
        all[8] = 7;
        prop_assert_eq!(file::open(&all).unwrap_err(), LogError::Version(7));
        prop_assert_eq!(file::open(&rest).unwrap_err(), LogError::NoLog);
    }
}

#[test]
fn a_usual_request_takes_about_ten_bytes() {
    // Writes of 4 KiB all over 80 GB, 8 ms apart, each taking 8 ms: the worst normal load.
    let entry = |at: u64| Entry {
        arrived: Nanos(at * 8_000_003),
        response: Nanos(8_000_000 + at % 1000),
        action: Action::Write,
        sector: at * 7_919_003 % 156_250_000,
        sectors: 8,
        fua: false,
        untimed: false,
        failed: false,
        disk: 0,
        stage: Stage::Running,
        phase: 0,
    };
    let entries: Vec<Entry> = (1..1000).map(entry).collect();
    let each = bytes(&RequestLog { entries, lost: 0 }).len() as f64 / 999.0;
    assert!((10.0..15.0).contains(&each), "{each} bytes per request");
}
