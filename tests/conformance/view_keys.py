#!/usr/bin/env python3
"""The JSON keys of every view, of diff, check and doctor, with the kind of value of each key.

Scripts of users rely on the keys in the tables below. If the output gets a new key, add it here. Do not remove or rename a key, or change
the kind of its value."""

import json
import sys

import recorded
import tap

NUMBER, TEXT, FLAG, NOTHING = "number", "text", "flag", "null"
TEXT_OR_NULL, NUMBER_OR_NULL = (TEXT, NOTHING), (NUMBER, NOTHING)
METRICS = {name: NUMBER for name in ("allocated_bytes allocated_blocks in_use_bytes in_use_blocks peak_bytes peak_blocks "
                                     "temporary_blocks freed_bytes freed_blocks").split()}
SIGNED = METRICS
MAPPINGS = {**METRICS, "n_mappings": NUMBER, "mapped_bytes": NUMBER, "growth_bytes": NUMBER_OR_NULL, "resident_bytes": NUMBER_OR_NULL,
            "untouched_bytes": NUMBER_OR_NULL}
FRAME = {"function": TEXT_OR_NULL, "file": TEXT_OR_NULL, "line": NUMBER_OR_NULL, "image": TEXT_OR_NULL, "runtime": TEXT_OR_NULL}
STACKS = {"stacks": [{**METRICS, "frames": [FRAME]}]}
TRACE = {"file": TEXT, "format_version": NUMBER, "pid": NUMBER, "command": [TEXT], "exe": TEXT, "mode": TEXT,
         "interval_bytes": NUMBER_OR_NULL, "time_resolution_ns": NUMBER, "duration_ns": NUMBER, "end": TEXT}
TIMES = {"min": NUMBER_OR_NULL, "mean": NUMBER_OR_NULL, "p50": NUMBER_OR_NULL, "p99": NUMBER_OR_NULL, "max": NUMBER_OR_NULL}
TREE = {**FRAME, **METRICS, "own": METRICS}

# (view, options of `report`): the form of the JSON object, that is its keys besides schema, view and trace, with the form of each value. The
# form of a list contains the form of its elements, and the list must not be empty. ANY_LIST: a list that may be empty.
ANY_LIST = "any list"
VIEWS = {
    ("summary",): {
        **{name: NUMBER for name in ("allocated_blocks allocated_bytes freed_blocks freed_bytes in_use_blocks_at_end "
                                     "in_use_bytes_at_end peak_bytes peak_blocks peak_time_ns temporary_blocks ghost_frees "
                                     "unique_stacks truncated_stacks threads rss_peak_bytes").split()},
        "rss_peak_time_ns": NUMBER_OR_NULL, "lost_events": {"total": NUMBER}, "program_mappings": (NOTHING, "object"),
        "runtimes": [{"name": TEXT, "version": TEXT, "hooked": FLAG, "coverage": NUMBER_OR_NULL, "note": TEXT}],
        "gc": ANY_LIST,
        "profiler": {"rss_bytes": NUMBER, "cpu_ns": NUMBER, "target_cpu_ns": NUMBER}},
    ("sites",): {"sites": [{**FRAME, "own": METRICS, "total": METRICS}]},
    ("sites", "--by=label"): {"sites": [{**FRAME, "label": TEXT_OR_NULL, "own": METRICS, "total": METRICS}]},
    ("lifetimes", "--by=label"): {"sites": [{"label": TEXT_OR_NULL, "blocks": NUMBER}]},
    ("tree",): {"root": {**TREE, "children": [TREE]}},
    ("tree", "--bottom-up"): {"root": {**TREE, "children": [TREE]}},
    ("types",): {"types": [{"type": TEXT_OR_NULL, "runtime": TEXT, **METRICS, "lifetime_ns": TIMES}]},
    ("types", "--type=untyped"): STACKS,
    ("blocks", "--state=open,closed,ghost"): {"blocks": [{
        "state": TEXT, "address": NUMBER, "size": NUMBER_OR_NULL, "type": TEXT_OR_NULL,
        "label": TEXT_OR_NULL, "tag": {"domain": TEXT_OR_NULL, "allocator": TEXT_OR_NULL}, "allocated_ns": NUMBER_OR_NULL,
        "freed_ns": NUMBER_OR_NULL, "stack": [FRAME], "free_stack": (NOTHING, "list")}]},
    ("leaks",): STACKS,
    ("peak",): STACKS,
    ("temporary", "--within=100000"): STACKS,
    ("lifetimes",): {"sites": [{"function": TEXT_OR_NULL, "file": TEXT_OR_NULL, "line": NUMBER_OR_NULL, "type": TEXT_OR_NULL,
                                "blocks": NUMBER, "ended": NUMBER, "lifetime_ns": {**TIMES, "p90": NUMBER_OR_NULL},
                                "survived_collections": {"mean": NUMBER_OR_NULL, "max": NUMBER_OR_NULL}}],
                     "histogram": [{"from_ns": NUMBER, "to_ns": NUMBER, "blocks": NUMBER, "bytes": NUMBER}]},
    ("timeline",): {"points": [{"time_ns": NUMBER, "in_use_bytes": NUMBER, "in_use_blocks": NUMBER, "allocated_bytes": NUMBER,
                                "rss_bytes": NUMBER}]},
    ("heaps",): {"heaps": [{"name": TEXT, "domain": TEXT, "allocator": TEXT, "runtime": TEXT, "allocated_bytes": NUMBER,
                            "in_use_bytes": NUMBER, "peak_bytes": NUMBER, "mapped_bytes": NUMBER,
                            "resident_bytes": NUMBER_OR_NULL}],
                 "memory": [{"name": TEXT, "time_ns": NUMBER_OR_NULL, "reserved_bytes": NUMBER_OR_NULL, "committed_bytes": NUMBER_OR_NULL,
                             "in_use_bytes": NUMBER, "lent_bytes": NUMBER, "fragmentation_bytes": NUMBER_OR_NULL,
                             "free_bytes": NUMBER_OR_NULL, "of_malloc_bytes": NUMBER_OR_NULL}],
                 "memory_total": {"reserved_bytes": NUMBER, "committed_bytes": NUMBER, "in_use_bytes": NUMBER, "fragmentation_bytes": NUMBER,
                                  "resident_bytes": NUMBER_OR_NULL}},
    ("threads",): {"threads": [{"id": NUMBER, "name": TEXT, "allocated_bytes": NUMBER, "allocated_blocks": NUMBER,
                                "freed_blocks": NUMBER}],
                   "pairs": [{"allocated_by": NUMBER, "freed_by": NUMBER, "blocks": NUMBER, "bytes": NUMBER}]},
    ("mappings",): {"resident_time_ns": NUMBER_OR_NULL, "total": MAPPINGS,
                    "mappings": [{**FRAME, **MAPPINGS, "via": TEXT, "heap": TEXT, "state": TEXT, "frames": [FRAME]}]},
    ("mappings", "--by=line"): {"total": MAPPINGS, "mappings": [{**FRAME, **MAPPINGS}]},
    ("mappings", "--by=thread"): {"total": MAPPINGS, "mappings": [{**FRAME, **MAPPINGS, "thread": TEXT}]},
}
PROCESSES = {"processes": [{"pid": NUMBER, "parent_pid": NUMBER_OR_NULL, "file": TEXT, "parent_file": TEXT_OR_NULL, "was_executed": FLAG,
                            "session": TEXT_OR_NULL, "command": [TEXT], "exe": TEXT, "mode": TEXT, "start_ns": NUMBER, "duration_ns": NUMBER,
                            "end": TEXT, "exit_status": NUMBER_OR_NULL, "signal": NUMBER_OR_NULL, **METRICS, "rss_peak_bytes": NUMBER_OR_NULL,
                            "with_descendants": METRICS, "missing": {"lost_events": NUMBER}}],
             "total": {"processes": NUMBER, "programs": NUMBER, **METRICS, "lost_events": NUMBER, "lost_stacks": NUMBER},
             "repeated_traces": NUMBER}
DIFF = {"sites": [{"function": TEXT, "file": TEXT_OR_NULL, "line": NUMBER_OR_NULL, **SIGNED}], "total": SIGNED}
CHECK = {"whole": FLAG, "events": NUMBER, "lost_events": {"total": NUMBER}, "damage": (NOTHING, "object")}
DOCTOR = {"checks": [{"name": TEXT, "ok": FLAG, "why": TEXT_OR_NULL, "fix": TEXT_OR_NULL}]}


def kind_of(value):
    kinds = {bool: FLAG, int: NUMBER, str: TEXT, type(None): NOTHING, list: "list", dict: "object"}
    return kinds.get(type(value), type(value).__name__)  # a fraction is no NUMBER, because all counts are integers


def compare(failures, what, value, form):
    if form is ANY_LIST:
        failures.fail_unless("%s: %s, not a list" % (what, kind_of(value)), isinstance(value, list))
    elif isinstance(form, dict):
        if not isinstance(value, dict):
            failures.append("%s: %s, not an object" % (what, kind_of(value)))
            return
        for key, inner in form.items():
            if key in value:
                compare(failures, what + "." + key, value[key], inner)
            else:
                failures.append("%s: no key %s" % (what, key))
    elif isinstance(form, list):
        failures.fail_unless("%s: %s, not a list with elements" % (what, kind_of(value)), isinstance(value, list) and len(value) > 0)
        for element in value if isinstance(value, list) else []:
            compare(failures, what + "[]", element, form[0])
            if failures:
                return  # reports only the first wrong element
    else:
        allowed = form if isinstance(form, tuple) else (form,)
        failures.fail_unless("%s: %s, should be %s" % (what, kind_of(value), " or ".join(allowed)), kind_of(value) in allowed)


def envelope(failures, report, view):
    failures.expect("schema", report.get("schema"), "allogram-report/1")
    failures.expect("view", report.get("view"), view)
    compare(failures, "trace", report.get("trace"), TRACE)
    failures.require("the end of the trace is one of the known words: %s" % report["trace"]["end"], report["trace"]["end"] in ("exit", "signal", "detached", "running", "cut"))


def one_view(tools, trace, view, *options):
    failures = tap.Failures()
    report = recorded.report(tools, trace, "--view=" + view, *options)
    envelope(failures, report, view)
    compare(failures, view, report, VIEWS[(view, *options)])
    return failures


def printed(tools, *words):
    return json.loads(recorded.run([tools.allogram, *words, "--json"]).stdout)


def program_mappings(tools, trace):
    failures = tap.Failures()
    form = {**FRAME, "peak_bytes": NUMBER, "without_access": FLAG, "line_bytes": NUMBER}
    compare(failures, "program_mappings", recorded.report(tools, trace)["program_mappings"], form)
    return failures


def several(tools, *traces):
    failures = tap.Failures()
    reports = recorded.report(tools, traces[0], *traces[1:])
    failures.expect("keys", sorted(reports), ["reports", "schema"])
    failures.expect("reports", len(reports["reports"]), len(traces))
    for report in reports["reports"]:
        envelope(failures, report, "summary")
        compare(failures, "summary", report, VIEWS[("summary",)])
    return failures


def process_tree(tools, *traces):
    failures = tap.Failures()
    report = recorded.report(tools, traces[0], *traces[1:], "--view=process_tree")
    failures.expect("schema and view", (report["schema"], report["view"]), ("allogram-report/1", "process_tree"))
    compare(failures, "process_tree", report, PROCESSES)
    return failures


def others(tools, before, after):
    failures = tap.Failures()
    diff = printed(tools, "diff", before, after)
    envelope(failures, diff, "diff")
    compare(failures, "diff", diff, DIFF)
    compare(failures, "check", printed(tools, "check", after), CHECK)
    compare(failures, "doctor", printed(tools, "doctor"), DOCTOR)
    return failures


def hostile_forms():
    """Shows that this test can fail: `compare` must report each of the values below, because none has the form that follows it."""
    failures = tap.Failures()
    for value, form in (({}, {"a": NUMBER}), ({"a": "1"}, {"a": NUMBER}), ({"a": 1.5}, {"a": NUMBER}), ({"a": True}, {"a": NUMBER}),
                        ({"a": []}, {"a": [NUMBER]}), ({"a": [{"b": 1}, {}]}, {"a": [{"b": NUMBER}]}), ({"a": None}, {"a": TEXT})):
        found = tap.Failures()
        compare(found, "", value, form)
        failures.fail_unless("%s passes for %s" % (value, form), bool(found))
    return failures


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    results = tap.Plan(len(VIEWS) + 5)
    results.run("a missing key or another kind is seen", hostile_forms)
    with recorded.Folder() as folder:
        for program in ("phases", "forgetful"):
            recorded.record(tools, [tools.program(program)], folder)
        both = recorded.traces_in(folder)
        both.sort(key=lambda path: recorded.report(tools, path)["threads"])
        forgetful, phases = both
        with recorded.Folder() as place:
            mapped = recorded.record(tools, [tools.program("mapped_memory"), "touched"], place)[1][0]
            for options in VIEWS:
                trace = mapped if options[0] == "mappings" else phases
                results.run(" ".join(options), lambda options=options, trace=trace: one_view(tools, trace, *options))
            results.run("the summary's line about mappings", lambda: program_mappings(tools, mapped))
        results.run("several traces", lambda: several(tools, *both))
        results.run("process_tree", lambda: process_tree(tools, *both))
        results.run("diff, check, doctor", lambda: others(tools, forgetful, phases))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
