//! Divides numbers that must remain whole, within a limit on rounding.

use fsdyno_workload::Widths;

/// Reciprocal of the maximum relative rounding error. A third of four files in a directory would be rounded to
/// one, which is a quarter.
const INVERSE_TOLERANCE: u64 = 50;

/// A number, or the widths of a tree by level.
#[derive(Clone, Debug)]
pub(super) enum Whole {
    Number(u64),
    Tree(Widths),
}

impl Whole {
    /// Returns whether it can be divided by `divisor` within the tolerance.
    pub fn is_divisible(&self, divisor: u64) -> bool {
        match self {
            Whole::Number(number) => {
                let error = divided(*number, divisor).saturating_mul(divisor).abs_diff(*number);
                error.saturating_mul(INVERSE_TOLERANCE) <= *number
            }
            Whole::Tree(widths) => levels(widths, divisor).1 == 1,
        }
    }

    /// Returns the nearest quotient.
    pub fn quotient(&self, divisor: u64) -> String {
        match self {
            Whole::Number(number) => divided(*number, divisor).to_string(),
            Whole::Tree(widths) => {
                let quotients: Vec<String> =
                    levels(widths, divisor).0.iter().map(ToString::to_string).collect();
                quotients.join("/")
            }
        }
    }
}

/// Returns the nearest whole quotient.
pub(super) fn divided(number: u64, divisor: u64) -> u64 {
    number.saturating_add(divisor / 2) / divisor
}

/// Divides the top level by its greatest common divisor with `divisor`, then the next level by that with the remaining
/// divisor, and so on, so that the rest of the tree keeps its shape. Also returns the remaining divisor; 1 if none
/// remains.
fn levels(widths: &Widths, divisor: u64) -> (Vec<u64>, u64) {
    let mut remaining = divisor;
    let quotients = widths.widths().iter().map(|width| {
        let factor = greatest_common_divisor(*width, remaining);
        remaining /= factor;
        width / factor
    });
    (quotients.collect(), remaining)
}

/// Returns the greatest common divisor. At least one of the numbers must not be 0.
fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_be_rounded_a_little() {
        let four = Whole::Number(4);
        assert_eq!(
            [1, 2, 3, 4].map(|divisor| four.is_divisible(divisor)),
            [true, true, false, true]
        );
        assert!(Whole::Number(725_000).is_divisible(32) && Whole::Number(2_500).is_divisible(6));
        assert_eq!(Whole::Number(2_500).quotient(6), "417");
        // 50 over 7 is 7.14, and 49 is 2 % less than 50.
        assert!(Whole::Number(50).is_divisible(7) && !Whole::Number(49).is_divisible(10));
        assert!(Whole::Number(0).is_divisible(9));
    }

    #[test]
    fn a_tree_is_divided_from_the_top_and_keeps_its_leaves() {
        let tree: Widths = "30/30/30".parse().unwrap();
        let whole = Whole::Tree(tree.clone());
        for (divisor, expected) in
            [(10, "3/30/30"), (4, "15/15/30"), (8, "15/15/15"), (60, "1/15/30")]
        {
            assert!(whole.is_divisible(divisor), "1/{divisor}");
            assert_eq!(whole.quotient(divisor), expected);
            let scaled: Widths = expected.parse().unwrap();
            assert_eq!(scaled.leaves() * divisor, tree.leaves());
        }
        assert!(!whole.is_divisible(7) && !whole.is_divisible(16));
    }
}
