#!/bin/sh
# run_tests.sh BUILD: `make test`, which runs every suite except upstream, browsers and systems, and prints one line of counts.
# Long tests run a reduced number of times; run_soak.sh runs them in full.
#
# The root folders of other Debian releases are fetched while the other tests are built and run. Many tests mostly wait; meanwhile
# `run_tests.sh BUILD beside` does, with the lowest priority, what does not measure time: other builds, and the tests and fuzz targets of these
# builds. The script continues after a failure; its exit status is 1 if there was a failure.
set -u
build=$1
seconds_of_fuzzing=12 # by the wall clock; with the lowest priority, a target gets only a part of this time
export AG_TEST_SCALE=scaled
cd "$(dirname "$0")/.." || exit 1
. tools/python_path.sh

failed=0
step() {
    echo "== $*"
    "$@" || failed=1
}
run() { # OPTION...: runs tests of the main build
    step meson test -C "$build" --no-rebuild --timeout-multiplier 4 --print-errorlogs "$@"
}

if [ "${2:-}" = beside ]; then
    export MESON_TESTTHREADS=1
    step tools/run_sanitized.sh "$build" asan+ubsan
    step tools/run_sanitized.sh "$build" tsan
    tail --pid="$3" -f /dev/null # one of the roots has another compiler
    run --suite compilers --logbase testlog-compilers
    step tools/run_fuzzers.sh "$build" "$seconds_of_fuzzing"
    exit $failed
fi

mkdir -p "$build"
rm -f "$build"/meson-logs/*.junit.xml "$build"/*/meson-logs/*.junit.xml
setsid tests/roots/make_roots.sh "$build/roots" >"$build/roots.log" 2>&1 &
roots=$!
beside=
trap 'kill -- -$roots $beside 2>/dev/null' EXIT
trap 'exit 143' INT TERM
# shellcheck disable=SC2046 # several targets
tools/configure.sh "$build" -Dtests=enabled && ninja -C "$build" --quiet all $(python3 tools/suite_targets.py "$build" judge) || {
    echo "make test: the build failed"
    exit 1
}
# The command timeout puts the builds into a process group of their own and passes a signal on to all of it. The command setsid would make a
# session of its own, to which Linux may give as much time as to the tests (sched(7), autogroup).
timeout 2h nice -n 19 tools/run_tests.sh "$build" beside $roots >"$build/beside.log" 2>&1 &
beside=$!
run --no-suite roots
wait $roots || tail -n 5 "$build/roots.log"
run --suite roots --no-suite compilers --logbase testlog-roots
wait $beside || failed=1
cat "$build/beside.log"

python3 tools/count_tests.py "$build" || failed=1
exit $failed
