#!/bin/sh
# run_check.sh BUILD: `make check`, the tests to run before each commit: lint, units, goldens, the command line, and the conformance tests
# that find most errors in a short time. There is one build, without sanitizers; long tests run a reduced number of times, or are left out.
# `make test` runs nearly every test (see run_tests.sh).
set -u
build=$1
export AG_TEST_SCALE=brief
cd "$(dirname "$0")/.." || exit 1
. tools/python_path.sh
rm -f "$build"/meson-logs/*.junit.xml
tools/configure.sh "$build" -Dtests=enabled && ninja -C "$build" --quiet || {
    echo "make check: the build failed"
    exit 1
}
failed=0
meson test -C "$build" --no-rebuild --suite lint --suite unit --suite golden --suite cli --suite core --no-suite fuzz --no-suite long \
    --print-errorlogs || failed=1
python3 tools/count_tests.py "$build" || failed=1
exit $failed
