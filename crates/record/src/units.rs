//! Types for units, with parsing and display of durations, sizes and counts.

use std::fmt::{self, Write as _};
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::quote::short;

/// A duration or an instant in nanoseconds, in the clock of the venue (virtual in the lab).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A size in bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Nanos {
    /// Returns the duration in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns true for zero.
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// Returns this instant minus an earlier one, or zero if the other is later.
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    /// Saturates at zero, because time stamps from one clock should never go backwards.
    fn sub(self, other: Nanos) -> Nanos {
        self.since(other)
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}

impl fmt::Display for Nanos {
    /// Formats three significant digits and the unit that fits: `12.3 us`, `1.22 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => return write!(f, "{} ns", self.0),
            1_000..1_000_000 => (n / 1e3, "us"),
            1_000_000..1_000_000_000 => (n / 1e6, "ms"),
            _ => (n / 1e9, "s"),
        };
        let digits = if value < 10.0 {
            2
        } else if value < 100.0 {
            1
        } else {
            0
        };
        write!(f, "{value:.digits$} {unit}")
    }
}

impl fmt::Display for Bytes {
    /// Formats the value in the largest binary unit in which it is at least one: `1.5 GiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        let mut unit = "B";
        for next in ["KiB", "MiB", "GiB", "TiB"] {
            if value < 1024.0 {
                break;
            }
            value /= 1024.0;
            unit = next;
        }
        if value.fract() == 0.0 {
            write!(f, "{value:.0} {unit}")
        } else {
            write!(f, "{value:.1} {unit}")
        }
    }
}

/// A number of things: files, trials, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count(pub u64);

impl fmt::Display for Count {
    /// Groups digits by three if there are at least five: `4096`, `100,000,000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        if digits.len() < 5 {
            return f.write_str(&digits);
        }
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index) % 3 == 0 {
                f.write_char(',')?;
            }
            f.write_char(digit)?;
        }
        Ok(())
    }
}

/// Formats a count with its noun: `1 trial`, `2 trials`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Formats an estimated or remaining time, rounded up: `42 s`, `3 min`, `2 h 1 min`.
pub fn rough(time: Duration) -> String {
    let seconds = time.as_millis().div_ceil(1000);
    match (seconds, seconds.div_ceil(60)) {
        (0..100, _) => format!("{seconds} s"),
        (_, minutes @ 0..100) => format!("{minutes} min"),
        (_, minutes) => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

/// An error in parsing a number.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{}' is not a whole number: write one such as 20000, 20k, 1.5M or 1_000_000 (k, M and G are powers of 1000)", short(.0))]
pub struct BadCount(pub String);

impl std::str::FromStr for Count {
    type Err = BadCount;

    /// Parses `20000`, `20k`, `1.5M` or `1_000_000`: the suffix is a power of 1000, and the result must be an integer.
    fn from_str(text: &str) -> Result<Count, BadCount> {
        let invalid = || BadCount(text.to_string());
        let split =
            text.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, suffix) = text.split_at(split);
        let zeros: usize = match suffix {
            "" => 0,
            "k" | "K" => 3,
            "m" | "M" => 6,
            "g" | "G" => 9,
            _ => return Err(invalid()),
        };
        let number = without_underscores(number).ok_or_else(invalid)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((&number, "0"));
        let all_digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_number = all_digits(whole) && all_digits(fraction);
        let fraction = fraction.trim_end_matches('0');
        if !is_number || fraction.len() > zeros {
            return Err(invalid());
        }
        format!("{whole}{fraction:0<zeros$}").parse().map(Count).map_err(|_| invalid())
    }
}

/// Removes the underscores between digits; `None` if there is one elsewhere.
fn without_underscores(number: &str) -> Option<String> {
    let bytes = number.as_bytes();
    let is_digit = |index: Option<usize>| {
        index.and_then(|index| bytes.get(index)).is_some_and(u8::is_ascii_digit)
    };
    let is_between_digits =
        |index: usize| is_digit(index.checked_sub(1)) && is_digit(Some(index + 1));
    let is_valid = number.match_indices('_').all(|(index, _)| is_between_digits(index));
    is_valid.then(|| number.replace('_', ""))
}

/// An error in parsing a size.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not a size: write a number with K, M, G or T (powers of 1024), such as 512M")]
pub struct BadSize(pub String);

impl std::str::FromStr for Bytes {
    type Err = BadSize;

    /// Parses `4096`, `64K`, `1.5G` or `2GiB`: the suffix is a power of 1024, as in mkfs and fio.
    fn from_str(text: &str) -> Result<Bytes, BadSize> {
        let invalid = || BadSize(text.to_string());
        let trimmed = text.trim();
        let split = trimmed
            .find(|character: char| character.is_ascii_alphabetic())
            .unwrap_or(trimmed.len());
        let (number, suffix) = trimmed.split_at(split);
        let shift = match suffix.to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(invalid()),
        };
        let number = without_underscores(number.trim()).ok_or_else(invalid)?;
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(1 << shift).map(Bytes).ok_or_else(invalid);
        }
        let value: f64 = number.parse().map_err(|_| invalid())?;
        let bytes = value * (1u64 << shift) as f64;
        if !bytes.is_finite() || bytes < 0.0 || bytes > u64::MAX as f64 || bytes.fract() != 0.0 {
            return Err(invalid());
        }
        Ok(Bytes(bytes as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_powers_of_1024_and_other_text_is_refused() {
        assert_eq!("64K".parse(), Ok(Bytes(65_536)));
        assert_eq!("1.5GiB".parse(), Ok(Bytes(1_610_612_736)));
        assert_eq!("4096".parse(), Ok(Bytes(4096)));
        for invalid in ["", "-1", "12X", "1.0001K", "99999999999T", "NaN", "inf"] {
            assert!(invalid.parse::<Bytes>().is_err(), "{invalid} was accepted");
        }
    }

    #[test]
    fn a_count_may_have_a_decimal_suffix_and_underscores_between_digits() {
        let count = |text: &str| text.parse().ok().map(|Count(count)| count);
        for (text, number) in [
            ("0", 0),
            ("007", 7),
            ("20k", 20_000),
            ("1.5M", 1_500_000),
            ("2G", 2_000_000_000),
            ("1_000_000", 1_000_000),
            ("1.50k", 1500),
        ] {
            assert_eq!(count(text), Some(number), "{text}");
        }
        for invalid in [
            "",
            "k",
            "-1",
            "+5",
            "1e6",
            "1.5",
            "1.2345k",
            "_1",
            "1_",
            "1__0",
            "1_k",
            "1.k",
            ".5k",
            "10 k",
            "10kb",
            "1,000",
            "99999999999G",
            "1.2.3k",
        ] {
            assert_eq!(count(invalid), None, "{invalid}");
        }
        assert_eq!(Count(4096).to_string(), "4096");
        assert_eq!(Count(100_000_000).to_string(), "100,000,000");
        assert_eq!("64_000".parse(), Ok(Bytes(64_000)));
        assert!("_64".parse::<Bytes>().is_err());
    }

    #[test]
    fn a_rough_time_has_a_fitting_unit() {
        let text = |seconds| rough(Duration::from_secs(seconds));
        assert_eq!([0, 42, 99, 100, 120].map(text), ["0 s", "42 s", "99 s", "2 min", "2 min"]);
        assert_eq!([5940, 5941, 7260].map(text), ["99 min", "1 h 40 min", "2 h 1 min"]);
        assert_eq!(rough(Duration::from_millis(200)), "1 s");
        assert_eq!(rough(Duration::from_millis(41_900)), "42 s");
    }

    #[test]
    fn durations_have_three_significant_digits() {
        assert_eq!(Nanos(999).to_string(), "999 ns");
        assert_eq!(Nanos(12_345).to_string(), "12.3 us");
        assert_eq!(Nanos(1_220_000_000).to_string(), "1.22 s");
        assert_eq!(Nanos(5) - Nanos(9), Nanos(0));
    }
}
