"""Measures `allogram view` on a trace of 100 million events with some hundred thousand stacks, on a trace whose page is almost as large as it may be
(13 million events of a thousand functions in 262144 stacks), and on a trace with a million stacks: the time and memory to write the page, the time
until it can be used in a browser, and how fast it answers."""

import json
import math
import os
import subprocess

from harness import HERE
from measured import Spread, measure


def run(bench):
    if b"built without its page" in subprocess.run([bench.allogram, "view", "/nonexistent"], stderr=subprocess.PIPE, check=False).stderr:
        bench.say("The page: this allogram was built without it.")
        return
    bench_one_page(bench, [bench.workload("cover"), str(int(7600 * bench.scale))], lambda events, _: "%.0f M events" % (events / 1e6))
    bench_one_page(bench, [bench.workload("branches"), str(int(6.5e6 * bench.scale))],
                   lambda events, stacks: "%.0f M events, %d stacks" % (events / 1e6, stacks), most_mb=10)
    levels = max(10, 20 + round(math.log2(bench.scale)))
    bench_one_page(bench, [bench.program("many_stacks"), str(levels)], lambda _, stacks: "%d stacks" % stacks)


# What page_opening.mjs measures: its key, the words of the bar, the limit in ms.
OPENING = [
    ("drawn", "drawn in Chromium", 2000),
    ("usable", "a first click is answered", 2000),
    ("slowest_click", "slowest answer to a later click", 200),
    ("slowest_frame", "slowest frame while a range is dragged", 100),
    ("slowest_move", "slowest move of the range", 100),
]


def bench_one_page(bench, command, name, most_mb=20):
    _, trace = bench.record(command)
    events = bench.events_of(trace)
    stacks = bench.report(trace)["unique_stacks"]
    path = bench.path("page.html")
    runs = [measure([bench.allogram, "view", "--no-open", "-o", path, trace], cwd=bench.folder) for _ in range(min(bench.rounds, 5))]
    walls, memory, size = Spread([run.wall for run in runs]), max(run.max_rss_kib for run in runs) / 1024, os.path.getsize(path) / 1e6
    bench.say()
    bench.say("The page of %.1f M events, %d stacks: written in %s s (CPU %s s) with %.0f MiB; %.1f MB." % (
        events / 1e6, stacks, walls.text(), Spread([run.cpu for run in runs]).text(), memory, size))
    what = "page of " + name(events, stacks)
    bench.bar(what + ", wall", walls, 15, unit=" s")
    bench.bar(what + ": peak memory", Spread([memory]), 512, "%.0f", " MiB")
    bench.bar(what + ": size", Spread([size]), most_mb, "%.1f", " MB")
    packages = os.path.join(os.path.dirname(bench.allogram), "../../viewer/npm")
    opening = os.path.join(HERE, "page_opening.mjs")
    opened = [json.loads(subprocess.run(["node", opening, os.path.abspath(packages), path], stdout=subprocess.PIPE, check=True).stdout)
              for _ in range(min(bench.rounds, 5))]
    if all(opened):
        for key, words, limit in OPENING:
            bench.bar("%s: %s" % (what, words), Spread([each[key] for each in opened]), limit, "%.0f", " ms")
    else:
        bench.say("Opening it was not measured: no Chromium here.")
    os.unlink(trace)
