#!/usr/bin/env python3
"""Labels that a program sets with allogram.h (labelled.c), in every report and export that shows them. The comment at the top of
labelled.c has the expected counts."""

import csv
import json
import os
import shutil
import sys

import recorded
import tap

NODES = { # of the heap "nodes": label: blocks, bytes, blocks in use
    "load": (3, 300, 3),
    "request 1": (5, 50, 0),
    "request 2": (5, 50, 0),
    None: (4, 28, 4),
}
WITH_MALLOC = {"load": (5, 2300, 5), "request 1": (6, 550, 0), "request 2": (6, 550, 0)}


def alone(tools, folder):
    outcome = recorded.run([tools.program("labelled")], cwd=folder)
    return os.path.join(folder, outcome.stdout.decode().strip())


def by_label(tools, *arguments):
    sites = recorded.report(tools, *arguments, "--view=sites", "--by=label")["sites"]
    keys = ("allocated_blocks", "allocated_bytes", "in_use_blocks")
    return {row["label"]: tuple(row["own"][key] for key in keys) for row in sites}


def sites(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = alone(tools, folder)
        failures.expect("blocks by label, without `run`", by_label(tools, trace), NODES)
        failures.expect("only blocks with work() in their stack", by_label(tools, trace, "--focus=^work$"),
                        {"request 1": NODES["request 1"], "request 2": NODES["request 2"]})
        by_function = {row["function"]: row["own"]["allocated_blocks"]
                       for row in recorded.report(tools, trace, "--view=sites")["sites"] if row["own"]["allocated_blocks"] > 0}
        failures.expect("blocks by function, of all labels", by_function, {"work": 10, "load": 3, "idle": 4})
        text = recorded.run([tools.allogram, "report", trace, "--view=sites", "--by=label"]).stdout.decode()
        failures.require("the text has the labels: " + text, "request 2" in text and "no label" in text)
        both = by_label(tools, trace, alone(tools, folder), "--merge")
        failures.expect("two merged traces", both, {label: tuple(2 * n for n in sums) for label, sums in NODES.items()})
    return failures


def under_run(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, traces = recorded.record(tools, [tools.program("labelled")], folder)
        found = by_label(tools, traces[0])
        failures.expect("blocks by label, with those of malloc", {label: found.get(label) for label in WITH_MALLOC}, WITH_MALLOC)
        failures.expect("blocks of scratch() by label", by_label(tools, traces[0], "--focus=^scratch$"),
                        {"request 1": (1, 500, 0), "request 2": (1, 500, 0)})
        _, traces = recorded.record(tools, [tools.program("labelled")], folder, ["--mode=sample", "--interval=1"])
        found = by_label(tools, traces[-1])
        failures.expect("blocks by label, sampled at an interval of one byte", {label: found.get(label) for label in WITH_MALLOC}, WITH_MALLOC)
    return failures


def blocks_and_lives(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = alone(tools, folder)
        counted = {}
        for block in recorded.report(tools, trace, "--view=blocks")["blocks"]:
            key = (block["label"], block["size"], block["type"], block["state"])
            counted[key] = counted.get(key, 0) + 1
        failures.expect("blocks", counted, {("load", 100, None, "open"): 3, ("request 1", 10, "job", "closed"): 5,
                                            ("request 2", 10, "job", "closed"): 5, (None, 7, None, "open"): 4})
        text = recorded.run([tools.allogram, "report", trace, "--view=blocks"]).stdout.decode()
        failures.require("the text has type and label of five blocks", " ".join(text.split()).count("job in request 1") == 5)
        lives = recorded.report(tools, trace, "--view=lifetimes", "--by=label")["sites"]
        failures.expect("lifetimes", {row["label"]: (row["blocks"], row["ended"]) for row in lives},
                        {"load": (3, 0), "request 1": (5, 5), "request 2": (5, 5), None: (4, 0)})
        _, traces = recorded.record(tools, [tools.program("labelled")], folder)
        outcome = recorded.run([tools.allogram, "diff", trace, traces[0], "--by=label", "--json"])
        rows = {row["label"]: row["allocated_bytes"] for row in json.loads(outcome.stdout)["sites"]}
        failures.expect("diff of a trace without malloc and one with malloc", {label: rows.get(label) for label in WITH_MALLOC},
                        {label: sums[1] - NODES[label][1] for label, sums in WITH_MALLOC.items()})
    return failures


def exported(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = alone(tools, folder)

        def export(form):
            path = os.path.join(folder, "out." + form)
            failures.expect(form, recorded.run([tools.allogram, "export", trace, "--to=" + form, "-o", path]).status, 0)
            return path

        wanted = {label or "": sums[1] for label, sums in NODES.items()}
        with open(export("csv"), encoding="utf-8", newline="") as file:
            failures.expect("sums by label in csv", added(csv.DictReader(file)), wanted)
        with open(export("json"), encoding="utf-8") as file:
            failures.expect("sums by label in json", added(json.load(file)["stacks"]), wanted)
        path = export("pprof")
        go = shutil.which("go")
        if go is None:
            return failures
        shown = recorded.run([go, "tool", "pprof", "-sample_index=alloc_space", "-tags", path]).stdout.decode()
        for label, sums in NODES.items():
            if label is not None:
                lines = [line for line in shown.splitlines() if line.endswith(": " + label)]
                failures.expect("pprof's %s: %s" % (label, shown), [line.split()[0] for line in lines], ["%d.0B" % sums[1]])
        shown = recorded.run([go, "tool", "pprof", "-sample_index=alloc_space", "-tagfocus=label=request 1", "-top", path]).stdout.decode()
        failures.require("pprof's focus: " + shown, "Showing nodes accounting for 50B" in shown)
    return failures


def added(rows):
    sums = {}
    for row in rows:
        label = row["label"] or ""
        sums[label] = sums.get(label, 0) + int(row["allocated_bytes"])
    return sums


def main():
    tools = recorded.tools_of_arguments()
    results = tap.Plan(4)
    results.run("sites by label", lambda: sites(tools))
    results.run("under run", lambda: under_run(tools))
    results.run("blocks, lifetimes, diff", lambda: blocks_and_lives(tools))
    results.run("exports", lambda: exported(tools))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
