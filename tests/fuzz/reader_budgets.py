#!/usr/bin/env python3
"""Every command that reads a trace must keep a limit of time and memory (its budget), for every trace.

    reader_budgets.py ALLOGRAM WORST_TRACES [--only=CASE]... [--command=WORDS]... [--scale=FACTOR] [--jobs=N] [--list] [--body=FILE]... [TRACE...]

With N = uncompressed bytes of the trace (of a TRACE: bytes of its file) + bytes of output, a command takes at most 2 s + N / (10 MB/s) of CPU
time (user and system, as the kernel counts it, so other load of the machine does not matter) and at most 256 MiB + 64 N of memory. The traces
are those of worst_traces.c, the traces given as arguments, and one trace for each file given with --body, an input of fuzz_chunk.c. --list prints
every measurement, the most expensive first. --only and --command select cases and commands, --scale multiplies the size of the traces, and --jobs
is the number of measurements at the same time. With AG_TEST_SCALE=full the traces are larger, and each command reads each trace. Otherwise
one command of each kind reads each trace: commands that read the definitions and the sums, read the events once, replay the events, merge
traces, write the HTML page, or export."""

import argparse
import concurrent.futures
import os
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../conformance"))
import tap  # noqa: E402

MIB = 1 << 20
CPU_SECONDS_MOST = int(os.environ.get("AG_TEST_CPU_SECONDS", "60"))
VIEWS = ["summary", "sites", "tree", "types", "blocks", "leaks", "peak", "temporary", "lifetimes", "timeline", "threads", "heaps",
         "functions", "gc", "mappings"]
FORMATS = ["pprof", "dhat", "massif", "folded", "speedscope", "callgrind", "heapprofile", "firefox", "heaptrack", "csv", "json"]
COMMANDS = (["check", "check --json", "dump", "diff {trace}", "diff --by=line --json {trace}", "view -o {output}",
             "report --merge {trace}", "report --json --merge --view=tree {trace}"]
            + ["report --view=" + view for view in VIEWS]
            + ["report --json --view=" + view for view in VIEWS]
            + ["export -o {output} --to=" + name for name in FORMATS]
            + ["report --view=tree --bottom-up --json", "report --view=leaks --tail=10", "report --view=temporary --within=3",
               "report --view=sites --by=thread --from=1ns --to=1s", "report --view=sites --by=stack --json",
               "report --view=sites --by=type", "report --view=sites --by=heap", "report --view=sites --by=label",
               "report --view=peak --focus=. --at=1ms", "report --view=lifetimes --by=type --from=10ns --older",
               "report --view=functions --tree --json", "report --view=functions --callers=function_1",
               "report --view=gc --blame --json", "report --view=summary --findings", "report --view=mappings --by=stack --from=1ns --older",
               "report --fail-if=peak_bytes>1 --json", "export -o {output} --merge --to=pprof {trace}"])
READERS = ["check", "dump", "diff {trace}", "view -o {output}", "report --view=summary", "report --view=lifetimes --json",
           "report --view=tree --from=1ms", "report --json --merge --view=sites {trace}", "export -o {output} --to=massif",
           "export -o {output} --to=pprof"]


def budget(n_bytes):
    return 2 + n_bytes / 10e6, 256 * MIB + 64 * n_bytes


def limits():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS_MOST, CPU_SECONDS_MOST))
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Measurement:
    """One command that read one trace."""

    def __init__(self, allogram, words, trace, n_trace, scratch):
        output = tempfile.NamedTemporaryFile(dir=scratch, suffix=".out")
        replaced = [word.format(trace=trace, output=output.name + ".file") for word in words.split()]
        with tempfile.NamedTemporaryFile(dir=scratch) as complaints:
            process = subprocess.Popen([allogram] + replaced + [trace], stdin=subprocess.DEVNULL, stdout=output, stderr=complaints,
                                       preexec_fn=limits, env=dict(os.environ, LC_ALL="C.UTF-8"))
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            n_output = os.path.getsize(output.name) + os.path.getsize(complaints.name)
        if os.path.exists(output.name + ".file"):
            n_output += os.path.getsize(output.name + ".file")
            os.unlink(output.name + ".file")
        output.close()
        n_traces = 1 + words.count("{trace}")
        self.words = words
        self.n_bytes = n_traces * n_trace + n_output
        self.n_output = n_output
        self.seconds = usage.ru_utime + usage.ru_stime
        self.memory = usage.ru_maxrss * 1024
        self.status = process.returncode
        seconds, memory = budget(self.n_bytes)
        self.failures = []
        if self.seconds > seconds:
            self.failures.append("%s: %.1f s of CPU time, its budget is %.1f s" % (words, self.seconds, seconds))
        if self.memory > memory:
            self.failures.append("%s: %d MiB of memory, its budget is %d MiB" % (words, self.memory >> 20, int(memory) >> 20))
        if self.status < 0:
            self.failures.append("%s: died of signal %d" % (words, -self.status))

    def share(self):
        seconds, memory = budget(self.n_bytes)
        return max(self.seconds / seconds, self.memory / memory)

    def line(self, name):
        return "%5.2f %7.2f s %6d MiB %6.1f MB out %3d  %s: %s" % (
            self.share(), self.seconds, self.memory >> 20, self.n_output / 1e6, self.status, name, self.words)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("allogram")
    parser.add_argument("worst_traces")
    parser.add_argument("--only", action="append")
    parser.add_argument("--command", action="append")
    parser.add_argument("--scale", type=float)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--body", action="append", default=[])
    parser.add_argument("traces", nargs="*")
    options = parser.parse_args()
    full = os.environ.get("AG_TEST_SCALE") == "full"
    scale = options.scale or (1.0 if full else 0.5)
    names = subprocess.run([options.worst_traces, "--list"], check=True, capture_output=True, text=True).stdout.split("\n")
    cases = [line.split() for line in names if line]
    cases = [case for case in cases if not options.only or case[0] in options.only]
    commands = options.command or (COMMANDS if full else READERS)
    plan = tap.Plan(len(cases) + len(options.traces) + len(options.body))
    everything = []
    with tempfile.TemporaryDirectory(prefix="reader_budgets.") as scratch, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:

        def measure(name, trace, n_trace):
            def one(words):
                return Measurement(options.allogram, words, trace, n_trace, scratch)
            failures = []
            for measurement in pool.map(one, commands):
                everything.append((measurement, name))
                failures += measurement.failures
            return failures

        def generated(name, what):
            path = os.path.join(scratch, name + ".allogram")
            made = subprocess.run([options.worst_traces] + what + [path], check=True, capture_output=True)
            failures = measure(name, path, int(made.stdout))
            os.unlink(path)
            return failures

        for name, usual in cases:
            plan.run(name, lambda name=name, usual=usual: generated(name, [name, str(int(int(usual) * scale))]))
        for body in options.body:
            plan.run(os.path.basename(body) + " as a chunk", lambda body=body: generated("body", ["--body", body]))
        for trace in options.traces:
            plan.run(os.path.basename(trace), lambda trace=trace: measure(os.path.basename(trace), trace, os.path.getsize(trace)))
    if options.list:
        for measurement, name in sorted(everything, key=lambda pair: -pair[0].share()):
            print("# " + measurement.line(name))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
