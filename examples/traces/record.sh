#!/bin/sh
# Records the example traces again: record.sh [NAME...], in a folder for work (default: a new one below /tmp).
#
#   FSDYNO=./target/release/fsdyno WORK=/srv/scratch examples/traces/record.sh git-clone rsync
#
# With CALIBRATE=1 each is replayed at once, and the time of its calls compared; HOW=bpf records by BPF.
# Each trace is made in $WORK/NAME; what it needs is made there first, outside of the recording. npm-ci and pip-venv
# fetch their packages from npm and PyPI once.
# shellcheck disable=SC2016  # the lines are expanded by the recorded shell
set -eu

here=$(cd "$(dirname "$0")" && pwd)
fsdyno=$(command -v "${FSDYNO:-fsdyno}")
fsdyno=$(cd "$(dirname "$fsdyno")" && pwd)/fsdyno
work=${WORK:-$(mktemp -d)}
export fsdyno

# Runs the line in $work/NAME/tree under the recorder; with RUN=time without it, and prints NAME and its milliseconds.
record() {
    name=$1
    line=$2
    cd "$work/$name/tree"
    if [ "${RUN:-record}" = time ]; then
        begin=$(date +%s%N)
        sh -c "$line"
        echo "$name $((($(date +%s%N) - begin) / 1000000))"
    else
        "$fsdyno" record ${CALIBRATE:+--calibrate} ${HOW:+--how "$HOW"} -o "${OUT:-$here}/$name.trace" -- sh -c "$line"
    fi
}

fresh() {
    rm -rf "${work:?}/$1/tree"
    mkdir -p "$work/$1/tree"
}

needs() {
    command -v "$1" >/dev/null || { echo "record.sh: $1 is missing" >&2; exit 3; }
}

# N files of text in 30 directories, by a fixed rule.
text_tree() {
    awk -v n="$1" -v to="$2" -v salt="$3" 'BEGIN {
        srand(7)
        for (i = 0; i < n; i++) {
            file = sprintf("%s/d%02d/part%03d.txt", to, i % 30, i)
            lines = 5 + int(rand() * 200)
            for (l = 0; l < lines; l++) printf "%d %d line of file %d\n", l, int(rand() * 1e6) + salt, i > file
            close(file)
        }
    }'
}

git_source() {
    [ -d "$work/git-clone/source" ] && return
    needs git
    mkdir -p "$work/git-clone/source"
    (
        cd "$work/git-clone/source"
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a
        export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
        git init -q -b main
        for i in $(seq -w 0 29); do mkdir -p "d$i"; done
        for version in 1 2 3; do
            text_tree $((300 * version)) . $version
            git add -A && git commit -q -m "version $version" && git tag "v$version"
        done
        git gc -q
    )
}

# git clone and git checkout of a repository with 900 files.
do_git_clone() {
    git_source
    fresh git-clone
    record git-clone 'git -c gc.auto=0 clone -q --no-local ../source clone && "$fsdyno" mark checkout && cd clone && git checkout -q v1'
}

# npm ci of a project with two dependencies from local tarballs.
do_npm_ci() {
    needs npm
    fresh npm-ci
    cd "$work/npm-ci"
    [ -f async-3.2.6.tgz ] || npm pack --silent async@3.2.6 ms@2.1.3 dayjs@1.11.13 >/dev/null
    cd tree
    printf '{"name":"example","version":"1.0.0","dependencies":{"async":"file:../async-3.2.6.tgz","ms":"file:../ms-2.1.3.tgz","dayjs":"file:../dayjs-1.11.13.tgz"}}\n' >package.json
    npm install --silent --package-lock-only --no-audit --no-fund --cache ../cache >/dev/null
    record npm-ci 'npm ci --silent --offline --no-audit --no-fund --ignore-scripts --cache cache >/dev/null'
}

# A virtual environment, and pip install into it from a folder of wheels.
do_pip_venv() {
    needs python3
    fresh pip-venv
    # The program itself, where python3 is a wrapper.
    python=$(python3 -c 'import sys; print(sys.executable)')
    export python
    cd "$work/pip-venv"
    [ -d wheels ] || python3 -m pip download -q -d wheels idna==3.10 six==1.17.0
    record pip-venv '"$python" -m venv --without-pip v && "$fsdyno" mark install && "$python" -m pip --python v install -q --disable-pip-version-check --no-index --find-links ../wheels idna six'
}

# A C build: 12 source files and 10 headers, make -j2.
do_c_build() {
    needs gcc
    needs make
    fresh c-build
    cd "$work/c-build/tree"
    for h in $(seq 0 9); do
        printf '#ifndef H%s\n#define H%s\n#include <stdio.h>\n#include <stdlib.h>\nint h%s(int);\n#endif\n' "$h" "$h" "$h" >"h$h.h"
    done
    objects=''
    for c in $(seq 0 11); do
        objects="$objects c$c.o"
        {
            for h in $(seq 0 9); do echo "#include \"h$h.h\""; done
            for f in $(seq 0 30); do echo "int f${c}_$f(int a) { int s = 0; for (int i = 0; i < a; i++) s += i * $f; return s; }"; done
        } >"c$c.c"
    done
    echo 'int main(void) { return 0; }' >main.c
    printf 'all: program\nprogram:%s main.o\n\tgcc -o $@ $^\n%%.o: %%.c\n\tgcc -O1 -c -o $@ $<\n' "$objects" >Makefile
    record c-build 'make -s -j2'
}

# Rows inserted one by one, each durable, with the rollback journal.
do_sqlite_delete() {
    needs sqlite3
    fresh sqlite-delete
    sqlite_rows DELETE "$work/sqlite-delete/rows.sql"
    record sqlite-delete 'sqlite3 db <../rows.sql >/dev/null'
}

# The same with the write-ahead log.
do_sqlite_wal() {
    needs sqlite3
    fresh sqlite-wal
    sqlite_rows WAL "$work/sqlite-wal/rows.sql"
    record sqlite-wal 'sqlite3 db <../rows.sql >/dev/null'
}

sqlite_rows() {
    {
        echo "PRAGMA journal_mode=$1; PRAGMA synchronous=FULL;"
        echo 'CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT);'
        seq "${ROWS:-500}" | sed "s/.*/INSERT INTO t VALUES (&, 'a row of some eighty bytes, as a log would have it, with a number: &');/"
    } >"$2"
}

# rsync -a of a tree of 450 files to an empty directory, then again with 30 files changed.
do_rsync() {
    needs rsync
    fresh rsync
    rm -rf "$work/rsync/source"
    for i in $(seq -w 0 29); do mkdir -p "$work/rsync/source/d$i"; done
    text_tree 450 "$work/rsync/source" 1
    record rsync 'rsync -a ../source/ copy && "$fsdyno" mark again && for d in ../source/d*; do echo more >>$d/changed; done && rsync -a ../source/ copy'
}

# The real postmark 1.53 (Debian's package postmark).
do_postmark() {
    needs postmark
    fresh postmark
    printf 'set number 500\nset transactions 2000\nset size 500 10000\nset seed 42\nrun\nquit\n' >"$work/postmark/config"
    record postmark 'postmark ../config >/dev/null'
}

all='git-clone npm-ci pip-venv c-build sqlite-delete sqlite-wal rsync postmark'
# shellcheck disable=SC2086  # names without spaces
[ $# -gt 0 ] || set -- $all
for name in "$@"; do
    case " $all " in
    *" $name "*) "do_$(echo "$name" | tr - _)" ;;
    *) echo "record.sh: there is no trace '$name'; there are: $all" >&2; exit 2 ;;
    esac
done
