#!/bin/sh
# All that `make bench` measures, one after the other, and a summary with what was promised.
# all.sh FSDYNO ENGINE, where ENGINE is the against_bare binary of cargo bench.
#
# Engine against bare loop is printed as it comes: its promise is a ratio of rates of at least 0.95
# for each of create, stat and unlink. The instructions in the lab are held to 150 by
# crates/agent/tests/instructions.rs, the 128 MiB guest and equal digits by crates/fsdyno/tests/lab.rs.
set -eu
here=$(dirname "$0")
fsdyno=$1
engine=$2
FSDYNO_BENCH_SUMMARY=$(mktemp)
export FSDYNO_BENCH_SUMMARY
trap 'rm -f "$FSDYNO_BENCH_SUMMARY"' EXIT
"$engine" --bench
"$here/instructions.sh" "$engine"
for bench in first_op dir_index demo; do
    "$here/$bench.sh" "$fsdyno" || printf '%-48s could not be measured\n' "$bench" >>"$FSDYNO_BENCH_SUMMARY"
done
echo
echo "summary"
cat "$FSDYNO_BENCH_SUMMARY"
! grep -q -e 'NOT KEPT' -e 'could not' "$FSDYNO_BENCH_SUMMARY"
