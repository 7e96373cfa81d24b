"""Numbers for src/permutation.rs; needs scipy (1.17 made them)."""
import numpy as np
from scipy.stats import permutation_test

BASE = np.log([10.0, 10.4, 9.8, 10.1, 10.2, 9.9])
NEW = np.log([10.3, 10.6, 10.15, 10.5, 10.05])
two = permutation_test((BASE, NEW), lambda a, b: abs(a.mean() - b.mean()),
                       alternative="greater", n_resamples=np.inf)
print("two samples", repr(two.pvalue))
# permutation_type="samples" exchanges the two of each pair: a change of sign.
pairs = permutation_test((BASE[:5], NEW), lambda a, b: abs((b - a).mean()),
                         permutation_type="samples", alternative="greater", n_resamples=np.inf)
print("pairs", repr(pairs.pvalue))
