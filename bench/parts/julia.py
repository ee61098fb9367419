"""Measures the overhead of recording a Julia program that only allocates, with the installed Julia, or else with the Julia in the root folder of
the older Debian release (tests/roots/make_roots.sh)."""

import os
import shutil

from harness import HERE, Ratios
from measured import Spread, measure

ROUNDS = 40  # of the workload: about two seconds
SAMPLED_MOST, EXACT_MOST = 1.10, 3.0
COVERED_LEAST = 0.999
OPTIONS = ["--startup-file=no", "--history-file=no"]
INSIDE = "/allogram-bench-julia"  # folder in the root

# Runs a command (plain or recorded) with additional mounts, in a mount namespace that ends with the command.
ENTER = """for folder in /proc /dev/shm "$AGENT"; do mkdir -p "$ROOT$folder" && mount --bind "$folder" "$ROOT$folder" || exit 125; done
exec "$@"
"""


class Place:
    """The installed Julia, or the Julia in the root folder. command: the words that start Julia; None: there is no Julia. run: measures a command in
    this place."""

    def __init__(self, bench):
        self.root = os.path.join(bench.build, "roots/bullseye")
        self.agent = os.path.dirname(bench.agent)
        self.command, self.why_not = None, None
        if shutil.which("julia"):
            self.root, self.command, self.folder = None, ["julia"], bench.folder
        elif not os.path.exists(os.path.join(self.root, "usr/bin/julia")):
            self.why_not = "no julia here, and no root of Debian 11 with it (tests/roots/make_roots.sh)"
        elif os.geteuid() != 0:
            self.why_not = "its root needs root"
        else:
            self.command, self.folder = ["chroot", self.root, "julia"], self.root + INSIDE
            os.makedirs(self.folder, exist_ok=True)

    def inside(self, path):
        return path if self.root is None else path[len(self.root):]

    def run(self, command, env=None, cwd=None, stdin=None):
        if self.root is not None:
            command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "sh", *command]
            env = dict(env or {}, ROOT=self.root, AGENT=self.agent)
        return measure(command, env=env, cwd=cwd, stdin=stdin)

    def leave(self):
        if self.root is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def record(bench, place, command, mode):
    """Like Bench.record. The command chroot, which executes Julia, writes a trace, too, so the trace of Julia is found by its name."""
    trace = bench.path("of_julia.julia.allogram")
    for name in ("julia", "chroot"):
        path = bench.path("of_julia.%s.allogram" % name)
        if os.path.exists(path):
            os.unlink(path)
    result, _ = bench.record(command, trace="of_julia.%e.allogram", options=["--mode=" + mode], run=place.run)
    return result, trace


def coverage(bench, trace):
    return next(row["coverage"] for row in bench.report(trace)["runtimes"] if row["name"] == "julia")


def bench_program(bench, place):
    source = os.path.join(place.folder, "trees.jl")
    shutil.copy(os.path.join(HERE, "workloads/trees.jl"), source)
    command = [*place.command, *OPTIONS, place.inside(source), str(max(1, int(ROUNDS * bench.scale)))]
    ratios, plains, events = {"sample": Ratios(), "exact": Ratios()}, [], {}
    place.run(command, cwd=bench.folder)  # warms up
    for n in range(bench.rounds):
        plain = place.run(command, cwd=bench.folder)
        plains.append(plain.wall)
        for mode, of_mode in ratios.items():
            result, trace = record(bench, place, command, mode)
            if result.stdout != plain.stdout:
                raise RuntimeError("Julia: other output when recorded")
            events[mode] = bench.events_of(trace)
            if mode == "exact" and not COVERED_LEAST <= coverage(bench, trace) <= 1:
                raise RuntimeError("Julia: not all was recorded")
            of_mode.add(result, plain)
        bench.note("  Julia: round %d of %d" % (n + 1, bench.rounds))
    bench.say()
    bench.say("| Julia | base, s | events, M | sampled: events | sampled, wall / CPU | exact, wall / CPU |")
    bench.say("|---|---:|---:|---:|---:|---:|")
    cells = ["%s / %s" % (Spread(of_mode.wall).text(), Spread(of_mode.cpu).text()) for of_mode in ratios.values()]
    bench.say("| trees, strings, arrays | %.2f | %.1f | %d | %s |" %
              (Spread(plains).median, events["exact"] / 1e6, events["sample"], " | ".join(cells)))
    bench.bar("Julia, sampled: wall", Spread(ratios["sample"].wall), SAMPLED_MOST, "%.3f", "x")
    bench.bar("Julia, exact with stacks, types and deaths: wall", Spread(ratios["exact"].wall), EXACT_MOST, unit="x")


def run(bench):
    place = Place(bench)
    if place.command is None:
        bench.say("Julia: skipped, %s." % place.why_not)
        return
    try:
        bench_program(bench, place)
    finally:
        place.leave()
