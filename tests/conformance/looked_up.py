#!/usr/bin/env python3
"""Programs that look up allocation functions with a handle of the C library (dlopen of libc.so.6), by dlsym, dlvsym or Python's ctypes, are recorded
as if they called the functions by name. The judge of run_conformance.py cannot count them, because it does not see such calls."""

import sys

import recorded
import tap

CTYPES = """
import ctypes
libc = ctypes.CDLL("libc.so.6")
libc.strdup.restype, libc.strdup.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_char_p], [ctypes.c_void_p]
try:
    libc.no_such_function
except AttributeError as error:
    print(error)
for block in [libc.strdup(b"x" * 99999) for i in range(%d)]:
    libc.free(block)
"""


# allocated blocks and bytes, freed blocks and bytes, blocks and bytes in use at the end, as the comment of looked_up.c says
KEYS = ("allocated_blocks", "allocated_bytes", "freed_blocks", "freed_bytes", "in_use_blocks_at_end", "in_use_bytes_at_end")
COUNTS = [100 + 50, 100 * 1000 + 50 * 2000, 80 + 50, 80 * 1000 + 50 * 2000, 20, 20 * 1000]


def by_dlsym(tools):
    failures, counts = tap.Failures(), []
    for arguments in ([], ["none"]):
        with recorded.Folder() as folder:
            outcome, traces = recorded.record(tools, [tools.program("looked_up"), *arguments], folder)
            failures.expect("status and output", (outcome.status, outcome.stdout), (0, b"right\n"))
            summary = recorded.report(tools, traces[0])
            counts.append([summary[key] for key in KEYS])
            mapped = recorded.report(tools, traces[0], "--view=mappings")["total"]
            failures.expect("mapped bytes: in use, peak", (mapped["in_use_bytes"], mapped["peak_bytes"]), (200 * 4096, 300 * 4096))
    failures.expect(" ".join(KEYS), [some - none for some, none in zip(*counts)], COUNTS)
    return failures


def by_ctypes(tools):
    """The bytes in use at the end do not depend on the number of strings that were duplicated and freed."""
    failures, in_use = tap.Failures(), []
    for n in (0, 100):
        command = ["/usr/bin/python3", "-c", CTYPES % n]
        plain = recorded.run(command)
        with recorded.Folder() as folder:
            outcome, traces = recorded.record(tools, command, folder)
            failures.expect("status and output", (outcome.status, outcome.stdout), (plain.status, plain.stdout))
            summary = recorded.report(tools, traces[0])
            in_use.append(summary["in_use_bytes_at_end"])
            failures.require("%d strings are recorded: %d bytes" % (n, summary["allocated_bytes"]), summary["allocated_bytes"] >= n * 100000)
    failures.require("bytes in use at the end, without and with strings: %s" % in_use, abs(in_use[1] - in_use[0]) < 100000)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    plan = tap.Plan(2)
    plan.run("by dlsym and dlvsym", lambda: by_dlsym(tools))
    plan.run("by ctypes", lambda: by_ctypes(tools))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
