#!/bin/sh
# Puts what an installation has into a folder: programs, manual pages, completions, documents, examples, the catalog.
# stage.sh FSDYNO AGENT FOLDER
# FOLDER gets usr/bin, usr/lib/fsdyno, usr/share/..., with fixed permissions and no times.
set -eu
umask 022

program=$1
agent=$2
folder=$3
root=$(cd "${0%/*}/.." && pwd)
share=$folder/usr/share
doc=$share/doc/fsdyno

install -d "$folder/usr/bin" "$folder/usr/lib/fsdyno" "$doc/examples" "$share/man/man1" \
    "$share/bash-completion/completions" "$share/zsh/vendor-completions" "$share/fish/vendor_completions.d"
install -m 755 "$program" "$folder/usr/bin/fsdyno"
install -m 755 "$agent" "$folder/usr/lib/fsdyno/fsdyno-agent"

"$program" man --quiet "$share/man/man1"
"$program" completions bash >"$share/bash-completion/completions/fsdyno"
"$program" completions zsh >"$share/zsh/vendor-completions/_fsdyno"
"$program" completions fish >"$share/fish/vendor_completions.d/fsdyno.fish"

cp -R "$root/examples/." "$doc/examples"
cp "$root/README.md" "$doc"
install -d "$share/fsdyno"
cp -R "$root/docs" "$doc"
cp -R "$root/catalog" "$root/studies" "$share/fsdyno"

# Only what git knows: no notes of a developer, no results.
find "$folder" -type d -exec chmod 755 {} +
find "$share" -type f -exec chmod 644 {} +
grep -rlE '^#!' "$doc/examples" | xargs -r chmod 755
find "$share/man" -type f -exec gzip -9n {} +
