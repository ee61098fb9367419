#!/bin/sh
# gjs.sh: recipe of run_upstream.py for the tests of GNOME's JavaScript, from Debian's package. Its engine, SpiderMonkey, has a garbage
# collector, two JIT compilers and its own malloc.
set -eu
tests=/usr/share/installed-tests/gjs
case $1 in
packages) echo gjs-tests dbus ;;
prepare) ;;
list) (cd $tests && printf '%s\n' *.test | sed 's/\.test$//' | grep -v -i -e gtk) ;; # tests of gtk need a display
run)
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    cd "$scratch"
    command=$(sed -n 's/^Exec=//p' "$tests/$3.test")
    HOME=$scratch TMPDIR=$scratch XDG_RUNTIME_DIR=$scratch dbus-run-session -- sh -c "exec $command" 2>/dev/null </dev/null |
        grep -E '^(ok|not ok|1\.\.)'
    ;;
esac
