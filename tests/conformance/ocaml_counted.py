#!/usr/bin/env python3
"""OCaml programs as they are: blocks, words, places, stacks and deaths equal to hand counts and to the runtime's own
counters."""

import argparse
import math
import os
import re
import shutil
import subprocess
import sys

import recorded
import tap

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs", "ocaml")
UNIX = ["-I", "+unix", "-I", "+threads", "unix.cmxa", "threads.cmxa"] # the folders of OCaml 5; 4 has them at hand


def compiled(folder, name, sources, options=(), compiler="ocamlopt"):
    """The program in FOLDER, from copies of its sources: the compiler leaves its own files beside them."""
    for source in sources:
        shutil.copy(os.path.join(SOURCES, source), folder)
    subprocess.run([compiler, "-g", *options, "-ccopt", "-g -O1 -fno-optimize-sibling-calls", *sources, "-o", name], cwd=folder,
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return os.path.join(folder, name)


def line_of(source, text):
    lines = open(os.path.join(SOURCES, source), encoding="utf-8").read().split("\n")
    return next(number for number, line in enumerate(lines, 1) if text in line)


def runtime(summary, name):
    return next((row for row in summary["runtimes"] if row["name"] == name), {})


def told_and_counted(tools, trace):
    dumped = recorded.run([tools.allogram, "dump", trace]).stdout.decode()
    found = re.findall(r'runtime .*name="ocaml".* told=(\d+) counted=(\d+)', dumped)
    return tuple(map(int, found[-1])) if found else None


def own(tools, trace, function, *options):
    """{line: (blocks, bytes, blocks in use)} of a function's own sites."""
    rows = recorded.report(tools, trace, "--view=sites", "--by=line", *options)["sites"]
    return {row["line"]: tuple(row["own"][key] for key in ("allocated_blocks", "allocated_bytes", "in_use_blocks"))
            for row in rows if row["function"] == function and row["own"]["allocated_blocks"]}


def leaf_paths(node, path=()):
    """The functions from the root to each leaf of a tree."""
    path = path + (node["function"],)
    below = [found for child in node["children"] for found in leaf_paths(child, path)]
    return below or [list(path)]


# ---- cases ----

def counted(tools, folder):
    failures = tap.Failures()
    program = compiled(folder, "counted", ["counted.ml"])
    words = int(recorded.run([program, "report"]).stdout) # of work, in the minor heap, with headers
    outcome, traces = recorded.record(tools, [program], folder)
    failures.expect("exit status", outcome.status, 0)
    trace = traces[0]
    at = lambda text: line_of("counted.ml", text)
    failures.expect("pair", own(tools, trace, "Counted.pair"), {
        at("(x, (* [2]"): (1500, 1500 * 16, 1000),
        at("Some (* [1]"): (1500, 1500 * 8, 1000),
        at("(float_of_int y"): (3000, 1500 * (16 + 8), 2000),
    })
    failures.expect("build", own(tools, trace, "Counted.build"), {at("pair n n :: acc"): (1500, 1500 * 16, 1000)})
    failures.expect("text", own(tools, trace, "Counted.text"), {at("Bytes.create n"): (1, 80, 0)})
    work = own(tools, trace, "Counted.work")
    failures.expect("work", work, {at("Array.make 5000"): (1, 40000, 1), at("opaque_identity (dropped"): (1, 16, 0),
                                   at("keep := Obj.repr"): (2, 32, 2)})
    tree = recorded.report(tools, trace, "--view=sites", "--focus=^Counted.work$", "--runtime=ocaml")["sites"]
    blocks = sum(row["own"]["allocated_blocks"] for row in tree)
    in_bytes = sum(row["own"]["allocated_bytes"] for row in tree)
    failures.expect("words of work, without the major heap's array", in_bytes // 8 + blocks - 5001, words)
    told, of = told_and_counted(tools, trace) or (0, None)
    failures.expect("told of what the runtime counted", told, of)
    return failures


def deaths_and_sources(tools, folder):
    failures = tap.Failures()
    program = compiled(folder, "counted", ["counted.ml"])
    _, traces = recorded.record(tools, [program], folder)
    heaps = {row["name"]: row for row in recorded.report(tools, traces[0], "--view=heaps")["heaps"]}
    failures.expect("unmarshalled: 100 cells and 100 pairs", (heaps["unmarshalled"]["allocated_bytes"],
                                                              heaps["unmarshalled"]["in_use_bytes"]), (200 * 16, 0))
    failures.require("the heaps' own memory is mapped", heaps["minor heap"]["mapped_bytes"] >= 256 * 1024 * 8 and
                     heaps["major heap"]["mapped_bytes"] > 0)
    malloc = recorded.report(tools, traces[0], "--view=sites")["sites"]
    twice = [row["function"] for row in malloc if re.search("caml_alloc_for_heap|caml_memprof|realloc_entries", row["function"])
             and row["own"]["allocated_blocks"]]
    failures.expect("counted twice, or our own doing", twice, [])
    collections = recorded.report(tools, traces[0], "--view=gc")["collections"]
    kinds = [row["kind"] for row in collections]
    failures.require("minor collections and whole major cycles: %s" % kinds, kinds.count("minor") >= 1 and
                     kinds.count("major") >= 2)
    failures.require("all have a pause", all(row["pause_ns"] for row in collections))
    return failures


def between(tools, folder):
    failures = tap.Failures()
    program = compiled(folder, "between", ["between_stubs.c", "between.ml"])
    _, traces = recorded.record(tools, [program], folder)
    paths = leaf_paths(recorded.report(tools, traces[0], "--view=tree", "--limit=0", "--min=0")["root"])
    wanted = ["Between.(toplevel)", "between_caller", "caml_callback", "caml_start_program", "Between.inner"]
    mine = [path for path in paths if "Between.inner" in path]
    failures.require("main ... %s: %s" % (" ".join(wanted), mine), all("main" in path and " ".join(wanted) in " ".join(path)
                                                                       for path in mine))
    failures.expect("leaves", [path[-1] for path in mine], ["between_take"])
    at = lambda text: line_of("between.ml", text)
    failures.expect("own", own(tools, traces[0], "Between.inner"), {at("let made = make 300"): (10, 24000, 10),
                                                                   at("(n, made)"): (10, 160, 10)})
    return failures


def own_memprof(tools, folder):
    failures = tap.Failures()
    program = compiled(folder, "own_memprof", ["own_memprof.ml"])
    plain = recorded.run([program])
    outcome, traces = recorded.record(tools, [program], folder)
    failures.expect("output and status", (outcome.status, outcome.stdout), (0, plain.stdout))
    note = runtime(recorded.report(tools, traces[0]), "ocaml").get("note", "")
    failures.require("the summary says so: " + note, "Memprof of its own" in note)
    return failures


def threads_and_fork(tools, folder):
    failures = tap.Failures()
    program = compiled(folder, "threads", ["threads.ml"], UNIX)
    outcome, traces = recorded.record(tools, [program], folder)
    failures.expect("output and status", (outcome.status, outcome.stdout), (0, b"seven\n"))
    failures.expect("traces", len(traces), 2)
    for trace, blocks in zip(traces, (4 * 4000, 4000)):
        mine = own(tools, trace, "Threads.pairs.go")
        failures.expect("pairs and cells of " + trace, sum(row[0] for row in mine.values()), blocks)
    return failures


def bytecode(tools, folder):
    """It is left alone, in one line; malloc is recorded all the same."""
    failures = tap.Failures()
    program = compiled(folder, "counted_bytecode", ["counted.ml"], ["-custom"], "ocamlc")
    plain = recorded.run([program, "report"])
    outcome, traces = recorded.record(tools, [program, "report"], folder)
    failures.expect("output and status", (outcome.status, outcome.stdout), (0, plain.stdout))
    row = runtime(recorded.report(tools, traces[0]), "ocaml")
    failures.expect("hooked", row.get("hooked"), False)
    failures.require("why: %s" % row, "bytecode" in row.get("note", ""))
    return failures


def stripped(tools, folder):
    failures = tap.Failures()
    program = compiled(folder, "counted", ["counted.ml"])
    subprocess.run(["strip", program], check=True)
    _, traces = recorded.record(tools, [program], folder)
    failures.expect("pair", sum(row[0] for row in own(tools, traces[0], "Counted.pair").values()), 6000)
    return failures


def compiler(tools, folder):
    failures = tap.Failures()
    opt = shutil.which("ocamlopt.opt") or shutil.which("ocamlopt")
    command = [opt, "-g", "-c", "counted.ml"]
    shutil.copy(os.path.join(SOURCES, "counted.ml"), folder)
    made = []
    for prefix in ([], [tools.allogram, "run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--"]):
        outcome = recorded.run(prefix + command, cwd=folder)
        failures.expect("exit status", outcome.status, 0)
        made.append(open(os.path.join(folder, "counted.cmx"), "rb").read())
    failures.expect("the same module", made[0] == made[1], True)
    trace = recorded.traces_in(folder)[0]
    told, of = told_and_counted(tools, trace) or (0, None)
    failures.expect("told of what the runtime counted", told, of)
    return failures


def sampled(tools, folder):
    """The estimates of eight seeds together, within four deviations: a block of w words is a sample with the chance
    1 - exp(-8 (w + 1) / interval)."""
    failures = tap.Failures()
    program = compiled(folder, "counted", ["counted.ml"])
    interval, seeds = 300, 8
    sums = {}
    for seed in range(1, seeds + 1):
        outcome = recorded.run([tools.allogram, "run", "-q", "--mode=sample", "--interval=%d" % interval, "--seed=%d" % seed,
                                "-o", os.path.join(folder, "s%d.allogram" % seed), "--", program])
        failures.expect("exit status", outcome.status, 0)
        for line, row in own(tools, os.path.join(folder, "s%d.allogram" % seed), "Counted.pair").items():
            sums.setdefault(line, []).append(row[0])
    at = lambda text: line_of("counted.ml", text)
    for text, words, each in (("(x, (* [2]", 2, 1500), ("Some (* [1]", 1, 1500)):
        got = sums.get(at(text), [])
        chance = 1 - math.exp(-8 * (words + 1) / interval)
        deviation = math.sqrt(each * seeds * (1 - chance) / chance)
        score = (sum(got) - each * seeds) / deviation
        failures.require("%s: %s, a score of %.1f" % (text, got, score), abs(score) < 4)
        failures.require("seeds differ", len(set(got)) > seeds // 2)
    return failures


CASES = [counted, deaths_and_sources, between, own_memprof, threads_and_fork, bytecode, stripped, compiler, sampled]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default="", help="a case's name")
    options = parser.parse_args()
    tools = recorded.Tools(options.build)
    cases = [case for case in CASES if options.only in case.__name__]
    results = tap.Plan(len(cases))
    for case in cases:
        if not shutil.which("ocamlopt"):
            results.skip(case.__name__, "no ocamlopt here")
            continue

        def in_folder(case=case):
            with recorded.Folder() as folder:
                return case(tools, folder)

        results.run(case.__name__, in_folder)
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
