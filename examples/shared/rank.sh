#!/bin/sh
# Runs fsdyno as one rank below mounts.sh, on the mount of its own: rank r of a run has mount r modulo their number, so
# that with --shift 1 each rank works on what another client has made.
#
# mpiexec -n 8 rank.sh FSDYNO run WORKLOAD [OPTION...] --ranks
set -eu
rank=${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-${SLURM_PROCID:-$FSDYNO_RANK}}}
exec "$@" --on "/run/shared/mnt.$((rank % MOUNTS))"
