#!/usr/bin/env python3
"""A finding is a line of the summary that names a likely fault of the program, with the number that is the reason. For a program with one
deliberate fault, `report` must show exactly one finding, with the line and the numbers of this fault; for a program without faults, no
finding. If an option of `report`, or a merge of traces, removes the events that show the fault, `report` must not show the finding."""

import json
import os
import re
import shutil
import subprocess
import sys

import recorded
import tap

# fault: the finding's kind, its function, and the numbers that the finding must show
FAULTS = {
    "none": None,
    "cache": None,
    "newest": None,
    "older": None,
    "leak": ("growing_leak", "leak", {"blocks": 20000, "bytes": 960000, "merged_lines": 0, "merged_bytes": 0}),
    # blocks and bytes: of the line that the finding names; merged_blocks and merged_bytes: of the other line, which the finding also counts
    "pairs": ("growing_leak", "pairs", {"blocks": 20000, "bytes": 960000, "merged_lines": 1, "merged_blocks": 20000, "merged_bytes": 640000}),
    "sometimes": ("growing_leak", "sometimes", {"blocks": 2000, "bytes": 96000}),
    "storm": ("temporary_storm", "storm", {"blocks": 60000}),
    "peak": ("peak_holder", "peak", {"blocks": 64, "bytes": 64 * 65536}),
    "foreign": ("foreign_frees", "foreign", {"blocks": 40000, "bytes": 1920000}),
    "steps": ("constant_steps", "steps", {"blocks": 4999, "step_bytes": 64, "largest_bytes": 320000,
                                          "bytes": 64 * sum(range(2, 5001))}),
    "unseen": ("unseen_allocations", None, {}),
    "outsized": ("outsized_blocks", "make", {"blocks": 1, "bytes": 4 << 20, "largest_bytes": 4 << 20, "other_blocks": 500,
                                             "other_bytes": 500 * 32}),
}


def planted_line(fault):
    return recorded.line_of("faults.c", "FAULT " + fault)


def finds(tools, fault, wanted):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("faults"), fault], folder)
        failures.expect("exit status", outcome.status, 0)
        findings = recorded.report(tools, traces[0])["findings"]
        failures.expect("kinds", [finding["kind"] for finding in findings], [wanted[0]] if wanted else [])
        text = subprocess.run([tools.allogram, "report", traces[0]], capture_output=True, text=True, check=True).stdout
        failures.expect("findings in the text", text.count("look at"), len(findings))
        for trace in traces[1:]:
            failures.expect("kinds in a child", [finding["kind"] for finding in recorded.report(tools, trace)["findings"]], [])
        if failures or not wanted:
            return failures
        kind, function, numbers = wanted
        finding = findings[0]
        if function is None:
            return failures + unseen(tools, folder, finding)
        failures.expect("numbers", {key: finding[key] for key in numbers}, numbers)
        failures.expect("function", finding["function"], function)
        failures.expect("line", finding["line"], planted_line(fault))
        if finding.get("merged_lines"):
            failures.require("the text has the sums of the other line apart: " + text, "; 1 more line of this function or of functions that it calls leaves" in " ".join(text.split()))
        command = re.search(r"-> allogram report (.*)", text)[1]
        failures.fail_unless("the text and the JSON name different commands", command.endswith(finding["options"]))
        more = subprocess.run('"%s" report %s' % (tools.allogram, command), shell=True, capture_output=True, text=True,
                              check=False)
        failures.expect("status of the command that shows more", more.returncode, 0)
        failures.fail_unless("the command of the finding does not show the finding's function", function in more.stdout or kind == "foreign_frees")
    return failures


def unseen(tools, folder, finding):
    """Checks the finding that allocations were not recorded. With --free-stacks the finding also names the line that frees most of the
    blocks without a recorded allocation, and the object file of this line."""
    failures = tap.Failures()
    failures.require("nearly 60000 blocks, because the first free of each address does not count: %d" % finding["blocks"], 59000 <= finding["blocks"] < 60000)
    failures.require("the finding names no line if frees have no stacks", "function" not in finding)
    shutil.rmtree(folder)
    os.mkdir(folder)
    _, traces = recorded.record(tools, [tools.program("faults"), "unseen"], folder, ["--free-stacks"])
    findings = recorded.report(tools, traces[0])["findings"]
    failures.expect("kind, function, line and object file with stacks of frees", [(row["kind"], row["function"], row["line"], os.path.basename(row["image"])) for row in findings],
                    [("unseen_allocations", "unseen", planted_line("unseen"), "faults")])
    return failures


# fault: options of `report` with which the finding must remain, and options with which it must not be shown
NARROWED = {
    "leak": (["--focus=^leak$"], ["--ignore=^leak$", "--to=HALF", "--focus=^work$"]),
    "peak": (["--focus=^peak$"], ["--ignore=^peak$", "--from=HALF"]),
    "foreign": ([], ["--thread=TID", "--ignore=^work$"]),
}


def narrowed(tools, fault, kept, taken):
    failures = tap.Failures()
    kind = FAULTS[fault][0]
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("faults"), fault], folder)
        failures.expect("exit status", outcome.status, 0)
        whole = recorded.report(tools, traces[0])
        for options, wanted in [([], [kind])] + [([option], [kind]) for option in kept] + [([option], []) for option in taken]:
            given = [option.replace("HALF", "%dns" % (whole["trace"]["duration_ns"] // 2)).replace("TID", str(whole["trace"]["pid"]))
                     for option in options]
            found = recorded.report(tools, traces[0], *given)
            failures.expect("kinds with " + " ".join(given), [finding["kind"] for finding in found["findings"]], wanted)
            failures.expect("findings_complete with " + " ".join(given), found["findings_complete"], True)
        merged = recorded.run([tools.allogram, "report", "--merge", "--json", traces[0], traces[0]])
        kinds = {"leak": [], "peak": ["peak_holder"], "foreign": ["foreign_frees"]}[fault]
        found = json.loads(merged.stdout)
        failures.expect("kinds when merged", [finding["kind"] for finding in found["findings"]], kinds)
        failures.expect("findings_complete when merged", found["findings_complete"], False)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    results = tap.Plan(len(FAULTS) + len(NARROWED))
    for fault, wanted in FAULTS.items():
        results.run(fault, lambda fault=fault, wanted=wanted: finds(tools, fault, wanted))
    for fault, (kept, taken) in NARROWED.items():
        results.run(fault + " narrowed", lambda fault=fault, kept=kept, taken=taken: narrowed(tools, fault, kept, taken))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
