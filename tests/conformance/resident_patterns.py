#!/usr/bin/env python3
"""Tests --view=rss with nine patterns of resident memory (eight of resident_patterns.c, and a Lua script with a managed heap) and with four
allocators. The classes must add up to the Rss that the program itself reads in smaps_rollup, within 1 % or 256 KiB. At most 1 % may be unknown.
The pattern must be in the class where it was planted and, for some patterns, at the function that planted it. With glibc, the effect of
malloc_trim(0) must be predicted within 3 % or 1 MiB."""

import glob
import json
import os
import shutil
import sys

import recorded
import tap

KIB, MIB = 1 << 10, 1 << 20
LIBRARIES = {"jemalloc": "libjemalloc.so.2", "mimalloc": "libmimalloc.so.2*", "tcmalloc": "libtcmalloc_minimal.so.4"}
LUA = """local all = {}
for i = 1, 200000 do all[i] = {i, tostring(i)} end
local wait = os.time() + tonumber(arg[1])
while os.time() < wait do end
for line in io.lines("/proc/self/smaps_rollup") do
  local kib = line:match("^Rss: *(%d+) kB")
  if kib then io.write(string.format('{"rss_bytes": %d, "trimmed_bytes": 0}\\n', kib * 1024)) io.flush() end
end
os.exit(#all == 200000, false)"""


def first_site(classes, name):
    sites = classes[name]["sites"]
    return sites[0]["function"] if sites else None


def is_planted(pattern, classes, is_glibc):
    """Whether the pattern is in the class where it was planted and, for some patterns, at the function that planted it."""
    size = {name: row["bytes"] for name, row in classes.items()}
    largest = max(size, key=size.get)
    return {
        "pinned": lambda: largest == "pinned_free" and first_site(classes, "pinned_free") == "keep_block",
        "arenas": lambda: largest == "pinned_free" and first_site(classes, "pinned_free") == "keep_block",
        "untrimmed": lambda: not is_glibc or (largest == "returnable" and size["returnable"] > 30 * MIB),
        "trimmed": lambda: not is_glibc or size["returnable"] < MIB,
        "huge": lambda: largest == "live" and first_site(classes, "live") == "huge" and size["live"] >= 64 * MIB,
        "mapped": lambda: first_site(classes, "program_mappings") == "mapped" and 40 * MIB <= size["program_mappings"] < 41 * MIB,
        "stacks": lambda: 500 * 64 * KIB <= size["stacks"] < 500 * 80 * KIB and 500 * 20000 <= size["thread_storage"] < 500 * 30000,
        "files": lambda: 15 * MIB <= size["files"] < 24 * MIB and 9 * MIB <= size["private_file_copies"] < 11 * MIB,
        "managed": lambda: largest in ("managed_in_use", "live"),
    }[pattern]()


def judge(tools, allocator, library, pattern, seconds):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        if pattern == "managed":
            command = ["lua5.4", "-e", LUA.replace("arg[1]", str(seconds))]
        else:
            command = [tools.program("resident_patterns"), pattern, str(seconds), tools.program("storage_plugin.so")]
        outcome, traces = recorded.record(tools, command, folder, env={"LD_PRELOAD": library} if library else {})
        failures.expect("status " + outcome.stderr.decode(errors="replace"), outcome.status, 0)
        truth = json.loads(outcome.stdout)
        whole = recorded.report(tools, traces[0], "--view=rss")
        view = whole["end"] or whole
    classes = {row["class"]: row for row in view["classes"]}
    sizes = {name: row["bytes"] for name, row in classes.items() if row["bytes"] > 0}
    total, rss = sum(sizes.values()), truth["rss_bytes"]
    failures.expect("sum", total, view["rss_bytes"])
    failures.fail_unless("the sum is %d KiB, Rss %d KiB: %s" % (total // KIB, rss // KIB, sizes), abs(total - rss) <= max(rss // 100, 256 * KIB))
    failures.fail_unless("unknown: %s" % sizes, sizes.get("unknown", 0) * 100 <= total)
    failures.fail_unless("the planted pattern: %s, lines %s" % (sizes, {name: first_site(classes, name) for name in classes}),
                         is_planted(pattern, classes, library is None))
    if library is not None:
        failures.expect("malloc_trim with another allocator than glibc", view["trim_bytes"], 0)
    elif pattern != "managed":
        trimmed = truth["trimmed_bytes"]
        failures.fail_unless("malloc_trim: predicted %d KiB, was %d KiB: %s" % (view["trim_bytes"] // KIB, trimmed // KIB, sizes),
                             abs(view["trim_bytes"] - trimmed) <= max(trimmed * 3 // 100, MIB))
    return failures


def judge_patiently(tools, allocator, library, pattern):
    """The writer looks at the memory from time to time. On a busy machine, the program has to wait longer until the pattern is seen."""
    for seconds in 1, 4, 16:
        failures = judge(tools, allocator, library, pattern, seconds)
        if not failures:
            break
    return failures


def main():
    tools = recorded.tools_of_arguments()
    allocators = {"glibc": None}
    for name, library in LIBRARIES.items():
        allocators[name] = (sorted(glob.glob("/usr/lib/*-linux-gnu/" + library)) or [""])[0]
    patterns = ["pinned", "arenas", "untrimmed", "trimmed", "huge", "mapped", "stacks", "files", "managed"]
    recorded.hide_debug_files()
    results = tap.Plan(len(allocators) * len(patterns))
    for allocator, library in allocators.items():
        for pattern in patterns:
            name = "%s: %s" % (allocator, pattern)
            if library == "":
                results.skip(name, "%s is not installed" % LIBRARIES[allocator])
            elif pattern == "managed" and shutil.which("lua5.4") is None:
                results.skip(name, "lua5.4 is not installed")
            else:
                results.run(name, lambda allocator=allocator, library=library, pattern=pattern: judge_patiently(tools, allocator, library, pattern))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
