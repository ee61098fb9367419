#!/usr/bin/env python3
"""Attaches to a program and detaches, many times; the program must run as without allogram. The program does one of four things: it waits
while an ignored signal arrives; makes calls that end by a timeout; writes more than its pipe has room for; or starts children that run in
its memory (clone with CLONE_VM)."""

import os
import subprocess
import sys
import time

import recorded
import tap

SECONDS, CALLS_SECONDS, FEWEST = 12, 5, 20


def attached(tools, what, seconds=SECONDS, fewest=FEWEST, most_per_attachment=0.0):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        process = subprocess.Popen([tools.program("attached_meanwhile"), what, str(seconds)], stdout=subprocess.PIPE, text=True)
        end, n = time.monotonic() + seconds - 2, 0
        while time.monotonic() < end:
            outcome = subprocess.run([tools.allogram, "attach", str(process.pid), "-q", "--mode=exact", "--duration=50ms",
                                      "-o", os.path.join(folder, "%d.allogram" % n)], capture_output=True, text=True, check=False)
            failures.expect("attachment %d" % n, (outcome.returncode, outcome.stderr), (0, ""))
            n += 1
        said = process.communicate()[0]
        failures.require("at least %d attachments: %d" % (fewest, n), n >= fewest)
        disturbed = int(said.split()[-2])
        failures.require("the program printed: %s; attachments: %d" % (said.strip(), n), disturbed <= most_per_attachment * n)
        failures.expect("status", process.returncode, int(disturbed > 0))
    return failures


def main():
    tools = recorded.tools_of_arguments()
    plan = tap.Plan(4)
    plan.run("waits during which an ignored signal arrives", lambda: attached(tools, "waits"))
    plan.run("system calls that end by a timeout", lambda: attached(tools, "calls", CALLS_SECONDS, fewest=4))
    # Before `attach` stops the threads, it waits until none is in a write. On a loaded machine, a write may begin just after this check. Without the
    # check, 5 to 10 of 12 attachments cut a write short.
    plan.run("writes that must not be cut short",
             lambda: attached(tools, "writes", CALLS_SECONDS, fewest=4, most_per_attachment=0.33))
    plan.run("children that share the memory", lambda: attached(tools, "clones"))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
