#!/bin/sh
# run_tests.sh BUILD: `make test`, which runs every test and prints one line of counts. Long tests run a reduced number of times;
# run_soak.sh runs them in full.
#
# The root folders of other Debian releases are fetched while the other tests are built and run. The script continues after a failure; its
# exit status is 1 if there was a failure.
set -u
build=$1
seconds_of_fuzzing=6
export AG_TEST_SCALE=scaled
cd "$(dirname "$0")/.." || exit 1
mkdir -p "$build"
rm -f "$build"/meson-logs/*.junit.xml "$build"/*/meson-logs/*.junit.xml

failed=0
step() {
    echo "== $*"
    "$@" || failed=1
}

setsid tests/roots/make_roots.sh "$build/roots" >"$build/roots.log" 2>&1 &
roots=$!
trap 'kill -- -$roots 2>/dev/null' EXIT
trap 'exit 143' INT TERM
tools/configure.sh "$build" -Dtests=enabled && ninja -C "$build" --quiet || {
    echo "make test: the build failed"
    exit 1
}
step meson test -C "$build" --no-rebuild --timeout-multiplier 4 --no-suite roots --print-errorlogs
step tools/run_sanitized.sh "$build" asan+ubsan
step tools/run_sanitized.sh "$build" tsan
step tools/run_fuzzers.sh "$build" "$seconds_of_fuzzing"
wait $roots || tail -n 5 "$build/roots.log"
step meson test -C "$build" --no-rebuild --timeout-multiplier 4 --suite roots --logbase testlog-roots --print-errorlogs

python3 tools/count_tests.py "$build" || failed=1
exit $failed
