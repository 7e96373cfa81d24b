#!/bin/sh
# Submits the shares, and the merge that begins when all of them have ended.
set -eu
job=$(sbatch --parsable share.sh)
sbatch --dependency="afterany:${job%%;*}" merge.sh
