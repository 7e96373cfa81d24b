#!/bin/sh
# The page of 200 trials, and the report of 10,000, with what was recorded over time and without: how large, how
# fast, in how much memory.
# page.sh FSDYNO [RESULT]
#
# The trials are copies of those of RESULT, or of one small real study in the lab, with seeds of their own; their digits
# do not matter here, only their number. Prints a line for each promise. Leaves nothing behind.
set -eu
. "$(dirname "$0")/lib.sh"
fsdyno=$(realpath "$1")
work=$(mktemp -d)
trap '[ "${FSDYNO_BENCH_KEEP:-}" ] || rm -rf "$work"' EXIT INT TERM

if [ -n "${2:-}" ]; then
    cp -r "$(realpath "$2")" "$work/one"
else
    "$fsdyno" run dirops tarball --set files=3000 --fs ext4 --fs xfs --fs ext2 --repeat 1 --seed 1 \
        --out "$work/one" >/dev/null 2>"$work/messages" || { cat "$work/messages" >&2; exit 1; }
fi

# copies NUMBER FOLDER: so many trials, the k-th copy of each with seed k.
copies() {
    mkdir -p "$2"
    awk -v number="$1" '{ line[NR] = $0 }
        END {
            for (i = 0; i < number; i++) {
                out = line[i % NR + 1]
                # Of each plan and label by itself: equal seeds would be one trial.
                match(out, /"trial_id":"[0-9a-f]+/)
                row = substr(out, RSTART, RLENGTH)
                match(out, /"label":"[^"]*"/)
                seed = ++seeds[row, substr(out, RSTART, RLENGTH)]
                sub(/"seed":[0-9]+,/, "\"seed\":" seed ",", out)
                sub(/-[0-9]+","lab_id"/, "-" seed "\",\"lab_id\"", out)
                print out
            }
        }' "$work/one/trials.ndjson" >"$2/trials.ndjson"
}

# over_time NUMBER FOLDER: the series of these copies.
over_time() {
    awk -v number="$1" '{ line[NR] = $0 }
        END {
            for (i = 0; i < number && NR > 0; i++) {
                out = line[i % NR + 1]
                match(out, /"trial_id":"[0-9a-f]+/)
                row = substr(out, RSTART, RLENGTH)
                match(out, /"label":"[^"]*"/)
                seed = ++seeds[row, substr(out, RSTART, RLENGTH)]
                sub(/-[0-9]+","label"/, "-" seed "\",\"label\"", out)
                print out
            }
        }' "$work/one/series.ndjson" >"$2/series.ndjson"
}

# peak COMMAND...: its wall-clock seconds and the most memory it held in MiB, in that order.
peak() {
    /usr/bin/env python3 - "$@" <<'PYTHON'
import resource, subprocess, sys, time
start = time.monotonic()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
PYTHON
}

copies 200 "$work/few"
over_time 200 "$work/few"
"$fsdyno" report "$work/few" --html "$work/few.html" >/dev/null 2>&1
report "page of 200 trials" "$(awk 'BEGIN { print ARGV[1] / 1e6 }' "$(wc -c <"$work/few.html")")" MB at-most 1.5

copies 10000 "$work/many"
set -- $(peak "$fsdyno" report "$work/many" --html "$work/many.html")
report "report of 10,000 trials: time" "$1" s at-most 10
report "report of 10,000 trials: memory" "$2" MiB at-most 500
over_time 10000 "$work/many"
set -- $(peak "$fsdyno" report "$work/many" --html "$work/many.html")
report "the same with their series: time" "$1" s at-most 10
report "the same with their series: memory" "$2" MiB at-most 500
report "page of 10,000 trials" "$(awk 'BEGIN { print ARGV[1] / 1e6 }' "$(wc -c <"$work/many.html")")" MB at-most 1.5

# How long the browser takes from the start of navigation until all is loaded and laid out, by its own clock: a
# copy of the page writes it into its title. The median of five.
if ! command -v chromium >/dev/null; then
    echo "page: no chromium here, the time to open was not measured (apt-get install chromium)"
    exit 0
fi
for page in few many; do
    { cat "$work/$page.html"
      echo '<script>addEventListener("load", () => { document.documentElement.scrollHeight; document.title = "opened in " + performance.now(); })</script>'
    } >"$work/timed.html"
    for _ in 1 2 3 4 5; do
        chromium --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/profile" \
            --dump-dom "file://$work/timed.html" 2>/dev/null | sed -n 's/.*<title>opened in \([0-9.]*\)<.*/\1/p'
    done | sort -n | sed -n 3p >"$work/opened"
    report "opening the page ($page trials)" "$(awk '{ print $1 / 1000 }' "$work/opened")" s at-most 1
done
