"""Measures the nanoseconds that an exact recording adds to a pair of malloc and free."""

import os

from measured import Spread, measure


def pair_ns(result, bench=None):
    ns, pairs, path = result.stdout.split()[:3]
    if bench is not None and os.path.basename(bench.agent) not in path.decode():
        raise RuntimeError("malloc came from %s: nothing was hooked" % path.decode())
    return float(ns), int(pairs)


def added_ns(bench, mode, depth, threads=1, millions=10):
    """(nanoseconds added per pair, nanoseconds without allogram), each a Spread over the rounds. Each recording is checked."""
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


def run(bench):
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
