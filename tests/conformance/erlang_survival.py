#!/usr/bin/env python3
"""The function counters of an Erlang node are complete in the trace, however the node ends, and in each dump. They count exactly the calls
in the time that `control`, --delay and --duration select. The node runs phases.erl, which calls one function on command."""

import glob
import os
import signal
import subprocess
import sys
import tempfile
import time

import erlang_counted
import recorded
import snapshots
import tap
from recording_times import SEEN_S, wait_until

KILLS = 300 if os.environ.get("AG_TEST_SCALE") == "full" else 10
KEPT = "phases:kept/1"


class Node:
    """A node that runs a program, which obeys commands, under `allogram run`."""

    def __init__(self, erlang, folder, *options, program="phases"):
        self.tools, self.folder = erlang.tools, folder
        self.errors = open(os.path.join(folder, "errors"), "w+b")
        self.begun = time.monotonic()
        self.process = subprocess.Popen([erlang.tools.allogram, "run", "-q", "-o", os.path.join(folder, "t.%e.%p.allogram"), *options, "--",
                                         *erlang.inside, "erl", "-noshell", "-pa", erlang.folder, "-eval", program + ":main(), halt(0)."],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)

    def answer(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().rstrip("\n")

    def command(self, *lines):
        for line in lines:
            if self.answer(line) != "ok":
                raise RuntimeError("the program did not confirm the command: " + line)

    def work(self, n):
        """Returns the CPU time of N calls, in ms."""
        return int(self.answer("work %d" % n))

    def pid(self):
        """Returns the pid of the emulator (beam.smp), which the script `erl` executes."""
        with open("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid), encoding="ascii") as children:
            for pid in children.read().split():
                if os.path.basename(os.readlink("/proc/%s/exe" % pid)) == "beam.smp":
                    return int(pid)
        raise RuntimeError("no beam.smp")

    def ask(self, action, failures):
        outcome = recorded.run([self.tools.allogram, "control", str(self.pid()), action])
        failures.expect("control %s" % action, (outcome.status, outcome.stderr.decode()), (0, ""))
        time.sleep(SEEN_S)
        return outcome.stdout.decode().strip()

    def finish(self):
        self.process.stdin.close()
        status = self.process.wait(60)
        self.process.stdout.close()
        self.errors.close()
        return status

    def trace(self):
        found = [path for path in glob.glob(os.path.join(self.folder, "t.beam.smp.*.allogram")) if ".dump" not in path]
        return max(found, key=os.path.getsize)


def kept_of(tools, trace, failures):
    """Checks that the trace is complete and has no lost events. Returns (calls, words) of kept/1."""
    status, verdict = recorded.check(tools, trace)
    failures.expect("status of check, whole", (status, verdict["whole"]), (0, True))
    failures.expect("lost events", recorded.report(tools, trace)["lost_events"]["total"], 0)
    return erlang_counted.rows_of(tools, trace).get(KEPT, (0, 0))


def idle_node_is_killed(erlang):
    failures = tap.Failures()
    with tempfile.TemporaryDirectory(dir=erlang.folder) as folder:
        node = Node(erlang, folder)
        node.command("calls 1000", "calls 234")
        os.kill(node.pid(), signal.SIGKILL)
        failures.expect("status", node.finish(), 128 + signal.SIGKILL)
        failures.expect("calls, words of kept/1", kept_of(erlang.tools, node.trace(), failures), (1234, 2 * 1234))
    return failures


def busy_node_is_killed(erlang):
    """The node prints its number of calls now and then. The trace must contain at least the calls of the last number that was printed before
    the node was killed."""
    failures = tap.Failures()
    for i in range(KILLS):
        with tempfile.TemporaryDirectory(dir=erlang.folder) as folder:
            node = Node(erlang, folder)
            node.process.stdin.write(b"endless\n")
            node.process.stdin.flush()
            node.process.stdout.readline()
            time.sleep(0.013 * (i % 20))
            os.kill(node.pid(), signal.SIGKILL if i % 3 else signal.SIGABRT)
            printed = node.process.stdout.read().split()
            node.finish()
            calls, words = kept_of(erlang.tools, node.trace(), failures)
            last = int(printed[-1]) if printed else 1000
            failures.require("round %d: the node printed %d calls, the trace has about as many: %d" % (i, last, calls), last <= calls < last + 100000)
            failures.require("each call has two words: %d calls, %d words" % (calls, words), abs(words - 2 * calls) <= 2)
        if failures:
            break
    return failures


def dumps_are_complete(erlang):
    failures = tap.Failures()
    with tempfile.TemporaryDirectory(dir=erlang.folder) as folder:
        node = Node(erlang, folder)
        node.command("calls 100")
        first = node.ask("dump", failures)
        node.command("calls 11")
        second = node.ask("dump", failures)
        node.command("calls 7")
        failures.expect("status", node.finish(), 0)
        for path, calls in ((first, 100), (second, 111), (node.trace(), 118)):
            failures.expect(os.path.basename(path), kept_of(erlang.tools, path, failures), (calls, 2 * calls))
    return failures


def pause_and_resume(erlang):
    failures = tap.Failures()
    with tempfile.TemporaryDirectory(dir=erlang.folder) as folder:
        node = Node(erlang, folder)
        node.command("calls 100")
        node.ask("pause", failures)
        node.command("calls 2000")
        node.ask("resume", failures)
        node.command("calls 30")
        failures.expect("status", node.finish(), 0)
        failures.expect("calls, words of kept/1", kept_of(erlang.tools, node.trace(), failures), (130, 260))
    return failures


def pause_is_fast(erlang):
    """A paused node is as fast as a node that is not traced, in each of several pauses. Calls count again when `control resume` has
    returned. The fastest of several runs is compared, since a shared CPU is slower now and then; a traced call takes some twenty times
    as long as an untraced call."""
    failures = tap.Failures()
    n = 300000
    untraced = int(erlang.evaluate("io:put_chars(integer_to_list(phases:time(%d)))" % n))
    with tempfile.TemporaryDirectory(dir=erlang.folder) as folder:
        node = Node(erlang, folder)
        traced = node.work(n)
        counted = n
        for _ in range(3):
            node.ask("pause", failures)
            time.sleep(0.5)
            paused = min(node.work(n) for _ in range(5))
            node.ask("resume", failures)
            node.command("calls 10")
            counted += 10
            figures = "CPU ms of %d calls: untraced %d, traced %d, paused %d" % (n, untraced, traced, paused)
            failures.require(figures, paused < untraced * 2 + 10 and paused * 4 < traced)
        print("# " + figures)
        failures.expect("status", node.finish(), 0)
        failures.expect("calls, words of kept/1", kept_of(erlang.tools, node.trace(), failures), (counted, 2 * counted))
    return failures


def reset(erlang):
    """Resets the counts twice; no function is called after the second reset."""
    failures = tap.Failures()
    with tempfile.TemporaryDirectory(dir=erlang.folder) as folder:
        node = Node(erlang, folder)
        node.command("calls 100")
        node.ask("reset", failures)
        node.command("calls 30")
        dump = node.ask("dump", failures)
        node.ask("reset", failures)
        failures.expect("status", node.finish(), 0)
        failures.expect("between the first and the second reset", kept_of(erlang.tools, dump, failures), (30, 60))
        failures.expect("after the second reset", kept_of(erlang.tools, node.trace(), failures), (0, 0))
    return failures


def calls_in_time(erlang, folder, seconds, failures):
    """Makes calls during a delay of 4 * SECONDS, during the recording of 3 * SECONDS after it, and later. Returns the counted calls and words;
    None: on this machine a node is too slow for these times."""
    node = Node(erlang, folder, "--delay=%d" % (4 * seconds), "--duration=%d" % (3 * seconds))
    node.command("calls 100")
    is_in_time = time.monotonic() < node.begun + 3.5 * seconds
    wait_until(node.begun + 5 * seconds)
    node.command("calls 20")
    is_in_time = is_in_time and time.monotonic() < node.begun + 6.5 * seconds
    wait_until(node.begun + 8 * seconds)
    node.command("calls 3")
    failures.expect("status", node.finish(), 0)
    return kept_of(erlang.tools, node.trace(), failures) if is_in_time else None


def delay_and_duration(erlang):
    failures = tap.Failures()
    counted = None
    for seconds in (1, 2, 4, 8):
        if counted is None:
            with tempfile.TemporaryDirectory(dir=erlang.folder) as folder:
                counted = calls_in_time(erlang, folder, seconds, failures)
    failures.expect("calls, words of kept/1", counted, (20, 40))
    return failures


def dump_at_a_signal(erlang):
    failures = tap.Failures()
    with tempfile.TemporaryDirectory(dir=erlang.folder) as folder:
        node = Node(erlang, folder, "--dump-at=signal=USR1")
        node.command("calls 100")
        node.process.send_signal(signal.SIGUSR1)
        snapshots.wait_for("the dump", lambda: glob.glob(os.path.join(folder, "t.beam.smp.*.dump1.allogram")))
        node.command("calls 20")
        failures.expect("status", node.finish(), 0)
        dump = glob.glob(os.path.join(folder, "t.beam.smp.*.dump1.allogram"))[0]
        failures.expect("calls, words of kept/1 in the dump", kept_of(erlang.tools, dump, failures), (100, 200))
        failures.expect("calls, words of kept/1 in the trace", kept_of(erlang.tools, node.trace(), failures), (120, 240))
    return failures


CASES = [("an idle node is killed", idle_node_is_killed), ("%d busy nodes are killed or abort" % KILLS, busy_node_is_killed),
         ("dumps of living processes", dumps_are_complete), ("pause and resume", pause_and_resume), ("a pause is fast", pause_is_fast), ("reset", reset),
         ("--delay and --duration", delay_and_duration), ("--dump-at", dump_at_a_signal)]


def main():
    return erlang_counted.run_cases(recorded.tools_of_arguments(), CASES, programs=("phases",))


if __name__ == "__main__":
    sys.exit(main())
