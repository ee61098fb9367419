#!/bin/sh
# glib.sh: recipe of run_upstream.py for GLib's own tests, from Debian's package. Each test is a program; they use threads, child processes,
# D-Bus, plugins and main loops.
set -eu
tests=/usr/share/installed-tests/glib
case $1 in
packages) echo libglib2.0-tests dbus ;;
prepare) ;;
list) # without tests that measure time, watch a network, or generate C code and compile it
    (cd $tests && printf '%s\n' *.test | sed 's/\.test$//' | grep -v -e performance -e network-monitor -e appmonitor -e '^cxx' -e timer) ;;
run)
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    cd "$scratch"
    command=$(sed -n 's/^Exec=//p' "$tests/$3.test")
    HOME=$scratch TMPDIR=$scratch XDG_RUNTIME_DIR=$scratch sh -c "exec $command --tap" 2>/dev/null </dev/null |
        grep -E '^(ok|not ok|1\.\.)' | sed 's/ # SKIP.*/ # SKIP/'
    ;;
esac
