#!/bin/sh
# libuv.sh: recipe of run_upstream.py for the tests of the event loop libuv: signals, processes, threads, thread pools.
set -eu
folder=$2
# The tests refuse to run as root.
as_user() {
    if [ "$(id -u)" = 0 ]; then setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"; else "$@"; fi
}
case $1 in
packages) echo gcc make autoconf automake libtool ;;
prepare)
    made=$("$(dirname "$0")/../../../tools/debian_source.sh" libuv1 "$folder")
    ln -sfn "$made" "$folder/source"
    cd "$folder/source"
    sh autogen.sh >/dev/null
    ./configure --enable-static --disable-shared >/dev/null
    make -j2 check TESTS=
    [ "$(id -u)" != 0 ] || chown -R nobody "$made"
    ;;
list) # without tests of host names, of networks other than loopback, of memory limits and of terminals
    as_user "$folder/source/test/run-tests" --list | tr -d ' ' | grep -E '^[a-z0-9_]+$' |
        grep -v -e getaddrinfo -e getnameinfo -e multicast -e udp -e get_.*memory -e constrained -e tty
    ;;
run) cd "$folder/source" && as_user ./test/run-tests "$3" "$3" >/dev/null 2>&1 ;;
esac
