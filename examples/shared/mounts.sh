#!/bin/sh
# Runs a command with a shared file system that is mounted several times on this host: each mount is a client with caches
# of its own. Daemons, mounts, network and data (in memory) belong to namespaces of the command, so nothing is left of
# them, however it ends. As root.
#
# mounts.sh gluster|moosefs|sshfs N COMMAND [ARGUMENT...]
#
# The mounts are /run/shared/mnt.0 to mnt.N-1, and MOUNTS is N.
#
# Functions are called by the name of the file system:
# shellcheck disable=SC2317
set -eu

say() { printf 'mounts.sh: %s\n' "$*" >&2; }

PATH=$PATH:/usr/sbin:/sbin
HERE=/run/shared
# Of the network namespace; GlusterFS refuses 127.0.0.1.
ADDRESS=10.0.0.1

# need PROGRAM PACKAGE
need() {
    command -v "$1" >/dev/null || {
        say "$1 is missing (apt-get install $2)"
        exit 3
    }
}

# Waits up to a minute until a command succeeds.
until_true() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        if [ $tries = 600 ]; then
            say "this did not succeed within a minute: $*"
            exit 4
        fi
        sleep 0.1
    done
}

# Two bricks, so that files are distributed.
start_gluster() {
    # Of the packages only their options for volumes are kept, and nothing of the volumes of this host.
    for folder in /var/lib/glusterd /var/log/glusterfs; do
        mkdir -p "$HERE$folder"
        mount --bind "$HERE$folder" "$folder"
    done
    mkdir "$HERE/brick.0" "$HERE/brick.1"
    glusterd
    until_true gluster --mode=script volume list
    gluster --mode=script volume create shared "$ADDRESS:$HERE/brick.0" "$ADDRESS:$HERE/brick.1" force >&2
    gluster --mode=script volume start shared >&2
}

mount_gluster() { glusterfs --volfile-server="$ADDRESS" --volfile-id=shared "$1"; }

start_moosefs() {
    mkdir "$HERE/master" "$HERE/chunkserver" "$HERE/chunks"
    cp /var/lib/mfs/metadata.mfs.empty "$HERE/master/metadata.mfs"
    echo '* / rw,alldirs,admin,maproot=0:0' >"$HERE/exports.cfg"
    echo "$HERE/chunks" >"$HERE/hdd.cfg"
    cat >"$HERE/master.cfg" <<END
WORKING_USER = root
WORKING_GROUP = root
DATA_PATH = $HERE/master
EXPORTS_FILENAME = $HERE/exports.cfg
END
    cat >"$HERE/chunkserver.cfg" <<END
WORKING_USER = root
WORKING_GROUP = root
DATA_PATH = $HERE/chunkserver
HDD_CONF_FILENAME = $HERE/hdd.cfg
MASTER_HOST = $ADDRESS
END
    mfsmaster -c "$HERE/master.cfg" start >&2
    mfschunkserver -c "$HERE/chunkserver.cfg" start >&2
}

# There is no space before the chunk server has registered.
mount_moosefs() {
    mountpoint -q "$1" || mfsmount -H "$ADDRESS" "$1" >&2
    [ "$(stat -f -c %b "$1")" -gt 0 ]
}

start_sshfs() {
    mkdir "$HERE/exported" /run/sshd
    ssh-keygen -q -t ed25519 -N '' -f "$HERE/host"
    ssh-keygen -q -t ed25519 -N '' -f "$HERE/user"
    cat >"$HERE/sshd.conf" <<END
ListenAddress $ADDRESS:22
HostKey $HERE/host
AuthorizedKeysFile $HERE/user.pub
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
MaxStartups 100
Subsystem sftp internal-sftp
END
    /usr/sbin/sshd -f "$HERE/sshd.conf"
}

mount_sshfs() {
    sshfs -o "IdentityFile=$HERE/user,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null,LogLevel=ERROR" \
        "root@$ADDRESS:$HERE/exported" "$1"
}

if [ "${1-}" != inside ]; then
    [ $# -ge 3 ] || {
        say "usage: mounts.sh gluster|moosefs|sshfs N COMMAND [ARGUMENT...]"
        exit 2
    }
    case $1 in
    gluster) need glusterd glusterfs-server && need glusterfs glusterfs-client ;;
    moosefs) need mfsmaster moosefs-master && need mfschunkserver moosefs-chunkserver && need mfsmount moosefs-client ;;
    sshfs) need sshfs sshfs && need sshd openssh-server ;;
    *)
        say "'$1' is none of gluster, moosefs and sshfs"
        exit 2
        ;;
    esac
    need ip iproute2
    [ "$(id -u)" = 0 ] || {
        say "only root can mount file systems and make namespaces"
        exit 3
    }
    # The kernel ends all processes in the namespace with the first, and that with unshare.
    exec unshare --mount --net --uts --ipc --pid --fork --kill-child --mount-proc -- "$0" inside "$@"
fi

kind=$2 MOUNTS=$3
export MOUNTS
shift 3
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir "$HERE"
hostname localhost
ip link set lo up
ip address add "$ADDRESS/32" dev lo
"start_$kind"
for number in $(seq 0 $((MOUNTS - 1))); do
    mkdir "$HERE/mnt.$number"
    until_true "mount_$kind" "$HERE/mnt.$number"
    until_true mountpoint -q "$HERE/mnt.$number"
done
# Not exec: the first process of the namespace has to outlive the daemons' children, which it inherits.
code=0
"$@" || code=$?
exit $code
