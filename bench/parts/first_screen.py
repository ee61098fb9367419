"""Measures reports on a trace of 1 GB: the summary, which is computed from the trace's index, and a window of one percent of the time, which reads only
the chunks that the window overlaps."""

import os

from measured import Spread, measure

RUNS = 9  # the least number of runs; with fewer than six, a single slow run would be an end of the interval


def run(bench):
    runs_each = range(max(RUNS, bench.rounds))
    _, trace = bench.record([bench.workload("cover"), "36000"], "big.allogram")
    size = os.path.getsize(trace)
    times = [measure([bench.allogram, "report", trace], cwd=bench.folder).wall for _ in runs_each]
    bench.say()
    bench.say("First screen of a trace of %.2f GB: %s s." % (size / 1e9, Spread(times).text()))
    bench.bar("first screen of %.2f GB" % (size / 1e9), Spread(times), 3, unit=" s")
    duration = bench.report(trace)["trace"]["duration_ns"]
    window = ["--from=%dns" % (duration * 50 // 100), "--to=%dns" % (duration * 51 // 100)]
    runs = [measure([bench.allogram, "report", "--view=sites", trace, *window], cwd=bench.folder) for _ in runs_each]
    bench.say("A window of 1 %% of its time, by site: %s s, CPU %s s." % (Spread([run.wall for run in runs]).text(),
                                                                          Spread([run.cpu for run in runs]).text()))
    bench.bar("window of 1 %% of %.2f GB" % (size / 1e9), Spread([run.wall for run in runs]), 0.5, unit=" s")
    os.unlink(trace)
