#!/bin/sh
# Submits the shards, and the merge, which begins when all of them have ended.
set -eu
job=$(sbatch --parsable share.sh)
sbatch --dependency="afterany:${job%%;*}" merge.sh
