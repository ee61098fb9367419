#!/usr/bin/env python3
"""A program creates many short threads. The memory of the writer (the process that writes the traces) and of the live file (the shared
memory of the recording) must not grow with the number of threads. When a thread has ended, its buffers in the live file and its state in
the writer must be released."""

import os
import re
import subprocess
import sys
import time

import recorded
import tap

THREADS = 20000
WRITER_MOST_KIB = 100 * 1024  # 5 KiB for each thread; without the release, the writer would need 8 KiB for each thread
SHARED_MOST_KIB = 300 * 1024  # the soft limit for buffers of events in the live file; without the release, the shared memory would be nearly a GiB


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def resident(pid, what):
    match = re.search(what + r":\s+(\d+) kB", read("/proc/%d/status" % pid))
    return int(match.group(1)) if match else 0


def many_threads(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = os.path.join(folder, "t.allogram")
        peaks = {"RssAnon": 0, "RssShmem": 0}
        with subprocess.Popen([tools.allogram, "run", "-q", "--mode=exact", "-o", trace, "--",
                               tools.program("many_threads"), str(THREADS)]) as process:
            while process.poll() is None:
                for pid in recorded.children_of(process.pid):
                    if not recorded.name_of(pid).startswith("many_threads"):
                        for what, peak in peaks.items():
                            peaks[what] = max(peak, resident(pid, what))
                time.sleep(0.01)
            failures.expect("status", process.returncode, 0)
        failures.require("the memory of the writer was read", peaks["RssAnon"] > 0)
        failures.require("the writer's own memory is below the limit: %d KiB" % peaks["RssAnon"], peaks["RssAnon"] < WRITER_MOST_KIB)
        failures.require("the shared memory is below the limit: %d KiB" % peaks["RssShmem"], peaks["RssShmem"] < SHARED_MOST_KIB)
        summary = recorded.report(tools, trace)
        failures.require("the blocks of all threads are recorded: %d" % summary["allocated_blocks"], summary["allocated_blocks"] >= 11 * THREADS)
        failures.expect("lost events", summary["lost_events"]["total"], 0)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    plan = tap.Plan(1)
    plan.run("%d short threads" % THREADS, lambda: many_threads(tools))
    sys.exit(plan.status())


main()
