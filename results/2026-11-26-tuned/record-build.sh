#!/bin/sh
# Records build.trace: make of 12 C files in 4 directories with tcc, whose programs and headers are small, so that the work is that
# of the build's own files (needs tcc and make).
# record-build.sh FSDYNO [OUTPUT]
set -eu
fsdyno=$1
output=$(realpath "${2:-build.trace}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
cd "$work/tree"
mkdir include
for h in 0 1 2 3 4 5 6 7; do
    printf '#ifndef H%s\n#define H%s\n#include <stdio.h>\n#include <stdlib.h>\nint h%s(int);\n#endif\n' "$h" "$h" "$h" >"include/h$h.h"
done
objects=''
for d in 0 1 2 3; do
    mkdir "d$d"
    for c in 0 1 2; do
        objects="$objects d$d/c$c.o"
        {
            for h in 0 1 2 3 4 5 6 7; do echo "#include \"h$h.h\""; done
            for f in $(seq 0 30); do echo "int f${d}_${c}_$f(int a) { int s = 0; for (int i = 0; i < a; i++) s += i * $f; return s; }"; done
        } >"d$d/c$c.c"
    done
done
echo 'int main(void) { return 0; }' >main.c
printf 'all: program\nprogram:%s main.o\n\ttcc -o $@ $^\n%%.o: %%.c\n\ttcc -Iinclude -c -o $@ $<\n' "$objects" >Makefile
"$fsdyno" record -o "$output" --tree . -- make -s -j2
