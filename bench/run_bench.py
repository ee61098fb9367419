#!/usr/bin/env python3
"""Measures the overhead of allogram and of other profilers in paired, interleaved rounds on this machine; prints tables in Markdown.

Most parts check their recordings: the trace is whole and has events, and nothing is lost. If the workload counts its events itself, the trace has
as many. (Otherwise a preload that fails would appear fast.) A bar is a limit from the project's goals. It is met if the upper end of the measured
interval is within the limit, or, for a bar "at least", if the lower end is."""

import argparse
import datetime
import importlib
import os
import platform
import shutil
import subprocess
import sys

from harness import HERE, Bench

# Files of parts/. Each has a function run(bench), which measures, prints tables, and compares results with bars.
PARTS = [
    "programs",
    "redis",
    "pairs",
    "memory",
    "reading",
    "first_screen",
    "page",
    "sampling",
    "counted_work",
    "attach",
    "observe",
    "ocaml",
    "erlang",
    "boehm",
    "julia",
]


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
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the length of the workloads (1.0: full length)")
    parser.add_argument("--only", help="some of these, joined by commas: " + " ".join(PARTS))
    parser.add_argument("--peers", default="heaptrack,gperftools,dhat,massif")
    parser.add_argument("--write", metavar="FILE", help="puts the tables into FILE, too, which bench/overhead_page.py reads")
    options = parser.parse_args()
    folder = os.path.join(os.path.abspath(options.build), "bench-data")
    os.makedirs(folder, exist_ok=True)
    bench = Bench(options.build, options.rounds, options.scale, folder, options.peers.split(","))
    chosen = options.only.split(",") if options.only else PARTS
    for name in set(chosen) - set(PARTS):
        parser.error("no part is called %s; there are %s" % (name, " ".join(PARTS)))
    describe_machine(bench)
    for name in PARTS:
        if name in chosen:
            importlib.import_module("parts." + name).run(bench)
    bench.say()
    bench.say("| bar | measured | wanted | |")
    bench.say("|---|---:|---:|---|")
    for what, measured, wanted, met in bench.bars:
        bench.say("| %s | %s | %s | %s |" % (what, measured, wanted, "met" if met else "**missed**"))
    if options.write:
        with open(options.write, "w", encoding="utf-8") as file:
            file.write("`run_bench.py %s`\n\n%s\n" % (" ".join(sys.argv[1:]), "\n".join(bench.lines).strip()))
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
