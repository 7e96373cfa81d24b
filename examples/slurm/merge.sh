#!/bin/sh
#SBATCH --job-name=fsdyno-merge
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=00:10:00
#SBATCH --output=merge.log
# Puts the shares together: the folder that one machine alone would have left.
set -eu
cd "${SLURM_SUBMIT_DIR:-.}"
. ./study.sh

exec "$FSDYNO" merge "$RESULTS/whole" "$RESULTS"/share-*
