use super::*;
use crate::account::{Account, Cause, Key};
use crate::functions::differences;
use crate::kernel::Frame;

fn node(own: u64, layer: &str, below: &[(&str, Frame)]) -> Frame {
    let below = below.iter().map(|(name, frame)| (name.to_string(), frame.clone())).collect();
    Frame { own, calls: 1, charged: 0, layer: layer.into(), below }
}

fn explained(label: &str, (seeks, time): (u64, u64), lookup: u64) -> Explained {
    let mut account = Account::default();
    let mut add = |structure, seeks, time| {
        let key =
            Key { place: (Stage::Running, 0), structure: Some(structure), cause: Cause::Work };
        let sum = Sum {
            requests: seeks,
            seeks,
            time_ns: Nanos(time),
            seek_ns: Nanos(time),
            ..Sum::default()
        };
        account.rows.insert(key, sum);
    };
    add(Structure::InodeTable, seeks, time);
    add(Structure::Data, 3, 290_000);
    let tree = [
        ("ext4_find_entry", node(lookup, "ext4", &[])),
        ("vfs_unlink", node(10_000, "files", &[])),
    ];
    let tree = node(0, "", &[("do_syscall_64", node(0, "entry", &tree))]);
    let mut phase =
        Phase { name: "unlink".into(), ops: 10, took_ns: Nanos(2_000_000), ..Phase::default() };
    phase.cpu_ns = Nanos(900_000);
    phase.set_executed(&BTreeMap::from([(Task::Ops, tree)]));
    Explained {
        label: label.into(),
        phases: vec![phase],
        account: Some(account),
        ..Explained::default()
    }
}

#[test]
fn a_disk_without_an_arm_does_not_seek() {
    let first_sentence = |access| {
        let explained = Explained { access, ..explained("ext4", (600, 710_000), 1000) };
        sentences(&explained, None)[0].clone()
    };
    let direct = "71 % of disk time is requests to inode tables (600 requests)";
    assert!(first_sentence(Access::Direct).contains(direct), "{}", first_sentence(Access::Direct));
    let network = "requests to inode tables over the network (600 requests)";
    assert!(
        first_sentence(Access::Network).contains(network),
        "{}",
        first_sentence(Access::Network)
    );
    assert!(first_sentence(Access::Seek).contains("seeking to inode tables"));
}

#[test]
fn a_phase_has_a_summary_sentence_and_details_in_a_comparison() {
    let ext3 = explained("ext3", (600, 710_000), 2800);
    let ext4 = explained("ext4", (100, 110_000), 1000);
    let disk_text = "unlink: 71 % of disk time is seeking to inode tables (600 seeks";
    let busy_text = "the disk is busy for 1.00 ms of the phase's 2.00 ms (50 %).";
    let processor_text = "unlink: the threads that issue ops run for 900 us of the phase's 2.00 ms (45 %): 1280 \
               instructions per op; vfs_unlink has the most of any kernel function (78 %).";
    assert_eq!(
        sentences(&ext3, None),
        [format!("{disk_text}); {busy_text}"), processor_text.to_string()]
    );
    assert_eq!(
        sentences(&ext3, Some(&ext4)),
        [
            "unlink: the phase takes 2.00 ms, with ext4 2.00 ms (+0 ns); busy time of the disk +600 us, \
             processor time +0 ns."
                .to_string(),
            "unlink: the disk is busy for 1.00 ms against 400 us (+600 us): +600 us for inode tables \
             (600 seeks against 100)."
                .to_string(),
            format!("{disk_text}, 6.0 times as many as in ext4); {busy_text}"),
            "unlink: +16.4 % instructions against ext4: +180 per op (1280 against 1100), +180 of them \
             in ext4_find_entry."
                .to_string()
        ]
    );
    let reversed = sentences(&ext4, Some(&ext3));
    assert!(reversed[1].contains("(-600 us): -600 us for inode tables (100 seeks against 600)"));
    assert!(
        reversed[2].contains("seeking to data") && reversed[2].contains("the same in both"),
        "{reversed:?}"
    );
    assert!(reversed[3].contains("-180 of them in ext4_find_entry"), "{reversed:?}");
}

#[test]
fn the_larger_cause_is_stated_first() {
    let (mut new, old) =
        (explained("new", (110, 715_000), 9000), explained("old", (100, 710_000), 0));
    (new.phases[0].took_ns, new.phases[0].cpu_ns) = (Nanos(2_021_000), Nanos(916_000));
    let text = sentences(&new, Some(&old));
    assert_eq!(
        text[0],
        "unlink: the phase takes 2.02 ms, with old 2.00 ms (+21.0 us); processor time +16.0 us, busy time \
         of the disk +5.00 us."
    );
    assert!(text[1].contains("% instructions against old"), "{text:?}");
    assert!(text[2].contains("the disk is busy"), "{text:?}");
}

#[test]
fn a_structure_that_only_the_baseline_touches_is_named() {
    let (mut ext4, ext3) = (explained("ext4", (1, 5), 0), explained("ext3", (1, 5), 0));
    let account = ext4.account.as_mut().unwrap();
    account.rows.retain(|key, _| key.structure != Some(Structure::Data));
    let text = sentences(&ext4, Some(&ext3));
    assert!(text[1].ends_with("-290 us for data (0 seeks against 3)."), "{text:?}");
}

#[test]
fn a_difference_spread_over_several_functions_is_attributed_to_their_common_caller() {
    let tree = |instructions: u64| {
        let callees: Vec<(String, Frame)> = (0..4)
            .map(|index| (format!("part_{index}"), node(instructions, "ext4", &[])))
            .collect();
        let callees: Vec<(&str, Frame)> =
            callees.iter().map(|(name, frame)| (name.as_str(), frame.clone())).collect();
        let evict = node(100, "ext4", &callees);
        node(0, "", &[("evict", evict), ("other", node(50, "files", &[]))])
    };
    let phase = |instructions| {
        let mut phase = Phase { name: "unlink".into(), ops: 1, ..Phase::default() };
        phase.set_executed(&BTreeMap::from([(Task::Ops, tree(instructions))]));
        phase
    };
    let text = processor_difference(&phase(200), &phase(100), "old").unwrap();
    assert!(text.ends_with("+400 of them in evict and what it calls."), "{text}");
    let text = processor_difference(&phase(100), &phase(200), "old").unwrap();
    assert!(text.ends_with("-400 of them in evict and what it calls."), "{text}");
}

#[test]
fn an_unnamed_function_counts_for_its_caller() {
    let phase = |own| {
        let unnamed = node(own, "module", &[]);
        let update = node(50, "kernel", &[("?", unnamed)]);
        let mut phase = Phase { name: "unlink".into(), ops: 1, ..Phase::default() };
        let tree = node(0, "", &[("crypto_shash_update", update)]);
        phase.set_executed(&BTreeMap::from([(Task::Ops, tree)]));
        phase
    };
    let text = processor_difference(&phase(100), &phase(900), "old").unwrap();
    assert!(text.ends_with("-800 of them in crypto_shash_update and what it calls."), "{text}");
}

#[test]
fn equal_results_have_no_differences() {
    let explained = explained("ext4", (100, 710_000), 1000);
    assert_eq!(differences(&explained.phases[0], &explained.phases[0]), []);
    let text = sentences(&explained, Some(&explained));
    assert!(text[1].contains("busy about as long (1.00 ms against 1.00 ms)"), "{text:?}");
    assert!(text[2].contains("the same in both"), "{text:?}");
    assert!(text[3].contains("+0.0 % instructions"), "{text:?}");
}
