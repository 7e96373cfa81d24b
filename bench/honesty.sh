#!/bin/sh
# Whether verdicts are honest: alarms where nothing differs, and a slowdown that is there found.
# honesty.sh FSDYNO FOLDER [CHANGES [PLANTED [PAIRS [DISK]]]], as root for PAIRS (loop devices in RAM).
#
# FOLDER keeps trials and verdicts; the same command again goes on where it was, so that it may be stopped.
#
# 1. Lab: CHANGES changes that mean nothing (a word of the kernel's command line, padding of the initramfs, an
#    unused module, in turn), each compared with the unchanged lab by the same eight paired seeds.
# 2. Lab: PLANTED times a slowdown of 1 % of the mean unlink (empty loops after each call, in its time), each
#    with eight seeds of its own, and a change that means nothing on either side.
# 3. Host: PAIRS pairs of two conditions that are one, five trials each, interleaved, tested at 1 %.
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
# A planted slowdown is looked for in a phase of a fifth of a second. At the end of one of a tenth, 1.9 ms in which
# ksoftirqd frees inodes (RCU) fall inside or after the last unlink: more than 1 % of it, as TOO SHORT says.
few=3000
many=6000
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

# lab OUT FILES SEED SEEDS CHANGE...: trials of one lab.
lab() {
    lab_out=$1 lab_files=$2 lab_seed=$3 lab_seeds=$4
    shift 4
    for change; do
        shift
        set -- "$@" --change "$change"
    done
    # ${FSDYNO_BENCH_WITH:-} may be `flock FILE`, where several benches share a machine.
    # shellcheck disable=SC2086
    ${FSDYNO_BENCH_WITH:-} "$fsdyno" run dirops --set "files=$lab_files" --fs ext4 --disk "$disk" --size 256M --ram 256M \
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

plant() {
    # Loops that are 1 % of the mean unlink: from the mean without, and what 1,000 loops cost.
    if [ ! -s "$folder/loops" ]; then
        mean() {
            jq -s '[.[].measured.phases[] | select(.name == "delete") | .ops.unlink
                | .total_ns / .count] | add / length' "$1/trials.ndjson"
        }
        lab "$folder/none" $many 1 2
        lab "$folder/thousand" $many 1 2 unlink=1000
        awk -v none="$(mean "$folder/none")" -v some="$(mean "$folder/thousand")" \
            'BEGIN { printf "%.0f\n", none / 100 / ((some - none) / 1000) }' >"$folder/loops"
    fi
    loops=$(cat "$folder/loops")
    seed=$((1000 * $1))
    # shellcheck disable=SC2046
    [ -s "$folder/planted-$1/base.done" ] || {
        lab "$folder/planted-$1/base" $many $seed 8 $(meaningless "$((2 * $1))")
        echo 1 >"$folder/planted-$1/base.done"
    }
    # shellcheck disable=SC2046
    lab "$folder/planted-$1/new" $many $seed 8 $(meaningless "$((2 * $1 + 1))") "unlink=$loops"
    verdicts "$folder/planted-$1/base" "$folder/planted-$1/new" "$folder/verdict-planted-$1"
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

if [ "$changes" -gt 0 ] || [ "$planted" -gt 0 ]; then
    mkdir -p "$folder/base"
    [ -s "$folder/base.done" ] || { lab "$folder/base" $few 1 8 && echo 1 >"$folder/base.done"; }
fi
# In turn, so that a run that is stopped has some of each.
n=0
p=0
while [ "$n" -lt "$changes" ] || [ "$p" -lt "$planted" ]; do
    for _ in 1 2 3 4 5 6 7 8; do
        [ "$n" -lt "$changes" ] || break
        n=$((n + 1))
        [ ! -s "$folder/verdict-change-$n.cpu.json" ] || continue
        # shellcheck disable=SC2046
        lab "$folder/change-$n" $few 1 8 $(meaningless "$n")
        verdicts "$folder/base" "$folder/change-$n" "$folder/verdict-change-$n"
    done
    [ "$p" -lt "$planted" ] || continue
    p=$((p + 1))
    [ -s "$folder/verdict-planted-$p.cpu.json" ] || plant "$p"
done
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

# percent NAME KIND METRIC FILTER SIDE PROMISED
percent() {
    # shellcheck disable=SC2046
    set -- "$@" $(count "$2" "$3" "$4")
    [ "$8" -gt 0 ] || return 0
    report "$1, $7 of $8" "$(awk -v k="$7" -v n="$8" 'BEGIN { print 100 * k / n }')" "%" "$5" "$6"
}

alarm='.rows | any(.verdict == "slower" or .verdict == "faster")'
bare='.rows | any(.p_in_table != null and .p_in_table < 0.05)'
found='.rows | any(.phase == "delete" and .verdict == "slower")'
for metric in $metrics; do
    percent "alarms by $metric, lab" change "$metric" "$alarm" at-most 5
    percent "+1 % on unlink found by $metric, lab" planted "$metric" "$found" at-least 95
    echo "  with no least difference that matters, by $metric: $(count change "$metric" "$bare" | tr ' ' '/') changes"
done
percent "alarms at 1 % on this host" pair durable '.rows | any(.p_in_table != null and .p_in_table < 0.01)' at-most 5
