#!/bin/sh
# make_roots.sh FOLDER: an older and a newer Debian below FOLDER, to load the agent into: bullseye (glibc 2.31) and trixie (2.41).
#
# Each root is minimal, with libc6-dev so that the compiler of this machine can build test programs for it; the newer one has Erlang
# as well, a node of another release to look at. About 250 MB and half a minute each; a root that is complete is kept. The archive is the one that apt uses here. Ends with 77, and says
# why, where it cannot be done: no root rights, no debootstrap, no archive.
set -eu
tools=$(cd "$(dirname "$0")/../../tools" && pwd)
folder=$1
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

skip() {
    echo "make_roots: SKIP: $*"
    exit 77
}

is_complete() {
    [ -f "$folder/$1/.complete" ] && { [ "$1" != trixie ] || [ -x "$folder/$1/usr/bin/erl" ]; }
}

# The compiler looks at a root from outside, where an absolute link would lead into this machine's own libraries.
make_links_relative() {
    find "$1/usr/lib" "$1/usr/lib64" -type l -lname '/*' | while read -r link; do
        ln -sfnr "$1$(readlink "$link")" "$link"
    done
}

make_root() { # SUITE ARCHIVE
    root=$folder/$1
    made=$root.partial
    rm -rf --one-file-system "${root:?}" "${made:?}"
    case $1 in
    trixie) more=,erlang-base ;; # a node for `allogram observe`
    *) more= ;;
    esac
    debootstrap --variant=minbase --include="libc6-dev$more" "$1" "$made" "$2" >"$root.log" 2>&1 || {
        tail -n 3 "$root.log"
        return 1
    }
    make_links_relative "$made"
    rm -rf "${made:?}"/var/cache/apt/archives/*.deb "${made:?}/usr/share/doc"
    touch "$made/.complete"
    mv "$made" "$root"
    echo "make_roots: $1 is ready"
}

is_complete bullseye && is_complete trixie && exit 0
[ "$(id -u)" = 0 ] || skip "only root can make a Debian root"
command -v debootstrap >/dev/null || skip "no debootstrap here"
archive=$("$tools/debian_archive.sh") || skip "apt names no Debian archive here"
archive=${archive% *}
proxy=$(apt-config dump --format '%v' Acquire::http::Proxy)
[ -z "$proxy" ] || export http_proxy="$proxy"

for suite in bullseye trixie; do
    is_complete $suite || make_root $suite "$archive" || skip "debootstrap could not make $suite from $archive"
done
