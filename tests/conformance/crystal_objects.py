#!/usr/bin/env python3
"""Crystal programs, as their compiler makes them: the types of all objects in a debug and a release build, their stacks, deaths after
GC.collect, four workers; the numbers of a release build named by a file, and what is said of a wrong one."""

import argparse
import os
import shutil
import sys

import recorded
import tap

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs", "crystal_objects.cr")
N = 60000


EXACT = {"Point": 2 * N + 4 * N, "Node(Int64)": 5 * N, "Node(Int32)": N, "Left": N, "Right": 2 * N, "Hash(Int32, Point)": 1}
EXACT_JSON = {"Hash(String, JSON::Any)": N, "Array(JSON::Any)": 1}


def build(folder, name, *options, env=None):
    path = os.path.join(folder, name)
    home = dict(env or {}, CRYSTAL_CACHE_DIR=os.path.join(folder, "cache"))
    outcome = recorded.run(["crystal", "build", *options, SOURCE, "-o", path], env=home, timeout=600)
    if outcome.status != 0:
        raise RuntimeError("crystal build: " + outcome.stderr.decode(errors="replace")[:300])
    return path, outcome.stdout


def types_of(tools, trace, *options):
    return {row["type"]: row for row in recorded.report(tools, trace, "--view=types", *options)["types"]}


def judge(failures, tools, program, folder, wanted, arguments=(), options=(), told=()):
    outcome, traces = recorded.record(tools, [program, *arguments], folder, options=options, env={"CRYSTAL_WORKERS": "4"})
    failures.expect("status", outcome.status, 0)
    summary = recorded.report(tools, traces[0])
    for name in ("bdwgc", "crystal"):
        failures.require(name + " acts", any(row["name"] == name and row["hooked"] for row in summary["runtimes"]))
    coverage = [row["coverage"] for row in summary["runtimes"] if row["name"] == "bdwgc"]
    failures.require("coverage %s" % coverage, coverage and coverage[0] is not None and 0.999 <= coverage[0] <= 1)
    failures.expect("lost, cut, ghosts", (summary["lost_events"]["total"], summary["truncated_stacks"], summary["ghost_frees"]), (0, 0, 0))
    types = types_of(tools, traces[0], *told)
    for name, blocks in wanted.items():
        failures.expect(name, types.get(name, {}).get("allocated_blocks"), blocks)
    return traces[0], types


def debug_with_four_workers(tools, folder):
    failures = tap.Failures()
    program, _ = build(folder, "objects_debug", "-Dwith_json", "-Dpreview_mt")
    with recorded.Folder() as place:
        trace, types = judge(failures, tools, program, place, {**EXACT, **EXACT_JSON}, [str(N)])
        failures.expect("in use", [types[name]["in_use_blocks"] for name in ("Left", "Right", "Hash(String, JSON::Any)", "Node(Int64)")],
                        [N, 2 * N, N, 5 * N])
        failures.require("what was forgotten is dead", types["Node(Int32)"]["in_use_blocks"] < N // 100)
        failures.require("elements of hashes", types["Pointer(Hash::Entry(Int32, Point))"]["allocated_blocks"] > 5)
        view = recorded.report(tools, trace, "--view=types", "--type=Point")["stacks"]
        functions = [[frame["function"] for frame in row["frames"]] for row in view]
        failures.expect("where stacks begin", {stack[0] for stack in functions}, {"Point.new"})
        failures.require("a fiber's stack", any("Fiber#run" in stack for stack in functions))
        failures.require("main's stack", any("points" in stack and "__crystal_main" in stack and stack[-1] == "_start" for stack in functions))
        failures.require("collections", recorded.report(tools, trace, "--view=gc")["collections"])
    return failures


def hello(tools, folder):
    failures = tap.Failures()
    path = os.path.join(folder, "hello.cr")
    with open(path, "w", encoding="utf-8") as source:
        source.write('puts "Hello world!"\n')
    program = os.path.join(folder, "hello")
    outcome = recorded.run(["crystal", "build", path, "-o", program], env={"CRYSTAL_CACHE_DIR": os.path.join(folder, "cache")}, timeout=600)
    failures.expect("crystal build", outcome.status, 0)
    version = recorded.run(["crystal", "--version"]).stdout.decode().split()[1]
    with recorded.Folder() as place:
        trace, types = judge(failures, tools, program, place, {})
        if version.startswith("1.6."):
            failures.expect("spin locks", types["Crystal::SpinLock"]["allocated_blocks"], 19)
            view = recorded.report(tools, trace, "--view=types", "--type=Crystal::SpinLock", "--frames=3", "--min-count=2")["stacks"]
            failures.require("their stacks", len(view) == 4 and all(
                row["frames"][0]["function"] == "Crystal::SpinLock.new" and row["frames"][0]["runtime"] == "crystal" and
                row["frames"][2]["function"] == "IO::FileDescriptor.new" for row in view))
        failures.require("a number stayed: %s" % sorted(name for name in types if name), all(not name.startswith("#") for name in types if name))
    return failures


def release(tools, folder):
    failures = tap.Failures()
    program, table = build(folder, "objects_release", "--release", env={"CRYSTAL_DUMP_TYPE_ID": "1"})
    numbers = os.path.join(folder, "types.txt")
    with open(numbers, "wb") as file:
        file.write(table)
    with recorded.Folder() as place:
        trace, _ = judge(failures, tools, program, place, EXACT, [str(N)], told=["--crystal-types=" + numbers])
        bare = types_of(tools, trace)
        failures.require("a label with file and line: %s" % sorted(str(name) for name in bare)[:5],
                         any(name and name.startswith("#") and "(new @ crystal_objects.cr:" in name and row["allocated_blocks"] == 5 * N
                             for name, row in bare.items()))
        for what, text in (("/no/such/file", "No such file"), (SOURCE, "CRYSTAL_DUMP_TYPE_ID")):
            outcome = recorded.run([tools.allogram, "report", trace, "--crystal-types=" + what])
            failures.require("%s: %s" % (what, outcome.stderr), outcome.status != 0 and text in outcome.stderr.decode() and
                             outcome.stderr.count(b"\n") == 1)
    with recorded.Folder() as place:
        judge(failures, tools, program, place, EXACT, [str(N)], options=["--crystal-types=" + numbers])
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    tools = recorded.Tools(parser.parse_args().build)
    cases = (hello, debug_with_four_workers, release)
    plan = tap.Plan(len(cases))
    if not shutil.which("crystal"):
        for case in cases:
            plan.skip(case.__name__, "crystal is not installed")
        return 0
    with recorded.Folder() as folder:
        for case in cases:
            plan.run(case.__name__, lambda case=case: case(tools, folder))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
