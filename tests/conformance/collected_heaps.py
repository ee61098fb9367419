#!/usr/bin/env python3
"""Records the heap of the Boehm collector in a program that counts its own blocks. The cases test every function that allocates, blocks
that the collector frees, collections, threads, samples, a child process, callbacks of the collector, and trackers (callbacks of
allogram). The collector is a shared library or linked into the program. With --adapters=none the collector's heap is not recorded."""

import os
import sys

import recorded
import tap

COVERAGE_LEAST = 0.999


def truth_of(outcome):
    """Parses the output of the program. Returns {function: (blocks, bytes, freed blocks)}, and {word: number} from the lines that
    begin with #."""
    counts, said = {}, {}
    for line in outcome.stdout.decode().splitlines():
        words = line.split()
        if words[0] == "#":
            said.update(zip(words[1::2], map(int, words[2::2])))
        else:
            counts[words[0]] = tuple(map(int, words[1:]))
    return counts, said


def record(failures, tools, program, case, folder, options=()):
    """Returns the two dictionaries of truth_of, and the traces of the program."""
    outcome, traces = recorded.record(tools, [program, case], folder, options)
    failures.expect("status of " + case, outcome.status, 0)
    return (*truth_of(outcome), traces)


def own_of(tools, trace):
    sites = recorded.report(tools, trace, "--view=sites")["sites"]
    return {row["function"]: row["own"] for row in sites if row["own"]["allocated_blocks"]}


def compare(failures, tools, trace, counts, at=None):
    own = own_of(tools, trace)
    for function, (blocks, size, freed) in counts.items():
        row = own.get(at or function, {})
        failures.expect(function, (row.get("allocated_blocks"), row.get("allocated_bytes")), (blocks, size))
        if freed < 1 << 63:
            failures.expect(function + " freed", row.get("freed_blocks"), freed)
    return own


def runtime(tools, trace, name="bdwgc"):
    return next(row for row in recorded.report(tools, trace)["runtimes"] if row["name"] == name)


def covers(failures, tools, trace):
    coverage = runtime(tools, trace)["coverage"]
    failures.require("coverage %s" % coverage, coverage is not None and COVERAGE_LEAST <= coverage <= 1)


def is_clean(failures, tools, trace):
    summary = recorded.report(tools, trace)
    failures.expect("lost events", summary["lost_events"]["total"], 0)
    failures.expect("ghost frees", summary["ghost_frees"], 0)
    failures.expect("status of check", recorded.check(tools, trace)[0], 0)


def entries(tools, program):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        counts, _, traces = record(failures, tools, program, "entries", folder)
        failures.require("the program printed the counts of all functions", len(counts) == 23)
        compare(failures, tools, traces[0], counts)
        covers(failures, tools, traces[0])
        listed = counts["by_many"][0]  # not those of by_inline_refill: under allogram, GC_generic_malloc_many returns lists of one block
        failures.require("the report says how many blocks were given to the program in lists", runtime(tools, traces[0])["note"].startswith("%d blocks were given to the program in lists" % listed))
        is_clean(failures, tools, traces[0])
        text = recorded.run([tools.allogram, "report", traces[0], "--limit=0"]).stdout
        failures.fail_unless("the report lists a line of the agent's own code", b"collector_calls.c" not in text)
    return failures


def blocks_die_when_the_collector_frees_them(tools, program):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        counts, said, traces = record(failures, tools, program, "deaths", folder)
        failures.require("the collector freed most blocks", counts["dies_small"][2] > 4000 and counts["dies_large"][2] > 4000)
        blocks = recorded.report(tools, traces[0], "--view=blocks")["blocks"]
        for function, size in (("dies_small", 24), ("dies_large", 6000)):
            of_size = [block for block in blocks if block["size"] == size and
                       any(frame["function"] == "dies" for frame in block["stack"])]
            failures.expect(function, len(of_size), 5000)
            failures.expect(function + ": freed blocks", sum(block["state"] == "closed" for block in of_size), counts[function][2])
        own = own_of(tools, traces[0])
        failures.expect("blocks allocated in finalizers", own["in_finalizer"]["allocated_blocks"], counts["in_finalizer"][0])
        failures.expect("blocks with a finalizer", own["finalized"]["allocated_blocks"], 100)
        failures.require("finalizers ran", counts["in_finalizer"][0] >= 90)
        view = recorded.report(tools, traces[0], "--view=gc")["collections"]
        failures.expect("collections, as the collector counts them", len(view), said["collections"])
        failures.require("the program's own listener is notified of collections", said["heard"] >= 5)
        failures.require("each collection has a pause and the runtime's name", all(row["pause_ns"] > 0 and row["runtime"] == "bdwgc" for row in view))
        failures.require("each collection but the first has a heap size", all(row["heap_after_bytes"] > 0 for row in view[1:]))
        covers(failures, tools, traces[0])
        is_clean(failures, tools, traces[0])
    return failures


def threads(tools, program):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        counts, _, traces = record(failures, tools, program, "threads", folder)
        own = compare(failures, tools, traces[0], counts)
        failures.require("most blocks are freed", own["in_thread"]["in_use_blocks"] < counts["in_thread"][0] / 10)
        covers(failures, tools, traces[0])
        is_clean(failures, tools, traces[0])
    return failures


def sampled(tools, program):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        counts, _, traces = record(failures, tools, program, "threads", folder, ["--mode=sample", "--interval=16K", "--seed=7"])
        row = own_of(tools, traces[0])["in_thread"]
        low, high = row["allocated_bytes_ci95"]
        failures.require("the true %d bytes are near the interval of the estimate, %d to %d" % (counts["in_thread"][1], low, high),
                         0.9 * low <= counts["in_thread"][1] <= 1.1 * high)
        failures.require("most blocks are freed", row["in_use_blocks"] < counts["in_thread"][0] / 5)
        failures.expect("ghost frees", recorded.report(tools, traces[0])["ghost_frees"], 0)
    return failures


def child(tools, program):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        counts, _, traces = record(failures, tools, program, "child", folder)
        failures.expect("number of traces", len(traces), 2)
        for trace in traces:
            own = own_of(tools, trace)
            if "in_child" in own:
                compare(failures, tools, trace, counts)
                failures.require("blocks of the child are freed", own["in_child"]["freed_blocks"] > 400)
            else:
                failures.expect("blocks allocated before the fork", own["before_fork"]["allocated_blocks"], 1000)
                failures.expect("freed blocks among those allocated before the fork", own["before_fork"]["freed_blocks"], 0)
            is_clean(failures, tools, trace)
    return failures


def wild(tools, program):
    """A program with callbacks of the collector, weak links, threads and incremental collections: the program behaves as without
    allogram, and all its blocks and collections are recorded."""
    failures = tap.Failures()
    for case in ("callbacks", "threads", "steps"):
        with recorded.Folder() as folder:
            counts, said, traces = record(failures, tools, program, case, folder)
            own = compare(failures, tools, traces[0], counts)
            if case == "callbacks":
                failures.require("all callbacks were called: %s" % said, said["started"] >= 5 and said["roots"] >= 5 and said["notified"] >= 1 and
                                 said["finalized"] >= 990)
            if case == "steps":
                failures.require("most blocks are freed", own["in_steps"]["in_use_blocks"] < 100000)
                failures.require("collections are reported", len(recorded.report(tools, traces[0], "--view=gc")["collections"]) > 3)
            covers(failures, tools, traces[0])
            is_clean(failures, tools, traces[0])
    return failures


def tracked(tools, program):
    """A tracker is a set of functions of the program (allogram.h) that allogram calls when a block of the tracker's own sample is allocated
    or freed. The tracker's function on_free is called once for each block, while the collector's lock is free, in exact and sampled
    recordings."""
    failures = tap.Failures()
    for options in ([], ["--mode=sample", "--interval=16K", "--seed=3"]):
        with recorded.Folder() as folder:
            counts, said, traces = record(failures, tools, program, "tracked", folder, options)
            failures.expect("tracker, calls of on_alloc, wrong calls of on_free", (said["tracker"], said["born"], said["wrong"]), (1, counts["followed"][0], 0))
            failures.require("on_free was called for about 5000 blocks: %s" % said, 4900 <= said["died"] <= 5200)
            failures.expect("ghost frees", recorded.report(tools, traces[0])["ghost_frees"], 0)
    return failures


def left_alone(tools, program):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, traces = recorded.record(tools, [program, "entries"], folder, options=["--adapters=none"])
        failures.expect("runtimes", [row["name"] for row in recorded.report(tools, traces[0])["runtimes"]], ["libc"])
    return failures


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    cases = (entries, blocks_die_when_the_collector_frees_them, threads, sampled, child)
    programs = [name for name in ("collected", "collected_static") if os.path.exists(tools.program(name))]
    wild_programs = [name for name in ("collected_wild", "collected_wild_static") if os.path.exists(tools.program(name))]
    plan = tap.Plan(len(cases) * len(programs) + 2 * len(wild_programs) + 1 if programs else 1)
    if not programs:
        plan.skip("the Boehm collector", "libgc-dev is not installed")
        return 0
    for name in programs:
        for case in cases:
            plan.run("%s: %s" % (name, case.__name__), lambda case=case, name=name: case(tools, tools.program(name)))
    for name in wild_programs:
        for case in (wild, tracked):
            plan.run("%s: %s" % (name, case.__name__), lambda case=case, name=name: case(tools, tools.program(name)))
    plan.run("--adapters=none", lambda: left_alone(tools, tools.program("collected")))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
