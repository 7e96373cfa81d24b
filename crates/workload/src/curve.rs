//! The points of a curve: sizes at which one workload is run, evenly or geometrically apart.

use std::fmt;
use std::str::FromStr;

/// More points than this would be a mistake of typing.
const MOST: usize = 1000;

/// Rising sizes, two at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    typed: String,
    points: Vec<u64>,
}

impl Curve {
    /// The sizes, rising.
    pub fn points(&self) -> &[u64] {
        &self.points
    }

    /// Whether every point lies within bounds.
    pub fn within(&self, min: u64, max: u64) -> bool {
        self.points.iter().all(|point| (min..=max).contains(point))
    }
}

impl FromStr for Curve {
    type Err = ();

    /// `FROM..TO/STEP`, `FROM..TOxFACTOR` (a whole factor), or the points themselves with commas.
    fn from_str(typed: &str) -> Result<Curve, ()> {
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse::<u64>().map_err(drop),
            false => Err(()),
        };
        let points: Vec<u64> = match typed.split_once("..") {
            Some((from, rest)) => {
                let at = rest.find(['/', 'x']).ok_or(())?;
                let (to, by) = (number(&rest[..at])?, number(&rest[at + 1..])?);
                let geometric = rest[at..].starts_with('x');
                let next = |point: &u64| match geometric {
                    true => point.checked_mul(by),
                    false => point.checked_add(by),
                };
                let grows = if geometric { by > 1 } else { by > 0 };
                let first = Some(number(from)?).filter(|from| grows && *from > 0);
                std::iter::successors(first, next)
                    .take_while(|point| *point <= to)
                    .take(MOST + 1)
                    .collect()
            }
            None => typed.split(',').map(number).collect::<Result<_, ()>>()?,
        };
        let rising = points.windows(2).all(|pair| pair[0] < pair[1]);
        if !rising || !(2..=MOST).contains(&points.len()) {
            return Err(());
        }
        Ok(Curve { typed: typed.to_string(), points })
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.typed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_evenly_or_geometrically_apart_or_as_they_are_typed() {
        let points = |typed: &str| typed.parse::<Curve>().map(|curve| curve.points);
        assert_eq!(points("10..40/10"), Ok(vec![10, 20, 30, 40]));
        assert_eq!(points("10..45/10"), Ok(vec![10, 20, 30, 40]));
        assert_eq!(points("100..100000x10"), Ok(vec![100, 1000, 10_000, 100_000]));
        assert_eq!(points("3,5,9"), Ok(vec![3, 5, 9]));
        let wrong = [
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
        wrong.iter().for_each(|typed| assert_eq!(points(typed), Err(()), "{typed}"));
    }
}
