//! Variance components: between groups (trials, fresh file systems) and within them (phases of one trial, iterations in
//! one mount).
//!
//! Repeats are needed at the level that varies (Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM
//! 2013). For three levels, compute the split twice: with the means of the lower groups as values, then with the lower
//! groups themselves.

use crate::describe::mean;
use crate::student::incomplete_beta;

/// The variance of values in groups, split into two levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VarianceComponents {
    /// Number of groups.
    pub groups: usize,
    /// Number of values in all groups.
    pub n: usize,
    /// Variance of values within their groups, in the squared unit of the values.
    pub within: f64,
    /// Variance of the groups' means beyond what `within` explains, in the squared unit of the values; at least zero.
    pub between: f64,
    /// True if the estimate of `between` was negative and was set to zero: the groups' means lie
    /// closer together than expected by chance.
    pub clamped: bool,
    /// The share of `between` in the total, 0 to 1 (the intraclass correlation), or `None` if nothing varies.
    pub share: Option<f64>,
    /// The probability of means at least this far apart if all groups are equal (the F test), or `None` if nothing
    /// varies within the groups.
    pub p: Option<f64>,
}

/// Splits the variance by one-way random-effects analysis, for groups of equal or unequal size (Searle, Casella and
/// McCulloch, Variance Components, 1992, chapter 3, the ANOVA estimators).
///
/// `None` for fewer than two groups, an empty group, groups of one value each (whose levels cannot be separated), or a
/// value that is not finite.
pub fn one_way<G: AsRef<[f64]>>(groups: &[G]) -> Option<VarianceComponents> {
    let means = groups.iter().map(|group| mean(group.as_ref())).collect::<Option<Vec<f64>>>()?;
    let sizes: Vec<f64> = groups.iter().map(|group| group.as_ref().len() as f64).collect();
    let n: f64 = sizes.iter().sum();
    let freedom = (groups.len() as f64 - 1.0, n - groups.len() as f64);
    if freedom.0 < 1.0 || freedom.1 < 1.0 {
        return None;
    }
    let grand = means.iter().zip(&sizes).map(|(mean, size)| mean * size).sum::<f64>() / n;
    let between_squares: f64 =
        means.iter().zip(&sizes).map(|(mean, size)| size * (mean - grand).powi(2)).sum();
    let within_squares: f64 = groups
        .iter()
        .zip(&means)
        .map(|(group, mean)| group.as_ref().iter().map(|v| (v - mean).powi(2)).sum::<f64>())
        .sum();
    let (between_mean_square, within) = (between_squares / freedom.0, within_squares / freedom.1);
    let effective_size = (n - sizes.iter().map(|size| size * size).sum::<f64>() / n) / freedom.0;
    let between = (between_mean_square - within) / effective_size;
    let (between, clamped) = (between.max(0.0), between < 0.0);
    let total = within + between;
    Some(VarianceComponents {
        groups: groups.len(),
        n: n as usize,
        within,
        between,
        clamped,
        share: (total > 0.0).then(|| between / total),
        p: (within > 0.0).then(|| f_tail(between_mean_square / within, freedom)),
    })
}

/// Returns P(F > f) for these degrees of freedom (Abramowitz and Stegun 1964, 26.6.2).
fn f_tail(f: f64, (numerator, denominator): (f64, f64)) -> f64 {
    incomplete_beta(denominator / (denominator + numerator * f), denominator / 2.0, numerator / 2.0)
}

impl VarianceComponents {
    /// Returns the number of values per group that gives the narrowest interval in a given time: the square root of
    /// (cost of a new group / cost of one more value) * (within / between) (Kalibera and Jones 2013); at least one.
    ///
    /// Both costs are in the same unit, such as the seconds of mkfs and mount and the seconds of a phase. `None` if
    /// `between` is zero (more values in one group are then as good as more groups) or a cost is not positive.
    pub fn best_per_group(&self, group_cost: f64, value_cost: f64) -> Option<u32> {
        let is_valid = self.between > 0.0 && group_cost > 0.0 && value_cost > 0.0;
        let best = (group_cost / value_cost * self.within / self.between).sqrt();
        is_valid.then(|| best.round().clamp(1.0, f64::from(u32::MAX)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_record::seed;

    #[test]
    fn the_split_matches_the_reference_for_equal_and_unequal_groups() {
        // tests/oracle/levels.py computes F and p by scipy.stats.f_oneway, and the components by explicit sums.
        let equal = [[10.0, 10.4, 9.8], [12.1, 11.7, 12.0], [9.0, 9.5, 9.4], [10.9, 11.2, 10.6]];
        let levels = one_way(&equal).unwrap();
        assert!((levels.within - 0.074_166_67).abs() < 1e-7);
        assert!((levels.between - 1.252_685_19).abs() < 1e-7);
        assert!((levels.p.unwrap() / 1.399_231e-5 - 1.0).abs() < 1e-5);
        let unequal = [vec![1.0, 2.0, 4.0], vec![6.0], vec![3.0, 3.5, 5.0, 2.5]];
        let levels = one_way(&unequal).unwrap();
        assert!((levels.within - 1.633_333_33).abs() < 1e-7);
        assert!((levels.between - 1.461_403_51).abs() < 1e-7);
        assert!((levels.p.unwrap() - 0.131_687).abs() < 1e-5);
        assert_eq!((levels.groups, levels.n, levels.clamped), (3, 8, false));
    }

    #[test]
    fn equal_groups_have_share_0_and_groups_without_inner_spread_have_share_1() {
        let alike = one_way(&[[1.0, 3.0], [3.0, 1.0], [2.0, 2.0]]).unwrap();
        assert_eq!((alike.between, alike.clamped, alike.share), (0.0, true, Some(0.0)));
        assert_eq!(alike.best_per_group(10.0, 1.0), None);
        let rigid = one_way(&[[1.0, 1.0], [2.0, 2.0]]).unwrap();
        assert_eq!((rigid.within, rigid.share, rigid.p), (0.0, Some(1.0), None));
        assert_eq!(rigid.best_per_group(10.0, 1.0), Some(1));
        assert_eq!(one_way(&[[2.0, 2.0], [2.0, 2.0]]).unwrap().share, None);
    }

    #[test]
    fn the_variance_simulated_at_each_level_is_estimated() {
        // Uniform noise of width w has the variance w^2 / 12.
        let mut draws = seed::stream(3, "levels");
        let mut noise = |width: f64| (draws.draw() as f64 / u64::MAX as f64 - 0.5) * width;
        let groups: Vec<Vec<f64>> = (0..2000)
            .map(|_| {
                let own = noise(6.0);
                (0..5).map(|_| own + noise(12.0)).collect()
            })
            .collect();
        let levels = one_way(&groups).unwrap();
        assert!((levels.within - 12.0).abs() < 0.6, "{levels:?}");
        assert!((levels.between - 3.0).abs() < 0.4, "{levels:?}");
        // sqrt(9 * 12 / 3) = 6.
        assert_eq!(levels.best_per_group(9.0, 1.0), Some(6));
    }

    #[test]
    fn inseparable_levels_and_invalid_values_have_no_split() {
        assert_eq!(one_way(&[[1.0], [2.0]]), None);
        assert_eq!(one_way(&[[1.0, 2.0]]), None);
        assert_eq!(one_way(&[vec![1.0, 2.0], vec![]]), None);
        assert_eq!(one_way(&[[1.0, 2.0], [f64::NAN, 1.0]]), None);
    }
}
