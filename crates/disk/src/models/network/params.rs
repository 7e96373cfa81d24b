//! Parameters of a network volume: their ranges, the maximum rates, and the disk built from them.

use fsdyno_record::Bytes;
use serde::{Deserialize, Serialize};

use super::NetworkVolume;
use super::bucket::{Bucket, Burst};
use crate::disk::Disk;
use crate::limits::Limits;
use crate::models::parameters::Parameters;
use crate::spec::{Check, DiskSpec, SpecError};

/// Parameters of a network volume. Rates of bytes are in units of 1000 bytes per second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Guaranteed I/O units per second.
    pub iops: u64,
    /// I/O units per second while there is credit; absent without burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_iops: Option<u64>,
    /// Maximum credit, in I/O units; absent without burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_credit_ios: Option<u64>,
    /// Guaranteed throughput, in kB/s.
    pub throughput_kb: u64,
    /// Throughput while there is credit, in kB/s; absent without burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_throughput_kb: Option<u64>,
    /// Maximum credit of throughput, in kB; absent without burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_credit_kb: Option<u64>,
    /// Credit of both kinds before the trial, in percent of the maximum.
    pub credit_percent: u64,
    /// Maximum size of an I/O unit: a larger request counts as several.
    pub io_size: Bytes,
    /// Minimum size of a request that can be merged with the previous one. The two count together if the second
    /// continues the first and is admitted before the first completes.
    pub merge_least: Bytes,
    /// Bandwidth between host and storage, in kB/s.
    pub link_rate_kb: u64,
    /// Latency of a read.
    pub read: Latency,
    /// Latency of a write until it is replicated.
    pub write: Latency,
    /// Time of a flush or TRIM, in microseconds. There is nothing to persist.
    pub flush_us: u64,
}

/// A distribution of latencies, in microseconds, linear between these points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Minimum.
    pub least_us: u64,
    /// Half of all requests take at most this long.
    pub median_us: u64,
    /// 99 % take at most this long.
    pub p99_us: u64,
    /// 99.9 % take at most this long.
    pub p999_us: u64,
    /// Maximum.
    pub most_us: u64,
}

/// The points of the distribution, in millionths of all requests.
const POINTS: [u64; 5] = [0, 500_000, 990_000, 999_000, MILLION];
/// All requests, in millionths.
pub(super) const MILLION: u64 = 1_000_000;

impl Latency {
    fn values(&self) -> [u64; 5] {
        [self.least_us, self.median_us, self.p99_us, self.p999_us, self.most_us]
    }

    /// Returns the latency that `share` millionths of all requests do not exceed, in ns.
    pub(super) fn at(&self, share: u64) -> u64 {
        let values = self.values();
        let part = POINTS[1..4].partition_point(|point| *point <= share);
        let (from, to) = (POINTS[part], POINTS[part + 1]);
        let width = 1000 * values[part + 1].saturating_sub(values[part]);
        1000 * values[part] + width * share.saturating_sub(from).min(to - from) / (to - from)
    }

    fn check(&self, kind: &str, check: &Check<'_>) -> Result<(), SpecError> {
        let names = ["least_us", "median_us", "p99_us", "p999_us", "most_us"];
        let mut minimum = 1;
        for (name, value) in names.into_iter().zip(self.values()) {
            check.within(&format!("model.{kind}.{name}"), value, minimum, 10_000_000)?;
            minimum = value;
        }
        Ok(())
    }
}

/// Maximum rate and credit of a profile.
const MAX_VALUE: u64 = 1_000_000_000;

impl Network {
    /// Returns the bucket of I/O units.
    pub(super) fn io_bucket(&self) -> Bucket {
        let burst = self.burst(self.burst_iops, self.burst_credit_ios, 1);
        Bucket::new(self.iops, burst)
    }

    /// Returns the bucket of bytes.
    pub(super) fn byte_bucket(&self) -> Bucket {
        let burst = self.burst(self.burst_throughput_kb, self.burst_credit_kb, 1000);
        Bucket::new(self.throughput_kb * 1000, burst)
    }

    fn burst(&self, rate: Option<u64>, credit: Option<u64>, unit: u64) -> Option<Burst> {
        let (rate, credit) = (rate? * unit, credit? * unit);
        Some(Burst { rate, credit, at_start: credit / 100 * self.credit_percent })
    }

    /// Checks one kind of burst: both of its parameters or neither are given, and the credit suffices for any request.
    fn check_burst(
        check: &Check<'_>,
        base: (&str, u64),
        burst: [(&str, Option<u64>); 2],
        minimum: u64,
    ) -> Result<(), SpecError> {
        let [(rate, higher), (credit, amount)] = burst;
        check.within(base.0, base.1, 1, MAX_VALUE)?;
        if higher.is_none() && amount.is_none() {
            return Ok(());
        }
        let absent = |name: &str, value: Option<u64>, other: &str| {
            let range =
                format!("given, because {other} is given (omit both for a volume without burst)");
            check.require(name, "missing", value.is_some(), &range)
        };
        absent(rate, higher, credit)?;
        absent(credit, amount, rate)?;
        check.within(rate, higher.unwrap_or_default(), base.1 + 1, MAX_VALUE)?;
        check.within(credit, amount.unwrap_or_default(), minimum, MAX_VALUE)
    }
}

impl Parameters for Network {
    fn check(&self, spec: &DiskSpec, check: &Check<'_>) -> Result<(), SpecError> {
        let largest = u64::from(spec.queue.max_sectors_kb) * 1024;
        check.within("model.io_size", self.io_size.0, 4096, 1 << 30)?;
        check.within("model.merge_least", self.merge_least.0, 512, 1 << 30)?;
        let ios = [
            ("model.burst_iops", self.burst_iops),
            ("model.burst_credit_ios", self.burst_credit_ios),
        ];
        let minimum = largest.div_ceil(self.io_size.0);
        Network::check_burst(check, ("model.iops", self.iops), ios, minimum)?;
        let bytes = [
            ("model.burst_throughput_kb", self.burst_throughput_kb),
            ("model.burst_credit_kb", self.burst_credit_kb),
        ];
        let minimum = largest.div_ceil(1000);
        let base = ("model.throughput_kb", self.throughput_kb);
        Network::check_burst(check, base, bytes, minimum)?;
        check.within("model.credit_percent", self.credit_percent, 0, 100)?;
        check.within("model.link_rate_kb", self.link_rate_kb, 100, MAX_VALUE)?;
        self.read.check("read", check)?;
        self.write.check("write", check)?;
        check.within("model.flush_us", self.flush_us, 1, 10_000_000)
    }

    fn limits(&self) -> Option<Limits> {
        let kb = self.burst_throughput_kb.unwrap_or(self.throughput_kb).min(self.link_rate_kb);
        let rate = kb as f64 * 1e3;
        Some(Limits { read: rate, write: rate })
    }

    fn build(&self, spec: &DiskSpec, seed: u64) -> Box<dyn Disk> {
        Box::new(NetworkVolume::new(spec, self, seed))
    }
}
