"""Numbers for src/compare.rs; needs scipy (1.17 made them)."""
import numpy as np
from scipy.stats import ttest_ind, ttest_rel

BASE = np.log([10.0, 10.4, 9.8, 10.1, 10.2])
NEW = np.log([10.3, 10.6, 10.15, 10.5, 10.05])
print("paired", repr(ttest_rel(NEW, BASE).pvalue))
welch = ttest_ind(NEW, BASE, equal_var=False)
print("welch", repr(welch.pvalue), np.exp(welch.confidence_interval(0.95)).tolist())
