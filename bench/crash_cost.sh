#!/bin/bash
# How fast each file system is, and what a power cut costs it: writes docs/crash-cost.md and docs/crash-cost.csv
# from records. 200 messages synced as qmail does it, 50 cuts of each.
# Usage: bench/crash_cost.sh [RESULT...]     with RESULTs it runs nothing and writes the two files from them
set -eu -o pipefail
export FSDYNO_MACHINE=classic
here=$(cd "$(dirname "$0")/.." && pwd)
program=${FSDYNO_PROGRAM:-fsdyno}
if [ $# = 0 ]; then
    folder=${FSDYNO_BENCH_OUT:-$(mktemp -d)}
    code=0
    "$program" crash maildir --set deliverers=1 --set ops=200 --set protocol=qmail --size 1G --cuts 50 \
        --fs ext2 --fs ext3 --fs 'ext3-nobarrier=ext3 @ barrier=0' --fs 'ext3-writeback=ext3 @ data=writeback' \
        --fs 'ext3-journal=ext3 @ data=journal' --fs ext4 --fs 'ext4-nobarrier=ext4 @ barrier=0' --fs xfs \
        --fs btrfs --fs reiserfs --fs jfs --out "$folder/cost" >/dev/null || code=$?
    # 1 says that something acknowledged was lost, which without barriers is what is asked for.
    [ "$code" -le 1 ] || { echo "fsdyno crash ended with code $code; see $folder" >&2; exit "$code"; }
    set -- "$folder/cost"
fi
"$program" report "$@" --format csv > "$here/docs/crash-cost.csv"
{
    echo "# How fast, and what a power cut costs"
    echo
    echo "Written by \`bench/crash_cost.sh\` from the records of \`fsdyno crash\`; [crash.md](crash.md) describes the method,"
    echo "[crash-cost.csv](crash-cost.csv) has all figures with the conditions. The workload is maildir: 200 deliveries by one"
    echo "thread, synced as qmail does it, on the disk hdd-7200. With one seed, there is no interval."
    echo
    "$program" report "$@" --format markdown
} > "$here/docs/crash-cost.md"
