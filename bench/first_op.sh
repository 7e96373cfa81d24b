#!/bin/sh
# Host seconds from `fsdyno run` to the first op in the guest, for each file system of the lab.
# first_op.sh FSDYNO [ROUNDS] [cold|snapshot]
#
# Counted is all of the run but what the record says came after the first op: the rest of the guest, its disk
# laid out for the check (`image`), and the check. So what is printed is no less than the truth. The host's load
# is printed too, for beside other work all of it takes longer.
set -eu
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
fsdyno=$1
rounds=${2:-1}
boot=${3:-cold}
folder=$(mktemp -d)
trap '[ "${FSDYNO_BENCH_KEEP:-}" ] || rm -r "$folder"' EXIT
worst=0
round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    for fs in ext2 ext3 ext4 xfs btrfs reiserfs jfs; do
        out="$folder/$round-$fs"
        if [ "$boot" = snapshot ]; then # the first run takes the snapshot and makes the disk
            "$fsdyno" run dirops --fs "$fs" --set files=1 --seed "$round" --boot snapshot \
                --out "$out-taken" \
                >/dev/null 2>"$folder/messages" || { cat "$folder/messages" >&2; exit 1; }
        fi
        before=$(date +%s%N)
        "$fsdyno" run dirops --fs "$fs" --set files=100 --seed "$round" --boot "$boot" \
            --out "$out" \
            >/dev/null 2>"$folder/messages" || { cat "$folder/messages" >&2; exit 1; }
        after=$(date +%s%N)
        host=$(sed 's/.*"host"://' "$out/trials.ndjson")
        field() { printf '%s' "$host" | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }
        image=$(field image)
        later=$(($(field elapsed_ns) - $(field first_op_ns) + ${image:-0} + $(field check_ns)))
        ms=$(((after - before - later) / 1000000))
        [ "$ms" -le "$worst" ] || worst=$ms
        printf '%-9s seed %s: %d.%03d s to the first op\n' "$fs" "$round" $((ms / 1000)) $((ms % 1000))
    done
    echo "load $(cut -d ' ' -f 1 /proc/loadavg)"
done
case $boot in snapshot) most=1 ;; *) most=8 ;; esac
report "from fsdyno run to the first op, $boot, the slowest" \
    "$(awk "BEGIN { print $worst / 1000 }")" s at-most "$most"
