#!/bin/sh
# Runs all tests with cargo, those of the lab in parallel with the others: both groups mostly wait, the tests of the lab for
# guests, the others for disks of this host and for child processes.
#
#   scripts/test.sh CARGO [ARGUMENT...]
set -u
cargo=$1
shift
"$cargo" test "$@" --no-run || exit

log=$(mktemp)
lab=
# shellcheck disable=SC2317  # called by the trap
finish() {
    [ -z "$lab" ] || kill "$lab" 2>/dev/null
    rm -f "$log"
}
trap finish EXIT
trap 'exit 130' INT TERM

"$cargo" test "$@" --test lab >"$log" 2>&1 &
lab=$!
code=0
# The second is every test but that of the lab; there are no tests in documents.
"$cargo" test "$@" --lib --bins --test '[!l]*' || code=$?
wait "$lab" || code=$?
lab=
cat "$log"
exit $code
