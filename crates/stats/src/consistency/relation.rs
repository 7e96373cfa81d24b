//! Checks numbers that are quotients, sums or parts of others: the rate of one run (count / time), a share of CPU time
//! ((user + system) / elapsed), or the reads and writes that add up to the transactions.

use super::range::{Range, above};
use super::{Contradiction, Rule};

/// Compares a printed number with the result computed from its parts.
pub fn check_equal(name: &str, shown: Range, computed: Range) -> Option<Contradiction> {
    shown.is_disjoint_from(computed).then(|| Contradiction {
        name: name.into(),
        rule: Rule::NotEqual,
        message: format!("{shown} is printed, but its parts give {computed}"),
    })
}

/// Compares a part with its whole (user and system with elapsed) or a rate with its limit (bytes written with the bytes
/// that the platter can transfer in that time).
pub fn check_at_most(name: &str, part: Range, whole: Range) -> Option<Contradiction> {
    above(part.low, whole.high).then(|| Contradiction {
        name: name.into(),
        rule: Rule::MoreThanWhole,
        message: format!("{part} is more than {whole} allows"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consistency::parse_rounded;

    #[test]
    fn a_share_is_compared_with_its_parts_within_their_rounding() {
        let rounded = |text| parse_rounded(text).unwrap();
        let share = ((rounded("54.903") + rounded("81.789")) / rounded("618.991")).scaled(100.0);
        assert_eq!(check_equal("extract", rounded("22.08"), share), None);
        let found = check_equal("extract", rounded("22.09"), share).unwrap();
        assert_eq!((found.name.as_str(), found.rule), ("extract", Rule::NotEqual));
        assert!(found.to_string().contains("22.085 to 22.095"), "{found}");
    }

    #[test]
    fn a_part_may_equal_the_whole_but_not_exceed_it() {
        let rounded = |text| parse_rounded(text).unwrap();
        assert_eq!(check_at_most("run", rounded("47"), rounded("46.991")), None);
        assert_eq!(
            check_at_most("run", rounded("63"), rounded("57")).unwrap().rule,
            Rule::MoreThanWhole
        );
    }
}
