//! Percentages as option values.

/// A fraction, given as a percentage: `3%` and `3` are 0.03.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(pub f64);

impl std::str::FromStr for Percent {
    type Err = String;

    fn from_str(value: &str) -> Result<Percent, String> {
        let (number, has_sign) = match value.strip_suffix('%') {
            Some(number) => (number.trim_end(), true),
            None => (value, false),
        };
        let percent = number.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
        let percent: f64 =
            percent.ok_or("expected a percentage from 0% to 100%, such as 3% or 0.5%")?;
        if !has_sign && percent > 0.0 && percent < 1.0 {
            return Err(format!(
                "ambiguous: {percent}% or {}%; write the percent sign",
                (percent * 1e6).round() / 1e4
            ));
        }
        Ok(Percent(percent / 100.0))
    }
}

/// Parses `--width`: a percentage that a finite number of trials can reach.
///
/// # Errors
/// A percentage that is invalid or too small.
pub fn parse_width(value: &str) -> Result<Percent, String> {
    const MIN: f64 = 1e-6;
    let width: Percent = value.parse()?;
    match width.0 >= MIN {
        true => Ok(width),
        false => Err(
            "expected a percentage from 0.0001% to 100%, such as 2%; a smaller one takes too many trials"
                .into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_needs_its_sign_only_if_it_could_be_a_fraction() {
        let parse = |value: &str| value.parse().ok().map(|Percent(part)| part);
        assert_eq!(["3%", "0.5 %", "0%"].map(parse), [Some(0.03), Some(0.005), Some(0.0)]);
        assert_eq!(["3", "1", "0"].map(parse), [Some(0.03), Some(0.01), Some(0.0)]);
        assert_eq!(["0.03", "-1%", "101%", "101", "nan%", "%", ""].map(parse), [None; 7]);
        let error = "0.03".parse::<Percent>().unwrap_err();
        assert_eq!(error, "ambiguous: 0.03% or 3%; write the percent sign");
        assert_eq!(parse_width("2"), Ok(Percent(0.02)));
        let error = parse_width("0%").unwrap_err();
        assert!(error.starts_with("expected a percentage from 0.0001% to 100%"), "{error}");
    }
}
