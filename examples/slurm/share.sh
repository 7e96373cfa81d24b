#!/bin/sh
#SBATCH --job-name=fsdyno-share
#SBATCH --array=1-8
#SBATCH --cpus-per-task=1
#SBATCH --mem=4G
#SBATCH --time=04:00:00
#SBATCH --output=share-%a.log
# One shard of the study: task I of N runs every N-th trial, beginning with the I-th. A killed task resumes
# when it is submitted again.
set -eu
cd "${SLURM_SUBMIT_DIR:-.}"
. ./study.sh

# Slurm counts only the tasks of this submission: to submit one task again, set SHARES to the total number.
shares=${SHARES:-$SLURM_ARRAY_TASK_COUNT}
share=$SLURM_ARRAY_TASK_ID

exec "$FSDYNO" run "$@" --shard "$share/$shares" --out "$RESULTS/share-$share"
