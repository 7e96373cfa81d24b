"""Numbers for src/drift.rs and src/warmup.rs; needs scipy (1.17 made them)."""
from math import sqrt

import numpy as np
from scipy.stats import kendalltau, norm, t, theilslopes

RISING = [10.0, 10.3, 10.1, 10.6, 10.5, 10.9, 11.2, 10.8, 11.4, 11.3]
print(kendalltau(range(10), RISING, method="exact"), theilslopes(RISING, alpha=0.95))

tied = [1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 1.5]
s = sum(int(np.sign(b - a)) for i, a in enumerate(tied) for b in tied[i + 1:])
n = len(tied)
sizes = np.unique(tied, return_counts=True)[1]
variance = (n * (n - 1) * (2 * n + 5) - sum(k * (k - 1) * (2 * k + 5) for k in sizes)) / 18
print("tied", s, variance, 2 * norm.sf((abs(s) - 1) / sqrt(variance)))

runs = [12.0, 10.0, 10.2, 9.9, 10.1, 10.3]
rest = runs[1:]
error = np.std(rest, ddof=1) * sqrt(1 + 1 / len(rest))
difference = runs[0] - np.mean(rest)
half = t.ppf(0.975, len(rest) - 1) * error
print("warm-up", difference, difference - half, difference + half,
      2 * t.sf(abs(difference / error), len(rest) - 1))
