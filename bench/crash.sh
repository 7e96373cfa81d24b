#!/bin/bash
# 1,000 power cuts of a trial of 2,000 files on each file system: whether anything acknowledged is lost (never),
# and how long that takes on two processors (at most 30 minutes for one file system), beside the speed of the
# trial alone. On an idle machine. It ends with a code other than 0 where something failed or was lost.
# Usage: bench/crash.sh [CUTS] [FILES] [SPEC...]
# FSDYNO_BENCH_OUT=DIR keeps the results; without it they are kept only where something went wrong.
# FSDYNO_BENCH_TEAR=512 tears as the table of docs/crash.md was taken; without it at the disk's physical sectors.
set -eu -o pipefail
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
cuts=${1:-1000}
files=${2:-2000}
[ $# -gt 2 ] && shift 2 || set -- ext4 xfs btrfs
program=${FSDYNO_PROGRAM:-fsdyno}
folder=${FSDYNO_BENCH_OUT:-$(mktemp -d)}
work="maildir --set deliverers=1 --set ops=$files --set protocol=qmail --size 2G"
wrong=0
for spec in "$@"; do
    name=${spec//[^A-Za-z0-9]/-}
    echo "== $spec: $cuts cuts of $files messages"
    # shellcheck disable=SC2086
    "$program" run $work --fs "$spec" --out "$folder/alone-$name" --format csv | grep -E '^workload|deliver' || wrong=1
    begin=$(date +%s.%N) code=0
    # shellcheck disable=SC2086
    time "$program" crash $work --fs "$spec" --cuts "$cuts" --jobs 2 ${FSDYNO_BENCH_TEAR:+--tear "$FSDYNO_BENCH_TEAR"} --out "$folder/$name" || code=$?
    minutes=$(awk -v begin="$begin" -v end="$(date +%s.%N)" 'BEGIN { print (end - begin) / 60 }')
    [ "$code" = 0 ] || { echo "$spec: fsdyno crash ended with code $code" >&2; wrong=1; }
    report "$cuts cuts of $files files, $spec" "$minutes" minutes at-most 30
done
if [ "$wrong" != 0 ]; then
    echo "something failed or was lost; see $folder" >&2
    exit 1
fi
[ -n "${FSDYNO_BENCH_OUT:-}" ] || rm -rf "$folder"
