#!/usr/bin/env python3
"""The views of a trace agree: the sums of each view equal those of the summary. Ten traces are tested, without options and with options
that select a part of the trace."""

import json
import os
import sys

import recorded
import tap

PROGRAMS = ("family", "cross_free", "recursion", "temporary", "plugins", "short_threads", "longjmp_deep", "cxx_containers",
            "cxx_types", "rust_types")
METRICS = ("allocated_bytes", "allocated_blocks", "in_use_bytes", "in_use_blocks", "peak_bytes", "peak_blocks",
           "temporary_blocks", "freed_bytes", "freed_blocks")
KEYS = ("function", "thread", "type", "label", "line", "stack", "image", "heap")
OF_HEAPS = ("allocated_bytes", "allocated_blocks", "in_use_bytes", "in_use_blocks", "peak_bytes")


def of_summary(summary):
    names = {"in_use_bytes": "in_use_bytes_at_end", "in_use_blocks": "in_use_blocks_at_end"}
    return {metric: summary[names.get(metric, metric)] for metric in METRICS}


def added(rows):
    rows = list(rows)
    return {metric: sum(row[metric] for row in rows) for metric in METRICS}


def only(sums, *metrics):
    return {metric: sums[metric] for metric in metrics}


def blocks_agree(failures, view, sums):
    blocks = view("blocks", "--state=open,closed", "--frames=1")["blocks"]
    closed = [block for block in blocks if block["state"] == "closed"]
    opened = [block for block in blocks if block["state"] == "open"]
    failures.expect("blocks", {"freed_blocks": len(closed), "freed_bytes": sum(block["size"] for block in closed),
                               "in_use_blocks": len(opened), "in_use_bytes": sum(block["size"] for block in opened)},
                    only(sums, "freed_blocks", "freed_bytes", "in_use_blocks", "in_use_bytes"))
    failures.expect("blocks that were freed before their allocation", sum(block["freed_ns"] < block["allocated_ns"] for block in closed), 0)
    lifetimes = view("lifetimes")
    failures.expect("lifetimes", [sum(row[key] for row in lifetimes["sites"]) for key in ("blocks", "bytes", "ended")],
                    [len(blocks), sum(block["size"] for block in blocks), sums["freed_blocks"]])
    failures.expect("histogram", [sum(step[key] for step in lifetimes["histogram"]) for key in ("blocks", "bytes")],
                    [sums["freed_blocks"], sums["freed_bytes"]])
    longest = max((block["freed_ns"] - block["allocated_ns"] for block in closed), default=None)
    failures.expect("longest life", max((row["lifetime_ns"]["max"] for row in lifetimes["sites"] if row["ended"]), default=None),
                    longest)


def course_agrees(points):
    failures = tap.Failures()
    for key in ("time_ns", "allocated_bytes"):
        values = [point[key] for point in points]
        failures.fail_unless("timeline: %s falls: %s" % (key, values), values == sorted(values))
    return failures


def agree(tools, trace, *options):
    """Compares every view with the summary, so all views agree with each other."""
    failures = tap.Failures()

    def view(name, *more):
        return recorded.report(tools, trace, "--view=" + name, *options, *more)

    sums = of_summary(view("summary"))
    if "--older" not in options:
        failures.expect("allocated", sums["allocated_blocks"], sums["freed_blocks"] + sums["in_use_blocks"])
    for key in KEYS if not options else KEYS[:3]:
        failures.expect("sites by " + key, added(row["own"] for row in view("sites", "--by=" + key)["sites"]), sums)
    failures.expect("tree", only(view("tree")["root"], *METRICS), sums)
    if not options:
        failures.expect("tree, bottom up", only(view("tree", "--bottom-up")["root"], *METRICS), sums)
    types = view("types")["types"]
    failures.expect("types", added(types), sums)
    for row in types[:2]:
        stacks = view("types", "--type=" + (row["type"] or "untyped"))
        failures.expect("stacks of " + str(row["type"]), added(stacks["stacks"]), added([row]))
    failures.extend(course_agrees(view("timeline")["points"]))
    for name, metrics in (("leaks", METRICS[2:4]), ("peak", METRICS[4:6]), ("temporary", METRICS[6:7])):
        stacks = view(name)
        failures.expect(name, only(stacks["total"], *metrics), only(sums, *metrics))
        failures.expect(name + ", stack by stack", only(added(stacks["stacks"]), *metrics), only(sums, *metrics))
    blocks_agree(failures, view, sums)
    if not any(option.startswith(("--focus", "--ignore", "--thread", "--tail")) for option in options):
        heaps = [heap for heap in view("heaps")["heaps"] if not heap["backing"]]
        failures.expect("heaps", {metric: sum(heap[metric] for heap in heaps) for metric in OF_HEAPS}, only(sums, *OF_HEAPS))
        threads = view("threads")["threads"]
        failures.expect("threads", [sum(thread[key] for thread in threads) for key in ("allocated_bytes", "allocated_blocks")],
                        [sums["allocated_bytes"], sums["allocated_blocks"]])
    return ["%s %s" % (" ".join(options) or "whole", failure) for failure in failures]


def moments_within_realloc(tools, trace):
    """Returns the times (ns since the start of the trace) whose last event is the start of a call of realloc that is not finished. A
    reallocated block counts as freed until the call has returned. If the call fails, the block was in use all the time, which the list of
    blocks shows."""
    lines = [line.split() for line in recorded.run([tools.allogram, "dump", trace]).stdout.decode().splitlines()]
    start_ns = int(next(word for line in lines if "process" in line for word in line if word.startswith("start_ns=")).split("=")[1])
    last_events = {}
    for line in lines:
        if len(line) > 2 and line[2] in ("alloc", "free", "realloc_free", "undo_free"):
            last_events[line[0]] = line[2]
    return {int(time.replace(".", "")) - start_ns for time, event in last_events.items() if event == "realloc_free"}


def moments_agree(tools, trace):
    """Compares the blocks in use at some moments with the list of all blocks. The moments are the peak, and the times when some blocks were
    allocated or freed; an event at exactly such a time is included. Traces of several threads are not tested, because the exact order of
    their events is not known."""
    failures = tap.Failures()
    summary = recorded.report(tools, trace)
    if summary["threads"] > 1:
        return failures
    blocks = recorded.report(tools, trace, "--view=blocks", "--state=open,closed", "--frames=1")["blocks"]
    some = blocks[::max(1, len(blocks) // 4)]
    moments = {summary["peak_time_ns"], *(block["allocated_ns"] for block in some),
               *(block["freed_ns"] for block in some if block["state"] == "closed")} - {0}
    for moment in sorted(moments - moments_within_realloc(tools, trace)):
        total = recorded.report(tools, trace, "--view=peak", "--at=%dns" % moment)["total"]
        there = [block["size"] for block in blocks
                 if block["allocated_ns"] <= moment and (block["state"] == "open" or block["freed_ns"] > moment)]
        failures.expect("in use at %d ns" % moment, [total["in_use_blocks"], total["in_use_bytes"]], [len(there), sum(there)])
    return failures


def same_as_itself(tools, trace):
    outcome = recorded.run([tools.allogram, "diff", trace, trace, "--json"])
    difference = json.loads(outcome.stdout)
    failures = tap.Failures()
    failures.expect("diff of a trace with itself", difference["sites"], [])
    failures.expect("total of the diff of a trace with itself", set(difference["total"].values()), {0})
    return failures


def case(tools, program, number):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, traces = recorded.record(tools, [tools.program(program)], folder)
        trace = max(traces, key=lambda path: recorded.report(tools, path)["allocated_blocks"])
        duration = recorded.report(tools, trace)["trace"]["duration_ns"]
        window = ("--from=%dns" % (duration // 3), "--to=%dns" % (duration * 9 // 10))
        narrowed = (window, window + ("--older",), ("--focus=main",), ("--tail=40",), window[1:])
        for options in ((), narrowed[number % len(narrowed)]): # each way of narrowing is tested with two programs, to save time
            failures.extend(agree(tools, trace, *options))
        failures.extend(moments_agree(tools, trace))
        failures.extend(same_as_itself(tools, trace))
    return failures


def several_as_one(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for program in ("family", "cross_free", "recursion"):
            recorded.record(tools, [tools.program(program)], folder)
        traces = recorded.traces_in(folder)
        failures.require("%d traces" % len(traces), len(traces) >= 3)
        whole = of_summary(recorded.report(tools, traces[0], *traces[1:], "--merge"))
        failures.expect("sum of the processes", whole, added(of_summary(recorded.report(tools, trace)) for trace in traces))
        failures.extend(agree(tools, traces[0], *traces[1:], "--merge"))
        failures.extend(agree(tools, traces[0], *traces[1:], "--merge", "--focus=main"))
    return failures


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    results = tap.Plan(len(PROGRAMS) + 1)
    for number, program in enumerate(PROGRAMS):
        if os.path.exists(tools.program(program)):
            results.run(program, lambda program=program, number=number: case(tools, program, number))
        else:
            results.skip(program, "no compiler for this program is installed")
    results.run("several processes as one", lambda: several_as_one(tools))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
