//! Holm's correction for multiple tests: p-values adjusted so that a false alarm anywhere in a table stays rare.

/// Returns Holm's adjusted p-values, in the order given: of m p-values, the smallest is multiplied by m, the next by
/// m - 1, and so on; none is below the previous one or above 1 (Holm, "A simple sequentially rejective multiple test
/// procedure", Scandinavian Journal of Statistics 6, 1979). If values below 0.05 are called significant, the
/// probability of at least one false alarm in the whole table is at most 5 %, however the tests depend on each other.
///
/// A value that is not a p-value (NaN, below 0, above 1) counts as 1.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let valid_p = |index: &usize| if (0.0..=1.0).contains(&p[*index]) { p[*index] } else { 1.0 };
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| valid_p(a).total_cmp(&valid_p(b)));
    let mut adjusted = vec![1.0; p.len()];
    let mut floor = 0.0f64;
    for (rank, index) in order.iter().enumerate() {
        floor = floor.max(valid_p(index) * (p.len() - rank) as f64).min(1.0);
        adjusted[*index] = floor;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_table_of_five_matches_the_adjustment_by_hand() {
        // 5 x .010, 4 x .013 (.052), 3 x .014 (.042, raised to .052), 2 x .19, 1 x .35 (to .38).
        let adjusted = holm(&[0.014, 0.010, 0.35, 0.19, 0.013]);
        for (got, by_hand) in adjusted.iter().zip([0.052, 0.050, 0.38, 0.38, 0.052]) {
            assert!((got - by_hand).abs() < 1e-12, "{adjusted:?}");
        }
    }

    #[test]
    fn a_single_p_is_unchanged_and_an_invalid_one_counts_as_1() {
        assert_eq!(holm(&[0.03]), [0.03]);
        assert_eq!(holm(&[f64::NAN, 0.01, 7.0]), [1.0, 0.03, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn adjusted_p_values_are_never_lower_keep_their_order_and_do_not_exceed_bonferroni(
            p in prop::collection::vec(0.0..=1.0f64, 1..30),
        ) {
            let adjusted = holm(&p);
            for (i, a) in adjusted.iter().enumerate() {
                prop_assert!(*a >= p[i] && *a <= (p[i] * p.len() as f64).min(1.0));
                for (j, b) in adjusted.iter().enumerate() {
                    prop_assert!(p[i] > p[j] || a <= b);
                }
            }
        }
    }
}
