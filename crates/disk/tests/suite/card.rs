//! Tests the flash card against the figures to which it was fitted, and against others.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers may panic")]

use fsdyno_disk::models::{Card, Model};
use fsdyno_disk::{Action, DiskSpec, Request, catalog};
use fsdyno_record::seed::stream;
use fsdyno_record::{Bytes, Nanos};

/// sd-card-a2 with some parameters changed.
fn card(change: impl FnOnce(&mut Card)) -> DiskSpec {
    let mut spec = catalog::get("sd-card-a2").unwrap();
    let Model::Card(card) = &mut spec.model else { panic!("sd-card-a2 is not a card") };
    change(card);
    spec.validate().unwrap();
    spec
}

/// Requests per second, one at a time, on a card that is full of data; the first tenth is not counted.
fn rate(spec: &DiskSpec, count: u64, mut next: impl FnMut(u64) -> (Action, u64, u32)) -> f64 {
    let mut disk = fsdyno_disk::build(spec, 1);
    let sectors = spec.capacity.0 / 512;
    for sector in (0..sectors).step_by(1 << 20) {
        let sectors = (sectors - sector).min(1 << 20) as u32;
        disk.note_untimed(Request { id: 0, action: Action::Write, sector, sectors, fua: false });
    }
    let (mut now, mut from) = (Nanos(0), Nanos(0));
    for id in 0..count {
        if id == count / 10 {
            from = now;
        }
        let (action, sector, sectors) = next(id);
        disk.submit(now, Request { id, action, sector, sectors, fua: false });
        now = disk.next_due().unwrap();
        assert_eq!(disk.pop_completed(now), Some(id));
        assert_eq!(disk.volatile_bytes(now), Bytes(0));
        while disk.pop_persisted().is_some() {}
    }
    (count - count / 10) as f64 / (now - from).seconds()
}

fn random(spec: &DiskSpec, action: Action, span: u64, count: u64) -> f64 {
    let mut draws = stream(5, "places");
    rate(spec, count, |_| (action, draws.below(span / 4096) * 8, 8))
}

/// Sequential MB/s in requests of 512 KiB.
fn sequential(spec: &DiskSpec, action: Action) -> f64 {
    rate(spec, 1000, |id| (action, id * 1024, 1024)) * 524_288.0 / 1e6
}

fn assert_near(what: &str, measured: f64, expected: f64, percent: f64) {
    let error = (measured / expected - 1.0) * 100.0;
    println!("{what}: {measured:.1}, {error:+.1} % off {expected}");
    assert!(error.abs() <= percent, "{what}: {measured:.1}, {error:+.1} % off {expected}");
}

#[test]
fn on_the_bus_of_a_pi_4_the_card_has_the_rates_to_which_it_was_fitted() {
    let pi4 = card(|card| card.bus_rate_kb = 50_000);
    assert_near("reads", random(&pi4, Action::Read, 256 << 20, 2000), 3200.0, 1.0);
    // Writes within the open units; from time to time the unit being written is full, and the old data are copied into
    // it.
    assert_near("writes", random(&pi4, Action::Write, 256 << 20, 2000), 1200.0, 1.0);
}

/// The figures of docs/disks-card.md that were not used for fitting.
#[test]
fn the_card_meets_its_class_and_differs_from_other_cards_as_documented() {
    let spec = card(|_| ());
    let reads = random(&spec, Action::Read, 256 << 20, 2000);
    let writes = random(&spec, Action::Write, 256 << 20, 2000);
    // Class A1, which an A2 card has to meet without command queueing, and its 10 MB/s sustained.
    assert!(reads >= 1500.0 && writes >= 500.0 && sequential(&spec, Action::Write) >= 10.0);
    println!(
        "sequential {:.1} {:.1}",
        sequential(&spec, Action::Read),
        sequential(&spec, Action::Write)
    );
    // Jeff Geerling, mid-2019: IOPS per dollar times the price.
    for (name, published, measured, error) in [
        ("SanDisk Extreme A2, reads", 1890.0, reads, 92.0),
        ("SanDisk Extreme A2, writes", 945.0, writes, 34.0),
        ("SanDisk Extreme Pro A1, reads", 2513.0, reads, 45.0),
        ("SanDisk Extreme Pro A1, writes", 1208.0, writes, 5.0),
        ("Samsung Evo+, reads", 2769.0, reads, 31.0),
        ("Samsung Evo+, writes", 989.0, writes, 28.0),
    ] {
        let found = (measured / published - 1.0) * 100.0;
        println!("{name}: {measured:.0}, {found:+.1} % off {published}");
        assert!(
            (found - error).abs() < 2.0,
            "{name}: {found:+.1} %, docs/disks-card.md has {error}"
        );
    }
}

#[test]
fn writes_to_more_units_than_are_open_cost_a_copy_of_a_unit_each() {
    let spec = card(|_| ());
    let Model::Card(parameters) = &spec.model else { panic!("not a card") };
    // Writes to one unit more than can be open, in turn, each unit in order.
    let in_turn = |units: u64| {
        rate(&spec, units * 20, |id| (Action::Write, (id % units) * 8192 + (id / units) * 128, 128))
    };
    let (all_open, one_more) = (in_turn(64), in_turn(65));
    println!("64 KiB in 64 units {all_open:.0}, in 65 units {one_more:.1} a second");
    let copy = parameters.unit.0 as f64 / parameters.copy_rate_kb as f64 / 1e3;
    assert!(1.0 / one_more > 0.9 * copy && all_open > 20.0 * one_more);
    // Random writes over the whole card, too.
    let everywhere = random(&spec, Action::Write, spec.capacity.0, 500);
    println!("random 4 KiB writes over the whole card {everywhere:.1} a second");
    assert!(1.0 / everywhere > 0.9 * copy);
}

#[test]
fn empty_and_discarded_units_are_closed_at_no_cost() {
    let spec = card(|_| ());
    // 4 KiB in the middle of each of 200 units; the slowest write.
    let worst = |disk: &mut dyn fsdyno_disk::Disk, now: &mut Nanos, from: u64| {
        let mut worst = 0;
        for unit in 0..200 {
            let before = *now;
            let sector = unit * 8192 + 4096;
            let write =
                Request { id: from + unit, action: Action::Write, sector, sectors: 8, fua: false };
            disk.submit(*now, write);
            *now = disk.next_due().unwrap();
            disk.pop_completed(*now);
            worst = worst.max((*now - before).0);
        }
        worst
    };
    let mut disk = fsdyno_disk::build(&spec, 1);
    let mut now = Nanos(0);
    assert!(worst(&mut *disk, &mut now, 0) < 2_000_000, "a write to a card without data");
    assert!(worst(&mut *disk, &mut now, 1000) > 50_000_000, "a second write to its units");
    let all =
        Request { id: 5000, action: Action::Trim, sector: 0, sectors: 200 * 8192, fua: false };
    disk.submit(now, all);
    now = disk.next_due().unwrap();
    disk.pop_completed(now);
    assert!(worst(&mut *disk, &mut now, 6000) < 2_000_000, "a write to discarded units");
}

#[test]
fn an_impossible_parameter_of_a_card_is_named_with_its_range() {
    for (from, to, part) in [
        (
            "\nunit = 4194304",
            "\nunit = 4194305",
            "model.unit is 4.0 MiB, but must be a multiple of model.program_size",
        ),
        ("\nunit = 4194304", "\nunit = 16384", "such that the card has"),
        ("open_units = 64", "open_units = 0", "model.open_units is 0, but must be 1 to 1024"),
        ("bus_rate_kb = 90000", "bus_rate_kb = 0", "model.bus_rate_kb is 0"),
        ("program_size = 16384", "program_size = 1000", "model.program_size is 1000"),
        ("read_us = 231", "read_us = 0", "model.read_us is 0, but must be 1 to"),
        ("open_units = 64\n", "", "missing field `open_units`"),
    ] {
        let text = catalog::text("sd-card-a2").unwrap();
        assert!(text.contains(from), "the file has no '{from}'");
        let error =
            DiskSpec::from_toml("my.toml", &text.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(part), "'{to}' gives the error '{error}'");
    }
}
