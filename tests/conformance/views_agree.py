#!/usr/bin/env python3
"""The views of a trace agree: the sums of each view equal those of the summary. The traces are tested without options and with options that
select a part of the trace. The page has the lines of the summary and of the findings, with the same numbers. In traces of programs with a runtime,
--runtime=NAME must select the same blocks in all views."""

import base64
import collections
import json
import os
import re
import shutil
import sys
import time
import zlib

import ocaml_programs
import recorded
import snapshots
import tap

PROGRAMS = ("family", "cross_free", "recursion", "temporary", "plugins", "short_threads", "longjmp_deep", "cxx_containers",
            "cxx_types", "rust_types", "rust_global_allocator", "rust_global_allocator_plain")
METRICS = ("allocated_bytes", "allocated_blocks", "in_use_bytes", "in_use_blocks", "peak_bytes", "peak_blocks",
           "temporary_blocks", "freed_bytes", "freed_blocks")
KEYS = ("function", "thread", "type", "label", "line", "stack", "image", "heap")
OF_HEAPS = ("allocated_bytes", "allocated_blocks", "in_use_bytes", "in_use_blocks", "peak_bytes")


def of_summary(summary):
    names = {"in_use_bytes": "in_use_bytes_at_end", "in_use_blocks": "in_use_blocks_at_end"}
    return {metric: summary[names.get(metric, metric)] for metric in METRICS}


def added(rows):
    rows = list(rows)
    return {metric: sum(row[metric] for row in rows) for metric in METRICS}


def only(sums, *metrics):
    return {metric: sums[metric] for metric in metrics}


def blocks_agree(failures, view, sums):
    blocks = view("blocks", "--state=open,closed", "--frames=1")["blocks"]
    closed = [block for block in blocks if block["state"] == "closed"]
    opened = [block for block in blocks if block["state"] == "open"]
    failures.expect("blocks", {"freed_blocks": len(closed), "freed_bytes": sum(block["size"] for block in closed),
                               "in_use_blocks": len(opened), "in_use_bytes": sum(block["size"] for block in opened)},
                    only(sums, "freed_blocks", "freed_bytes", "in_use_blocks", "in_use_bytes"))
    failures.expect("blocks that were freed before their allocation", sum(block["freed_ns"] < block["allocated_ns"] for block in closed), 0)
    lifetimes = view("lifetimes")
    failures.expect("lifetimes", [sum(row[key] for row in lifetimes["sites"]) for key in ("blocks", "bytes", "ended")],
                    [len(blocks), sum(block["size"] for block in blocks), sums["freed_blocks"]])
    failures.expect("histogram", [sum(step[key] for step in lifetimes["histogram"]) for key in ("blocks", "bytes")],
                    [sums["freed_blocks"], sums["freed_bytes"]])
    longest = max((block["freed_ns"] - block["allocated_ns"] for block in closed), default=None)
    failures.expect("longest life", max((row["lifetime_ns"]["max"] for row in lifetimes["sites"] if row["ended"]), default=None),
                    longest)


def stacks_agree(failures, tools, trace, view):
    """The heading of a list of stacks has the number of recorded stacks, which does not depend on the number of frames that are shown."""
    rows = view("sites", "--by=stack")["sites"]
    for name, metric in (("leaks", "in_use_blocks"), ("peak", "peak_blocks"), ("temporary", "temporary_blocks")):
        wanted = sum(row["own"][metric] != 0 for row in rows)
        all_blocks = ["--known=none"] if name == "leaks" else []
        for frames in ([], ["--frames=1"]):
            text = recorded.run([tools.allogram, "report", trace, "--view=" + name, *all_blocks, *frames]).stdout.decode()
            found = re.search(r", from ([\d,]+) stacks?\b", text)
            failures.expect("stacks in the heading of %s %s" % (name, frames), found and int(found[1].replace(",", "")), wanted)


def course_agrees(points):
    failures = tap.Failures()
    for key in ("time_ns", "allocated_bytes"):
        values = [point[key] for point in points]
        failures.fail_unless("timeline: %s falls: %s" % (key, values), values == sorted(values))
    return failures


def agree(tools, trace, *options):
    """Compares the sums of each view of blocks with the summary, so these views agree with each other."""
    failures = tap.Failures()

    def view(name, *more):
        return recorded.report(tools, trace, "--view=" + name, *options, *more)

    sums = of_summary(view("summary"))
    if "--older" not in options:
        failures.expect("allocated", sums["allocated_blocks"], sums["freed_blocks"] + sums["in_use_blocks"])
    for key in KEYS if not options else KEYS[:3]:
        failures.expect("sites by " + key, added(row["own"] for row in view("sites", "--by=" + key)["sites"]), sums)
    failures.expect("tree", only(view("tree")["root"], *METRICS), sums)
    if not options:
        failures.expect("tree, bottom up", only(view("tree", "--bottom-up")["root"], *METRICS), sums)
    types = view("types")["types"]
    failures.expect("types", added(types), sums)
    for row in types[:2]:
        stacks = view("types", "--type=" + (row["type"] or "untyped"))
        failures.expect("stacks of " + str(row["type"]), added(stacks["stacks"]), added([row]))
    failures.extend(course_agrees(view("timeline")["points"]))
    for name, metrics in (("leaks", METRICS[2:4]), ("peak", METRICS[4:6]), ("temporary", METRICS[6:7])):
        stacks = view(name)
        failures.expect(name, only(stacks["total"], *metrics), only(sums, *metrics))
        failures.expect(name + ", stack by stack", only(added(stacks["stacks"]), *metrics), only(sums, *metrics))
    if not options:
        stacks_agree(failures, tools, trace, view)
    blocks_agree(failures, view, sums)
    if not any(option.startswith(("--focus", "--ignore", "--thread", "--tail")) for option in options):
        heaps = [heap for heap in view("heaps")["heaps"] if not heap["backing"]]
        failures.expect("heaps", {metric: sum(heap[metric] for heap in heaps) for metric in OF_HEAPS}, only(sums, *OF_HEAPS))
        threads = view("threads")["threads"]
        failures.expect("threads", [sum(thread[key] for thread in threads) for key in ("allocated_bytes", "allocated_blocks")],
                        [sums["allocated_bytes"], sums["allocated_blocks"]])
    return ["%s %s" % (" ".join(options) or "whole", failure) for failure in failures]


def moments_within_realloc(tools, trace):
    """Returns the times (ns since the start of the trace) whose last event is the start of a call of realloc that is not finished. A
    reallocated block counts as freed until the call has returned. If the call fails, the block was in use all the time, which the list of
    blocks shows."""
    lines = [line.split() for line in recorded.run([tools.allogram, "dump", trace]).stdout.decode().splitlines()]
    start_ns = int(next(word for line in lines if "process" in line for word in line if word.startswith("start_ns=")).split("=")[1])
    last_events = {}
    for line in lines:
        if len(line) > 2 and line[2] in ("alloc", "free", "realloc_free", "undo_free"):
            last_events[line[0]] = line[2]
    return {int(time.replace(".", "")) - start_ns for time, event in last_events.items() if event == "realloc_free"}


def moments_agree(tools, trace):
    """Compares the blocks in use at some moments with the list of all blocks. The moments are the peak, and the times when some blocks were
    allocated or freed; an event at exactly such a time is included. Traces of several threads are not tested, because the exact order of
    their events is not known."""
    failures = tap.Failures()
    summary = recorded.report(tools, trace)
    if summary["threads"] > 1:
        return failures
    blocks = recorded.report(tools, trace, "--view=blocks", "--state=open,closed", "--frames=1")["blocks"]
    some = blocks[::max(1, len(blocks) // 4)]
    moments = {summary["peak_time_ns"], *(block["allocated_ns"] for block in some),
               *(block["freed_ns"] for block in some if block["state"] == "closed")} - {0}
    for moment in sorted(moments - moments_within_realloc(tools, trace)):
        total = recorded.report(tools, trace, "--view=peak", "--at=%dns" % moment)["total"]
        there = [block["size"] for block in blocks
                 if block["allocated_ns"] <= moment and (block["state"] == "open" or block["freed_ns"] > moment)]
        failures.expect("in use at %d ns" % moment, [total["in_use_blocks"], total["in_use_bytes"]], [len(there), sum(there)])
    return failures


def same_as_itself(tools, trace):
    outcome = recorded.run([tools.allogram, "diff", trace, trace, "--json"])
    difference = json.loads(outcome.stdout)
    failures = tap.Failures()
    failures.expect("diff of a trace with itself", difference["sites"], [])
    failures.expect("total of the diff of a trace with itself", set(difference["total"].values()), {0})
    return failures


def case(tools, program, number):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, traces = recorded.record(tools, [tools.program(program)], folder)
        trace = max(traces, key=lambda path: recorded.report(tools, path)["allocated_blocks"])
        duration = recorded.report(tools, trace)["trace"]["duration_ns"]
        window = ("--from=%dns" % (duration // 3), "--to=%dns" % (duration * 9 // 10))
        narrowed = (window, window + ("--older",), ("--focus=main",), ("--tail=40",), window[1:])
        for options in ((), narrowed[number % len(narrowed)]): # each way of narrowing is tested with two or three programs, to save time
            failures.extend(agree(tools, trace, *options))
        failures.extend(moments_agree(tools, trace))
        failures.extend(page_agrees(tools, trace, folder))
        failures.extend(same_as_itself(tools, trace))
    return failures


# ---- the page of `allogram view` ----

class Page:
    """The tables of a page. src/page/page_tables.c describes their format."""

    def __init__(self, tools, trace, folder):
        path = os.path.join(folder, "page.html")
        outcome = recorded.run([tools.allogram, "view", "--no-open", "-o", path, trace])
        if outcome.status != 0:
            raise RuntimeError("view: " + outcome.stderr.decode())
        with open(path, encoding="utf-8") as page:
            self.html = page.read()
        lengths, rest = self.columns("names", 1)
        text, self.names, at = bytes(rest), [], 0
        for length in lengths[0]:
            self.names.append(text[at:at + length].decode())
            at += length
        self.frames = list(zip(*self.columns("frames", 7)[0]))

    def bytes(self, name):
        return zlib.decompress(base64.b64decode(re.search(r'id="b0-%s">([^<]*)<' % name, self.html)[1]))

    @staticmethod
    def number(reader):
        """Reads a varint from an iterator of bytes."""
        value = shift = 0
        for byte in reader:
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
        raise RuntimeError("a table of the page is too short")

    def columns(self, name, n_columns):
        """Returns the first columns of a table, and the bytes after them. Numbers are varints."""
        reader = iter(self.bytes(name))
        n_rows = self.number(reader)
        return [[self.number(reader) for _ in range(n_rows)] for _ in range(n_columns)], bytes(reader)

    def history(self, n_columns):
        """Returns the first columns of the numbers that each group has in each slice."""
        n_slices = json.loads(re.search(r'id="b0-facts">([^<]*)<', self.html)[1])["slices"]["count"]
        reader = iter(self.bytes("history"))
        n_entries = sum(self.number(reader) for _ in range(n_slices))
        for _ in range(n_entries):
            self.number(reader) # the groups
        numbers = [[self.number(reader) for _ in range(n_entries)] for _ in range(n_columns)]
        return [[(number >> 1) ^ -(number & 1) for number in column] for column in numbers] # zigzag

    def lines(self):
        """{(function, place): sums} of the lines to which the page attributes blocks."""
        n_before = 8 # node, line, start, flags, via, type, label and process
        of_metrics = ("allocated_blocks", "allocated_bytes", "freed_blocks", "freed_bytes", "in_use_blocks", "in_use_bytes", "peak_blocks",
                      "peak_bytes", "temporary_blocks")
        columns = self.columns("groups", n_before + len(of_metrics))[0]
        sums = collections.defaultdict(collections.Counter)
        for line, *values in zip(columns[1], *columns[n_before:]):
            function, file, number, image, column, end_column, _ = self.frames[line - 2]
            place = "%s:%d" % (os.path.basename(self.names[file]), number) if file else self.names[image]
            key = self.names[function], place, column, end_column, line
            sums[key].update(dict(zip(of_metrics, values)))
        return sums


def page_agrees(tools, trace, folder):
    """The page and the summary attribute the blocks to the same lines. For each metric, the line with the largest number is the same in both. The
    page has the lines of the findings about peaks, leaks and temporary blocks, with the numbers of the findings."""
    failures = tap.Failures()
    page = Page(tools, trace, folder).lines()
    for metric in ("allocated_bytes", "allocated_blocks", "in_use_bytes", "peak_bytes", "temporary_blocks"):
        blocks = metric.replace("bytes", "blocks")
        wanted = recorded.summary_lines(tools, trace, "--sort=" + metric)
        failures.expect("places of the lines, " + metric, sorted(key[1] for key, sums in page.items() if sums[blocks]), sorted(place for _, place in wanted))
        order = sorted(page, key=lambda key: -page[key][metric])
        if wanted and (len(order) == 1 or page[order[0]][metric] > page[order[1]][metric]):
            failures.expect("the line with most " + metric, order[0][1], wanted[0][1])
    of_kinds = {"peak_holder": ("peak_blocks", "peak_bytes"), "growing_leak": ("in_use_blocks", "in_use_bytes"), "temporary_storm": ("temporary_blocks",)}
    for finding in recorded.report(tools, trace, "--findings")["findings"]:
        for metric in of_kinds.get(finding["kind"], ()):
            place = "%s:%d" % (os.path.basename(finding["file"]), finding["line"])
            on_page = [sums[metric] for key, sums in page.items() if key[:2] == (finding["function"], place)]
            failures.require("the page has the line of the finding %s with the same number: %s" % (finding, on_page), finding[metric.split("_")[-1]] in on_page)
    return failures


def page_of_reset(tools):
    """The slices of the page show the whole recording, also what was before a reset: no number is negative, and at the end as many blocks are in
    use as the report says."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = snapshots.Commanded(tools, folder)
        commanded.do("alloc 1000 100")
        time.sleep(0.1)
        failures.expect("status of the reset", recorded.run([tools.allogram, "control", str(commanded.process.pid), "reset"]).status, 0)
        commanded.do("alloc 500 200", "temporary 50 1000")
        time.sleep(0.1)
        failures.expect("status", commanded.finish(), 0)
        signed = Page(tools, commanded.trace, folder).history(4)
        failures.require("allocated and freed in each slice: %s" % signed, all(value >= 0 for column in signed for value in column))
        summary = recorded.report(tools, commanded.trace)
        failures.expect("allocated blocks after the reset", summary["allocated_blocks"], 550)
        failures.expect("blocks in use at the end", sum(signed[0]) - sum(signed[2]), summary["in_use_blocks_at_end"])
    return failures


# ---- --runtime ----

def runtimes_agree(tools, trace, names, options=()):
    """For each runtime of the trace, compares what --runtime=NAME selects with the list of all blocks. A block belongs to a runtime if its
    heap or any frame of its stack is of the runtime; `c` has the blocks that belong to no runtime but the C library's. NAMES: runtimes that
    must have blocks."""
    failures = tap.Failures()
    message = recorded.run([tools.allogram, "report", trace, "--runtime=?", *options]).stderr.decode()
    known = message.strip().rpartition("it has: ")[2].split(", ")
    failures.require("the message about an unknown runtime lists %s: %s" % (names, message), set(names) <= set(known))
    heaps = {heap["allocator"]: heap["runtime"] for heap in recorded.report(tools, trace, "--view=heaps", *options)["heaps"]}
    sums = collections.defaultdict(lambda: [0, 0, 0])
    for block in recorded.report(tools, trace, "--view=blocks", "--state=open,closed", "--frames=0", *options)["blocks"]:
        runtimes = {heaps[block["tag"]["allocator"]], *(frame["runtime"] for frame in block["stack"])} - {"", "c"}
        for runtime in runtimes if runtimes - {"libc"} else {"c", *runtimes}:
            sums[runtime] = [a + b for a, b in zip(sums[runtime], (1, block["size"], block["state"] == "open"))]
    failures.require("runtimes with blocks: %s" % dict(sums), all(sums[name][0] > 0 for name in names))
    for name in known:
        option, wanted = "--runtime=" + name, sums[name]

        def view(view_name, *more):
            return recorded.report(tools, trace, "--view=" + view_name, option, *options, *more)

        summary = of_summary(view("summary"))
        metrics = ("allocated_blocks", "allocated_bytes", "in_use_blocks")
        failures.expect(option + ", summary", [summary[metric] for metric in metrics], wanted)
        sites, types = view("sites")["sites"], view("types")["types"]
        failures.expect(option + ", sites", added(row["own"] for row in sites), summary)
        failures.expect(option + ", types", added(types), summary)
        failures.expect(option + ", tree", only(view("tree")["root"], *METRICS), summary)
        failures.expect(option + ", leaks", only(view("leaks")["total"], "in_use_blocks", "in_use_bytes"), only(summary, "in_use_blocks", "in_use_bytes"))
        blocks = view("blocks", "--state=open,closed", "--frames=1")["blocks"]
        failures.expect(option + ", blocks", [len(blocks), sum(block["size"] for block in blocks)], wanted[:2])
        if wanted[1]:
            folded = recorded.run([tools.allogram, "export", trace, "--to=folded", option, *options]).stdout.decode().splitlines()
            failures.expect(option + ", folded", sum(int(line.rpartition(" ")[2]) for line in folded), wanted[1])
        difference = json.loads(recorded.run([tools.allogram, "diff", trace, trace, option, *options, "--json"]).stdout)
        failures.expect(option + ", diff with itself", (difference["sites"], set(difference["total"].values())), ([], {0}))
    return failures


RUNTIMES = {"lua": "lua5.4", "luajit": "luajit", "ocaml": "ocamlopt"} # runtime: its interpreter or compiler
LUA = "local t = {} for i = 1, 500 do t[i] = {i, 'x' .. i} end io.write(#t)"


def of_runtime(tools, name):
    with recorded.Folder() as folder:
        if name == "ocaml":
            command = [ocaml_programs.Toolchain().program(folder, "owners", ["owners_stubs.c", "owners.ml"])]
        else:
            command = [RUNTIMES[name], "-e", LUA]
        _, traces = recorded.record(tools, command, folder)
        return runtimes_agree(tools, traces[0], (name, "libc"))


def several_as_one(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for program in ("family", "cross_free", "recursion"):
            recorded.record(tools, [tools.program(program)], folder)
        traces = recorded.traces_in(folder)
        failures.require("%d traces" % len(traces), len(traces) >= 3)
        whole = of_summary(recorded.report(tools, traces[0], *traces[1:], "--merge"))
        failures.expect("sum of the processes", whole, added(of_summary(recorded.report(tools, trace)) for trace in traces))
        failures.extend(agree(tools, traces[0], *traces[1:], "--merge"))
        failures.extend(agree(tools, traces[0], *traces[1:], "--merge", "--focus=main"))
    return failures


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    results = tap.Plan(len(PROGRAMS) + len(RUNTIMES) + 2)
    for number, program in enumerate(PROGRAMS):
        if os.path.exists(tools.program(program)):
            results.run(program, lambda program=program, number=number: case(tools, program, number))
        else:
            results.skip(program, "no compiler for this program is installed")
    for name, compiler in RUNTIMES.items():
        if shutil.which(compiler) and name in os.environ.get("RUNTIMES", name).split():
            results.run("--runtime with a program of " + name, lambda name=name: of_runtime(tools, name))
        else:
            results.skip("--runtime with a program of " + name, compiler + " is not installed, or the runtime is left out of this build")
    results.run("the page of a recording that was reset", lambda: page_of_reset(tools))
    results.run("several processes as one", lambda: several_as_one(tools))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
