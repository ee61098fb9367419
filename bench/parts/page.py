"""Measures `allogram view` on a trace of 100 million events with some hundred thousand stacks, and on a trace with a million stacks: the time and memory to
write the page, and the time to open it in a browser."""

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
    levels = max(10, 20 + round(math.log2(bench.scale)))
    bench_one_page(bench, [bench.program("many_stacks"), str(levels)], lambda _, stacks: "%d stacks" % stacks)


def bench_one_page(bench, command, name):
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
    bench.bar(what + ": size", Spread([size]), 20, "%.1f", " MB")
    packages = os.path.join(os.path.dirname(bench.allogram), "../../viewer/npm")
    opening = os.path.join(HERE, "page_opening.mjs")
    opened = [json.loads(subprocess.run(["node", opening, os.path.abspath(packages), path], stdout=subprocess.PIPE, check=True).stdout)
              for _ in range(min(bench.rounds, 5))]
    if all(opened):
        bench.bar(what + ": opens in Chromium", Spread([each["open"] / 1000 for each in opened]), 2, unit=" s")
        bench.bar(what + ": slowest move of the range", Spread([each["slowest_move"] for each in opened]), 100, "%.0f", " ms")
    else:
        bench.say("Opening it was not measured: no Chromium here.")
    os.unlink(trace)
