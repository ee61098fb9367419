#!/bin/sh
# run_soak.sh BUILD: `make soak`, which runs the tests that `make test` shortens, in full: 1,000 kills, 100,000 mutations of traces for
# every command that reads them, processes that fork quickly, random orders of threads, 15,000 attachments and detachments, and the fuzz
# targets. It also runs the conformance tests, random programs (tests/torture) whose numbers follow the last one in bench/results/torture.log,
# up to 20,000, 2,000 random trees of processes (bench/results/random_trees.log), other projects' own test suites under the agent, browsers in their
# sandboxes, servers and tools of other projects (tests/systems), and, for each runtime, a build of allogram without it.
#
# bench/results/soak.log is the output of the last run: the commit, the machine, a line per test with its time, the count.
# The script continues after a failure; its exit status is 1 if there was a failure.
set -u
build=$1
seconds_of_fuzzing=120
export AG_TEST_SCALE=full
cd "$(dirname "$0")/.." || exit 1
. tools/python_path.sh
rm -f "$build"/meson-logs/*.junit.xml "$build"/*/meson-logs/*.junit.xml "$build/fuzz/results"

failed=0
# shellcheck disable=SC2046 # several targets
tools/configure.sh "$build" -Dtests=enabled >/dev/null && ninja -C "$build" --quiet all $(python3 tools/suite_targets.py "$build" judge) || {
    echo "make soak: the build failed"
    exit 1
}
echo "make soak, $(date -u +%Y-%m-%d), commit $(git rev-parse --short HEAD), $(nproc) cores," \
    "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(uname -sr)"
meson test -C "$build" --no-rebuild --timeout-multiplier 8 --suite stress --suite fuzz --suite conformance --print-errorlogs \
    >"$build/soak.out" 2>&1 || failed=1
meson test -C "$build" --no-rebuild --timeout-multiplier 40 attach --print-errorlogs >>"$build/soak.out" 2>&1 || failed=1
grep -E '^ *[0-9]+/[0-9]+ |^not ok|^# ' "$build/soak.out"
tools/run_fuzzers.sh "$build" "$seconds_of_fuzzing" || failed=1
tests/torture/run_torture.py --build="$build" --until=20000 --log=bench/results/torture.log >"$build/torture.out" 2>&1 || failed=1
grep -v '^#     ' "$build/torture.out"
python3 tests/stress/random_trees.py --build "$build" --until=2000 --log=bench/results/random_trees.log >"$build/trees.out" 2>&1 || failed=1
cat "$build/trees.out"
python3 tests/upstream/run_upstream.py --build "$build" --log=bench/results/upstream.log || failed=1
python3 tests/upstream/run_upstream.py --build "$build" --modes=attach --log=bench/results/upstream.log redis python perl glib gjs ||
    failed=1
python3 tests/browsers/run_browsers.py --build "$build" --log=bench/results/browsers.log || failed=1
python3 tests/systems/run_systems.py --build "$build" || failed=1
python3 tests/systems/run_resident.py --build "$build" || failed=1
for folder in $(sed -n 's/^AG_RUNTIME(\([a-z]*\),.*/\1/p' adapters/runtimes.def); do # builds without one runtime
    tools/configure.sh "$build/without" -Dtests=enabled "-Dwithout=$folder" && ninja -C "$build/without" --quiet &&
        meson test -C "$build/without" --no-rebuild --suite unit --suite lint --suite golden --no-suite fuzz --print-errorlogs \
            --logbase "testlog-$folder" >"$build/without-$folder.out" 2>&1 || {
        echo "make soak: fails without $folder: $build/without-$folder.out"
        failed=1
    }
done
python3 tools/count_tests.py "$build" || failed=1
exit $failed
