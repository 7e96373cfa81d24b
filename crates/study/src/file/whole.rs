//! What a scale makes of numbers that have to be whole, and when that is too far from what was asked.

use fsdyno_workload::Widths;

/// How much of itself rounding may add to a number or take from it: 1/50. Of four files in a directory 1/3
/// would be one, which is a quarter.
const ROUNDED: u64 = 50;

/// A number, or a tree's directories by level.
#[derive(Clone, Debug)]
pub(super) enum Whole {
    Number(u64),
    Tree(Widths),
}

impl Whole {
    /// Whether it can be divided by this.
    pub fn takes(&self, by: u64) -> bool {
        match self {
            Whole::Number(number) => {
                let off = divided(*number, by).saturating_mul(by).abs_diff(*number);
                off.saturating_mul(ROUNDED) <= *number
            }
            Whole::Tree(widths) => levels(widths, by).1 == 1,
        }
    }

    /// It over this number, the nearest there is.
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

/// A number at a scale: the nearest whole one.
pub(super) fn divided(number: u64, by: u64) -> u64 {
    number.saturating_add(by / 2) / by
}

/// What divides the scale is taken out of the top level, then out of the next: the rest of the tree keeps its
/// shape. Beside it what is left of the scale, 1 if nothing is.
fn levels(widths: &Widths, by: u64) -> (Vec<u64>, u64) {
    let mut left = by;
    let each = widths.each().iter().map(|width| {
        let part = common(*width, left);
        left /= part;
        width / part
    });
    (each.collect(), left)
}

/// The largest number that divides both; at least one of them is not 0.
fn common(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_whole_where_rounding_hardly_moves_it() {
        let four = Whole::Number(4);
        assert_eq!([1, 2, 3, 4].map(|by| four.takes(by)), [true, true, false, true]);
        assert!(Whole::Number(725_000).takes(32) && Whole::Number(2_500).takes(6));
        assert_eq!(Whole::Number(2_500).over(6), "417");
        // 50 over 7 is 7.14, and 49 is 2 % less than 50.
        assert!(Whole::Number(50).takes(7) && !Whole::Number(49).takes(10));
        assert!(Whole::Number(0).takes(9));
    }

    #[test]
    fn a_tree_is_divided_from_the_top_and_keeps_every_leaf_as_it_is() {
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
