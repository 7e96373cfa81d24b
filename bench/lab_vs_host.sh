#!/bin/sh
# Whether file systems stand in the same order in the lab as on this host, op by op.
# lab_vs_host.sh FSDYNO [ROUNDS [FOLDER]], as root; FOLDER keeps the results.
#
# On the host each file system lies on a loop device over a file in RAM, made with the catalog's own
# mkfs, fresh in each round; file systems take turns within a round. Everything is mounted in a mount
# namespace of its own, the files too: it ends with this script, whatever ends that. In the lab it is
# the disk `instant`, three seeds, on the kernel at hand that is nearest to this host's (the same release, else
# the next below, else the oldest), and on the lab's usual one. What is promised is of the nearest kernel, by an op's mean latency within one phase and by its
# median (p50). On a host that does other work a mean also has the time in it for which ops had no
# processor, and repeats badly; the lab has no others.
#
# A pair of file systems counts where the host is sure that it differs by over 10 %: the ratio of the
# two in the same round, its 95 % interval of the median over the rounds (order statistics) beyond 10 %.
set -eu
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
here=$(realpath "$0")
if [ "${FSDYNO_BENCH_UNSHARED:-}" != "$$" ]; then
    [ "$(id -u)" = 0 ] || { echo "lab_vs_host.sh: mounting takes root" >&2; exit 3; }
    for tool in jq unshare losetup; do
        command -v "$tool" >/dev/null ||
            { echo "lab_vs_host.sh: $tool is missing (apt-get install jq util-linux mount)" >&2; exit 3; }
    done
    # exec keeps the number of the process, by which the script knows itself again.
    FSDYNO_BENCH_UNSHARED=$$
    export FSDYNO_BENCH_UNSHARED
    exec unshare --mount --propagation private "$here" "$@"
fi
fsdyno=$(realpath "$1")
rounds=${2:-11}
folder=${3:-}
if [ -z "$folder" ]; then
    folder=$(mktemp -d)
    trap '[ "${FSDYNO_BENCH_KEEP:-}" ] || rm -rf "$folder"' EXIT INT TERM
fi
mkdir -p "$folder/results"
ram=$folder/ram
mkdir -p "$ram"
mount -t tmpfs -o size=3G none "$ram"
mkdir "$ram/on"

kinds=
for kind in ext2 ext3 ext4 xfs btrfs; do
    modprobe -q "$kind" 2>/dev/null || true
    if grep -qw "$kind" /proc/filesystems; then
        kinds="$kinds $kind"
    else
        echo "skipped: this host's kernel has no $kind"
    fi
done

# workload CALL: calls it with each workload's words. Nothing here asks for a remount or for dropped
# caches, which a directory of the host cannot have.
workloads() {
    "$@" churn --set files=3000 --set ops=40000
    "$@" dirops --set files=10000 --set stat=yes --set remount=no --set size=1000
    "$@" tarball --set files=3000 --set cache=hot
}

# means FOLDER: lines "workload/phase/op kind mean-ns median-ns" of each trial.
means() {
    jq -r 'select(.outcome == "ok") | .plan as $plan | .kind as $kind | .measured.phases[]
        | .name as $phase | .ops | to_entries[] | select(.value.count >= 200)
        | "\($plan.workload.name)/\($phase)/\(.key) \($plan.label) \(.value.total_ns / .value.count) \(.value.p50_ns)"' \
        "$1/trials.ndjson"
}

on_host() {
    kind=$1
    round=$2
    shift 2
    rm -f "$ram/image"
    truncate -s 2G "$ram/image"
    "$fsdyno" run dirops --fs "$kind" --dry-run --format json |
        jq -r '.cells[0].plan.filesystem.mkfs[]' |
        sed "s/{uuid}/00000000-0000-4000-8000-0000000000$((10 + round))/
             s/{hash_seed}/00000000-0000-4000-8000-0000000001$((10 + round))/
             s|{device}|$ram/image|" >"$ram/argv"
    tr '\n' '\0' <"$ram/argv" | xargs -0 env LC_ALL=C >/dev/null
    mount -t "$kind" -o loop "$ram/image" "$ram/on"
    "$fsdyno" run "$@" --on "$ram/on" --seed "$round" --out "$ram/out" >/dev/null 2>"$ram/messages" ||
        { cat "$ram/messages" >&2; exit 1; }
    means "$ram/out" | sed "s/ [^ ]* / $kind /; s/\$/ $round/" >>"$folder/host"
    rm -r "$ram/out"
    umount "$ram/on"
}

# in_lab KERNEL WORKLOAD...
in_lab() {
    kernel=$1
    shift
    out="$folder/results/lab-$kernel-$1"
    # Word splitting makes one --fs of each kind.
    # shellcheck disable=SC2046
    "$fsdyno" run "$@" $(printf -- '--fs %s ' $kinds) --kernel "$kernel" --disk instant --repeat 3 --out "$out" \
        >/dev/null 2>"$folder/messages" || { cat "$folder/messages" >&2; exit 1; }
    means "$out" | sed "s/\$/ $kernel/" >>"$folder/lab"
}

# The kernel at hand of this host's release, else the next below, else the oldest; and the usual one, if it is another.
nearest=$({ "$fsdyno" list kernels --format json | jq -r '.[].release'; echo "$(uname -r) host"; } | sort -V |
    awk -v host="$(uname -r)" '
        $2 == "host" { above = 1; next }
        $1 == host { same = $1 }
        oldest == "" { oldest = $1 }
        !above { below = $1 }
        END { print same != "" ? same : below != "" ? below : oldest }')
usual=$("$fsdyno" run dirops --dry-run --format json | jq -r '.cells[0].plan.venue.kernel.release')
[ -n "$nearest" ] || nearest=$usual
kernels=$nearest
[ "$usual" = "$nearest" ] || kernels="$nearest $usual"

: >"$folder/host"
: >"$folder/lab"
round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    for kind in $kinds; do
        workloads on_host "$kind" "$round"
    done
    # The next round begins with another.
    # shellcheck disable=SC2086
    set -- $kinds
    first=$1
    shift
    kinds="$* $first"
done
for kernel in $kernels; do
    workloads in_lab "$kernel"
done

echo "host: kernel $(uname -r), $(nproc) processors, load $(cut -d ' ' -f 1 /proc/loadavg), $rounds rounds"
echo "lab:  kernels $kernels, disk instant, 3 seeds"
awk -v rounds="$rounds" -v kernels="$kernels" '
    FNR == 1 { file++ }
    file == 1 {
        host["mean", $1, $2, $5] = $3
        host["p50", $1, $2, $5] = $4
        ops[$1]
    }
    file == 2 {
        lab[$5, "mean", $1, $2] += $3
        lab[$5, "p50", $1, $2] += $4
        seeds[$5, $1, $2]++
    }
    # The rank k for which k-th smallest and k-th largest are a 95 % interval of the median.
    function rank(n,    k, p, tail) {
        p = 2 ^ -n
        for (k = 0; tail + p <= 0.025 && k < n; k++) {
            tail += p
            p = p * (n - k) / (k + 1)
        }
        return k
    }
    function sort(a, n,    i, j, x) {
        for (i = 2; i <= n; i++) {
            x = a[i]
            for (j = i - 1; j > 0 && a[j] > x; j--) a[j + 1] = a[j]
            a[j + 1] = x
        }
    }
    # Both have the same number of seeds, so sums will do for means.
    function pair(measure, op, a, b,    r, n, ratios, k, middle, ours, right, i, line) {
        n = 0
        for (r = 1; r <= rounds; r++)
            if (host[measure, op, a, r] > 0 && host[measure, op, b, r] > 0)
                ratios[++n] = host[measure, op, a, r] / host[measure, op, b, r]
        if (n < 6) return
        for (i = 1; i <= lists; i++) if (!seeds[list[i], op, a] || !seeds[list[i], op, b]) return
        sort(ratios, n)
        k = rank(n)
        if (k < 1) return
        pairs[measure]++
        if (!(ratios[k] > 1.1 || ratios[n + 1 - k] < 1 / 1.1)) return
        middle = ratios[int((n + 1) / 2)]
        counted[measure]++
        line = sprintf("%-4s %-22s %-5s / %-5s host %5.2f (%.2f to %.2f)", measure, op, a, b, middle, ratios[k],
            ratios[n + 1 - k])
        for (i = 1; i <= lists; i++) {
            ours = lab[list[i], measure, op, a] / lab[list[i], measure, op, b]
            right = (middle > 1) == (ours > 1)
            same[measure, i] += right
            line = line sprintf("  lab %5.2f %s", ours, right ? "same" : "OTHER")
        }
        print line
    }
    END {
        lists = split(kernels, list, " ")
        n = split("ext2 ext3 ext4 xfs btrfs", all, " ")
        measures = split("mean p50", measure, " ")
        for (m = 1; m <= measures; m++) {
            for (op in ops)
                for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) pair(measure[m], op, all[i], all[j])
            for (i = 1; i <= lists; i++)
                printf "pairs %d, by %s over 10 %% apart on the host %d, in the same order on %s %d (%.0f %%)\n",
                    pairs[measure[m]], measure[m], counted[measure[m]], list[i], same[measure[m], i],
                    counted[measure[m]] ? 100 * same[measure[m], i] / counted[measure[m]] : 0
        }
        if (counted["mean"] + counted["p50"] == 0) { print "no pair differs by over 10 % here" >"/dev/stderr"; exit 1 }
        for (m = 1; m <= measures; m++)
            if (counted[measure[m]])
                printf "%s %.4f\n", measure[m], 100 * same[measure[m], 1] / counted[measure[m]] >"'"$folder/share"'"
    }' "$folder/host" "$folder/lab" >"$folder/table"
grep -v '^pairs' "$folder/table" | sort
grep '^pairs' "$folder/table"
while read -r measure share; do
    report "pairs in the host's order, by $measure" "$share" % at-least 90
done <"$folder/share"
