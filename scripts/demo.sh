#!/bin/sh
# The demo: real file systems on a modelled disk in the lab; on a directory where there is no lab.
# demo.sh FSDYNO [more arguments of fsdyno run]
set -eu

fsdyno=$1
shift
out=fsdyno-results/demo

say() { printf 'demo: %s\n' "$*" >&2; }

# The demo's own earlier files make way; anything else in that folder stays.
rm -f "$out/trials.ndjson" "$out/report.html"

# Of the demo's file systems, those that can run in the lab here, and those that cannot.
here=""
left_out=""
table=$("$fsdyno" list filesystems)
for kind in ext2 ext4 xfs btrfs reiserfs jfs; do
    case $(printf '%s\n' "$table" | awk -v kind="$kind" '$1 == kind { print $2 }') in
    yes*) here="$here --fs $kind" ;;
    *) left_out="$left_out $kind" ;;
    esac
done

if [ -n "$here" ] && "$fsdyno" doctor >/dev/null 2>&1; then
    if [ -n "$left_out" ]; then
        say "left out, because it cannot run in the lab here ($fsdyno doctor says why):$left_out"
    fi
    # The sizes are chosen for five minutes on two cores. $here is words for run, hence unquoted.
    # shellcheck disable=SC2086
    exec "$fsdyno" run dirops tarball \
        --set dirops.files=10000 --set dirops.stat=yes --set tarball.files=4000 \
        $here --machine classic --size 8G --repeat 3 --jobs "$(nproc)" --out "$out" "$@"
fi

say "the lab cannot run here, so this is the host alone: no modelled disk, no repeatable digits,"
say "no comparison of file systems. What is missing:"
"$fsdyno" doctor 2>/dev/null | grep '^missing' >&2 || true
place=$(mktemp -d)
trap 'rmdir "$place"' EXIT
"$fsdyno" run dirops tarball \
    --set dirops.files=10000 --set dirops.stat=yes --set tarball.files=4000 \
    --repeat 3 --on "$place" --out "$out" "$@"
