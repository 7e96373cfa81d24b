//! The search for options: spaces, bad input, and a search on a device of this host.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use crate::common::{can_mount, code, records, run, stderr, stdout};
use serde_json::Value;

#[test]
fn every_space_is_shown_and_its_file_can_be_used() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["ext4", "xfs", "btrfs", "f2fs"] {
        let shown = stdout(&run(folder.path(), &format!("show space {name} --format json")));
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let file = shown["file"].as_str().unwrap();
        std::fs::write(folder.path().join("own.toml"), file).unwrap();
        let args = "tune dirops --set files=100 --space own.toml --dry-run";
        let output = run(folder.path(), args);
        let printed = stdout(&output);
        assert!(printed.starts_with(&format!("{name}: ")), "{printed}{}", stderr(&output));
        assert!(printed.contains("the smallest search takes"), "{printed}");
        let text = stdout(&run(folder.path(), &format!("show space {name}")));
        assert!(text.contains(file), "{text}");
    }
}

#[test]
fn a_safe_search_names_the_values_that_it_does_not_try_and_an_unsafe_one_tries_them() {
    let folder = tempfile::tempdir().unwrap();
    let dry = |args: &str| {
        stdout(&run(
            folder.path(),
            &format!("tune dirops --set files=100 --fs ext4 {args} --dry-run"),
        ))
    };
    let safe_search = dry("");
    assert!(
        safe_search.contains("not tried: barrier=off: it gives up durability"),
        "{safe_search}"
    );
    let unsafe_search = dry("--unsafe");
    assert!(
        unsafe_search.contains("barrier: on, off") && !unsafe_search.contains("not tried"),
        "{unsafe_search}"
    );
    let restricted = dry("--only journal,atime --exclude atime=lazytime");
    assert!(restricted.contains("ext4: 2 options, 4 combinations"), "{restricted}");
    assert!(
        restricted.contains("not tried: atime=lazytime: excluded by --exclude"),
        "{restricted}"
    );
}

/// Returns an upper bound on how many times as long a computation takes now as on an idle host: the mean load of the
/// last minute, with one more process, divided by the number of processors.
fn max_slowdown() -> f64 {
    let loads = std::fs::read_to_string("/proc/loadavg").unwrap();
    let minute: f64 = loads.split(' ').next().unwrap().parse().unwrap();
    let processors = std::thread::available_parallelism().unwrap().get() as f64;
    ((minute + 1.0) / processors).max(1.0)
}

#[test]
fn a_dry_run_prints_the_budget_and_the_trials_that_it_allows() {
    let folder = tempfile::tempdir().unwrap();
    let args = "tune dirops --set files=100 --fs ext4,xfs --budget 30m --dry-run";
    let text = stdout(&run(folder.path(), args));
    assert_eq!(
        text.matches("  time: 15 min; the time of a trial is not known").count(),
        2,
        "{text}"
    );
    assert!(text.contains("Not in the budget: 40 power cuts of the default"), "{text}");
    // Trials of this kind took 2 s on an idle machine. How long they take now depends on its load.
    let cache = folder.path().join("cache/fsdyno");
    std::fs::create_dir_all(&cache).unwrap();
    let speeds = r#"{"lab 1 Snapshot/dirops": {"fixed": 2.0, "per_op": 0.0, "trials": 3}}"#;
    std::fs::write(cache.join("speed.json"), speeds).unwrap();
    let before = max_slowdown();
    let text = stdout(&run(folder.path(), args));
    let slowdown = before.max(max_slowdown());
    let (_, shown) =
        text.split_once("time: a trial takes about ").unwrap_or_else(|| panic!("{text}"));
    let number = |after: &str| {
        let (_, rest) = shown.split_once(after).unwrap_or_else(|| panic!("{text}"));
        rest.split(' ').next().and_then(|word| word.parse::<u64>().ok()).unwrap()
    };
    let least = (440.0 / slowdown) as u64;
    assert!((least..=450).contains(&number(": about ")), "{text}: a factor of at most {slowdown}");
    assert!(shown.contains(" trials in 15 min; the smallest search takes "), "{text}");
}

#[test]
fn the_work_is_reduced_to_fit_a_budget_of_time_unless_the_user_sets_it() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache/fsdyno");
    std::fs::create_dir_all(&cache).unwrap();
    // A trial with the default work takes over 10 minutes, most of which depends on the work.
    let speeds = r#"{"lab 1 Snapshot/maildir": {"fixed": 2.0, "per_op": 0.005, "trials": 3}}"#;
    std::fs::write(cache.join("speed.json"), speeds).unwrap();
    let reduction = |args: &str| {
        let output = run(folder.path(), &format!("tune maildir --fs ext4 --dry-run {args}"));
        assert_eq!(code(&output), 0, "{args}: {}", stderr(&output));
        let text = stderr(&output);
        let (_, value) = text.split_once("to fit the budget, trials have ops=")?;
        assert!(value.contains("instead of 10000; to search with the full work"), "{text}");
        value.split(' ').next()?.parse::<u64>().ok()
    };
    let short = reduction("--budget 30m").unwrap();
    let long = reduction("--budget 3h").unwrap();
    assert!((100..long).contains(&short) && long < 10_000, "{short} {long}");
    for args in ["--budget 300h", "--budget 200trials", "--budget 30m --set ops=10000"] {
        assert_eq!(reduction(args), None, "{args}");
    }
    let one_option = reduction("--budget 30m --only journal").unwrap_or(10_000);
    assert!(one_option > short, "a smaller search needs a smaller reduction: {one_option}");
}

#[test]
fn bad_input_is_refused_before_any_work_with_the_accepted_input() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("empty.toml"), "filesystem = \"ext4\"\n").unwrap();
    std::fs::write(folder.path().join("xfs.toml"), fsdyno_tune::space::text("xfs").unwrap())
        .unwrap();
    for (args, expected) in [
        ("dirops --fs ext5", "did you mean 'ext4'?"),
        ("dirops --fs vfat", "--space FILE"),
        ("dirops --fs ext4 --fs ext4", "twice"),
        ("dirops --fs ext4 --only jurnal", "did you mean 'journal'?"),
        ("dirops --fs ext4 --exclude journal=non", "did you mean 'none'?"),
        ("dirops --fs ext4 --fix journal", "--fix journal=VALUE"),
        ("dirops --fs ext4 --only barrier", "no option of ext4 remains to be tried"),
        ("dirops --fs ext4 --objective delte=1", "did you mean 'delete'?"),
        ("dirops --fs ext4 --objective delete=-1", "a positive number"),
        ("dirops --fs ext4 --budget 5parsecs", "such as 30m"),
        ("dirops --fs ext4 --budget 3trials", "too small for one decision"),
        ("dirops --fs ext4 --space empty.toml", "no options"),
        ("dirops --fs ext4 --space absent.toml", "absent.toml"),
        ("dirops --fs ext4 --space xfs.toml", "give --fs xfs"),
        ("dirops --fs ext4 --also postmrk", "did you mean 'postmark'?"),
        ("dirops --fs ext4 --machine classic --machine server-2026", "one machine"),
        ("dirops --fs ext4 --on .", "leave --fs out"),
        ("diropes --fs ext4", "did you mean 'dirops'?"),
    ] {
        let output = run(folder.path(), &format!("tune {args} --out r"));
        let printed = stderr(&output);
        assert_eq!(code(&output), 2, "{args}: {printed}");
        assert!(printed.contains(expected), "{args}: {printed}");
        assert!(!folder.path().join("r").exists(), "{args}");
    }
}

#[test]
fn a_search_on_a_device_of_this_host_stores_its_trials_resumes_and_is_reported() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let args = "tune dirops --set files=50 --fs ext4 --on ram:64M --only delalloc --budget 16trials --confirm 2 \
                 --also dirops --out r --format json";
    let output = run(folder.path(), args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let tuned: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let ext4 = &tuned["filesystems"][0];
    assert_eq!(ext4["filesystem"], "ext4");
    assert_eq!(ext4["effects"][0]["what"], "delalloc=off");
    assert!(ext4["recommended"]["mkfs"].as_str().unwrap().starts_with("mkfs.ext4"));
    let stored = folder.path().join("r");
    let before = records(&stored).len();
    assert!(before >= 4, "{before}");
    assert!(
        std::fs::read_to_string(stored.join("report.html")).unwrap().contains("Options for dirops")
    );
    // The same command runs no trial again.
    let again = run(folder.path(), args);
    assert_eq!(code(&again), 0, "{}", stderr(&again));
    assert_eq!(records(&stored).len(), before);
    let reported = run(folder.path(), "report r --format markdown");
    assert!(stdout(&reported).contains("Options for dirops"), "{}", stdout(&reported));
}
