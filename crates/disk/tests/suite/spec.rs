//! Tests disk profiles, valid and invalid: an invalid parameter is refused with its name, value and range.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers may panic")]

use fsdyno_disk::{DiskSpec, catalog};
use proptest::prelude::*;

fn hdd() -> &'static str {
    catalog::text("hdd-7200").unwrap()
}

/// The error of hdd-7200 with `from` replaced by `to`.
fn error_of(from: &str, to: &str) -> String {
    assert!(hdd().contains(from), "the file has no '{from}'");
    DiskSpec::from_toml("my.toml", &hdd().replace(from, to)).unwrap_err().to_string()
}

#[test]
fn an_impossible_parameter_is_named_with_its_value_and_its_range() {
    assert_eq!(
        error_of("rpm = 7200", "rpm = 0"),
        "invalid disk profile my.toml: model.rpm is 0, but must be 600 to 60000"
    );
    for (from, to, part) in [
        ("capacity = 1000204886016", "capacity = 1000", "capacity is 1000, but must be 1048576 to"),
        ("depth = 32", "depth = 0", "queue.depth is 0"),
        ("inner_rate_kb = 102000", "inner_rate_kb = 300000", "must be 100 to 210000"),
        ("average_us = 8500", "average_us = 900", "model.seek_read.average_us is 900"),
        ("full_stroke_us = 17000", "full_stroke_us = 8600", "must be 11228 to 23500"),
        ("age_limit_us = 1000000", "age_limit_us = 100000", "model.age_limit_us is 100000"),
        ("zones = 24", "zones = 0", "model.zones is 0"),
        (
            "write_extents = 32",
            "write_extents = 5000",
            "model.write_extents is 5000, but must be 0 to 4096",
        ),
        (
            "rpm = 7200",
            "settle_us = 200000\nrpm = 7200",
            "model.settle_us is 200000, but must be 0 to 100000",
        ),
        ("rpm = 7200", "head_change_us = 200000\nrpm = 7200", "model.head_change_us is 200000"),
        ("attach = \"nbd\"", "attach = \"pmem\"", "attach is pmem"),
        ("nr_requests = 64", "", "queue.nr_requests is 0"),
        ("logical_block_size = 512", "logical_block_size = 700", "512, 1024, 2048 or 4096"),
        ("physical_block_size = 4096", "physical_block_size = 256", "512, 1024, 2048 or 4096"),
        ("about = \"", "about = \"\\u001b[31m", "about is \\u{1b}[31m"),
        ("about = \"", "about = \"\\u001b[31m", "must be text without control characters"),
    ] {
        let error = error_of(from, to);
        assert!(error.contains(part), "'{to}' gives the error '{error}'");
    }
}

/// The keys of every number in a profile.
fn numbers(table: &toml::Table, path: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (key, value) in table {
        let mut path = path.to_vec();
        path.push(key.clone());
        match value {
            toml::Value::Integer(_) => found.push(path),
            toml::Value::Table(part) => found.extend(numbers(part, &path)),
            _ => {}
        }
    }
    found
}

/// The text of a profile with the number at `path` replaced or removed.
fn with_value(text: &str, path: &[String], value: Option<toml::Value>) -> String {
    let mut whole: toml::Table = toml::from_str(text).unwrap();
    let (last, parts) = path.split_last().unwrap();
    let mut table = &mut whole;
    for part in parts {
        table = table.get_mut(part).unwrap().as_table_mut().unwrap();
    }
    match value {
        Some(value) => table.insert(last.clone(), value),
        None => table.remove(last),
    };
    toml::to_string(&whole).unwrap()
}

#[test]
fn a_missing_negative_fractional_or_impossible_number_is_refused_by_name() {
    // These may be missing, or have any value in range.
    let optional = ["wbt_lat_usec", "settle_us", "head_change_us", "write_extents"];
    for disk in catalog::names() {
        let text = catalog::text(disk).unwrap();
        let file: toml::Table = toml::from_str(text).unwrap();
        let rotates = file["queue"]["rotational"].as_bool().unwrap();
        let paths = numbers(&file, &[]);
        assert!(paths.len() >= if rotates { 26 } else { 5 }, "{disk} has {}", paths.len());
        for path in paths {
            let (name, key) = (path.join("."), path.last().unwrap());
            let error = |value: Option<toml::Value>| {
                DiskSpec::from_toml("my.toml", &with_value(text, &path, value))
                    .err()
                    .map(|e| e.to_string())
            };
            let missing = error(None);
            if !optional.contains(&key.as_str()) {
                let missing =
                    missing.unwrap_or_else(|| panic!("{disk}: missing {name} was accepted"));
                assert!(missing.contains(key), "{disk} without {name}: {missing}");
            }
            for (value, least) in [
                (toml::Value::Integer(-1), "0 or more"),
                (toml::Value::Float(7.5), "a whole number"),
                (toml::Value::Integer(i64::MAX), ""),
                (toml::Value::Integer(1 << 40), ""),
            ] {
                if value.as_integer() == Some(1 << 40) && key == "capacity" {
                    continue;
                }
                let error = error(Some(value.clone()))
                    .unwrap_or_else(|| panic!("{disk}: {name} = {value} was accepted"));
                assert!(
                    error.starts_with(&format!("invalid disk profile my.toml: {name} is "))
                        && error.contains("must be")
                        && error.contains(least),
                    "{disk}: {name} = {value}: {error}"
                );
            }
        }
    }
}

#[test]
fn an_invalid_profile_is_refused_with_file_and_line() {
    for (from, to, parts) in [
        ("rpm = 7200\n", "", &["missing field `rpm`"][..]),
        ("rpm = 7200", "rpn = 7200", &["unknown field `rpn`", "`rpm`"]),
        ("depth = 32", "depth = \"32\"", &["line 14, column 9", "expected u32"]),
        (
            "law = \"hdd\"",
            "law = \"tape\"",
            &["unknown variant `tape`", "expected one of `instant`, `hdd`, `ssd`"],
        ),
        ("about = ", "about == ", &["line 8, "]),
    ] {
        let error = error_of(from, to);
        assert!(error.starts_with("read the disk in my.toml: "), "{error}");
        for part in parts {
            assert!(error.contains(part), "'{to}' gives the error '{error}'");
        }
    }
}

#[test]
fn a_disk_round_trips_through_the_json_of_a_plan_without_fractions() {
    for name in catalog::names() {
        let spec = catalog::get(name).unwrap();
        let json = serde_json::to_value(&spec).unwrap();
        assert_eq!(DiskSpec::from_json(&json), Ok(spec));
        assert_no_fraction(&json);
    }
    let error = DiskSpec::from_json(&serde_json::json!({"about": 1})).unwrap_err().to_string();
    assert!(error.starts_with("read the disk in the plan: "), "{error}");
}

fn assert_no_fraction(value: &serde_json::Value) {
    match value {
        serde_json::Value::Number(number) => assert!(number.is_u64(), "{number} is not whole"),
        serde_json::Value::Array(items) => items.iter().for_each(assert_no_fraction),
        serde_json::Value::Object(fields) => fields.values().for_each(assert_no_fraction),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_parser_panic(text in ".{0,300}") {
        let _ = DiskSpec::from_toml("x", &text);
    }

    #[test]
    fn no_number_makes_validation_panic_and_every_valid_disk_can_be_built(
        line in 0usize..200,
        value in prop_oneof![Just(0u64), Just(1), Just(u64::from(u32::MAX)), Just(i64::MAX as u64),
                             0u64..100_000, 0u64..i64::MAX as u64],
    ) {
        let numbers = |text: &str| text.contains(" = ") && text.ends_with(|c: char| c.is_ascii_digit());
        let lines: Vec<usize> = hdd().lines().enumerate()
            .filter(|(_, text)| numbers(text)).map(|(at, _)| at).collect();
        let chosen = lines[line % lines.len()];
        let text: String = hdd().lines().enumerate().map(|(at, text)| {
            let name = text.split(" = ").next().unwrap_or_default();
            if at == chosen { format!("{name} = {value}\n") } else { format!("{text}\n") }
        }).collect();
        if let Ok(spec) = DiskSpec::from_toml("x", &text) {
            if spec.queue.depth <= 1024 {
                fsdyno_disk::build(&spec, 1);
            }
        }
    }
}

/// The error of ssd-sata with `from` replaced by `to`.
fn error_of_flash(from: &str, to: &str) -> String {
    let text = catalog::text("ssd-sata").unwrap();
    assert!(text.contains(from), "the file has no '{from}'");
    DiskSpec::from_toml("my.toml", &text.replace(from, to)).unwrap_err().to_string()
}

#[test]
fn an_impossible_parameter_of_a_solid_state_disk_is_named_with_its_range() {
    for (from, to, part) in [
        ("channels = 8", "channels = 0", "model.channels is 0, but must be 1 to 64"),
        ("dies = 16", "dies = 4", "model.dies is 4, but must be 8 to 256"),
        ("spare_permille = 80", "spare_permille = 5", "must be 10 to 2000"),
        ("block = 50331648", "block = 50331649", "model.block is 48.0 MiB, but must be a multiple"),
        ("block = 50331648", "block = 262144", "at most 50000 superblocks"),
        ("block = 50331648", "block = 1073741824", "at least 5 superblocks are spare"),
        ("program_size = 32768", "program_size = 524288", "model.program_size is 524288"),
        ("\nread_us = 45", "\nread_us = 0", "model.read_us is 0, but must be 1 to"),
        ("read_rate_kb = 567229", "read_rate_kb = 0", "model.read_rate_kb is 0"),
        ("write_buffer = 33554432", "write_buffer = 1048576", "must be 1314816 to"),
        ("prefilled_percent = 0", "prefilled_percent = 101", "must be 0 to 100"),
        ("attach = \"nbd\"", "attach = \"pmem\"", "attach is pmem"),
        ("erase_us = 3500\n", "", "missing field `erase_us`"),
    ] {
        let error = error_of_flash(from, to);
        assert!(error.contains(part), "'{to}' gives the error '{error}'");
    }
}
