#!/bin/sh
# What recording costs: the added time of a call, and how much longer real commands take. Rounds are interleaved; an
# added time is the median over the rounds of a call's median with recording, minus that without.
# record.sh FSDYNO [ROUNDS [CALLS]]
#
# Promised: at most 10 us for the median call without privileges, 3 us by BPF (as root), and 1.3 times for git clone
# and a build.
set -eu
here=$(realpath "$(dirname "$0")")
# shellcheck source=bench/lib.sh
. "$here/lib.sh"
fsdyno=$(realpath "$1")
rounds=${2:-5}
calls=${3:-5000}
work=$(mktemp -d)
trap '[ -n "${FSDYNO_BENCH_KEEP:-}" ] || rm -rf "$work"' EXIT
cc -O1 -o "$work/calls" "$here/record.c"
mkdir "$work/tree"

# with HOW COMMAND...: runs a command bare, under the recorder, or under strace.
with() {
    how=$1
    shift
    case $how in
    bare) "$@" ;;
    strace) strace -f --seccomp-bpf -e trace=%file,%desc -o /dev/null "$@" ;;
    *) "$fsdyno" record --how "$how" -o "$work/it.trace" -- "$@" ;;
    esac
}

# In the working directory that is recorded.
cd "$work/tree"
hows="bare auto ptrace"
# By BPF only where it works; the reason for which it does not is printed.
if "$fsdyno" record --how bpf -o "$work/it.trace" -- true 2>"$work/bpf.txt"; then bpf=bpf; else
    bpf=
    echo "record: not measured by BPF: $(cat "$work/bpf.txt")"
fi
hows="$hows $bpf"
if command -v strace >/dev/null; then hows="$hows strace"; fi
for _ in $(seq "$rounds"); do
    for how in $hows; do
        with "$how" "$work/calls" . "$calls" 2>/dev/null | sed "s/^/$how /" >>"$work/calls.txt"
    done
done
cd "$work"

echo "added time of a call (median of $rounds rounds of $calls calls), us"
printf '%-8s' call
for how in $hows; do printf '%10s' "$how"; done
echo
: >added
: >added_bpf
for call in open write pread fstat close rename access unlink; do
    printf '%-8s' "$call"
    bare=$(awk -v c="$call" '$1 == "bare" && $2 == c { print $3 }' calls.txt | median)
    for how in $hows; do
        took=$(awk -v c="$call" -v h="$how" '$1 == h && $2 == c { print $3 }' calls.txt | median)
        [ "$how" != bare ] || { awk -v t="$took" 'BEGIN { printf "%10.2f", t / 1000 }'; continue; }
        awk -v t="$took" -v b="$bare" 'BEGIN { printf "%10.2f", (t - b) / 1000 }'
        [ "$how" != auto ] || echo $((took - bare)) >>added
        [ "$how" != bpf ] || echo $((took - bare)) >>added_bpf
    done
    echo
done

# Real commands: seconds by how, interleaved.
mkdir source
( cd source && git init -q . && for i in $(seq 300); do mkdir -p "d$((i % 20))"; seq "$i" $((i + 200)) >"d$((i % 20))/f$i"; done &&
    git add . && git -c user.name=a -c user.email=a@b commit -qm x )
mkdir build
for i in $(seq 20); do printf '#include <stdio.h>\n#include <stdlib.h>\nint f%d(void) { return puts("x"); }\n' "$i" >"build/f$i.c"; done
{
    printf 'all: %s\n' "$(seq -s ' ' -f 'f%.0f.o' 20)"
    printf '%%.o: %%.c\n\tcc -O1 -c $< -o $@\n'
} >build/Makefile
# Processor seconds of the children so far, in hundredths.
cpu() {
    times >"$work/times"
    awk 'NR == 2 { gsub(/[ms]/, " "); print int(100 * ($1 * 60 + $2 + $3 * 60 + $4) + 0.5) }' "$work/times"
}
clone() { rm -rf clone; with "$1" git clone -q --no-hardlinks source clone; }
make_all() { rm -f build/*.o; with "$1" make -s -C build; }
for _ in $(seq "$rounds"); do
    for what in clone make_all; do
        for how in bare auto ptrace $bpf; do
            cpu >before
            begin=$(date +%s%N)
            $what "$how" >/dev/null 2>&1
            took=$(($(date +%s%N) - begin))
            cpu >after
            echo "$what $how $took $(($(cat after) - $(cat before)))" >>commands.txt
        done
    done
done
ratio() {
    awk -v w="$1" -v h="$2" -v f="${3:-3}" '$1 == w && $2 == "bare" { b = $f } $1 == w && $2 == h { print b ? $f / b : 0 }' commands.txt | median
}
result=$(median <added | awk '{ printf "%.1f", $1 / 1000 }')
clone=$(ratio clone auto)
build=$(ratio make_all auto)
echo "git clone: $clone times as long with auto, $(ratio clone ptrace) with ptrace; processor time: $(ratio clone auto 4), $(ratio clone ptrace 4)"
echo "make of 20 files of C: $build times with auto, $(ratio make_all ptrace) with ptrace; processor time: $(ratio make_all auto 4), $(ratio make_all ptrace 4)"
report "record: added time of the median call" "$result" us at-most 10
if [ -n "$bpf" ]; then
    echo "by BPF: git clone: $(ratio clone bpf) times as long, processor time $(ratio clone bpf 4); make: $(ratio make_all bpf), $(ratio make_all bpf 4)"
    report "record: added time of the median call by BPF" "$(median <added_bpf | awk '{ printf "%.1f", $1 / 1000 }')" us at-most 3
fi
report "record: git clone, processor time over not" "$(ratio clone auto 4)" times at-most 1.3
report "record: make of 20 files, processor time over not" "$(ratio make_all auto 4)" times at-most 1.3
report "record: git clone, recorded over not" "$clone" times at-most 1.3
report "record: make of 20 files, recorded over not" "$build" times at-most 1.3
