"""Functions that the parts of the benchmark (parts/) share: they record a command, check that the trace contains its events, compute ratios,
and compare results with bars. A bar is the limit that the project has set for a result."""

import json
import os
import re
import subprocess
import sys

from measured import measure

HERE = os.path.dirname(os.path.abspath(__file__))


class Bench:
    """One run of the benchmark: the paths that it needs, the number of rounds, the length of workloads (`scale`, 1 is the usual length), the
    profilers to compare with (`peers`), the printed lines, and for each bar whether it is met."""

    def __init__(self, build, rounds, scale, folder, peers):
        self.build = os.path.abspath(build)
        self.allogram = os.path.join(self.build, "src/cli/allogram")
        self.agent = os.path.join(self.build, "adapters/libc/liballogram-agent.so")
        self.rounds, self.scale, self.folder, self.peers = rounds, scale, folder, peers
        self.lines, self.bars = [], []

    def path(self, name):
        return os.path.join(self.folder, name)

    def workload(self, name):
        return os.path.join(self.build, "bench/workload_" + name)

    def program(self, name):
        return os.path.join(self.build, "tests/programs", name)

    def say(self, line=""):
        self.lines.append(line)
        print(line, flush=True)

    def note(self, text):
        print(text, file=sys.stderr, flush=True)

    def bar(self, what, spread, limit, form="%.2f", unit=""):
        """Notes the bar `what`: whether the upper end of the interval `spread` is at most `limit`."""
        value = spread.high
        self.bars.append((what, spread.text(form) + unit, ("at most " + form + "%s") % (limit, unit), value <= limit))

    def bar_at_least(self, what, spread, limit, form="%.2f", unit=""):
        self.bars.append((what, spread.text(form) + unit, ("at least " + form + "%s") % (limit, unit), spread.low >= limit))

    # ---- recording, and checking the recording ----
    def record(self, command, trace="trace.allogram", env=None, stdin=None, run=measure, options=()):
        path = self.path(trace)
        if os.path.exists(path):
            os.unlink(path)
        result = run([self.allogram, "run", "-q", "-o", path, *options, "--", *command], env=env, cwd=self.folder, stdin=stdin)
        return result, path

    def prove(self, path, expected):
        """(events, bytes) of a trace; raises if it is damaged, if events were lost, or if it has fewer events than expected, or more by over 1 % and
        2,000 (the start of the process also allocates)."""
        outcome = subprocess.run([self.allogram, "check", "--json", path], stdout=subprocess.PIPE, check=False)
        verdict = json.loads(outcome.stdout)
        events = verdict["events"]
        if outcome.returncode != 0 or not verdict["whole"] or verdict["lost_events"]["total"] != 0:
            raise RuntimeError("%s: not whole: %s" % (path, verdict))
        if not expected <= events <= expected * 1.01 + 2000:
            raise RuntimeError("%s: %d events, the workload counted %d: not everything was recorded" % (path, events, expected))
        return events, os.path.getsize(path)

    def report(self, trace, *options):
        """The output of `allogram report --json` for a trace."""
        outcome = subprocess.run([self.allogram, "report", "--json", trace, *options], stdout=subprocess.PIPE, check=True)
        return json.loads(outcome.stdout)

    def events_of(self, trace):
        """The number of events of a trace; raises if the trace is damaged or has no events, or if events were lost, because a lost event is
        cheaper than a recorded one."""
        outcome = subprocess.run([self.allogram, "check", "--json", trace], stdout=subprocess.PIPE, check=False)
        verdict = json.loads(outcome.stdout)
        if outcome.returncode != 0 or not verdict["whole"] or verdict["events"] == 0 or verdict["lost_events"]["total"] != 0:
            raise RuntimeError("%s: nothing was recorded, or events were lost: %s" % (trace, verdict))
        return verdict["events"]


class Ratios:
    """Wall time and CPU time of a command, divided by those of the run without a profiler in the same round."""

    def __init__(self):
        self.wall, self.cpu = [], []

    def add(self, result, plain):
        self.wall.append(result.wall / plain.wall)
        self.cpu.append(result.cpu / plain.cpu)


def resident_kib(result):
    """Resident KiB of a workload of workloads/ at its end: anonymous, of files, of shared memory (workloads/resident.h prints them)."""
    return [int(word) for word in re.search(rb"resident_kib (\d+) (\d+) (\d+)", result.stderr).groups()]
