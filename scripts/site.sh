#!/bin/sh
# Makes a site of docs/ with mdBook: search, one page for each document.
# site.sh FOLDER
set -eu

out=$1
root=$(cd "${0%/*}/.." && pwd)
if ! command -v mdbook >/dev/null; then
    echo "site: mdbook is missing, no site is made; install it with: cargo install mdbook --locked" >&2
    exit 3
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R "$root/docs" "$work/src"
# Links that leave docs/ go to the repository.
repository=https://github.com/fsdyno/fsdyno/blob/main
find "$work/src" -name '*.md' | while read -r file; do
    sed -i -E "s#\]\((\.\./)+((examples|results|crates|catalog|studies|bench|scripts)/[^)]*|README\.md|CHANGELOG\.md|CONTRIBUTING\.md)\)#](${repository}/\2)#g" "$file"
    # The list of documents is the menu of every page.
    sed -i -E 's#\[([^]]*)\]\(SUMMARY\.md\)#\1#g' "$file"
done
cat >"$work/book.toml" <<'END'
[book]
title = "fsdyno"
description = "A dynamometer for file systems"
language = "en"

[output.html]
no-section-label = true
git-repository-url = "https://github.com/fsdyno/fsdyno"
END
mdbook build "$work" --dest-dir "$(realpath -m "$out")"
echo "site: $out/index.html"
