#!/bin/sh
# run_sanitized.sh BUILD asan|ubsan|asan+ubsan|tsan: builds the unit tests with one or two sanitizers, in a build folder of their own (BUILD/asan and so
# on), and runs them.
#
# The unit tests use the libraries of the modules (stack tree, unwinder, format, ledger, writer, symbols, model). Tests that interpose
# malloc are not run, because a sanitizer interposes malloc, too. The compiler takes half as long with -O1 as with -O2.
set -eu
build=$1
which=$2
cd "$(dirname "$0")/.."
case $which in
asan) sanitizer=address ;;
ubsan) sanitizer=undefined ;;
asan+ubsan) sanitizer=address,undefined ;;
tsan) sanitizer=thread ;;
*)
    echo "run_sanitized: asan, ubsan, asan+ubsan or tsan, not $which" >&2
    exit 2
    ;;
esac
without=
if [ "$which" = tsan ]; then # The thread sanitizer is ten times as slow, and mutated input finds no additional races.
    [ "${AG_TEST_SCALE:-}" = full ] || export AG_TEST_SCALE=quarter
    without="--no-suite fuzz --no-suite one_thread"
fi
mkdir -p "$build"
tools/configure.sh "$build/$which" -Db_sanitize=$sanitizer -Db_lundef=false -Dviewer=disabled -Doptimization=1
# shellcheck disable=SC2086 # options and their values
targets=$(python3 tools/suite_targets.py "$build/$which" unit $without)
# shellcheck disable=SC2086 # a list of files
ninja -C "$build/$which" --quiet $targets
export ASAN_OPTIONS=abort_on_error=1:detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
# shellcheck disable=SC2086 # options and their values
meson test -C "$build/$which" --no-rebuild --suite unit $without --print-errorlogs --timeout-multiplier 5
