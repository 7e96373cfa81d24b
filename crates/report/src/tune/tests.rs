use super::*;
use crate::{Format, Style};

fn effect(what: &str, alone: f64) -> OptionEffect {
    OptionEffect {
        what: what.into(),
        alone: Some(alone),
        with_winner: Some(alone),
        average: Some(alone),
        is_nothing: alone == 0.0,
        ..OptionEffect::default()
    }
}

/// A result with one file system.
pub fn sample() -> Tuned {
    let settings = Settings {
        words: "journal=fast_commit".into(),
        spec: "ext4 -O fast_commit".into(),
        mkfs: "mkfs.ext4 -O fast_commit DEVICE".into(),
        fstab: "UUID=... MOUNTPOINT ext4 defaults 0 2".into(),
        gives_up: vec!["compatibility: older kernels refuse it".into()],
        ..Settings::default()
    };
    let recommended = OptionEffect { is_recommended: true, ..effect("journal=fast_commit", -0.3) };
    let front = |words: &str, seconds: f64, losses: u64| Candidate {
        words: words.into(),
        seconds,
        losses: Some(losses),
        cuts: 50,
        space: 4096,
        ..Candidate::default()
    };
    let mut result = TunedFilesystem {
        filesystem: "ext4".into(),
        recommended: settings,
        default_seconds: 2.0,
        seconds: 1.4,
        confirmed: Some(Ratio { ratio: 0.7, interval: Some((0.69, 0.71)), n: 5, holds: true }),
        effects: vec![recommended, effect("barrier=off", 0.0)],
        points: vec![PointTime {
            words: "journal=fast_commit".into(),
            seconds: 1.4,
            ..PointTime::default()
        }],
        certificate: Evidence {
            points: 6,
            is_whole: true,
            measured: 4,
            excluded: 1,
            rest: 1,
            ..Evidence::default()
        },
        front: vec![
            front("default", 2.0, 0),
            front("journal=none", 1.0, 3),
            front("commit=30s", 2.5, 1),
        ],
        trials: 12,
        ..TunedFilesystem::default()
    };
    mark_front(&mut result.front);
    Tuned {
        tune: VERSION,
        workload: "maildir".into(),
        least: 0.005,
        filesystems: vec![result],
        ..Tuned::default()
    }
}

fn text(tuned: &Tuned) -> String {
    let text =
        Format::Markdown.write(tuned, Style { color: false, width: 100, full: true }).unwrap();
    // Without the escapes of Markdown.
    text.replace('\\', "")
}

#[test]
fn the_front_has_the_candidates_that_no_other_dominates() {
    let tuned = sample();
    let front: Vec<bool> =
        tuned.filesystems[0].front.iter().map(|candidate| candidate.is_on_front).collect();
    assert_eq!(front, [true, true, false]);
}

#[test]
fn a_result_has_the_recommendation_its_gain_and_the_options_without_effect() {
    let text = text(&sample());
    for part in [
        "journal=fast_commit changes the time of the default by -30 % (95 % interval -31 % to -29 %, n = 5)",
        "mkfs.ext4 -O fast_commit DEVICE",
        "No measurable difference here (below 0.5 %): barrier=off",
        "of 6 possible points: 4 measured, 1 excluded",
        "older kernels refuse it",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn an_unconfirmed_candidate_is_not_recommended() {
    let mut tuned = sample();
    tuned.filesystems[0].unconfirmed = Some("journal=fast_commit".into());
    assert!(
        text(&tuned).contains(
            "keep the defaults. journal=fast_commit won the search, but not on fresh seeds"
        )
    );
}

#[test]
fn phases_that_disagree_are_named_with_the_option_that_decides() {
    let mut tuned = sample();
    let phase = |name: &str, seconds: f64| PhaseChange {
        name: name.into(),
        weight: 1.0,
        default_seconds: 1.0,
        seconds,
    };
    tuned.filesystems[0].phases = vec![phase("deliver", 0.3), phase("read", 1.1)];
    let text = text(&tuned);
    assert!(text.contains("The phases disagree: read +10 %"), "{text}");
    assert!(text.contains("--objective deliver=1,read=1"), "{text}");
}

#[test]
fn a_stored_result_is_read_back_and_a_different_version_is_refused() {
    let tuned = sample();
    let stored = serde_json::to_string(&tuned).unwrap();
    assert_eq!(Tuned::parse(&stored).unwrap().filesystems[0].trials, 12);
    let newer = stored.replace("\"tune\":1", "\"tune\":2");
    assert!(Tuned::parse(&newer).unwrap_err().contains("reads version 1"));
}

#[test]
fn the_page_has_bars_and_the_front_and_needs_nothing_from_the_network() {
    let mut tuned = sample();
    tuned.workload = "</title><script>x</script>".into();
    let page = crate::tune_html(&tuned).unwrap();
    for part in
        ["Effect of each option", "Time against losses", "journal=fast_commit", "Certificate"]
    {
        assert!(page.contains(part), "{part}");
    }
    for forbidden in ["http:", "https:", "<script", "<link", "<img", "@import", "NaN"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert_eq!(page.matches("<svg class=\"chart").count(), 2);
}
