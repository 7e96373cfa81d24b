"""Ops a second and what was dirty, in tenths of each phase, over all seeds:

fsdyno show series RESULT --format csv | python3 over_time.py
"""

import sys

import pandas as pd

COLUMNS = ["trial_id", "lab_id", "seed", "workload", "label", "phase", "from_ns", "to_ns", "ops", "dirty_bytes"]

lines = pd.read_csv(sys.stdin, usecols=COLUMNS, dtype={"lab_id": str})
# Rows of one label that differ in disk, kernel or age are told apart by their plan, the start of the trial_id.
plan = lines["trial_id"].str.rsplit("-", n=1).str[0].str[:6] + " " + lines["lab_id"].fillna("").str[:6]
plans = lines.assign(plan=plan).groupby(["workload", "label"])["plan"].transform("nunique")
lines["row"] = lines["label"].where(plans == 1, lines["label"] + " " + plan)
of_trial = lines.groupby(["workload", "row", "phase", "trial_id"])
length = of_trial["to_ns"].transform("max")
lines["tenth"] = (10 * lines["from_ns"] / length).astype(int) + 1
lines["seconds"] = (lines["to_ns"] - lines["from_ns"]) / 1e9
rows = lines.groupby(["workload", "phase", "row", "tenth"]).agg(
    ops=("ops", "sum"), seconds=("seconds", "sum"), dirty_MiB=("dirty_bytes", "max")
)
rows["ops_s"] = rows["ops"] / rows["seconds"]
rows["dirty_MiB"] /= 1 << 20
print(rows[["ops_s", "dirty_MiB"]].unstack("row").round(1).to_string())
