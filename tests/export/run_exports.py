#!/usr/bin/env python3
"""run_exports.py --build FOLDER: reads each export format but perf-map with the tool for which the format is made. Prints TAP.

The recorded programs have inlined functions and temporary blocks, C++ names, stacks that are cut, or several threads. The sums that a tool
finds must equal those of `allogram report`. A case whose tool is not installed is skipped."""

import argparse
import gzip
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../conformance"))

import consumers  # noqa: E402
import recorded  # noqa: E402
import tap  # noqa: E402

FORMATS = "pprof dhat massif folded speedscope callgrind heapprofile firefox heaptrack csv json".split()
METRICS = ("allocated_bytes allocated_blocks in_use_bytes in_use_blocks peak_bytes peak_blocks temporary_blocks freed_bytes "
           "freed_blocks").split()
PPROF = {"alloc_objects": "allocated_blocks", "alloc_space": "allocated_bytes", "inuse_objects": "in_use_blocks",
         "inuse_space": "in_use_bytes", "peak_objects": "peak_blocks", "peak_space": "peak_bytes", "temp_objects": "temporary_blocks"}
PROGRAMS = {"temporary": [], "cxx_containers": [], "recursion": ["--depth=16"], "cross_free": []}
HOSTILE = b'ev\x1b[2Jil\n;n"a<b>me\\ \xff 0\t=1'


class Trace:
    def __init__(self, tools, path):
        self.path = path
        report = recorded.report(tools, path)
        self.summary = dict(report, in_use_bytes=report["in_use_bytes_at_end"], in_use_blocks=report["in_use_blocks_at_end"])


class Exports:
    def __init__(self, build, folder):
        self.tools = recorded.Tools(build)
        self.readers = consumers.Readers(os.path.abspath(build))
        self.folder = folder
        self.traces = {}
        self.n_files = 0

    def record(self):
        for name, options in PROGRAMS.items():
            self.traces[name] = self.trace_of(name, [self.tools.program(name)], options)
        self.traces["hostile"] = self.trace_of("hostile", [self.hostile_program(), b"-x", HOSTILE], [])

    def trace_of(self, name, command, options):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        outcome, traces = recorded.record(self.tools, command, folder, options)
        if outcome.status != 0 or len(traces) != 1:
            raise RuntimeError("%s: status %d, %d traces" % (name, outcome.status, len(traces)))
        return Trace(self.tools, traces[0])

    def hostile_program(self):
        """Makes a program with special characters in the names of its file and of its function."""
        path = os.path.join(os.fsencode(self.folder), b"pro\x1b]0;x\x07gram;\n")
        subprocess.run(["objcopy", "--strip-debug", "--redefine-sym", b"main=" + HOSTILE, self.tools.program("temporary"), path],
                       check=True)
        return path

    def export(self, trace, form, *options, suffix=None):
        self.n_files += 1
        path = os.path.join(self.folder, "%d.%s" % (self.n_files, suffix or form))
        outcome = recorded.run([self.tools.allogram, "export", trace.path, "--to=" + form, "-o", path, *options])
        if outcome.status != 0 or outcome.stderr or outcome.stdout:
            raise RuntimeError("export --to=%s: status %d: %s" % (form, outcome.status, outcome.stderr.decode(errors="replace")))
        return path


def each(exports):
    return exports.traces.items()


def expect_metrics(failures, what, got, summary, metrics):
    for metric in metrics:
        failures.expect("%s: %s" % (what, metric), got[metric], summary[metric])


def some(exports):
    """Returns two traces, for cases that take seconds for each trace: one with several threads, and one with special characters in
    names."""
    return [(name, exports.traces[name]) for name in ("cross_free", "hostile")]


def pprof_by_go(exports, failures):
    for name, trace in each(exports):
        path = exports.export(trace, "pprof")
        for sample_type, metric in PPROF.items():
            failures.expect("%s: %s" % (name, sample_type), consumers.go_pprof(path, sample_type, exports.folder),
                            trace.summary[metric])


def pprof_by_npm(exports, failures):
    for name, trace in each(exports):
        seen = exports.readers.read("pprof", exports.export(trace, "pprof"))
        failures.expect("order of sample types", seen["types"], list(PPROF))
        failures.expect("units", seen["units"], ["count", "bytes"] * 3 + ["count"])
        failures.expect("default sample type", seen["default"], "inuse_space")
        totals = {metric: int(total) for metric, total in zip(PPROF.values(), seen["totals"])}
        expect_metrics(failures, name, totals, trace.summary, PPROF.values())
        failures.require("%s: a label names the allocation function" % name, "via=malloc" in seen["labels"] or
                         any(label.startswith("via=operator new") for label in seen["labels"]))
        failures.require("%s: the program is the first mapping, and has a build id" % name,
                         re.fullmatch(r"[0-9a-f]{16,}", seen["mappings"][0]["build_id"]) and "libc" not in seen["mappings"][0]["file"])
        failures.require("%s: string 0 is empty" % name, seen["empty"] == "")
    peak = exports.readers.read("pprof", exports.export(exports.traces["temporary"], "pprof", "--metric=peak_bytes"))
    failures.expect("default sample type with --metric=peak_bytes", peak["default"], "peak_space")


def dhat(exports, failures):
    fields = {"tb": "allocated_bytes", "tbk": "allocated_blocks", "gb": "peak_bytes", "gbk": "peak_blocks", "eb": "in_use_bytes",
              "ebk": "in_use_blocks"}
    view = consumers.dhat_view()
    for name, trace in each(exports):
        path = exports.export(trace, "dhat")
        seen = exports.readers.read("dhat", path, view)
        for field, metric in fields.items():
            failures.expect("%s: %s" % (name, field), seen["sums"][field], trace.summary[metric])
        failures.require("%s: the viewer shows the total" % name,
                         re.search(r"Total: +%s bytes" % format(trace.summary["allocated_bytes"], ","), seen["shown"]))
        with open(path) as file:
            points = json.load(file)["pps"]
        for point in points:
            failures.require("%s: the maximum of a site is at least its bytes at the peak and at the end" % name,
                             point["tb"] >= point["mb"] >= max(point["gb"], point["eb"]) and point["tbk"] >= point["mbk"] > 0)


def dhat_by_firefox(exports, failures):
    trace = exports.traces["cxx_containers"]
    with exports.readers.firefox(exports.export(trace, "dhat"), exports.folder) as profiler:
        for thread, metric in enumerate(["allocated_bytes", None, "peak_bytes", "in_use_bytes"]):
            if metric:
                seen = json.loads(profiler.ask("thread", "samples", "--thread", "t-%d" % thread, "--json"))
                failures.expect(metric, seen["categoryBreakdown"]["totalSamples"], trace.summary[metric])


def check_massif_trees(name, path, failures):
    """Checks the call trees of a massif file: the root has the bytes of its snapshot, and the children of a node together have the node's bytes.
    (A node could have more bytes than its children if a stack ended at its frame and others went on; the programs of this test have no such
    stacks.)"""
    with open(path) as file:
        blocks = file.read().split("#-----------\nsnapshot=")[1:]
    for block in blocks:
        total = int(re.search(r"mem_heap_B=(\d+)", block)[1])
        nodes = [(len(row[1]), int(row[2]), int(row[3])) for row in re.finditer(r"^( *)n(\d+): (\d+) ", block, re.M)]
        if not nodes:
            continue
        failures.expect("%s: the root of a tree" % name, nodes[0][2], total)
        for at, (depth, n_children, size) in enumerate(nodes):
            children, held = 0, 0
            for child_depth, _, child_size in nodes[at + 1:]:
                if child_depth <= depth:
                    break
                if child_depth == depth + 1:
                    children, held = children + 1, held + child_size
            failures.expect("%s: number of children of a node" % name, children, n_children)
            failures.expect("%s: bytes of the children of a node" % name, held, size if children else 0)


def massif(exports, failures):
    for name, trace in each(exports):
        path = exports.export(trace, "massif")
        rows, peak = consumers.ms_print(path)
        sizes = dict(rows)
        failures.expect("%s: the peak" % name, sizes.get(peak), trace.summary["peak_bytes"])
        failures.expect("%s: bytes in use in the last snapshot" % name, rows[-1][1] if rows else None, trace.summary["in_use_bytes"])
        failures.require("%s: no snapshot has more bytes than the peak" % name, all(size <= trace.summary["peak_bytes"] for _, size in rows))
        check_massif_trees(name, path, failures)


def callgrind(exports, failures):
    for name, trace in each(exports):
        for metric in ("allocated_bytes", "peak_blocks"):
            totals = consumers.callgrind_annotate(exports.export(trace, "callgrind", "--metric=" + metric))
            failures.expect("%s: the metric of the first column" % name, next(iter(totals)), metric)
            expect_metrics(failures, name, totals, trace.summary, METRICS)


def speedscope(exports, failures):
    files, wanted = [], []
    for name, trace in each(exports):
        for metric in ("allocated_bytes", "peak_bytes", "temporary_blocks"):
            for form, suffix in {"speedscope": "speedscope.json", "heapprofile": "heapprofile", "folded": "collapsedstack.txt"}.items():
                if trace.summary[metric] > 0:  # speedscope does not open an empty profile
                    files.append(exports.export(trace, form, "--metric=" + metric, suffix=suffix))
                    wanted.append(("%s: %s as %s" % (name, metric, form), trace.summary[metric]))
    for (what, total), profiles in zip(wanted, exports.readers.read("speedscope", *files), strict=True):
        failures.expect(what, [profile["total"] for profile in profiles], [total])
    [[profile]] = exports.readers.read("speedscope", exports.export(exports.traces["recursion"], "speedscope", suffix="speedscope.json"))
    failures.require("stacks that were cut have a frame [cut]: %s" % profile["frames"][:9], "[cut]" in profile["frames"])


def heaptrack(exports, failures):
    for name, trace in each(exports):
        path = exports.export(trace, "heaptrack")
        with open(path) as file:
            lines = file.read().splitlines()
        used = [int(line[2:], 16) for line in lines if line.startswith("+ ")]
        kinds = sum(line.startswith("a ") for line in lines)
        # otherwise heaptrack_gui writes beyond the end of an array
        failures.require("%s: the first events of the kinds of allocations come in the order of the kinds' numbers" % name,
                         list(dict.fromkeys(used)) == list(range(kinds)))
        seen = consumers.heaptrack_print(path, exports.folder)
        failures.expect("%s: calls" % name, seen["calls"], trace.summary["allocated_blocks"])
        failures.expect("%s: allocations" % name, seen["allocations"], trace.summary["allocated_blocks"])
        failures.expect("%s: leaked" % name, seen["leaked"], trace.summary["in_use_bytes"])
        if trace.summary["threads"] == 1:  # with several threads, only a range of the peak is known
            failures.expect("%s: peak" % name, seen["peak"], trace.summary["peak_bytes"])


def heaptrack_gui(exports, failures):
    paths = [exports.export(trace, "heaptrack") for _, trace in each(exports)]
    failures.expect("how heaptrack_gui ended", consumers.heaptrack_gui(exports.folder, *paths), None)


def firefox(exports, failures):
    for name, trace in some(exports):
        with exports.readers.firefox(exports.export(trace, "firefox"), exports.folder) as profiler:
            failures.expect("%s: allocated" % name, profiler.total("native-allocations"), trace.summary["allocated_bytes"])
            failures.expect("%s: retained" % name, profiler.total("native-retained-allocations"), trace.summary["in_use_bytes"])
            for strategy in ("native-deallocations-memory", "native-deallocations-sites"):
                failures.expect("%s: %s" % (name, strategy), profiler.total(strategy), trace.summary["freed_bytes"])
            failures.require("%s: the profile has the counter malloc" % name, "malloc" in profiler.ask("counter", "info", "c-0"))
    both = [exports.traces["temporary"], exports.traces["cxx_containers"]]
    with exports.readers.firefox(exports.export(both[0], "firefox", "--merge", both[1].path), exports.folder) as profiler:
        for strategy, metric in {"native-allocations": "allocated_bytes", "native-retained-allocations": "in_use_bytes"}.items():
            failures.expect("merged: " + metric, profiler.total(strategy), sum(trace.summary[metric] for trace in both))


def firefox_sampled(exports, failures):
    """The bytes of a sampled trace are rounded once for each stack, as in the report, and not once for each sample."""
    trace = exports.trace_of("sampled", [exports.tools.program("cxx_containers")], ["--mode=sample", "--interval=4096"])
    sums = consumers.firefox_sums(exports.export(trace, "firefox"))
    failures.require("the trace has enough samples", trace.summary["allocated_bytes"] > 100 * 4096)
    expect_metrics(failures, "sampled", sums, trace.summary, sums)


def tables(exports, failures):
    for name, trace in each(exports):
        rows = consumers.read_csv(exports.export(trace, "csv"))
        with open(exports.export(trace, "json")) as file:
            whole = json.load(file)
        for metric in METRICS:
            failures.expect("%s: %s in csv" % (name, metric), sum(int(row[metric]) for row in rows), trace.summary[metric])
            failures.expect("%s: %s in json" % (name, metric), sum(stack[metric] for stack in whole["stacks"]), trace.summary[metric])
        failures.expect("%s: highest point of the timeline, compared with the peak" % name, max(point["in_use_bytes"] for point in whole["timeline"]), trace.summary["peak_bytes"])
        for stack in whole["stacks"]:
            failures.require("%s: each frame number of a stack is in the table of frames" % name, all(0 <= frame < len(whole["frames"]) for frame in stack["frames"]))


def same_bytes(exports, failures):
    for name, trace in some(exports):
        for form in FORMATS:
            with open(exports.export(trace, form), "rb") as one, open(exports.export(trace, form), "rb") as other:
                failures.require("%s: two exports as %s are equal" % (name, form), one.read() == other.read())


def filters(exports, failures):
    """With --focus, an export has the same sum as the report with --focus, in four formats."""
    trace = exports.traces["temporary"]
    wanted = recorded.report(exports.tools, trace.path, "--focus=^make$")["allocated_bytes"]
    failures.require("--focus selects some of the bytes", 0 < wanted < trace.summary["allocated_bytes"])
    for form in ("csv", "folded", "dhat", "heaptrack"):
        path = exports.export(trace, form, "--focus=^make$")
        with open(path) as file:
            text = file.read()
        if form == "csv":
            seen = sum(int(row["allocated_bytes"]) for row in consumers.read_csv(path))
        elif form == "folded":
            seen = sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines())
        elif form == "dhat":
            seen = sum(point["tb"] for point in json.loads(text)["pps"])
        else:
            sizes = [int(line.split()[1], 16) for line in text.splitlines() if line.startswith("a ")]
            seen = sum(sizes[int(line[2:], 16)] for line in text.splitlines() if line.startswith("+ "))
        failures.expect(form, seen, wanted)


def totals_of(exports, form, path):
    """Reads the totals in an export. Returns {metric: total} for the metrics that the format contains."""
    if form == "pprof":
        return {metric: consumers.go_pprof(path, sample_type, exports.folder) for sample_type, metric in PPROF.items()}
    if form == "dhat":
        with open(path) as file:
            points = json.load(file)["pps"]
        return {metric: sum(point[field] for point in points) for field, metric in
                {"tb": "allocated_bytes", "tbk": "allocated_blocks", "gb": "peak_bytes", "eb": "in_use_bytes"}.items()}
    if form == "massif":
        rows, peak = consumers.ms_print(path)
        return {"peak_bytes": dict(rows).get(peak), "in_use_bytes": rows[-1][1]}
    if form == "callgrind":
        return consumers.callgrind_annotate(path)
    if form == "csv":
        rows = consumers.read_csv(path)
        return {metric: sum(int(row[metric]) for row in rows) for metric in METRICS}
    with open(path) as file:
        text = file.read()
    if form == "folded":
        return {"allocated_bytes": sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines())}
    if form == "json":
        return {metric: sum(stack[metric] for stack in json.loads(text)["stacks"]) for metric in METRICS}
    if form == "speedscope":
        return {"allocated_bytes": sum(json.loads(text)["profiles"][0]["weights"])}
    if form == "heapprofile":
        def held(node):
            return node["selfSize"] + sum(held(child) for child in node["children"])
        return {"allocated_bytes": held(json.loads(text)["head"])}
    assert form == "heaptrack"
    sizes = [int(line.split()[1], 16) for line in text.splitlines() if line.startswith("a ")]
    born = sum(sizes[int(line[2:], 16)] for line in text.splitlines() if line.startswith("+ "))
    died = sum(sizes[int(line[2:], 16)] for line in text.splitlines() if line.startswith("- "))
    return {"allocated_bytes": born, "in_use_bytes": born - died}


def readable(form):
    """Whether the tool that reads the format is installed."""
    tool = {"pprof": "go", "massif": "ms_print", "callgrind": "callgrind_annotate"}.get(form)
    try:
        if tool:
            consumers.need(tool, tool)
    except consumers.Missing:
        return False
    return True


def windows(exports, failures):
    """`export --from --until` selects the same blocks as `report --from --to`, in every format except firefox, which is not tested. If no block is
    selected, an export as csv or json is an empty table, and an export in another format fails."""
    trace = exports.traces["cxx_containers"]
    duration_ns = recorded.report(exports.tools, trace.path)["trace"]["duration_ns"]
    middle = "%dns" % (duration_ns // 2)
    for export_options, report_options in ((["--until=" + middle], ["--to=" + middle]), (["--from=" + middle], ["--from=" + middle]),
                                           (["--until=1ns"], ["--to=1ns"])):
        report = recorded.report(exports.tools, trace.path, *report_options)
        wanted = dict(report, in_use_bytes=report["in_use_bytes_at_end"], in_use_blocks=report["in_use_blocks_at_end"])
        for form in FORMATS:
            if form == "firefox" or not readable(form):
                continue  # the firefox cases compare this format, without a window
            if wanted["allocated_blocks"] == 0 and form not in ("csv", "json"):
                refused = recorded.run([exports.tools.allogram, "export", trace.path, "--to=" + form, *export_options, "-o",
                                        os.path.join(exports.folder, "refused")])
                failures.expect("%s without a block: status, lines" % form, (refused.status, len(refused.stderr.splitlines())), (1, 1))
                continue
            for metric, total in totals_of(exports, form, exports.export(trace, form, *export_options)).items():
                failures.expect("%s %s: %s" % (form, export_options[0], metric), total, wanted[metric])


def merged(exports, failures):
    """Exports two traces with --merge into one file, which must have the sums of `report --merge`."""
    traces = [exports.traces["temporary"], exports.traces["cxx_containers"]]
    outcome = recorded.run([exports.tools.allogram, "report", "--merge", "--json", *[trace.path for trace in traces]])
    report = json.loads(outcome.stdout)
    wanted = dict(report, in_use_bytes=report["in_use_bytes_at_end"], in_use_blocks=report["in_use_blocks_at_end"])
    failures.expect("bytes in the merged report", wanted["allocated_bytes"], sum(trace.summary["allocated_bytes"] for trace in traces))
    for form in FORMATS:
        if form in ("firefox", "heaptrack") or not readable(form):
            continue
        for metric, total in totals_of(exports, form, exports.export(traces[0], form, "--merge", traces[1].path)).items():
            failures.expect("%s: %s" % (form, metric), total, wanted[metric])


def function_counters(exports, failures):
    """Exports the function counters of a trace in the formats that can contain function counters."""
    trace = exports.trace_of("calls", [os.path.join(exports.tools.build, "examples/function_table")], [])
    total = recorded.report(exports.tools, trace.path, "--view=functions")["total"]
    for metric in ("calls", "own_words", "own_bytes", "own_ns"):
        with open(exports.export(trace, "folded", "--metric=" + metric), encoding="utf-8") as file:
            failures.expect("folded: " + metric, sum(int(line.rpartition(" ")[2]) for line in file), total[metric])
        with open(exports.export(trace, "speedscope", "--metric=" + metric), encoding="utf-8") as file:
            profile = json.load(file)["profiles"][0]
        failures.expect("speedscope: " + metric, (profile["name"], sum(profile["weights"])), (metric, total[metric]))
        if readable("pprof") and metric != "own_ns":  # go tool pprof rounds times
            path = exports.export(trace, "pprof", "--metric=" + metric)
            failures.expect("pprof: " + metric, consumers.go_pprof(path, metric, exports.folder), total[metric])
    for refused, status, why in (("--to=dhat --metric=calls", 1, "use folded, speedscope or pprof"),
                                 ("--to=folded --metric=acc_words", 2, "use own_words"),
                                 ("--to=folded --metric=own_word", 2, "own_words")):
        outcome = recorded.run([exports.tools.allogram, "export", trace.path, *refused.split()])
        failures.expect(refused, outcome.status, status)
        failures.require("%s is refused by one line: %s" % (refused, outcome.stderr),
                         why in outcome.stderr.decode() and outcome.stderr.count(b"\n") == 1 and not outcome.stdout)
    outcome = recorded.run([exports.tools.allogram, "export", exports.traces["temporary"].path, "--to=folded", "--metric=calls"])
    failures.require("a trace without function counters is refused: %s" % outcome.stderr, outcome.status == 1 and b"no function counters" in outcome.stderr)


def hostile_names(exports, failures):
    """Exports names with special characters: no format contains a control character of a name, and no name begins a new line or field."""
    trace = exports.traces["hostile"]
    for form in FORMATS:
        with open(exports.export(trace, form), "rb") as file:
            text = file.read()
        if form == "pprof":
            text = gzip.decompress(text)  # lengths and tags may be any byte, so only escape sequences are searched for
            failures.require("pprof: neither an escape sequence nor an invalid byte of the name is in the file", b"\x1b[" not in text and b"\x1b]" not in text and b"\xff 0" not in text)
            continue
        left_over = set(text) & (set(range(32)) | {0x7f}) - {0x0a} - ({0x0d} if form == "csv" else set())
        failures.expect("%s: control characters" % form, sorted(left_over), [])
        failures.require("%s: the name is in the file" % form, b"n\"a<b>me" in text or b"n\\\"a<b>me" in text or b"n'a<b>me" in text or
                         b"n\"\"a<b>me" in text)
        text.decode("utf-8")
    with open(exports.export(trace, "folded"), "rb") as file:
        for line in file.read().decode().splitlines():
            failures.require("folded: a line is a stack and a number: %r" % line, re.fullmatch(r"[^;]+(;[^;]+)* \d+", line))


def folding(exports, failures):
    """--fold=auto leaves out the frames that `report --fold=auto` leaves out, and changes no sum. It is the default of some formats only."""
    trace = exports.traces["cxx_containers"]

    def contents(form, *options):
        with open(exports.export(trace, form, *options), "rb") as file:
            return file.read()
    for form in FORMATS:
        none = contents(form, "--fold=none")
        if form == "dhat":
            refused = recorded.run([exports.tools.allogram, "export", trace.path, "--to=dhat", "--fold=auto"])
            failures.expect("dhat with --fold=auto: status, output", (refused.status, refused.stdout), (2, b""))
            failures.require("dhat with --fold=auto: the reason", b"cannot be added" in refused.stderr)
            failures.require("dhat: the default is none", contents(form) == none)
            continue
        auto = contents(form, "--fold=auto")
        failures.require("%s: folding changes the file" % form, auto != none)
        failures.require("%s: the default" % form, contents(form) == (auto if form in ("pprof", "folded", "speedscope") else none))
        if form != "firefox" and readable(form):
            for metric, total in totals_of(exports, form, exports.export(trace, form, "--fold=auto")).items():
                failures.expect("%s with --fold=auto: %s" % (form, metric), total, trace.summary[metric])
    for fold in ("--fold=auto", "--fold=none"):
        own = {}
        for line in contents("folded", fold).decode().splitlines():
            stack, number = line.rsplit(" ", 1)
            function = stack.rsplit(";", 1)[-1]
            own[function] = own.get(function, 0) + int(number)
        wanted = {}
        for site in recorded.report(exports.tools, trace.path, "--view=sites", fold)["sites"]:
            if site["own"]["allocated_bytes"] > 0:
                wanted[site["function"]] = wanted.get(site["function"], 0) + site["own"]["allocated_bytes"]
        failures.expect("folded with %s: bytes of each function" % fold, own, wanted)


CASES = [
    ("pprof, by go tool pprof", pprof_by_go), ("pprof, by pprof-format", pprof_by_npm), ("dhat, by valgrind's viewer", dhat),
    ("dhat, by the Firefox Profiler", dhat_by_firefox), ("massif, by ms_print", massif), ("callgrind, by callgrind_annotate", callgrind),
    ("speedscope, heapprofile and folded, by speedscope", speedscope), ("heaptrack, by heaptrack_print", heaptrack),
    ("heaptrack, by heaptrack_gui", heaptrack_gui),
    ("firefox, by the Firefox Profiler", firefox), ("firefox, of a sampled trace", firefox_sampled), ("csv and json", tables), ("the same trace gives the same bytes", same_bytes),
    ("--focus in csv, folded, dhat and heaptrack", filters), ("time windows", windows),
    ("folding", folding), ("function counters", function_counters), ("processes merged", merged), ("hostile names", hostile_names),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", help="run only the cases whose name contains this text")
    arguments = parser.parse_args()
    cases = [case for case in CASES if arguments.only is None or arguments.only in case[0]]
    plan = tap.Plan(len(cases))
    with recorded.Folder() as folder:
        exports = Exports(arguments.build, folder)
        exports.record()
        for name, case in cases:
            def judged(case=case):
                failures = tap.Failures()
                case(exports, failures)
                return failures
            try:
                case_needs(exports, case)
            except consumers.Missing as missing:
                plan.skip(name, missing)
                continue
            plan.run(name, judged)
    return plan.status()


def case_needs(exports, case):
    """Raises Missing if the tool of the case is not installed."""
    if case is pprof_by_go:
        consumers.need("go", "golang-go")
    if case is dhat:
        consumers.dhat_view()
    if case is massif:
        consumers.need("ms_print", "valgrind")
    if case is callgrind:
        consumers.need("callgrind_annotate", "valgrind")
    if case is heaptrack:
        consumers.need("heaptrack_print", "heaptrack")
    if case is heaptrack_gui:
        consumers.need("heaptrack_gui", "heaptrack-gui")
    if case in (pprof_by_npm, dhat, dhat_by_firefox, speedscope, firefox):
        exports.readers.install()


if __name__ == "__main__":
    sys.exit(main())
