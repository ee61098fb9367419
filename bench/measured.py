"""Measures a command and all processes that it starts: wall time until the command returns, CPU time of all these processes.

This process adopts orphans (PR_SET_CHILD_SUBREAPER). So it waits for a process that outlives its command, and counts its CPU time, too.
Callers run the compared commands alternately, once per round, and use Spread for the ratios of the runs of one round."""

import ctypes
import math
import os
import random
import resource
import statistics
import subprocess
import time

PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Measured:
    def __init__(self, wall, cpu, status, stdout, stderr, max_rss_kib):
        self.wall, self.cpu, self.status = wall, cpu, status
        self.stdout, self.stderr, self.max_rss_kib = stdout, stderr, max_rss_kib


def _children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(command, env=None, cwd=None, stdin=None, expect_status=0):
    before = _children_cpu()
    begin = time.monotonic()
    with open(stdin or os.devnull, "rb") as source, open(os.path.join(cwd, "stdout"), "w+b") as out, \
            open(os.path.join(cwd, "stderr"), "w+b") as err:
        process = subprocess.Popen(command, stdin=source, stdout=out, stderr=err, cwd=cwd, env=dict(os.environ, **(env or {})))
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        while True:  # orphans, which this process has adopted
            try:
                os.wait4(-1, 0)
            except ChildProcessError:
                break
        out.seek(0)
        err.seek(0)
        result = Measured(wall, _children_cpu() - before, process.returncode, out.read(), err.read(), usage.ru_maxrss)
    if expect_status is not None and result.status != expect_status:
        raise RuntimeError("%s: status %d: %s" % (" ".join(command), result.status, result.stderr[-500:].decode(errors="replace")))
    return result


class Spread:
    """A median, and an interval between two order statistics that contains the true median with a probability of at least 95 %. With fewer than
    6 values, the interval is from the smallest to the largest, and the probability is lower (5 values: 94 %, 3 values: 75 %)."""

    def __init__(self, values):
        self.values = sorted(values)
        self.n = len(self.values)
        self.median = statistics.median(self.values)
        cut = 0
        while self.n and 2 * sum(math.comb(self.n, i) for i in range(cut + 1)) / 2 ** self.n <= 0.05:
            cut += 1
        cut = max(cut - 1, 0)
        self.low, self.high = self.values[cut], self.values[-1 - cut]

    def text(self, form="%.2f"):
        if self.n == 1:
            return form % self.median + " (1 round)"
        return ("%s [%s, %s]" % (form, form, form)) % (self.median, self.low, self.high)


class FloorRatio:
    """The ratio of the times of two commands: the mean of the fastest quarter of the runs of one, divided by that of the other. (Other load on the
    machine only makes runs slower.) The interval is a bootstrap: as many runs of each command as were measured are drawn at random, DRAWS times,
    for each command independently; the interval contains the middle 95 % of the ratios. The random numbers are always the same. A FloorRatio has
    the members n, median (here the ratio), low, high and text of Spread, and needs some 20 rounds."""

    DRAWS = 4000

    def __init__(self, values, plains):
        self.n = len(values)
        self.median = self._ratio(values, plains)
        chance = random.Random(1)
        ratios = sorted(self._ratio(chance.choices(values, k=self.n), chance.choices(plains, k=self.n)) for _ in range(self.DRAWS))
        self.low, self.high = ratios[self.DRAWS // 40], ratios[-1 - self.DRAWS // 40]

    @staticmethod
    def _ratio(values, plains):
        quarter = max(1, len(values) // 4)
        return sum(sorted(values)[:quarter]) / sum(sorted(plains)[:quarter])

    text = Spread.text
