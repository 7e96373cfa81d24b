# What the benches share; each sources it. A line of a bench: number, what it is, what was promised.

# The machine that the promises are for: a bench that names no other has this one.
export FSDYNO_MACHINE=classic

# report NAME NUMBER UNIT at-least|at-most PROMISED: prints the line, and keeps the verdict.
report() {
    awk -v name="$1" -v number="$2" -v unit="$3" -v side="$4" -v promised="$5" 'BEGIN {
        kept = side == "at-least" ? number >= promised : number <= promised
        printf "%-48s %10.2f %-12s promised: %s %s  %s\n", name, number, unit, side, promised,
            kept ? "kept" : "NOT KEPT" }' | tee -a "${FSDYNO_BENCH_SUMMARY:-/dev/null}"
}

# Prints the median of the numbers on standard input, the lower one of two; nothing without numbers.
median() { sort -n | awk '{ all[NR] = $1 } END { if (NR) print all[int((NR + 1) / 2)] }'; }
