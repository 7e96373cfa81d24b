#!/bin/sh
# The spread over seeds: 20 seeds of each of the seven file systems under dirops and tarball, in the lab.
# spread.sh FSDYNO FOLDER [SEEDS [DISK...]] >docs/spread.csv
#
# FOLDER keeps the trials; the same command again goes on where it was, so that it may be stopped.
# One line for each phase and measure: `durable` in seconds, `rate` in calls a second until returned.
set -eu
export FSDYNO_MACHINE=classic
fsdyno=$(realpath "$1")
folder=$2
seeds=${3:-20}
[ $# -lt 3 ] || shift
shift 2
[ $# -gt 0 ] || set -- hdd-7200
mkdir -p "$folder"
for disk; do
    for fs in ext2 ext3 ext4 xfs btrfs reiserfs jfs; do
        for workload in dirops tarball; do
            out="$folder/$disk-$fs-$workload"
            "$fsdyno" run "$workload" --set files=2000 --fs "$fs" --disk "$disk" --repeat "$seeds" \
                --jobs "${FSDYNO_JOBS:-1}" --out "$out" >/dev/null 2>"$folder/messages" ||
                { cat "$folder/messages" >&2; exit 1; }
        done
    done
done
echo "workload,parameters,filesystem,disk,phase,measure,n,mean,sd_percent,min,max,date,lab_id"
for disk; do
    for fs in ext2 ext3 ext4 xfs btrfs reiserfs jfs; do
        for workload in dirops tarball; do
            out="$folder/$disk-$fs-$workload"
            date=$(date -u -r "$out/trials.ndjson" +%Y-%m-%d)
            # No field that is read here holds a comma: parameters are parted by spaces.
            "$fsdyno" report "$out" --format csv | awk -F , -v date="$date" '
                function put(name, n, s, q, lo, hi,    mean, sd) {
                    if (!n) return
                    mean = s / n
                    sd = n > 1 ? sqrt((q - s * mean) / (n - 1)) : 0
                    printf "%s,%s,%s,%d,%.9g,%.3g,%.9g,%.9g,%s,%s\n", cell, phase, name, n, mean,
                        100 * sd / mean, lo, hi, date, lab
                }
                function end_trial(    rate) {
                    if (seed == "") return
                    if (!(phase in n)) order[++phases] = phase
                    rate = calls * 1e9 / returned
                    if (!n[phase]++) { dlo[phase] = rlo[phase] = 1e99 }
                    rs[phase] += rate; rq[phase] += rate * rate
                    if (rate < rlo[phase]) rlo[phase] = rate
                    if (rate > rhi[phase]) rhi[phase] = rate
                    # A phase that was NOT DURABLE has no such time.
                    if (durable == "") return
                    dn[phase]++
                    ds[phase] += durable; dq[phase] += durable * durable
                    if (durable < dlo[phase]) dlo[phase] = durable
                    if (durable > dhi[phase]) dhi[phase] = durable
                }
                NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
                $at["outcome"] != "ok" { print "a trial failed: " $0 >"/dev/stderr"; exit 1 }
                $at["seed"] " " $at["phase"] != seed " " phase {
                    end_trial()
                    calls = 0
                }
                {
                    seed = $at["seed"]; phase = $at["phase"]; calls += $at["count"]
                    returned = $at["returned_ns"]; durable = $at["durable_ns"]
                    if (durable != "") durable /= 1e9
                    lab = substr($at["lab_id"], 1, 16)
                    cell = $at["workload"] "," $at["parameters"] "," $at["filesystem"] "," $at["disk"]
                }
                END {
                    end_trial()
                    for (i = 1; i <= phases; i++) {
                        phase = order[i]
                        put("durable", dn[phase], ds[phase], dq[phase], dlo[phase], dhi[phase])
                        put("rate", n[phase], rs[phase], rq[phase], rlo[phase], rhi[phase])
                    }
                }'
        done
    done
done
