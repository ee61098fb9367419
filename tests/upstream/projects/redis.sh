#!/bin/sh
# redis.sh: recipe of run_upstream.py for Redis' own tests, which start servers on loopback.
set -eu
folder=$2
case $1 in
packages) echo tcl gcc make ;;
prepare)
    made=$("$(dirname "$0")/../../../tools/debian_source.sh" redis "$folder")
    ln -sfn "$made" "$folder/source"
    cd "$folder/source"
    make -j2 MALLOC=libc BUILD_TLS=no USE_SYSTEMD=no
    ;;
list) # without tests that measure memory or time, or that take minutes
    (cd "$folder/source/tests" && printf '%s\n' unit/*.tcl unit/type/*.tcl | sed 's/\.tcl$//' |
        grep -v -e memefficiency -e maxmemory -e latency -e tls -e cluster -e oom-score -e obuf-limits -e client-eviction -e querybuf -e replybufsize)
    ;;
run)
    cd "$folder/source"
    port=$((21000 + $$ % 200 * 40))
    ./runtest --single "$3" --clients 1 --baseport $port --portcount 40 --timeout 300 2>/dev/null |
        sed -n -e 's/\x1b\[[0-9;]*m//g' -e '/^\[\(ok\|err\|exception\)\]/p' | sed 's/ ([0-9]* ms)//' | sort
    ;;
esac
