#!/bin/sh
# run_fuzzers.sh BUILD SECONDS: builds every fuzz target with clang's libFuzzer and runs each for SECONDS, beginning with the inputs of
# tests/fuzz/corpus. As many targets run at once as there are cores.
#
# Writes one line per target, `passed fuzz_x` or `failed fuzz_x`, to BUILD/fuzz/results; without clang, only the line `skipped targets`. An input
# that fails is stored in BUILD/fuzz.
# run_fuzzers.sh BUILD SECONDS TARGET runs one target that was built before; the script calls itself in this way.
set -eu
build=$1
seconds=$2
cd "$(dirname "$0")/.."

fuzz() { # TARGET, as a path below BUILD/fuzz
    name=$(basename "$1")
    set -- "$1" "$build/fuzz/corpus/$name"
    mkdir -p "$2"
    [ ! -d "tests/fuzz/corpus/${name#fuzz_}" ] || set -- "$@" "tests/fuzz/corpus/${name#fuzz_}"
    target=$build/fuzz/$1
    shift
    case $name in
        fuzz_trace | fuzz_chunk) set -- "-dict=$build/fuzz/records.dict" "$@" ;;
    esac
    result=passed
    "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -verbosity=0 -print_final_stats=1 \
        -artifact_prefix="$build/fuzz/$name-" "$@" >"$build/fuzz/$name.log" 2>&1 || result=failed
    # libFuzzer measures an input by the wall clock, which goes on while the machine gives this process no CPU time. So an input over the
    # time limit is run once more: if the input is the reason, it exceeds the limit again.
    slow=$(sed -n 's/.*Test unit written to \(.*-timeout-[0-9a-f]*\)$/\1/p' "$build/fuzz/$name.log")
    if [ -n "$slow" ] && "$target" -timeout=10 "$slow" >>"$build/fuzz/$name.log" 2>&1; then
        echo "fuzz: $name: $slow took more than 10 s once, and less when it was repeated"
        result=passed
    fi
    [ $result = passed ] || tail -n 40 "$build/fuzz/$name.log"
    echo "$result $name" >>"$build/fuzz/results"
    echo "fuzz: $name $result," \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/fuzz/$name.log") inputs in $seconds s"
    [ $result = passed ]
}

if [ $# = 3 ]; then
    fuzz "$3"
    exit
fi
mkdir -p "$build/fuzz"
: >"$build/fuzz/results"

if ! command -v clang >/dev/null; then
    echo "run_fuzzers: SKIP: no clang here"
    echo "skipped targets" >>"$build/fuzz/results"
    exit 0
fi
[ -f "$build/fuzz/build.ninja" ] || export CC=clang
tools/configure.sh "$build/fuzz" -Dfuzz=enabled -Db_sanitize=address,undefined -Db_lundef=false -Dviewer=disabled

targets=$(ninja -C "$build/fuzz" -t targets all | sed -n 's|^\(tests/fuzz/fuzz_[a-z_0-9]*\): .*|\1|p')
[ -n "$targets" ] || exit 0
# shellcheck disable=SC2086 # a list of names
ninja -C "$build/fuzz" --quiet $targets tests/fuzz/record_dictionary
"$build/fuzz/tests/fuzz/record_dictionary" >"$build/fuzz/records.dict"
echo "$targets" | xargs -n 1 -P "$(nproc)" tools/run_fuzzers.sh "$build" "$seconds"
