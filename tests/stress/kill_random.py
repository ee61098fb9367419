#!/usr/bin/env python3
"""Kills the program, its writer process, `allogram run`, or several of them with SIGKILL at random moments, and checks the trace that remains.

tests/programs/libc/progress.c counts its calls of malloc and free, before and after each call, in a shared file that survives the kill. So the true
count is known up to the call during which the program was killed. After every kill the trace must be readable, and `check` must find it whole
(`check` completes the trace if the writer, the process that writes traces, could not). The trace must have the events of all calls that returned.
If the writer was killed before the program, events may be missing, but only as many as are counted as lost. --runs is the number of kills, --victim
selects the processes that are killed, and --seed is the seed of the first run.
"""

import argparse
import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../conformance"))
import recorded
import tap

VICTIMS = {
    "program": ["program"],
    "writer, then program": ["writer", None, "program"],
    "both at once": ["writer", "program"],
    "program, then writer": ["program", "writer"],
    "run, then program": ["run", None, "program"],
    "all at once": ["run", "writer", "program"],
}


class Progress:
    """The program's own counts: calls that have begun, and calls that have returned."""

    def __init__(self, path):
        with open(path, "wb") as file:
            file.truncate(4096)
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 4096)

    def is_ready(self):
        return struct.unpack_from("<2Q", self.map)[1] == 1

    def sums(self):
        words = struct.unpack_from("<64Q", self.map, 16)
        return [sum(words[i::4]) for i in range(4)]  # allocations begun, done, frees begun, done


def stat_of(pid):
    """Returns the parent's pid and the state of the process, or None."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[1]), fields[0]
    except OSError:
        return None


def descendants(root):
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = stat_of(int(name))
            if stat:
                parents[int(name)] = stat[0]
    found, new = [], [root]
    while new:
        found += new
        new = [pid for pid, parent in parents.items() if parent in new]
    return found[1:]


def exe_of(pid):
    try:
        return os.readlink("/proc/%d/exe" % pid)
    except OSError:
        return ""


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def is_gone(pid):
    """Whether all threads of the process have ended. The first thread can be a zombie while other threads still run and files are still open."""
    stat = stat_of(pid)
    try:
        return stat is None or stat[1] == "Z" and len(os.listdir("/proc/%d/task" % pid)) == 1
    except OSError:
        return True


def wait_gone(pids, seconds):
    end = time.monotonic() + seconds
    while not all(is_gone(pid) for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def start(tools, folder, threads):
    """Starts `allogram run`. Returns its process, the pids of "run", "program" and "writer", and the Progress of the program."""
    progress = Progress(os.path.join(folder, "progress"))
    program = os.path.realpath(tools.program("progress"))
    process = subprocess.Popen([tools.allogram, "run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--", program, str(threads)],
                               env=dict(os.environ, PROGRESS=os.path.join(folder, "progress")), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    end = time.monotonic() + 20
    while not progress.is_ready():
        if process.poll() is not None or time.monotonic() > end:
            kill(process.pid)
            raise RuntimeError("did not start: %s" % process.communicate()[1].decode(errors="replace"))
        time.sleep(0.001)
    pids = {"run": process.pid}
    for pid in descendants(process.pid):
        pids["program" if exe_of(pid) == program else "writer"] = pid
    return process, pids, progress


def verify(failures, tools, folder, progress, threads, may_lose):
    traces = recorded.traces_in(folder)
    if len(traces) != 1:
        failures.append("%d traces" % len(traces))
        return
    for which in "the first check", "the second check":
        outcome = recorded.run([tools.allogram, "check", "--json", traces[0]])
        failures.fail_unless("%s: %d, %s%s" % (which, outcome.status, outcome.stdout.decode(), outcome.stderr.decode()), outcome.status == 0)
    failures.expect("the trace is whole", json.loads(outcome.stdout or "{}").get("whole"), True)
    summary = recorded.report(tools, traces[0])
    begun, done, frees_begun, frees_done = progress.sums()
    runtime = threads - 1  # pthread_create allocates one block for each thread but the first
    lost = summary["lost_events"]["total"]
    allocated, freed = summary["allocated_blocks"], summary["freed_blocks"]
    if not may_lose:
        failures.expect("lost events", lost, 0)
        failures.fail_unless("%d frees of unknown blocks" % summary["ghost_frees"], summary["ghost_frees"] == 0)
    numbers = "allocated %d of %d..%d, freed %d of %d..%d, lost %d" % (
        allocated, done + runtime, begun + runtime, freed, frees_done, frees_begun, lost)
    failures.fail_unless("events are missing: " + numbers,
                         allocated + freed + summary["ghost_frees"] + lost >= done + runtime + frees_done)
    failures.fail_unless("more calls were recorded than begun: " + numbers, allocated <= begun + runtime and freed <= frees_begun)


def may_run_alone(victims):
    """Whether the writer is killed before the program, so that the program runs without a writer, at least between the two kills."""
    return "writer" in victims and victims.index("writer") < victims.index("program")


def run_once(tools, victims, seed):
    failures = tap.Failures()
    chance = random.Random(seed)
    threads = chance.choice([1, 1, 2, 3])
    with recorded.Folder() as folder:
        process, pids, progress = start(tools, folder, threads)
        try:
            if "writer" not in pids:
                return ["no writer was found"]
            time.sleep(chance.random() ** 2 * 0.25)
            for victim in victims:
                if victim is None:
                    time.sleep(chance.random() ** 2 * 0.1)
                else:
                    kill(pids[victim])
            failures.fail_unless("processes did not end in 15 s", wait_gone(pids.values(), 15))
            if "run" not in victims:
                process.wait(timeout=15)
                failures.expect("status of run", process.returncode, 137)
        finally:
            for pid in pids.values():
                kill(pid)
            process.communicate()
        try:
            verify(failures, tools, folder, progress, threads, may_lose=may_run_alone(victims))
        except (RuntimeError, KeyError, ValueError) as error:
            failures.append("%s: %s" % (type(error).__name__, error))
        if failures and os.environ.get("KEEP_FAILED"):
            subprocess.run(["cp", "-r", folder, "/tmp/kill-%d" % seed], check=False)
    return ["seed %d, %d threads: %s" % (seed, threads, failure) for failure in failures]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--runs", type=int, default=1000 if os.environ.get("AG_TEST_SCALE") == "full" else 42)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--victim", choices=list(VICTIMS))
    options = parser.parse_args()
    tools = recorded.Tools(options.build)
    recorded.hide_debug_files()
    kinds = {options.victim: VICTIMS[options.victim]} if options.victim else VICTIMS
    results = tap.Plan(len(kinds))
    each = (options.runs + len(kinds) - 1) // len(kinds)
    for name, victims in kinds.items():

        def several():
            failures = []
            for i in range(each):
                failures += run_once(tools, victims, options.seed + i)
            return failures

        results.run("%d kills: %s" % (each, name), several)
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
