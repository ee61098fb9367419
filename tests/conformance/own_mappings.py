#!/usr/bin/env python3
"""--view=mappings, and the line `mapped by the program itself` of the summary. own_mappings.c counts its mappings page by page, and
compares its count with /proc/self/maps; the view must show the same numbers for each of its functions. For programs that get memory only by
malloc, and for mappings that do not explain resident memory, the summary must not have this line."""

import json
import os
import re
import shutil
import sys

import recorded
import tap

MIB = 1 << 20
METRICS = "allocated_blocks allocated_bytes in_use_blocks in_use_bytes peak_blocks peak_bytes".split()


def mappings(tools, trace, *options):
    return recorded.report(tools, trace, "--view=mappings", *options)


def by_function(view):
    """{function that called mmap: its numbers}"""
    found = {}
    for row in view["mappings"]:
        sums = found.setdefault(row["frames"][0]["function"], dict.fromkeys(METRICS, 0))
        for metric in METRICS:
            sums[metric] += row[metric]
    return found


def recorded_truth(tools, folder, *words, options=()):
    """(lines of JSON that the program printed, trace)"""
    outcome, traces = recorded.record(tools, [tools.program("own_mappings"), *words], folder, options)
    if outcome.status != 0:
        raise RuntimeError("status %d" % outcome.status)
    return [json.loads(line) for line in outcome.stdout.decode().splitlines() if line.startswith("{")], traces[0]


def late_unmaps(tools, trace):
    """The names of the functions whose unmaps were recorded after the call, with the time before the call."""
    dump = recorded.run([tools.allogram, "dump", trace]).stdout.decode()
    names = dict(re.findall(r" via via=(\d+) heap=\d+ name=\"(\w+)\"", dump))
    return {names[via] for via in re.findall(r" unmap .* via=([1-9]\d*) ", dump)}


def alone(tools, seed, *options):
    failures = tap.Failures()
    plain = recorded.run([tools.program("own_mappings"), str(seed), "4000"])
    judged = json.loads(plain.stdout.decode().splitlines()[-1])
    failures.expect("the count of the program, compared with the kernel", (judged["missing"], judged["arena"]), (0, judged["arena_in_maps"]))
    with recorded.Folder() as folder:
        truth, trace = recorded_truth(tools, folder, str(seed), "4000", options=options)
        view = mappings(tools, trace)
        found = by_function(view)
        for row in truth[:-1]:
            failures.expect(row["function"], found.get(row["function"]), {metric: row[metric] for metric in METRICS})
        failures.expect("missing in the kernel's list", truth[-1]["missing"], 0)
        failures.expect("functions that unmap late", late_unmaps(tools, trace), {"mremap", "sbrk"})
        failures.expect("functions", sorted(found), sorted(row["function"] for row in truth[:-1]))
        vias = {row["frames"][0]["function"]: set() for row in view["mappings"]}
        for row in view["mappings"]:
            vias[row["frames"][0]["function"]].add(row["via"])
        failures.expect("kinds", {name: vias[name] for name in ("map_anywhere", "map_over", "reserve", "map_file", "extend_break")},
                        {"map_anywhere": {"mmap"}, "map_over": {"mmap"}, "reserve": {"mmap without access"}, "map_file": {"mmap of a file"},
                         "extend_break": {"sbrk"}})
        failures.extend(views_agree(tools, trace, view["total"]))
    return failures


def middle_of(tools, trace):
    """Returns the time at which half of the mappings had been made, in ns since the start of the recording."""
    lines = [line.split(" ", 3) for line in recorded.run([tools.allogram, "dump", trace]).stdout.decode().splitlines()]
    times = [round(float(line[0]) * 1e9) for line in lines if len(line) > 2 and line[2] == "map"]
    fields = next(line[3] for line in lines if len(line) > 3 and line[2] == "process")
    return times[len(times) // 2] - int(re.search(r"\bstart_ns=(\d+)", fields)[1])


def views_agree(tools, trace, total):
    """Checks that parts add up to the total: the rows of the view for each value of --by; the two halves of the recording; and the stacks that
    --focus=PATTERN keeps, together with those that --ignore=PATTERN keeps."""
    failures = tap.Failures()
    for key in ("function", "line", "stack", "image", "thread", "heap", "type", "label"):
        view = mappings(tools, trace, "--by=" + key)
        failures.expect("total by " + key, view["total"], total)
        failures.expect("rows by " + key, {metric: sum(row[metric] for row in view["mappings"]) for metric in METRICS},
                        {metric: total[metric] for metric in METRICS})
    parts = [mappings(tools, trace, option)["total"] for option in ("--focus=map_over", "--ignore=map_over")]
    failures.expect("--focus and --ignore", {metric: parts[0][metric] + parts[1][metric] for metric in METRICS},
                    {metric: total[metric] for metric in METRICS})
    half = "%dns" % middle_of(tools, trace)
    before, after = mappings(tools, trace, "--to=" + half)["total"], mappings(tools, trace, "--from=" + half, "--older")["total"]
    failures.require("both halves have mappings", 0 < before["n_mappings"] < total["n_mappings"])
    failures.expect("two halves", (before["n_mappings"] + after["n_mappings"], before["freed_blocks"] + after["freed_blocks"], after["mapped_bytes"],
                                   max(before["peak_bytes"], after["peak_bytes"])),
                    (total["n_mappings"], total["freed_blocks"], total["mapped_bytes"], total["peak_bytes"]))
    later = mappings(tools, trace, "--from=" + half)["total"]
    failures.expect("--from without --older: mappings of the second half, and those in use", (later["n_mappings"], later["n_mappings"] - later["freed_blocks"]),
                    (after["n_mappings"], later["in_use_blocks"]))
    merged = json.loads(recorded.run([tools.allogram, "report", trace, trace, "--merge", "--json", "--view=mappings"]).stdout)["total"]
    failures.expect("merged with itself", merged, {metric: value if value is None else 2 * value for metric, value in total.items()})
    heaps = recorded.report(tools, trace, "--view=heaps")["heaps"]
    failures.expect("mapped bytes in the view heaps", sum(row["mapped_bytes"] for row in heaps), total["mapped_bytes"])
    return failures


def threads(tools, seed):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        truth, trace = recorded_truth(tools, folder, "threads", str(seed), "10000")
        view = mappings(tools, trace)
        found = by_function(view)
        for row in truth[:-1]:
            if row["allocated_blocks"] > 0:
                failures.expect(row["function"], {metric: found[row["function"]][metric] for metric in METRICS[:2]},
                                {metric: row[metric] for metric in METRICS[:2]})
        failures.expect("at the end", {metric: view["total"][metric] for metric in truth[-1]}, truth[-1])
        rows = mappings(tools, trace, "--by=thread")["mappings"]
        failures.expect("threads", len(rows), 4)
        for row in rows:
            thread = row["thread"].rsplit("(")[-1].rstrip(")")
            own = mappings(tools, trace, "--thread=" + thread)["total"]
            failures.expect("thread " + thread, {metric: own[metric] for metric in METRICS}, {metric: row[metric] for metric in METRICS})
    return failures


def noted(tools, command, *options, has_line, **expected):
    """Records a command. If HAS_LINE, the summary of `run`, and for every process the summary of `report` (text and JSON), must mention
    mapped memory; otherwise they must not."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome = recorded.run([tools.allogram, "run", "-o", os.path.join(folder, "t.%p.allogram"), *options, "--", *command], cwd=folder)
        failures.expect("status", outcome.status, 0)
        words = "mapped by the program itself: "
        failures.expect("the line of run", words in outcome.stderr.decode(), has_line)
        for trace in recorded.traces_in(folder):
            summary = recorded.report(tools, trace)
            note = summary["program_mappings"]
            findings = [finding for finding in summary["findings"] if finding["kind"] == "mapped_memory"]
            failures.expect("findings", [(finding["function"], finding["line"], finding["bytes"], finding["mapped_peak_bytes"]) for finding in findings],
                            [(note["function"], note["line"], note["line_bytes"], note["peak_bytes"])] if note else [])
            text = recorded.run([tools.allogram, "report", trace]).stdout.decode()
            failures.expect("the lines of report (text, JSON)", (words in text, note is not None), (has_line,) * 2)
            for key, value in expected.items():
                failures.expect(key, note and note[key], value)
            if note is not None:
                peak = mappings(tools, trace)["total"]["peak_bytes"]
                failures.require("the bytes of the named line are at most those of the peak: %s, peak of all mappings %d" % (note, peak), 0 < note["line_bytes"] <= note["peak_bytes"] <= peak)
    return failures


def noted_patiently(*arguments, **expected):
    """As noted, but repeated after a failure: on a busy machine, the writer of a sampled trace may not see the memory of a program that lives for
    0.1 s."""
    for _ in range(8):
        failures = noted(*arguments, **expected)
        if not failures:
            break
    return failures


def without_line(tools, folder):
    """[(name, command)] of programs that use malloc, and of programs that map memory without touching it, or map a file and read it."""
    source = os.path.join(folder, "big.c")
    with open(source, "w", encoding="ascii") as file:
        for i in range(300):
            file.write("int f%d(int a, int b) { int i, s = 0; for (i = a; i < b; i++) s += i * %d; return s; }\n" % (i, i))
    rows = os.path.join(folder, "rows.json")
    with open(rows, "w", encoding="ascii") as file:
        json.dump([{"id": i, "name": "name %d" % i, "tags": [i, i + 1]} for i in range(100000)], file)
    script = "x = [[i, str(i)] for i in range(200000)]"
    found = [("jq", ["jq", "length", rows]), ("gcc", ["gcc", "-O1", "-c", source, "-o", os.devnull]),
             ("sqlite3", ["sqlite3", ":memory:", "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000) "
                                                 "select count(*), sum(length(s)) from (select i, hex(i) as s from n order by s desc);"]),
             ("python3 with malloc", ["env", "PYTHONMALLOC=malloc", "/usr/bin/python3", "-c", script])]
    mapped = [("%s that is never touched" % what, [tools.program("mapped_memory"), what]) for what in ("memory", "reserved", "file")]
    mapped += [("a file that is read", [tools.program("mapped_memory"), "read_file"]),
               ("blocks of malloc", [tools.program("mapped_memory"), "malloc"])]
    return [(name, command) for name, command in found if shutil.which(command[0])] + mapped


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    with recorded.Folder() as folder:
        silent = without_line(tools, folder)
        results = tap.Plan(9 + len(silent))
        for seed in (1, 2, 3):
            results.run("seed %d" % seed, lambda seed=seed: alone(tools, seed))
        results.run("a sampled trace has all mappings", lambda: alone(tools, 4, "--mode=sample"))
        for seed in (1, 2):
            results.run("four threads, seed %d" % seed, lambda seed=seed: threads(tools, seed))
        results.run("touched memory is mentioned", lambda: noted(
            tools, [tools.program("mapped_memory"), "touched"], has_line=True, function="grow", file=os.path.realpath(recorded.source_of("mapped_memory.c")),
            line=recorded.line_of("mapped_memory.c", "/* the line */"), peak_bytes=96 * MIB, line_bytes=80 * MIB, without_access=False))
        results.run("a sampled trace has the finding", lambda: noted_patiently(
            tools, [tools.program("mapped_memory"), "touched"], "--mode=sample", has_line=True, function="grow", peak_bytes=96 * MIB))
        results.run("memory that mprotect makes accessible is mentioned", lambda: noted(
            tools, [tools.program("mapped_memory"), "committed"], has_line=True, function="reserve", peak_bytes=80 * MIB, without_access=True))
        for name, command in silent:
            results.run("no line: " + name, lambda command=command: noted(tools, command, has_line=False))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
