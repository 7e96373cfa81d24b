"""The slowest hundredth of each op: fsdyno report RESULT --format csv | python3 latency.py"""

import sys

import pandas as pd

COLUMNS = ["seed", "outcome", "workload", "label", "phase", "op", "count", "p50_ns", "p99_ns"]

lines = pd.read_csv(sys.stdin, usecols=COLUMNS)
lines = lines[lines["outcome"] == "ok"]
rows = lines.groupby(["workload", "phase", "op", "label"]).agg(
    n=("seed", "nunique"), ops=("count", "median"), p50_us=("p50_ns", "median"), p99_us=("p99_ns", "median")
)
rows[["p50_us", "p99_us"]] /= 1000
print(rows.round(1).to_string())
