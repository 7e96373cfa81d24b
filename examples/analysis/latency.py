"""The slowest hundredth of each op: fsdyno report RESULT --format csv | python3 latency.py"""

import sys

import pandas as pd

COLUMNS = ["trial_id", "lab_id", "seed", "outcome", "workload", "parameters", "threads", "label", "age", "disk", "kernel", "phase", "op", "count", "p50_ns", "p99_ns"]

lines = pd.read_csv(sys.stdin, usecols=COLUMNS)
lines = lines[lines["outcome"] == "ok"]
# The start of a trial_id is its plan, which tells rows of one label apart; of what they differ in, what there is to see.
lines["plan"] = lines["trial_id"].str.rsplit("-", n=1).str[0]
varies = [name for name in ["parameters", "threads", "age", "disk", "kernel"] if lines[name].nunique(dropna=False) > 1]
keys = ["workload", "phase", "op", "label", *varies]
rows = lines.groupby([*keys, "plan", "lab_id"], dropna=False).agg(
    n=("seed", "nunique"), ops=("count", "median"), p50_us=("p50_ns", "median"), p99_us=("p99_ns", "median")
)
rows[["p50_us", "p99_us"]] /= 1000
print(rows.droplevel(["plan", "lab_id"]).round(1).to_string())
