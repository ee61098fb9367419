#!/usr/bin/env python3
"""`run --filter` records exactly the blocks that the filter selects, compared with a full recording of the same program. No other block,
no ghost free (the free of a block whose allocation is not in the trace) and no lost event may be in the trace."""

import fnmatch
import os
import sys

import recorded
import tap

LUA = "/usr/bin/lua5.4"
LUA_SCRIPT = recorded.source_of("lua_cases.lua")

# A filter expression, and the same condition as a function of a block's size, domain, allocator and type (None: the type is not known
# when the block is allocated).
FILTERS = {
    "size=4K..": lambda size, domain, allocator, kind: size >= 4096,
    "!size=0..100": lambda size, domain, allocator, kind: size > 100,
    "size=..64,allocator=malloc": lambda size, domain, allocator, kind: size <= 64 and allocator == "malloc",
    "allocator=new": lambda size, domain, allocator, kind: allocator == "new",
    "!allocator=new": lambda size, domain, allocator, kind: allocator != "new",
    "domain=gpu": lambda size, domain, allocator, kind: domain == "gpu",
    "!domain=cpu,size=..10K": lambda size, domain, allocator, kind: domain != "cpu" and size <= 10240,
    "heap=nodes": lambda size, domain, allocator, kind: allocator == "arena",
    "type=*node": lambda size, domain, allocator, kind: fnmatch.fnmatchcase(kind or "", "*node"),
    "!type=list?node": lambda size, domain, allocator, kind: kind != "list node",
    "type=tree*,domain=cpu,size=100..300": lambda size, domain, allocator, kind:
        domain == "cpu" and 100 <= size <= 300 and (kind or "").startswith("tree"),
}
LUA_FILTERS = {
    "allocator=lua": lambda size, domain, allocator, kind: allocator == "lua",
    "!allocator=lua": lambda size, domain, allocator, kind: allocator != "lua",
    "type=table": lambda size, domain, allocator, kind: kind == "table",
    "allocator=lua,size=40..60": lambda size, domain, allocator, kind: allocator == "lua" and 40 <= size <= 60,
}
NO_TYPES = {"malloc", "new"} # `report` derives the types of these blocks from their stacks; a filter cannot know these types


def blocks_of(tools, trace):
    """(state, size, domain, allocator, type) of each block that is no ghost, sorted."""
    found = []
    for block in recorded.report(tools, trace, "--view=blocks", "--state=open,closed")["blocks"]:
        tag = block["tag"]
        kind = None if tag["allocator"] in NO_TYPES else block["type"]
        found.append((block["state"], block["size"], tag["domain"], tag["allocator"], kind or ""))
    return sorted(found)


def compare(tools, all_traces, traces, takes, expression, failures):
    failures.expect("number of traces", len(traces), len(all_traces))
    for whole, trace in zip(all_traces, traces):
        wanted = [block for block in blocks_of(tools, whole) if takes(block[1], block[2], block[3], block[4] or None)]
        found = blocks_of(tools, trace)
        if found != wanted:
            failures.append("%d blocks, should be %d; missing %s, too many %s" % (
                len(found), len(wanted), sorted(set(wanted) - set(found))[:5], sorted(set(found) - set(wanted))[:5]))
        failures.expect("status of check", recorded.check(tools, trace)[0], 0)
        summary = recorded.report(tools, trace)
        failures.expect("lost events", summary["lost_events"]["total"], 0)
        failures.expect("filter in the trace", summary["trace"].get("filter"), expression)


def ghosts(tools, trace):
    return recorded.report(tools, trace)["ghost_frees"]


def filter_records_exactly_the_selected_blocks(tools, expression, takes):
    failures = tap.Failures()
    with recorded.Folder() as whole, recorded.Folder() as folder:
        _, all_traces = recorded.record(tools, [tools.program("filtered")], whole)
        outcome, traces = recorded.record(tools, [tools.program("filtered")], folder, ["--filter=" + expression])
        failures.expect("status", (outcome.status, outcome.stderr), (0, b""))
        compare(tools, all_traces, traces, takes, expression, failures)
        if len(traces) == 2: # a child frees a block of its parent: 999 bytes from calloc
            is_selected = takes(999, "cpu", "malloc", None)
            parent, child = (recorded.report(tools, trace) for trace in traces)
            failures.expect("ghost and inherited frees of the parent", (parent["ghost_frees"], parent["inherited_frees"]), (0, 0))
            failures.require("inherited frees of the child: %d" % child["inherited_frees"], child["inherited_frees"] >= is_selected)
            failures.require("no inherited free of a block that the filter leaves out",
                             is_selected or "allocator" in expression or child["inherited_frees"] == 0)
            failures.expect("ghost frees of the child", child["ghost_frees"], 0)
        texts = [recorded.run([tools.allogram, "report", trace]).stdout.decode() for trace in traces]
        failures.require("every report names the filter", all("only --filter=" + expression in text for text in texts))
        undecided = recorded.report(tools, traces[0])["trace"]["filter_undecided"]
        failures.expect("blocks are reported that the filter could not decide", undecided != [], "type" in expression)
    return failures


def filter_of_lua(tools, expression, takes):
    failures = tap.Failures()
    with recorded.Folder() as whole, recorded.Folder() as folder:
        command = [LUA, LUA_SCRIPT, "hand_counted"]
        _, all_traces = recorded.record(tools, command, whole)
        _, traces = recorded.record(tools, command, folder, ["--filter=" + expression])
        failures.expect("number of traces", len(traces), len(all_traces))
        wanted = [block for block in blocks_of(tools, all_traces[0]) if takes(*block[1:4], block[4] or None)]
        found = blocks_of(tools, traces[0])
        # The number of Lua's blocks differs between runs, because Lua seeds its string hashes with addresses.
        failures.require("the filter selects %d blocks, about %d" % (len(found), len(wanted)), abs(len(found) - len(wanted)) <= len(wanted) / 50)
        failures.require("the full recording has blocks that the filter selects", wanted != [])
        failures.require("only blocks that the filter selects", all(takes(*block[1:4], block[4] or None) for block in found))
        failures.expect("ghost frees", ghosts(tools, traces[0]), 0)
    return failures


def sampled_with_a_filter(tools):
    """At a sampling interval of one byte every block is a sample, unless the filter leaves out the block."""
    failures = tap.Failures()
    expression, takes = "size=4K..,allocator=malloc", lambda size, domain, allocator, kind: size >= 4096 and allocator == "malloc"
    with recorded.Folder() as whole, recorded.Folder() as folder:
        _, all_traces = recorded.record(tools, [tools.program("filtered")], whole)
        _, traces = recorded.record(tools, [tools.program("filtered")], folder,
                                    ["--mode=sample", "--interval=1", "--filter=" + expression])
        compare(tools, all_traces, traces, takes, expression, failures)
    return failures


def run_names_the_filter(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome = recorded.run([tools.allogram, "run", "-o", "t", "--filter=type=*node", "--", tools.program("filtered")], cwd=folder)
        text = outcome.stderr.decode()
        failures.require("the summary names the filter: " + text, "recorded only --filter=type=*node" in text)
        failures.require("the summary names the blocks that the filter could not decide: " + text, "the type of a block in malloc" in text)
        failures.require("the summary has six lines", text.count("\n") == 6)
        outcome = recorded.run([tools.program("filtered")], cwd=folder, env={"ALLOGRAM_FILTER": "size=1"})
        failures.expect("status without `run`, with ALLOGRAM_FILTER set", outcome.status, 0)
        outcome = recorded.run([tools.allogram, "run", "true"], cwd=folder, env={"ALLOGRAM_FILTER": "size=1"})
        failures.expect("status, message for a wrong ALLOGRAM_FILTER", (outcome.status, outcome.stderr.startswith(b"allogram: ALLOGRAM_FILTER=size=1: ")),
                        (125, True))
    return failures


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    results = tap.Plan(len(FILTERS) + len(LUA_FILTERS) + 2)
    cases = {"filtered": (FILTERS, filter_records_exactly_the_selected_blocks), "lua": (LUA_FILTERS, filter_of_lua)}
    for name, (filters, case) in cases.items():
        is_there = os.path.exists(LUA if name == "lua" else tools.program("filtered"))
        for expression, takes in filters.items():
            if is_there:
                results.run("%s: %s" % (name, expression), lambda e=expression, t=takes, c=case: c(tools, e, t))
            else:
                results.skip("%s: %s" % (name, expression), "%s is not here" % name)
    results.run("a sampled recording with a filter", lambda: sampled_with_a_filter(tools))
    results.run("the closing summary of run names the filter", lambda: run_names_the_filter(tools))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
