"""Measures the overhead of recording for programs that use the Boehm collector: a release build of a Crystal program, and a C program that only
allocates.

The Crystal program is compiled only once, because its compiler is slow. tests/conformance/crystal_objects.py uses the same program."""

import os
import shutil
import subprocess

from harness import HERE, Ratios
from measured import Spread, measure

PROGRAMS = os.path.join(HERE, "../tests/programs/bdwgc")
SAMPLED_MOST, EXACT_MOST = 1.05, 3.0
COVERED_LEAST = 0.999


def make_crystal(bench):
    """Compiles the Crystal program. It makes objects, hashes and fibers, about 17 allocations for each unit of its argument."""
    program, binding = bench.path("crystal_objects"), bench.path("crystal_binding.o")
    subprocess.run(["cc", "-O1", "-g", "-c", os.path.join(PROGRAMS, "crystal_binding.c"), "-o", binding], check=True)
    subprocess.run(["crystal", "build", "--release", "-Dwithout_traces", "--link-flags=" + binding, os.path.join(PROGRAMS, "crystal_objects.cr"),
                    "-o", program], env=dict(os.environ, CRYSTAL_CACHE_DIR=bench.path("crystal_cache")), check=True)
    return program


def coverage(bench, trace):
    return next(row["coverage"] for row in bench.report(trace)["runtimes"] if row["name"] == "bdwgc")


def bench_program(bench, name, command, has_bars):
    ratios = {"sample": Ratios(), "exact": Ratios()}
    plains, events = [], {}
    measure(command, cwd=bench.folder)  # warms up
    for n in range(bench.rounds):
        plain = measure(command, cwd=bench.folder)
        plains.append(plain.wall)
        for mode, of_mode in ratios.items():
            result, trace = bench.record(command, options=["--mode=" + mode])
            if result.stdout != plain.stdout:
                raise RuntimeError("%s: other output when recorded" % name)
            events[mode] = bench.events_of(trace)
            if mode == "exact" and not COVERED_LEAST <= coverage(bench, trace) <= 1:
                raise RuntimeError("%s: not all was recorded" % name)
            of_mode.add(result, plain)
        bench.note("  %s: round %d of %d" % (name, n + 1, bench.rounds))
    cells = ["%s / %s" % (Spread(of_mode.wall).text(), Spread(of_mode.cpu).text()) for of_mode in ratios.values()]
    bench.say("| %s | %.2f | %.1f | %d | %s |" % (name, Spread(plains).median, events["exact"] / 1e6, events["sample"], " | ".join(cells)))
    if has_bars:
        bench.bar("%s, sampled: wall" % name, Spread(ratios["sample"].wall), SAMPLED_MOST, "%.3f", "x")
        bench.bar("%s, exact with stacks: wall" % name, Spread(ratios["exact"].wall), EXACT_MOST, unit="x")


def run(bench):
    bench.say()
    bench.say("| on the Boehm collector | base, s | events, M | sampled: events | sampled, wall / CPU | exact, wall / CPU |")
    bench.say("|---|---:|---:|---:|---:|---:|")
    if shutil.which("crystal"):
        bench_program(bench, "Crystal, objects and hashes", [make_crystal(bench), str(int(1500000 * bench.scale))], has_bars=True)
    lists = bench.workload("lists")
    if os.path.exists(lists):
        bench_program(bench, "C, lists that die", [lists, str(int(20000000 * bench.scale))], has_bars=False)
