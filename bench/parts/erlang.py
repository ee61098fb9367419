"""Compares allogram's tracer of Erlang nodes with the emulator's own profilers, on the same programs: many calls of small functions, and the
compiler on a large module with every function traced. fprof takes a minute or more, so it runs only once, and only on the installed Erlang.
workloads/erlang_bench.erl measures the time in the node; each run has a new node. On OTP 27 and newer, allogram is also compared with tprof on
three more programs (a server, a parser, a recursion), with and without callers (without callers, allogram:run reads the emulator's own
counters).

The method empty_tracer is a tracer that gets the events of allogram's tracer and does nothing: its time is the emulator's own part of the cost.

The part runs on the installed Erlang and, if tests/roots/make_roots.sh has built it, on the Erlang of the newer Debian release, which has
call_memory and tprof. For the newer Erlang, /dev/shm, /proc and the build folder are mounted in its root folder, in a mount namespace that ends
with each run."""

import os
import shlex
import shutil
import subprocess

from harness import HERE
from measured import Spread

CALLS, MODULE = 10000, "allogram.erl"
METHODS = ["none", "call_count", "call_time", "call_memory", "eprof", "tprof", "fprof", "empty_tracer", "allogram"]
OF_27 = ("call_memory", "tprof")
BESIDE_TPROF = ["none", "tprof", "empty_tracer", "without_callers", "allogram"]
PROGRAMS_BESIDE_TPROF = (("server", "a server", 5000), ("parser", "a parser", 2000), ("recursion", "a recursion", 22))


class Node:
    """The Erlang with which the programs run: the installed Erlang, or the Erlang in the root folder `root`."""

    def __init__(self, bench, root=None):
        self.bench, self.root = bench, root
        self.tracers = [os.path.join(bench.build, folder) for folder in ("adapters/erlang/inside", "bench")]
        self.folder = bench.path("erlang-root" if root else "erlang")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        shutil.copy(os.path.join(HERE, "workloads/erlang_bench.erl"), self.folder)
        shutil.copy(os.path.join(HERE, "../adapters/erlang/inside", MODULE), self.folder)
        self.run(["erlc", "erlang_bench.erl"])
        self.release = int(self.erl("io:put_chars(erlang:system_info(otp_release))"))

    def run(self, command):
        if self.root:
            binds = ["mount --bind %s %s" % (shlex.quote(seen), shlex.quote(self.root + "/" + seen.lstrip("/")))
                     for seen in ("/dev/shm", "/proc", self.bench.build)]
            os.makedirs(self.root + self.bench.build, exist_ok=True)
            script = " && ".join([*binds, "exec chroot %s /usr/bin/env -C %s %s" % (
                shlex.quote(self.root), shlex.quote(self.folder), shlex.join(command))])
            command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
        return subprocess.run(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout.decode()

    def erl(self, expression):
        return self.run(["erl", "-noshell", "-pa", *self.tracers, "-eval", expression + ", halt()."])

    def measure(self, method, program, argument):
        """(seconds of the program, seconds of the whole run, bytes of the file that the method wrote)."""
        for name in os.listdir(self.folder):
            if name.endswith((".allogram", ".trace")):
                os.unlink(os.path.join(self.folder, name))
        printed = self.erl("erlang_bench:measure(%s, %s, %s)" % (method, program, argument)).split()[-3:]
        own, whole, size = map(int, printed)
        return own / 1e6, whole / 1e6, size


def nodes_of(bench):
    nodes = []
    if shutil.which("erl") and os.path.exists(os.path.join(bench.build, "adapters/erlang/inside/allogram.beam")):
        nodes.append(Node(bench))
        root = os.path.join(bench.build, "roots/trixie")
        if os.geteuid() == 0 and shutil.which("unshare") and os.path.exists(os.path.join(root, ".complete")):
            nodes.append(Node(bench, root))
    return nodes


def bench_program(bench, node, program, argument, title):
    methods = [method for method in METHODS
               if (node.release >= 27 or method not in OF_27) and (not node.root or method != "fprof")]
    results = {method: [] for method in methods}
    for n in range(bench.rounds):
        for method in methods:
            if method != "fprof" or n == 0:
                results[method].append(node.measure(method, program, argument))
        bench.note("  erlang: OTP %d, %s: round %d of %d" % (node.release, program, n + 1, bench.rounds))
    for method in methods:
        own, whole = (Spread([result[i] for result in results[method]]) for i in (0, 1))
        ratio = "" if method == "allogram" else Spread([ours[1] / other[1] for ours, other in
                                                        zip(results["allogram"], results[method])]).text()
        size = results[method][0][2]
        bench.say("| OTP %d, %s | %s | %s | %s | %s | %s |" % (
            node.release, title, method, own.text("%.3f"), whole.text("%.3f"), ratio, "%.1f" % (size / 1e6) if size else ""))
    own_of = {method: [result[0] for result in results[method]] for method in methods}
    whole_of = {method: [result[1] for result in results[method]] for method in methods}

    def against(times, method):
        return Spread([ours / other for ours, other in zip(times["allogram"], times[method])])

    bench.bar("OTP %d, %s: the program under allogram by that under a tracer that does nothing" % (node.release, title),
              against(own_of, "empty_tracer"), 1.5, unit="x")
    if program == "calls":
        for method in ("call_time", "call_memory"):
            if method in methods:
                bench.bar("OTP %d, many calls: the program under allogram by that under %s" % (node.release, method),
                          against(own_of, method), 1.2, unit="x")
    elif "tprof" in methods:
        bench.bar("OTP %d, compiling a module: the run under allogram by that under tprof" % node.release,
                  against(whole_of, "tprof"), 2.0, unit="x")
    if "fprof" not in methods:
        return
    smaller = Spread([theirs[2] / ours[2] for ours, theirs in zip(results["allogram"], results["fprof"])])
    bench.bar_at_least("OTP %d, %s: fprof's file by the trace" % (node.release, program), smaller, 100, form="%.0f", unit="x")


def bench_beside_tprof(bench, node, program, argument, title):
    results = {method: [] for method in BESIDE_TPROF}
    for n in range(bench.rounds):
        for method in BESIDE_TPROF:
            results[method].append(node.measure(method, program, str(argument))[0])
        bench.note("  erlang: OTP %d, %s: round %d of %d" % (node.release, program, n + 1, bench.rounds))
    for method, times in results.items():
        ratio = Spread([one / tprof for one, tprof in zip(times, results["tprof"])])
        bench.say("| OTP %d, %s | %s | %s | %s |" % (node.release, title, method, Spread(times).text("%.4f"), ratio.text()))
        for bar, most in (("without_callers", 1.2), ("allogram", 3.0)):
            if method == bar:
                bench.bar("OTP %d, %s: the program under %s by that under tprof" % (node.release, title, method), ratio, most, unit="x")


def run(bench):
    nodes = nodes_of(bench)
    if not nodes:
        bench.say("Erlang was not measured: no erl here, or the tracer was not built.")
        return
    bench.say("| program | method | program, s | whole run, s | allogram's whole run by it | file, MB |")
    bench.say("|---|---|---:|---:|---:|---:|")
    for node in nodes:
        bench_program(bench, node, "calls", str(int(CALLS * bench.scale)), "many calls")
        bench_program(bench, node, "compile", '"%s"' % MODULE, "compiling a module")
    bench.say()
    bench.say("| program | method | program, s | by tprof |")
    bench.say("|---|---|---:|---:|")
    for node in nodes:
        for program, title, argument in PROGRAMS_BESIDE_TPROF if node.release >= 27 else ():
            bench_beside_tprof(bench, node, program, argument, title)
    bench.say()
