#!/bin/sh
# install_packages.sh PURPOSE...: makes sure that the Debian packages of these purposes are here.
#
#     build   compile allogram             test    make test            fuzz    sanitizers, libFuzzer
#     demo    make demo                    bench   the peers            roots   Debian roots to load the agent in
#     docs    make docs
#
# It installs only what is missing, with apt-get, as root or through sudo. What a purpose cannot do without ends the
# script with 1; a package marked with ? only takes some tests along, which then say that they skip (nodejs and npm: the page
# of `allogram view`, which then says that it is missing).
set -eu

node_packages() { # for the page of `allogram view` and tests of exports; Node may have come from elsewhere, with an npm of its own
    command -v npm >/dev/null || echo nodejs? npm?
}

packages_of() {
    case $1 in
    build)
        echo gcc libc6-dev make meson ninja-build pkg-config libdw-dev libelf-dev libdebuginfod-dev libzstd-dev \
            libxxhash-dev libiberty-dev zlib1g-dev
        echo erlang-base? erlang-dev? # the tracer of Erlang nodes
        echo ocaml-nox? ocaml-findlib? # the OCaml library
        echo clang? libbpf-dev?       # what looks at Erlang nodes from outside, in the kernel
        node_packages
        ;;
    test)
        echo libcmocka-dev bats jq python3 binutils g++ libunwind-dev clang-format-14? shellcheck? valgrind? git? procps? util-linux?
        echo sqlite3? libxml2-utils? graphviz? redis-server? redis-tools? gdb? chromium? firefox-esr? linux-perf? heaptrack? # programs that tests profile
        echo libzydis-dev? libjemalloc-dev? libgoogle-perftools-dev? libmimalloc-dev?
        echo rustc? golang-go? musl-tools? # compilers, and runtimes with an adapter:
        echo lua5.4? liblua5.4-dev?
        echo libgc-dev? crystal? guile-3.0?
        echo erlang-base? erlang-ssl? elixir?
        echo ocaml-nox?
        ;;
    fuzz) echo clang? libclang-rt-14-dev? llvm-14? ;;
    demo) echo python3 dpkg-dev? jq? ca-certificates? debian-archive-keyring? ;;
    bench) echo heaptrack? google-perftools? libgoogle-perftools-dev? valgrind? jq python3 redis-server? \
        redis-tools? z3? chromium? libgc-dev? crystal? ;;
    roots) echo debootstrap? ;;
    docs) echo mkdocs groff-base ;;
    *)
        echo "install_packages: no purpose is called $1" >&2
        exit 2
        ;;
    esac
}

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing_of() { # the arguments, without their ?, that are not installed
    for package in "$@"; do
        is_installed "${package%\?}" || echo "${package%\?}"
    done
}

apt_get() {
    if [ "$(id -u)" = 0 ]; then
        DEBIAN_FRONTEND=noninteractive apt-get -qq -y "$@" </dev/null >/dev/null
    elif [ -t 0 ] && command -v sudo >/dev/null; then
        sudo DEBIAN_FRONTEND=noninteractive apt-get -qq -y "$@" >/dev/null
    else
        sudo -n DEBIAN_FRONTEND=noninteractive apt-get -qq -y "$@" </dev/null >/dev/null
    fi
}

needed=
wished=
for purpose in "$@"; do
    for package in $(packages_of "$purpose"); do
        case $package in
        *\?) wished="$wished $package" ;;
        *) needed="$needed $package" ;;
        esac
    done
done

if ! command -v dpkg-query >/dev/null; then
    echo "install_packages: no dpkg here; needed by their Debian names:$needed" >&2
    exit 0
fi

# shellcheck disable=SC2086 # lists of names, split on purpose
{
    absent=$(missing_of $needed $wished)
    [ -n "$absent" ] || exit 0
    echo "install_packages: installing" $absent
    apt_get update || echo "install_packages: apt-get update failed, ignoring" >&2
    # All at once; when one name is unknown to this release, one by one, so that it takes no other along.
    apt_get install --no-install-recommends $absent 2>/dev/null || for package in $absent; do
        apt_get install --no-install-recommends "$package" 2>/dev/null || true
    done
    for package in $(missing_of $wished); do
        echo "install_packages: $package is not to be had: what needs it is left out or skips" >&2
    done
    absent=$(missing_of $needed)
    if [ -n "$absent" ]; then
        echo "install_packages: cannot do without" $absent "(install them, or run as root)" >&2
        exit 1
    fi
}
