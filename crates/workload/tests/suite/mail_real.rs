//! The mail workloads with real messages, from an archive.

use crate::mail::{ONE_MESSAGE, with};
use crate::memory::{build, check_workload_with_input};
use fsdyno_workload::{Call, Input, Op, Payload, Setting, Share};

/// A tar archive of regular files: headers of the ustar format, data padded to 512 bytes.
pub(crate) fn archive(files: &[(&str, &[u8])]) -> Input {
    let mut bytes = Vec::new();
    for (name, data) in files {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..108].copy_from_slice(b"0000644\0");
        header[108..124].copy_from_slice(b"0000000\x000000000\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", data.len()).as_bytes());
        header[136..148].copy_from_slice(b"10142500000\0");
        header[148..156].copy_from_slice(b"        ");
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    Input::new(bytes)
}

const REAL_MAIL: &[(&str, &[u8])] = &[
    ("a", b"From: a\n\nHello,\nworld\n"),
    ("b", b""),
    ("c", b"no newline at the end"),
    ("d", &[b'x'; 9000]),
];

#[test]
fn real_mail_is_delivered_line_by_line() {
    let writes = |protocol| {
        let parameters =
            [("source", "mail"), ("size", "mix"), ("flush", "line"), ("protocol", protocol)];
        let setting = Setting { seed: 1, input: Some(archive(REAL_MAIL)) };
        let work = build("maildir", &with(&ONE_MESSAGE, &parameters), &setting);
        let mut ops = work.ops(2, Share::WHOLE);
        let mut op = Op::default();
        let mut writes = Vec::new();
        while ops.next(&mut op) {
            if let Call::Write { payload, .. } = op.call {
                assert_eq!(payload.id, Payload::INPUT);
                writes.push((payload.offset, payload.length));
            }
        }
        writes
    };
    // The archive's first header takes 512 bytes.
    let lines = [(512, 8), (520, 1), (521, 7), (528, 6)];
    assert_eq!(writes("copy"), lines);
    // qmail's two lines end at the start of the message.
    assert_eq!(writes("qmail"), [&[(440, 38), (478, 34)], &lines[..]].concat());
}

#[test]
fn real_mail_is_verified_under_every_protocol_and_repeats_after_its_end() {
    for protocol in ["copy", "qmail", "postfix", "dovecot", "fsbench"] {
        for flush in ["line", "none"] {
            let set = [
                ("source", "mail"),
                ("store", "9"),
                ("read-store", "3"),
                ("ops", "40"),
                ("maildirs", "3"),
                ("fill", "2"),
                ("protocol", protocol),
                ("flush", flush),
            ];
            check_workload_with_input("maildir", &set, 3, archive(REAL_MAIL));
        }
    }
    check_workload_with_input(
        "maildir-read",
        &[("source", "mail"), ("reads", "30")],
        3,
        archive(REAL_MAIL),
    );
}
