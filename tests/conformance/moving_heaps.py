#!/usr/bin/env python3
"""Heaps of garbage collectors that a program reports with allogram.h: blocks that move, are promoted or are found dead, and types that the
program reports only after the allocation. A program whose blocks are known checks every rule of the header, alone with liballogram and under
`allogram run`."""

import re
import sys

import recorded
import tap

COUNTED = ("allocated_blocks", "allocated_bytes", "freed_blocks", "freed_bytes", "ghost_frees")
BY_COLLECTORS = ("moved_blocks", "promoted_blocks", "collected_blocks")


def truth_of(outcome, failures):
    truths = recorded.truths_of(outcome, failures)
    failures.expect("number of lines with counts", len(truths), 1)
    return truths[0] if truths else None


def heaps_of(tools, trace, *options):
    return {row["name"]: row for row in recorded.report(tools, trace, "--view=heaps", *options)["heaps"]}


def types_of(tools, trace, wanted, *options):
    rows = {row["type"]: row for row in recorded.report(tools, trace, "--view=types", "--limit=0", *options)["types"]}
    return {name: [rows.get(name, {}).get(key) for key in ("allocated_blocks", "allocated_bytes", "in_use_blocks")] for name in wanted}


def compare(tools, trace, truth, failures, is_alone):
    failures.expect("status of check", recorded.run([tools.allogram, "check", trace]).status, 0)
    summary = recorded.report(tools, trace)
    if is_alone:
        for name, report in (("counts", summary), ("counts, computed from the events", recorded.report(tools, trace, "--from=1ns", "--older"))):
            failures.expect(name, {key: report[key] for key in COUNTED}, {key: truth[key] for key in COUNTED})
    failures.expect("lost events", summary["lost_events"]["total"], 0)
    for options in ((), ("--from=1ns", "--older")) if is_alone else ((),):
        heap = heaps_of(tools, trace, *options)["young"]
        failures.expect("moved, promoted and collected blocks", {key: heap[key] for key in BY_COLLECTORS}, {key: truth[key] for key in BY_COLLECTORS})
        failures.expect("kind and unit of the heap", (heap["kind"], heap["unit"]), ("moving", "words"))
        failures.expect("types", types_of(tools, trace, truth["types"], *options), truth["types"])
    blocks = recorded.report(tools, trace, "--view=blocks", "--limit=0")["blocks"]
    states = [block["state"] for block in blocks if block["tag"]["allocator"] == "vm"]
    failures.expect("blocks", (states.count("closed"), states.count("ghost")), (truth["freed_blocks"], truth["ghost_frees"]))


def rule(tools, case, is_under_run):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        command = [tools.program("moving_heap"), case]
        if is_under_run:
            outcome, traces = recorded.record(tools, command, folder)
        else:
            outcome = recorded.run(command, cwd=folder)
        failures.expect("status", outcome.status, 0)
        truth = truth_of(outcome, failures)
        if truth:
            compare(tools, traces[0] if is_under_run else truth["trace"], truth, failures, not is_under_run)
    return failures


def a_moved_block_stays_itself(tools):
    """A block that moved has its new address, and keeps its allocation site, its size and the time of its allocation."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome = recorded.run([tools.program("moving_heap"), "moves"], cwd=folder)
        trace = truth_of(outcome, failures)["trace"]
        blocks = {(block["state"], block["size"]): block for block in recorded.report(tools, trace, "--view=blocks")["blocks"]
                  if block["state"] != "ghost"}
        failures.expect("blocks", {key: (block["address"], block["stack"][0]["function"]) for key, block in blocks.items()},
                        {("closed", 10): (0x5000, "alloc"), ("open", 20): (0x1000, "alloc"), ("open", 40): (0x3000, "alloc"),
                         ("open", 80): (0x2000, "alloc_again")})
        collection = recorded.report(tools, trace, "--view=gc")["collections"][0]
        failures.require("the block was allocated before the collection", blocks[("open", 20)]["allocated_ns"] <= collection["start_ns"])
        dump = recorded.run([tools.allogram, "dump", trace]).stdout.decode()
        failures.expect("number of moves in the dump", len(re.findall(r" move address=0x\w+ to=0x\w+", dump)), 3)
        text = recorded.run([tools.allogram, "report", trace, "--view=heaps"]).stdout.decode()
        failures.require("the note of the heap says its kind and unit: " + text, "moving, counts words" in text)
    return failures


def threads_that_stop_are_in_order(tools):
    """After each collection, threads allocate again at the addresses from which the collecting thread moved their blocks. The program stops
    its threads during the collection, so the recorded order of events must need no repair."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("moving_heap"), "stopped_threads"], folder)
        truth = truth_of(outcome, failures)
        dump = recorded.run([tools.allogram, "dump", traces[0]]).stdout.decode()
        failures.expect("repairs of the order of events", re.findall(r" order_repairs=(\d+)", dump), ["0"])
        failures.expect("collections", len(recorded.report(tools, traces[0], "--view=gc", "--limit=0")["collections"]), 40)
        types = types_of(tools, traces[0], truth["types"], "--from=1ns", "--older")
        failures.expect("types", types, truth["types"])
    return failures


SURVIVAL = ("young_blocks", "survived_blocks", "died_young_blocks", "promoted_blocks", "promoted_bytes")


def what_survives(tools):
    """A block that a collection moved or promoted has survived this collection. If the program reports both, the block counts once."""
    failures = tap.Failures()
    for case, options, wanted in (("generations", (), (30, 10, 10, 10, 145)), ("stopped_threads", (), (16000, 1600, 14400, 0, 0)),
                                  ("stopped_threads", ("--from=1ns", "--older"), (16000, 1600, 14400, 0, 0))):
        with recorded.Folder() as folder:
            _, traces = recorded.record(tools, [tools.program("moving_heap"), case], folder)
            sites = recorded.report(tools, traces[0], "--view=lifetimes", *options)["sites"]
            rows = [row for row in sites if row["young_blocks"]]
            failures.expect(case, tuple(sum(row[key] for row in rows) for key in SURVIVAL), wanted)
            failures.expect(case + ": most collections that a block survived", max(row["survived_collections"]["max"] for row in rows), 1)
            mean = sum(row["survived_collections"]["mean"] * row["young_blocks"] for row in rows)
            failures.require("the mean number of survived collections agrees: %s" % mean, abs(mean - wanted[1]) < 0.1)
            failures.expect("survived blocks of malloc's sites are unknown", {row["survived_blocks"] for row in sites if row not in rows} - {None}, set())
    return failures


def samples_move(tools):
    """With a sampling interval of one byte nearly every block is a sample. A sample that moves is still a sample, at its new address."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("moving_heap"), "stopped_threads"], folder, ("--mode=sample", "--interval=1"))
        truth = truth_of(outcome, failures)
        summary = recorded.report(tools, traces[0])
        failures.expect("ghost frees", summary["ghost_frees"], 0)
        heap = heaps_of(tools, traces[0])["young"]
        failures.expect("moved blocks, which a sampled trace does not count", heap["moved_blocks"], None)
        for key in ("allocated_blocks", "allocated_bytes"):
            failures.require("%s is nearly exact: %d" % (key, heap[key]), abs(heap[key] - truth[key]) <= 0.02 * truth[key])
        failures.require("about 40 blocks are in use: %d" % heap["in_use_blocks"], 36 <= heap["in_use_blocks"] <= 44)
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("moving_heap"), "many_late_types"], folder,
                                          ("--mode=sample", "--interval=1"))
        wanted = truth_of(outcome, failures)["types"]
        failures.expect("late types of samples", types_of(tools, traces[0], wanted), wanted)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    rules = recorded.cases_of("moving_heap")
    results = tap.Plan(4 + 2 * len(rules))
    results.run("a moved block stays itself", lambda: a_moved_block_stays_itself(tools))
    results.run("threads that stop are in order", lambda: threads_that_stop_are_in_order(tools))
    results.run("what survives a collection", lambda: what_survives(tools))
    results.run("samples move", lambda: samples_move(tools))
    for case in rules:
        results.run("alone: " + case, lambda case=case: rule(tools, case, False))
        results.run("under run: " + case, lambda case=case: rule(tools, case, True))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
