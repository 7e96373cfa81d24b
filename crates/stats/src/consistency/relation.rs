//! Numbers that are quotients, sums or parts of others: a rate of one run (count / time), a share of
//! CPU ((user + system) / elapsed), reads and writes of so many transactions.

use super::range::{Range, above};
use super::{Contradiction, Rule};

/// What is printed against what its parts make.
pub fn equal(place: &str, shown: Range, made: Range) -> Option<Contradiction> {
    shown.misses(made).then(|| Contradiction {
        place: place.into(),
        rule: Rule::NotEqual,
        says: format!("printed is {shown}, but its parts make {made}"),
    })
}

/// A part against its whole (user and system against elapsed), a rate against its limit (what is
/// written against what the platter passes in that time).
pub fn at_most(place: &str, part: Range, whole: Range) -> Option<Contradiction> {
    above(part.low, whole.high).then(|| Contradiction {
        place: place.into(),
        rule: Rule::MoreThanWhole,
        says: format!("{part} is more than {whole} allows"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consistency::printed;

    #[test]
    fn a_share_is_held_against_its_parts_within_their_digits() {
        let of = |text| printed(text).unwrap();
        let share = ((of("54.903") + of("81.789")) / of("618.991")).scaled(100.0);
        assert_eq!(equal("extract", of("22.08"), share), None);
        let found = equal("extract", of("22.09"), share).unwrap();
        assert_eq!((found.place.as_str(), found.rule), ("extract", Rule::NotEqual));
        assert!(found.to_string().contains("22.085 to 22.095"), "{found}");
    }

    #[test]
    fn a_part_may_be_the_whole_and_no_more() {
        let of = |text| printed(text).unwrap();
        assert_eq!(at_most("run", of("47"), of("46.991")), None);
        assert_eq!(at_most("run", of("63"), of("57")).unwrap().rule, Rule::MoreThanWhole);
    }
}
