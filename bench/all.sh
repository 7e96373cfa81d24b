#!/bin/sh
# All that `make bench` measures, one after the other, and a summary with what was promised.
# all.sh FSDYNO ENGINE VERIFY DIFFERENCES, where the last three are the benches against_bare, against_read and
# false_differences.
#
# A part that fails, or misses its promise, leaves its results and what it said in a folder that is named at the end; the
# others go on.
#
# The instructions of an op in the lab are held to 100 by crates/agent/tests/instructions.rs, the
# 128 MiB guest and equal digits by crates/fsdyno/tests/lab/trials.rs.
set -eu
here=$(dirname "$0")
fsdyno=$1
engine=$2
verify=$3
differences=$4
work=$(mktemp -d)
FSDYNO_BENCH_SUMMARY=$work/summary
: >"$FSDYNO_BENCH_SUMMARY"
# The parts leave their temporary files; what ended well is removed here.
FSDYNO_BENCH_KEEP=yes
export FSDYNO_BENCH_SUMMARY FSDYNO_BENCH_KEEP

# part NAME COMMAND...
part() {
    name=$1
    shift
    mkdir "$work/$name"
    before=$(wc -l <"$FSDYNO_BENCH_SUMMARY")
    { TMPDIR=$work/$name "$@" 2>&1 || : >"$work/$name.failed"; } | tee "$work/$name.log"
    [ ! -e "$work/$name.failed" ] ||
        printf '%-48s could not be measured: %s\n' "$name" "$(tail -n 1 "$work/$name.log")" >>"$FSDYNO_BENCH_SUMMARY"
    tail -n "+$((before + 1))" "$FSDYNO_BENCH_SUMMARY" | grep -q -e 'NOT KEPT' -e 'could not' ||
        rm -rf "${work:?}/$name" "$work/$name.log"
}

part engine "$engine" --bench
part verify "$verify" --bench
part differences "$differences" --bench
part tools "$here/tools.sh" "$engine"
part snapshot "$here/first_op.sh" "$fsdyno" 1 snapshot
for bench in first_op jobs dir_index instructions demo lab_vs_host page record replay why; do
    part "$bench" "$here/$bench.sh" "$fsdyno"
done
# A small form, of which only counts are told: docs/statistics.md says how many it takes for the promise, and what came
# of them.
part honesty "$here/honesty.sh" "$fsdyno" "$work/honesty" 10 2 20
echo
echo "summary"
cat "$FSDYNO_BENCH_SUMMARY"
if grep -q -e 'NOT KEPT' -e 'could not' "$FSDYNO_BENCH_SUMMARY"; then
    echo "what these parts had and said is kept in $work" >&2
    exit 1
fi
rm -rf "$work"
