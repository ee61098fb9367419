"""Measures whole programs recorded exactly by allogram, and the same programs under heaptrack, gperftools, DHAT and massif (the peers)."""

import os
import random
import re
import shutil
import sys

from harness import HERE, Ratios
from measured import Spread, measure

TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4"


TURNS = 4  # runs per round: a bar that is given in hundredths needs an interval of a few hundredths


HEAD = ("| program | base, s | events, M | allogram, wall | allogram, CPU | heaptrack, wall / CPU | gperftools | DHAT | massif "
        "| trace, bytes an event |")


def say_head(bench):
    """Prints the head of the table that this part and redis.py share, if it was not printed yet."""
    if HEAD not in bench.lines:
        bench.say(HEAD)
        bench.say("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")


class Program:
    # counts_itself: the program prints how many allocations it makes. bars: the limits of its results.
    def __init__(self, name, command, stdin=None, counts_itself=False, bars=None):
        self.name, self.command, self.stdin = name, command, stdin
        self.counts_itself, self.bars = counts_itself, bars or {}


def make_json(path):
    """Writes about 17 MB of JSON rows."""
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
    """Writes 600 small problems of linear arithmetic for z3."""
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
    """Writes a Lua program that makes tables, closures, strings and calls: about 2.3 million blocks at scale 1."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("""local t, words = {}, {}
local function item(i) return { name = "item " .. i, f = function() return i end, i } end
for i = 1, %d do t[i %% 1000 + 1] = item(i) end
for i = 1, %d do words[#words + 1] = ("w"):rep(i %% 20) .. i end
table.sort(words)
print(#words, words[1])
""" % (int(300000 * scale), int(100000 * scale)))


def programs_of(bench):
    scale = bench.scale
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
    if shutil.which("lua5.4"):  # each block of Lua is a block of malloc, so the counting preload counts all of them
        make_lua(bench.path("in.lua"), scale)
        found.append(Program("lua5.4, tables and strings", ["lua5.4", bench.path("in.lua")], bars={"bytes": 2.5}))
    for name, variable, bars in (("cfrac itself", "BENCH_CFRAC", {"wall": 1.8, "cpu": 3.0, "ten_times": True, "bytes": 2.5}),
                                 ("espresso itself", "BENCH_ESPRESSO", {"wall": 1.8, "cpu": 3.0, "ten_times": True, "bytes": 2.5})):
        if os.environ.get(variable):
            found.append(Program(name, os.environ[variable].split(), bars=bars))
    return found


def counted_events(bench, program, plain):
    """The number of events that the program makes: as it prints itself, or else as the counting preload (tests/programs) counts."""
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
    return counts["allocated_blocks"] + counts["freed_blocks"] + counts["inherited_frees"] + counts["ghost_frees"]


def peer_commands(bench, command):
    """name -> (command, environment, rounds). The slow peers, under valgrind, run once."""
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
    """Removes the files that a peer wrote, and returns their bytes."""
    size = 0
    for name in os.listdir(bench.folder):
        if name.startswith(("heaptrack", "heapprofile", "dhat", "massif")):
            size += os.path.getsize(bench.path(name))
            os.unlink(bench.path(name))
    return size


def bench_program(bench, program):
    plain = measure(program.command, cwd=bench.folder)  # also warms up
    expected = counted_events(bench, program, plain)
    peers = peer_commands(bench, program.command)
    ratios = {name: Ratios() for name in ["allogram", *peers]}
    ten_times, plains, per_event = [], [], 0
    for n in range(bench.rounds * TURNS):
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
                # heaptrack's script sometimes ends with SIGPIPE although its output is complete, so the output is checked, not the status
                result = measure(command, env=env, cwd=bench.folder, expect_status=None)
                if remove_output(bench) == 0:
                    raise RuntimeError("%s wrote nothing: %s" % (name, result.stderr[-300:]))
                ratios[name].add(result, plain)
                if name == "heaptrack":
                    ten_times.append((result.wall / plain.wall - 1) / max(recorded.wall / plain.wall - 1, 1e-3))
        bench.note("  %s: round %d of %d" % (program.name, n + 1, bench.rounds * TURNS))
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


def run(bench):
    say_head(bench)
    for program in programs_of(bench):
        bench_program(bench, program)
