#!/bin/sh
# The demo: real file systems on a modelled disk in the lab; on a directory where there is no lab.
# demo.sh FSDYNO [more arguments of fsdyno run]
set -eu

fsdyno=$1
shift
out=fsdyno-results/demo

say() { printf 'demo: %s\n' "$*" >&2; }

# The demo's own earlier result makes way; anything else at that place stays.
[ -f "$out/trials.ndjson" ] && rm -r "$out"

if "$fsdyno" doctor >/dev/null 2>&1; then
    exec "$fsdyno" run dirops tarball \
        --set dirops.files=10000 --set tarball.files=4000 \
        --fs ext2 --fs ext4 --fs xfs --fs btrfs \
        --disk hdd-7200 --size 8G --repeat 3 --jobs "$(nproc)" --out "$out" "$@"
fi

say "the lab cannot run here, so this is the host alone: no modelled disk, no repeatable digits,"
say "no comparison of file systems. What is missing:"
"$fsdyno" doctor 2>/dev/null | grep '^missing' >&2 || true
place=$(mktemp -d)
trap 'rmdir "$place"' EXIT
"$fsdyno" run dirops tarball --set dirops.files=10000 --set tarball.files=4000 \
    --repeat 3 --on "$place" --out "$out" "$@"
