# shellcheck shell=sh
# What is run, in one place: every share has to be typed alike. Sourced by the other scripts.

# The program, its results, and where kernels are kept: on a file system that all nodes see.
FSDYNO=${FSDYNO:-fsdyno}
RESULTS=${RESULTS:-results}

# Words of `fsdyno run`, without --shard and --out. Name a kernel, so that nodes with different
# distributions still run one lab.
set -- dirops tarball \
    --fs ext4 --fs xfs --fs btrfs --fs 'small=ext4 -I 128' \
    --disk hdd-7200 --repeat 20 \
    --set dirops.files=50000 --set tarball.files=20000
