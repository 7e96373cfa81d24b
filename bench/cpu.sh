#!/bin/sh
# The errors of a processor profile on this machine, on work that it was not fitted to: prints the Markdown of
# `fsdyno fit cpu --check`, and writes it to docs/processor-check.md, or for a PROFILE other than the default one to
# docs/processor-check-PROFILE.md. As root, on an idle machine; about 15 minutes.
# Usage: bench/cpu.sh FSDYNO [PROFILE]
set -eu
export FSDYNO_MACHINE=classic
here=$(dirname "$0")
profile=${2:-epyc-2024}
page=processor-check.md
[ "$profile" = epyc-2024 ] || page=processor-check-$profile.md
table=$(mktemp)
trap 'rm -f "$table"' EXIT
"$1" fit cpu --check "$profile" >"$table"
{
    printf '# A processor profile on work that it was not fitted to\n\n'
    printf 'Written by `bench/cpu.sh` on a machine with %s and Linux %s; docs/fidelity.md explains the profile.\n\n' \
        "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(uname -r | cut -d . -f 1,2)"
    cat "$table"
} >"$here/../docs/$page"
cat "$table"
