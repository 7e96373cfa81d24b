#!/bin/sh
# Minutes that the demo takes after the build. It runs in a folder of its own.
# demo.sh FSDYNO
set -eu
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
fsdyno=$(realpath "$1")
folder=$(mktemp -d)
trap '[ "${FSDYNO_BENCH_KEEP:-}" ] || rm -r "$folder"' EXIT
before=$(date +%s)
(cd "$folder" && "$fsdyno" demo >/dev/null 2>messages) || { tail "$folder/messages" >&2; exit 1; }
after=$(date +%s)
report "make demo after the build" "$(awk "BEGIN { print ($after - $before) / 60 }")" min at-most 6
