#!/bin/sh
# Installs what building and running fsdyno needs, where it is missing, and says what and why.
# Ends with 3, and with the command to type, where it cannot.
set -eu

LEAST_RUST=1.88

say() { printf 'setup: %s\n' "$*" >&2; }

give_up() {
    say "$1"
    shift
    for line in "$@"; do printf '    %s\n' "$line" >&2; done
    exit 3
}

has() { PATH="$PATH:/usr/sbin:/sbin:/usr/lib/openssh" command -v "$1" >/dev/null 2>&1; }

# Whether the first version is at least the second.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

rust_version() { "$1" --version 2>/dev/null | sed -n 's/^rustc \([0-9.]*\).*/\1/p'; }

missing=""

# need PACKAGE PROGRAM REASON
need() {
    if ! has "$2"; then
        missing="$missing $1"
        say "$1 is missing: $3"
    fi
}

need gcc cc "links the program"
need qemu-system-x86 qemu-system-x86_64 "runs the lab's guest"
# The tools of the file systems, as their files say: the package, and the last of its programs.
for file in "${0%/*}"/../catalog/filesystems/*.toml; do
    package=$(sed -n 's/^package = "\(.*\)"/\1/p' "$file")
    program=$(sed -n 's/^tools = .*"\([^"]*\)"\]$/\1/p' "$file")
    case " $missing " in *" $package "*) continue ;; esac
    # fsdyno downloads these from another suite itself.
    grep -q '^downloaded = ' "$file" && continue
    [ -z "$package" ] || need "$package" "$program" "makes, mounts or checks $(basename "$file" .toml)"
done
need mdadm mdadm "puts the lab's disks together as a RAID"
# Ubuntu has it only as a snap; there the page's tests are skipped, and say so.
need chromium chromium "opens the report's page in its tests"
need librsvg2-bin rsvg-convert "draws charts as PNG"
need bindfs bindfs "shows a directory through FUSE in the tests"
need sshfs sshfs "mounts a directory over SFTP in the tests"
need openssh-sftp-server sftp-server "serves sshfs in the tests"

# gcc alone has no C library to link with.
if ! printf '#include <stdlib.h>\nint main(void) { return 0; }\n' |
    cc -x c -o /dev/null - >/dev/null 2>&1; then
    missing="$missing libc6-dev"
    say "libc6-dev is missing: links the program"
fi

# An installed rustc that is too old is not replaced: it is the user's.
if has cargo && has rustc; then
    version=$(rust_version rustc)
    at_least "${version:-0}" "$LEAST_RUST" || give_up \
        "rustc is ${version:-unknown}, and $LEAST_RUST or newer is needed:" \
        "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
    rust=""
else
    rust="cargo rustc"
    say "cargo and rustc are missing: compile the program"
fi

# The lab's kernel is downloaded by any user, but only what apt's lists know; empty ones (a fresh
# container) are filled where that is allowed.
if has apt-cache && [ -z "$missing$rust" ] &&
    ! apt-cache show linux-image-amd64 linux-image-generic 2>/dev/null | grep -q '^Package:'; then
    say "apt knows no kernel for the lab: updating its lists"
    if [ "$(id -u)" = 0 ]; then
        as_root=""
    else
        as_root="sudo"
    fi
    $as_root apt-get update </dev/null >&2 || say "apt-get update failed; fsdyno says if it matters"
fi

if [ -z "$missing$rust" ]; then
    say "nothing is missing"
    exit 0
fi

has apt-get || give_up "no apt-get here; install with this system's own means:" "$missing $rust"

# Conditions of `if` that bind (let chains) came with Rust 1.88, which is newer than Debian 13's own. Releases
# have newer ones beside their default: Debian as rustc-web (kept for the browsers), Ubuntu as rustc-1.NN.
suffix=""
choose_rust() {
    candidate() { apt-cache policy "$1" | sed -n 's/^ *Candidate: \([0-9.]*\).*/\1/p'; }
    numbered=$(apt-cache search --names-only '^rustc-1\.[0-9]+$' | cut -d' ' -f1 | sort -V | tail -n 1)
    for name in rustc rustc-web ${numbered:-}; do
        version=$(candidate "$name")
        if at_least "${version:-0}" "$LEAST_RUST"; then
            suffix=${name#rustc}
            rust="cargo$suffix rustc$suffix"
            return
        fi
    done
    give_up "no rustc of this release is $LEAST_RUST or newer:" \
        "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
}

if [ "$(id -u)" = 0 ]; then
    as_root=""
elif has sudo; then
    as_root="sudo"
else
    [ -z "$rust" ] || choose_rust
    give_up "neither root nor sudo; ask somebody who is root for:" \
        "apt-get install$missing $rust"
fi

apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get "$@" </dev/null >&2; }

apt update || say "apt-get update failed; trying with the lists that are here"
[ -z "$rust" ] || choose_rust
say "installing:$missing $rust"

# One package that a release has dropped must not keep the others away.
for package in $missing $rust; do
    apt install -y --no-install-recommends "$package" || failed="${failed:-} $package"
done

if [ -n "$rust" ] && ! has cargo; then
    # The versioned packages bring versioned names only.
    for tool in cargo rustc; do
        versioned="/usr/bin/$tool$suffix"
        # What the user has put there is not replaced.
        if [ -x "$versioned" ] && [ ! -e "/usr/local/bin/$tool" ]; then
            $as_root ln -s "$versioned" "/usr/local/bin/$tool"
        fi
    done
fi

for package in ${failed:-}; do
    case $package in
    gcc | libc6-dev | cargo* | rustc*) give_up "$package could not be installed:" "apt-get install $package" ;;
    *) say "$package could not be installed; fsdyno says so where it would need it" ;;
    esac
done
say "done"
