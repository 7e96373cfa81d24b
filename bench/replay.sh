#!/bin/sh
# How long the calls of a replay take relative to those of the recorded program: the example traces, recorded by BPF
# and replayed immediately, warm, on a fresh ext4 in memory (a loop device). BPF times both sides, without the time for
# which a thread waits for a processor, so that other load matters less. Each program runs once before its recording.
# Replays are checked, so that every result and the final tree are as recorded. As root.
# replay.sh FSDYNO [ROUNDS]
#
# Promised: within 10 % for each.
set -eu
here=$(realpath "$(dirname "$0")")
# shellcheck source=bench/lib.sh
. "$here/lib.sh"
[ "$(id -u)" = 0 ] || { echo "replay.sh: mounting and BPF take root" >&2; exit 3; }
FSDYNO=$(realpath "$1")
export FSDYNO FSDYNO_CONFIG=
rounds=${2:-5}
programs=${PROGRAMS:-git-clone npm-ci pip-venv c-build sqlite-delete sqlite-wal rsync postmark}
record=$here/../examples/traces/record.sh
work=$(mktemp -d)
image=$(mktemp -p "${SHM:-/dev/shm}")
end() {
    ! mountpoint -q "$work/fs" || umount "$work/fs"
    rm -f "$image"
    [ -n "${FSDYNO_BENCH_KEEP:-}" ] || rm -rf "$work"
}
trap end EXIT
mkdir -p "$work/fs" "$work/packages/npm-ci" "$work/packages/pip-venv"

# Runs a program, then records it and replays the recording.
calibrate() (
    export WORK="$work/fs/work" TMPDIR="$work/fs/tmp" OUT="$work"
    RUN="time" sh "$record" "$1" && HOW=bpf CALIBRATE=1 sh "$record" "$1"
)

for round in $(seq "$rounds"); do
    for program in $programs; do
        # A new file: a loop device that is still being detached would keep the old one's data.
        rm -f "$image"
        image=$(mktemp -p "${SHM:-/dev/shm}")
        truncate -s 4G "$image"
        mkfs.ext4 -q "$image"
        mount -o loop "$image" "$work/fs"
        mkdir "$work/fs/tmp"
        # What was fetched in the first round.
        cp -R "$work/packages" "$work/fs/work"
        calibrate "$program" >"$work/out" 2>&1 || sed "s/^/$program, round $round: /" "$work/out"
        sed -n 's/.* recorded[^:]*: \([0-9.]*\) %.*/\1/p' "$work/out" >>"$work/$program"
        [ "$round" -lt "$rounds" ] || sed -n "s/.*most of the difference/$program: most of the difference/p" "$work/out"
        (cd "$work/fs/work" && cp -R --parents ./*/*.tgz ./*/wheels "$work/packages") 2>/dev/null || :
        umount "$work/fs"
    done
done
for program in $programs; do
    ratio=$(median <"$work/$program" | awk '{ print $1 / 100 }')
    [ -n "$ratio" ] || { echo "replay: $program: not measured (see above)"; continue; }
    echo "$program: $(sort -n "$work/$program" | tr '\n' ' ')%"
    report "replay: $program, calls replayed over recorded" "$ratio" times at-least 0.9
    report "replay: $program, calls replayed over recorded" "$ratio" times at-most 1.1
done
