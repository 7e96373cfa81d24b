use std::collections::BTreeSet;

use super::*;

#[test]
fn every_file_is_valid_and_named_as_its_file_system() {
    for (name, text) in FILES {
        let filesystem: Filesystem =
            toml::from_str(text).unwrap_or_else(|error| panic!("{name}.toml: {error}"));
        assert_eq!(filesystem.name, *name);
    }
    assert_eq!(all().len(), FILES.len());
}

#[test]
fn no_file_in_the_catalog_folder_is_forgotten() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalog/filesystems");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let listed = names().into_iter().map(|name| format!("{name}.toml")).collect();
    assert_eq!(files, listed, "left: catalog/filesystems, right: FILES in catalog.rs");
}

#[test]
fn the_program_of_every_command_is_a_listed_tool() {
    for filesystem in all() {
        let commands = [&filesystem.mkfs.argv, &filesystem.check.argv, &filesystem.features.argv];
        let journal = filesystem.journal.as_ref();
        let outer = journal.iter().flat_map(|journal| {
            [journal.make.first(), journal.features.as_ref().and_then(|f| f.argv.first())]
        });
        let own = commands.iter().map(|argv| argv.first());
        let own = own.chain([filesystem.mount.command.first()]);
        for program in own.chain(outer).flatten() {
            assert!(filesystem.tools.contains(program), "{}: {program}", filesystem.name);
        }
        let clean = &filesystem.check.clean;
        assert!(clean.iter().all(|code| filesystem.check.codes.contains_key(&code.to_string())));
    }
}

#[test]
fn feature_words_fit_their_field_and_the_journal_size_is_a_product_of_known_features() {
    for filesystem in all() {
        let Features { keys, words, journal_bytes, .. } = &filesystem.features;
        assert!(words.iter().all(|word| (1..=32).contains(&word.bits)), "{}", filesystem.name);
        for key in journal_bytes {
            let known = keys.contains(key) || words.iter().any(|word| word.key == *key);
            assert!(known, "{}: nothing reads '{key}'", filesystem.name);
        }
    }
}

#[test]
fn an_unknown_name_gets_the_nearest_valid_one() {
    assert_eq!(get("xfs").unwrap().name, "xfs");
    assert!(source("xfs").unwrap().contains("name = \"xfs\""));
    let error = get("riserfs").unwrap_err().to_string();
    assert_eq!(error, "there is no file system 'riserfs'; did you mean 'reiserfs'?");
    assert!(get("postgresql").unwrap_err().hint.contains("ext2, ext3, ext4, xfs"));
}

#[test]
fn missing_capabilities_name_existing_ops_and_workloads() {
    use fsdyno_record::OpKind;
    for filesystem in all() {
        for (what, why) in &filesystem.lacks {
            let known = match what.split_once(' ') {
                Some(("op", op)) => OpKind::ALL.iter().any(|kind| kind.name() == op),
                Some(("workload", name)) => !name.is_empty(),
                _ => ["overlayfs", "nfs", "smb"].contains(&what.as_str()),
            };
            assert!(known && !why.is_empty(), "{}: {what}", filesystem.name);
        }
    }
}

#[test]
fn only_file_systems_on_a_device_have_an_mkfs() {
    for filesystem in all() {
        let device = filesystem.lies_on == Backing::Device;
        // Raw is the device itself, which needs no mkfs.
        let has_mkfs = device && !filesystem.mount.kind.is_empty();
        assert_eq!(has_mkfs, !filesystem.mkfs.argv.is_empty(), "{}", filesystem.name);
        assert_eq!(device, filesystem.minimum_size > Bytes(0), "{}", filesystem.name);
        assert_eq!(filesystem.package.is_empty(), filesystem.tools.is_empty());
    }
    assert!(get("fuse2fs").unwrap().in_user_space() && !get("ext4").unwrap().in_user_space());
}

#[test]
fn facts_that_no_command_needs_are_not_part_of_a_plan() {
    use crate::{Context, Spec};
    let spec = Spec::parse("ext4 -I 128 @ noatime").unwrap();
    let plan = |kind: &Filesystem| {
        serde_json::to_string(&kind.plan(&spec, Context::Lab, None).unwrap()).unwrap()
    };
    let text = source("ext4").unwrap();
    let mut bare: Filesystem = toml::from_str(text).unwrap();
    (bare.magic, bare.colour, bare.map, bare.guarantee) = Default::default();
    (bare.about, bare.package, bare.notes, bare.more_tools) = Default::default();
    assert_eq!(plan(&bare), plan(get("ext4").unwrap()));
}

#[test]
fn every_format_has_limits() {
    let without = all().iter().filter(|filesystem| filesystem.limits.is_none());
    let without: Vec<&str> = without.map(|filesystem| filesystem.name.as_str()).collect();
    // The limits of `fuse` depend on what its command mounts; the limit of `raw` is the size of the device.
    assert_eq!(without, ["fuse", "raw"]);
}

#[test]
fn a_kernel_that_a_file_system_suggests_has_it() {
    let suggested = all().iter().filter_map(|kind| Some((kind, kind.kernel.as_deref()?)));
    for (kind, kernel) in suggested {
        assert_eq!(kind.check_kernel(kernel), Ok(()), "{}", kind.name);
        assert!(kind.kernels().unwrap().ends_with(&format!("--kernel {kernel}")));
    }
    let error = get("ntfs3").unwrap().check_kernel("5.10.0-46-amd64").unwrap_err();
    assert_eq!(error.problem, "Linux 5.10.0-46-amd64 has no ntfs3 yet");
    assert_eq!(error.hint, "it is in kernels since 5.15, if configured; --kernel 6.12");
    let error = get("nfs").unwrap().check_kernel("5.10.0-46-amd64").unwrap_err();
    assert!(error.problem.starts_with("the lab has no nfs with Linux 5.10.0-46-amd64: its NFS"));
    assert_eq!(error.hint, "the lab needs Linux 6.1 or later for it; --kernel 6.12");
    let error = get("nfs").unwrap().check_kernel("2.4.18").unwrap_err();
    assert_eq!(error.problem, "Linux 2.4.18 has no nfs yet");
}

#[test]
fn options_with_known_values_are_known() {
    for kind in all() {
        let known = kind.known();
        for option in known.values.keys() {
            assert!(known.mount.contains(option), "{}: {option}", kind.name);
        }
    }
}

#[test]
fn reiserfs_ends_with_linux_6_12() {
    let reiserfs = get("reiserfs").unwrap();
    assert_eq!(reiserfs.check_kernel("6.12.38+deb12-amd64"), Ok(()));
    assert!(reiserfs.check_kernel("6.13.0").unwrap_err().problem.contains("no longer"));
    assert!(get("ext4").unwrap().check_kernel("2.4.18").is_err());
}
