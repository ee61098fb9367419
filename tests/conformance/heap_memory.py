#!/usr/bin/env python3
"""The table `memory` in the view `heaps`. It shows how much memory each heap has, according to its own count; the test reads the counts of
malloc, the Boehm collector and Lua. Each byte must count once, and the numbers must agree with the other views. *Lent* memory is memory
that a heap obtained from malloc."""

import json
import os
import shutil
import sys

import recorded
import tap

MIB = 1 << 20


def picture(tools, trace):
    """Returns the heaps by name, the rows of the memory table by name, and the table's total."""
    view = recorded.report(tools, trace, "--view=heaps")
    return {row["name"]: row for row in view["heaps"]}, {row["name"]: row for row in view["memory"]}, view["memory_total"]


def agrees(failures, tools, trace):
    """Checks rules that hold for every program: the sums agree with the summary, and no byte is counted twice."""
    heaps, rows, total = picture(tools, trace)
    summary = recorded.report(tools, trace)
    failures.expect("sum of the bytes in use of all rows", sum(row["in_use_bytes"] for row in rows.values()), summary["in_use_bytes_at_end"])
    failures.expect("bytes in use in the total", total["in_use_bytes"], summary["in_use_bytes_at_end"])
    failures.expect("bytes that malloc lent, compared with the bytes that heaps obtained from malloc", sum(row["lent_bytes"] for row in rows.values()), sum(row["of_malloc_bytes"] or 0 for row in rows.values()))
    failures.expect("reserved bytes in the total", total["reserved_bytes"],
                    sum((row["reserved_bytes"] or 0) - (row["of_malloc_bytes"] or 0) for row in rows.values()))
    for name, row in rows.items():
        if row["fragmentation_bytes"] is not None:
            failures.expect(name + ": in use, lent and fragmentation, compared with committed", row["in_use_bytes"] + row["lent_bytes"] + row["fragmentation_bytes"], row["committed_bytes"])
        if row["committed_bytes"] is not None:
            failures.require(name + " commits no more than it reserves", row["committed_bytes"] <= row["reserved_bytes"])
    return heaps, rows


def mallocs(tools):
    failures = tap.Failures()
    program = tools.program("holding")
    for case in ("main", "thread"):
        with recorded.Folder() as folder:
            outcome, traces = recorded.record(tools, [program, case], folder)
            _, rows = agrees(failures, tools, traces[0])
            if not outcome.stdout:
                return failures  # a glibc before 2.33 has no mallinfo2
            said = json.loads(outcome.stdout)
            failures.expect("committed, free bytes of malloc, case " + case, (rows["libc"]["committed_bytes"], rows["libc"]["free_bytes"]), (said["committed"], said["free"]))
            failures.require("the free memory counts as fragmentation", rows["libc"]["fragmentation_bytes"] >= said["free"] > MIB)
    # mallinfo2 would wait forever if the program exits in a signal handler that interrupted malloc.
    for case in ("blocked", "handler", "altstack"):
        with recorded.Folder() as folder:
            outcome, traces = recorded.record(tools, [program, case], folder)
            failures.expect("status, case " + case, outcome.status, 0)
            memory = picture(tools, traces[0])[1]
            failures.require("malloc is not asked for its memory, case " + case, memory == {} or memory["libc"]["committed_bytes"] is None)
    return failures


def boehms(tools, name):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program(name), "sizes"], folder)
        words = outcome.stdout.decode().split()[1:]
        said = dict(zip(words[::2], map(int, words[1::2])))
        heaps, rows = agrees(failures, tools, traces[0])
        row = rows["bdwgc"]
        failures.require("the collector has unmapped pages: %s" % said, said["unmapped"] > 0)
        failures.expect("free bytes of the collector", row["free_bytes"], said["free"] - said["unmapped"])
        failures.expect("reserved bytes of the collector, compared with its mappings", row["reserved_bytes"], heaps["bdwgc"]["mapped_bytes"])
        failures.require("the reserved bytes are the heap and at most 4 MiB more: %s %s" % (row, said), said["heap"] <= row["reserved_bytes"] < said["heap"] + 4 * MIB)
        failures.expect("committed bytes of the collector", row["committed_bytes"], row["reserved_bytes"] - said["unmapped"])
        failures.require("the blocks that the program keeps are in use", said["kept"] * 5000 <= row["in_use_bytes"] < (said["kept"] + 20) * 5000)
        failures.require("the collector's mappings do not count as the program's", heaps.get("mmap", {"mapped_bytes": 0})["mapped_bytes"] < MIB)
    return failures


def luas(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        script = os.path.join(folder, "hold.lua")
        with open(script, "w", encoding="utf-8") as file:
            file.write("held = {} for i = 1, 20000 do held[i] = {i} end os.exit(0)\n")
        _, traces = recorded.record(tools, ["lua5.4", script], folder)
        _, rows = agrees(failures, tools, traces[0])
        failures.require("Lua's blocks are lent by malloc", rows["lua"]["in_use_bytes"] > MIB and
                         rows["libc"]["lent_bytes"] == rows["lua"]["in_use_bytes"] == rows["lua"]["of_malloc_bytes"])
        failures.require("Lua's memory is not fragmentation of malloc", rows["libc"]["fragmentation_bytes"] < rows["lua"]["in_use_bytes"])
    return failures


def main():
    tools = recorded.tools_of_arguments()
    libgc = [name for name in ("collected_wild", "collected_wild_static") if os.path.exists(tools.program(name))]
    plan = tap.Plan(2 + len(libgc))
    plan.run("malloc", lambda: mallocs(tools))
    for name in libgc:
        plan.run("the Boehm collector: " + name, lambda name=name: boehms(tools, name))
    if shutil.which("lua5.4"):
        plan.run("Lua", lambda: luas(tools))
    else:
        plan.skip("Lua", "lua5.4 is not installed")
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
