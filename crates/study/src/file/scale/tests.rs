//! Tests of the quantities that a scale divides, of scales that are refused, and of stored studies.

use super::*;

const STUDY: &str = r#"
title = "t"
question = "q"
source = "s"
[[run]]
name = "a"
workload = "dirops"
set = { curve = "1000..4000x2" }
scales = ["curve"]
disk = "hdd-7200"
cacheable = "640M"
size = "10G"
fs = { small = "ext3 -J size=64", plain = "ext4" }
[[claim]]
id = "C1"
text = "t"
[claim.check]
value = { row = "small", phase = "create", figure = "returned", at = { files = 2000 } }
more_than = 1
"#;

fn scaled(text: &str, scale: &str) -> Result<StudyFile, String> {
    let study = StudyFile::parse("s.toml", text).unwrap();
    study.scaled(scale.parse().unwrap(), &[]).map_err(|error| error.to_string())
}

fn args(study: &StudyFile) -> Vec<String> {
    let conditions = study.runs[0].conditions(Variant::AsItStands).unwrap();
    conditions.arguments().into_iter().map(|arg| arg.text).collect()
}

#[test]
fn a_scale_divides_work_memory_disk_journal_and_the_points_of_cells() {
    let study = scaled(STUDY, "1/10").unwrap();
    assert_eq!(
        args(&study),
        [
            "--fs=small=ext3 -J size=6",
            "--fs=plain=ext4",
            "--set=curve=100,200,400",
            "--disk=hdd-7200",
            "--cacheable=65536K",
            "--ram=448M",
            "--size=1024M"
        ]
    );
    let Test::Check(check) = &study.claims[0].test else { panic!() };
    assert_eq!(check.cells()[0].at["files"], "200");
    let full = scaled(STUDY, "1").unwrap();
    assert!(args(&full).contains(&"--set=curve=1000..4000x2".to_string()));
}

#[test]
fn numbers_with_and_without_suffixes_are_divided_alike() {
    let study = scaled(&STUDY.replace("1000..4000x2", "1k..4kx2"), "1/10").unwrap();
    assert!(args(&study).contains(&"--set=curve=100,200,400".to_string()));
    let text = STUDY
        .replace("curve = \"1000..4000x2\"", "files = \"20k\"")
        .replace("\"curve\"", "\"files\"");
    let tail = text.find("[[claim]]").unwrap();
    let study = scaled(&text[..tail], "1/10").unwrap();
    assert!(args(&study).contains(&"--set=files=2000".to_string()), "{:?}", args(&study));
}

#[test]
fn defaults_are_divided_too() {
    let text = STUDY
        .replace("cacheable = \"640M\"\n", "")
        .replace("size = \"10G\"\n", "")
        .replace("-J size=64", "-J device={journal}");
    let args = args(&scaled(&text, "1/8").unwrap());
    for arg in ["--cacheable=131072K", "--size=4096M", "--journal-size=32M"] {
        assert!(args.iter().any(|known| known == arg), "{arg} in {args:?}");
    }
}

#[test]
fn the_guest_keeps_the_memory_that_does_not_cache_files() {
    let text = STUDY.replace("cacheable = \"640M\"", "cacheable = \"640M\"\nram = \"1G\"");
    let args = args(&scaled(&text, "1/10").unwrap());
    for arg in ["--cacheable=65536K", "--ram=448M"] {
        assert!(args.iter().any(|known| known == arg), "{arg} in {args:?}");
    }
    let args = self::args(&scaled(&text, "1/7").unwrap());
    assert!(args.iter().any(|arg| arg == "--ram=476M"), "whole mebibytes: {args:?}");
    for (machine, ram) in [("", "--ram=448M"), ("\nmachine = \"server-2026\"", "--ram=1472M")] {
        let text = STUDY.replace("cacheable = \"640M\"", &format!("cacheable = \"640M\"{machine}"));
        let args = self::args(&scaled(&text, "1/10").unwrap());
        assert!(args.iter().any(|arg| arg == ram), "the default RAM is reduced, too: {args:?}");
    }
}

#[test]
fn a_quantity_that_becomes_too_small_is_refused_with_the_smallest_valid_scale() {
    let error = scaled(STUDY, "1/20").unwrap_err();
    assert_eq!(
        error,
        "s.toml:13:8: at scale 1/20 the journal of 'small' of run 'a', 64 MiB, becomes too small; \
         the smallest scale that works is 1/16"
    );
    assert!(scaled(STUDY, "1/16").is_ok());
    let error = scaled(&STUDY.replace("64\"", "4\""), "1/2").unwrap_err();
    assert!(error.ends_with("it runs at full scale only"), "{error}");
    let error = scaled(&STUDY.replace("[\"curve\"]", "[\"prefix\"]"), "1/2").unwrap_err();
    assert!(error.contains("parameter prefix=") && error.contains("cannot be divided"));
}

#[test]
fn only_the_selected_runs_limit_the_scale() {
    let study = StudyFile::parse("s.toml", STUDY).unwrap();
    let scaled = |only: &str| study.scaled("1/20".parse().unwrap(), &[only.to_string()]);
    assert!(scaled("a").unwrap_err().to_string().contains("'small' of run 'a'"));
    assert!(scaled("b").is_ok());
}

#[test]
fn the_logs_of_xfs_reiserfs_and_jfs_are_divided_to_the_minimum_of_their_tools() {
    let study = |spec: &str| STUDY.replace("ext3 -J size=64", spec);
    let disk = "xfs -l logdev={journal}";
    for (spec, scale, expected) in [
        ("xfs -l size=256m", "1/4", "--fs=small=xfs -l size=64m"),
        ("reiserfs -s 8193", "1/10", "--fs=small=reiserfs -s 819"),
        ("jfs -s 32", "1/16", "--fs=small=jfs -s 2"),
        (disk, "1/4", "--journal-size=64M"),
        ("reiserfs -j {journal}", "1/7", "--journal-size=36M"),
    ] {
        let args = args(&scaled(&study(spec), scale).unwrap());
        assert!(args.iter().any(|known| known == expected), "{expected} in {args:?}");
    }
    for (spec, scale, largest) in [
        ("xfs -l size=256m", "1/5", "1/4"),
        ("reiserfs -s 8193", "1/16", "1/15"),
        ("jfs -s 4", "1/5", "1/4"),
        (disk, "1/5", "1/4"),
        ("reiserfs -j {journal}", "1/8", "1/7"),
    ] {
        let error = scaled(&study(spec), scale).unwrap_err();
        assert!(
            error.contains("journal") && error.ends_with(&format!("works is {largest}")),
            "{error}"
        );
    }
    // The settings of a period let mkfs.xfs create smaller logs.
    let historical = study(disk).replace("size = \"10G\"", "size = \"10G\"\nperiod = \"2004\"");
    assert!(scaled(&historical, "1/10").is_ok());
    let blocks = scaled(&study("xfs -l size=65536b"), "1/2").unwrap_err();
    assert!(blocks.starts_with("s.toml:13:") && blocks.contains("bytes"), "{blocks}");
}

#[test]
fn a_fractional_parameter_is_refused_with_the_nearest_valid_scales() {
    let text = STUDY
        .replace("curve = \"1000..4000x2\"", "files = 15")
        .replace(", at = { files = 2000 }", "");
    let text = text.replace("[\"curve\"]", "[\"files\"]");
    let error = scaled(&text, "1/4").unwrap_err();
    let expected =
        "at scale 1/4 parameter files=15 of run 'a' is not a whole number; 1/3 and 1/5 work";
    assert!(error.ends_with(expected), "{error}");
    assert!(args(&scaled(&text, "1/5").unwrap()).contains(&"--set=files=3".to_string()));
    // The next valid scale is suggested, however distant it is.
    let error = scaled(&text.replace("= 15", "= 11"), "1/2").unwrap_err();
    assert!(error.ends_with("not a whole number; 1/11 works"), "{error}");
}

#[test]
fn a_stored_study_is_read_at_a_scale_that_is_refused_now() {
    let stored = |text: &str, scale: &str| {
        assert!(scaled(text, scale).is_err(), "{text}");
        let text = with_scale(text, scale.parse().unwrap());
        StudyFile::parse("s.toml", &text).unwrap().as_run()
    };
    // A journal that is too small, one in units that are not divided, a row named by its spec.
    let study = stored(STUDY, "1/20");
    let Test::Check(check) = &study.claims[0].test else { panic!() };
    assert_eq!(check.cells()[0].at["files"], "100");
    assert!(args(&study).contains(&"--set=curve=50,100,200".to_string()));
    let blocks = STUDY.replace("ext3 -J size=64", "xfs -l size=65536b");
    assert!(args(&stored(&blocks, "1/2"))[0].ends_with("size=65536b"));
    let unnamed = STUDY.replace("{ small =", "{ 'ext3 -J size=64' =");
    let unnamed = unnamed.replace("row = \"small\"", "row = \"ext3 -J size=64\"");
    assert_eq!(stored(&unnamed, "1/2").runs[0].rows(Variant::AsItStands).unwrap().len(), 2);
    // A number that rounding moves by more than 2 %.
    let four = STUDY.replace("1000..4000x2", "14,28").replace("= 2000", "= 28");
    assert!(args(&stored(&four, "1/3")).contains(&"--set=curve=5,9".to_string()));
}

#[test]
fn a_scale_is_one_over_a_whole_number() {
    let read = |text: &str| text.parse::<Scale>().ok().map(Scale::divisor);
    assert_eq!(["1", "1/10", "1/1"].map(read), [Some(1), Some(10), Some(1)]);
    assert_eq!(["0.1", "1/0", "2/3", "10", ""].map(read), [None; 5]);
    assert_eq!(Scale::default().to_string(), "1");
}

#[test]
fn a_stored_file_has_the_scale_once() {
    let scale = |text: &str| text.parse::<Scale>().unwrap();
    let text = "#:schema x\ntitle = \"t\"\nabout = \"\"\"\nscale = 2 is no key\n\"\"\"\n[[run]]\nscales = []\n";
    let tenth = with_scale(text, scale("1/10"));
    let (schema, rest) = text.split_once('\n').unwrap();
    assert_eq!(tenth, format!("{schema}\nscale = \"1/10\"\n{rest}"));
    assert_eq!(with_scale(&tenth, scale("1/10")), tenth);
    assert_eq!(with_scale(&tenth, scale("1")), text);
}
