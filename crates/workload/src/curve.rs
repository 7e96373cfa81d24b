//! The points of a curve: the sizes at which one workload runs, evenly or geometrically spaced.

use std::fmt;
use std::str::FromStr;

use fsdyno_record::Count;

/// Maximum number of points; more must be a typing error.
const MAX_POINTS: usize = 1000;

/// Increasing sizes, at least two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// The given text with its numbers written in full, so that equal plans have equal texts.
    text: String,
    points: Vec<u64>,
}

impl Curve {
    /// Returns the sizes, in increasing order.
    pub fn points(&self) -> &[u64] {
        &self.points
    }

    /// Returns true if every point is from `min` to `max`.
    pub fn is_within(&self, min: u64, max: u64) -> bool {
        self.points.iter().all(|point| (min..=max).contains(point))
    }
}

impl FromStr for Curve {
    type Err = ();

    /// Parses `FROM..TO/STEP`, `FROM..TOxFACTOR` (a whole factor), or the points separated by
    /// commas.
    fn from_str(text: &str) -> Result<Curve, ()> {
        let number = |text: &str| text.parse().map(|Count(number)| number).map_err(drop);
        let (points, text): (Vec<u64>, String) = match text.split_once("..") {
            Some((first, rest)) => {
                let separator = rest.find(['/', 'x']).ok_or(())?;
                let (last, step) = (number(&rest[..separator])?, number(&rest[separator + 1..])?);
                let geometric = rest[separator..].starts_with('x');
                let next = |point: &u64| match geometric {
                    true => point.checked_mul(step),
                    false => point.checked_add(step),
                };
                let is_increasing = if geometric { step > 1 } else { step > 0 };
                let first = number(first)?;
                let valid_first = Some(first).filter(|first| is_increasing && *first > 0);
                let points =
                    std::iter::successors(valid_first, next).take_while(|point| *point <= last);
                let sign = if geometric { 'x' } else { '/' };
                (points.take(MAX_POINTS + 1).collect(), format!("{first}..{last}{sign}{step}"))
            }
            None => {
                let points: Vec<u64> = text.split(',').map(number).collect::<Result<_, ()>>()?;
                let texts: Vec<String> = points.iter().map(u64::to_string).collect();
                (points, texts.join(","))
            }
        };
        let increasing = points.windows(2).all(|pair| pair[0] < pair[1]);
        if !increasing || !(2..=MAX_POINTS).contains(&points.len()) {
            return Err(());
        }
        Ok(Curve { text, points })
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_evenly_or_geometrically_spaced_or_listed() {
        let points = |text: &str| text.parse::<Curve>().map(|curve| curve.points);
        assert_eq!(points("10..40/10"), Ok(vec![10, 20, 30, 40]));
        assert_eq!(points("10..45/10"), Ok(vec![10, 20, 30, 40]));
        assert_eq!(points("100..100000x10"), Ok(vec![100, 1000, 10_000, 100_000]));
        assert_eq!(points("3,5,9"), Ok(vec![3, 5, 9]));
        let shown = |text: &str| text.parse().map(|curve: Curve| curve.to_string());
        assert_eq!(shown("1k..10k/3_000"), Ok("1000..10000/3000".into()));
        assert_eq!(shown("100..1Mx10"), Ok("100..1000000x10".into()));
        assert_eq!(shown("1k,2k"), Ok("1000,2000".into()));
        let invalid = [
            "",
            "10",
            "10..40",
            "10..40/0",
            "10..40x1",
            "40..10/10",
            "0..10/5",
            "5,5",
            "9,3",
            "10..11/5",
            "1..99999/1",
            "a..b/c",
            "10..40/-1",
            "1..18446744073709551615x2x",
        ];
        invalid.iter().for_each(|text| assert_eq!(points(text), Err(()), "{text}"));
    }
}
