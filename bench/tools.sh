#!/bin/sh
# The engine against other tools that do the same kind of work on a tmpfs, in turn, in one run.
# tools.sh ENGINE [ROUNDS], where ENGINE is the against_bare binary of cargo bench.
#
# fio        filecreate, filestat, filedelete: one open file, in sequence, its own rates. It opens
#            with O_CREAT and closes, as the engine does; the files that the other two need are made
#            outside of the time.
# bonnie++   its sequential create, stat and delete of empty files. It prints no number for what takes
#            less than half a second; there is no ratio then.
# postmark   it counts in whole seconds, so that both are timed from outside, from start to end: files
#            of 4 KiB made and removed, in the engine's case with its start and its pool of contents.
# mdtest     is not in Debian 12 (apt-cache policy mdtest ior: nothing); PyPI has a package of that name
#            (0.1.2, 11 kB), which does not build here.
# The engine records every latency meanwhile, as always. A tool that is not there is skipped.
set -eu
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
engine=$(realpath "$1")
rounds=${2:-7}
files=50000
folder=$(mktemp -d /dev/shm/fsdyno-tools-XXXXXX)
trap '[ "${FSDYNO_BENCH_KEEP:-}" ] || rm -rf "$folder"' EXIT INT TERM
data=$folder/data

fresh() {
    rm -rf "$data"
    mkdir "$data"
}

# Lines of "engine PHASE RATE".
engine_rates() {
    fresh
    "$engine" --engine "$data" "$files" | awk -v n="$files" '{ printf "engine %s %.0f\n", $1, n * 1e9 / $2 }'
}

# fio_rate FIO_ENGINE PHASE
fio_rate() {
    fresh
    fio --name=t --ioengine="$1" --directory="$data" --nrfiles="$files" --filesize=4k --bs=4k \
        --openfiles=1 --file_service_type=sequential --fallocate=none --thread \
        --output-format=terse --terse-version=3 2>/dev/null | tail -n 1 | cut -d ';' -f 8 |
        awk -v phase="$2" '$1 > 0 { print "fio", phase, $1 }'
}

# The rates of bonnie++ are fields 27 (create), 29 (stat) and 31 (delete) of its line.
bonnie_rates() {
    fresh
    bonnie++ -d "$data" -s 0 -n 400:0:0:1 -u "$(id -un)" -q 2>/dev/null | awk -F , '
        $27 > 0 { print "bonnie++ create", $27 }
        $29 > 0 { print "bonnie++ stat", $29 }
        $31 > 0 { print "bonnie++ unlink", $31 }'
}

# whole NAME COMMAND...: files a second, from the start of the program to its end.
whole() {
    name=$1
    shift
    before=$(date +%s%N)
    "$@" >/dev/null 2>"$folder/messages" || { cat "$folder/messages" >&2; return 1; }
    after=$(date +%s%N)
    awk -v name="$name" -v n="$files" -v ns=$((after - before)) \
        'BEGIN { printf "%s 4KiB-whole %.0f\n", name, n * 1e9 / ns }'
}

postmark_whole() {
    fresh
    # Ten transactions are the fewest: it divides by a tenth of them (postmark 1.53 crashes below).
    printf 'set location %s\nset number %s\nset size 4096 4097\nset transactions 10\nrun\nquit\n' \
        "$data" "$files" >"$folder/postmark.txt"
    whole postmark postmark "$folder/postmark.txt"
    fresh
    whole engine "$engine" --memory "$data" dirops files="$files" size=4096
}

present=
for tool in fio bonnie++ postmark; do
    if command -v "$tool" >/dev/null; then
        present="$present $tool"
    else
        printf '%-48s skipped: not installed (apt-get install %s)\n' "against $tool" "$tool" |
            tee -a "${FSDYNO_BENCH_SUMMARY:-/dev/null}"
    fi
done
round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    engine_rates
    for tool in $present; do
        case $tool in
        fio)
            fio_rate filecreate create
            fio_rate filestat stat
            fio_rate filedelete unlink
            ;;
        bonnie++) bonnie_rates ;;
        postmark) postmark_whole ;;
        esac
    done
done | sed 's/^/x /' >"$folder/rates"
# Each tool's number has the engine's of the same round beside it.
for tool in $present; do
    for phase in create stat unlink 4KiB-whole; do
        awk -v tool="$tool" -v phase="$phase" '
            $2 == "engine" && $3 == phase { ours[++e] = $4 }
            $2 == tool && $3 == phase { theirs[++t] = $4 }
            END { for (i = 1; i <= t && i <= e; i++) printf "%.4f %d %d\n", ours[i] / theirs[i], ours[i], theirs[i] }' \
            "$folder/rates" | sort -n >"$folder/ratios"
        n=$(wc -l <"$folder/ratios")
        if [ "$n" -eq 0 ]; then
            case $tool/$phase in
            bonnie++/stat) echo "$phase against $tool: it gives no number for less than half a second" ;;
            esac
            continue
        fi
        middle=$(sed -n "$(((n + 1) / 2))p" "$folder/ratios")
        printf '%s, engine %s a second, %s %s; ratio from %s to %s in %s rounds\n' "$phase" \
            "$(echo "$middle" | cut -d ' ' -f 2)" "$tool" "$(echo "$middle" | cut -d ' ' -f 3)" \
            "$(head -n 1 "$folder/ratios" | cut -d ' ' -f 1)" \
            "$(tail -n 1 "$folder/ratios" | cut -d ' ' -f 1)" "$n"
        report "$phase: engine against $tool" "$(echo "$middle" | cut -d ' ' -f 1)" times at-least 1
    done
done
