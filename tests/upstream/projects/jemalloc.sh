#!/bin/sh
# jemalloc.sh: recipe of run_upstream.py for the unit and integration tests of the allocator jemalloc. Each test is a program.
set -eu
folder=$2
case $1 in
packages) echo gcc g++ make autoconf ;;
prepare)
    made=$("$(dirname "$0")/../../../tools/debian_source.sh" jemalloc "$folder")
    ln -sfn "$made" "$folder/source"
    cd "$folder/source"
    [ -x configure ] || autoconf
    ./configure --enable-debug=no >/dev/null
    make -j2 build_lib_static tests_unit tests_integration
    ;;
list) (cd "$folder/source/test" && printf '%s\n' unit/*.c integration/*.c | sed 's/\.c$//' | while read -r name; do [ ! -x "$name" ] || echo "$name"; done) ;;
run)
    cd "$folder/source"
    options=
    [ ! -f "test/$3.sh" ] || options=$(sed -n 's/^ *export MALLOC_CONF="\(.*\)"/\1/p' "test/$3.sh" | head -n 1)
    MALLOC_CONF=$options "test/$3" 2>&1 | grep -E '^(test_|--- )' | sed 's/ (.*//'
    ;;
esac
