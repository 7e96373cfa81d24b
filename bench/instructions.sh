#!/bin/sh
# Where the guest's instructions go in dirops on ext4: per create (with its close) and per unlink.
# instructions.sh FSDYNO [FILES]
#
# In the lab one instruction is one nanosecond, and CPU times by schedstat are exact. Three trials of one
# seed: with the null issuer (no call is made), on the instant disk (no block layer to speak of, no
# server), on hdd-7200. What a row is:
#   workload, engine    the phase of the null issuer: names, clock, histograms, and that of the caller
#   file system         the caller's CPU on the instant disk, less the row above
#   block layer         what the caller takes more than that on hdd-7200; may be below zero by the noise
#                       of caches and timers
#   kernel threads      jbd2, write-back, and all other work of theirs on hdd-7200
#   nbd driver, server  the instrument's own disk
# Below, what a trial takes once, divided by the files: boot without the firmware, which runs before the
# guest's clock; these are elapsed times and hold what the CPU was idle. The file system's own check runs
# on the host.
set -eu
here=$(dirname "$0")
# shellcheck source=bench/lib.sh
. "$here/lib.sh"
fsdyno=$1
files=${2:-10000}
folder=$(mktemp -d)
trap '[ "${FSDYNO_BENCH_KEEP:-}" ] || rm -r "$folder"' EXIT
trial() {
    name=$1
    shift
    "$fsdyno" run dirops --fs ext4 --set files="$files" --out "$folder/$name" "$@" \
        >/dev/null 2>"$folder/messages" || { cat "$folder/messages" >&2; exit 1; }
    awk -f "$here/json.awk" "$folder/$name/trials.ndjson" | sed "s/^/$name./"
}
{
    trial null --disk hdd-7200 --issuer null
    trial instant --disk instant
    trial hdd --disk hdd-7200
} >"$folder/fields"
awk -v files="$files" '
    { field[$1] = $2 }
    $1 ~ /^hdd\.measured\.phases\.[01]\.kernel_cpu_ns/ { kernel[substr($1, 21, 1)] += $2 }
    $1 ~ /^hdd\.measured\.gaps.*\.wanted$/ && $2 == "verify" {
        path = $1
        sub(/wanted$/, "elapsed_ns", path)
        verifications[path]
    }
    function per(path) { return field[path] / files }
    function row(name, a, b) { printf "%-24s %10.0f %10.0f\n", name, a, b }
    END {
        for (path in verifications) verify += field[path]
        for (p = 0; p < 2; p++) {
            at = ".measured.phases." p "."
            engine[p] = per("null" at "returned_ns")
            fs[p] = per("instant" at "cpu_ns") - engine[p]
            block[p] = per("hdd" at "cpu_ns") - per("instant" at "cpu_ns")
            threads[p] = kernel[p] / files
            driver[p] = per("hdd" at "instrument.driver_cpu_ns")
            server[p] = per("hdd" at "instrument.server_cpu_ns")
            own[p] = engine[p] + driver[p] + server[p]
            all[p] = own[p] + fs[p] + block[p] + threads[p]
        }
        printf "%-24s %10s %10s\n", "instructions a file", "create", "unlink"
        row("workload, engine", engine[0], engine[1])
        row("file system", fs[0], fs[1])
        row("block layer", block[0], block[1])
        row("kernel threads", threads[0], threads[1])
        row("nbd driver", driver[0], driver[1])
        row("server", server[0], server[1])
        row("in the phase", all[0], all[1])
        printf "\n%-24s %10s\n", "once a trial", "a file"
        s = "hdd.measured.setup."
        printf "%-24s %10.0f\n", "boot", per(s "boot_ns")
        printf "%-24s %10.0f\n", "modules, disk", per(s "device_ns")
        printf "%-24s %10.0f\n", "mkfs", per(s "mkfs_ns")
        printf "%-24s %10.0f\n", "mount", per(s "mount_ns")
        printf "%-24s %10.0f\n", "verification, its gaps", verify / files
        printf "%-24s %10d\n", "check, on the host", 0
        once = (field[s "boot_ns"] + field[s "device_ns"] + field[s "mkfs_ns"] + field[s "mount_ns"] + verify) / files
        printf "%-24s %10.0f\n\n", "all in, both phases", once + all[0] + all[1]
        for (p = 0; p < 2; p++) print "share", p, 100 * own[p] / all[p]
    }' "$folder/fields" >"$folder/table"
grep -v '^share' "$folder/table"
share() { sed -n "s/^share $1 //p" "$folder/table"; }
report "create on ext4: the instrument's share" "$(share 0)" % at-most 10
report "unlink on ext4: the instrument's share" "$(share 1)" % at-most 10
