//! Quantiles of Student's t distribution for any positive real number of degrees of freedom.

/// Returns the `t` such that a Student variable with `df` degrees of freedom is within -t and t with probability
/// `level` (0.95 gives the familiar 12.71, 4.30, 3.18 for 1, 2, 3 degrees of freedom).
///
/// NaN if `df` is not positive or `level` is not between 0 and 1.
pub fn two_sided_quantile(level: f64, df: f64) -> f64 {
    if !(df > 0.0 && level > 0.0 && level < 1.0) {
        return f64::NAN;
    }
    let tail = 1.0 - level;
    let mut high = 1.0;
    while two_sided_tail(high, df) > tail && high < 1e300 {
        high *= 2.0;
    }
    let mut low = 0.0;
    // Bisection cannot diverge, and 120 halvings exceed the 53 bits of the result. It ends when no floating-point
    // number is left between the two.
    for _ in 0..120 {
        let middle = (low + high) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if two_sided_tail(middle, df) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// Returns P(|T| > t) for `df` degrees of freedom: I_x(df/2, 1/2) with x = df / (df + t^2) (Abramowitz and Stegun 1964,
/// 26.7.1 with 26.5.27).
pub fn two_sided_tail(t: f64, df: f64) -> f64 {
    incomplete_beta(df / (df + t * t), df / 2.0, 0.5)
}

/// Computes the regularized incomplete beta function I_x(a, b).
pub(crate) fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast below this point; above it the symmetry
    // I_x(a, b) = 1 - I_{1-x}(b, a) applies (DLMF 8.17.4 and 8.17(v)).
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let ln_beta = ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b);
    let prefactor = (a * x.ln() + b * (1.0 - x).ln() - ln_beta).exp();
    prefactor / a / beta_fraction(x, a, b)
}

/// Evaluates the continued fraction of DLMF 8.17.22 from the front by the modified Lentz method (Thompson and Barnett
/// 1986).
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let keep_off_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut value = 1.0;
    let mut c = 1.0;
    let mut d = 0.0;
    for step in 1..=10_000u32 {
        let m = f64::from(step / 2);
        let coefficient = if step % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        d = 1.0 / keep_off_zero(1.0 + coefficient * d);
        c = keep_off_zero(1.0 + coefficient / c);
        value *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

/// Computes the logarithm of the gamma function for positive `z`: Stirling's series (DLMF 5.11.1), after the recurrence
/// has raised `z` to 12 or more, where six terms leave an error below 1e-16.
fn ln_gamma(z: f64) -> f64 {
    let mut lifted = z;
    let mut product = 1.0;
    while lifted < 12.0 {
        product *= lifted;
        lifted += 1.0;
    }
    // B_2k / (2k (2k - 1)) for k = 1..6, B being the Bernoulli numbers.
    const TERMS: [f64; 6] =
        [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360_360.0];
    let square = lifted * lifted;
    let series = TERMS.iter().rev().fold(0.0, |sum, term| sum / square + term) / lifted;
    let half_ln_2pi = (2.0 * std::f64::consts::PI).ln() / 2.0;
    (lifted - 0.5) * lifted.ln() - lifted + half_ln_2pi + series - product.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{ContinuousCDF, StudentsT};

    #[test]
    fn quantiles_match_statrs() {
        for level in [0.5, 0.9, 0.95, 0.99, 0.999] {
            for df in [1.0, 1.5, 2.0, 3.0, 4.7, 9.0, 29.0, 100.0, 1000.0, 100_000.0] {
                let ours = two_sided_quantile(level, df);
                let reference = StudentsT::new(0.0, 1.0, df).unwrap();
                // Checked with statrs' distribution function, which is exact, whereas its inverse is rough.
                let covered = 2.0 * reference.cdf(ours) - 1.0;
                assert!((covered - level).abs() < 1e-9, "{level} {df}: {ours} covers {covered}");
            }
        }
    }

    #[test]
    fn quantiles_match_the_printed_tables() {
        // Abramowitz and Stegun 1964, table 26.10, A = 0.95.
        for (df, t) in [(1.0, 12.706), (2.0, 4.303), (4.0, 2.776), (10.0, 2.228), (120.0, 1.980)] {
            assert!((two_sided_quantile(0.95, df) - t).abs() < 5e-4);
        }
    }

    #[test]
    fn invalid_arguments_have_no_quantile() {
        assert!(two_sided_quantile(0.95, 0.0).is_nan());
        assert!(two_sided_quantile(1.0, 5.0).is_nan());
    }
}
