#!/bin/sh
# All that `make bench` measures, one after the other, and a summary with what was promised.
# all.sh FSDYNO ENGINE VERIFY, where the last two are the benches against_bare and against_read.
#
# The instructions of an op in the lab are held to 100 by crates/agent/tests/instructions.rs, the
# 128 MiB guest and equal digits by crates/fsdyno/tests/lab.rs.
set -eu
here=$(dirname "$0")
fsdyno=$1
engine=$2
verify=$3
FSDYNO_BENCH_SUMMARY=$(mktemp)
export FSDYNO_BENCH_SUMMARY
trap 'rm -f "$FSDYNO_BENCH_SUMMARY"' EXIT
"$engine" --bench
"$verify" --bench
"$here/tools.sh" "$engine" || printf '%-48s could not be measured\n' tools >>"$FSDYNO_BENCH_SUMMARY"
"$here/first_op.sh" "$fsdyno" 1 snapshot || printf '%-48s could not be measured\n' snapshot >>"$FSDYNO_BENCH_SUMMARY"
for bench in first_op jobs dir_index instructions demo lab_vs_host page; do
    "$here/$bench.sh" "$fsdyno" || printf '%-48s could not be measured\n' "$bench" >>"$FSDYNO_BENCH_SUMMARY"
done
# A small form: docs/statistics.md says how many it takes for the promise, and what came of them.
honest=$(mktemp -d)
"$here/honesty.sh" "$fsdyno" "$honest" 12 4 20 || printf '%-48s could not be measured\n' honesty >>"$FSDYNO_BENCH_SUMMARY"
rm -rf "$honest"
echo
echo "summary"
cat "$FSDYNO_BENCH_SUMMARY"
! grep -q -e 'NOT KEPT' -e 'could not' "$FSDYNO_BENCH_SUMMARY"
