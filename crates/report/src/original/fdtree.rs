//! The report of fdtree: whole seconds and whole rates, each followed by the exact value in square brackets.
//!
//! The script reads bash's SECONDS before and after each phase and divides whole numbers; a phase of
//! less than a second has rate 0. Its phases follow each other immediately, so this report concatenates the times
//! until the last call returned, and omits the gaps between the phases of the trial (verification, syncs) and the
//! lines of `date`: the lab has no date.

use std::fmt::Write;

use fsdyno_record::trial::Phase;
use fsdyno_record::{Nanos, Trial};

/// A rate: the counted unit, and the label of its line.
type Rate = (&'static str, &'static str);

/// Phase, its heading, its rates.
const PHASES: [(&str, &str, &[Rate]); 4] = [
    ("directory-create", "DIRECTORY CREATE", &[("directories", "Directory creates per second")]),
    (
        "file-create",
        "FILE CREATE",
        &[("files", "File creates per second"), ("KiB", "KiB per second")],
    ),
    ("file-remove", "FILE REMOVE", &[("files", "File removals per second")]),
    ("directory-remove", "DIRECTORY REMOVE", &[("directories", "Directory removals per second")]),
];

/// The report of one trial.
pub fn form(trial: &Trial) -> String {
    let mut out = format!(
        "# {}, seed {}, in the form of fdtree-1.0.2; measured values in brackets\n",
        trial.plan.label, trial.seed
    );
    header(&mut out, trial);
    let mut clock = Nanos(0);
    for (name, heading, rates) in PHASES {
        let Some(phase) = trial.measured.phases.iter().find(|phase| phase.name == name) else {
            continue;
        };
        let (start, end) = (whole(clock), whole(clock + phase.returned_ns));
        clock += phase.returned_ns;
        let exact = phase.returned_ns.seconds();
        line(
            &mut out,
            format_args!(
                "{heading} TIME IN, OUT, TOTAL = {start}, {end}, {} [{exact:.6} s]",
                end - start
            ),
        );
        for (what, rate) in rates {
            let count = units(phase, what);
            let truncated = count.checked_div(end - start).unwrap_or(0);
            let exactly = if exact > 0.0 {
                format!("{:.3}", count as f64 / exact)
            } else {
                "no time".to_string()
            };
            line(&mut out, format_args!("\t{rate} =  {truncated} [{exactly}]"));
        }
    }
    out
}

/// Prints the parameters of the tree.
fn header(out: &mut String, trial: &Trial) {
    let total = |what: &str| {
        let phases = trial.measured.phases.iter();
        phases.map(|phase| units(phase, what)).max().unwrap_or(0)
    };
    let (directories, files, kib) = (total("directories"), total("files"), total("KiB"));
    line(out, format_args!("fdtree-1.0.2: starting at ./LEVEL0.fsdyno.1/"));
    if let Some((levels, dirs)) =
        shape(trial).filter(|shape| directory_count(*shape) == Some(directories))
    {
        line(
            out,
            format_args!(
                "\tcreating/deleting {levels} directory levels with {dirs} directories at each level"
            ),
        );
    }
    line(out, format_args!("\tfor a total of {directories} directories"));
    line(
        out,
        format_args!(
            "\twith {} files of size {} KiB per directory",
            files.checked_div(directories).unwrap_or(0),
            kib.checked_div(files).unwrap_or(0)
        ),
    );
    line(out, format_args!("\tfor a total of {files} files and {kib} KiB"));
}

/// For the program's defaults and the published sets, the levels and the directories per directory, as in the
/// workload. The resulting number of directories is compared with the count.
const SETS: [(&str, (u64, u64)); 5] = [
    ("none", (4, 10)),
    ("small-shallow", (3, 20)),
    ("small-deep", (10, 3)),
    ("medium-shallow", (2, 17)),
    ("medium-deep", (10, 2)),
];

/// Levels and directories per directory.
fn shape(trial: &Trial) -> Option<(u64, u64)> {
    let params = &trial.plan.workload.params;
    let set = params.get("set").map_or("none", String::as_str);
    let (levels, dirs) = SETS.iter().find(|(name, _)| *name == set)?.1;
    let number = |key: &str| params.get(key)?.parse().ok();
    Some((number("levels").unwrap_or(levels), number("dirs").unwrap_or(dirs)))
}

/// The number of directories of a tree, including its root.
fn directory_count((levels, dirs): (u64, u64)) -> Option<u64> {
    (0..levels).try_fold(1u64, |below, _| below.checked_mul(dirs)?.checked_add(1))
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into a String never fails.
    let _ = writeln!(out, "{text}");
}

fn units(phase: &Phase, what: &str) -> u64 {
    phase.books.get(what).copied().unwrap_or(0)
}

/// Whole seconds, as in SECONDS.
fn whole(time: Nanos) -> u64 {
    time.0 / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// A work unit and its count.
    type Count = (&'static str, u64);

    /// A trial whose phases took these milliseconds.
    fn trial(phases: &[(&str, u64, &[Count])]) -> Trial {
        let mut trial = fixture::single().remove(0);
        trial.plan.workload.name = "fdtree".into();
        let phase = |(name, ms, units): &(&str, u64, &[Count])| Phase {
            name: (*name).into(),
            returned_ns: Nanos(ms * 1_000_000),
            books: units.iter().map(|(what, n)| ((*what).to_string(), *n)).collect(),
            ..Phase::default()
        };
        trial.measured.phases = phases.iter().map(phase).collect();
        trial
    }

    const DIRECTORIES: &[Count] = &[("directories", 307)];

    /// Sets parameters of the workload.
    fn with_params(mut trial: Trial, params: &[(&str, &str)]) -> Trial {
        let params = params.iter().map(|(key, value)| ((*key).to_string(), (*value).to_string()));
        trial.plan.workload.params = params.collect();
        trial
    }

    #[test]
    fn a_run_of_the_medium_shallow_set_is_printed_as_by_the_script() {
        let trial = trial(&[
            ("directory-create", 400, DIRECTORIES),
            ("file-create", 154_300, &[("files", 3_070), ("KiB", 12_280_000)]),
            ("file-remove", 11_500, &[("files", 3_070)]),
            ("directory-remove", 250, DIRECTORIES),
        ]);
        assert_eq!(
            form(&with_params(
                trial,
                &[("set", "medium-shallow"), ("levels", "auto"), ("dirs", "auto")]
            )),
            "# ext4, seed 1, in the form of fdtree-1.0.2; measured values in brackets\n\
             fdtree-1.0.2: starting at ./LEVEL0.fsdyno.1/\n\
             \tcreating/deleting 2 directory levels with 17 directories at each level\n\
             \tfor a total of 307 directories\n\
             \twith 10 files of size 4000 KiB per directory\n\
             \tfor a total of 3070 files and 12280000 KiB\n\
             DIRECTORY CREATE TIME IN, OUT, TOTAL = 0, 0, 0 [0.400000 s]\n\
             \tDirectory creates per second =  0 [767.500]\n\
             FILE CREATE TIME IN, OUT, TOTAL = 0, 154, 154 [154.300000 s]\n\
             \tFile creates per second =  19 [19.896]\n\
             \tKiB per second =  79740 [79585.224]\n\
             FILE REMOVE TIME IN, OUT, TOTAL = 154, 166, 12 [11.500000 s]\n\
             \tFile removals per second =  255 [266.957]\n\
             DIRECTORY REMOVE TIME IN, OUT, TOTAL = 166, 166, 0 [0.250000 s]\n\
             \tDirectory removals per second =  0 [1228.000]\n"
        );
    }

    #[test]
    fn a_run_that_only_creates_has_two_phases() {
        let text = form(&trial(&[
            ("directory-create", 0, DIRECTORIES),
            ("file-create", 1000, &[("files", 3_070), ("KiB", 12_280_000)]),
        ]));
        assert!(text.contains("Directory creates per second =  0 [no time]"), "{text}");
        assert!(text.ends_with("KiB per second =  12280000 [12280000.000]\n"), "{text}");
    }

    #[test]
    fn levels_that_do_not_match_the_directories_are_not_printed() {
        let printed = |levels| {
            let trial = trial(&[("directory-create", 0, DIRECTORIES)]);
            form(&with_params(trial, &[("levels", levels), ("dirs", "17")]))
                .contains("directory levels")
        };
        assert!(printed("2") && !printed("3") && !printed("64"));
    }

    #[test]
    fn the_list_of_formats_includes_fdtree() {
        let trials = [trial(&[("directory-create", 1000, DIRECTORIES)])];
        let text = super::super::original(&trials).unwrap();
        assert!(text.contains("Directory creates per second =  307 [307.000]"), "{text}");
    }
}
