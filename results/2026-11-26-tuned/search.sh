#!/bin/sh
# Runs the searches of this folder that have no result yet, one after the other: search.sh FSDYNO [MACHINE-WORK...]
set -eu
fsdyno=$(realpath "$1")
shift
results=results/2026-11-26-tuned
cd "$(dirname "$0")/../.."
export FSDYNO_CONFIG=
if [ $# -eq 0 ]; then
    for machine in server-2026 laptop-2026 cloud-2026; do
        for work in mail sqlite unpack churn build; do set -- "$@" "$machine-$work"; done
    done
fi
for name in "$@"; do
    [ -f "$results/$name.json" ] && continue
    cuts=0
    case $name in
    server-2026-mail) cuts=10 ;;
    esac
    case $name in
    *-mail) work='maildir --set protocol=dovecot --set maildirs=20 --set ops=100' ;;
    *-sqlite) work='replay --set trace=examples/traces/sqlite-wal.trace' ;;
    *-unpack) work='tarball --set files=400' ;;
    *-churn) work='churn --set files=400 --set ops=2000' ;;
    *-build) work="replay --set trace=$results/build.trace" ;;
    *) echo "search.sh: $name is not MACHINE-WORK" >&2; exit 2 ;;
    esac
    # shellcheck disable=SC2086  # words without spaces
    "$fsdyno" tune $work --fs ext4,xfs,btrfs,f2fs --machine "${name%-*}" --boot snapshot --size 4G --ram 512M \
        --verify sampled --budget 160trials --cuts $cuts --jobs 2 --out "/tmp/fsdyno-tune-$name"
    # A plan has the absolute path of a trace.
    sed "s|trace=$PWD/|trace=|" "/tmp/fsdyno-tune-$name/tune.json" >"$results/$name.json"
done
