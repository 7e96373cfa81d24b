#!/bin/sh
# Counts the user instructions of each op, engine against bare loop, exactly: bench/count.c steps
# through both. Takes about a minute. Calls that a phase makes once, and what a program does at its
# start, are in it. In the lab, with the kernel's own instructions, the same is counted and held to
# its limit by crates/agent/tests/instructions.rs.
# usage: bench/instructions.sh ENGINE, where ENGINE is the against_bare binary of cargo bench.
set -eu
engine=${1:?"usage: bench/instructions.sh ENGINE (cargo bench -p fsdyno-engine prints its path)"}
here=$(dirname "$0")
folder=$(mktemp -d "${TMPDIR:-/dev/shm}/fsdyno-count-XXXXXX")
trap 'rm -rf "$folder"' EXIT INT TERM
cc -O2 -o "$folder/bare" "$here/bare.c"
cc -O2 -o "$folder/count" "$here/count.c"
files=1000
mkdir "$folder/b" "$folder/e"
# The engine marks the end of a phase too: every second number is what lies between phases.
# The numbers come first and the programs' own lines, which begin with a letter, are dropped.
# Through files and not through pipes, which would hide that a program failed.
"$folder/count" "$folder/bare" "$files" "$folder/b" marks >"$folder/bare.all"
"$folder/count" "$engine" --marks --engine "$folder/e" dirops files=$files stat=yes \
	stat-order=forward >"$folder/engine.all"
grep '^[0-9]' "$folder/bare.all" >"$folder/bare.txt"
grep '^[0-9]' "$folder/engine.all" | sed -n 'p;n' >"$folder/engine.txt"
printf 'create+close\nstat\nunlink\n' | paste - "$folder/bare.txt" "$folder/engine.txt" |
	awk -v n=$files '{ printf "%-13s bare %.0f, engine %.0f: %.0f more instructions a file\n",
		$1, $2 / n, $3 / n, ($3 - $2) / n }'
