//! Tests that unsafe rows are marked in every format, ranked behind safe ones, and never the base.

use crate::validity::Flag;
use fsdyno_record::{Nanos, Trial};

use crate::answer::sentences;
use crate::table::{Format, SpecialFormat, Style};
use crate::trials::table;
use crate::{CrashReport, compare, crash_fixture, fixture, html, view};

/// ext4 with barriers and without, which is five times as fast, and xfs; the unsafe one comes first.
fn trials() -> Vec<Trial> {
    let mut trials = fixture::trials();
    for trial in &mut trials {
        let plan = &mut trial.plan;
        if plan.label == "ext4" {
            plan.label = "off".into();
            plan.filesystem.as_mut().unwrap().mount_options = "noatime,barrier=0".into();
            for phase in &mut trial.measured.phases {
                let ns = phase.durable_ns.unwrap().0;
                (phase.returned_ns, phase.durable_ns) = (Nanos(ns / 5), Some(Nanos(ns / 5)));
            }
        } else if plan.label == "far" {
            plan.label = "ext4".into();
        }
    }
    trials
}

#[test]
fn unsafe_rows_are_last_and_never_the_base() {
    for baseline in [None, Some("ext4")] {
        for section in view::sections(&trials(), baseline) {
            let names: Vec<&str> = section.rows.iter().map(|row| row.name.as_str()).collect();
            assert_eq!(names, ["xfs", "ext4", "off"]);
            let unsafe_row = &section.rows[2];
            assert!(!unsafe_row.best && unsafe_row.flags.contains(&Flag::Unsafe), "{unsafe_row:?}");
            assert!(unsafe_row.ratio.unwrap().value < 0.5 && unsafe_row.base != Some(2));
            assert!(section.rows.iter().all(|row| row.base != Some(2)));
        }
    }
}

#[test]
fn unsafe_rows_are_in_no_headline_but_named_with_their_reason() {
    for baseline in [None, Some("ext4")] {
        let text = sentences(&view::sections(&trials(), baseline), baseline);
        let (headline, reason) = text.split_at(text.len() - 1);
        assert!(headline.iter().all(|line| !line.contains("off")), "{text:?}");
        assert!(reason[0].starts_with("UNSAFE, "), "{text:?}");
        assert!(reason[0].contains("off (barrier=0: no flush is sent"), "{text:?}");
    }
}

#[test]
fn a_named_baseline_may_be_unsafe_and_is_marked() {
    let text = sentences(&view::sections(&trials(), Some("off")), Some("off")).join(" ");
    assert!(text.contains("Against off, xfs is slower in dirops create (UNSAFE"), "{text}");
}

#[test]
fn if_every_row_is_unsafe_they_are_ranked() {
    let mut trials = trials();
    for trial in &mut trials {
        trial.plan.filesystem.as_mut().unwrap().mount_options = "nobarrier".into();
    }
    let sections = view::sections(&trials, None);
    assert!(sections[0].rows[0].best && sections[0].rows[0].name == "off");
    let text = sentences(&sections, None).join(" ");
    assert!(text.contains("off is fastest in dirops create (UNSAFE"), "{text}");
}

#[test]
fn every_format_marks_unsafe_rows() {
    let trials = trials();
    let formats = [SpecialFormat::Statistics, SpecialFormat::StatisticsCsv].map(Format::Special);
    for format in Format::ALL.iter().map(|(_, _, format)| *format).chain(formats) {
        let text = table(&trials, None, format, Style::default()).unwrap();
        // A mail is wrapped.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("barrier=0: no flush is sent"), "{format:?}: {text}");
    }
    let statistics = Format::Special(SpecialFormat::Statistics);
    for format in [Format::Text, Format::Mail, Format::Markdown, Format::Html, statistics] {
        assert!(table(&trials, None, format, Style::default()).unwrap().contains("UNSAFE"));
    }
    let page = html(&trials, &[], None).unwrap();
    assert!(page.contains("UNSAFE") && page.contains("barrier=0: no flush is sent"));
    assert!(page.contains("UNSAFE off"), "charts have no column of flags");
}

#[test]
fn every_format_of_a_comparison_marks_unsafe_rows() {
    let (metric, fail_on) = (compare::Metric::Durable, compare::FailOn::Slower);
    let options = compare::CompareOptions { metric, threshold: 0.03, fail_on };
    let compared = compare::compare(&trials(), &trials(), options).unwrap();
    let all = Format::ALL.iter().map(|(_, _, format)| *format);
    for format in all.chain([Format::Special(SpecialFormat::Junit)]) {
        let text = format.write(&compared, Style::default()).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("UNSAFE (barrier=0: no flush is sent"), "{format:?}: {text}");
    }
}

#[test]
fn power_cuts_mark_unsafe_rows_even_without_a_loss() {
    let mut rows = crash_fixture::crashed();
    rows.reverse();
    let filesystem = rows[0].plan.filesystem.as_mut().unwrap();
    (filesystem.kind, filesystem.mount_options) = ("ext4".into(), "barrier=0".into());
    rows[0].disk = fsdyno_crash::DiskFault::Honest;
    rows[0].outcomes = rows[1].outcomes.clone();
    for (_, _, format) in Format::ALL.iter().filter(|(name, ..)| *name != "json") {
        let text = format.write(&CrashReport(&rows), Style::default()).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("barrier=0: no flush is sent"), "{text}");
        let (safe, other) = (text.find("ext4").unwrap(), text.find("off").unwrap());
        assert!(safe < other, "{text}");
    }
    let text =
        Format::Text.write(&CrashReport(&rows), Style { width: 300, ..Style::default() }).unwrap();
    assert!(text.contains("\nUNSAFE off "), "{text}");
    assert!(text.contains("lost in 3 cuts of ext4:"), "{text}");
    assert!(text.contains("nothing acknowledged does not make it safe"), "{text}");
    let json = Format::Json.write(&CrashReport(&rows), Style::default()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json[0]["unsafe"].is_array());
    let disk = &mut rows[0].plan.medium.modelled_mut().unwrap().disk;
    disk.spec = serde_json::json!({ "model": { "power_loss_protection": true } }).into();
    let text = Format::Text.write(&CrashReport(&rows), Style::default()).unwrap();
    assert!(text.contains("has power-loss protection"), "{text}");
}
