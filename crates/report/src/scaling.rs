//! Curves of a rate over a number of clients or ranks: the gain at each point, and the knee.

/// The gain per additional client or rank, as a fraction of the average rate per client or rank, below which a curve is
/// past its knee.
const MIN_GAIN: f64 = 0.5;

/// The meaning of a column with the knee.
pub(crate) const KNEE: &str = "beyond it, each further client or rank adds less than half of the average rate per \
     client or rank at this point, even at the favourable ends of the intervals";

/// The position of a point on its curve.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Scaling {
    /// The rate relative to that of the first point, or `None` if the curve has one point.
    pub ratio: Option<f64>,
    /// True if this point is the knee of its curve.
    pub knee: bool,
}

impl Scaling {
    /// Returns the text of a column with the knee.
    pub fn mark(self) -> &'static str {
        if self.knee { "knee" } else { "" }
    }
}

/// A rate, and the half-width of its interval; 0 if that is unknown.
pub(crate) type Rate = (f64, f64);

/// Returns the scaling of points, in their order. Each is a key, a number of clients or ranks, and a rate; points with
/// equal keys form a curve.
pub(crate) fn scaling<K: PartialEq>(points: &[(K, u32, Rate)]) -> Vec<Scaling> {
    let mut scalings = vec![Scaling::default(); points.len()];
    for (index, (key, ..)) in points.iter().enumerate() {
        let is_same = |(_, (other, ..)): &(usize, &(K, u32, Rate))| other == key;
        let mut curve: Vec<(usize, u32, Rate)> = points
            .iter()
            .enumerate()
            .filter(is_same)
            .map(|(place, (_, number, rate))| (place, *number, *rate))
            .collect();
        curve.sort_by_key(|(_, number, _)| *number);
        let (first, _) = curve[0].2;
        let ratio = (curve.len() > 1 && first > 0.0).then(|| points[index].2.0 / first);
        scalings[index] = Scaling { ratio, knee: knee(&curve) == Some(index) };
    }
    scalings
}

/// Returns the first point of a curve after which each additional client or rank adds less than [`MIN_GAIN`] of the
/// average rate per client or rank, even at the favourable ends of both intervals, or `None` if there is no such point.
/// A point is its index, the number of clients or ranks, and the rate.
fn knee(curve: &[(usize, u32, Rate)]) -> Option<usize> {
    curve.windows(2).find_map(|pair| {
        let ((index, few, (low, low_error)), (_, many, (high, high_error))) = (pair[0], pair[1]);
        let average = low / f64::from(few.max(1));
        let gain =
            (high + high_error - low + low_error) / f64::from(many.saturating_sub(few).max(1));
        (gain < MIN_GAIN * average).then_some(index)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_the_point_after_which_more_clients_add_little() {
        let knees = |rates: &[(u32, f64)]| -> Vec<u32> {
            let points: Vec<_> =
                rates.iter().map(|(number, rate)| ((), *number, (*rate, 0.0))).collect();
            let found = scaling(&points).into_iter().zip(rates);
            found.filter(|(scaling, _)| scaling.knee).map(|(_, (number, _))| *number).collect()
        };
        // From 2 to 4 clients, each new client adds half of the previous average; from 4 to 8, next to nothing.
        assert_eq!(knees(&[(4, 30.0), (1, 10.0), (2, 20.0), (8, 31.0)]), [4]);
        assert_eq!(knees(&[(1, 10.0), (2, 19.0), (4, 36.0)]), Vec::<u32>::new());
        assert_eq!(knees(&[(1, 10.0), (2, 12.0)]), [1]);
        let noisy = |error: f64| scaling(&[((), 1, (10.0, error)), ((), 2, (12.0, error))])[0].knee;
        assert!(noisy(1.4) && !noisy(1.6), "the gain may be half of the average");
    }

    #[test]
    fn points_with_another_key_are_on_another_curve() {
        let found = scaling(&[
            ("create", 1, (10.0, 0.0)),
            ("stat", 4, (5.0, 0.0)),
            ("create", 4, (15.0, 0.0)),
            ("stat", 1, (2.0, 0.0)),
        ]);
        let ratios: Vec<Option<f64>> = found.iter().map(|scaling| scaling.ratio).collect();
        assert_eq!(ratios, [Some(1.0), Some(2.5), Some(1.5), Some(1.0)]);
        assert_eq!(scaling(&[("create", 1, (10.0, 0.0))]), [Scaling::default()]);
    }
}
