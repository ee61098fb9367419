#!/usr/bin/env python3
"""Programs that report their own memory with allogram.h: an example whose blocks are known, and programs that check every rule of the header.
Each program runs with liballogram alone, and under `allogram run`; one of them also runs without liballogram and `run`."""

import os
import re
import sys

import recorded
import tap

MIB = 1 << 20
COUNTED = ("allocated_blocks", "allocated_bytes", "freed_blocks", "freed_bytes", "ghost_frees")


# ---- the example ----

HEAPS = { # name: domain, allocator, bytes allocated, bytes in use at the end
    "nodes": ("cpu", "arena", 4855, 3415),
    "textures": ("gpu", "fake-gpu", 7 * MIB, 4 * MIB),
    "handles": ("external", "table", 0, 0),
}
TYPES = { # type: blocks, bytes, blocks in use
    "list node": (100, 4800, 70),
    "text": (10, 55, 10),
    "texture": (6, 7 * MIB, 3),
}
BLOCKS = { # domain, allocator, state, type: blocks
    ("cpu", "arena", "closed", "list node"): 30,
    ("cpu", "arena", "open", "list node"): 70,
    ("cpu", "arena", "open", "text"): 10,
    ("cpu", "arena", "ghost", None): 1,
    ("gpu", "fake-gpu", "closed", "texture"): 3,
    ("gpu", "fake-gpu", "open", "texture"): 3,
    ("gpu", "fake-gpu", "ghost", None): 1,
    ("external", "table", "closed", None): 3,
}
SITES = { # function: own blocks
    "arena_alloc": 110,
    "texture_new": 5,
    "texture_grow": 1,
    "open_and_close": 3,
}


def compare_example(tools, trace, is_alone):
    failures = tap.Failures()
    heaps = {row["name"]: row for row in recorded.report(tools, trace, "--view=heaps")["heaps"]}
    for name, (domain, allocator, allocated, in_use) in HEAPS.items():
        row = heaps.get(name, {})
        failures.expect("heap " + name, (row.get("domain"), row.get("allocator"), row.get("allocated_bytes"),
                                         row.get("in_use_bytes")), (domain, allocator, allocated, in_use))
    types = {row["type"]: row for row in recorded.report(tools, trace, "--view=types")["types"]}
    for name, wanted in TYPES.items():
        row = types.get(name, {})
        failures.expect("type " + name, (row.get("allocated_blocks"), row.get("allocated_bytes"), row.get("in_use_blocks")), wanted)
    counted = {}
    addresses = set()
    for block in recorded.report(tools, trace, "--view=blocks")["blocks"]:
        key = (block["tag"]["domain"], block["tag"]["allocator"], block["state"], block["type"])
        counted[key] = counted.get(key, 0) + 1
        if key[1] == "fake-gpu":
            addresses.add(block["address"])
    failures.expect("blocks", {key: n for key, n in counted.items() if key[1] not in ("malloc", None)}, BLOCKS)
    failures.expect("addresses of textures", addresses, {0x1000 * i for i in range(1, 7)})
    sites = {row["function"]: row["own"]["allocated_blocks"] for row in recorded.report(tools, trace, "--view=sites")["sites"]}
    failures.expect("sites", {name: sites.get(name) for name in SITES}, SITES)
    summary = recorded.report(tools, trace)
    failures.expect("ghost frees", summary["ghost_frees"], 2)
    failures.expect("lost events", summary["lost_events"]["total"], 0)
    if is_alone:
        failures.expect("number of different stacks", summary["unique_stacks"], 5)
        failures.expect("blocks in all", (summary["allocated_blocks"], summary["freed_blocks"]), (119, 36))
        failures.expect("end of the recording", summary["trace"]["end"], "detached")
        outcome = recorded.run([tools.allogram, "dump", trace])
        failures.require("the dump contains the mark", b'mark name="the list is there"' in outcome.stdout)
    failures.expect("status of check", recorded.check(tools, trace)[0], 0)
    return failures


def example_alone(tools):
    with recorded.Folder() as folder:
        outcome = recorded.run([os.path.join(tools.build, "examples/arena_and_gpu")], cwd=folder)
        if outcome.status != 0:
            return ["status %d: %s" % (outcome.status, outcome.stderr)]
        return compare_example(tools, outcome.stdout.decode().strip(), True)


def example_under_run(tools):
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [os.path.join(tools.build, "examples/arena_and_gpu")], folder)
        failures = compare_example(tools, traces[0], False)
        failures.expect("status", outcome.status, 0)
        failures.require("the program prints that it is recorded already", b"already" in outcome.stderr)
        heaps = {row["name"]: row for row in recorded.report(tools, traces[0], "--view=heaps")["heaps"]}
        failures.require("malloc is in the same trace", heaps["malloc"]["allocated_bytes"] >= 65536)
        return failures


def containers_are_reported(tools):
    """The example containers.cc, which uses memory_resource.hpp, alone and under `allogram run`. Its first comment has the expected
    sums."""
    wanted = {("numbers", "pmr"): (240, 0, 10, 0), ("frames", "allocator"): (400, 400, 1, 1)}
    failures = tap.Failures()
    program = os.path.join(tools.build, "examples/containers")
    with recorded.Folder() as folder:
        outcome = recorded.run([program], cwd=folder)
        failures.expect("status", outcome.status, 0)
        recorded_too, traces = recorded.record(tools, [program], folder)
        failures.expect("status under run", recorded_too.status, 0)
        for trace in (outcome.stdout.decode().strip(), traces[0]):
            heaps = {(row["name"], row["allocator"]): (row["allocated_bytes"], row["in_use_bytes"], row["allocated_blocks"], row["in_use_blocks"])
                     for row in recorded.report(tools, trace, "--view=heaps")["heaps"]}
            for heap, sums in wanted.items():
                # The program frees its vector after its own session (recording) has ended. Under `run` the trace contains this free.
                alive = heaps.get(heap)
                if trace == traces[0] and heap[0] == "frames":
                    failures.expect("heap frames under run", alive, (400, 0, 1, 0))
                else:
                    failures.expect("heap %s of %s" % (heap[0], os.path.basename(trace)), alive, sums)
    return failures


def tokens_are_types(tools):
    """The example alloc_tokens.c, alone and under `allogram run`. Its first comment has the expected counts."""
    wanted = {"struct node": [15, 640, 11], "token 9": [3, 300, 3], None: [2, 16, 2]}
    failures = tap.Failures()
    program = os.path.join(tools.build, "examples/alloc_tokens")
    with recorded.Folder() as folder:
        outcome = recorded.run([program], cwd=folder)
        _, traces = recorded.record(tools, [program], folder)
        for trace in (os.path.join(folder, outcome.stdout.decode().strip()), traces[0]):
            rows = {row["type"]: [row[key] for key in ("allocated_blocks", "allocated_bytes", "in_use_blocks")]
                    for row in recorded.report(tools, trace, "--view=types")["types"]}
            if trace == traces[0]: # under `run`, blocks of malloc have no type either
                rows[None] = wanted[None]
            failures.expect("types of " + os.path.basename(trace), rows, wanted)
    return failures


# ---- the rules ----

def compare(tools, trace, wanted, failures, focus=(), by_events=True):
    outcome = recorded.run([tools.allogram, "check", trace]) # `check` also completes the trace of a killed program
    failures.expect("status of check", outcome.status, 0)
    summary = recorded.report(tools, trace, *focus)
    failures.expect(os.path.basename(trace), {key: summary[key] for key in COUNTED}, {key: wanted[key] for key in COUNTED})
    failures.expect("lost events", summary["lost_events"]["total"], 0)
    if not by_events:
        return
    again = recorded.report(tools, trace, "--from=1ns", "--older") # computed from the events, not from the trace's index
    failures.expect("allocated blocks, from the events", again["allocated_blocks"], wanted["allocated_blocks"])


def rule_alone(tools, case):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome = recorded.run([tools.program("embedding"), case], cwd=folder)
        failures.expect("status", outcome.status, 128 + 9 if case == "killed" else 0)
        truths = recorded.truths_of(outcome, failures)
        failures.require("the program prints its counts", truths)
        for truth in truths:
            compare(tools, os.path.join(folder, truth["trace"]), truth, failures, by_events=case != "dropped")
        traces = [name for name in os.listdir(folder) if name.endswith(".allogram")]
        failures.expect("number of traces", len(traces), len(truths))
        failures.require("no live file is left", not [name for name in os.listdir(folder) if "live" in name])
        if case == "exit_without_stop":
            failures.expect("end of the trace", recorded.report(tools, truths[0]["trace"])["trace"]["end"], "exit")
        if case == "killed":  # nothing could record the signal that killed the process, so the report names no signal
            failures.expect("end of the trace", recorded.report(tools, truths[0]["trace"])["trace"]["end"], "exit")
            text = recorded.run([tools.allogram, "report", truths[0]["trace"]]).stdout.decode()
            failures.fail_unless("the report does not say that the end is unknown: " + text[:300], "ended in an unknown way" in text)
    return failures


def heap_sums(tools, trace, *options):
    heaps = recorded.report(tools, trace, "--view=heaps", *options)["heaps"]
    return sum(row["allocated_bytes"] for row in heaps if row["allocator"] in ("arena", "fake-gpu"))


def rule_under_run(tools, case):
    """Under `run` one trace contains all sessions that the program starts. The sum of the bytes that the program printed for each
    session is compared with the sums of the trace."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("embedding"), case], folder)
        truths = recorded.truths_of(outcome, failures)
        failures.expect("status", outcome.status, 128 + 9 if case == "killed" else 0)
        failures.expect("allocated bytes of the program's own heaps", heap_sums(tools, traces[0]), sum(truth["allocated_bytes"] for truth in truths))
        failures.expect("lost events", recorded.report(tools, traces[0])["lost_events"]["total"], 0)
    return failures


def rule_with_nothing(tools):
    """The program is not linked with liballogram. Alone, it cannot start a session, and gets the reason; under `run`, its blocks are recorded."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome = recorded.run([tools.program("embedding_alone"), "nested_start"], cwd=folder)
        failures.expect("status", outcome.status, 9)
        failures.require("the program prints why there is no session", b"not linked with liballogram" in outcome.stdout)
        outcome, traces = recorded.record(tools, [tools.program("embedding_alone"), "reallocs"], folder)
        truth = recorded.truths_of(outcome, failures)[0]
        failures.expect("bytes recorded under `run`", heap_sums(tools, traces[0]), truth["allocated_bytes"])
    return failures


def collections_are_reported(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome = recorded.run([tools.program("embedding"), "collections"], cwd=folder)
        trace = recorded.truths_of(outcome, failures)[0]["trace"]
        dump = recorded.run([tools.allogram, "dump", trace]).stdout.decode()
        rows = re.findall(r" gc known=(\d) start_ns=\d+ pause_ns=\d+ heap_before_bytes=(\d+) heap_after_bytes=(\d+) "
                          r'needed_bytes=(\d+) stack=(\d+) thread_id=\d+ runtime="(\w*)" kind="(\w*)"', dump)
        failures.expect("collections", [row[:4] + row[5:] for row in rows],
                        [("7", "30", "20", "64", "embedding", "minor"), ("1", "0", "0", "0", "", "inner"),
                         ("1", "0", "0", "0", "embedding", "")])
        text = recorded.run([tools.allogram, "report", trace]).stdout.decode()
        failures.fail_unless("the report does not show a collection that the program reported: " + text[:800], "by the program, paused" in text)
        failures.require("each collection has a stack", all(int(row[4]) >= 16 for row in rows))
        heaps = {row["name"]: row["mapped_bytes"] for row in recorded.report(tools, trace, "--view=heaps")["heaps"]}
        failures.expect("mapped bytes of the heaps", heaps, {"blocks": 0, "video": 4096})
    return failures


def snapshots_are_whole(tools):
    """Each of two threads frees its block before it allocates the next one. So in each snapshot at most one block of each thread is in use,
    and the allocation of each freed block is in the snapshot."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome = recorded.run([tools.program("embedding"), "busy_snapshots"], cwd=folder)
        failures.expect("status", (outcome.status, outcome.stdout), (0, b""))
        blocks = 0
        for number in range(1, 5):
            trace = os.path.join(folder, "busy%d.allogram" % number)
            failures.expect("status of check", recorded.run([tools.allogram, "check", trace]).status, 0)
            summary = recorded.report(tools, trace)
            failures.expect("ghost frees, lost events", (summary["ghost_frees"], summary["lost_events"]["total"]), (0, 0))
            failures.require("at most two blocks are in use: %d" % summary["in_use_blocks_at_end"], summary["in_use_blocks_at_end"] <= 2)
            failures.require("each snapshot has more blocks", summary["allocated_blocks"] > blocks)
            blocks = summary["allocated_blocks"]
    return failures


def dropped_under_run(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("embedding"), "dropped"], folder)
        truths = recorded.truths_of(outcome, failures)
        failures.expect("number of lines with counts", len(truths), 1)
        wanted = truths[0]["allocated_bytes"]
        failures.expect("allocated bytes of the program's own heaps since the reset", heap_sums(tools, traces[0]), wanted)
        failures.require("with --older the time before the reset is counted", heap_sums(tools, traces[0], "--from=1ns", "--older") > wanted)
        text = recorded.run([tools.allogram, "report", traces[0]]).stdout.decode()
        failures.require("the report says that it begins at the reset: " + text[:600], "when the recording was reset" in text)
    return failures


def exact_after_sampled(tools):
    """liballogram joins the sampled session of `allogram run`. The program leaves this session and starts an exact session of its own."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        command = ["env", "-u", "LD_PRELOAD", tools.program("embedding"), "after_sampled"]
        outcome, _ = recorded.record(tools, command, folder, options=("--mode=sample", "--interval=512K"), cwd=folder)
        failures.expect("status", outcome.status, 0)
        truth = recorded.truths_of(outcome, failures)[0]
        failures.require("the path of the trace is not in /dev/shm: " + truth["trace"], not truth["trace"].startswith("/dev/shm"))
        compare(tools, os.path.join(folder, truth["trace"]), truth, failures, by_events=True)
    return failures


def merged_types_are_reported(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        example = [os.path.join(tools.build, "examples/arena_and_gpu")]
        traces = [recorded.run(example, cwd=folder).stdout.decode().strip() for _ in range(2)]
        types = recorded.report(tools, traces[0], traces[1], "--merge", "--view=types")["types"]
        failures.expect("types of two processes", {row["type"]: row["allocated_blocks"] for row in types},
                        {"list node": 200, "text": 20, "texture": 12, None: 6})
    return failures


def tracker_rules(tools):
    return recorded.run([tools.program("tracker_rules")]).stdout.decode().split()


def rule_of_trackers(tools, command, is_under_run):
    """Runs a program that checks the rules of trackers (callbacks for sampled blocks, see allogram.h) and prints each rule that does not hold."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        if is_under_run:
            outcome, _ = recorded.record(tools, command, folder)
        else:
            outcome = recorded.run(command, cwd=folder)
    failures.expect("status", outcome.status, 0)
    failures.expect("standard output", outcome.stdout.decode(), "")
    return failures


def run_tracker_rules(tools, results):
    commands = {rule: [tools.program("tracker_rules"), rule] for rule in tracker_rules(tools)}
    commands["exceptions"] = [tools.program("tracker_exceptions")]
    for is_under_run in (False, True):
        for rule, command in commands.items():
            name = "trackers%s: %s" % (" under run" if is_under_run else "", rule)
            if os.path.exists(command[0]):
                results.run(name, lambda command=command: rule_of_trackers(tools, command, is_under_run))
            else:
                results.skip(name, "no compiler for this program is installed")


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    rules = recorded.cases_of("embedding")
    results = tap.Plan(10 - len(OF_THEIR_OWN) + 2 * len(rules) - len(NOT_UNDER_RUN) + 2 * (len(tracker_rules(tools)) + 1))
    results.run("the example alone", lambda: example_alone(tools))
    results.run("the example under run", lambda: example_under_run(tools))
    if os.path.exists(os.path.join(tools.build, "examples/containers")):
        results.run("containers of C++", lambda: containers_are_reported(tools))
    else:
        results.skip("containers of C++", "no C++ compiler was found")
    results.run("types from a compiler's tokens", lambda: tokens_are_types(tools))
    results.run("neither library nor profiler", lambda: rule_with_nothing(tools))
    results.run("collections", lambda: collections_are_reported(tools))
    results.run("an exact session after a sampled one", lambda: exact_after_sampled(tools))
    results.run("types of merged processes", lambda: merged_types_are_reported(tools))
    results.run("snapshots during the recording are whole", lambda: snapshots_are_whole(tools))
    results.run("a reset under run", lambda: dropped_under_run(tools))
    for case in rules:
        if case in OF_THEIR_OWN:
            continue
        results.run("alone: " + case, lambda case=case: rule_alone(tools, case))
        if case not in NOT_UNDER_RUN:
            results.run("under run: " + case, lambda case=case: rule_under_run(tools, case))
    run_tracker_rules(tools, results)
    return results.status()


OF_THEIR_OWN = {"busy_snapshots"}
# Cases that need a session started by the program itself.
NOT_UNDER_RUN = {"stop_without_start", "filtered", "no_such_folder", "wrong_options", "forked_child", "sessions_in_turn", "handles",
                 "snapshots", "busy_snapshots", "one_thread", "some_sizes", "some_types", "dropped"}

if __name__ == "__main__":
    sys.exit(main())
