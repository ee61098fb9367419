#!/bin/sh
# run_fuzzers.sh BUILD SECONDS: every fuzz target for so many seconds each, from its kept corpus, with clang's libFuzzer.
set -eu
build=$1
seconds=$2
cd "$(dirname "$0")/.."
if ! command -v clang >/dev/null; then
    echo "run_fuzzers: SKIP: no clang here"
    exit 77
fi
mkdir -p "$build"
if [ ! -f "$build/fuzz/build.ninja" ]; then
    CC=clang tools/configure.sh "$build/fuzz" -Dfuzz=enabled -Db_sanitize=address,undefined -Db_lundef=false
fi
ninja -C "$build/fuzz" --quiet
found=0
for target in "$build"/fuzz/tests/fuzz/fuzz_*; do
    [ -f "$target" ] && [ -x "$target" ] || continue
    name=$(basename "$target")
    work="$build/fuzz/corpus/$name"
    mkdir -p "$work"
    set -- "$work"
    [ -d "tests/fuzz/corpus/${name#fuzz_}" ] && set -- "$@" "tests/fuzz/corpus/${name#fuzz_}"
    echo "fuzz: $name for $seconds s"
    "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -verbosity=0 -print_final_stats=1 \
        -artifact_prefix="$build/fuzz/" "$@" 2>"$build/fuzz/$name.log" || {
        tail -n 40 "$build/fuzz/$name.log"
        echo "fuzz: $name FAILED; the input is beside $build/fuzz/$name.log"
        found=1
        continue
    }
    grep number_of_executed_units "$build/fuzz/$name.log" || true
done
exit $found
