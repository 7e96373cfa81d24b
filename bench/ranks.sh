#!/bin/sh
# The rates of ranks, those of mdtest, and those of bare loops, in interleaved rounds on a tmpfs; in a directory of the
# user's those of ranks and of mdtest, each phase with caches dropped before it, as root: docs/mdtest.md has the ratios. mdtest is
# built from hpc/ior with MPICH and is not a part of fsdyno; `-` as MDTEST leaves it out.
#
# On tmpfs a stat takes 1 to 2 us: with 48,000 files its phase is 40 ms long on two processors, of which the start of the
# processes is a part. 480,000 FILES show the calls alone.
#
# ranks.sh FSDYNO MDTEST [RANKS [ROUNDS [FILES [DIRECTORY]]]]
# examples/shared/mounts.sh gluster 1 bench/ranks.sh FSDYNO MDTEST 8 5 1600 /run/shared/mnt.0
set -eu
export LC_ALL=C
fsdyno=$1 mdtest=$2 ranks=${3:-16} rounds=${4:-9} files=${5:-48000}
here=$(dirname "$0")
work=$(mktemp -d /dev/shm/fsdyno-ranks.XXXXXX)
on=$(mktemp -d "${6:-/dev/shm}/fsdyno-on.XXXXXX")
trap 'rm -rf "$work" "$on"' EXIT
cc -O2 -pthread -o "$work/bare" "$here/bare.c"

# The rates of mdtest's table, from standard input: the three of files, or that of one phase.
of_table() {
    awk -v rows="${1:-creation|stat|removal}" '$0 ~ "^ +File (" rows ")" { printf "%s ", $3 }'
}

drop_caches() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}

run_fsdyno() {
    mpiexec.mpich -n "$ranks" "$fsdyno" run dirops --set files="$files" --set stat=yes --set stat-order=forward \
        --set remount="$cold" --verify names --on "$on" --out "$work/result" --ranks >"$work/log" 2>&1
    "$fsdyno" report "$work/result" --format original 2>"$work/log" | of_table
}

run_mdtest() {
    mpiexec.mpich -n "$ranks" "$mdtest" -F -C -T -r -n $((files / ranks)) -d "$on/d" >"$work/log"
    of_table <"$work/log"
}

# One run for each phase, and a count of the files.
run_mdtest_cold() {
    for phase in -C:creation -T:stat -r:removal; do
        drop_caches
        mpiexec.mpich -n "$ranks" "$mdtest" -F "${phase%:*}" -n $((files / ranks)) -d "$on/d" >"$work/log"
        of_table "${phase#*:}" <"$work/log"
        [ "$phase" != -C:creation ] || [ "$(find "$on/d" -type f | wc -l)" = "$files" ] || {
            echo "mdtest did not create $files files" >&2
            exit 1
        }
    done
}

run_bare() {
    "$work/bare" "$files" "$on" "$ranks" |
        awk -v n="$files" '/^(create|stat|unlink) / { printf "%.1f ", n * 1e9 / $2 }'
}

order='fsdyno mdtest bare' cold=no
[ "$mdtest" != - ] || order='fsdyno bare'
[ $# -lt 6 ] || order='fsdyno mdtest_cold' cold=yes
for _ in $(seq "$rounds"); do
    # Each round begins with a different one.
    order="${order#* } ${order%% *}"
    for which in $order; do
        rm -rf "$work/result" "$on/d"
        echo "$which $("run_$which")"
    done
done | awk -v ranks="$ranks" '
    { print; sub("_cold", ""); for (i = 2; i <= 4; i++) rate[$1, i, ++seen[$1, i]] = $i }
    # The median of the ratios of each round, and the extremes.
    function ratios(other, i, name,    n, at, k, v, value) {
        n = seen["fsdyno", i]
        for (at = 1; at <= n; at++) {
            v = rate["fsdyno", i, at] / rate[other, i, at]
            for (k = at - 1; k > 0 && value[k] > v; k--) value[k + 1] = value[k]
            value[k + 1] = v
        }
        printf "%s ranks, %s: fsdyno / %s %.2f (%.2f to %.2f)\n", ranks, name, other, value[int((n + 1) / 2)], value[1], value[n]
    }
    END {
        split("- create stat unlink", names, " ")
        for (i = 2; i <= 4; i++) {
            if (seen["mdtest", i]) ratios("mdtest", i, names[i])
            if (seen["bare", i]) ratios("bare", i, names[i])
        }
    }'
