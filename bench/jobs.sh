#!/bin/sh
# How much faster --jobs 2 is than --jobs 1: host seconds for four equal trials, in turns.
# jobs.sh FSDYNO [ROUNDS] [cold|snapshot]     On a machine with two free processors.
#
# The best round of each stands for it: whatever else runs on the machine only adds time. The digits
# of both must be the same, or the bench fails.
set -eu
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
fsdyno=$1
rounds=${2:-3}
boot=${3:-cold}
folder=$(mktemp -d)
trap '[ "${FSDYNO_BENCH_KEEP:-}" ] || rm -r "$folder"' EXIT
trials() { # JOBS OUT
    "$fsdyno" run dirops --fs ext4 --set files=10000 --repeat 4 --boot "$boot" --jobs "$1" --out "$2" \
        >/dev/null 2>"$folder/messages" || { cat "$folder/messages" >&2; exit 1; }
}
digits() { sed 's/.*"trial_id":"\([^"]*\)".*"measured":\(.*\),"host":.*/\1 \2/' "$1/trials.ndjson" | sort; }
best1=0
best2=0
round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    for jobs in 1 2; do
        before=$(date +%s%N)
        trials "$jobs" "$folder/$round-$jobs"
        ms=$((($(date +%s%N) - before) / 1000000))
        echo "round $round, jobs $jobs: $((ms / 1000)).$(printf %03d $((ms % 1000))) s"
        eval "best=\$best$jobs"
        if [ "$best" -eq 0 ] || [ "$ms" -lt "$best" ]; then eval "best$jobs=$ms"; fi
    done
    if [ "$(digits "$folder/$round-1")" != "$(digits "$folder/$round-2")" ]; then
        echo "jobs.sh: the digits of --jobs 1 and --jobs 2 differ" >&2
        exit 1
    fi
done
report "four equal trials, --jobs 1 over --jobs 2" \
    "$(awk "BEGIN { print $best1 / $best2 }")" times at-least 1.8
