//! Finds outliers: values far from the others, which are reported but never dropped.

use crate::describe::{median_of_sorted, sorted};

/// The distance of the inner fences from the hinges, as a multiple of the distance between the hinges (Tukey,
/// Exploratory Data Analysis, 1977, chapter 2): 0.7 % of normal values lie further out.
pub const INNER_FENCE: f64 = 1.5;

/// The same distance for the outer fences: Tukey (1977) calls values beyond them "far out".
pub const OUTER_FENCE: f64 = 3.0;

/// One value beyond the fences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlier {
    /// Index in the values as given.
    pub index: usize,
    /// The value.
    pub value: f64,
    /// True if the value also lies beyond an outer fence.
    pub far: bool,
}

/// The fences of some values, in their unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fences {
    /// The lower and the upper hinge: the medians of the two halves.
    pub hinges: (f64, f64),
    /// The fences at [`INNER_FENCE`] below and above the hinges.
    pub inner: (f64, f64),
    /// The fences at [`OUTER_FENCE`] below and above the hinges.
    pub outer: (f64, f64),
}

/// Returns Tukey's fences; the median belongs to both halves if n is odd (Tukey 1977).
///
/// `None` for fewer than five values, for which a hinge hardly differs from the extreme, or for a value that is not
/// finite.
pub fn fences(values: &[f64]) -> Option<Fences> {
    let sorted = sorted(values).filter(|sorted| sorted.len() >= 5)?;
    let half = sorted.len().div_ceil(2);
    let low = median_of_sorted(&sorted[..half]);
    let high = median_of_sorted(&sorted[sorted.len() - half..]);
    let fences_at = |multiple: f64| (low - multiple * (high - low), high + multiple * (high - low));
    Some(Fences {
        hinges: (low, high),
        inner: fences_at(INNER_FENCE),
        outer: fences_at(OUTER_FENCE),
    })
}

/// Returns the values beyond the inner fences, in the order given; none if there are too few values for [`fences`].
///
/// If the middle half does not vary, every value that differs from it lies beyond the fences.
pub fn outliers(values: &[f64]) -> Vec<Outlier> {
    let Some(fences) = fences(values) else { return Vec::new() };
    let is_beyond = |(low, high): (f64, f64), value: f64| value < low || value > high;
    let found = values.iter().enumerate().filter(|(_, value)| is_beyond(fences.inner, **value));
    found
        .map(|(index, value)| Outlier {
            index,
            value: *value,
            far: is_beyond(fences.outer, *value),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hinges_and_fences_match_a_worked_example() {
        // 1 to 9: halves 1..5 and 5..9, hinges 3 and 7, fences 1.5 * 4 and 3 * 4 beyond.
        let values: Vec<f64> = (1..10).map(f64::from).collect();
        let fences = fences(&values).unwrap();
        assert_eq!(fences.hinges, (3.0, 7.0));
        assert_eq!((fences.inner, fences.outer), ((-3.0, 13.0), (-9.0, 19.0)));
        assert!(outliers(&values).is_empty());
    }

    #[test]
    fn one_value_beyond_each_fence_is_reported_with_its_index() {
        let values = [14.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, -40.0];
        // Halves of six: hinges 2.5 and 7.5, inner fences -5 and 15, outer -12.5 and 22.5.
        let far = Outlier { index: 10, value: -40.0, far: true };
        assert_eq!(outliers(&values), [far]);
        let mut near = values;
        near[0] = 15.5;
        assert_eq!(outliers(&near), [Outlier { index: 0, value: 15.5, far: false }, far]);
    }

    #[test]
    fn a_misprinted_run_is_found_among_ten() {
        // Layton's 4665.50 +- 1399.38 is nine runs of about 5130 and one of about 467.
        let runs = [5130.0, 5120.0, 5140.0, 5131.0, 5129.0, 467.0, 5133.0, 5127.0, 5136.0, 5124.0];
        assert_eq!(outliers(&runs), [Outlier { index: 5, value: 467.0, far: true }]);
    }

    #[test]
    fn too_few_values_have_no_fences() {
        assert!(fences(&[1.0, 2.0, 3.0, 100.0]).is_none());
        assert!(outliers(&[1.0, 2.0, 3.0, 4.0, f64::NAN]).is_empty());
        assert_eq!(outliers(&[2.0, 2.0, 2.0, 2.0, 2.1]).len(), 1);
    }
}
