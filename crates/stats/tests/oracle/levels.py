"""Numbers for src/levels.rs; needs scipy (1.17 made them)."""
import numpy as np
from scipy.stats import f_oneway

for groups in ([[10.0, 10.4, 9.8], [12.1, 11.7, 12.0], [9.0, 9.5, 9.4], [10.9, 11.2, 10.6]],
               [[1.0, 2.0, 4.0], [6.0], [3.0, 3.5, 5.0, 2.5]]):
    k, n = len(groups), sum(map(len, groups))
    f, p = f_oneway(*groups)
    within = sum((len(g) - 1) * np.var(g, ddof=1) for g in groups if len(g) > 1) / (n - k)
    size = (n - sum(len(g) ** 2 for g in groups) / n) / (k - 1)
    print("within", within, "between", (f - 1) * within / size, "F", f, "p", p)
