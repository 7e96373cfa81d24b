#!/bin/sh
# Whether verdicts are honest: alarms where nothing differs, and a slowdown that is there found.
# honesty.sh FSDYNO FOLDER [CHANGES [PLANTED [PAIRS [DISK]]]], as root for PAIRS (loop devices in RAM).
#
# FOLDER keeps trials and verdicts; the same command again goes on where it was, so that it may be stopped.
#
# The lab's trials come in blocks of five changes and one slowdown, each block with eight seeds of its own, all on
# the disk DISK:
#
# 1. CHANGES changes that mean nothing (a word of the kernel's command line, padding of the initramfs, an unused
#    module, in turn), each compared with the unchanged lab by the eight paired seeds of its block.
# 2. PLANTED times a slowdown of 1 % of the mean unlink (empty loops after each call, in its time): a lab with one
#    more change that means nothing and the slowdown, compared with the last change of its block.
# 3. Host: PAIRS pairs of two conditions that are one, five trials each, interleaved, tested at 1 %.
#
# With 200 changes and 40 slowdowns that is 2,240 trials in 280 labs, each booted once: about two hours of an idle core
# (an estimate, from 2.4 s of CPU for each of 14 trials and some 5 for a boot), half of that with FSDYNO_JOBS=2 on two.
#
# Verdicts are those of `fsdyno compare`, whose smallest difference that matters is 0.5 % here, so that 1 % can be
# called a regression; what the same intervals say with no such band is printed beside it.
set -eu
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
fsdyno=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
changes=${3:-200}
planted=${4:-40}
pairs=${5:-100}
disk=${6:-instant}
# A phase of a fifth of a second. At the end of one of a tenth, 1.9 ms in which ksoftirqd frees inodes (RCU) fall
# inside or after the last unlink: more than 1 % of it, as TOO SHORT says.
files=6000
seeds=8
changes_in_block=5
threshold=0.5%
metrics="durable returned cpu"
command -v jq >/dev/null || { echo "honesty.sh: jq is missing (apt-get install jq)" >&2; exit 3; }

# A cache of its own, emptied as it goes: 200 booted guests would push out the user's.
if [ -d "${XDG_CACHE_HOME:-$HOME/.cache}/fsdyno/kernels" ] && [ ! -e "$folder/cache/fsdyno" ]; then
    mkdir -p "$folder/cache/fsdyno"
    ln -s "$(realpath "${XDG_CACHE_HOME:-$HOME/.cache}/fsdyno/kernels")" "$folder/cache/fsdyno/kernels"
fi
XDG_CACHE_HOME=$folder/cache
export XDG_CACHE_HOME

# lab OUT SEED SEEDS CHANGE...: trials of one lab. One that was stopped begins anew: its snapshot has gone, and trials
# of another would be of another lab.
lab() {
    lab_out=$1 lab_seed=$2 lab_seeds=$3
    shift 3
    rm -rf "$lab_out"
    for change; do
        shift
        set -- "$@" --change "$change"
    done
    # ${FSDYNO_BENCH_WITH:-} may be `flock FILE`, where several benches share a machine.
    # shellcheck disable=SC2086
    ${FSDYNO_BENCH_WITH:-} "$fsdyno" run dirops --set "files=$files" --fs ext4 --disk "$disk" --size 256M --ram 256M \
        --boot snapshot --seed "$lab_seed" --repeat "$lab_seeds" --jobs "${FSDYNO_JOBS:-1}" --out "$lab_out" "$@" \
        >/dev/null 2>"$folder/messages" || { cat "$folder/messages" >&2; exit 1; }
    "$fsdyno" doctor --clear-caches >/dev/null 2>&1 || true
}

# verdicts BASE NEW STEM: what `fsdyno compare` says, by each metric.
verdicts() {
    for metric in $metrics; do
        # Code 1 says that something is slower.
        "$fsdyno" compare "$1" "$2" --threshold $threshold --metric "$metric" --format json \
            >"$3.$metric.json" 2>"$folder/messages" || [ $? = 1 ] || { cat "$folder/messages" >&2; exit 1; }
    done
}

modules="crc7 crc64 crc-itu-t ts_bm ts_fsm ts_kmp lru_cache bch crc8"
# One change that means nothing, by its number.
meaningless() {
    of=$(($1 / 3))
    case $(($1 % 3)) in
    0) printf 'word=%0*d' $((1 + of)) 0 ;;
    1) echo "padding=$((1 + 37 * of * of))" ;;
    2)
        # shellcheck disable=SC2086
        set -- $modules
        shift $((of % $#))
        # The second time round with a word too, so that no two changes are one.
        echo "module=$1"
        [ "$of" -lt 9 ] || printf 'word=m%0*d' $((of / 9)) 0
        ;;
    esac
}

# The first seed of a block, which are numbered from 1.
first_seed() {
    echo $((($1 - 1) * seeds + 1))
}

a_change() {
    # shellcheck disable=SC2046
    lab "$folder/change-$1" "$(first_seed "$block")" $seeds $(meaningless "$1")
    verdicts "$folder/base-$block" "$folder/change-$1" "$folder/verdict-change-$1"
}

plant() {
    # Loops that are 1 % of the mean unlink: from the mean without, and what 1,000 loops cost.
    if [ ! -s "$folder/loops" ]; then
        mean() {
            jq -s '[.[] | select(.seed <= 2) | .measured.phases[] | select(.name == "delete") | .ops.unlink
                | .total_ns / .count] | add / length' "$1/trials.ndjson"
        }
        lab "$folder/thousand" 1 2 unlink=1000
        awk -v none="$(mean "$folder/base-1")" -v some="$(mean "$folder/thousand")" \
            'BEGIN { printf "%.0f\n", none / 100 / ((some - none) / 1000) }' >"$folder/loops"
    fi
    last=$folder/change-$(($1 * changes_in_block))
    # A change that no other has.
    # shellcheck disable=SC2046
    lab "$folder/planted-$1" "$(first_seed "$1")" $seeds $(meaningless "$((1000 + $1))") "unlink=$(cat "$folder/loops")"
    verdicts "$last" "$folder/planted-$1" "$folder/verdict-planted-$1"
}

on_host() {
    out=$folder/pair-$1
    "$fsdyno" run dirops --set files=2000 --set remount=no --fs a=ext4 --fs b=ext4 --on ram:128M --seed $((100 * $1)) --repeat 5 \
        --out "$out" >/dev/null 2>"$folder/messages" || { cat "$folder/messages" >&2; exit 1; }
    for side in a b; do
        mkdir -p "$out/$side"
        jq -c "select(.plan.label == \"$side\")" "$out/trials.ndjson" >"$out/$side/trials.ndjson"
    done
    "$fsdyno" compare "$out/a" "$out/b" --threshold 0% --format json >"$folder/verdict-pair-$1.durable.json" \
        2>"$folder/messages" || [ $? = 1 ] || { cat "$folder/messages" >&2; exit 1; }
}

blocks=$(((changes + changes_in_block - 1) / changes_in_block))
[ "$planted" -le $((changes / changes_in_block)) ] ||
    { echo "honesty.sh: each slowdown takes $changes_in_block changes: ask for $((planted * changes_in_block)) or more" >&2; exit 2; }
block=0
while [ "$block" -lt "$blocks" ]; do
    block=$((block + 1))
    base=$folder/base-$block
    [ -s "$base.done" ] || { lab "$base" "$(first_seed "$block")" $seeds && echo 1 >"$base.done"; }
    n=$(((block - 1) * changes_in_block))
    while [ "$n" -lt $((block * changes_in_block)) ] && [ "$n" -lt "$changes" ]; do
        n=$((n + 1))
        [ -s "$folder/verdict-change-$n.cpu.json" ] || a_change "$n"
    done
    [ "$block" -gt "$planted" ] || [ -s "$folder/verdict-planted-$block.cpu.json" ] || plant "$block"
done
if [ "$pairs" -gt 0 ] && [ "$(id -u)" != 0 ]; then
    echo "honesty.sh: the pairs on this host take root (loop devices) and are left out" >&2
    pairs=0
fi
for n in $(seq "$pairs"); do
    [ -s "$folder/verdict-pair-$n.durable.json" ] || on_host "$n"
done

# count KIND METRIC FILTER: of the comparisons of a kind, in how many the filter holds; "k n".
count() {
    set -- "$3" "$folder"/verdict-"$1"-*."$2".json
    filter=$1
    shift
    [ -e "$1" ] || { echo 0 0; return; }
    jq -s "[.[] | $filter] | \"\\(map(select(.)) | length) \\(length)\"" -r "$@"
}

# percent NAME KIND METRIC FILTER SIDE PROMISED OF
# What is promised is of so many; a share of fewer says little of 5 %, and then only the count is told.
percent() {
    # shellcheck disable=SC2046
    set -- "$@" $(count "$2" "$3" "$4")
    [ "$9" -gt 0 ] || return 0
    if [ "$9" -lt "$7" ]; then
        printf '%-48s %10s %-12s promised of %s: no verdict on so few\n' "$1" "$8 of $9" "" "$7" |
            tee -a "${FSDYNO_BENCH_SUMMARY:-/dev/null}"
        return 0
    fi
    report "$1, $8 of $9" "$(awk -v k="$8" -v n="$9" 'BEGIN { print 100 * k / n }')" "%" "$5" "$6"
}

alarm='.rows | any(.verdict == "slower" or .verdict == "faster")'
bare='.rows | any(.p_in_table != null and .p_in_table < 0.05)'
found='.rows | any(.phase == "delete" and .verdict == "slower")'
for metric in $metrics; do
    percent "alarms by $metric, lab" change "$metric" "$alarm" at-most 5 200
    percent "+1 % on unlink found by $metric, lab" planted "$metric" "$found" at-least 95 40
    echo "  with no least difference that matters, by $metric: $(count change "$metric" "$bare" | tr ' ' '/') changes"
done
percent "alarms at 1 % on this host" pair durable '.rows | any(.p_in_table != null and .p_in_table < 0.01)' at-most 5 100
