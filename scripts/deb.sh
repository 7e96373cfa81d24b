#!/bin/sh
# Makes a Debian package of two programs that are built. The same programs give the same bytes.
# deb.sh FSDYNO AGENT FOLDER
# DEBFULLNAME and DEBEMAIL name its maintainer.
set -eu
umask 022

program=$1
agent=$2
out=$3
root=$(cd "${0%/*}/.." && pwd)
for tool in dpkg-deb dpkg-shlibdeps; do
    command -v "$tool" >/dev/null || {
        echo "deb: $tool is missing; install it with: apt-get install dpkg-dev" >&2
        exit 3
    }
done
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
# The time of the commit; outside of a checkout that of the sources.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/Cargo.lock")}
export SOURCE_DATE_EPOCH
author=$(git -C "$root" log -1 --format=%ae 2>/dev/null || echo maintainers@localhost.localdomain)
maintainer="${DEBFULLNAME:-fsdyno maintainers} <${DEBEMAIL:-$author}>"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stage=$work/stage
"$root/scripts/stage.sh" "$program" "$agent" "$stage"
doc=$stage/usr/share/doc/fsdyno

# The libraries and their versions, as the symbols of the program say. (dpkg-shlibdeps wants a source package.)
mkdir "$work/debian"
printf 'Source: fsdyno\n\nPackage: fsdyno\nArchitecture: amd64\n' >"$work/debian/control"
needed=$(cd "$work" && dpkg-shlibdeps -O "$stage/usr/bin/fsdyno" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')

cat >"$doc/copyright" <<END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: fsdyno

Files: *
Copyright: 2026 the fsdyno founders
License: Apache-2.0 or Expat

License: Apache-2.0
 On Debian systems the full text is in /usr/share/common-licenses/Apache-2.0.

License: Expat
$(sed -n '/^Permission/,$ { s/^$/./; s/^/ /; p; }' "$root/LICENSE-MIT")
END
gzip -9n <"$root/CHANGELOG.md" >"$doc/changelog.gz"
gzip -9n >"$doc/changelog.Debian.gz" <<END
fsdyno ($version-1) unstable; urgency=medium

  * Package of version $version; its changes are in changelog.gz.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
END

install -d "$stage/usr/share/lintian/overrides"
cat >"$stage/usr/share/lintian/overrides/fsdyno" <<'END'
# It is the first process of guests that have no library of this system.
fsdyno: statically-linked-binary [usr/lib/fsdyno/fsdyno-agent]
END

find "$stage" -type f -exec chmod g-w,o-w {} +
size=$(du -sk --apparent-size "$stage" | cut -f1)
install -d "$stage/DEBIAN"
cat >"$stage/DEBIAN/control" <<END
Package: fsdyno
Version: $version-1
Architecture: amd64
Maintainer: $maintainer
Installed-Size: $size
Depends: $needed
Recommends: qemu-system-x86, e2fsprogs, xfsprogs, btrfs-progs, apt
Suggests: dosfstools, exfatprogs, f2fs-tools, fuse2fs, jfsutils, librsvg2-bin, mdadm, nilfs-tools, reiserfsprogs
Section: utils
Priority: optional
Description: dynamometer for file systems
 Measures which file system, and which of its options, is fastest for small-file
 and metadata work, by how much, why, and what a power cut costs: on a directory
 without root, or in a lab of QEMU guests in virtual time on modelled disks,
 whose results are bit-identical on every machine.
END
(cd "$stage" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$stage" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

mkdir -p "$out"
dpkg-deb --root-owner-group -Zxz --threads-max=1 --build "$stage" "$out/fsdyno_$version-1_amd64.deb" >/dev/null
echo "$out/fsdyno_$version-1_amd64.deb"
