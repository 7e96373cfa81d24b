//! The growth of a time with size: the exponent of the power of the size that fits best.

use crate::interval::LEVEL;
use crate::student::two_sided_quantile;

/// The exponent of growth: 1 is linear, 2 quadratic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// Number of points.
    pub n: usize,
    /// The exponent b of time = a * size^b.
    pub exponent: f64,
    /// Its 95 % interval, or `None` for two points, which a line always fits exactly.
    pub interval: Option<(f64, f64)>,
    /// Standard error of the exponent, which has n - 2 degrees of freedom, or `None` for two points.
    pub error: Option<f64>,
}

/// Fits (size, time) points by least squares of their logarithms; the interval is that of the slope, t(n - 2) * s /
/// sqrt(Sxx) (Draper and Smith, Applied Regression Analysis, section 1.4).
///
/// `None` for fewer than two different sizes or a value that is not positive.
pub fn exponent(points: &[(f64, f64)]) -> Option<Growth> {
    let is_positive = |v: f64| v > 0.0 && v.is_finite();
    if points.iter().any(|(x, y)| !is_positive(*x) || !is_positive(*y)) {
        return None;
    }
    let n = points.len();
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let mean_x = logs.iter().map(|(x, _)| x).sum::<f64>() / n as f64;
    let mean_y = logs.iter().map(|(_, y)| y).sum::<f64>() / n as f64;
    let sxx: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let sxy: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    // If all sizes are equal, their deviations from the mean are only rounding errors; 1e-20 is far below the sum for
    // sizes that really differ.
    if n < 2 || sxx < 1e-20 {
        return None;
    }
    let slope = sxy / sxx;
    let error = (n > 2).then(|| {
        let rest: f64 = logs.iter().map(|(x, y)| (y - mean_y - slope * (x - mean_x)).powi(2)).sum();
        (rest / (n - 2) as f64 / sxx).sqrt()
    });
    let interval = error.map(|error| {
        let half = two_sided_quantile(LEVEL, (n - 2) as f64) * error;
        (slope - half, slope + half)
    });
    Some(Growth { n, exponent: slope, interval, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_curves_of_2001_are_a_line_and_a_parabola() {
        // Uli Luckas in Phillips' RFC of 2001-02-20: creates of 10,000 to 90,000 files, seconds.
        let fit = |times: [f64; 9]| {
            let points: Vec<(f64, f64)> =
                times.into_iter().enumerate().map(|(i, t)| ((i + 1) as f64 * 1e4, t)).collect();
            exponent(&points).unwrap()
        };
        let indexed = fit([1.350, 2.720, 4.330, 5.890, 7.040, 8.610, 9.980, 12.060, 13.400]);
        let normal =
            fit([23.670, 80.470, 189.320, 348.750, 571.270, 832.250, 1164.070, 1536.730, 1998.550]);
        assert!((indexed.exponent - 1.04).abs() < 0.01, "{indexed:?}");
        assert!((normal.exponent - 2.05).abs() < 0.01, "{normal:?}");
        let (low, high) = normal.interval.unwrap();
        assert!(low > 1.9 && high < 2.2 && low < normal.exponent && normal.exponent < high);
    }

    #[test]
    fn an_exact_power_has_an_interval_of_zero_width() {
        let points: Vec<(f64, f64)> =
            (1..6).map(|x| (f64::from(x), f64::from(x).powi(3))).collect();
        let (low, high) = exponent(&points).unwrap().interval.unwrap();
        assert!((low - 3.0).abs() < 1e-9 && (high - 3.0).abs() < 1e-9);
    }

    #[test]
    fn two_points_have_a_slope_without_an_interval_and_one_size_has_no_slope() {
        let growth = exponent(&[(1.0, 1.0), (2.0, 4.0)]).unwrap();
        assert!((growth.exponent - 2.0).abs() < 1e-12 && growth.interval.is_none());
        assert_eq!(exponent(&[(5.0, 1.0), (5.0, 2.0), (5.0, 3.0)]), None);
        assert_eq!(exponent(&[(0.0, 1.0), (2.0, 4.0)]), None);
    }
}
