"""Numbers for src/power.rs; needs scipy (1.17 made them).

The n by the noncentral t distribution itself, which the product's formula approximates.
"""
from math import sqrt

from scipy.stats import nct, t

ALPHA = 0.05


def power(n, noncentrality, freedom):
    edge = t.ppf(1 - ALPHA / 2, freedom)
    return nct.sf(edge, freedom, noncentrality) + nct.cdf(-edge, freedom, noncentrality)


def pairs(size, wanted):
    n = 2
    while power(n, size * sqrt(n), n - 1) < wanted:
        n += 1
    return n


def per_side(size, wanted):
    n = 2
    while power(n, size * sqrt(n / 2), 2 * n - 2) < wanted:
        n += 1
    return n


for wanted in (0.8, 0.95):
    for size in (3.0, 2.0, 1.5, 1.0, 0.5, 0.2):
        print(wanted, size, pairs(size, wanted), per_side(size, wanted))
