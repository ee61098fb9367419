"""Measures the cost of `allogram observe`, to the observed process and to the observer. Runs with and without the observer alternate.

Samples: a program reads the clock continuously and sums those gaps between two readings that are about as long as an interrupt
(tests/observe/own_gaps.c). Collections: an Erlang node allocates the same lists without and with `observe --gc`; the additional CPU time is
divided by the number of collections that the node counts.
micro_probe.c measures the lower bound: a breakpoint at which nothing is done."""

import json
import os
import shutil
import signal
import subprocess
import time

from harness import HERE
from measured import Spread

SECONDS = 3.0
RATES = ((99, 0.5), (999, 3.0))
MANY = 300000  # lists to allocate; on a small heap this takes many collections, on a large one few


def watched(bench, pid, options, work):
    """(the result of WORK, which runs while the process is observed; the output of `observe --json`)."""
    observer = subprocess.Popen([bench.allogram, "observe", str(pid), "--json", "--duration=0", *options], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
    folder = "/proc/%d/fd" % observer.pid
    while observer.poll() is None and not any("perf_event" in os.readlink(os.path.join(folder, fd)) for fd in os.listdir(folder)):
        time.sleep(0.01)
    result = work()
    observer.send_signal(signal.SIGINT)
    out, err = observer.communicate()
    if observer.returncode != 0:
        raise RuntimeError("observe: " + err.strip())
    return result, json.loads(out)


# ---- samples --------------------------------------------------------------------------------------------------------------------

def away_percent(bench, rate=None):
    """(percent of its time that the program lost in short gaps; the output of `observe --json`, None without a rate)."""
    command = [os.path.join(bench.build, "tests/observe/own_gaps"), str(SECONDS * bench.scale)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        program.stdout.readline()  # "ready"
        read = program.stdout.readline
        line, said = watched(bench, program.pid, ["--rate=%d" % rate], read) if rate else (read(), None)
    gaps = json.loads(line)
    return 100 * gaps["away_ns"] / (gaps["away_ns"] + gaps["present_ns"]), said


def run_samples(bench):
    rows = {rate: {"lost": [], "said": [], "own": [], "ns": []} for rate, _ in RATES}
    for _ in range(bench.rounds):
        alone, _ = away_percent(bench)
        for rate, _ in RATES:
            away, said = away_percent(bench, rate)
            row = rows[rate]
            row["lost"].append(away - alone)
            row["said"].append(said["target_cost_percent"])
            row["own"].append(100 * said["profiler"]["cpu_ns"] / said["duration_ns"])
            row["ns"].append(said["profiler"]["sample_cost_ns"] / 1e3)
    bench.say()
    bench.say("| samples of a busy thread | it loses, % | as observe says, % | a sample, us | the observer takes, % of a core |")
    bench.say("|---|---:|---:|---:|---:|")
    for rate, limit in RATES:
        row = {name: Spread(values) for name, values in rows[rate].items()}
        bench.say("| %d Hz | %s | %s | %s | %s |" % (rate, row["lost"].text(), row["said"].text(), row["ns"].text("%.1f"), row["own"].text()))
        bench.bar("observe at %d Hz: a busy thread loses" % rate, row["lost"], limit, unit=" %")
    bench.bar("observe at 999 Hz: the observer takes", Spread(rows[999]["own"]), 5.0, unit=" % of a core")


# ---- collections ----------------------------------------------------------------------------------------------------------------

class Node:
    """An Erlang node with one scheduler that allocates on request."""

    def __init__(self, bench):
        shutil.copy(os.path.join(HERE, "workloads/collecting.erl"), bench.folder)
        subprocess.run(["erlc", "collecting.erl"], cwd=bench.folder, check=True)
        self.process = subprocess.Popen(["erl", "-noshell", "+S", "1:1", "-s", "collecting", "main"], cwd=bench.folder,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.pid = int(self.process.stdout.readline())

    def cpu_ns(self):
        folder = "/proc/%d/task" % self.pid
        return sum(int(open("%s/%s/schedstat" % (folder, task), encoding="ascii").read().split()[0]) for task in os.listdir(folder))

    def work(self, lists, heap_words):
        """(CPU ns, collections) of allocating this number of lists on a heap of this number of words."""
        before = self.cpu_ns()
        self.process.stdin.write("%d %d\n" % (lists, heap_words))
        collections = int(self.process.stdout.readline())
        return self.cpu_ns() - before, collections


def run_collections(bench):
    if not shutil.which("erlc"):
        bench.say("Collections: skipped, no Erlang here.")
        return
    probe = subprocess.run([os.path.join(bench.build, "bench/micro_probe"), str(bench.rounds)], check=True, stdout=subprocess.PIPE, text=True)
    floor = [json.loads(line) for line in probe.stdout.splitlines()]
    node = Node(bench)
    added = {"many": [], "few": []}
    more, recorded = {"many": [], "few": []}, {}
    try:
        lists = int(MANY * bench.scale)
        node.work(lists, 233)
        for _ in range(bench.rounds):
            for name, heap_words in (("many", 233), ("few", 200000)):
                alone, _ = node.work(lists, heap_words)
                (cpu, collections), said = watched(bench, node.pid, ["--gc", "--rate=1"], lambda words=heap_words: node.work(lists, words))
                again, _ = node.work(lists, heap_words)
                added[name].append((cpu - (alone + again) / 2) / collections)
                more[name].append(100 * (2 * cpu / (alone + again) - 1))
                recorded[name] = (collections, len(said["gc"]["collections"]))
    finally:
        node.process.kill()
    bench.say()
    bench.say("| collections | recorded | ns added to each | the node's CPU time, % more |")
    bench.say("|---|---:|---:|---:|")
    bench.say("| floor: a breakpoint where a function begins, nothing done | | %s | |" % Spread([row["begin_ns"] for row in floor]).text("%.0f"))
    bench.say("| floor: and one where it returns | | %s | |" % Spread([row["both_ns"] for row in floor]).text("%.0f"))
    for name in ("many", "few"):
        ns = Spread(added[name]).text("%.0f") if name == "many" else ""  # for few collections, other differences of the runs are larger
        bench.say("| --gc: %d | %d | %s | %s |" % (*recorded[name], ns, Spread(more[name]).text("%.1f")))
    bench.bar("observe --gc: a collection of many", Spread(added["many"]), 1000, "%.0f", " ns")


def run(bench):
    run_samples(bench)
    run_collections(bench)
