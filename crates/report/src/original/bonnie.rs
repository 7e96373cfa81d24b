//! The CSV line of bonnie++, format 1.98, which `bon_csv2html` reads; for the Bonnie of 1996, its table.
//!
//! Times are until the last call returned, as in the original, without the mkdir calls, which the original makes
//! before its clock starts. Rates and shares of CPU are truncated as in the original. CPU time is that of the threads
//! that issue ops; it extends to the phase's last time stamp, so it includes their part of the final sync. The longest
//! op is that of the calls that the phase measures, without the sync that ends it: a run of bonnie++ reports 49 us as
//! the longest op of the rewrite of 16 MiB, although that phase calls fsync.
//!
//! Where bonnie++ 2.00a departs from its own format, this follows the format: the program always leaves the chunk
//! size empty, and writes the number of directories one field too late.

use fsdyno_record::trial::Phase;
use fsdyno_record::{Nanos, OpKind, Trial};

/// The fields of a line.
const FIELDS: usize = 50;
/// A phase shorter than this has no rate, as in the original.
const MIN_TIME: Nanos = Nanos(500_000_000);
/// For each phase of the large file: the fields of its rate and of its longest op, its name, and the calls that it
/// measures.
const IO: [(usize, usize, &str, &[OpKind]); 5] = [
    (9, 38, "char-write", &[OpKind::Write]),
    (11, 39, "block-write", &[OpKind::Write]),
    (13, 40, "rewrite", &[OpKind::Read, OpKind::Write]),
    (15, 41, "char-read", &[OpKind::Read]),
    (17, 42, "block-read", &[OpKind::Read]),
];
/// The same fields for the seeks.
const SEEKS: (usize, usize, &str, &[OpKind]) = (19, 43, "seeks", &[OpKind::Read, OpKind::Write]);
/// The same fields for the phases of the small files; the sync that ends a phase is not one of these calls.
const FILES: [(usize, usize, &str, &[OpKind]); 6] = [
    (26, 44, "create-seq", CREATE),
    (28, 45, "stat-seq", STAT),
    (30, 46, "delete-seq", REMOVE),
    (32, 47, "create-random", CREATE),
    (34, 48, "stat-random", STAT),
    (36, 49, "delete-random", REMOVE),
];
const CREATE: &[OpKind] =
    &[OpKind::Create, OpKind::Link, OpKind::Symlink, OpKind::Write, OpKind::Fsync, OpKind::Close];
const STAT: &[OpKind] = &[OpKind::Stat, OpKind::Open, OpKind::Read, OpKind::Close];
const REMOVE: &[OpKind] = &[OpKind::Unlink, OpKind::Fsync];

/// The report of one trial.
pub fn form(trial: &Trial) -> String {
    match trial.plan.workload.params.get("program").map(String::as_str) {
        Some("bonnie") => table(trial),
        _ => line(trial),
    }
}

/// The CSV line of bonnie++; omitted values are empty fields.
fn line(trial: &Trial) -> String {
    let mut fields: [String; FIELDS] = std::array::from_fn(|_| String::new());
    fields[0] = "1.98".into();
    fields[1] = format!("fsdyno {}", trial.version);
    // Names are not quoted, and the reader takes every comma as the end of a field.
    fields[2] = trial.plan.label.replace([',', '"', '\n'], " ");
    fields[3] = "1".into();
    fields[4] = trial.seed.to_string();
    large_file(&mut fields, trial);
    small_files(&mut fields, trial);
    fields.join(",") + "\n"
}

fn large_file(fields: &mut [String; FIELDS], trial: &Trial) {
    let Some(blocks) = phase(trial, "block-write") else { return };
    let bytes = units(blocks, "bytes");
    fields[5] = size(bytes);
    fields[6] = match bytes.checked_div(count(blocks, OpKind::Write)) {
        None | Some(8192) => String::new(),
        Some(chunk) => size(chunk),
    };
    for (rate, longest, name, kinds) in IO {
        let Some(phase) = phase(trial, name) else { continue };
        let kib = per_second(units(phase, "bytes"), phase) / 1024.0;
        fields[rate] = unless_short(phase, "+++++", format!("{}", kib as u64));
        fields[rate + 1] = unless_short(phase, "+++", format!("{}", cpu(phase) as u64));
        fields[longest] = longest_of(phase, kinds);
    }
    let (rate, longest, name, kinds) = SEEKS;
    let Some(phase) = phase(trial, name) else { return };
    let seeks = per_second(units(phase, "seeks"), phase);
    let text = if seeks < 1000.0 { format!("{seeks:.1}") } else { format!("{}", seeks as u64) };
    fields[7] = units(phase, "seeks").to_string();
    // Each seeker opens the file once.
    fields[8] = count(phase, OpKind::Open).to_string();
    fields[rate] = unless_short(phase, "+++++", text);
    fields[rate + 1] = unless_short(phase, "+++", format!("{}", cpu(phase) as u64));
    fields[longest] = longest_of(phase, kinds);
}

fn small_files(fields: &mut [String; FIELDS], trial: &Trial) {
    let Some(created) = phase(trial, "create-seq") else { return };
    let param = |key: &str| trial.plan.workload.params.get(key).map_or("", String::as_str);
    // A default is written as an empty field.
    let unless = |key: &str, default: &str| match param(key) {
        value if value == default => String::new(),
        value => value.to_string(),
    };
    fields[21] = (units(created, "files") / 1024).to_string();
    fields[22] = unless("files-max", "0");
    fields[23] = unless("files-min", "0");
    fields[24] = unless("dirs", "0");
    fields[25] = unless("files-chunk", "8192");
    for (rate, longest, name, kinds) in FILES {
        let Some(phase) = phase(trial, name) else { continue };
        let files = per_second(units(phase, "files"), phase);
        fields[rate] = unless_short(phase, "+++++", format!("{}", files as u64));
        fields[rate + 1] = unless_short(phase, "+++", format!("{}", cpu(phase) as u64));
        fields[longest] = longest_of(phase, kinds);
    }
}

/// The table of Bonnie, whose columns are rates in KiB per second and shares of CPU.
fn table(trial: &Trial) -> String {
    let mut out = String::from(
        "              -------Sequential Output-------- ---Sequential Input-- --Random--\n\
         \x20             -Per Char- --Block--- -Rewrite-- -Per Char- --Block--- --Seeks---\n\
         Machine    MB K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU  /sec %CPU\n",
    );
    let bytes = phase(trial, "block-write").map_or(0, |phase| units(phase, "bytes"));
    let machine: String = trial.plan.label.chars().take(8).collect();
    out.push_str(&format!("{machine:<8} {:>4}", bytes >> 20));
    for (.., name, _) in IO {
        if let Some(phase) = phase(trial, name) {
            let kib = per_second(units(phase, "bytes"), phase) / 1024.0;
            out.push_str(&format!(" {:>5} {:>4.1}", kib as u64, cpu(phase)));
        }
    }
    if let Some(phase) = phase(trial, "seeks") {
        let seeks = per_second(units(phase, "seeks"), phase);
        out.push_str(&format!(" {seeks:>5.1} {:>4.1}", cpu(phase)));
    }
    out.push('\n');
    out
}

fn phase<'a>(trial: &'a Trial, name: &str) -> Option<&'a Phase> {
    trial.measured.phases.iter().find(|phase| phase.name == name)
}

fn units(phase: &Phase, what: &str) -> u64 {
    phase.books.get(what).copied().unwrap_or(0)
}

fn count(phase: &Phase, kind: OpKind) -> u64 {
    phase.ops.get(&kind).map_or(0, |ops| ops.count)
}

/// The time that the original would have measured.
fn time(phase: &Phase) -> Nanos {
    let mkdir_time = phase.ops.get(&OpKind::Mkdir).map_or(Nanos(0), |mkdir| mkdir.total_ns);
    phase.returned_ns - mkdir_time
}

fn per_second(count: u64, phase: &Phase) -> f64 {
    let seconds = time(phase).seconds();
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// CPU time as a percentage of the time.
fn cpu(phase: &Phase) -> f64 {
    let seconds = time(phase).seconds();
    if seconds > 0.0 { 100.0 * phase.cpu_ns.seconds() / seconds } else { 0.0 }
}

fn unless_short(phase: &Phase, plus: &str, text: String) -> String {
    if time(phase) < MIN_TIME { plus.to_string() } else { text }
}

/// The longest op of these kinds, in the unit that fits: `4072us`.
fn longest_of(phase: &Phase, kinds: &[OpKind]) -> String {
    let longest = kinds.iter().filter_map(|kind| phase.ops.get(kind)).map(|ops| ops.max_ns).max();
    match longest.map(|ns| ns.0 / 1000) {
        None => String::new(),
        Some(us @ ..=99_999) => format!("{us}us"),
        Some(us @ ..=99_999_999) => format!("{}ms", us / 1000),
        Some(us) => format!("{}s", us / 1_000_000),
    }
}

/// A size in the largest unit of which it is a multiple.
fn size(bytes: u64) -> String {
    let units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k")];
    match units.iter().find(|(unit, _)| bytes > 0 && bytes % unit == 0) {
        Some((unit, letter)) => format!("{}{letter}", bytes / unit),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;
    use std::process::{Command, Stdio};

    use fsdyno_record::trial::OpStats;

    use super::*;
    use crate::fixture;

    /// Name, milliseconds, counts, kinds with their number of ops and the longest in microseconds.
    type Row<'a> = (&'a str, u64, &'a [(&'a str, u64)], &'a [(OpKind, u64, u64)]);

    const MIB: u64 = 1 << 20;
    const BIG: [Row<'_>; 6] = [
        ("char-write", 1000, &[("bytes", 3 * MIB)], &[(OpKind::Write, 1, 6205)]),
        (
            "block-write",
            10_000,
            &[("bytes", 300 * MIB)],
            &[(OpKind::Write, 38_400, 99_999), (OpKind::Fsync, 1, 900_000)],
        ),
        (
            "rewrite",
            20_000,
            &[("bytes", 300 * MIB)],
            &[(OpKind::Read, 1, 100_000), (OpKind::Write, 1, 7)],
        ),
        ("char-read", 600, &[("bytes", 3 * MIB)], &[(OpKind::Read, 1, 16_475)]),
        (
            "block-read",
            499,
            &[("bytes", 300 * MIB)],
            &[(OpKind::Read, 1, 145), (OpKind::Close, 1, 99_000)],
        ),
        (
            "seeks",
            50_000,
            &[("seeks", 8192)],
            &[(OpKind::Open, 5, 9), (OpKind::Read, 8192, 120_000_000), (OpKind::Write, 820, 3)],
        ),
    ];
    const COUNT: &[(&str, u64)] = &[("files", 16_384)];
    const SMALL: [Row<'_>; 6] = [
        ("create-seq", 2000, COUNT, &[(OpKind::Create, 1, 12), (OpKind::Sync, 1, 4000)]),
        ("stat-seq", 400, COUNT, &[(OpKind::Stat, 1, 35)]),
        ("delete-seq", 1000, COUNT, &[(OpKind::Unlink, 1, 3952), (OpKind::Rmdir, 1, 5000)]),
        ("create-random", 3000, COUNT, &[(OpKind::Create, 1, 4251)]),
        ("stat-random", 800, COUNT, &[(OpKind::Stat, 1, 32)]),
        ("delete-random", 4000, COUNT, &[(OpKind::Unlink, 1, 3770)]),
    ];

    fn trial(rows: &[Row<'_>], params: &[(&str, &str)]) -> Trial {
        let mut trial = fixture::single().remove(0);
        trial.plan.workload.name = "bonnie".into();
        let all = [("program", "bonnie++"), ("files-max", "0"), ("files-min", "0"), ("dirs", "0")];
        let params = all.iter().chain(&[("files-chunk", "8192")]).chain(params);
        trial.plan.workload.params =
            params.map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let stats = |count, us: u64| {
            let max_ns = Nanos(us * 1000 + 999);
            OpStats { count, max_ns, ..OpStats::default() }
        };
        let phase = |(name, ms, units, ops): &Row<'_>| Phase {
            name: (*name).into(),
            returned_ns: Nanos(ms * 1_000_000),
            cpu_ns: Nanos(ms * 250_000),
            books: units.iter().map(|(what, n)| (what.to_string(), *n)).collect(),
            ops: ops.iter().map(|(kind, count, us)| (*kind, stats(*count, *us))).collect(),
            ..Phase::default()
        };
        trial.measured.phases = rows.iter().map(phase).collect();
        trial
    }

    fn fields(text: &str) -> Vec<&str> {
        text.trim_end().split(',').collect()
    }

    #[test]
    fn a_line_has_the_fifty_fields_of_the_format() {
        let text = form(&trial(&[BIG, SMALL].concat(), &[]));
        // 300 MiB in 10 s are 30,720 KiB/s; 8,192 seeks in 50 s 163.8/s; 16,384 files in 2 s 8,192/s.
        assert_eq!(
            text,
            "1.98,fsdyno 0.1.0,ext4,1,1,300M,,8192,5,\
             3072,25,30720,25,15360,25,5120,25,+++++,+++,163.8,25,\
             16,,,,,8192,25,+++++,+++,16384,25,5461,25,20480,25,4096,25,\
             6205us,99999us,100ms,16475us,145us,120s,12us,35us,3952us,4251us,32us,3770us\n"
        );
        assert_eq!(fields(&text).len(), 50);
    }

    #[test]
    fn a_skipped_phase_leaves_empty_fields() {
        let only_files = form(&trial(&SMALL, &[("files-max", "link"), ("dirs", "3")]));
        let fields_of_files = fields(&only_files);
        assert_eq!(fields_of_files.len(), 50);
        assert!(fields_of_files[5..21].iter().all(|field| field.is_empty()));
        assert_eq!(fields_of_files[21..26], ["16", "link", "", "3", ""]);
        assert!(fields_of_files[38..44].iter().all(|field| field.is_empty()));
        let only_file = form(&trial(&BIG, &[]));
        let fields_of_file = fields(&only_file);
        assert_eq!(fields_of_file.len(), 50);
        assert!(fields_of_file[21..38].iter().all(|field| field.is_empty()));
        assert!(fields_of_file[44..].iter().all(|field| field.is_empty()));
    }

    #[test]
    fn directories_are_created_before_the_clock_starts() {
        let mut trial = trial(&SMALL, &[]);
        let mkdir = OpStats { total_ns: Nanos(1_000_000_000), ..OpStats::default() };
        trial.measured.phases[0].ops.insert(OpKind::Mkdir, mkdir);
        assert_eq!(fields(&form(&trial))[26], "16384");
    }

    #[test]
    fn a_chunk_size_other_than_the_default_is_written() {
        let mut trial = trial(&BIG, &[]);
        let writes = trial.measured.phases[1].ops.get_mut(&OpKind::Write).unwrap();
        writes.count = 19_200;
        assert_eq!(fields(&form(&trial))[5..9], ["300M", "16k", "8192", "5"]);
    }

    #[test]
    fn a_name_cannot_break_the_line() {
        let mut trial = trial(&BIG, &[]);
        trial.plan.label = "ext4, \"x\"".into();
        assert_eq!(fields(&form(&trial)).len(), 50);
    }

    #[test]
    fn sizes_are_in_the_unit_that_fits() {
        for (bytes, text) in
            [(2 << 30, "2G"), (1800 << 20, "1800M"), (16 << 10, "16k"), (256, "256"), (0, "0")]
        {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn the_bonnie_of_1996_has_a_table() {
        let text = form(&trial(&BIG, &[("program", "bonnie")]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[..3].iter().all(|line| line.len() == 79), "{text}");
        let heads: Vec<&str> = lines[2].split_whitespace().collect();
        let numbers: Vec<&str> = lines[3].split_whitespace().collect();
        assert_eq!(heads.len(), numbers.len());
        assert_eq!(
            numbers,
            [
                "ext4", "300", "3072", "25.0", "30720", "25.0", "15360", "25.0", "5120", "25.0",
                "615631", "25.0", "163.8", "25.0"
            ]
        );
    }

    /// Runs a program of bonnie++ with this input; returns `None` and prints a reason if it is not installed.
    fn original(program: &str, args: &[&str], input: &str) -> Option<String> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                eprintln!("skipped: {program}: {error}; it is in the package bonnie++");
                return None;
            }
        };
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {errors}");
        Some(String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn the_original_reader_accepts_the_line_and_shows_its_numbers() {
        let text = form(&trial(&[BIG, SMALL].concat(), &[]));
        let Some(page) = original("/usr/bin/bon_csv2html", &[], &text) else { return };
        let cells: Vec<&str> =
            page.split('<').filter_map(|part| part.split_once('>')).map(|(_, cell)| cell).collect();
        // It shows block rates in MiB/s: 30,720 KiB/s are 30, 15,360 are 15.
        for number in
            ["ext4", "300M", "3072", "30", "15", "5120", "163.8", "8192", "5461", "20480", "4096"]
        {
            assert!(cells.contains(&number), "{number} is not in {cells:?}");
        }
        for longest in ["6205us", "99999us", "100ms", "120s", "3770us"] {
            assert!(cells.contains(&longest), "{longest} is not in {cells:?}");
        }
    }

    #[test]
    fn our_line_has_the_same_empty_fields_as_the_original_line() {
        // The options of the original, and the phases and parameters of our trial.
        type Case<'a> = (&'a [&'a str], Vec<Row<'a>>, &'a [(&'a str, &'a str)]);
        let fast = [vec![BIG[1], BIG[2], BIG[4], BIG[5]], SMALL.to_vec()].concat();
        let cases: [Case<'_>; 3] = [
            (&["-s", "1M", "-f", "-n", "1"], fast, &[]),
            (&["-s", "1M", "-n", "0"], BIG.to_vec(), &[]),
            (&["-s", "0", "-n", "1:-1"], SMALL.to_vec(), &[("files-max", "link")]),
        ];
        for (args, rows, params) in cases {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().to_str().unwrap();
            let start = ["-q", "-r", "0", "-m", "lab", "-d", path];
            // It refuses to run as root without this option.
            let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
            let user: &[&str] = if root { &["-u", "root"] } else { &[] };
            let all: Vec<&str> = start.iter().chain(user).chain(args).copied().collect();
            let Some(original_line) = original("/usr/sbin/bonnie++", &all, "") else { return };
            let our_line = form(&trial(&rows, params));
            let (expected, actual) = (fields(&original_line), fields(&our_line));
            assert_eq!(expected.len(), actual.len());
            for (index, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
                assert_eq!(
                    expected.is_empty(),
                    actual.is_empty(),
                    "field {index}: {expected}, {actual}"
                );
            }
        }
    }
}
