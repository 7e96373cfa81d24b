#!/bin/sh
# The errors of a processor profile against the stored CPU times of epyc-2024's machine (docs/processor-check.md, `calls`
# with 1000 files and names of 24 bytes). Needs no root and no idle machine: the lab's times are virtual. About 3 minutes.
# Usage: bench/cpu_published.sh FSDYNO [PROFILE]
set -eu
export FSDYNO_MACHINE=classic
here=$(dirname "$0")
profile=${2:-$here/epyc-published.toml}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" run calls --set files=1000 --set name=24 --disk instant --kernel 6.18 --cpu "$profile" --out "$folder/run" \
    --fs ext2 --fs ext3 --fs ext4 --fs xfs --fs btrfs --format csv >"$folder/run.csv"
# Columns by name: a phase has one line for each kind of call, and as many calls as they have together.
awk -F, -v OFS='\t' '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { key = $at["phase"] OFS $at["filesystem"]; calls[key] += $at["count"]; ns[key] = $at["cpu_ns"] }
    END { for (key in ns) print key, ns[key] / calls[key] / 1000 }
' "$folder/run.csv" >"$folder/lab"
awk -F' *[|] *' -v OFS='\t' '
    NR == FNR { split($0, it, "\t"); lab[it[1] OFS it[2]] = it[3]; next }
    $2 == "calls files=1000 name=24" && ($3 OFS $4) in lab {
        print $3, $5, lab[$3 OFS $4]
    }
' "$folder/lab" "$here/../docs/processor-check.md" >"$folder/pairs"
awk -F'\t' '
    function size(x) { return x < 0 ? -x : x }
    {
        errors[++n] = size($3 / $2 - 1)
        for (i = 1; i < n; i++)
            if (phase[i] == $1) { squares += (log($3 / at[i]) - log($2 / is[i])) ^ 2; pairs++ }
        phase[n] = $1; is[n] = $2; at[n] = $3
    }
    END {
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && errors[j - 1] > errors[j]; j--) {
                it = errors[j]; errors[j] = errors[j - 1]; errors[j - 1] = it
            }
        printf "%d phases: median error %.0f %%, worst %.0f %%; ratios between file systems %.0f %% (rms)\n", \
            n, 100 * errors[int((n + 2) / 2)], 100 * errors[n], 100 * (exp(sqrt(squares / pairs)) - 1)
    }
' "$folder/pairs"
