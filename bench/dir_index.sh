#!/bin/sh
# How many times longer 10,000 creates in one directory take without ext4's index, in the lab.
# dir_index.sh FSDYNO
set -eu
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
fsdyno=$1
folder=$(mktemp -d)
trap '[ "${FSDYNO_BENCH_KEEP:-}" ] || rm -r "$folder"' EXIT
"$fsdyno" run dirops --disk instant --fs indexed=ext4 --fs 'linear=ext4 -O ^dir_index' \
    --set files=10000 --jobs 2 --out "$folder/out" >/dev/null 2>"$folder/messages" ||
    { cat "$folder/messages" >&2; exit 1; }
# The first returned_ns of a trial is that of its first phase, create.
create() {
    grep "\"label\":\"$1\"" "$folder/out/trials.ndjson" |
        sed 's/.*"phases":\[//; s/"name":"delete".*//; s/.*"returned_ns":\([0-9]*\).*/\1/'
}
linear=$(create linear)
indexed=$(create indexed)
report "10,000 creates, ext4 without against with dir_index" \
    "$(awk "BEGIN { print $linear / $indexed }")" times at-least 10
