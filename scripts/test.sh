#!/bin/sh
# Runs all tests with cargo, those of the lab in parallel with the others: both groups mostly wait, the tests of the lab for
# guests, the others for disks of this host and for child processes.
#
#   scripts/test.sh CARGO [ARGUMENT...]
set -u
cargo=$1
shift
# The names of all test files in the workspace but that of the lab, as cargo lists them.
others=$("$cargo" metadata --no-deps --format-version 1 --locked | tr '{' '\n' |
    sed -n 's/^"kind":\["test"\].*"name":"\([^"]*\)".*/\1/p' | grep -vx lab | sort -u)
[ -n "$others" ] || { echo "test: cargo lists no tests" >&2; exit 1; }
"$cargo" test "$@" --no-run || exit

log=$(mktemp)
lab=
# shellcheck disable=SC2317  # called by the trap
finish() {
    # The whole group: cargo, the test program, and what that started.
    [ -z "$lab" ] || kill -s TERM -- "-$lab" 2>/dev/null
    rm -f "$log"
}
trap finish EXIT
trap 'exit 130' HUP INT TERM

setsid "$cargo" test "$@" --test lab >"$log" 2>&1 &
lab=$!
code=0
for name in $others; do
    set -- "$@" --test "$name"
done
# There are no tests in documents.
"$cargo" test "$@" --lib --bins || code=$?
wait "$lab" || code=$?
lab=
cat "$log"
exit $code
