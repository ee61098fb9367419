#!/usr/bin/env python3
"""Tests of `allogram attach NODE`: the counts between attach and detach are exact; nothing of allogram is left in the node, however the
recording ends; the trace settings of other tools do not change; each error is reported in one line. Tests of `allogram observe NODE`: the
memory is what the node itself reports. The test starts an epmd (Erlang's port mapper) for its nodes, on loopback."""

import argparse
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import erlang_counted
import recorded
import tap

N = 1000
FULL = os.environ.get("AG_TEST_SCALE") == "full"
COOKIE = "a cookie of the test"
LEFT_NOTHING = "{[],[],{all,false},[],[],[]}"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Place:
    """An epmd, a home folder with a cookie, and compiled programs. If ROOT (a folder with the root file system of another Debian release)
    is given, the nodes run in ROOT, where the folders of the test are mounted."""

    def __init__(self, tools, folder, root=None):
        self.tools, self.folder, self.root, self.n_nodes = tools, folder, root, 0
        self.port = free_port()
        self.environment = {"ERL_EPMD_PORT": str(self.port), "ERL_EPMD_ADDRESS": "127.0.0.1", "HOME": folder}
        for program in ("hand_counted.erl", "attached_node.erl"):
            compiled = recorded.run(["erlc", "-o", folder, shutil.copy(recorded.source_of(program), folder)],
                                    preexec=self.enter)
            if compiled.status != 0:
                raise RuntimeError("erlc: %s" % compiled.stdout.decode())
        with open(os.path.join(folder, ".erlang.cookie"), "w", encoding="utf-8") as file:
            file.write(COOKIE)
        os.chmod(file.name, 0o400)
        self.epmd = subprocess.Popen(["epmd", "-address", "127.0.0.1", "-port", str(self.port)],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def enter(self):
        if self.root:
            os.chroot(self.root)
            os.chdir(self.folder)

    def close(self):
        self.epmd.kill()
        self.epmd.wait()

    def allogram(self, *arguments, env=None, timeout=120):
        return recorded.run([self.tools.allogram, *arguments], cwd=self.folder, env={**self.environment, **(env or {})},
                            timeout=timeout)


class Node:
    """A node that evaluates expressions. The test sends each expression as one line to the node's standard input."""

    def __init__(self, place, *options):
        place.n_nodes += 1
        self.place = place
        self.name = "shop%d@127.0.0.1" % place.n_nodes
        self.log = open(os.path.join(place.folder, "log.%d" % place.n_nodes), "wb")
        self.process = subprocess.Popen(
            ["erl", "+S", "4", "-noshell", "-kernel", "logger", "[{handler,default,undefined}]", "-name", self.name, "-pa", place.folder, *options, "-s", "attached_node", "main"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, cwd=place.folder, preexec_fn=place.enter,
            env={**os.environ, **place.environment})
        self.ask("[code:ensure_loaded(Module) || Module <- [hand_counted, lists]]")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()

    def send(self, expression):
        self.process.stdin.write((expression + ".\n").encode())
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline().decode()
        if not line:
            raise RuntimeError("the node has ended with status %s" % self.process.poll())
        return line.strip()

    def ask(self, expression):
        self.send(expression)
        return self.answer()

    def rss_kib(self, key="VmRSS"):
        with open("/proc/%d/status" % self.process.pid, encoding="utf-8") as file:
            return int(re.search(key + r":\s+(\d+)", file.read())[1])


class Attached:
    """`allogram attach` in the background; the constructor returns when the node is traced."""

    def __init__(self, node, *options, name="t"):
        place = node.place
        self.node, self.trace = node, os.path.join(place.folder, name + ".allogram")
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.trace)
        self.process = subprocess.Popen([place.tools.allogram, "attach", node.name, "-o", self.trace, *options],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        cwd=place.folder, env={**os.environ, **place.environment})
        self.said = b""
        while b"Ctrl-C ends the recording" not in self.said:
            line = self.process.stderr.readline()
            if not line:
                raise RuntimeError("attach ended with %d: %s" % (self.process.wait(), self.said.decode()))
            self.said += line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def end(self, number=signal.SIGINT):
        """Returns (exit status, all that the command printed on standard error)."""
        if number:
            self.process.send_signal(number)
        _, more = self.process.communicate(timeout=60)
        return self.process.returncode, (self.said + more).decode()


def rows_of(place, trace, *options):
    return {row["function"]: (row["calls"], row["own_words"])
            for row in recorded.report(place.tools, trace, "--view=functions", *options)["functions"]}


def wait_until(what, seconds=20):
    until = time.monotonic() + seconds
    while not what():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


# ---- what is counted ----

def counts_are_exact(place):
    """The trace contains the calls between attach and detach, and no call before the attach or after the detach."""
    failures = tap.Failures()
    with Node(place) as node:
        node.ask("hand_counted:main(%d)" % N)
        with Attached(node, "--mode=exact") as attached:
            failures.expect("result of main/1", node.ask("hand_counted:main(%d)" % N), "ok")
            status, said = attached.end()
        node.ask("hand_counted:main(%d)" % N)
        failures.expect("status", status, 0)
        failures.require("attach prints the command that shows the result: %s" % said, "--view=functions" in said)
        failures.expect("what allogram left in the node", node.ask("attached_node:left()"), LEFT_NOTHING)
        rows = rows_of(place, attached.trace)
        wanted = {"hand_counted:main/1": 1, "hand_counted:cons/1": 2 * (N + 1) + 3, "hand_counted:tuples/1": N + 1,
                  "hand_counted:loop_b/1": N, "hand_counted:busy/2": 8 * (N + 1), "hand_counted:tiny/1": 500}
        failures.expect("calls", {name: rows.get(name, (None,))[0] for name in wanted}, wanted)
        words = {"hand_counted:cons/1": 2 * (2 * N + 2), "hand_counted:tuples/1": 4 * N, "hand_counted:maps_of_two/1": 5 * N}
        failures.expect("words", {name: rows.get(name, (0, None))[1] for name in words}, words)
        summary = recorded.report(place.tools, attached.trace)
        failures.expect("end of the recording", summary["trace"]["end"], "detached")
        failures.expect("lost events", summary["lost_events"]["total"], 0)
    return failures


def choices_are_kept(place):
    """--trace and --process trace only the functions and processes that they select, by each kind of name that these options accept."""
    failures = tap.Failures()
    with Node(place) as node:
        with Attached(node, "--trace=hand_counted:cons/1,lists:_") as attached:
            node.ask("hand_counted:main(%d)" % N)
            attached.end()
        rows = rows_of(place, attached.trace)
        failures.expect("calls, words of cons/1", rows.get("hand_counted:cons/1"), (2 * (N + 1) + 3, 4 * N + 4))
        failures.require("the functions of a selected module are traced", "lists:seq/2" in rows)
        others = {name: row for name, row in rows.items() if not name.startswith(("lists:", "hand_counted:cons/", "["))}
        failures.expect("calls, words of functions that are not selected", set(others.values()), {(0, 0)})
        callers = erlang_counted.callers_of(place.tools, attached.trace, "hand_counted:cons/1")
        failures.expect("callers of cons/1, which are not traced", callers,
                        {"hand_counted:main/1": (2 * N + 2, 4 * N), "hand_counted:thrown/1": (3, 4)})
        worker = ("spawn(fun() -> register(%s, self()), lists:seq(1, 3), receive {go, From} -> hand_counted:cons(%d), From ! counted end, "
                  "receive stop -> ok end end)")
        for which, calls in (("first", 11), ("number", 21), ("first,third", 11 + 41)):
            pids = [node.ask(worker % (name, count)) for name, count in (("first", 10), ("second", 20), ("third", 40))]
            choice = "--process=" + (pids[1] if which == "number" else which)
            with Attached(node, "--trace=hand_counted:_", choice, name="p") as attached:
                node.ask("[begin P ! {go, self()}, receive counted -> ok end end || P <- [first, second, third]]")
                attached.end()
            failures.expect(which, rows_of(place, attached.trace).get("hand_counted:cons/1"),
                            (calls, 2 * (calls - which.count(",") - 1)))
            node.ask("[exit(whereis(P), kill) || P <- [first, second, third]]")
        failures.expect("number of busy processes", node.ask("length(attached_node:load(1))"), "1")
        with Attached(node, "--mode=exact", "--process=initial:attached_node:spin/1", name="p") as attached:
            time.sleep(0.2)
            attached.end()
        rows = rows_of(place, attached.trace)
        failures.require("only the processes with the selected initial call are traced", "attached_node:work/1" in rows and "io:get_line/1" not in rows)
    return failures


def collections_are_seen(place):
    """Without options `attach` traces no calls, but the report shows the collections of processes."""
    failures = tap.Failures()
    with Node(place) as node:
        node.ask("attached_node:load(2)")
        with Attached(node) as attached:
            failures.expect("no call is traced", node.ask("element(2, attached_node:left())"), "[]")
            time.sleep(0.3)
            status, said = attached.end()
        failures.expect("status", status, 0)
        failures.require("attach prints the command that shows the result: %s" % said, "--view=gc" in said)
        found = recorded.report(place.tools, attached.trace, "--view=gc")["collections"]
        failures.require("collections are reported: %d" % len(found), len(found) > 0)
        failures.require("each collection has a process", all(row["process"] for row in found))
        failures.expect("what allogram left in the node", node.ask("attached_node:left()"), LEFT_NOTHING)
    return failures


def default_costs_little(place):
    """A server starts a process for each request. While it is recorded, it answers nearly as many requests for each second of CPU time as
    while the recording is paused. After the detach, a node with 50,000 processes has as much memory as before the attach."""
    failures = tap.Failures()
    with Node(place, "+sbwt", "none") as node:
        ratios = []
        with Attached(node) as attached:
            time.sleep(1.2)
            for _ in range(40 if FULL else 9):
                recorded_rate = int(node.ask("attached_node:request_rate(500)"))
                place.allogram("control", node.name, "pause")
                ratios.append(recorded_rate / int(node.ask("attached_node:request_rate(500)")))
                place.allogram("control", node.name, "resume")
            attached.end()
        median = sorted(ratios)[len(ratios) // 2]
        print("# requests for each second of CPU time, recorded / paused: %.3f" % median)
        failures.require("recording hardly reduces the requests; recorded / paused: %s" % sorted(ratios), median > (0.9 if FULL else 0.8))
        found = recorded.report(place.tools, attached.trace, "--view=gc")["collections"]
        failures.require("collections of processes that started after the attach are in the trace: %d" % len(found), len(found) > 100)
        note = [row["note"] for row in recorded.report(place.tools, attached.trace)["runtimes"] if row["name"] == "beam"]
        failures.require("the note says that the trace contains only some of the collections: %s" % note, re.match(r"\d+ of \d+ collections: some", note[0]))
        seen = int(re.search(r"of (\d+)", note[0])[1])
        failures.require("the note shows the number of collections in the trace, and the number that the tracer saw: %s" % note, note[0].startswith("%d of " % len(found)) and seen >= len(found))
        failures.expect("number of waiting processes", node.ask("attached_node:many(50000)"), "50000")
        before = node.rss_kib()
        for _ in range(3):
            with Attached(node) as attached:
                time.sleep(1.5)
                attached.end()
        after = node.rss_kib()
    print("# resident KiB with 50,000 processes: %d before, %d after" % (before, after))
    failures.require("the resident memory is about the same: %d KiB, then %d KiB" % (before, after), after < before + 40000)
    return failures


def price_comes_first(place):
    """allogram prints what an option costs before it changes the node."""
    failures = tap.Failures()
    with Node(place) as node:
        for options, price in ((["--mode=exact"], "ten to fifty times slower"), (["--trace=lists:_"], "each call of the selected functions"),
                               (["--process=init"], "5 us"), ([], "")):
            with Attached(node, *options) as attached:
                _, said = attached.end()
            failures.require("%s: the first line is about the cost: %s" % (options, said), price in said.splitlines()[0 if price else -1] and
                             said.splitlines()[1 if price else 0].startswith("allogram: recording "))
    return failures


# ---- control ----

def control_is_obeyed(place):
    failures = tap.Failures()
    with Node(place) as node:
        def control(action):
            outcome = place.allogram("control", node.name, action)
            failures.expect(action, (outcome.status, outcome.stderr), (0, b""))

        with Attached(node, "--trace=hand_counted:_", name="c") as attached:
            node.ask("hand_counted:cons(9)")
            control("pause")
            failures.expect("traced processes while the recording is paused", node.ask("element(1, attached_node:left())"), "[]")
            failures.expect("functions with a trace pattern while the recording is paused", node.ask("element(2, attached_node:left())"), "[]")
            node.ask("hand_counted:cons(99)")
            control("resume")
            node.ask("hand_counted:cons(19)")
            control("dump")
            dump = attached.trace[:-len(".allogram")] + ".dump1.allogram"
            whole = lambda: os.path.exists(dump) and recorded.check(place.tools, dump)[0] == 0
            failures.require("the dump is written", wait_until(whole))
            failures.expect("calls, words of cons/1 in the dump", rows_of(place, dump).get("hand_counted:cons/1"), (30, 2 * 28))
            control("reset")
            node.ask("hand_counted:cons(4)")
            control("reset")
            node.ask("hand_counted:cons(2)")
            control("pause")
            control("reset")
            failures.expect("traced processes after a reset of a paused recording", node.ask("element(1, attached_node:left())"), "[]")
            control("resume")
            node.ask("hand_counted:cons(3)")
            control("stop")
            status, said = attached.end(number=None)
        failures.expect("status", status, 0)
        failures.expect("calls, words of cons/1 before the reset", rows_of(place, attached.trace).get("hand_counted:cons/1"), (30, 2 * 28))
        for number, counts in ((2, (5, 8)), (3, (3, 4)), (4, (4, 6))):
            trace = attached.trace[:-len(".allogram")] + "-%d.allogram" % number
            failures.expect("trace %d" % number, rows_of(place, trace).get("hand_counted:cons/1"), counts)
            os.remove(trace)
        failures.expect("what allogram left in the node", node.ask("attached_node:left()"), LEFT_NOTHING)
        outcome = place.allogram("control", node.name, "pause")
        failures.expect("status, message of `control` after the stop", (outcome.status, outcome.stderr.decode()),
                        (1, "allogram: %s: no recording by allogram attach runs on this node\n" % node.name))
    return failures


def duration_and_signal_are_obeyed(place):
    """The trace has the calls up to the end of --duration, and a dump that SIGUSR1 requests has the calls up to the signal. If the duration is
    too short for this machine, a longer one is used."""
    failures = tap.Failures()
    counts = None
    with Node(place) as node:
        for seconds in (2, 8, 32):
            begun = time.monotonic()
            with Attached(node, "--trace=hand_counted:_", "--duration=%d" % seconds, name="d") as attached:
                node.ask("hand_counted:cons(9)")
                attached.process.send_signal(signal.SIGUSR1)
                dump = attached.trace[:-len(".allogram")] + ".dump1.allogram"
                is_dumped = wait_until(lambda: os.path.exists(dump) and recorded.check(place.tools, dump)[0] == 0, seconds)
                node.ask("hand_counted:cons(19)")
                is_in_time = is_dumped and time.monotonic() < begun + seconds
                status, _ = attached.end(number=None)
                ended = time.monotonic()
            node.ask("hand_counted:cons(99)")
            if is_in_time:
                counts = [rows_of(place, trace).get("hand_counted:cons/1") for trace in (dump, attached.trace)]
                failures.require("the recording ends after %d s, not after %.1f s" % (seconds, ended - begun), ended - begun >= seconds)
                break
            for trace in glob.glob(os.path.join(place.folder, "d.*allogram")):
                os.remove(trace)
        failures.expect("status", status, 0)
        failures.expect("calls, words of cons/1 in the dump and in the trace", counts, [(10, 18), (30, 56)])
        failures.expect("what allogram left in the node", node.ask("attached_node:left()"), LEFT_NOTHING)
    return failures


def pausing_costs_nothing(place):
    """Compares CPU times of the same work: without a recording, paused, again without a recording, and traced. A shared CPU is slower now
    and then, so the fastest of several runs is compared. While paused, the work may take 1.5 times as long as without a recording. This bound
    is far below the cost of traced calls, which take some twenty times as long as untraced calls."""
    failures = tap.Failures()
    measure = "begin statistics(runtime), [hand_counted:odd(200000) || _ <- lists:seq(1, 50)], element(2, statistics(runtime)) end"
    with Node(place, "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none") as node:
        best = lambda: min(int(node.ask(measure)) for _ in range(5))
        before = best()
        with Attached(node, "--mode=exact") as attached:
            traced = int(node.ask("begin statistics(runtime), hand_counted:odd(200000), element(2, statistics(runtime)) end")) * 50
            failures.expect("status of control pause", place.allogram("control", node.name, "pause").status, 0)
            paused = best()
            attached.end()
        after = best()
    figures = "CPU ms of 10 million calls: untouched %d and %d, paused %d, traced %d" % (before, after, paused, traced)
    print("# " + figures)
    failures.require(figures, paused <= 1.5 * max(before, after) and traced > 4 * paused)
    return failures


# ---- the ends of a session ----

def cycles_leave_nothing(place):
    """Attaches to a working node and detaches, again and again."""
    failures = tap.Failures()
    cycles = 1000 if FULL else 5
    with Node(place) as node:
        node.ask("register(keeper_of_load, spawn(fun() -> L = attached_node:load(2), "
                 "receive {results, P} -> P ! attached_node:results(L) end end))")
        sizes = []
        for cycle in range(cycles):
            options = ("--mode=exact",) if cycle % 3 else ("--trace=attached_node:_,lists:_",) if cycle % 2 else ()
            outcome = place.allogram("attach", node.name, "-q", "-o", "cycle.allogram", "--duration=10ms", *options)
            if outcome.status != 0:
                failures.append("cycle %d: %s" % (cycle, outcome.stderr.decode()))
                break
            os.remove(os.path.join(place.folder, "cycle.allogram"))
            sizes.append(node.rss_kib())
        failures.expect("what allogram left in the node", node.ask("attached_node:left()"), LEFT_NOTHING)
        failures.expect("the load's results", node.ask("keeper_of_load ! {results, self()}, receive L -> L end"),
                        "[true,true]")
        third = max(1, len(sizes) // 3)
        early, late = max(sizes[:third]), min(sizes[-third:])
        print("# %d cycles; resident KiB early %d, late %d" % (len(sizes), early, late))
        failures.require("the node's memory does not grow: %d KiB, then %d KiB" % (early, late), late < early * 1.3 + 20000)
    return failures


def nothing_stays_mapped(place):
    """After a detach neither allogram's code nor its memory is in the node, so `attach PID` can record the node. If a dirty scheduler is
    busy at the detach, allogram's library stays loaded, and the next attach and detach remove it."""
    failures = tap.Failures()

    def mapped(node):
        with open("/proc/%d/maps" % node.process.pid, encoding="utf-8") as file:
            return [line.split()[-1] for line in file if "allogram" in line]

    fifo = os.path.join(place.folder, "fifo")
    os.mkfifo(fifo)
    with Node(place) as node:
        with Attached(node, "--mode=exact") as attached:
            node.ask("attached_node:work(100)")
            failures.require("allogram's library is mapped during the recording", len(mapped(node)) > 1)
            status, said = attached.end()
        failures.expect("status", status, 0)
        failures.expect("mappings of allogram after the detach", mapped(node), [])
        outcome = place.allogram("attach", str(node.process.pid), "-q", "-o", "pid.allogram", "--duration=100ms")
        failures.expect("attach PID", (outcome.status, outcome.stderr), (0, b""))
        node.ask("register(blocked, spawn(fun() -> file:open(\"fifo\", [read, raw]) end))")
        with Attached(node, "--mode=exact") as attached:
            node.ask("hand_counted:cons(9)")
            status, said = attached.end()
        failures.expect("status with a busy scheduler", status, 0)
        failures.require("attach says that dirty schedulers are busy: %s" % said, "dirty schedulers are busy" in said)
        failures.require("the library stays mapped", mapped(node))
        with open(fifo, "wb"):
            failures.require("the scheduler is free", wait_until(lambda: node.ask("whereis(blocked)") == "undefined"))
        for _ in range(2):
            with Attached(node, "--mode=exact") as attached:
                node.ask("hand_counted:cons(9)")
                attached.end()
            failures.expect("calls, words of cons/1", rows_of(place, attached.trace).get("hand_counted:cons/1"), (10, 18))
            failures.expect("mappings of allogram, the schedulers not busy", mapped(node), [])
        failures.expect("what allogram left in the node", node.ask("attached_node:left()"), LEFT_NOTHING)
    return failures


def ends_in_every_way(place):
    """The session ends because the command or the keeper (allogram's process in the node) is killed; or the recorded process is killed, or code is
    loaded again during the session."""
    failures = tap.Failures()
    gone = lambda node: wait_until(lambda: node.ask("attached_node:left()") == LEFT_NOTHING)
    with Node(place) as node:
        node.ask("attached_node:load(1)")
        with Attached(node, "--mode=exact", name="k") as attached:
            attached.process.kill()
            attached.process.wait()
        failures.require("the command was killed: nothing is left", gone(node))
        with Attached(node, "--mode=exact", name="k") as attached:
            node.ask("exit(whereis(allogram_attached), kill)")
            status, said = attached.end()
        failures.expect("status: the keeper was killed", status, 0)
        failures.require("attach says that its process was killed: %s" % said, "was killed" in said)
        failures.require("nothing of allogram is left in the node", gone(node))
        node.ask("register(victim, spawn(attached_node, spin, [0]))")
        with Attached(node, "--mode=exact", "--process=victim", name="k") as attached:
            time.sleep(0.1)
            failures.expect("result of the kill", node.ask("exit(whereis(victim), kill)"), "true")
            status, _ = attached.end()
        failures.expect("status: the recorded process was killed", status, 0)
        failures.require("the calls of the killed process are in the trace", "attached_node:work/1" in rows_of(place, attached.trace))
        with Attached(node, "--trace=hand_counted:cons/1", name="k") as attached:
            node.ask("hand_counted:cons(9)")
            failures.expect("result of loading the new code", node.ask("[code:purge(hand_counted), element(1, code:load_file(hand_counted))]"),
                            "[false,module]")
            time.sleep(1.6)
            node.ask("hand_counted:cons(19)")
            status, said = attached.end()
        failures.expect("status: code was loaded again", status, 0)
        failures.require("attach says that the module was loaded again: %s" % said, "hand_counted was loaded again" in said)
        failures.expect("the calls of the new code are counted", rows_of(place, attached.trace).get("hand_counted:cons/1"), (30, 56))
        with Attached(node, "--mode=exact", name="k") as attached:
            node.ask("[code:purge(hand_counted), code:load_file(hand_counted)]")
            node.ask("hand_counted:cons(19)")
            attached.end()
        failures.expect("if all functions are traced, new code is traced, too",
                        rows_of(place, attached.trace).get("hand_counted:cons/1"), (20, 38))
        failures.expect("what allogram left in the node", node.ask("attached_node:left()"), LEFT_NOTHING)
    return failures


def node_goes_away(place):
    failures = tap.Failures()
    for how in ("kill", "halt"):
        with Node(place) as node:
            with Attached(node, "--trace=hand_counted:_", name="g") as attached:
                node.ask("hand_counted:cons(%d)" % N)
                if how == "kill":
                    node.ask("allogram:report_session()")  # the keeper (allogram's process in the node) does this now and then
                    node.process.kill()
                else:
                    node.send("halt()")
                status, said = attached.end(number=None)
        failures.expect("status (%s)" % how, status, 125)
        failures.require("%s: a line says that the node cannot be reached: %s" % (how, said), "cannot be reached" in said)
        failures.expect("calls, words of cons/1 in the trace (%s)" % how, rows_of(place, attached.trace).get("hand_counted:cons/1"), (N + 1, 2 * N))
        failures.expect("the trace is whole (%s)" % how, recorded.check(place.tools, attached.trace)[0], 0)
    return failures


def loaded_modules_stay(place):
    """A module that the node had before the attach stays loaded: allogram's own module, which the program uses itself, and a module of the
    program that has the name of one of allogram's modules. The other modules of allogram are removed."""
    failures = tap.Failures()
    folder = os.path.join(place.tools.build, "adapters/erlang/inside")
    loaded = "[M || M <- [allogram, allogram_attached, allogram_memory, allogram_selection], erlang:module_loaded(M)]"
    with Node(place) as node:
        node.ask("[code:load_binary(allogram_selection, \"\", Code) || {ok, Code} <- [file:read_file(\"%s/allogram_selection.beam\")]]" % folder)
        failures.expect("modules before the attach", node.ask(loaded), "[allogram_selection]")
        with Attached(node, "--mode=exact", name="h") as attached:
            failures.expect("status", attached.end()[0], 0)
        failures.expect("modules after the detach", node.ask(loaded), "[allogram_selection]")
        with Attached(node, "--mode=exact", name="h") as attached:
            attached.process.kill()
            attached.process.wait()
        failures.require("only allogram's other modules are removed if the command was killed",
                         wait_until(lambda: node.ask(loaded) == "[allogram_selection]"))
    load = "[code:load_binary(%s, \"theirs\", Code) || {ok, _, Code} <- [compile:forms([{attribute, 1, module, %s}])]]"
    with Node(place) as node:
        for module in ("allogram_attached", "allogram_memory"):
            node.ask(load % (module, module))
        for command in (("attach", "-o", "h.allogram"), ("observe",)):
            refused = place.allogram(*command, node.name, "--duration=1ms")
            failures.require("%s is refused: %s" % (command[0], refused.stderr.decode()),
                             refused.status != 0 and b"another module called" in refused.stderr)
            failures.expect("the program's modules after " + command[0], node.ask(loaded), "[allogram_attached,allogram_memory]")
    return failures


# ---- other tracers ----

def others_are_left_alone(place):
    """After the detach, the trace patterns and flags of other tools are those that the other tools set before or during the recording. The
    other tools receive exactly the trace messages that they requested."""
    failures = tap.Failures()
    theirs = ("[erlang:trace_info(F, match_spec) || F <- [{lists,seq,2}, {hand_counted,odd,1}, {lists,reverse,1}]] ++ "
              "[erlang:trace_info(F, traced) || F <- [{lists,seq,2}, {hand_counted,odd,1}, {lists,map,2}]] ++ "
              "[erlang:trace_info({maps,from_list,1}, meta), erlang:trace_info(whereis(traced), flags)]")
    patterns = ("[{erlang:trace_info(F, traced), erlang:trace_info(F, match_spec)} || "
                "F <- [{lists,sum,1}, {lists,nth,2}, {lists,max,1}]]")
    with Node(place) as node:
        node.ask("register(tool, spawn(fun() -> (fun F(Seen) -> receive {seen, P} -> P ! {seen, Seen}, F(Seen); "
                 "{trace, _, call, {M, N, _}} -> F([{M, N} | Seen]); _ -> F(Seen) end end)([]) end))")
        node.ask("register(traced, spawn(fun F() -> receive {go, P} -> hand_counted:odd(2), hand_counted:cons(9), P ! done, F() end end))")
        node.ask("[erlang:trace_pattern({lists,seq,2}, [{['_','_'],[],[{message,hello}]}], [global]), "
                 "erlang:trace_pattern({hand_counted,odd,1}, true, [local]), "
                 "erlang:trace_pattern({maps,from_list,1}, true, [meta])]")
        node.ask("erlang:trace(whereis(traced), true, [call, {tracer, whereis(tool)}])")
        before = node.ask(theirs)
        with Attached(node, "--mode=exact", name="o") as attached:
            failures.expect("the other tool's process is still traced by that tool", node.ask("erlang:trace_info(whereis(traced), tracer) =:= {tracer, whereis(tool)}"),
                            "true")
            node.ask("traced ! {go, self()}, receive done -> ok end")
            node.ask("hand_counted:cons(19)")
            node.ask("[erlang:trace_pattern({lists,Name,Arity}, Match, [Scope]) || {Name, Arity, Match, Scope} <- "
                     "[{sum,1,true,local}, {nth,2,[{'_',[],[{return_trace}]}],local}, {max,1,true,global}]]")
            failures.expect("number of functions whose pattern the other tool removes", node.ask("erlang:trace_pattern({lists,seq,2}, false, [global])"), "1")
            meanwhile = node.ask(patterns)
            status, said = attached.end()
        failures.expect("status", status, 0)
        failures.expect("patterns set while all was traced", node.ask(patterns), meanwhile)
        failures.expect("number of traced functions", node.ask("length(element(2, attached_node:left()))"), "4")
        failures.expect("allogram's trace of trace_pattern/3 is removed", node.ask("erlang:trace_info({erts_internal,trace_pattern,3}, meta)"), "{meta,false}")
        node.ask("[erlang:trace_pattern({lists,seq,2}, [{['_','_'],[],[{message,hello}]}], [global])] ++ "
                 "[erlang:trace_pattern({lists,Name,Arity}, false, [Scope]) || {Name, Arity, Scope} <- "
                 "[{sum,1,local}, {nth,2,local}, {max,1,global}]]")
        release = int(node.ask("list_to_integer(erlang:system_info(otp_release))"))
        cons = 20
        if release < 27:
            failures.require("attach reports the process with another tracer: %s" % said, "1 processes already have another tracer" in said)
        else:
            cons += 10
        failures.expect("calls, words of cons/1", rows_of(place, attached.trace).get("hand_counted:cons/1"),
                        (cons, 2 * (cons - (1 if cons == 20 else 2))))
        failures.expect("patterns and flags of the other tool", node.ask(theirs), before)
        failures.expect("messages that the other tool received", node.ask("tool ! {seen, self()}, receive {seen, Seen} -> Seen end"),
                        "[{hand_counted,odd},{hand_counted,odd}]")
        failures.expect("modules of allogram left in the node", node.ask("element(4, attached_node:left())"), "[]")
    return failures


# ---- errors and load ----

def refusals_are_one_line(place):
    failures = tap.Failures()

    def refused(what, pattern, *arguments, status=125, env=None, output="no.allogram"):
        outcome = place.allogram("attach", *arguments, "-o", output, env=env)
        said = outcome.stderr.decode()
        failures.expect(what + ": status", outcome.status, status)
        said = re.sub(r"allogram: \S+: each [^\n]* takes about [^\n]*\n", "", said)  # removes the line about the cost
        failures.require("%s: the message is one line with the expected text: %s" % (what, said), said.count("\n") == 1 and re.search(pattern, said))
        failures.require(what + ": no trace is left", not os.path.exists(os.path.join(place.folder, "no.allogram")))

    wrong = os.path.join(place.folder, "wrong_cookie")
    with open(wrong, "w", encoding="utf-8") as file:
        file.write("another\n")
    right = os.path.join(place.folder, "right_cookie")
    with open(right, "w", encoding="utf-8") as file:
        file.write(COOKIE + "\n")
    with Node(place) as node:
        refused("no such node", "no such node", "nobody@127.0.0.1")
        refused("no such host", "no such node", "nobody@host.invalid")
        refused("no epmd", "no such node", node.name, env={"ERL_EPMD_PORT": str(free_port())})
        refused("not a node", "neither a process number", "nobody")
        refused("an option that does not apply to nodes", "does not apply", node.name, "--depth=3")
        refused("wrong cookie", "another cookie", node.name, "--cookie-file=" + wrong)
        refused("wrong cookie of the environment", "another cookie", node.name, env={"ALLOGRAM_COOKIE": "another"})
        refused("no cookie file", "No such file", node.name, "--cookie-file=/nonexistent")
        refused("no cookie", "no cookie", node.name, env={"HOME": "/nonexistent"})
        refused("no such process", "no process has this name", node.name, "--process=nobody_here")
        refused("no such number", "no process of the node has this number", node.name, "--process=<0.99999.0>")
        refused("no such initial call", "no process of the node began with this function", node.name, "--process=initial:lists:seq/2")
        refused("no such function", "--trace=lists:seq/7: no loaded function of the node matches", node.name, "--trace=lists:seq/7")
        refused("no such module", "--trace=module_that_nobody_has:_: the node has no loaded module or function named module_that_nobody_has$",
                node.name, "--trace=module_that_nobody_has:_")
        refused("a function without a module", "--trace=lists: not of the form", node.name, "--trace=lists")
        refused("an arity that is not a number", "--trace=lists:seq/x: not of the form", node.name, "--trace=lists:seq/x")
        refused("an initial call without a module", "--process=initial:lists: not of the form", node.name, "--process=initial:lists")
        refused("no such module of an initial call", "--process=initial:module_that_nobody_has:_: the node has no", node.name,
                "--process=initial:module_that_nobody_has:_")
        refused("an output folder that does not exist", "No such file", node.name, output="/nonexistent/t.allogram")
        hidden = os.path.join(place.folder, "moved")
        shutil.copytree(os.path.join(place.tools.build, "adapters/erlang/inside"), os.path.join(hidden, "beam"),
                        ignore=shutil.ignore_patterns("*.p"))
        with open(os.path.join(hidden, "beam", "allogram_beam.so"), "wb") as file:
            file.write(b"no object")
        shutil.copy(os.path.join(place.tools.build, "adapters/libc/liballogram-agent.so"), hidden)
        refused("a native library (allogram_beam.so) that does not load", "cannot load", node.name,
                env={"ALLOGRAM_AGENT": os.path.join(hidden, "liballogram-agent.so")})
        failures.expect("left in the node", node.ask("attached_node:left()"), LEFT_NOTHING)
        failures.expect("work of the node after the refusals", node.ask("attached_node:work(10)"), "ok")
        with Attached(node, "--mode=exact", "--cookie-file=" + right, name="w") as attached:
            refused("a second recording", "recorded already", node.name)
            failures.expect("the first recording continues", node.ask("whereis(allogram_attached) =/= undefined"), "true")
            failures.expect("status of the first recording", attached.end()[0], 0)
        node.ask("begin {ok, D} = file:get_cwd(), file:write_file(\"allogram.erl\", \"-module(allogram).\\n\"), "
                 "{ok, allogram} = compile:file(\"allogram.erl\"), code:add_patha(D), code:load_file(allogram) end")
        refused("a module of the node that is called allogram", "another module called allogram", node.name)
        failures.expect("the node's module allogram stays loaded", node.ask("erlang:module_loaded(allogram)"), "true")
        os.remove(os.path.join(place.folder, "allogram.erl"))
        os.remove(os.path.join(place.folder, "allogram.beam"))
    with Node(place) as node:
        outcome = place.allogram("attach", node.name, "--duration=50ms", "-q", "-o", "e.allogram",
                                 env={"HOME": "/nonexistent", "ALLOGRAM_COOKIE": COOKIE})
        failures.expect("status, output with the cookie in the environment", (outcome.status, outcome.stderr), (0, b""))
    return failures


def load_does_not_grow(place):
    """Traces all functions of a node for a while: the node's memory does not grow, and the node's results are right."""
    failures = tap.Failures()
    seconds = 600 if FULL else 3
    with Node(place) as node:
        node.ask("register(keeper_of_load, spawn(fun() -> L = attached_node:load(2), "
                 "receive {results, P} -> P ! attached_node:results(L) end end))")
        with Attached(node, "--mode=exact", name="l") as attached:
            time.sleep(seconds / 4)
            early = node.rss_kib()
            time.sleep(seconds * 3 / 4)
            late = node.rss_kib()
            status, said = attached.end()
        size = os.path.getsize(attached.trace)
        print("# %d s; resident KiB %d, then %d; trace of %d KiB" % (seconds, early, late, size // 1024))
        failures.expect("status", status, 0)
        failures.require("the node's memory does not grow: %d KiB, then %d KiB" % (early, late), late < early * 1.5 + 20000)
        failures.expect("results of the load", node.ask("keeper_of_load ! {results, self()}, receive L -> L end"), "[true,true]")
        failures.expect("lost events", recorded.report(place.tools, attached.trace)["lost_events"]["total"], 0)
        failures.expect("what allogram left in the node", node.ask("attached_node:left()"), LEFT_NOTHING)
    return failures


class Observed:
    """`allogram observe NODE` in the background, until it gets SIGINT; the constructor returns after its first look."""

    def __init__(self, node, *options):
        self.process = subprocess.Popen([node.place.tools.allogram, "observe", *options, "--duration=0"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=node.place.folder,
                                        env={**os.environ, **node.place.environment})
        wait_until(self.is_asleep, 60)

    def is_asleep(self):
        """Whether the command is between its two looks: it sleeps only then (system call 35, nanosleep, or 230, clock_nanosleep)."""
        with open("/proc/%d/syscall" % self.process.pid, encoding="ascii") as file:
            return file.read().split()[0] in ("35", "230") or self.process.poll() is not None

    def end(self):
        self.process.send_signal(signal.SIGINT)
        output, errors = self.process.communicate(timeout=60)
        return self.process.returncode, output.decode(), errors.decode()


def memory_is_explained(place):
    """The memory of a node is the sum of the reported parts, and equals what the node reports itself. A table that grows is the first entry
    of its part, with its owner and its growth."""
    failures = tap.Failures()
    with Node(place) as node:
        collect = "[erlang:garbage_collect(Process) || Process <- processes(), _ <- [1, 2]]"  # so that the node is the same at each look

        def quiet():
            """Returns what the node itself reports, as soon as two answers in a row are equal except for the heaps of processes."""
            answers = []

            def is_quiet():
                node.ask(collect)
                answers.append(node.ask("attached_node:ask_memory()"))
                return len(answers) > 1 and still(answers[-1]) == still(answers[-2])
            wait_until(is_quiet, 20)
            return answers[-1]

        def memory_in(answer):
            return {key: int(number) for key, number in re.findall(r"{(\w+),(\d+)}", answer)}

        def still(answer):
            return {key: number for key, number in memory_in(answer).items() if key in ("binary", "ets", "atom", "code")}

        node.ask("attached_node:plant()")
        observed = Observed(node, node.name, "--json")
        before = node.ask("element(2, attached_node:ask_memory())")
        node.ask("begin planted_owner ! {grow, self()}, receive grown -> ok end end")
        earlier = memory_in(quiet())
        status, output, errors = observed.end()
        failures.expect("status, errors", (status, errors), (0, ""))
        if status != 0:
            return failures
        itself = quiet()
        memory = memory_in(itself)
        table, n_objects, holder = (int(number) for number in re.search(r"}\],(\d+),(\d+),(\d+),", itself).groups())
        n_terms, term_bytes, n_atoms = (int(number) for number in re.search(r"count => (\d+),memory => (\d+)},(\d+),", itself).groups())
        seen = json.loads(output)
        parts = {part["part"]: part for part in seen["memory"]}
        entries = {name: {entry["name"]: entry for entry in part["entries"]} for name, part in parts.items()}

        def near(what, number, wanted, share=0.01):
            failures.require("%s: %d is within %g %% of %d" % (what, number, 100 * share, wanted), abs(number - wanted) <= share * wanted)

        def between(what, number, key, share=0.01):
            """Compares a number that `observe` read with the numbers that the node reported before and after that, because the number changes."""
            least, most = sorted((earlier[key], memory[key]))
            failures.require("%s: %d is between %d and %d, or within %g %%" % (what, number, least, most, 100 * share),
                             least - share * memory[key] <= number <= most + share * memory[key])

        between("total", seen["total_bytes"], "total")
        for part, key in (("binaries", "binary"), ("ETS tables", "ets"), ("atoms", "atom")):
            between(part, parts[part]["bytes"], key)
        # the heaps of processes change between the two answers, because the node works for them
        between("processes", parts["processes"]["bytes"], "processes", 0.01 * memory["total"] / memory["processes"])
        failures.expect("sum of the parts", sum(part["bytes"] or 0 for part in seen["memory"]), seen["total_bytes"])
        for name, part in parts.items():
            failures.require("%s: the entries have at most the bytes of the part: %s bytes are left" % (name, part["unattributed_bytes"]),
                             part["bytes"] is None or part["unattributed_bytes"] >= -0.01 * part["bytes"])
        first = parts["ETS tables"]["entries"][0]
        failures.expect("the largest table", (first["name"], first["owner"].split()[-1], first["bytes"], first["growth_bytes"], first["count"]),
                        ("planted_table", "planted_owner", table, table - int(before), n_objects))
        first = parts["binaries"]["entries"][0]
        failures.expect("the process with most binaries", (first["owner"], first["bytes"], first["count"]), ("planted_holder", 3000000, 30))
        near("binaries with a known process", parts["binaries"]["bytes"] - parts["binaries"]["unattributed_bytes"], memory["binary"], 0.05)
        queue = parts["message queues"]["entries"][0]
        failures.expect("the longest queue", (queue["owner"], queue["count"], queue["growth"]), ("planted_holder", 7, 0))
        failures.expect("memory of the process with the queue", entries["processes"][queue["name"]]["bytes"], holder)
        failures.expect("persistent terms", (parts["persistent terms"]["count"], parts["persistent terms"]["bytes"]), (n_terms, term_bytes))
        near("code and literals", parts["code and literals"]["bytes"] + term_bytes, memory["code"] + int(re.search(r"(\d+)}$", itself)[1]))
        failures.require("%d atoms, the node says %d" % (parts["atoms"]["count"], n_atoms), abs(parts["atoms"]["count"] - n_atoms) < 100)
        modules = entries["code and literals"]
        failures.expect("the sum of the modules, without allogram's own", sum(entry["bytes"] for entry in modules.values()) - modules["allogram_memory"]["bytes"],
                        int(node.ask("hd(string:lexemes(binary_to_list(erlang:system_info(loaded)), \"Current code: \\n\"))").strip('"')))
        failures.expect("left in the node", node.ask("attached_node:left()"), LEFT_NOTHING)

        node.ask("begin S = self(), spawn(fun() -> put(large, lists:seq(1, 4000000)), erlang:garbage_collect(), S ! ok, receive done -> ok end end), "
                 "receive ok -> ok end end")
        with open("/proc/%d/clear_refs" % node.process.pid, "w", encoding="ascii") as file:
            file.write("5")  # sets the peak of the resident memory (VmHWM) to its present size
        resident = node.rss_kib()
        observed = Observed(node, node.name)
        failures.require("a dictionary of 62,500 KiB is not copied: %d KiB, then at most %d KiB" % (resident, node.rss_kib("VmHWM")),
                         node.rss_kib("VmHWM") < resident + 40000)
        failures.expect("left in the node during the command", node.ask("attached_node:left()"), LEFT_NOTHING.replace("[],[],[]}", "[allogram_memory],[allogram_memory],[]}"))
        second = Observed(node, node.name)
        failures.expect("status of the second of two commands", second.end()[::2], (0, ""))
        observed.process.kill()
        observed.process.communicate()
        wait_until(lambda: node.ask("attached_node:left()") == LEFT_NOTHING, 20)
        failures.expect("left in the node after the command was killed", node.ask("attached_node:left()"), LEFT_NOTHING)
        node.ask("[code:load_binary(allogram_memory, \"other\", Code) || {ok, _, Code} <- [compile:forms([{attribute, 1, module, allogram_memory}, "
                 "{attribute, 2, export, [{look, 1}, {leave, 1}]}, {function, 3, look, 1, [{clause, 3, [{var, 3, '_'}], [], [{atom, 3, old}]}]}, "
                 "{function, 4, leave, 1, [{clause, 4, [{var, 4, '_'}], [], [{atom, 4, old}]}]}])]]")

        text = place.allogram("observe", str(node.process.pid), "--memory", "--duration=1ms")
        failures.require("the process number with --memory shows the table and its owner: %s" % text.stderr.decode(),
                         b"planted_table" in text.stdout and b"planted_owner" in text.stdout)
        for options, status, message in ((["--gc"], 2, b"--gc is not possible"), (["--cookie-file=/nonexistent"], 1, b"No such file")):
            refused = place.allogram("observe", node.name, "--duration=1ms", *options)
            failures.expect("status with %s" % options, refused.status, status)
            failures.require("message: %s" % refused.stderr.decode(), message in refused.stderr and refused.stderr.count(b"\n") == 1)
        refused = place.allogram("observe", str(os.getpid()), "--memory")
        failures.require("another program: %s" % refused.stderr.decode(), refused.status == 1 and b"not an Erlang node" in refused.stderr)
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--case", default="", help="run only the cases whose names contain this text")
    arguments = parser.parse_args()
    tools = recorded.Tools(arguments.build)
    cases = [("exact counts", counts_are_exact), ("processes and functions", choices_are_kept),
             ("collections", collections_are_seen), ("cost of recording", default_costs_little), ("the printed cost", price_comes_first), ("control", control_is_obeyed), ("--duration and SIGUSR1", duration_and_signal_are_obeyed), ("pausing", pausing_costs_nothing),
             ("cycles", cycles_leave_nothing), ("mappings", nothing_stays_mapped), ("ends", ends_in_every_way), ("the node goes away", node_goes_away),
             ("modules of the program", loaded_modules_stay), ("other tracers", others_are_left_alone), ("refusals", refusals_are_one_line), ("load", load_does_not_grow), ("memory", memory_is_explained)]
    cases = [(name, case) for name, case in cases if arguments.case in name]
    results = tap.Plan(len(cases))
    why = erlang_counted.why_not(tools)
    with recorded.Folder() as folder:
        place = None if why else Place(tools, folder)
        try:
            for name, case in cases:
                if why:
                    results.skip(name, why)
                else:
                    results.run(name, lambda case=case: case(place))
        finally:
            if place:
                place.close()
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
