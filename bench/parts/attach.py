"""Measures how long `allogram attach` stops a thread of the program when it loads and unloads the agent, as the command itself reports."""

import os
import re
import subprocess
import sys
import time

from measured import Spread

TIMES = 40
PROGRAMS = {
    "one thread that sleeps": ["sleep", "1000"],
    "an interpreter that sleeps": [sys.executable, "-c", "import json, time; time.sleep(1000)"],
}
SAID = re.compile(r"(attached to|detached from) .*: stopped one thread for ([\d.]+) (us|ms|s), the others for at most")
TO_US = {"us": 1, "ms": 1e3, "s": 1e6}


def attach(bench, pid):
    """(microseconds for which the thread was stopped to attach, microseconds for which it was stopped to detach)."""
    path = bench.path("attached.allogram")
    outcome = subprocess.run([bench.allogram, "attach", str(pid), "--mode=exact", "--duration=20ms", "-o", path], check=True,
                             stderr=subprocess.PIPE, text=True)
    os.unlink(path)
    said = {what: float(number) * TO_US[unit] for what, number, unit in SAID.findall(outcome.stderr)}
    return said["attached to"], said["detached from"]


def run(bench):
    bench.say()
    bench.say("Time for which the thread that loads and unloads the agent is stopped, us, over %d times each:" % TIMES)
    bench.say()
    bench.say("| program | attach | most | detach | most |")
    bench.say("|---|---:|---:|---:|---:|")
    for name, command in PROGRAMS.items():
        with subprocess.Popen(command) as program:
            time.sleep(0.5)  # until it sleeps
            try:
                times = [attach(bench, program.pid) for _ in range(TIMES)]
            finally:
                program.kill()
        into, out = [one for one, _ in times], [other for _, other in times]
        bench.say("| %s | %s | %.0f | %s | %.0f |" % (name, Spread(into).text("%.0f"), max(into), Spread(out).text("%.0f"), max(out)))
        bench.bar("attach to %s" % name, Spread(into), 1000, form="%.0f", unit=" us")
        bench.bar("detach from %s" % name, Spread(out), 1000, form="%.0f", unit=" us")
