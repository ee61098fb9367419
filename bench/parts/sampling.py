"""Measures the overhead of --mode=sample: for a pair of malloc and free, for whole programs, in resident memory, and for calls of liballogram."""

import os

from harness import resident_kib
from measured import FloorRatio, Spread, measure
from parts import redis
from parts.programs import programs_of

SAMPLING = ["--mode=sample"]  # at the default interval, 512 KiB
FINE = ("jq", "z3")
PAIR_ROUNDS = 4  # runs per round, of a second each
FINE_ROUNDS = 8  # runs per round of the programs in FINE


QUIET = 1.1  # limit for the base of a quiet run, as a multiple of the fastest base; with other load on the core, times are 1.5 to 2 times as long


def added_in_process(bench, shape, prefix=(), env=None):
    """(base, added, added in quiet runs), in ns per pair of malloc and free, measured by micro_pair.c. A run is quiet if its base, the time of
    libc's own pair, is at most QUIET times the smallest base."""
    command = [*prefix, os.path.join(bench.build, "bench/micro_pair"), "1000", shape]
    bases, added = [], []
    for _ in range(bench.rounds * PAIR_ROUNDS):
        trace = bench.path("pair.allogram")
        if os.path.exists(trace):
            os.unlink(trace)
        words = measure(command, env=env, cwd=bench.folder).stdout.split()
        if os.path.basename(bench.agent) not in words[4].decode():
            raise RuntimeError("malloc came from %s: nothing was hooked" % words[4].decode())
        bases.append(float(words[0]))
        added.append(float(words[1]))
    quiet = [more for base, more in zip(bases, added) if base <= QUIET * min(bases)]
    return Spread(bases), Spread(added), Spread(quiet)


def bench_sampled_pairs(bench):
    bench.say()
    bench.say("| pair of malloc and free, within one process | base, ns | added, ns | added in quiet runs, ns | such runs |")
    bench.say("|---|---:|---:|---:|---:|")
    recorded = [bench.allogram, "run", "-q", *SAMPLING, "-o", bench.path("pair.allogram"), "--"]
    for shape, text in (("loop", "freed at once"), ("ring", "4096 blocks live")):
        for what, prefix, env in (("preloaded, not recording", (), {"LD_PRELOAD": bench.agent}), ("sampled", recorded, None)):
            base, added, quiet = added_in_process(bench, shape, prefix, env)
            bench.say("| %s, %s | %s | %s | %s | %d of %d |" % (what, text, base.text("%.1f"), added.text("%.1f"), quiet.text("%.1f"), quiet.n,
                                                              added.n))
            bench.bar("pair %s, %s: added" % (what, text), added, 2, "%.1f", " ns")


def sampled_rounds(bench, program):
    """Runs of the program: plain, sampled, and plain once more; and the number of events of the last trace. The programs in FINE run more often,
    since their bar is one hundredth."""
    plains, sampled, again, trace = [], [], [], None
    for _ in range(bench.rounds * (FINE_ROUNDS if program.name.startswith(FINE) else 1)):
        plains.append(measure(program.command, cwd=bench.folder))
        result, trace = bench.record(program.command, options=SAMPLING)
        if result.stdout != plains[-1].stdout:
            raise RuntimeError(program.name + ": other output when sampled")
        sampled.append(result)
        again.append(measure(program.command, cwd=bench.folder))
    return plains, sampled, again, bench.events_of(trace)


def bench_sampled_redis(bench):
    plains, ratios, path = redis.recorded_in_turns(bench, SAMPLING)
    alike = Spread([redis.ratio_in_turns(bench, [])[1] for _ in ratios])
    ratio = Spread(ratios)
    bench.say("| redis-server, redis-benchmark | %.2f | %d | %s | | %s |" % (
        min(plains), bench.events_of(path), ratio.text("%.3f"), alike.text("%.3f")))
    bench.bar("sampled redis-server: wall of redis-benchmark", ratio, 1.01, "%.3f", "x")


def bench_sampled_programs(bench):
    bench.say()
    bench.say("| sampled program | base, fastest, s | samples and their frees | wall | CPU | plain over plain, wall |")
    bench.say("|---|---:|---:|---:|---:|---:|")
    for program in programs_of(bench):
        plains, sampled, again, events = sampled_rounds(bench, program)
        wall = FloorRatio([run.wall for run in sampled], [run.wall for run in plains])
        cpu = FloorRatio([run.cpu for run in sampled], [run.cpu for run in plains])
        alike = FloorRatio([run.wall for run in again], [run.wall for run in plains])
        bench.say("| %s | %.2f | %d | %s | %s | %s |" % (program.name, min(run.wall for run in plains), events, wall.text("%.3f"),
                                                        cpu.text("%.3f"), alike.text("%.3f")))
        if program.name.startswith(FINE):
            bench.bar("sampled " + program.name + ": wall", wall, 1.01, "%.3f", "x")
    if redis.is_there():
        bench_sampled_redis(bench)


def bench_sampled_memory(bench):
    command = [bench.workload("cover"), str(int(3000 * bench.scale))]
    plain = resident_kib(measure(command, cwd=bench.folder))
    result, _ = bench.record(command, options=SAMPLING)
    added = [(b - a) / 1024 for a, b in zip(plain, resident_kib(result))]
    bench.say()
    bench.say("Resident memory that sampling adds to cover: %.1f MiB, of it anonymous %.1f, files %.1f, the shared segment %.1f." % (
        sum(added), *added))
    bench.bar("resident memory added by sampling", Spread([sum(added)]), 4, "%.1f", " MiB")


def bench_embedded(bench):
    """Nanoseconds of a call of allogram_alloc whose block is not recorded, minus those of an empty loop (micro_embedded.c)."""
    runs = [measure([os.path.join(bench.build, "bench/micro_embedded")], cwd=bench.folder).stdout.split() for _ in range(bench.rounds)]
    bench.say()
    bench.say("| allogram_alloc, inlined, of a block that is not recorded | ns |")
    bench.say("|---|---:|")
    for i, text in enumerate(("no session", "a tracker samples")):
        spread = Spread([float(words[i]) for words in runs])
        bench.say("| %s | %s |" % (text, spread.text("%.1f")))
        bench.bar("allogram_alloc, %s" % text, spread, 2, "%.1f", " ns")


def run(bench):
    bench_sampled_pairs(bench)
    bench_embedded(bench)
    bench_sampled_programs(bench)
    bench_sampled_memory(bench)
