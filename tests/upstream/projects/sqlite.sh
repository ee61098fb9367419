#!/bin/sh
# sqlite.sh: recipe of run_upstream.py for SQLite's own tests. Each test is a file.
set -eu
folder=$2
case $1 in
packages) echo tcl-dev tcl gcc make zlib1g-dev ;;
prepare)
    made=$("$(dirname "$0")/../../../tools/debian_source.sh" sqlite3 "$folder")
    ln -sfn "$made" "$folder/source"
    cd "$folder/source"
    ./configure --enable-all --disable-readline >/dev/null
    make -j2 testfixture
    ;;
list)
    # Lists the test files whose names begin with a to m, except
    # - all*, full* and extraquick*, which only run the other files;
    # - the tests of random input (*fuzz*), failing allocations (malloc*), memory (mem*), damaged databases (corrupt*), simulated crashes
    #   (*crash*) and merges of full-text indexes (fts4merge*).
    (cd "$folder/source/test" && printf '%s\n' [a-m]*.test | grep -v -e '^all' -e '^full' -e '^extraquick' -e fuzz -e '^malloc' -e '^mem' -e '^corrupt' -e '^fts4merge' -e 'crash') ;;
run)
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    cd "$scratch"
    "$folder/source/testfixture" "$folder/source/test/$3" 2>/dev/null | grep -E 'errors out of|^! ' | sed 's/ on .*//'
    ;;
esac
