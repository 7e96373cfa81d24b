#!/bin/bash
# How long 1,000 power cuts of a trial of 2,000 files take, by file system: host seconds and processor
# seconds, and the speed that the logged pass shows beside that of the trial alone. On an idle machine.
# Usage: bench/crash.sh [CUTS] [FILES] [SPEC...]
set -eu
cuts=${1:-1000}
files=${2:-2000}
[ $# -gt 2 ] && shift 2 || set -- ext4 xfs btrfs
program=${FSDYNO_PROGRAM:-fsdyno}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
work="maildir --set deliverers=1 --set ops=$files --set protocol=qmail --size 2G"
for spec in "$@"; do
    echo "== $spec: $cuts cuts of $files messages"
    # shellcheck disable=SC2086
    "$program" run $work --fs "$spec" --out "$folder/alone-$spec" --format csv | grep deliveries || true
    # shellcheck disable=SC2086
    time "$program" crash $work --fs "$spec" --cuts "$cuts" --out "$folder/$spec" || echo "code $?"
done
