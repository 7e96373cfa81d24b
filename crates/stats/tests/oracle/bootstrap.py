"""Numbers for src/bootstrap.rs and src/describe.rs; needs scipy (1.17 made them)."""
import numpy as np
from scipy.stats import binom, bootstrap

SKEWED = [1.0, 1.1, 1.2, 1.2, 1.3, 1.5, 1.7, 2.0, 2.4, 3.1, 4.5, 7.0]
for method in ("BCa", "percentile"):
    made = bootstrap((SKEWED,), np.mean, method=method, n_resamples=1_000_000, batch=10_000,
                     rng=np.random.default_rng(1))
    print(method, made.confidence_interval)
for n in (5, 6, 10, 30, 100):
    ranks = [(k, 1 - 2 * binom.cdf(k - 1, n, 0.5)) for k in range(1, n // 2 + 1)]
    print("median", n, [r for r in ranks if r[1] >= 0.95][-1:])
