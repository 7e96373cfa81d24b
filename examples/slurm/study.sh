# shellcheck shell=sh
# The command, shared by all tasks, because every shard needs the same arguments. Sourced by the other scripts.

# The program and its results, on a file system that all nodes share.
FSDYNO=${FSDYNO:-fsdyno}
RESULTS=${RESULTS:-results}

# Arguments of `fsdyno run`, without --shard and --out. Give a kernel, so that nodes with different
# distributions run the same lab.
set -- dirops tarball \
    --fs ext4 --fs xfs --fs btrfs --fs 'small=ext4 -I 128' \
    --machine classic --repeat 20 \
    --set dirops.files=50000 --set tarball.files=20000
