#!/bin/sh
# pth.sh: recipe of run_upstream.py for the tests of GNU Pth, a library of user-space threads, which switches between stacks that it allocates.
set -eu
folder=$2
case $1 in
packages) echo gcc make ;;
prepare)
    made=$("$(dirname "$0")/../../../tools/debian_source.sh" pth "$folder")
    ln -sfn "$made" "$folder/source"
    cd "$folder/source"
    chmod +x configure shtool config.guess config.sub 2>/dev/null || true
    ./configure --disable-shared --enable-pthread=no >/dev/null
    make pth_p.h && make
    make test_std test_mp test_misc test_philo test_sig test_uctx
    ;;
list) echo test_std test_mp test_misc test_philo test_sig test_uctx | tr ' ' '\n' ;;
run)
    cd "$folder/source"
    timeout 60 "./$3" 2>/dev/null </dev/null | tail -n 1 | sed 's/[0-9.]*//g'
    ;;
esac
