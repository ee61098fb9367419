#!/bin/sh
# tcl.sh: recipe of run_upstream.py for the tests of Tcl, an interpreter with its own allocator, run by the installed tclsh. Each test is a file.
set -eu
folder=$2
tests=$folder/source/tests
case $1 in
packages) echo tcl ;;
prepare)
    made=$("$(dirname "$0")/../../../tools/debian_source.sh" tcl8.6 "$folder")
    ln -sfn "$made" "$folder/source"
    ;;
# list: without tests of http and socket, which need a network, and without winFCmd, which needs Windows
list) (cd "$tests" && printf '%s\n' *.test | grep -v -e '^http' -e '^socket' -e '^winFCmd') ;;
run)
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    tclsh "$tests/all.tcl" -file "$3" -tmpdir "$scratch" 2>/dev/null | grep -E '^all.tcl:|^====.*FAILED'
    ;;
esac
