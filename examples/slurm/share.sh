#!/bin/sh
#SBATCH --job-name=fsdyno-share
#SBATCH --array=1-8
#SBATCH --cpus-per-task=1
#SBATCH --mem=4G
#SBATCH --time=04:00:00
#SBATCH --output=share-%a.log
# One share of the study: task I of N runs every N-th trial, from the I-th on. A task that was killed goes
# on where it was when it is submitted again.
set -eu
cd "${SLURM_SUBMIT_DIR:-.}"
. ./study.sh

# Slurm counts the tasks of this submission: who submits one task again says of how many it was.
shares=${SHARES:-$SLURM_ARRAY_TASK_COUNT}
share=$SLURM_ARRAY_TASK_ID

exec "$FSDYNO" run "$@" --shard "$share/$shares" --out "$RESULTS/share-$share"
