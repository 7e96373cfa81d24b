//! Axes: linear from zero to a round number, or logarithmic.

/// The unit of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Counts, written with `k`, `M`, `G` (powers of 1000).
    Count,
    /// Counts per second.
    Rate,
    /// Bytes, by powers of 1024.
    Bytes,
    /// Bytes per second.
    ByteRate,
    /// Ratios: `2x`.
    Ratio,
}

impl Unit {
    /// A round number in this unit, without trailing zeros.
    pub fn label(self, value: f64) -> String {
        if value == 0.0 {
            return "0".into();
        }
        match self {
            Unit::Seconds => {
                let (value, unit) = match value {
                    s if s < 0.999e-6 => (s * 1e9, "ns"),
                    s if s < 0.999e-3 => (s * 1e6, "us"),
                    s if s < 0.999 => (s * 1e3, "ms"),
                    s => (s, "s"),
                };
                format!("{} {unit}", round(value))
            }
            Unit::Count | Unit::Rate => {
                let second = if self == Unit::Rate { "/s" } else { "" };
                let (value, unit) = match value {
                    n if n < 999.9 => (n, ""),
                    n if n < 999.9e3 => (n / 1e3, "k"),
                    n if n < 999.9e6 => (n / 1e6, "M"),
                    n => (n / 1e9, "G"),
                };
                format!("{}{unit}{second}", round(value))
            }
            Unit::Bytes | Unit::ByteRate => {
                let second = if self == Unit::ByteRate { "/s" } else { "" };
                let power = binary_exponent(value);
                let unit = ["bytes", "KiB", "MiB", "GiB", "TiB"][power as usize];
                format!("{} {unit}{second}", round(value / 1024f64.powi(power)))
            }
            Unit::Ratio => format!("{}x", round(value)),
        }
    }
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// The exponent of 1024 whose unit (bytes, KiB, ...) suits the value.
fn binary_exponent(value: f64) -> i32 {
    (0..4).find(|power| value < 1023.9 * 1024f64.powi(*power)).unwrap_or(4)
}

/// A linear axis from zero to a round number.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Its end.
    pub end: f64,
    step: f64,
    unit: Unit,
}

impl Scale {
    /// The scale for values up to `max`. Its 2 to 6 steps are 1, 2 or 5 times a power of ten (for bytes, in KiB,
    /// MiB and so on).
    pub fn with_max(max: f64, unit: Unit) -> Scale {
        if !max.is_finite() || max <= 0.0 {
            return Scale { end: 1.0, step: 1.0, unit };
        }
        let one = if matches!(unit, Unit::Bytes | Unit::ByteRate) {
            1024f64.powi(binary_exponent(max))
        } else {
            1.0
        };
        let power = 10f64.powf((max / one / 3.0).log10().floor()) * one;
        let step = [5.0, 2.0, 1.0]
            .into_iter()
            .map(|digit| digit * power)
            .find(|step| max / step >= 2.0)
            .unwrap_or(power);
        // Counts are whole numbers.
        let step = if unit == Unit::Count { step.max(1.0) } else { step };
        // A bar that ends on a line, except for rounding, needs no further step.
        Scale { end: (max / step - 1e-9).ceil().max(1.0) * step, step, unit }
    }

    /// The position of a value, from 0 to 1.
    pub fn at(&self, value: f64) -> f64 {
        let share = value / self.end;
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The position of each line, from 0 to 1, and its label; the first is zero.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let steps = (self.end / self.step).round() as u32;
        let tick = |index| {
            let value = f64::from(index) * self.step;
            (self.at(value), self.unit.label(value))
        };
        (0..=steps).map(tick).collect()
    }
}

/// A logarithmic axis.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    low: i32,
    high: i32,
}

impl Log {
    /// The axis between whole powers of ten around these two positive values. It spans at least one decade.
    pub fn of_range(min: f64, max: f64) -> Log {
        let power = |value: f64| if value > 0.0 { value.log10() } else { 0.0 };
        let low = (power(min) + 1e-9).floor() as i32;
        Log { low, high: ((power(max) - 1e-9).ceil() as i32).max(low + 1) }
    }

    /// The position of a value, from 0 to 1.
    pub fn at(&self, value: f64) -> f64 {
        if value <= 0.0 {
            return 0.0;
        }
        let span = f64::from(self.high - self.low);
        ((value.log10() - f64::from(self.low)) / span).clamp(0.0, 1.0)
    }

    /// The position and value of each power; every other one if there are many.
    pub fn ticks(&self) -> Vec<(f64, f64)> {
        let every = if self.high - self.low > 5 { 2 } else { 1 };
        let powers = (self.low..=self.high).filter(|power| (power - self.low) % every == 0);
        powers.map(|power| (self.at(10f64.powi(power)), 10f64.powi(power))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_begins_at_zero_and_ends_at_a_round_step() {
        for longest in [0.0004, 0.9, 1.0, 1.22, 3.3, 7.0, 99.9, 1998.5] {
            let scale = Scale::with_max(longest, Unit::Seconds);
            let ticks = scale.ticks();
            assert_eq!(ticks[0], (0.0, "0".to_string()));
            assert_eq!(ticks.last().unwrap().0, 1.0);
            assert!(scale.end >= longest && scale.at(longest) > 0.6, "{longest}");
            assert!((3..=7).contains(&ticks.len()), "{longest}: {ticks:?}");
        }
    }

    #[test]
    fn labels_are_short_and_round() {
        let last = |longest, unit| Scale::with_max(longest, unit).ticks().pop().unwrap().1;
        assert_eq!(last(0.0213, Unit::Seconds), "25 ms");
        assert_eq!(last(20_100.0, Unit::Count), "25k");
        assert_eq!(last(1e6, Unit::Rate), "1M/s");
        assert_eq!(last(300.0 * 1048576.0, Unit::Bytes), "300 MiB");
        assert_eq!(last(2.4, Unit::Ratio), "2.5x");
        assert_eq!(last(3.0, Unit::Count), "3");
    }

    #[test]
    fn zero_and_nan_have_a_scale() {
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let scale = Scale::with_max(value, Unit::Count);
            assert!(scale.at(value).is_finite() && scale.end == 1.0);
        }
        assert_eq!(Log::of_range(0.0, 0.0).at(0.0), 0.0);
    }

    #[test]
    fn powers_of_ten_are_evenly_spaced() {
        let log = Log::of_range(2e-6, 0.3);
        let places: Vec<String> =
            log.ticks().iter().map(|(share, value)| format!("{share:.2} {value:e}")).collect();
        assert_eq!(places, ["0.00 1e-6", "0.33 1e-4", "0.67 1e-2", "1.00 1e0"]);
        assert!((log.at(1e-3) - 0.5).abs() < 1e-9);
    }
}
