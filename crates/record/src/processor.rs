//! The CPU of a guest: a plain speed or a processor profile; and the counts of the processor model.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// The CPU of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum CpuPlan {
    /// Every instruction takes the same time.
    Speed(Speed),
    /// A processor model with a profile's costs.
    #[serde(deserialize_with = "deserialize_valid")]
    Profile(Box<Processor>),
}

/// The speed of a CPU in instructions per nanosecond, a power of two: `1/4`, `1`, `2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", schemars(extend("pattern" = "^(1/)?[0-9]+$")))]
pub struct Speed {
    /// Binary logarithm of the speed: 0 is one instruction per nanosecond.
    pub log2: i32,
}

/// The minimum and the maximum speed, as powers of two.
const SPEEDS: std::ops::RangeInclusive<i32> = -6..=3;

/// The events that cost time beyond the instruction itself, in the order of the model's plugin.
pub const EVENTS: [&str; 5] = ["system_call", "locked", "miss", "streamed", "fetch"];

/// A processor profile, as a plan records it: the costs of a processor, and their measured error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// Name in the catalog, or the file's.
    pub name: String,
    /// Instructions in a microsecond without any event.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub instructions_per_us: u64,
    /// Cost of each event in picoseconds, by the names in `EVENTS`; an event that is absent costs nothing.
    pub costs_ps: BTreeMap<String, u64>,
    /// The caches.
    pub caches: Caches,
    /// The profile's error, if it was validated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ProcessorError>,
    /// True if the model counts the events of the issuing thread alone, for a fit, and all instructions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counting: bool,
    /// True if the costs are derived from published values, without a measurement of such a processor.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimate: bool,
}

/// The caches of a processor. Lines have 64 bytes, and the first caches have 64 sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Caches {
    /// Ways of the first data cache.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub first_ways: u64,
    /// Sets of the second cache, a power of two.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub second_sets: u64,
    /// Ways of the second cache.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub second_ways: u64,
    /// Ways of the instruction cache.
    #[serde(default = "default_fetch_ways", skip_serializing_if = "is_default")]
    pub fetch_ways: u64,
}

/// Ways of an instruction cache of 32 KiB, the only kind in records older than this field.
pub const DEFAULT_FETCH_WAYS: u64 = 8;

fn default_fetch_ways() -> u64 {
    DEFAULT_FETCH_WAYS
}

fn is_default(ways: &u64) -> bool {
    *ways == DEFAULT_FETCH_WAYS
}

/// The error of a profile compared with the processor that it models, in percent, over operations that it was
/// not fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProcessorError {
    /// Median error of the CPU time of an operation.
    pub median_percent: u64,
    /// Worst error of the CPU time of an operation.
    pub worst_percent: u64,
    /// Typical (rms) error of a ratio between two file systems.
    pub ratio_percent: u64,
}

/// The counts of the processor model in a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessorCounts {
    /// Time that the events cost, as the number of instructions that the base speed executes in that time.
    pub charged: u64,
    /// Events by the names in `EVENTS`; while counting for a fit also `instructions`.
    pub events: BTreeMap<String, u64>,
}

impl Processor {
    /// Returns the name and the error of the profile.
    pub fn describe(&self) -> String {
        let error = match self.error {
            None => "error not measured".to_string(),
            Some(ProcessorError { median_percent, worst_percent, ratio_percent }) => format!(
                "error of CPU times: median {median_percent} %, worst {worst_percent} %; error of ratios: \
                 {ratio_percent} % (rms)"
            ),
        };
        let estimate = if self.estimate { "an estimate from published figures; " } else { "" };
        format!("{} ({estimate}{error})", self.name)
    }
}

/// Events of an earlier model that occur in records of its trials.
const FORMER_EVENTS: [&str; 2] = ["indirect", "mispredicted"];

/// Ranges of valid values in profiles from any source.
const VALID_INSTRUCTIONS_PER_US: std::ops::RangeInclusive<u64> = 125..=33_334;
const MAX_COST_PS: u64 = 100_000_000;
const VALID_WAYS: std::ops::RangeInclusive<u64> = 1..=32;
const VALID_SETS: std::ops::RangeInclusive<u64> = 64..=1 << 14;

fn deserialize_valid<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Box<Processor>, D::Error> {
    let processor = Box::<Processor>::deserialize(from)?;
    let Processor { instructions_per_us, costs_ps, caches, .. } = &*processor;
    let Caches { first_ways, second_sets, second_ways, fetch_ways } = caches;
    let is_known = |event: &str| EVENTS.contains(&event) || FORMER_EVENTS.contains(&event);
    let is_valid = VALID_INSTRUCTIONS_PER_US.contains(instructions_per_us)
        && costs_ps.iter().all(|(event, ps)| is_known(event) && *ps <= MAX_COST_PS)
        && VALID_WAYS.contains(first_ways)
        && VALID_WAYS.contains(second_ways)
        && VALID_WAYS.contains(fetch_ways)
        && VALID_SETS.contains(second_sets)
        && second_sets.is_power_of_two();
    match is_valid {
        true => Ok(processor),
        false => Err(serde::de::Error::custom(
            "the processor profile has a value outside the valid range",
        )),
    }
}

impl Default for CpuPlan {
    fn default() -> CpuPlan {
        CpuPlan::Speed(Speed::default())
    }
}

impl CpuPlan {
    /// Returns true for one instruction per nanosecond.
    pub fn is_default(&self) -> bool {
        *self == CpuPlan::default()
    }

    /// Returns the speed with its unit, or the profile with its error.
    pub fn describe(&self) -> String {
        match self {
            CpuPlan::Speed(speed) => match speed.log2 {
                0 => "1 instruction per nanosecond".to_string(),
                ..0 => format!("{speed} instruction per nanosecond"),
                1.. => format!("{speed} instructions per nanosecond"),
            },
            CpuPlan::Profile(processor) => processor.describe(),
        }
    }

    /// Returns the profile, if it has one.
    pub fn processor(&self) -> Option<&Processor> {
        match self {
            CpuPlan::Speed(_) => None,
            CpuPlan::Profile(processor) => Some(processor),
        }
    }

    /// Returns the number of instructions that QEMU must execute per microsecond of the guest's clock, if the guest's
    /// clock is not QEMU's icount clock: for every profile, and for speeds above one instruction per nanosecond.
    pub fn instructions_per_us_of_own_clock(&self) -> Option<u64> {
        match self {
            CpuPlan::Speed(speed) => (speed.log2 > 0).then(|| 1000 << speed.log2),
            CpuPlan::Profile(processor) => Some(processor.instructions_per_us),
        }
    }

    /// Returns the time that a number of instructions takes, without any event of a processor model.
    pub fn time_of(&self, instructions: u64) -> Nanos {
        Nanos(match self {
            CpuPlan::Speed(speed) if speed.log2 < 0 => instructions << -speed.log2,
            CpuPlan::Speed(speed) => instructions >> speed.log2,
            CpuPlan::Profile(processor) => instructions * 1000 / processor.instructions_per_us,
        })
    }

    /// Returns the binary logarithm of the nanoseconds that an instruction takes on QEMU's clock.
    pub fn shift(&self) -> i32 {
        match self {
            CpuPlan::Speed(speed) => (-speed.log2).max(0),
            CpuPlan::Profile(_) => 0,
        }
    }
}

impl fmt::Display for CpuPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CpuPlan::Speed(speed) => speed.fmt(f),
            CpuPlan::Profile(processor) => processor.name.fmt(f),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let power = 1u64 << self.log2.unsigned_abs();
        if self.log2 < 0 { write!(f, "1/{power}") } else { write!(f, "{power}") }
    }
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Speed, String> {
        let (numerator, denominator) = text.split_once('/').unwrap_or((text, "1"));
        let log2 = |text: &str| {
            let power: u32 = text.parse().ok().filter(|power: &u32| power.is_power_of_two())?;
            Some(power.trailing_zeros() as i32)
        };
        let log2 = log2(numerator).zip(log2(denominator)).map(|(up, down)| up - down);
        match log2.filter(|log2| SPEEDS.contains(log2)) {
            Some(log2) => Ok(Speed { log2 }),
            None => Err(format!(
                "'{text}' is not a valid speed for the lab's CPU; it must be a power of two in \
                 instructions per nanosecond, from {} to {}",
                Speed { log2: *SPEEDS.start() },
                Speed { log2: *SPEEDS.end() }
            )),
        }
    }
}

impl TryFrom<String> for Speed {
    type Error = String;

    fn try_from(text: String) -> Result<Speed, String> {
        text.parse()
    }
}

impl From<Speed> for String {
    fn from(speed: Speed) -> String {
        speed.to_string()
    }
}

/// Parses a plain speed.
impl FromStr for CpuPlan {
    type Err = String;

    fn from_str(text: &str) -> Result<CpuPlan, String> {
        Ok(CpuPlan::Speed(text.parse()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_take_the_time_of_the_processor() {
        let time = |text: &str| text.parse::<CpuPlan>().map(|cpu| cpu.time_of(1200));
        assert_eq!(time("1"), Ok(Nanos(1200)));
        assert_eq!(time("1/4"), Ok(Nanos(4800)));
        assert_eq!(time("8"), Ok(Nanos(150)));
        let text = "{\"name\":\"mine\",\"instructions_per_us\":8000,\"costs_ps\":{},\"caches\":{\"first_ways\":12,\
                    \"second_sets\":2048,\"second_ways\":16}}";
        let profile: CpuPlan = serde_json::from_str(text).unwrap();
        assert_eq!(profile.time_of(1200), Nanos(150));
    }

    #[test]
    fn the_text_of_a_speed_is_its_recorded_form() {
        for (text, log2) in [("1/64", -6), ("1/2", -1), ("1", 0), ("8", 3)] {
            let cpu: CpuPlan = text.parse().unwrap();
            assert_eq!(cpu, CpuPlan::Speed(Speed { log2 }));
            assert_eq!(
                (cpu.to_string().as_str(), serde_json::to_value(&cpu).unwrap()),
                (text, text.into())
            );
        }
        for invalid in ["0", "3", "1/3", "16", "1/128", "", "1/0", "x"] {
            assert!(invalid.parse::<CpuPlan>().unwrap_err().contains("1/64 to 8"), "{invalid}");
        }
    }

    #[test]
    fn a_profile_is_recorded_completely() {
        let processor = Processor {
            name: "mine".into(),
            instructions_per_us: 16_000,
            costs_ps: [("miss".to_string(), 85_000)].into(),
            caches: Caches { first_ways: 12, second_sets: 2048, second_ways: 16, fetch_ways: 8 },
            error: None,
            counting: false,
            estimate: false,
        };
        let plan = CpuPlan::Profile(Box::new(processor));
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<CpuPlan>(&text).unwrap(), plan);
        assert_eq!(
            (plan.to_string().as_str(), plan.instructions_per_us_of_own_clock(), plan.shift()),
            ("mine", Some(16_000), 0)
        );
        for (from, to) in [("miss", "mess"), ("16000", "99999"), ("2048", "2047"), ("12", "0")] {
            assert!(serde_json::from_str::<CpuPlan>(&text.replace(from, to)).is_err(), "{to}");
        }
        assert!(serde_json::from_str::<CpuPlan>(&text.replace("caches", "cashes")).is_err());
    }

    #[test]
    fn an_instruction_cache_of_32_kib_and_a_fitted_profile_are_recorded_as_before() {
        let text = "{\"name\":\"mine\",\"instructions_per_us\":16000,\"costs_ps\":{},\"caches\":{\"first_ways\":12,\
                    \"second_sets\":2048,\"second_ways\":16}}";
        let plan: CpuPlan = serde_json::from_str(text).unwrap();
        assert_eq!(plan.processor().unwrap().caches.fetch_ways, 8);
        assert_eq!(serde_json::to_string(&plan).unwrap(), text);
        assert_eq!(plan.describe(), "mine (error not measured)");
        let other = text.replace("\"second_ways\":16", "\"second_ways\":16,\"fetch_ways\":16");
        let plan: CpuPlan = serde_json::from_str(&other).unwrap();
        assert_eq!(serde_json::to_string(&plan).unwrap(), other);
        let other = text.replace("}}", "},\"estimate\":true}");
        let plan: CpuPlan = serde_json::from_str(&other).unwrap();
        assert_eq!(serde_json::to_string(&plan).unwrap(), other);
        assert_eq!(
            plan.describe(),
            "mine (an estimate from published figures; error not measured)"
        );
        let changed = text.replace("\"second_ways\":16", "\"second_ways\":16,\"fetch_ways\":33");
        assert!(serde_json::from_str::<CpuPlan>(&changed).is_err());
    }
}
