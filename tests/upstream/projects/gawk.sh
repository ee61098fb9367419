#!/bin/sh
# gawk.sh: recipe of run_upstream.py for GNU awk's own tests. Each test is a target of its makefile.
set -eu
folder=$2
case $1 in
packages) echo gcc make bison ;;
prepare)
    made=$("$(dirname "$0")/../../../tools/debian_source.sh" gawk "$folder")
    ln -sfn "$made" "$folder/source"
    cd "$folder/source"
    ./configure --disable-mpfr >/dev/null
    make -j2 -C support
    make gawk
    make -C extension
    ;;
list) sed -n 's/^\([a-z0-9_]*\):$/\1/p' "$folder/source/test/Maketests" | grep -v -e time -e network -e '^pma' | sort -u ;;
run)
    cd "$folder/source/test"
    rm -f "_$3"
    make -s "$3" 2>/dev/null >/dev/null || true
    if [ -e "_$3" ]; then echo differs; else echo same; fi
    rm -f "_$3"
    ;;
esac
