#!/bin/sh
# What the lab takes of the host at full scale: minutes, memory, disk space. Not part of `make bench`, for
# it takes an hour. full_scale.sh FSDYNO [tarball|seeks|small|large]...
#
#   tarball  725,000 files extracted and removed on ext4, as in the study of 2008; checked
#   seeks    ten hours of random reads of a file larger than memory, one at a time, all over a disk of
#            2.2 GiB with the arm of ide-2001; what is promised is of these reads, not of the file's writing.
#            SEEKS and MIB make it smaller
#   small    fdtree with 336,840 files of 4 KiB (small-shallow of the study on journal sizes)
#   large    fdtree with 3,070 files of 4,000 KiB (medium-shallow)
#
# The memory is the most that QEMU held, pages of the disks' files among it.
set -eu
here=$(dirname "$0")
# shellcheck source=bench/lib.sh
. "$here/lib.sh"
fsdyno=$1
shift
[ $# -gt 0 ] || set -- tarball seeks small large
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# trial NAME WORDS...: runs it and keeps its record as lines of path and value.
trial() {
    name=$1
    shift
    before=$(date +%s)
    "$fsdyno" run "$@" --fs ext4 --out "$folder/$name" >/dev/null 2>"$folder/messages" ||
        { cat "$folder/messages" >&2; exit 1; }
    seconds=$(($(date +%s) - before))
    awk -f "$here/json.awk" "$folder/$name/trials.ndjson" >"$folder/fields"
    rm -r "${folder:?}/$name"
    grep '^host\.stages' "$folder/fields" |
        sed 's/^host\.stages\.//' | awk '{ ns = $NF; $NF = ""; printf "%-24s %8.1f s of the host\n", $0, ns / 1e9 }'
    minutes=$(awk "BEGIN { print $seconds / 60 }")
}
field() { sed -n "s/^$1 //p" "$folder/fields"; }
room() {
    report "$1: memory" "$(field host.memory | awk '{ print $1 / 2^30 }')" GiB at-most 3
    report "$1: stored" "$(field host.stored | awk '{ print $1 / 2^30 }')" GiB at-most 3
}
for which; do
    case $which in
    tarball)
        trial tarball tarball --disk ide-2008 --set files=725000
        report "725,000 files, checked" "$minutes" min at-most 15
        ;;
    seeks)
        size=${MIB:-1800}
        catalog=$here/../catalog/disks/ide-2001.toml
        sed "s/^capacity = .*/capacity = $((size * 5 / 4 * 1048576))/" "$catalog" >"$folder/small.toml"
        trial seeks bonnie --ram 128M --disk "$folder/small.toml" --set file-size="${size}M" \
            --set data=zeros --set char=0 --set files=0 --set seekers=1 --set end-sync=no \
            --set gap=remount --set seeks="${SEEKS:-3000000}"
        hours=$(awk '$2 == "seeks" && $1 ~ /name$/ { sub(/name$/, "returned_ns", $1); at = $1; next }
            $1 == at { print $2 / 3.6e12 }' "$folder/fields")
        minutes=$(field "host\.stages\.phase seeks" | awk '{ print $1 / 6e10 }')
        report "random reads, virtual" "$hours" h at-least 10
        report "random reads, on the host" "$minutes" min at-most 15
        report "of ten hours, on the host" "$(awk "BEGIN { print $minutes * 10 / $hours }")" min at-most 15
        ;;
    small)
        trial small fdtree --set set=small-shallow
        room "336,840 files of 4 KiB"
        ;;
    large)
        trial large fdtree --set set=medium-shallow
        room "3,070 files of 4,000 KiB"
        ;;
    *)
        echo "full_scale.sh: '$which' is none of tarball, seeks, small, large" >&2
        exit 2
        ;;
    esac
done
