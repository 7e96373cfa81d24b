#!/bin/sh
# Makes a tarball of two static programs, with manual pages, completions, documents and examples, and its checksum.
# dist.sh FSDYNO AGENT FOLDER
set -eu

root=$(cd "${0%/*}/.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/Cargo.lock")}
name=fsdyno-$version-x86_64-linux
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$root/scripts/stage.sh" "$1" "$2" "$work/$name"
# Below one folder, so that it can be unpacked anywhere: bin finds the agent in lib.
mv "$work/$name/usr/"* "$work/$name/" && rmdir "$work/$name/usr"
cp "$root"/LICENSE-* "$work/$name"
mkdir -p "$3"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" -C "$work" -c "$name" | gzip -9n >"$3/$name.tar.gz"
(cd "$3" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "$3/$name.tar.gz"
