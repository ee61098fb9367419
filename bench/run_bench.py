#!/usr/bin/env python3
"""What allogram costs, beside its peers: paired, interleaved rounds on this machine, as tables in Markdown.

Every recording is checked to have really recorded: its trace is whole, nothing is lost, and its number of events is what the
workload counted itself (a preload that fails costs nothing). Bars are those of the project's goals; one is met when the upper
end of its interval meets it."""

import argparse
import datetime
import json
import math
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import time

from measured import Spread, measure

HERE = os.path.dirname(os.path.abspath(__file__))
TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4"


class Bench:
    def __init__(self, build, rounds, folder, peers):
        self.build = os.path.abspath(build)
        self.allogram = os.path.join(self.build, "src/cli/allogram")
        self.agent = os.path.join(self.build, "adapters/libc/liballogram-agent.so")
        self.rounds, self.folder, self.peers = rounds, folder, peers
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
        """Notes whether the upper end of the interval is at most `limit`."""
        value = spread.high
        self.bars.append((what, spread.text(form) + unit, ("at most " + form + "%s") % (limit, unit), value <= limit))

    def bar_at_least(self, what, spread, limit, form="%.2f", unit=""):
        self.bars.append((what, spread.text(form) + unit, ("at least " + form + "%s") % (limit, unit), spread.low >= limit))

    # ---- recording and proving that it recorded ----
    def record(self, command, trace="trace.allogram", env=None, stdin=None, run=measure, options=()):
        path = self.path(trace)
        if os.path.exists(path):
            os.unlink(path)
        result = run([self.allogram, "run", "-q", "-o", path, *options, "--", *command], env=env, cwd=self.folder, stdin=stdin)
        return result, path

    def prove(self, path, expected):
        """(events, bytes) of a trace; raises when it is not what was expected."""
        outcome = subprocess.run([self.allogram, "check", "--json", path], stdout=subprocess.PIPE, check=False)
        verdict = json.loads(outcome.stdout)
        events = verdict["events"]
        if outcome.returncode != 0 or not verdict["whole"] or verdict["lost_events"]["total"] != 0:
            raise RuntimeError("%s: not whole: %s" % (path, verdict))
        if not expected <= events <= expected * 1.01 + 2000:
            raise RuntimeError("%s: %d events, the workload counted %d: not everything was recorded" % (path, events, expected))
        return events, os.path.getsize(path)


# ---- programs --------------------------------------------------------------------------------------------------------
class Program:
    def __init__(self, name, command, stdin=None, counts_itself=False, bars=None):
        self.name, self.command, self.stdin = name, command, stdin
        self.counts_itself, self.bars = counts_itself, bars or {}


def make_json(path):
    """About 17 MB of rows."""
    source, size, i = random.Random(5), 0, 0
    with open(path, "w", encoding="utf-8") as file:
        file.write("[")
        while size < 17_000_000:
            row = '%s{"id":%d,"name":"user %x","mail":"u%d@example.org","tags":["a%d","b%d"],"score":%.4f,"inner":{"x":null,"y":[%d,%d,{"z":%d}]}}' % (
                ",\n" if i else "", i, source.getrandbits(48), i, source.randrange(50), i % 7, source.random(), i % 5, i % 3,
                source.randrange(1000))
            file.write(row)
            size += len(row)
            i += 1
        file.write("]\n")


def make_smt(path):
    """600 small problems of linear arithmetic, one after the other."""
    source, lines, n = random.Random(3), ["(set-logic QF_LIA)"], 25
    for i in range(n):
        lines.append("(declare-fun x%d () Int) (assert (and (>= x%d 0) (<= x%d 100)))" % (i, i, i))
    for _ in range(600):
        lines.append("(push)")
        for _ in range(12):
            chosen = source.sample(range(n), 4)
            terms = " ".join("(* %d x%d)" % (source.randrange(1, 9), x) for x in chosen)
            lines.append("(assert (or (<= (+ %s) %d) (>= (- (* 3 x%d) (* 2 x%d)) %d)))" % (
                terms, source.randrange(50, 900), chosen[0], chosen[1], source.randrange(0, 120)))
        lines.append("(check-sat) (pop)")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def make_lua(path, scale):
    """Tables, closures, strings and calls: about 2.3 million blocks at scale 1."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("""local t, words = {}, {}
local function item(i) return { name = "item " .. i, f = function() return i end, i } end
for i = 1, %d do t[i %% 1000 + 1] = item(i) end
for i = 1, %d do words[#words + 1] = ("w"):rep(i %% 20) .. i end
table.sort(words)
print(#words, words[1])
""" % (int(300000 * scale), int(100000 * scale)))


def programs_of(bench, scale):
    found = [
        Program("factor (cfrac-like)", [bench.workload("factor"), str(int(15000 * scale))], counts_itself=True,
                bars={"wall": 1.8, "cpu": 3.0, "ten_times": True, "bytes": 2.5}),
        Program("cover (espresso-like)", [bench.workload("cover"), str(int(3000 * scale))], counts_itself=True,
                bars={"wall": 1.8, "cpu": 3.0, "ten_times": True, "bytes": 2.5}),
    ]
    if shutil.which("jq"):
        make_json(bench.path("in.json"))
        found.append(Program("jq, 17 MB of JSON", ["jq", "map({id, s: .score, k: .name}) | length", bench.path("in.json")],
                             bars={"wall": 1.25, "ten_times": True, "bytes": 2.5}))
    if shutil.which("z3"):
        make_smt(bench.path("in.smt2"))
        found.append(Program("z3, 600 problems", ["z3", bench.path("in.smt2")], bars={"wall": 1.06, "bytes": 2.5}))
    if shutil.which("lua5.4"):  # each block of Lua is one of malloc: the judge counts both
        make_lua(bench.path("in.lua"), scale)
        found.append(Program("lua5.4, tables and strings", ["lua5.4", bench.path("in.lua")], bars={"bytes": 2.5}))
    for name, variable, bars in (("cfrac itself", "BENCH_CFRAC", {"wall": 1.8, "cpu": 3.0, "ten_times": True, "bytes": 2.5}),
                                 ("espresso itself", "BENCH_ESPRESSO", {"wall": 1.8, "cpu": 3.0, "ten_times": True, "bytes": 2.5})):
        if os.environ.get(variable):
            found.append(Program(name, os.environ[variable].split(), bars=bars))
    return found


def counted_events(bench, program, plain):
    """How many events the program makes: its own word, else the counting preload's (tests/programs)."""
    if program.counts_itself:
        return 2 * int(re.search(rb"allocations (\d+)", plain.stderr)[1])
    sys.path.insert(0, os.path.join(HERE, "../tests/conformance"))
    import counted
    folder = bench.path("counted")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    judge = os.path.join(bench.build, "tests/programs/libcounting_preload.so")
    measure(program.command, env=counted.environment(judge, folder), cwd=bench.folder)
    counts = counted.read(folder)[0]
    return counts["allocated_blocks"] + counts["freed_blocks"] + counts["ghost_frees"]


def peer_commands(bench, command):
    """name -> (command, environment, rounds); the slow ones once."""
    peers = {}
    if shutil.which("heaptrack"):
        peers["heaptrack"] = (["heaptrack", "-o", bench.path("heaptrack"), *command], {}, max(3, bench.rounds // 2))
    if os.path.exists(TCMALLOC):
        peers["gperftools"] = (command, {"LD_PRELOAD": TCMALLOC, "HEAPPROFILE": bench.path("heapprofile"),
                                         "HEAP_PROFILE_ALLOCATION_INTERVAL": str(1 << 40)}, max(3, bench.rounds // 2))
    if shutil.which("valgrind"):
        peers["dhat"] = (["valgrind", "--tool=dhat", "--dhat-out-file=" + bench.path("dhat"), *command], {}, 1)
        peers["massif"] = (["valgrind", "--tool=massif", "--massif-out-file=" + bench.path("massif"), *command], {}, 1)
    return {name: peer for name, peer in peers.items() if name in bench.peers}


def remove_output(bench):
    """Removes what a peer wrote; how many bytes that was."""
    size = 0
    for name in os.listdir(bench.folder):
        if name.startswith(("heaptrack", "heapprofile", "dhat", "massif")):
            size += os.path.getsize(bench.path(name))
            os.unlink(bench.path(name))
    return size


class Ratios:
    def __init__(self):
        self.wall, self.cpu = [], []

    def add(self, result, plain):
        self.wall.append(result.wall / plain.wall)
        self.cpu.append(result.cpu / plain.cpu)


def bench_program(bench, program):
    plain = measure(program.command, cwd=bench.folder)  # also warms up
    expected = counted_events(bench, program, plain)
    peers = peer_commands(bench, program.command)
    ratios = {name: Ratios() for name in ["allogram", *peers]}
    ten_times, plains, per_event = [], [], 0
    for n in range(bench.rounds):
        plain = measure(program.command, cwd=bench.folder)
        plains.append(plain.wall)
        recorded, trace = bench.record(program.command)
        if recorded.stdout != plain.stdout:
            raise RuntimeError(program.name + ": other output when recorded")
        events, size = bench.prove(trace, expected)
        per_event = size / events
        ratios["allogram"].add(recorded, plain)
        for name, (command, env, rounds) in peers.items():
            if n < rounds:
                # heaptrack's script sometimes ends with SIGPIPE though all is written: its output is the proof
                result = measure(command, env=env, cwd=bench.folder, expect_status=None)
                if remove_output(bench) == 0:
                    raise RuntimeError("%s wrote nothing: %s" % (name, result.stderr[-300:]))
                ratios[name].add(result, plain)
                if name == "heaptrack":
                    ten_times.append((result.wall / plain.wall - 1) / max(recorded.wall / plain.wall - 1, 1e-3))
        bench.note("  %s: round %d of %d" % (program.name, n + 1, bench.rounds))
    report_program(bench, program, Spread(plains), events, per_event, ratios, ten_times)


def report_program(bench, program, plain, events, per_event, ratios, ten_times):
    own = ratios["allogram"]
    cells = [program.name, "%.2f" % plain.median, "%.1f" % (events / 1e6), Spread(own.wall).text(), Spread(own.cpu).text()]
    for name in ("heaptrack", "gperftools", "dhat", "massif"):
        found = ratios.get(name)
        cells.append("-" if not found or not found.wall else "%s / %s" % (
            Spread(found.wall).text() if len(found.wall) > 1 else "%.1f" % found.wall[0], "%.1f" % Spread(found.cpu).median))
    cells.append("%.2f" % per_event)
    bench.say("| " + " | ".join(cells) + " |")
    bars = program.bars
    if "wall" in bars:
        bench.bar(program.name + ": wall", Spread(own.wall), bars["wall"], unit="x")
    if "cpu" in bars:
        bench.bar(program.name + ": CPU of all processes", Spread(own.cpu), bars["cpu"], unit="x")
    if "ten_times" in bars and ten_times:
        bench.bar_at_least(program.name + ": heaptrack's (slowdown - 1) over allogram's", Spread(ten_times), 10, "%.1f")
    if "bytes" in bars:
        bench.bar(program.name + ": trace bytes an event", Spread([per_event]), bars["bytes"])


# ---- redis -----------------------------------------------------------------------------------------------------------
REDIS_REQUESTS = 60000


def redis_round(bench, prefix):
    """Seconds that redis-benchmark takes against a server started with `prefix` in front of it."""
    socket = bench.path("redis.socket")
    server = subprocess.Popen([*prefix, "redis-server", "--port", "0", "--unixsocket", socket, "--dir", bench.folder, "--save", "",
                               "--appendonly", "no"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    client = ["redis-cli", "-s", socket]
    for _ in range(200):
        if subprocess.run([*client, "ping"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout == b"PONG\n":
            break
        time.sleep(0.05)
    begin = time.monotonic()
    subprocess.run(["redis-benchmark", "-s", socket, "-n", str(REDIS_REQUESTS), "-c", "20", "-r", "10000", "-q", "-t",
                    "set,get,lpush,hset"], stdout=subprocess.DEVNULL, check=True)
    wall = time.monotonic() - begin
    subprocess.run([*client, "shutdown", "nosave"], stderr=subprocess.DEVNULL, check=False)
    server.wait()
    return wall


def bench_redis(bench):
    ratios, plains, path = {"allogram": [], "heaptrack": []}, [], bench.path("redis.allogram")
    for n in range(bench.rounds):
        plain = redis_round(bench, [])
        plains.append(plain)
        if os.path.exists(path):
            os.unlink(path)
        ratios["allogram"].append(redis_round(bench, [bench.allogram, "run", "-q", "-o", path, "--"]) / plain)
        if shutil.which("heaptrack") and "heaptrack" in bench.peers and n < 3:
            ratios["heaptrack"].append(redis_round(bench, ["heaptrack", "-o", bench.path("heaptrack")]) / plain)
            remove_output(bench)
        bench.note("  redis: round %d of %d" % (n + 1, bench.rounds))
    outcome = subprocess.run([bench.allogram, "check", "--json", path], stdout=subprocess.PIPE, check=False)
    events = json.loads(outcome.stdout)["events"]
    if events < REDIS_REQUESTS:
        raise RuntimeError("redis: only %d events" % events)
    heaptrack = Spread(ratios["heaptrack"]).text() if ratios["heaptrack"] else "-"
    bench.say("| redis-server, redis-benchmark | %.2f | %.1f | %s | | %s | | | | %.2f |" % (
        Spread(plains).median, events / 1e6, Spread(ratios["allogram"]).text(), heaptrack, os.path.getsize(path) / events))
    bench.bar("redis-server: wall of redis-benchmark", Spread(ratios["allogram"]), 1.1, unit="x")


# ---- one pair --------------------------------------------------------------------------------------------------------
def pair_ns(result, bench=None):
    ns, pairs, path = result.stdout.split()[:3]
    if bench is not None and os.path.basename(bench.agent) not in path.decode():
        raise RuntimeError("malloc came from %s: nothing was hooked" % path.decode())
    return float(ns), int(pairs)


def added_ns(bench, mode, depth, threads=1, millions=10):
    """Nanoseconds added a pair, over the rounds; each recording is proved."""
    command = [bench.workload("pairs"), mode, str(depth), str(millions), str(threads)]
    added, bases = [], []
    for _ in range(bench.rounds):
        base, pairs = pair_ns(measure(command, cwd=bench.folder))
        result, trace = bench.record(command)
        recorded, _ = pair_ns(result, bench)
        bench.prove(trace, 2 * pairs)
        added.append(recorded - base)
        bases.append(base)
    return Spread(added), Spread(bases)


def bench_pairs(bench):
    bench.say()
    bench.say("| pair of malloc and free | frames | base, ns | added, ns |")
    bench.say("|---|---:|---:|---:|")
    for mode, text, depths, bar in (("leaf", "only the innermost call site changes", (4, 16, 32, 64), 45),
                                    ("middle", "four frames in the middle change", (16, 32, 64), 120)):
        for depth in depths:
            added, base = added_ns(bench, mode, depth)
            bench.say("| %s | %d | %.1f | %s |" % (text, depth, base.median, added.text("%.1f")))
            if depth == 32:
                bench.bar("pair, %s, 32 frames: added" % text, added, bar, "%.1f", " ns")
            bench.note("  pairs %s %d" % (mode, depth))

    one, two = [], []
    command = [bench.workload("pairs"), "leaf", "16", "10"]
    for _ in range(bench.rounds):
        for threads, list_ in (("1", one), ("2", two)):
            base, pairs = pair_ns(measure([*command, threads], cwd=bench.folder))
            result, trace = bench.record([*command, threads])
            bench.prove(trace, 2 * pairs)
            list_.append(pair_ns(result, bench)[0] - base)
    ratio = Spread([b / a for a, b in zip(one, two)])
    bench.say("| two threads, CPU of the slower thread | 16 | | %s, with one %s |" % (Spread(two).text("%.1f"), Spread(one).text("%.1f")))
    bench.bar("two threads: added cost over that of one", ratio, 1.3, unit="x")

    off = []
    for _ in range(bench.rounds):
        base, _ = pair_ns(measure([*command, "1"], cwd=bench.folder))
        off.append(pair_ns(measure([*command, "1"], cwd=bench.folder, env={"LD_PRELOAD": bench.agent}), bench)[0] - base)
    bench.say("| preloaded, not recording | 16 | | %s |" % Spread(off).text("%.1f"))
    bench.bar("preloaded but stopped: added", Spread(off), 2, "%.1f", " ns")


# ---- sampling ----------------------------------------------------------------------------------------------------------
SAMPLING = ["--mode=sample"]  # at the default interval, 512 KiB


def added_in_process(bench, shape, prefix=(), env=None):
    """(base, added) in ns of pairs that are measured in turns within one process (micro_pair.c), over the rounds."""
    command = [*prefix, os.path.join(bench.build, "bench/micro_pair"), "1000", shape]
    bases, added = [], []
    for _ in range(bench.rounds):
        trace = bench.path("pair.allogram")
        if os.path.exists(trace):
            os.unlink(trace)
        words = measure(command, env=env, cwd=bench.folder).stdout.split()
        if os.path.basename(bench.agent) not in words[4].decode():
            raise RuntimeError("malloc came from %s: nothing was hooked" % words[4].decode())
        bases.append(float(words[0]))
        added.append(float(words[1]))
    return Spread(bases), Spread(added)


def bench_sampled_pairs(bench):
    bench.say()
    bench.say("| pair of malloc and free, within one process | base, ns | added, ns |")
    bench.say("|---|---:|---:|")
    recorded = [bench.allogram, "run", "-q", *SAMPLING, "-o", bench.path("pair.allogram"), "--"]
    for shape, text in (("loop", "freed at once"), ("ring", "4096 blocks live")):
        for what, prefix, env in (("preloaded, not recording", (), {"LD_PRELOAD": bench.agent}), ("sampled", recorded, None)):
            base, added = added_in_process(bench, shape, prefix, env)
            bench.say("| %s, %s | %s | %s |" % (what, text, base.text("%.1f"), added.text("%.1f")))
            bench.bar("pair %s, %s: added" % (what, text), added, 2, "%.1f", " ns")


def sampled_blocks_of(bench, trace):
    outcome = subprocess.run([bench.allogram, "check", "--json", trace], stdout=subprocess.PIPE, check=False)
    verdict = json.loads(outcome.stdout)
    if outcome.returncode != 0 or not verdict["whole"] or verdict["events"] == 0:
        raise RuntimeError("%s: nothing was sampled: %s" % (trace, verdict))
    return verdict["events"]


def bench_sampled_programs(bench, scale):
    bench.say()
    bench.say("| sampled program | base, s | samples and their frees | wall | CPU |")
    bench.say("|---|---:|---:|---:|---:|")
    for program in programs_of(bench, scale):
        ratios, plains, events = Ratios(), [], 0
        for _ in range(bench.rounds):
            plain = measure(program.command, cwd=bench.folder)
            result, trace = bench.record(program.command, options=SAMPLING)
            if result.stdout != plain.stdout:
                raise RuntimeError(program.name + ": other output when sampled")
            events = sampled_blocks_of(bench, trace)
            plains.append(plain.wall)
            ratios.add(result, plain)
        bench.say("| %s | %.2f | %d | %s | %s |" % (program.name, Spread(plains).median, events, Spread(ratios.wall).text("%.3f"),
                                                     Spread(ratios.cpu).text("%.3f")))
        if program.name.startswith(("jq", "z3")):
            bench.bar("sampled " + program.name + ": wall", Spread(ratios.wall), 1.01, "%.3f", "x")
    if shutil.which("redis-server") and shutil.which("redis-benchmark"):
        plains, ratios, path = [], [], bench.path("redis.allogram")
        for _ in range(bench.rounds):
            plains.append(redis_round(bench, []))
            if os.path.exists(path):
                os.unlink(path)
            ratios.append(redis_round(bench, [bench.allogram, "run", "-q", *SAMPLING, "-o", path, "--"]) / plains[-1])
        bench.say("| redis-server, redis-benchmark | %.2f | %d | %s | |" % (
            Spread(plains).median, sampled_blocks_of(bench, path), Spread(ratios).text("%.3f")))
        bench.bar("sampled redis-server: wall of redis-benchmark", Spread(ratios), 1.01, "%.3f", "x")


def bench_sampled_memory(bench, scale):
    command = [bench.workload("cover"), str(int(3000 * scale))]
    plain = resident_kib(measure(command, cwd=bench.folder))
    result, _ = bench.record(command, options=SAMPLING)
    added = [(b - a) / 1024 for a, b in zip(plain, resident_kib(result))]
    bench.say()
    bench.say("Resident memory that sampling adds to cover: %.1f MiB, of it anonymous %.1f, files %.1f, the shared segment %.1f." % (
        sum(added), *added))
    bench.bar("resident memory added by sampling", Spread([sum(added)]), 4, "%.1f", " MiB")


def bench_embedded(bench):
    """allogram_alloc where a tracker samples and the block is none: nanoseconds of a call, less those of an empty loop."""
    runs = [measure([os.path.join(bench.build, "bench/micro_embedded")], cwd=bench.folder).stdout.split() for _ in range(bench.rounds)]
    bench.say()
    bench.say("| allogram_alloc, inlined, of a block that nobody records | ns |")
    bench.say("|---|---:|")
    for i, text in enumerate(("no session", "a tracker samples")):
        spread = Spread([float(words[i]) for words in runs])
        bench.say("| %s | %s |" % (text, spread.text("%.1f")))
        bench.bar("allogram_alloc, %s" % text, spread, 2, "%.1f", " ns")


def bench_sampling(bench, scale):
    bench_sampled_pairs(bench)
    bench_embedded(bench)
    bench_sampled_programs(bench, scale)
    bench_sampled_memory(bench, scale)


# ---- memory and reading ----------------------------------------------------------------------------------------------
def resident_kib(result):
    return [int(word) for word in re.search(rb"resident_kib (\d+) (\d+) (\d+)", result.stderr).groups()]


def bench_memory(bench, scale):
    command = [bench.workload("cover"), str(int(3000 * scale))]
    plain = resident_kib(measure(command, cwd=bench.folder))
    result, trace = bench.record(command)
    loaded = resident_kib(result)
    summary = report_json(bench, trace)
    added = [(b - a) / 1024 for a, b in zip(plain, loaded)]
    stacks = summary["unique_stacks"]
    bench.say()
    bench.say("Resident memory that recording adds to cover (%d distinct stacks): %.1f MiB, of it anonymous %.1f, files %.1f, the "
              "shared segment (stack tree, chunks) %.1f." % (stacks, sum(added), *added))
    bench.bar("resident memory added, %d stacks" % stacks, Spread([sum(added)]), 32, "%.1f", " MiB")


def report_json(bench, trace, *options):
    return json.loads(subprocess.run([bench.allogram, "report", "--json", trace, *options], stdout=subprocess.PIPE, check=True).stdout)


def bench_reading(bench, scale):
    bench.say()
    bench.say("| reading | events, M | pass over all events, M events a second and core | peak memory, MiB | summary from the index, CPU s |")
    bench.say("|---|---:|---:|---:|---:|")
    for name, argument in (("factor", 45000), ("cover", 6000)):
        _, trace = bench.record([bench.workload(name), str(int(argument * scale))])
        events = json.loads(subprocess.run([bench.allogram, "check", "--json", trace], stdout=subprocess.PIPE, check=True).stdout)["events"]
        rates, memory = [], 0
        for _ in range(min(bench.rounds, 5)):  # --within needs a pass over the events
            result = measure([bench.allogram, "report", "--json", "--limit=1", "--view=temporary", "--within=1", trace], cwd=bench.folder)
            rates.append(events / result.cpu / 1e6)
            memory = max(memory, result.max_rss_kib / 1024)
        index = [measure([bench.allogram, "report", "--json", trace], cwd=bench.folder).cpu for _ in range(min(bench.rounds, 5))]
        bench.say("| %s | %.1f | %s | %.0f | %s |" % (
            name, events / 1e6, Spread(rates).text("%.1f"), memory, Spread(index).text()))
        bench.bar_at_least("reading %s" % name, Spread(rates), 40, "%.0f", " M events/s")
        bench.bar("reading %s: peak memory" % name, Spread([memory]), 512, "%.0f", " MiB")


def bench_first_screen(bench):
    """A trace of 1 GB; its summary comes from the index, a hundredth of its time from the chunks it touches."""
    _, trace = bench.record([bench.workload("cover"), "36000"], "big.allogram")
    size = os.path.getsize(trace)
    times = [measure([bench.allogram, "report", trace], cwd=bench.folder).wall for _ in range(3)]
    bench.say()
    bench.say("First screen of a trace of %.2f GB: %s s." % (size / 1e9, Spread(times).text()))
    bench.bar("first screen of %.2f GB" % (size / 1e9), Spread(times), 3, unit=" s")
    duration = report_json(bench, trace)["trace"]["duration_ns"]
    window = ["--from=%dns" % (duration * 50 // 100), "--to=%dns" % (duration * 51 // 100)]
    runs = [measure([bench.allogram, "report", "--view=sites", trace, *window], cwd=bench.folder) for _ in range(5)]
    bench.say("A window of 1 %% of its time, by site: %s s, CPU %s s." % (Spread([run.wall for run in runs]).text(),
                                                                          Spread([run.cpu for run in runs]).text()))
    bench.bar("window of 1 %% of %.2f GB" % (size / 1e9), Spread([run.wall for run in runs]), 0.5, unit=" s")
    os.unlink(trace)


def bench_page(bench, scale):
    """`view` on 100 million events and some hundred thousand stacks, and on a million stacks; their pages in a browser."""
    if b"built without its page" in subprocess.run([bench.allogram, "view", "/nonexistent"], stderr=subprocess.PIPE, check=False).stderr:
        bench.say("The page: this allogram was built without it.")
        return
    bench_one_page(bench, [bench.workload("cover"), str(int(7600 * scale))], lambda events, _: "%.0f M events" % (events / 1e6))
    levels = max(10, 20 + round(math.log2(scale)))
    bench_one_page(bench, [bench.program("many_stacks"), str(levels)], lambda _, stacks: "%d stacks" % stacks)


def bench_one_page(bench, command, name):
    _, trace = bench.record(command)
    events = json.loads(subprocess.run([bench.allogram, "check", "--json", trace], stdout=subprocess.PIPE, check=True).stdout)["events"]
    stacks = report_json(bench, trace)["unique_stacks"]
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


# ---- the whole -------------------------------------------------------------------------------------------------------
def first_line(command):
    try:
        outcome = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return outcome.stdout.decode(errors="replace").strip().split("\n")[0]
    except OSError:
        return None


def describe_machine(bench):
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    commit = first_line(["git", "-C", HERE, "describe", "--always", "--dirty"])
    bench.say("%s, commit %s; %d x %s, %.0f GiB, Linux %s, %s, %s; load before: %.1f" % (
        datetime.date.today(), commit, os.cpu_count(), model, memory, platform.release(), " ".join(platform.libc_ver()),
        first_line(["gcc", "--version"]), os.getloadavg()[0]))
    peers = [first_line(["heaptrack", "--version"]), "valgrind " + (first_line(["valgrind", "--version"]) or "-"),
             "gperftools " + (first_line(["dpkg-query", "-W", "-f", "${Version}", "libgoogle-perftools4"]) or "-")]
    bench.say("Peers: " + ", ".join(peer for peer in peers if peer))
    bench.say()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--scale", type=float, default=1.0, help="of the workloads' length")
    parser.add_argument("--only", help="one of: programs redis pairs memory reading first_screen page sampling, joined by commas")
    parser.add_argument("--peers", default="heaptrack,gperftools,dhat,massif")
    parser.add_argument("--write", metavar="FILE", help="puts the tables into FILE between its two marks")
    options = parser.parse_args()
    folder = os.path.join(os.path.abspath(options.build), "bench-data")
    os.makedirs(folder, exist_ok=True)
    bench = Bench(options.build, options.rounds, folder, options.peers.split(","))
    parts = {"programs", "redis", "pairs", "memory", "reading", "first_screen", "page", "sampling"}
    chosen = set(options.only.split(",")) if options.only else parts
    describe_machine(bench)
    if chosen & {"programs", "redis"}:
        bench.say("| program | base, s | events, M | allogram, wall | allogram, CPU | heaptrack, wall / CPU | gperftools | DHAT | massif "
                  "| trace, bytes an event |")
        bench.say("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    if "programs" in chosen:
        for program in programs_of(bench, options.scale):
            bench_program(bench, program)
    if "redis" in chosen and shutil.which("redis-server") and shutil.which("redis-benchmark"):
        bench_redis(bench)
    if "pairs" in chosen:
        bench_pairs(bench)
    if "memory" in chosen:
        bench_memory(bench, options.scale)
    if "reading" in chosen:
        bench_reading(bench, options.scale)
    if "first_screen" in chosen:
        bench_first_screen(bench)
    if "page" in chosen:
        bench_page(bench, options.scale)
    if "sampling" in chosen:
        bench_sampling(bench, options.scale)
    bench.say()
    bench.say("| bar | measured | wanted | |")
    bench.say("|---|---:|---:|---|")
    for what, measured, wanted, met in bench.bars:
        bench.say("| %s | %s | %s | %s |" % (what, measured, wanted, "met" if met else "**missed**"))
    if options.write:
        write_into(options.write, bench.lines)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


BEGIN, END = "<!-- begin of what bench/run_bench.py wrote -->", "<!-- end of what bench/run_bench.py wrote -->"


def write_into(path, lines):
    with open(path, encoding="utf-8") as file:
        before, _, rest = file.read().partition(BEGIN)
    after = rest.partition(END)[2]
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END + after)


if __name__ == "__main__":
    sys.exit(main())
