#!/bin/sh
# bash.sh: recipe of run_upstream.py for bash's own tests. bash is built with its own malloc.
set -eu
folder=$2
case $1 in
packages) echo gcc make bison libncurses-dev ;;
prepare)
    made=$("$(dirname "$0")/../../../tools/debian_source.sh" bash "$folder")
    ln -sfn "$made" "$folder/source"
    cd "$folder/source"
    ./configure --with-bash-malloc >/dev/null
    make -j2
    make recho zecho printenv xcase
    ;;
list) (cd "$folder/source/tests" && printf '%s\n' run-* | grep -v -e run-all -e run-minimal -e run-gprof -e run-read -e run-jobs -e run-trap) ;;
run)
    cd "$folder/source/tests"
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    PATH=$folder/source/tests:$folder/source:/usr/bin:/bin BUILD_DIR=$folder/source THIS_SH=$folder/source/bash TMPDIR=$scratch \
        BASH_TSTOUT=$scratch/out "$folder/source/bash" "$3" 2>&1 | sed -e 's/[0-9]\{3,\}/N/g' | sort | cksum
    ;;
esac
