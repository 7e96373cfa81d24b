//! Formatting of numbers, with three digits and one unit, and of untrusted text.

use fsdyno_record::Nanos;

/// Seconds as a duration with its unit.
pub fn seconds(value: f64) -> String {
    Nanos((value * 1e9).round().max(0.0) as u64).to_string()
}

/// A rate or count with three digits and `k`, `M` or `G` (powers of 1000).
pub fn format_scaled(value: f64) -> String {
    let mut scaled = value;
    let mut unit = "";
    for next in ["k", "M", "G"] {
        // 999.5 would be shown as 1000.
        if scaled < 999.5 {
            break;
        }
        scaled /= 1000.0;
        unit = next;
    }
    if unit.is_empty() && value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    let digits = if scaled < 9.995 {
        2
    } else if scaled < 99.95 {
        1
    } else {
        0
    };
    format!("{scaled:.digits$}{unit}")
}

/// A count with thousands separators: `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub use fsdyno_record::units::counted;

/// A share as a percentage with two digits: `0.4 %`, `12 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent != 0.0 && percent < 0.01 {
        return "<0.01 %".into();
    }
    // The limits allow for rounding: 0.0997 is shown as 0.1, as is 0.1003.
    let digits = if percent != 0.0 && percent < 0.095 {
        2
    } else if percent < 9.95 {
        1
    } else {
        0
    };
    format!("{percent:.digits$} %")
}

/// A difference that the user set, as a percentage with all its digits: `1 %`, `0.5 %`.
pub fn difference(share: f64) -> String {
    format!("{} %", format_significant(share * 100.0, 4))
}

/// The smallest number that is written with an exponent: `1e15`.
const MIN_EXPONENTIAL: f64 = 1e15;

/// A number with `digits` significant digits and no trailing zeros, without decimals if all digits are before the
/// decimal point; very small and very large numbers are written as `3.48e-5`.
pub fn format_significant(value: f64, digits: usize) -> String {
    let size = value.abs();
    let trim_zeros = |text: &str| {
        let text = if text.contains('.') { text.trim_end_matches('0') } else { text };
        text.trim_end_matches('.').to_string()
    };
    // This form is rounded before its exponent is taken, so 999.96 has the exponent of 1000.
    let scientific = format!("{value:.*e}", digits.saturating_sub(1));
    let Some((front, exponent)) = scientific.split_once('e') else { return scientific };
    if size != 0.0 && !(0.0001..MIN_EXPONENTIAL).contains(&size) {
        return format!("{}e{exponent}", trim_zeros(front));
    }
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
    trim_zeros(&format!("{value:.decimals$}"))
}

/// A ratio of times: `1.00` for the base itself, `2.31x` or `0.43x` for other rows.
pub fn format_ratio(ratio: f64) -> String {
    if ratio == 1.0 {
        return "1.00".into();
    }
    let digits = match ratio {
        // Two significant digits for any size, so that no ratio is shown as zero.
        r if r > 0.0 && !(0.00995..MIN_EXPONENTIAL).contains(&r) => {
            return format!("{}x", format_significant(ratio, 2));
        }
        r if r < 0.0995 => 3,
        r if r < 9.995 => 2,
        r if r < 99.95 => 1,
        _ => 0,
    };
    format!("{ratio:.digits$}x")
}

/// Untrusted text made safe for a terminal: a label must not move the cursor, hide a line, or change the
/// direction of text (Unicode's bidirectional formatting, UAX 9).
pub fn sanitize(text: &str) -> String {
    let is_bidi = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if c.is_control() || is_bidi(c) { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_keep_three_digits_across_units() {
        let shown = [0.5, 7.0, 42.26, 999.6, 8123.0, 81_230.0, 1_234_567.0].map(format_scaled);
        assert_eq!(shown, ["0.50", "7", "42.3", "1.00k", "8.12k", "81.2k", "1.23M"]);
    }

    #[test]
    fn counts_separate_thousands() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn one_is_singular() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "run")), ["0 runs", "1 run", "2 runs"]);
    }

    #[test]
    fn a_percentage_other_than_zero_is_never_shown_as_zero() {
        assert_eq!(
            [0.0, 0.00001, 0.0005, 0.000_94, 0.000_97, 0.001_02, 0.004, 0.12].map(percent),
            ["0.0 %", "<0.01 %", "0.05 %", "0.09 %", "0.1 %", "0.1 %", "0.4 %", "12 %"]
        );
    }

    #[test]
    fn only_the_base_has_a_ratio_without_an_x() {
        let shown = [1.0, 1.0001, 0.999, 0.432, 0.0432, 2.314, 23.14, 231.4].map(format_ratio);
        let expected = ["1.00", "1.00x", "1.00x", "0.43x", "0.043x", "2.31x", "23.1x", "231x"];
        assert_eq!(shown, expected);
        let extreme = [0.0051, 0.00012, 3.4e-7, 1e300].map(format_ratio);
        assert_eq!(extreme, ["0.0051x", "0.00012x", "3.4e-7x", "1e300x"]);
    }

    #[test]
    fn a_label_cannot_control_the_terminal() {
        assert_eq!(sanitize("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(sanitize("ü\u{202e}b"), "ü\u{fffd}b");
    }
}
