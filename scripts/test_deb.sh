#!/bin/sh
# Installs a package in a minimal Debian of its own, uses it there, removes it, and looks for what it left.
# test_deb.sh PACKAGE [SUITE [SOURCE]]
# SOURCE is a line of sources.list, for a suite that mmdebstrap or its keys do not know.
# Needs root, mmdebstrap and a mirror; prints what is missing and ends with 77 where it cannot run.
set -eu

package=$(realpath "$1")
suite=${2:-bookworm}
source=${3:-}

skip() {
    echo "test_deb: skipped: $*" >&2
    exit 77
}

command -v mmdebstrap >/dev/null || skip "no mmdebstrap (apt-get install mmdebstrap)"
[ "$(id -u)" = 0 ] || skip "only root can mount the file systems of a chroot"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/in_chroot" <<'END'
#!/bin/sh
set -eu
# The cache of kernels is the user's, not the package's.
export LC_ALL=C DEBIAN_FRONTEND=noninteractive HOME=/root XDG_CACHE_HOME=/tmp/cache
files() { find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var/cache -o -path /var/lib/apt -o -path /var/log -o -path /var/lib/dpkg \) -prune -o -print | sort; }
files >/tmp/before
apt-get install -y --no-install-recommends /tmp/fsdyno.deb
fsdyno --version
cd /tmp && mkdir place && cd place
fsdyno demo --quick
[ -s fsdyno-results/demo/report.html ]
fsdyno list results
fsdyno doctor || [ $? = 3 ]
ls /usr/share/bash-completion/completions/fsdyno /usr/share/zsh/vendor-completions/_fsdyno >/dev/null
[ "$(dpkg -V fsdyno | grep -v /usr/share/man | grep -v /usr/share/doc | wc -l)" = 0 ]
cd / && rm -r /tmp/place
apt-get purge -y fsdyno
apt-get autoremove -y
files >/tmp/after
diff /tmp/before /tmp/after
END
chmod 755 "$work/in_chroot"
# mmdebstrap puts the chroot's path into $1.
# shellcheck disable=SC2016
mmdebstrap --quiet --variant=apt \
    --customize-hook="copy-in $work/in_chroot /tmp" \
    --customize-hook="cp '$package' \"\$1/tmp/fsdyno.deb\"" \
    --customize-hook='chroot "$1" /tmp/in_chroot >&2' \
    "$suite" /dev/null ${source:+"$source"}
echo "test_deb: installed, used and removed on $suite; nothing is left"
