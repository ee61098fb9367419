#!/bin/sh
# make_roots.sh FOLDER: installs an older and a newer Debian release, bullseye (glibc 2.31) and trixie (glibc 2.41), into folders below FOLDER.
# Such a folder is called a root. Tests run programs in a root by chroot, and load allogram's library into these programs.
#
# Each root is a minimal installation with the packages of packages_of and unpacked_of: libc6-dev, so that the compiler of this machine can build
# test programs for the root; runtimes and compilers in versions that only this release has; and in trixie the packages that are needed to build
# allogram. An installation takes about half a minute; a complete root is not installed again. The packages come from the archive that apt uses on
# this machine. Without root rights, debootstrap or an archive the script ends with status 77 and prints the reason.
set -eu
tools=$(cd "$(dirname "$0")/../../tools" && pwd)
folder=$1
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

skip() {
    echo "make_roots: SKIP: $*"
    exit 77
}

packages_of() { # SUITE; one purpose per line
    echo libc6-dev
    case $1 in
    bullseye)
        echo julia # 1.5.3
        ;;
    trixie)
        echo erlang-base           # OTP 27, to be observed and traced
        echo erlang-tools          # tprof, with which allogram's tracer is compared
        echo crystal               # 1.14
        echo guile-3.0             # with the Boehm collector, libgc 8.2.8
        echo lua5.4 liblua5.4-dev  # Lua 5.4.7, which reallocates its stacks in another way than 5.4.4
        # gcc 14, and the packages that are needed to build allogram (install_packages.sh build)
        echo gcc meson ninja-build pkg-config libdw-dev libelf-dev libdebuginfod-dev libzstd-dev libxxhash-dev \
            libiberty-dev zlib1g-dev
        ;;
    esac
}

# Packages that are unpacked without their dependencies: compilers that run without chroot and build programs for the root. This machine has
# the programs that they need, such as gcc.
unpacked_of() { # SUITE; without their dependencies
    case $1 in
    trixie)
        echo ocaml # 5.3
        echo libstdlib-ocaml-dev
        echo libstdlib-ocaml
        ;;
    esac
}

list_of() { # SUITE
    packages_of "$1"
    unpacked_of "$1"
}

is_complete() {
    list_of "$1" | cmp -s - "$folder/$1/.complete"
}

# The compiler of this machine, which runs without chroot, uses the libraries of a root. An absolute link in the root would lead the compiler to
# the libraries of this machine.
make_links_relative() {
    find "$1/usr/lib" "$1/usr/lib64" -type l -lname '/*' | while read -r link; do
        ln -sfnr "$1$(readlink "$link")" "$link"
    done
}

make_root() { # SUITE ARCHIVE
    root=$folder/$1
    made=$root.partial
    rm -rf --one-file-system "${root:?}" "${made:?}"
    debootstrap --variant=minbase --include="$(packages_of "$1" | tr -s ' \n' , | sed 's/,$//')" "$1" "$made" "$2" >"$root.log" 2>&1 || {
        tail -n 3 "$root.log"
        return 1
    }
    # shellcheck disable=SC2046 # one word each
    [ -z "$(unpacked_of "$1")" ] || chroot "$made" sh -c 'cd /var/cache/apt/archives && apt-get -qq download "$@"' sh $(unpacked_of "$1") \
        >>"$root.log" 2>&1 || {
        tail -n 3 "$root.log"
        return 1
    }
    for package in $(unpacked_of "$1"); do
        dpkg-deb -x "$made"/var/cache/apt/archives/"$package"_*.deb "$made"
    done
    make_links_relative "$made"
    rm -rf "${made:?}"/var/cache/apt/archives/*.deb "${made:?}/usr/share/doc"
    list_of "$1" >"$made/.complete"
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
