#!/usr/bin/env python3
"""Tests --view=mappings: how much of the memory that the program mapped is resident, how much is not, and how much more was mapped at the
end than half-way. touched_mappings.c prints these numbers of its own mappings. For python3 and node the test reads the numbers in
/proc/PID/smaps and pagemap, for the pages that the program mapped according to the records of the trace. The mappings of an allocator whose
blocks are recorded are not in the view."""

import bisect
import glob
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import recorded
import tap

MIB = 1 << 20
PAGE = os.sysconf("SC_PAGESIZE")
KEYS = "mapped_bytes resident_bytes untouched_bytes growth_bytes".split()


def sums_of(view):
    """{function that called mmap: the sums of its rows}; a sum is None if one of its numbers is None"""
    found = {}
    for row in view["mappings"]:
        sums = found.setdefault(row["frames"][0]["function"], dict.fromkeys(KEYS, 0))
        for key in KEYS:
            sums[key] = None if None in (sums[key], row[key]) else sums[key] + row[key]
    return found


def counted(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("touched_mappings")], folder)
        failures.expect("status", outcome.status, 0)
        truth = [json.loads(line) for line in outcome.stdout.decode().splitlines()]
        for trace in traces:
            view = recorded.report(tools, trace, "--view=mappings")
            found = sums_of(view)
            of = "parent" if "map_first" in found else "child"
            # the writer does not look at the memory of a forked child
            knows_resident = of == "parent"
            failures.expect("%s: the moment is known" % of, view["resident_time_ns"] is not None, knows_resident)
            for row in [row for row in truth if row["of"] == of]:
                got = found.get(row["function"], {})
                for key in KEYS:
                    is_known = knows_resident or key not in ("resident_bytes", "untouched_bytes")
                    is_counted = of == "parent" or key != "growth_bytes" # the child ends at once
                    if is_counted:
                        failures.expect("%s %s %s" % (of, row["function"], key), got.get(key), row[key] if is_known else None)
            total = view["total"]
            failures.expect("%s: total" % of, [total[key] for key in KEYS],
                            [None if any(sums[key] is None for sums in found.values()) else sum(sums[key] for sums in found.values()) for key in KEYS])
            for by in ("function", "line", "image", "thread"):
                rows = recorded.report(tools, trace, "--view=mappings", "--by=" + by)
                failures.expect("%s: by %s" % (of, by), rows["total"], total)
                failures.expect("%s: rows by %s" % (of, by), [sum(row[key] or 0 for row in rows["mappings"]) for key in KEYS], [total[key] or 0 for key in KEYS])
        failures.expect("traces", len(traces), 2)
        main = next(trace for trace in traces if "map_first" in sums_of(recorded.report(tools, trace, "--view=mappings")))
        failures.extend(views(tools, main))
    return failures


def time_of_last(tools, trace):
    """When the last mapping was made, in ns since the start of the recording."""
    lines = [line.split(" ", 3) for line in recorded.run([tools.allogram, "dump", trace]).stdout.decode().splitlines()]
    last = max(round(float(line[0]) * 1e9) for line in lines if len(line) > 2 and line[2] == "map")
    return last - int(re.search(r"\bstart_ns=(\d+)", next(line[3] for line in lines if len(line) > 3 and line[2] == "process"))[1])


def views(tools, trace):
    """Tests the text of the view, time windows, and conditions of --fail-if."""
    failures = tap.Failures()
    text = recorded.run([tools.allogram, "report", trace, "--view=mappings"]).stdout.decode()
    failures.require("the text has the columns: %s" % text, re.search(r"resident MiB +untouched MiB", text) is not None)
    last = "%dns" % (time_of_last(tools, trace) - 1000000)
    before = recorded.report(tools, trace, "--view=mappings", "--to=" + last)["total"]
    failures.expect("before the look at the memory", before["resident_bytes"], None)
    late = recorded.report(tools, trace, "--view=mappings", "--from=" + last)["total"]
    failures.expect("only the last mapping", [late[key] for key in KEYS], [6 * MIB, 6 * MIB, 0, 0])
    total = recorded.report(tools, trace, "--view=mappings")["total"]
    older = recorded.report(tools, trace, "--view=mappings", "--from=" + last, "--older")["total"]
    failures.expect("with what was mapped before", [older[key] for key in KEYS[:3]], [total[key] for key in KEYS[:3]])
    for condition, status in (("mapped_bytes != %d" % total["mapped_bytes"], 0), ("mapped_bytes >= 100M", 3),
                              ("mapped_peak_bytes != %d" % total["peak_bytes"], 0), ("mapped_peak_bytes > peak_bytes", 3)):
        failures.expect(condition, recorded.run([tools.allogram, "report", trace, "--fail-if=" + condition]).status, status)
    place = recorded.run([tools.allogram, "report", trace, "--fail-if=mapped_bytes > 1M", "--sarif=" + trace + ".sarif"])
    failures.expect("status", place.status, 3)
    with open(trace + ".sarif", encoding="utf-8") as file:
        failures.require("the result names the line that maps most", "touched_mappings.c" in file.read())
    base = recorded.run([tools.allogram, "report", trace, "--base=" + trace, "--fail-if=growth.mapped_bytes > 0%"])
    failures.expect("growth from itself", base.status, 0)
    return failures


def of_library(tools, library):
    """An allocator in a library maps its memory with mmap, like the program."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, traces = recorded.record(tools, [tools.program("fragmented"), "2"], folder, env={"LD_PRELOAD": library})
        view = recorded.report(tools, traces[0], "--view=mappings")
        failures.expect("functions", sorted(sums_of(view)), ["map_some"])
        failures.expect("mapped", view["total"]["peak_bytes"], 10 * MIB)
    return failures


# ---- real programs, compared with the kernel ----


def replay(lines):
    """The ranges [low, high) that are mapped after the last record of `allogram dump`."""
    ranges = []
    for line in lines:
        words = line.split(" ", 3)
        if len(words) < 4 or words[2] not in ("map", "unmap"):
            continue
        fields = dict(re.findall(r"(\w+)=(\S+)", words[3]))
        low = int(fields["address"], 0)
        high = low + int(fields["bytes"], 0)
        at = max(0, bisect.bisect_left(ranges, (low, low)) - 1)
        end = at
        kept = []
        while end < len(ranges) and ranges[end][0] < high:
            first, last = ranges[end]
            kept += [(first, min(last, low))] if first < low else []
            kept += [(max(first, high), last)] if last > high else []
            end += 1
        if words[2] == "map":
            kept.append((low, high))
        ranges[at:end] = sorted(kept)
    return ranges


def mapped_by_kernel(smaps):
    """[(low, high, resident bytes)] of /proc/PID/smaps"""
    found = []
    for line in smaps.splitlines():
        head = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
        if head:
            found.append([int(head[1], 16), int(head[2], 16), 0])
        elif line.startswith("Rss:"):
            found[-1][2] = int(line.split()[1]) * 1024
    return found


def overlaps(ranges, kernel):
    """Yields (low, high, mapping) for each part of the ranges that lies in a mapping of the kernel's list."""
    at = 0
    for low, high in ranges:
        while at > 0 and kernel[at - 1][1] > low:
            at -= 1
        while at < len(kernel) and kernel[at][1] <= low:
            at += 1
        while at < len(kernel) and kernel[at][0] < high:
            yield max(low, kernel[at][0]), min(high, kernel[at][1]), kernel[at]
            at += 1


def read_state(pid):
    """Reads the state of a program that waits. Returns the result of mapped_by_kernel, and {(low, high): bytes of pagemap} of resident mappings."""
    with open("/proc/%d/smaps" % pid, encoding="utf-8", errors="replace") as file:
        kernel = mapped_by_kernel(file.read())
    with open("/proc/%d/pagemap" % pid, "rb") as pagemap:
        present = {(low, high): None for low, high, rss in kernel if rss > 0}
        for low, high in list(present):
            if high - low <= 1 << 32 and low < 1 << 47:
                pagemap.seek(low // PAGE * 8)
                present[(low, high)] = pagemap.read((high - low) // PAGE * 8)
    return kernel, present


def resident_in(part, present):
    low, high, (first, last, rss) = part
    entries = present.get((first, last))
    if not rss or entries is None:
        return 0
    bits = entries[(low - first) // PAGE * 8:(high - first) // PAGE * 8]
    return sum(PAGE for (entry,) in struct.iter_unpack("<Q", bits) if entry >> 63)


def like_the_kernel(tools, command):
    """The program prints its pid when it has its memory. The test waits until the writer has looked at the memory, reads the kernel's numbers, and
    kills the program, so that the program's mappings at the end are those that the kernel showed."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        run = subprocess.Popen([tools.allogram, "run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--", *command],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        pid = int(run.stdout.readline())
        time.sleep(4)
        kernel, present = read_state(pid)
        os.kill(pid, signal.SIGKILL)
        run.communicate(timeout=60)
        trace = next(trace for trace in recorded.traces_in(folder) if ".%d." % pid in os.path.basename(trace))
        view = recorded.report(tools, trace, "--view=mappings")
        dump = recorded.run([tools.allogram, "dump", trace]).stdout.decode(errors="replace").splitlines()
        parts = list(overlaps(replay(dump), kernel))
        mapped = sum(high - low for low, high, _ in parts)
        resident = sum(resident_in(part, present) for part in parts)
        total = view["total"]
        print("# %s: mapped %d, smaps %d; resident %d, pagemap %d; %d stacks" % (
            command[0], total["mapped_bytes"], mapped, total["resident_bytes"] or 0, resident, len(view["mappings"])))
        failures.require("a program that maps memory", mapped > 8 * MIB)
        failures.fail_unless("mapped: %d, smaps: %d" % (total["mapped_bytes"], mapped), abs(total["mapped_bytes"] - mapped) <= mapped // 50)
        failures.fail_unless("resident: %s, pagemap: %d" % (total["resident_bytes"], resident),
                             total["resident_bytes"] is not None and abs(total["resident_bytes"] - resident) <= resident // 50)
        failures.expect("rows", sum(row["mapped_bytes"] for row in view["mappings"]), total["mapped_bytes"])
    return failures


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    libraries = sorted(found for name in ("jemalloc.so.2", "mimalloc.so.2", "tcmalloc_minimal.so.4")
                       for found in glob.glob("/usr/lib/*-linux-gnu/lib" + name))
    python = "import os, sys; x = [[i, str(i)] for i in range(200000)]; print(os.getpid(), flush=True); sys.stdin.read()"
    node = "const x = []; for (let i = 0; i < 400000; i++) x.push({i, s: String(i)}); console.log(process.pid); setInterval(() => x.length, 100000);"
    programs = [("python3", ["/usr/bin/python3", "-c", python]), ("node", ["node", "-e", node])]
    results = tap.Plan(1 + len(libraries) + len(programs))
    results.run("mapped, resident and untouched bytes, and growth", lambda: counted(tools))
    for library in libraries:
        results.run("mappings of " + os.path.basename(library), lambda library=library: of_library(tools, library))
    for name, command in programs:
        if shutil.which(command[0]):
            results.run("%s, compared with the kernel" % name, lambda command=command: like_the_kernel(tools, command))
        else:
            results.skip("%s, compared with the kernel" % name, "not installed")
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
