//! Distributions of file sizes, computed in integers only, so that all machines draw the same sizes.

use std::fmt;
use std::str::FromStr;

use fsdyno_record::Bytes;
use fsdyno_record::seed::SplitMix64;

/// Maximum size in bytes.
pub const MAX_SIZE: u64 = 1 << 30;

/// Fraction bits of the fixed-point powers of two.
const FRACTION_BITS: u32 = 62;

/// Significant bits of the fraction of a logarithm: a size is correct to one part in 2^24.
const LOG_BITS: usize = 24;

/// `2^(1/2), 2^(1/4), 2^(1/8) ...`, each the square root of the one before it.
const ROOTS: [u64; LOG_BITS] = {
    let mut roots = [0; LOG_BITS];
    let mut root = 2u128 << FRACTION_BITS;
    let mut index = 0;
    while index < LOG_BITS {
        root = (root << FRACTION_BITS).isqrt();
        roots[index] = root as u64;
        index += 1;
    }
    roots
};

/// log2(e) with 32 fraction bits.
const LOG2_E: i128 = 6_196_328_019;

/// The distribution of file sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All have this many bytes: `4096`.
    Fixed(u64),
    /// 85 % of files have 1 to 4,096 bytes, with each size equally likely; 15 % have more, up to 64 KiB, with each
    /// octave equally likely: `mix`.
    Mix,
    /// Each size from `low` to `high` is equally likely: `1K-64K`.
    Uniform {
        /// Minimum size, in bytes.
        low: u64,
        /// Maximum size, in bytes.
        high: u64,
    },
    /// The logarithm is normally distributed: `lognormal:8K:1.5`. At least 1 byte, at most [`MAX_SIZE`].
    Lognormal {
        /// Median size, in bytes.
        median: u64,
        /// Standard deviation of the natural logarithm, in thousandths.
        sigma: u64,
    },
}

impl Sizes {
    /// Draws a size in bytes.
    pub fn draw(&self, draws: &mut SplitMix64) -> u64 {
        match *self {
            Sizes::Fixed(size) => size,
            Sizes::Mix => mix(draws.draw()),
            Sizes::Uniform { low, high } => low + draws.below(high - low + 1),
            Sizes::Lognormal { median, sigma } => lognormal(median, sigma, draws),
        }
    }

    /// Returns the maximum size that can be drawn, in bytes.
    pub fn max_size(&self) -> u64 {
        match *self {
            Sizes::Fixed(size) | Sizes::Uniform { high: size, .. } => size,
            Sizes::Mix => 1 << 16,
            Sizes::Lognormal { .. } => MAX_SIZE,
        }
    }
}

/// Computes a size of the mix from a random word: its upper half decides the class, its lower half the size.
///
/// The larger sizes span four octaves, from 4 KiB to 64 KiB, which are equally likely; sizes within one are uniform.
#[inline]
pub fn mix(draw: u64) -> u64 {
    let low_half = draw & 0xffff_ffff;
    if ((draw >> 32) * 100) >> 32 < 85 {
        return 1 + ((low_half * 4096) >> 32);
    }
    let octave = 4096 << (low_half >> 30);
    octave + 1 + (((low_half & 0x3fff_ffff) * octave) >> 30)
}

/// Draws a log-normal size in bytes.
///
/// The normal number is the sum of twelve uniform 16-bit numbers, minus the mean of the sum: its standard deviation is
/// 1 to the last bit, its distribution function is within 0.003 of the normal one, and it is bounded at six standard
/// deviations (Irwin and Hall, Biometrika 1927).
fn lognormal(median: u64, sigma: u64, draws: &mut SplitMix64) -> u64 {
    let sum: u64 = (0..3)
        .map(|_| draws.draw())
        .map(|word| (0..4).map(|part| (word >> (16 * part)) & 0xffff).sum::<u64>())
        .sum();
    let normal = i128::from(sum) - 12 * 0xffff / 2;
    // In bits, with 32 + 16 fraction bits, of which 16 are dropped.
    let bits = (normal * i128::from(sigma) * LOG2_E / 1000) >> 16;
    let (whole, fraction) = (bits >> 32, (bits & 0xffff_ffff) as u32);
    let scaled = (u128::from(median) * u128::from(power_of_two(fraction))) as i128;
    let shift = i128::from(FRACTION_BITS) - whole;
    let size = match shift {
        ..32 => i128::from(MAX_SIZE),
        32..127 => scaled >> shift,
        _ => 0,
    };
    size.clamp(1, i128::from(MAX_SIZE)) as u64
}

/// Computes 2 to the power of a 32-bit fraction, with [`FRACTION_BITS`] fraction bits.
fn power_of_two(fraction: u32) -> u64 {
    ROOTS.iter().enumerate().fold(1 << FRACTION_BITS, |power, (index, root)| {
        match fraction >> (31 - index) & 1 {
            0 => power,
            _ => ((u128::from(power) * u128::from(*root)) >> FRACTION_BITS) as u64,
        }
    })
}

/// Parses a size of at most [`MAX_SIZE`].
fn parse_size(text: &str) -> Result<u64, ()> {
    text.parse().ok().map(|Bytes(bytes)| bytes).filter(|bytes| *bytes <= MAX_SIZE).ok_or(())
}

/// Parses thousandths, given as `1`, `1.5` or `0.125`, up to 9.999.
fn parse_thousandths(text: &str) -> Result<u64, ()> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str, max: usize| {
        (1..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !digits(whole, 1) || !digits(fraction, 3) {
        return Err(());
    }
    format!("{whole}{fraction:0<3}").parse().map_err(drop)
}

impl FromStr for Sizes {
    type Err = ();

    fn from_str(text: &str) -> Result<Sizes, ()> {
        if text == "mix" {
            return Ok(Sizes::Mix);
        }
        if let Some(rest) = text.strip_prefix("lognormal:") {
            let (median, sigma) = rest.split_once(':').ok_or(())?;
            let median = parse_size(median).ok().filter(|median| *median > 0).ok_or(())?;
            return Ok(Sizes::Lognormal { median, sigma: parse_thousandths(sigma)? });
        }
        let Some((low, high)) = text.split_once('-') else {
            return parse_size(text).map(Sizes::Fixed);
        };
        let (low, high) = (parse_size(low)?, parse_size(high)?);
        if low > high { Err(()) } else { Ok(Sizes::Uniform { low, high }) }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sizes::Fixed(size) => write!(f, "{size}"),
            Sizes::Mix => f.write_str("mix"),
            Sizes::Uniform { low, high } => write!(f, "{low}-{high}"),
            Sizes::Lognormal { median, sigma } => {
                let sigma = format!("{}.{:03}", sigma / 1000, sigma % 1000);
                let sigma = sigma.trim_end_matches('0').trim_end_matches('.');
                write!(f, "lognormal:{median}:{sigma}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str, count: usize) -> Vec<u64> {
        let sizes: Sizes = text.parse().unwrap();
        let mut draws = SplitMix64::new(7);
        let mut drawn: Vec<u64> = (0..count).map(|_| sizes.draw(&mut draws)).collect();
        drawn.sort_unstable();
        drawn
    }

    #[test]
    fn each_value_has_one_spelling_and_mistakes_are_refused() {
        let shown = |text: &str| text.parse::<Sizes>().map(|sizes| sizes.to_string());
        for (text, expected) in [
            ("4K", "4096"),
            ("0", "0"),
            ("mix", "mix"),
            ("1K-64K", "1024-65536"),
            ("5-5", "5-5"),
            ("lognormal:8K:1.50", "lognormal:8192:1.5"),
            ("lognormal:1:0", "lognormal:1:0"),
            ("lognormal:1:0.125", "lognormal:1:0.125"),
            ("1073741824", "1073741824"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
        }
        for invalid in [
            "",
            "-",
            "5-",
            "-5",
            "9-3",
            "1G-2G",
            "2G",
            "mixed",
            "lognormal",
            "lognormal:8K",
            "lognormal:0:1",
            "lognormal:8K:-1",
            "lognormal:8K:1.2345",
            "lognormal:8K:10",
            "lognormal:8K:1e3",
            "lognormal:8K:.5",
            "lognormal:8K:1.",
        ] {
            assert_eq!(shown(invalid), Err(()), "{invalid}");
        }
    }

    #[test]
    fn a_lognormal_size_has_the_quantiles_of_its_distribution() {
        let sizes = drawn("lognormal:8192:1.5", 200_000);
        // Quantiles of the standard normal distribution, from any table.
        for (share, normal) in [
            (0.01, -2.326),
            (0.1, -1.2816),
            (0.25, -0.6745),
            (0.5, 0.0),
            (0.75, 0.6745),
            (0.9, 1.2816),
            (0.99, 2.326),
        ] {
            let expected = 8192.0 * (1.5f64 * normal).exp();
            let found = sizes[(200_000.0 * share) as usize] as f64;
            // Of the logarithm: the distribution of a sum of twelve is 0.05 off at 1 %, the draws
            // add 0.02.
            assert!((found / expected).ln().abs() < 1.5 * 0.07, "{share}: {found}, not {expected}");
        }
        assert!(drawn("lognormal:100:0", 100).iter().all(|size| *size == 100));
        let wide = drawn("lognormal:1G:9", 10_000);
        assert_eq!((wide[0] >= 1, wide[9_999]), (true, MAX_SIZE));
    }

    #[test]
    fn powers_of_two_are_correct_to_seven_digits() {
        for step in 0..1000u32 {
            let fraction = step * 4_294_967;
            let expected = 2f64.powf(f64::from(fraction) / 2f64.powi(32));
            let found = power_of_two(fraction) as f64 / 2f64.powi(62);
            assert!((found / expected - 1.0).abs() < 1e-7, "{fraction}: {found}, not {expected}");
        }
    }

    #[test]
    fn the_sizes_of_a_seed_are_these_on_every_machine() {
        // Computed in Python with a separate SplitMix64 and floating-point numbers.
        assert_eq!(drawn("lognormal:8K:1.5", 4), [2990, 5478, 5666, 12_712]);
        assert_eq!(drawn("1K-64K", 4), [2107, 26_173, 38_630, 59_134]);
        assert_eq!(drawn("mix", 4), [1428, 1652, 3908, 31_410]);
    }

    #[test]
    fn uniform_sizes_reach_both_ends_evenly() {
        let sizes = drawn("3-6", 40_000);
        for size in 3..=6 {
            let count = sizes.iter().filter(|found| **found == size).count();
            // Binomial: four standard deviations are 346.
            assert!((9_650..=10_350).contains(&count), "{size}: {count}");
        }
    }
}
