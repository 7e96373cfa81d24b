//! The range of values that a printed number stands for.

/// The relative rounding error allowed for bounds: far below the last digit of any printed number, and far above the
/// error of a dozen or so floating-point operations.
const SLACK: f64 = 1e-9;

/// Values from `low` to `high`, both included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The smallest value.
    pub low: f64,
    /// The largest value; may be infinite.
    pub high: f64,
}

impl Range {
    /// Creates the range of exactly one value.
    pub fn exactly(value: f64) -> Range {
        Range { low: value, high: value }
    }

    /// Returns true if no value is in both ranges, allowing for the rounding error.
    pub fn is_disjoint_from(self, other: Range) -> bool {
        above(self.low, other.high) || above(other.low, self.high)
    }

    /// Returns the intersection, in exact arithmetic, or an empty range (`low` above `high`) if the ranges are
    /// disjoint.
    pub fn intersection(self, other: Range) -> Range {
        Range { low: self.low.max(other.low), high: self.high.min(other.high) }
    }

    /// Returns true if the range is empty, allowing for the rounding error.
    pub fn is_empty(self) -> bool {
        above(self.low, self.high)
    }

    /// Multiplies both bounds by `factor`, which must not be negative.
    pub fn scaled(self, factor: f64) -> Range {
        Range { low: self.low * factor, high: self.high * factor }
    }
}

impl std::ops::Add for Range {
    type Output = Range;

    fn add(self, other: Range) -> Range {
        Range { low: self.low + other.low, high: self.high + other.high }
    }
}

/// Divides ranges of values that are not negative; the result has no upper bound if the divisor may be zero.
impl std::ops::Div for Range {
    type Output = Range;

    fn div(self, by: Range) -> Range {
        let high = if by.low > 0.0 { self.high / by.low } else { f64::INFINITY };
        Range { low: if by.high > 0.0 { self.low / by.high } else { 0.0 }, high }
    }
}

/// Formats one value as `2.5`, a range as `2.45 to 2.55`.
impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = |value: f64| match value.abs() {
            size if size >= 1000.0 => format!("{value:.1}"),
            size if size >= 1.0 => format!("{value:.3}"),
            _ => format!("{value:.5}"),
        };
        if self.low == self.high {
            return f.write_str(&number(self.low));
        }
        write!(f, "{} to {}", number(self.low), number(self.high))
    }
}

/// Returns true if one value is above another by more than the rounding error.
pub(super) fn above(value: f64, limit: f64) -> bool {
    value > limit + SLACK * limit.abs().max(value.abs()).min(f64::MAX)
}

/// Parses a rounded number: the range extends half a unit of the last digit in both directions, but never below zero
/// for a number that is not negative. Thousands separators (commas) and a missing leading zero are accepted.
///
/// `None` if the text is not a plain decimal number.
pub fn parse_rounded(text: &str) -> Option<Range> {
    let (value, unit) = parse(text)?;
    Some(range_around(value, value - unit / 2.0, value + unit / 2.0))
}

/// Parses a number that may have been rounded or truncated (many programs truncate): the range extends from half a unit
/// of the last digit below the number to a whole unit above it.
pub fn parse_truncated(text: &str) -> Option<Range> {
    let (value, unit) = parse(text)?;
    Some(range_around(value, value - unit / 2.0, value + unit))
}

fn range_around(value: f64, low: f64, high: f64) -> Range {
    Range { low: if value >= 0.0 { low.max(0.0) } else { low }, high }
}

/// Returns the value of a printed number and the unit of its last digit.
fn parse(text: &str) -> Option<(f64, f64)> {
    let plain: String = text.trim().chars().filter(|c| *c != ',').collect();
    let digits = plain.strip_prefix('-').unwrap_or(&plain);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !all(whole) || !all(fraction) {
        return None;
    }
    let unit = 10f64.powi(-i32::try_from(fraction.len()).ok()?);
    plain.parse::<f64>().ok().filter(|value| value.is_finite()).map(|value| (value, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_bounds(range: Option<Range>, low: f64, high: f64) -> bool {
        range.is_some_and(|r| (r.low - low).abs() < 1e-9 && (r.high - high).abs() < 1e-9)
    }

    #[test]
    fn a_number_stands_for_all_values_that_round_to_it() {
        assert!(has_bounds(parse_rounded("15.70"), 15.695, 15.705));
        assert!(has_bounds(parse_rounded("3,885.9"), 3885.85, 3885.95));
        assert!(has_bounds(parse_rounded(".00"), 0.0, 0.005));
        assert!(has_bounds(parse_rounded("-2"), -2.5, -1.5));
        assert!(has_bounds(parse_truncated("99"), 98.5, 100.0));
        for bad in ["", ".", "1e3", "1.2.3", "12s", "NaN", "inf", "--1", "+1"] {
            assert_eq!(parse_rounded(bad), None, "{bad}");
        }
    }

    #[test]
    fn ranges_intersect_add_and_divide() {
        let range = |low, high| Range { low, high };
        assert!(range(1.0, 2.0).is_disjoint_from(range(2.1, 3.0)));
        assert!(!range(1.0, 2.0).is_disjoint_from(range(2.0, 3.0)));
        let gap = "a rounding error is not a gap";
        assert!(!range(0.1 + 0.2, 1.0).is_disjoint_from(range(0.0, 0.3)), "{gap}");
        assert!(range(1.0, 2.0).intersection(range(3.0, 4.0)).is_empty());
        assert_eq!(range(1.0, 2.0) / range(4.0, 8.0), range(0.125, 0.5));
        assert_eq!((range(1.0, 2.0) / range(0.0, 8.0)).high, f64::INFINITY);
        assert_eq!((range(1.0, 2.0) + range(1.0, 1.0)).scaled(2.0), range(4.0, 6.0));
        assert!(!range(0.0, f64::INFINITY).is_disjoint_from(range(1e300, f64::INFINITY)));
    }
}
