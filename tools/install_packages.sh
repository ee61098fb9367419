#!/bin/sh
# install_packages.sh PURPOSE...: installs the Debian packages that are needed for these purposes and are missing.
#
#     build   compile allogram             test    make test            fuzz    sanitizers, libFuzzer
#     demo    make demo                    bench   make bench           roots   root folders of other Debian releases
#     docs    make docs                    soak    make soak, in addition to test
#
# It uses apt-get, as root or through sudo. If a package that is required cannot be installed, the script ends with status 1. A package
# marked with ? is optional: without it, what needs it is not built, or its tests are skipped. (Without nodejs and npm, `allogram view` prints
# a message instead of writing a page.)
set -eu

node_packages() { # for the page of `allogram view` and tests of exports; not if an npm from another source is installed
    command -v npm >/dev/null || echo nodejs? npm?
}

packages_of() {
    case $1 in
    build)
        echo gcc libc6-dev make meson ninja-build pkg-config libdw-dev libelf-dev libdebuginfod-dev libzstd-dev \
            libxxhash-dev libiberty-dev zlib1g-dev
        echo erlang-base? erlang-dev? # the tracer of Erlang nodes
        echo ocaml-nox? ocaml-findlib? # the OCaml library
        echo libncurses-dev?          # the screen of --live
        echo clang? libbpf-dev?       # the BPF program that reads Erlang nodes from outside
        node_packages
        ;;
    test)
        echo libcmocka-dev bats jq python3 binutils g++ libunwind-dev clang-format-14? shellcheck? valgrind? git? procps? util-linux?
        echo sqlite3? libxml2-utils? graphviz? redis-server? redis-tools? gdb? chromium-headless-shell? firefox-esr? linux-perf? heaptrack? heaptrack-gui? # programs that tests profile, and readers of exports
        echo libzydis-dev? libjemalloc-dev? libgoogle-perftools-dev? libmimalloc-dev?
        echo bubblewrap? runc? # containers
        echo rustc? golang-go? musl-tools? # compilers, and runtimes with an adapter:
        echo lua5.4? liblua5.4-dev? lua5.3? liblua5.3-dev? lua5.2? liblua5.2-dev? lua5.1? liblua5.1-0-dev? lua5.5? liblua5.5-dev? luajit?
        echo libgc-dev? crystal? guile-3.0?
        echo erlang-base? erlang-ssl? elixir?
        echo ocaml-nox?
        ;;
    fuzz) echo clang? libclang-rt-14-dev? llvm-14? ;;
    demo) echo python3 dpkg-dev? jq? ca-certificates? debian-archive-keyring? ;;
    bench) echo heaptrack? google-perftools? libgoogle-perftools-dev? valgrind? jq python3 redis-server? \
        redis-tools? z3? chromium? libgc-dev? crystal? ;;
    roots) echo debootstrap? ;;
    soak) echo chromium? ;; # the browser itself, in its sandbox
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
    # Installs all packages at once. If this fails, because this release does not have one of them, installs them one by one.
    apt_get install --no-install-recommends $absent 2>/dev/null || for package in $absent; do
        apt_get install --no-install-recommends "$package" 2>/dev/null || true
    done
    for package in $(missing_of $wished); do
        echo "install_packages: $package cannot be installed; what needs it is not built, or its tests are skipped" >&2
    done
    absent=$(missing_of $needed)
    if [ -n "$absent" ]; then
        echo "install_packages: required packages are missing:" $absent "(install them, or run as root)" >&2
        exit 1
    fi
}
