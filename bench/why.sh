#!/bin/sh
# What `fsdyno why` costs and what it can tell: host time of a trial's second pass over that of its first, and
# shares of requests and of the disk's time that are attributed; the worst of two workloads on four file systems.
# On an idle machine: beside other work the host times of two passes cannot be compared. why.sh FSDYNO [FILES]
set -eu
here=$(dirname "$0")
# shellcheck source=bench/lib.sh
. "$here/lib.sh"
fsdyno=$1
files=${2:-5000}
folder=$(mktemp -d)
trap '[ "${FSDYNO_BENCH_KEEP:-}" ] || rm -rf "$folder"' EXIT INT TERM
for work in dirops tarball; do
    "$fsdyno" run "$work" --jobs 1 --set files="$files" --fs ext2 --fs ext3 --fs ext4 --fs xfs --out "$folder/$work" >/dev/null
    "$fsdyno" why "$folder/$work" --out "$folder/why" >/dev/null
done
for explained in "$folder"/why/*-why.json; do
    tr -d '\n' <"$explained" | awk -f "$here/json.awk" | awk '
        { of[$1] = $2 }
        END { print of["workload"], of["label"], of["host.second_pass_ns"] / of["host.first_pass_ns"],
            of["attributed.requests"] * 100, of["attributed.time"] * 100 }'
done >"$folder/rows"
cat "$folder/rows"
[ "$(wc -l <"$folder/rows")" -eq 8 ] || { echo "why.sh: not all of the eight were explained" >&2; exit 1; }
worst() { sort -n -k "$1,$1" ${2:+-r} "$folder/rows" | awk -v column="$1" 'NR == 1 { print $column }'; }
report "why: second pass over the first, host time" "$(worst 3 most)" times at-most 2
report "why: requests attributed" "$(worst 4)" % at-least 99
report "why: time attributed" "$(worst 5)" % at-least 95
