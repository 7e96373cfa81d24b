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
    /// Returns whether it can be divided by `by` within the tolerance.
    pub fn takes(&self, by: u64) -> bool {
        match self {
            Whole::Number(number) => {
                let off = divided(*number, by).saturating_mul(by).abs_diff(*number);
                off.saturating_mul(INVERSE_TOLERANCE) <= *number
            }
            Whole::Tree(widths) => levels(widths, by).1 == 1,
        }
    }

    /// Returns the nearest quotient.
    pub fn over(&self, by: u64) -> String {
        match self {
            Whole::Number(number) => divided(*number, by).to_string(),
            Whole::Tree(widths) => {
                let each: Vec<String> =
                    levels(widths, by).0.iter().map(ToString::to_string).collect();
                each.join("/")
            }
        }
    }
}

/// Returns the nearest whole quotient.
pub(super) fn divided(number: u64, by: u64) -> u64 {
    number.saturating_add(by / 2) / by
}

/// Divides the top level by its greatest common divisor with `by`, then the next level by that with the rest, and so
/// on, so that the rest of the tree keeps its shape. Also returns the remaining divisor; 1 if none is left.
fn levels(widths: &Widths, by: u64) -> (Vec<u64>, u64) {
    let mut left = by;
    let each = widths.widths().iter().map(|width| {
        let part = common(*width, left);
        left /= part;
        width / part
    });
    (each.collect(), left)
}

/// Returns the greatest common divisor; at least one of the numbers must not be 0.
fn common(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_be_rounded_a_little() {
        let four = Whole::Number(4);
        assert_eq!([1, 2, 3, 4].map(|by| four.takes(by)), [true, true, false, true]);
        assert!(Whole::Number(725_000).takes(32) && Whole::Number(2_500).takes(6));
        assert_eq!(Whole::Number(2_500).over(6), "417");
        // 50 over 7 is 7.14, and 49 is 2 % less than 50.
        assert!(Whole::Number(50).takes(7) && !Whole::Number(49).takes(10));
        assert!(Whole::Number(0).takes(9));
    }

    #[test]
    fn a_tree_is_divided_from_the_top_and_keeps_its_leaves() {
        let tree: Widths = "30/30/30".parse().unwrap();
        let whole = Whole::Tree(tree.clone());
        for (by, is) in [(10, "3/30/30"), (4, "15/15/30"), (8, "15/15/15"), (60, "1/15/30")] {
            assert!(whole.takes(by), "1/{by}");
            assert_eq!(whole.over(by), is);
            let scaled: Widths = is.parse().unwrap();
            assert_eq!(scaled.leaves() * by, tree.leaves());
        }
        assert!(!whole.takes(7) && !whole.takes(16));
    }
}
