#!/bin/sh
# run.sh BUILD [OPTIONS]: what `make bench` runs; see run_bench.py --help.
set -eu
build=$1
shift
exec python3 "$(dirname "$0")/run_bench.py" --build "$build" "$@"
