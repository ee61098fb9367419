"""Measures the resident memory that an exact recording adds to a program."""

from harness import resident_kib
from measured import Spread, measure


def run(bench):
    command = [bench.workload("cover"), str(int(3000 * bench.scale))]
    plain = resident_kib(measure(command, cwd=bench.folder))
    result, trace = bench.record(command)
    loaded = resident_kib(result)
    summary = bench.report(trace)
    added = [(b - a) / 1024 for a, b in zip(plain, loaded)]
    stacks = summary["unique_stacks"]
    bench.say()
    bench.say("Resident memory that recording adds to cover (%d distinct stacks): %.1f MiB, of it anonymous %.1f, files %.1f, the "
              "shared segment (stack tree, chunks) %.1f." % (stacks, sum(added), *added))
    bench.bar("resident memory added, %d stacks" % stacks, Spread([sum(added)]), 32, "%.1f", " MiB")
