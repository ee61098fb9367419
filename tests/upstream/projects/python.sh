#!/bin/sh
# python.sh: recipe of run_upstream.py for the tests in CPython's package `test`, run by Debian's python3. Each test is a module.
set -eu
case $1 in
packages) echo python3 libpython3.11-testsuite ;;
prepare) ;;
list) # without tests that need a network or a display, or that take many minutes
    find /usr/lib/python3.11/test -maxdepth 1 -printf "%f\n" | sed -n 's/^\(test_[a-z0-9_]*\)\(\.py\)\?$/\1/p' | sort -u |
        grep -v -x -e test_asyncio -e test_tools -e test_urllib2net -e test_concurrent_futures -e test_multiprocessing_.* -e test_peg_generator \
            -e test_regrtest -e test_tk -e test_ttk_.* -e test_idle -e test_distutils -e test_lib2to3 -e test_freeze_ctypes
    ;;
run)
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    cd "$scratch"
    PYTHONHASHSEED=0 /usr/bin/python3 -m test --tempdir "$scratch" "$3" 2>/dev/null | grep -E '^Result:|^    test_|^[0-9]+ tests? '
    ;;
esac
