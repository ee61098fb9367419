#!/bin/sh
# run.sh BUILD [OPTIONS]: runs the benchmarks of `make bench`; `run_bench.py --help` lists the options.
set -eu
build=$1
shift
exec python3 "$(dirname "$0")/run_bench.py" --build "$build" "$@"
