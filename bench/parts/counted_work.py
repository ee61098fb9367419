"""Counts the overhead of sampling instead of timing it: instructions and cache misses of the program's own process, by cachegrind.

An overhead of one percent cannot be timed on a machine where the wall time varies by several percent from run to run. Valgrind's count of
instructions is the same in every run, and the cache misses of its model are nearly the same. Cycles are estimated from these counts as in
KCachegrind: 1 for an instruction, 10 for a miss of the first level, 100 for a miss of the last. The writer process, which writes the trace, is not
included."""

import glob
import json
import os
import re
import shutil
import subprocess

from measured import Spread
from parts.programs import programs_of
from parts.sampling import FINE, SAMPLING

FIRST_LEVEL, LAST_LEVEL = 10, 100  # cycles of a miss; kcachegrind's "Cycle Estimation"
LIMIT = 1.01


class Counted:
    """The counts of one run: instructions, misses of the first level (code and data), misses of the last level, and the estimated cycles."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        names = re.search(r"^events: (.*)$", text, re.M)[1].split()
        of = dict(zip(names, map(int, re.search(r"^summary: (.*)$", text, re.M)[1].split())))
        self.instructions = of["Ir"]
        self.first_level = of["I1mr"] + of["D1mr"] + of["D1mw"]
        self.last_level = of["ILmr"] + of["DLmr"] + of["DLmw"]
        self.cycles = self.instructions + FIRST_LEVEL * self.first_level + LAST_LEVEL * self.last_level


class Run:
    """A running program under cachegrind, with or without sampling."""

    def __init__(self, bench, program, is_sampled):
        self.at = bench.path("counted-" + ("sampled" if is_sampled else "plain"))
        for old in glob.glob(glob.escape(self.at) + "*"):
            os.unlink(old)
        recorded = [bench.allogram, "run", "-q", *SAMPLING, "-o", self.at + ".%p.allogram", "--"] if is_sampled else []
        self.process = subprocess.Popen(
            [*recorded, "valgrind", "-q", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=" + self.at, *program.command],
            cwd=bench.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def end(self):
        """Waits for the program; returns (its standard output, Counted)."""
        output = self.process.communicate()[0]
        if self.process.returncode != 0:
            raise RuntimeError("cachegrind: status %d" % self.process.returncode)
        return output, Counted(self.at)

    def events(self, bench):
        """The number of events of the program's trace. The processes that start valgrind have traces, too, but without events."""
        traces = glob.glob(glob.escape(self.at) + ".*.allogram")
        outcomes = [subprocess.run([bench.allogram, "check", "--json", trace], stdout=subprocess.PIPE, check=True) for trace in traces]
        return max(json.loads(outcome.stdout)["events"] for outcome in outcomes)


def count(bench, program):
    plain, sampled = Run(bench, program, is_sampled=False), Run(bench, program, is_sampled=True)  # both run at once, which does not change counts
    (output, base), (sampled_output, with_samples) = plain.end(), sampled.end()
    events = sampled.events(bench)
    if output != sampled_output or events == 0:
        raise RuntimeError("%s: %d samples, its output %s" % (program.name, events, "the same" if output == sampled_output else "another"))
    ratios = [getattr(with_samples, what) / getattr(base, what) for what in ("instructions", "first_level", "last_level", "cycles")]
    bench.say("| %s | %.0f | %d | %.4f | %.4f | %.4f | %.4f |" % (program.name, base.instructions / 1e6, events, *ratios))
    bench.bar("sampled %s: instructions, counted" % program.name, Spread(ratios[:1]), LIMIT, "%.4f", "x")
    bench.bar("sampled %s: cycles by cachegrind's model" % program.name, Spread(ratios[3:]), LIMIT, "%.4f", "x")


def run(bench):
    if not shutil.which("valgrind"):
        bench.say("What sampling adds was not counted: no valgrind here.")
        return
    bench.say()
    bench.say("| sampled, by cachegrind | instructions, M | samples and their frees | instructions | first level missed | last level missed "
              "| cycles by these |")
    bench.say("|---|---:|---:|---:|---:|---:|---:|")
    for program in programs_of(bench):
        if program.name.startswith(FINE):
            count(bench, program)
