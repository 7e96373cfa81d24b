"""Ops a second and what was dirty, in tenths of each phase, over all seeds:

fsdyno show series RESULT --format csv | python3 over_time.py
"""

import sys

import pandas as pd

COLUMNS = ["seed", "workload", "label", "phase", "from_ns", "to_ns", "ops", "dirty_bytes"]

lines = pd.read_csv(sys.stdin, usecols=COLUMNS)
of_trial = lines.groupby(["workload", "label", "phase", "seed"])
length = of_trial["to_ns"].transform("max")
lines["tenth"] = (10 * lines["from_ns"] / length).astype(int) + 1
lines["seconds"] = (lines["to_ns"] - lines["from_ns"]) / 1e9
rows = lines.groupby(["workload", "phase", "label", "tenth"]).agg(
    ops=("ops", "sum"), seconds=("seconds", "sum"), dirty_MiB=("dirty_bytes", "max")
)
rows["ops_s"] = rows["ops"] / rows["seconds"]
rows["dirty_MiB"] /= 1 << 20
print(rows[["ops_s", "dirty_MiB"]].unstack("label").round(1).to_string())
