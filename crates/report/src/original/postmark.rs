//! The reports of PostMark, verbose and terse: counts, and times in whole seconds, at least one.
//!
//! PostMark calls time(2) before and after each part [SRC]. Its parts follow each other immediately, so this report
//! concatenates the times until the last call returned, starting at a full second, and omits the gaps between the
//! phases of the trial (verification, syncs) and the phases of the subdirectories, which PostMark does not time.

use fsdyno_record::trial::Phase;
use fsdyno_record::{Nanos, Trial};

/// The report of one trial, by its workload's parameter `report`.
pub fn form(trial: &Trial) -> String {
    let run = Run::of(trial);
    let terse = trial.plan.workload.params.get("report").is_some_and(|report| report == "terse");
    format!(
        "# {}, seed {}, in the form of PostMark v1.51\n{}",
        trial.plan.label,
        trial.seed,
        if terse { run.terse() } else { run.verbose() }
    )
}

/// PostMark's counts and its whole seconds.
struct Run {
    /// Seconds: in total, of creation alone, of the transactions, and of deletion alone.
    total: u64,
    creation: u64,
    mixed: u64,
    deletion: u64,
    transactions: u64,
    created_alone: u64,
    created_mixed: u64,
    read: u64,
    appended: u64,
    deleted_alone: u64,
    deleted_mixed: u64,
    bytes_read: u64,
    bytes_written: u64,
}

impl Run {
    fn of(trial: &Trial) -> Run {
        let phases = &trial.measured.phases;
        let units = |what: &str| {
            phases.iter().filter_map(|phase| phase.books.get(what)).copied().sum::<u64>()
        };
        let returned = |name: &str| {
            let phase = phases.iter().find(|phase: &&Phase| phase.name == name);
            phase.map_or(Nanos(0), |phase| phase.returned_ns)
        };
        let created = returned("create");
        let transacted = created + returned("transactions");
        let deleted = transacted + returned("delete");
        // A time of zero counts as one second [SRC].
        let between =
            |from: Nanos, to: Nanos| (to.0 / 1_000_000_000 - from.0 / 1_000_000_000).max(1);
        Run {
            total: between(Nanos(0), deleted),
            creation: between(Nanos(0), created),
            mixed: between(created, transacted),
            deletion: between(transacted, deleted),
            transactions: units("transactions"),
            created_alone: units("files created alone"),
            created_mixed: units("files created mixed"),
            read: units("files read"),
            appended: units("files appended"),
            deleted_alone: units("files deleted alone"),
            deleted_mixed: units("files deleted mixed"),
            bytes_read: units("read bytes"),
            bytes_written: units("written bytes"),
        }
    }

    /// The verbose report; rates are truncated to whole numbers [SRC].
    fn verbose(&self) -> String {
        let Run { total, creation, mixed, deletion, .. } = *self;
        let files =
            |count: u64, seconds: u64| format!("{count} files ({} per second)", count / seconds);
        let counted = |count: u64, what: &str, seconds: u64| {
            format!("{count} {what} ({} per second)", count / seconds)
        };
        let data = |bytes: u64, what: &str| {
            let rate = scaled(bytes as f32 / total as f32);
            format!("{} {what} ({rate} per second)", scaled(bytes as f32))
        };
        [
            "Time:".to_string(),
            format!("\t{total} seconds total"),
            format!("\t{mixed} seconds of transactions ({} per second)", self.transactions / mixed),
            String::new(),
            "Files:".to_string(),
            format!("\t{}", counted(self.created_alone + self.created_mixed, "created", total)),
            format!("\t\tCreation alone: {}", files(self.created_alone, creation)),
            format!("\t\tMixed with transactions: {}", files(self.created_mixed, mixed)),
            format!("\t{}", counted(self.read, "read", mixed)),
            format!("\t{}", counted(self.appended, "appended", mixed)),
            format!("\t{}", counted(self.deleted_alone + self.deleted_mixed, "deleted", total)),
            format!("\t\tDeletion alone: {}", files(self.deleted_alone, deletion)),
            format!("\t\tMixed with transactions: {}", files(self.deleted_mixed, mixed)),
            String::new(),
            "Data:".to_string(),
            format!("\t{}", data(self.bytes_read, "read")),
            format!("\t{}", data(self.bytes_written, "written")),
        ]
        .map(|line| line + "\n")
        .concat()
    }

    /// The terse report: thirteen fields, two times and eleven rates.
    fn terse(&self) -> String {
        let Run { total, creation, mixed, deletion, .. } = *self;
        let rates = [
            (self.transactions, mixed),
            (self.created_alone + self.created_mixed, total),
            (self.created_alone, creation),
            (self.created_mixed, mixed),
            (self.read, mixed),
            (self.appended, mixed),
            (self.deleted_alone + self.deleted_mixed, total),
            (self.deleted_alone, deletion),
            (self.deleted_mixed, mixed),
            (self.bytes_read, total),
            (self.bytes_written, total),
        ];
        let rates = rates.map(|(count, seconds)| format!(" {:.2}", count as f64 / seconds as f64));
        format!("{total} {mixed}{}\n", rates.concat())
    }
}

/// A number of bytes in the units that PostMark chooses [RUN: from one byte to above a mebibyte; only zero is in
/// bytes].
fn scaled(bytes: f32) -> String {
    if bytes > 1_048_576.0 {
        format!("{:.2} megabytes", bytes / 1_048_576.0)
    } else if bytes > 0.0 {
        format!("{:.2} kilobytes", bytes / 1024.0)
    } else {
        format!("{bytes:.6} bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// The default configuration's counts, with the times of its three parts in milliseconds.
    fn trial(report: &str, create: u64, transactions: u64, delete: u64) -> Trial {
        let mut trial = fixture::single().remove(0);
        trial.plan.workload.name = "postmark".into();
        trial.plan.workload.params = [("report".to_string(), report.to_string())].into();
        let phase = |name: &str, ms: u64, units: &[(&str, u64)]| Phase {
            name: name.into(),
            returned_ns: Nanos(ms * 1_000_000),
            books: units.iter().map(|(what, n)| ((*what).to_string(), *n)).collect(),
            ..Phase::default()
        };
        trial.measured.phases = vec![
            phase("subdirectories", 60_000, &[]),
            phase("create", create, &[("files created alone", 500), ("written bytes", 2_662_068)]),
            phase(
                "transactions",
                transactions,
                &[
                    ("transactions", 500),
                    ("files created mixed", 264),
                    ("files read", 243),
                    ("files appended", 257),
                    ("files deleted mixed", 236),
                    ("read bytes", 1_430_770),
                    ("written bytes", 2_000_000),
                ],
            ),
            phase("delete", delete, &[("files deleted alone", 528)]),
        ];
        trial
    }

    #[test]
    fn a_run_of_less_than_a_second_is_printed_as_by_the_original_program() {
        // Printed by Debian's postmark with its default configuration.
        let printed = "Time:\n\
            \t1 seconds total\n\
            \t1 seconds of transactions (500 per second)\n\
            \n\
            Files:\n\
            \t764 created (764 per second)\n\
            \t\tCreation alone: 500 files (500 per second)\n\
            \t\tMixed with transactions: 264 files (264 per second)\n\
            \t243 read (243 per second)\n\
            \t257 appended (257 per second)\n\
            \t764 deleted (764 per second)\n\
            \t\tDeletion alone: 528 files (528 per second)\n\
            \t\tMixed with transactions: 236 files (236 per second)\n\
            \n\
            Data:\n\
            \t1.36 megabytes read (1.36 megabytes per second)\n\
            \t4.45 megabytes written (4.45 megabytes per second)\n";
        assert_eq!(
            form(&trial("verbose", 20, 30, 10)),
            format!("# ext4, seed 1, in the form of PostMark v1.51\n{printed}")
        );
    }

    #[test]
    fn counts_are_divided_by_whole_seconds_and_rates_truncated() {
        let text = form(&trial("verbose", 2600, 3500, 900));
        for line in [
            "\t7 seconds total\n",
            // From 2.6 to 6.1 seconds: the clock ticks four times.
            "\t4 seconds of transactions (125 per second)\n",
            "\t764 created (109 per second)\n",
            "\t\tCreation alone: 500 files (250 per second)\n",
            "\t\tMixed with transactions: 264 files (66 per second)\n",
            "\t243 read (60 per second)\n",
            "\t\tDeletion alone: 528 files (528 per second)\n",
            "\t1.36 megabytes read (199.61 kilobytes per second)\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[test]
    fn the_terse_report_has_thirteen_fields() {
        let text = form(&trial("terse", 2600, 3500, 900));
        let fields: Vec<&str> = text.lines().nth(1).unwrap().split(' ').collect();
        assert_eq!(
            fields,
            [
                "7",
                "4",
                "125.00",
                "109.14",
                "250.00",
                "66.00",
                "60.75",
                "64.25",
                "109.14",
                "528.00",
                "59.00",
                "204395.71",
                "666009.71"
            ]
        );
    }

    #[test]
    fn bytes_are_scaled_where_the_real_program_scales_them() {
        let scales = [0.0, 1.0, 1023.0, 1_048_576.0, 1_048_577.0].map(scaled);
        assert_eq!(
            scales,
            [
                "0.000000 bytes",
                "0.00 kilobytes",
                "1.00 kilobytes",
                "1024.00 kilobytes",
                "1.00 megabytes"
            ]
        );
    }
}
