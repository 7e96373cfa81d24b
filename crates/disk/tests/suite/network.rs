//! Tests the network volumes against the limits that their provider documents, and bad parameters.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers may panic")]

use fsdyno_disk::models::{Model, Network};
use fsdyno_disk::{Action, DiskSpec, catalog};
use fsdyno_record::Nanos;

use crate::load::{assert_near, random, rate, request};

/// A volume of the catalog with some parameters of its model changed.
fn volume(name: &str, change: impl FnOnce(&mut Network)) -> DiskSpec {
    let mut spec = catalog::get(name).unwrap();
    let Model::Network(network) = &mut spec.model else { panic!("{name} is not a network volume") };
    change(network);
    spec.validate().unwrap();
    spec
}

fn general() -> DiskSpec {
    volume("cloud-general", |_| ())
}

/// Sequential requests of `kib` KiB, in MB/s.
fn stream(spec: &DiskSpec, action: Action, kib: u64, depth: u64) -> f64 {
    let mut disk = fsdyno_disk::build(spec, 1);
    let sectors = kib * 2;
    let each = |id| request(id, action, id * sectors, sectors as u32);
    rate(&mut *disk, depth, 4000, each) * (kib * 1024) as f64 / 1e6
}

/// <https://cloudonaut.io/cheap-durable-fast-how-to-choose-an-ebs-volume-type/>: 3,000 IOPS and 125 MB/s.
#[test]
fn a_general_volume_has_its_documented_limits() {
    let (spec, all) = (general(), 100 << 30);
    for reads in [0, 100] {
        assert_near("IOPS at depth 32", random(&spec, 32, 20_000, reads, all), 3000.0, 1.0);
    }
    for action in [Action::Read, Action::Write] {
        assert_near("MB/s", stream(&spec, action, 256, 32), 131.072, 1.0);
    }
}

#[test]
fn at_depth_one_the_latency_has_the_given_distribution() {
    let spec = general();
    let mut disk = fsdyno_disk::build(&spec, 7);
    let (mut now, mut times) = (Nanos(0), Vec::new());
    for id in 0..100_000 {
        // Slower than the limits, which then add no delay; one sector, so that the link takes little time.
        let start = Nanos(id * 50_000_000);
        disk.submit(start, request(id, Action::Read, id * 100, 1));
        now = disk.next_due().unwrap();
        assert_eq!(disk.pop_completed(now), Some(id));
        times.push(now.since(start).0 / 1000);
    }
    assert!(now > Nanos(0));
    times.sort_unstable();
    for (share, us) in [(0.5, 600.0), (0.99, 1500.0), (0.998, 1500.0 + 2500.0 * 8.0 / 9.0)] {
        let at = times[(share * times.len() as f64) as usize];
        assert_near(&format!("{share} of all"), at as f64, us, 5.0);
    }
    assert!(times[0] >= 350 && times[99_999] <= 20_001);
}

/// <https://docs.amazonaws.cn/en_us/ebs/latest/userguide/ebs-io-characteristics.html>: one request of 1024 KiB counts
/// as four; eight sequential ones of 32 KiB count as one, eight random ones as eight.
#[test]
fn large_requests_count_as_several_and_small_sequential_ones_together() {
    let slow = |kb| {
        volume("cloud-general", |network| {
            (network.iops, network.throughput_kb, network.link_rate_kb) = (100, kb, kb);
        })
    };
    let spec = slow(10_000_000);
    let per_second = |kib: u64, gap: u64| {
        let mut disk = fsdyno_disk::build(&spec, 1);
        let sectors = kib * 2;
        let each = |id| request(id, Action::Write, id * (sectors + gap), sectors as u32);
        rate(&mut *disk, 32, 2000, each)
    };
    assert_near("requests of 1024 KiB", per_second(1024, 8), 25.0, 2.0);
    assert_near("sequential, 32 KiB", per_second(32, 0), 800.0, 2.0);
    assert_near("random, 32 KiB", per_second(32, 8), 100.0, 2.0);
    // Below 32 KiB nothing is merged.
    assert_near("sequential, 4 KiB", per_second(4, 0), 100.0, 2.0);
}

/// <https://repost.aws/ja/knowledge-center/rds-low-burst-balance>: 5.4 million credits are enough for 3,000 IOPS over
/// at least 30 minutes; with 300 more per second in the meantime they last 2,000 s. The test uses a hundredth of them.
#[test]
fn burst_credit_lasts_as_documented_and_then_the_base_rate_applies() {
    let spec = volume("cloud-burst", |network| network.burst_credit_ios = Some(54_000));
    let mut disk = fsdyno_disk::build(&spec, 1);
    let (mut now, mut submitted, mut ended) = (Nanos(0), 0, 0_u64);
    let mut marks = Vec::new();
    while ended < 66_000 {
        while submitted - ended < 32 {
            disk.submit(now, request(submitted, Action::Write, submitted * 1000 % 200_000_000, 8));
            submitted += 1;
        }
        now = disk.next_due().unwrap();
        ended += u64::from(disk.pop_completed(now).is_some());
        while disk.pop_persisted().is_some() {}
        if [59_000, 61_000, 66_000].contains(&ended) && marks.last() != Some(&(ended, now)) {
            marks.push((ended, now));
        }
    }
    // 20 s at 3,000 a second are 60,000 requests; after that, 300 a second.
    assert_near("s of burst", marks[0].1.seconds() * 60.0 / 59.0, 20.0, 1.0);
    let base = 5000.0 / (marks[2].1.since(marks[1].1)).seconds();
    assert_near("IOPS without credit", base, 300.0, 1.0);
    let empty = volume("cloud-burst", |network| network.credit_percent = 0);
    assert_near("a used volume", random(&empty, 32, 3000, 0, 100 << 30), 300.0, 1.0);
}

#[test]
fn a_flush_waits_for_nothing_since_an_acknowledged_write_is_replicated() {
    let mut disk = fsdyno_disk::build(&general(), 1);
    for id in 0..16 {
        disk.submit(Nanos(0), request(id, Action::Write, id * 100, 8));
    }
    disk.submit(Nanos(0), request(16, Action::Flush, 0, 0));
    assert_eq!(disk.next_due(), Some(Nanos(100_000)));
    assert_eq!(disk.pop_completed(Nanos(100_000)), Some(16));
}

#[test]
fn impossible_rates_credits_and_sizes_are_refused_by_name_with_the_valid_range() {
    let text = catalog::text("cloud-burst").unwrap();
    for (from, to, part) in [
        (
            "burst_credit_ios = 5400000",
            "burst_credit_ios = 0",
            "model.burst_credit_ios is 0, but must be 1 to 1000000000",
        ),
        (
            "burst_credit_ios = 5400000",
            "",
            "model.burst_credit_ios is missing, but must be given, because model.burst_iops is given (omit both \
             for a volume without burst)",
        ),
        ("burst_iops = 3000", "burst_iops = 0", "model.burst_iops is 0, but must be 301 to"),
        ("burst_iops = 3000", "burst_iops = 200", "model.burst_iops is 200, but must be 301 to"),
        ("iops = 300\n", "iops = 0\n", "model.iops is 0, but must be 1 to"),
        ("throughput_kb = 134218", "throughput_kb = 0", "model.throughput_kb is 0, but must be"),
        (
            "throughput_kb = 134218",
            "throughput_kb = 1\nburst_throughput_kb = 2\nburst_credit_kb = 0",
            "model.burst_credit_kb is 0, but must be 263 to",
        ),
        ("io_size = 262144", "io_size = 0", "model.io_size is 0, but must be 4096 to"),
        ("merge_least = 32768", "merge_least = 0", "model.merge_least is 0, but must be 512 to"),
        ("link_rate_kb = 593750", "link_rate_kb = 0", "model.link_rate_kb is 0, but must be 100"),
        ("median_us = 600", "median_us = 340", "model.read.median_us is 340, but must be 350 to"),
        ("credit_percent = 100", "credit_percent = 101", "credit_percent is 101, but must be 0 to"),
        ("capacity = 107374182400", "capacity = 0", "capacity is 0, but must be 1048576 to"),
    ] {
        assert!(text.contains(from), "the file has no '{from}'");
        let changed = text.replacen(from, to, 1);
        let error = DiskSpec::from_toml("my.toml", &changed).unwrap_err().to_string();
        assert!(error.starts_with("invalid disk profile my.toml: "), "{error}");
        assert!(error.contains(part), "'{to}' gives the error '{error}'");
    }
}
