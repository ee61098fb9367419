#!/usr/bin/env python3
"""Tests --view=rss with fragmented.c, which has known blocks in use, free memory that these blocks pin, free memory that malloc_trim gives
back, and a mapping of its own. The program itself measures its resident memory, and how much malloc_trim gives back."""

import glob
import json
import os
import sys

import recorded
import tap

MIB = 1 << 20


def near(number, expected, margin):
    return abs(number - expected) <= margin


def site(classes, name, function):
    found = [row for row in classes[name]["sites"] if row["function"] == function]
    return found[0] if found else {"bytes": 0, "blocks": 0, "block_bytes": 0}


def look_after_frees(tools, folder, seconds, **how):
    before = set(recorded.traces_in(folder))
    outcome, traces = recorded.record(tools, [tools.program("fragmented"), str(seconds)], folder, **how)
    trace = (set(traces) - before).pop()
    return json.loads(outcome.stdout.decode()), recorded.report(tools, trace, "--view=rss"), trace


def divided(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for seconds in 2, 10, 30: # on a busy machine, the writer may not look within the time that the program waits
            truth, view, trace = look_after_frees(tools, folder, seconds)
            classes = {row["class"]: row for row in view["classes"]}
            if site(classes, "live", "fill_more")["bytes"] == 0:
                break
        total = sum(row["bytes"] for row in view["classes"])
        failures.expect("sum", total, view["rss_bytes"])
        failures.fail_unless("resident: %d, %s" % (total, truth), near(total, truth["resident_bytes"], MIB))
        failures.fail_unless("unknown: %s" % classes["unknown"], classes["unknown"]["bytes"] <= total // 100)
        returnable = classes["returnable"]["bytes"]
        failures.fail_unless("returnable: %d, %s" % (returnable, truth), near(returnable, truth["trimmed_bytes"], MIB))
        first = classes["pinned_free"]["sites"][0]
        failures.expect("the first line that pins memory", first["function"], "keep_small")
        failures.fail_unless("its blocks: %s" % first, first["blocks"] == 8001 and near(first["block_bytes"], 24 * 8001, 0))
        failures.fail_unless("what they pin: %s" % first, near(first["bytes"], 8000 * 4048, MIB))
        large, mapped = site(classes, "live", "keep_large"), site(classes, "program_mappings", "map_some")
        failures.fail_unless("large block: %s" % large, near(large["bytes"], 3 * MIB, 8192))
        failures.fail_unless("mapping: %s" % mapped, mapped["blocks"] == 1 and near(mapped["bytes"], 10 * MIB, 8192))
        text = recorded.run([tools.allogram, "report", trace, "--view=rss"])
        failures.require("text: %s" % text.stdout, text.status == 0 and b"keep_small" in text.stdout and b"returnable" in text.stdout)
        part = recorded.run([tools.allogram, "report", trace, "--view=rss", "--focus=main"])
        failures.require("a filter is refused: %s" % part.stderr, part.status != 0 and b"whole process" in part.stderr)
    return failures


def of_library(tools, library):
    """An allocator in a library maps its memory itself. This memory counts as memory of malloc; only the mapping of map_some counts as
    the program's."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, view, _ = look_after_frees(tools, folder, 2, env={"LD_PRELOAD": library})
        classes = {row["class"]: row for row in view["classes"]}
        failures.expect("sum", sum(row["bytes"] for row in view["classes"]), view["rss_bytes"])
        mapped = classes["program_mappings"]
        failures.fail_unless("mapped: %s" % mapped, near(mapped["bytes"], 10 * MIB, MIB // 4))
        failures.fail_unless("unknown: %s" % classes["unknown"], classes["unknown"]["bytes"] <= view["rss_bytes"] // 100)
    return failures


def found(tools):
    """The summary names the line whose blocks keep most free memory resident, and says how much this is and what malloc_trim would give back."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for seconds in 2, 10, 30:
            truth, view, trace = look_after_frees(tools, folder, seconds)
            if site({row["class"]: row for row in view["classes"]}, "live", "fill_more")["bytes"] == 0:
                break
        summary = recorded.report(tools, trace)
        explained = recorded.run([tools.allogram, "explain", trace])
    findings = [row for row in summary["findings"] if row["kind"] == "resident_free"]
    failures.expect("findings on resident memory", len(findings), 1)
    for row in findings:
        pinned = next(part for part in view["classes"] if part["class"] == "pinned_free")
        failures.expect("the line", (row["function"], row["blocks"], row["bytes"]), ("keep_small", 8001, 24 * 8001))
        failures.expect("what it pins", row["line_pinned_bytes"], pinned["sites"][0]["bytes"])
        failures.fail_unless("malloc_trim: %s, %s" % (row, truth), near(row["trim_bytes"], truth["trimmed_bytes"], MIB))
        failures.require("text: %s" % row["text"], "188 KiB in 8,001 blocks" in row["text"] and "malloc_trim(0) would give" in row["text"])
    failures.require("explain says it: %s" % explained.stdout, b"resident_free" in explained.stdout and b"keep_small" in explained.stdout)
    return failures


def same_names(tools):
    """`observe --rss` and `report --view=rss` have one list of classes. Only a recording divides the memory of allocators."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, view, _ = look_after_frees(tools, folder, 2)
    names = [row["class"] for row in view["classes"]]
    seen = recorded.run([tools.allogram, "observe", str(os.getpid()), "--rss", "--json"])
    of_mappings = [row["class"] for row in json.loads(seen.stdout)["classes"]]
    failures.expect("only in observe", [name for name in of_mappings if name not in names], ["heap", "anonymous"])
    failures.expect("in both, in this order", [name for name in of_mappings if name in names], [name for name in names if name in of_mappings])
    failures.expect("only in a recording", [name for name in names if name not in of_mappings],
                    ["live", "rounding", "pinned_free", "returnable", "program_mappings", "managed_in_use", "managed_free", "unknown"])
    return failures


def main():
    tools = recorded.tools_of_arguments()
    libraries = sorted(glob.glob("/usr/lib/*-linux-gnu/libjemalloc.so.2"))
    results = tap.Plan(3 + len(libraries))
    for library in libraries:
        results.run("memory of " + os.path.basename(library), lambda library=library: of_library(tools, library))
    results.run("a finding names the line that pins most", lambda: found(tools))
    results.run("the classes are those of observe --rss", lambda: same_names(tools))
    results.run("resident memory is divided into its parts", lambda: divided(tools))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
