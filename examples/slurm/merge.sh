#!/bin/sh
#SBATCH --job-name=fsdyno-merge
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=00:10:00
#SBATCH --output=merge.log
# Merges the shards: the result equals that of a single machine.
set -eu
cd "${SLURM_SUBMIT_DIR:-.}"
. ./study.sh

exec "$FSDYNO" merge "$RESULTS/whole" "$RESULTS"/share-*
