#!/usr/bin/env python3
"""node_observed --build BUILD: `allogram observe` on stock Erlang nodes, which say the same of themselves (observed_node.erl).

The node of this machine and, where `make test` made it, the newer one of a Debian root, which is looked at from outside of it.
Nothing is given to the nodes: no flag, no library, no debug symbols. Processes and allocators are compared to the unit;
shares of samples with what the program did, within the interval that chance allows; bytes of collections with what it
allocated. Waits are on conditions: an observer looks when it has its events."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import tap

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "../programs/observed_node.erl")
ALLOGRAM = os.environ.get("ALLOGRAM", "allogram")
DEADLINE_S = 120


class Node:
    """An Erlang node, here or in a root."""

    def __init__(self, beams, root=None):
        command = ["erl", "-noshell", "-pa", beams, "-s", "observed_node", "main"]
        if root:
            os.makedirs(root + beams, exist_ok=True)
            shutil.copy(beams + "/observed_node.beam", root + beams)
            command = ["chroot", root] + command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.pid = int(self.process.stdout.readline().split()[1])

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=DEADLINE_S)


class Observer:
    """A running `allogram observe`; `result` waits for it."""

    def __init__(self, node, *options):
        command = [ALLOGRAM, "observe", str(node.pid), "--json", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def has(self, what):
        folder = "/proc/%d/fd" % self.process.pid
        try:
            return any(what in os.readlink(os.path.join(folder, fd)) for fd in os.listdir(folder))
        except OSError:
            return False

    def wait_until_looking(self, what="perf_event"):
        end = time.monotonic() + DEADLINE_S
        while not self.has(what) and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)

    def result(self):
        output, errors = self.process.communicate(timeout=DEADLINE_S)
        if self.process.returncode != 0:
            raise RuntimeError("observe ended with %d: %s" % (self.process.returncode, errors.strip()))
        return json.loads(output)


def observe(node, *options):
    return Observer(node, *options).result()


# ---- processes ------------------------------------------------------------------------------------------------------------------

def processes_are_told(node):
    failures = tap.Failures()
    held = node.ask("hold").split()
    told = {row[0]: row[1:] for row in (word.split(",") for word in node.ask("processes").split())}
    seen = {row["id"]: row for row in observe(node, "--duration=100ms", "--processes")["processes"]}
    failures.expect("ids", sorted(seen), sorted(told))
    failures.require("the two that hold are there", all(pid in seen for pid in held))
    wrong = []
    for pid, (name, function, heap, stack, queue) in told.items():
        row = seen.get(pid, {})
        if name == "user" or function.startswith(("observed_node:serve", "io:")) or "describe" in function:
            continue  # it was talking to us
        got = (row.get("name") or "-", row.get("current_function"), row.get("heap_words"), row.get("stack_words"), row.get("queue"))
        if got != (name, function, int(heap), int(stack), int(queue)):
            wrong.append((pid, got, (name, function, heap, stack, queue)))
    # a few may have done something between the two looks
    failures.require("of %d processes %d differ: %s" % (len(told), len(wrong), wrong[:4]), len(wrong) <= len(told) // 20)
    failures.expect("held queue", seen[held[1]]["queue"], 37)
    failures.expect("held name", seen[held[1]]["name"], "observed_holder")
    return failures


# ---- allocators -----------------------------------------------------------------------------------------------------------------

def sizes_of(text):
    rows = (word.split(",") for word in text.split())
    return {(name, int(instance)): (int(carriers), int(blocks)) for name, instance, carriers, blocks in rows}


def allocators_agree(node):
    """Between two equal answers of an allocator instance nothing can have changed that both do not show."""
    failures = tap.Failures()
    n_equal = {}
    everything = set()
    for _ in range(3):
        before = sizes_of(node.ask("sizes"))
        seen = observe(node, "--duration=100ms", "--allocators")["allocators"]
        after = sizes_of(node.ask("sizes"))
        rows = {(row["name"], row["instance"]): row for row in seen}
        everything |= set(before)
        failures.expect("instances", sorted(rows), sorted(before))
        for key, row in rows.items():
            got = (row["carriers_bytes"], row["blocks_bytes"])
            if before[key] == after[key] == got:
                n_equal[key] = n_equal.get(key, 0) + 1
            failures.require("%s: carriers %d, should be %s" % (key, got[0], before[key]),
                             got[0] == before[key][0] or before[key][0] != after[key][0])
            failures.require("%s: %s" % (key, row), row["resident_bytes"] <= row["mapped_bytes"] <= row["carriers_bytes"])
            failures.require("%s: less mapped than in use: %s" % (key, row), row["blocks_bytes"] <= row["carriers_bytes"])
    # what serves the question itself (temporary terms, its heap, its reply) is busy while it is asked
    busy = sorted(everything - set(n_equal))
    failures.require("never equal: %s" % busy, len(busy) <= len(everything) // 5)
    return failures


# ---- samples --------------------------------------------------------------------------------------------------------------------

def share_is_due(failures, what, n, of, share):
    """Whether n of `of` is what the binomial distribution lets happen 99 times in 100."""
    spread = 2.576 * (share * (1 - share) / max(of, 1)) ** 0.5
    failures.require("%s: %d of %d, should be %.1f %% +- %.1f" % (what, n, of, 100 * share, 100 * spread),
                     of >= 200 and abs(n / max(of, 1) - share) <= spread)


def rounds_for(node, command, result_seconds):
    """How many rounds of a workload fill so many seconds here and now."""
    rounds, taken = 50, 0.0
    while taken < 0.25:
        begin = time.monotonic()
        node.ask("%s %d" % (command, rounds))
        node.ask("result")
        taken = time.monotonic() - begin
        rounds = rounds if taken >= 0.25 else rounds * 2
    return max(1, int(rounds * result_seconds / taken))


def shares_are_true(node):
    failures = tap.Failures()
    rounds = rounds_for(node, "spin", 2.5)
    observer = Observer(node, "--duration=2s", "--rate=999", "--stacks")
    observer.wait_until_looking()
    node.ask("spin %d" % rounds)
    result = observer.result()
    node.ask("result")
    total = {row["function"]: row["total"] for row in result["functions"]}
    own = {row["function"]: row["own"] for row in result["functions"]}
    red, blue = (total.get("observed_node:%s/1" % colour, 0) for colour in ("red", "blue"))
    share_is_due(failures, "red", red, red + blue, 0.75)
    failures.require("the spinning is spin's own: %s" % own, own.get("observed_node:spin/1", 0) >= 0.95 * (red + blue))
    schedulers = [row for row in result["stacks"] if re.search(r"^[0-9]+_scheduler|^erts_sched", str(row["thread"]))]
    frames = {frame["function"] for row in schedulers for frame in row["frames"]}
    failures.require("frames of %s" % sorted(frames)[:20], "observed_node:paint/1" in frames)
    samples, complete = result["samples"], result["complete_stacks"]
    failures.require("complete: %s of %s" % (complete, samples), samples > 200 and complete >= 0.99 * samples)
    return failures


def blame_is_in_order(node):
    failures = tap.Failures()
    rounds = rounds_for(node, "allocate", 2.5)
    observer = Observer(node, "--duration=2s", "--rate=1999", "--blame=erts_garbage_collect*")
    observer.wait_until_looking()
    node.ask("allocate %d" % rounds)
    result = observer.result()
    node.ask("result")
    ours = [row["function"] for row in result["blame"] if row["function"].startswith("observed_node:")]
    wanted = ["observed_node:%s/2" % name for name in ("big", "medium", "small")]
    failures.expect("blamed", [name for name in ours if name in wanted], wanted)
    return failures


# ---- collections ----------------------------------------------------------------------------------------------------------------

def watch_collections(node, command, rounds):
    """What the observer tells of the process that did it, and what that process says itself."""
    observer = Observer(node, "--duration=0", "--rate=99", "--gc")
    observer.wait_until_looking("bpf")
    node.ask("%s %d" % (command, rounds))
    pid, *words = node.ask("result").split()
    observer.process.send_signal(2)
    result = observer.result()
    mine = [row for row in result["gc"]["collections"] if row["process"] == pid]
    return result, mine, {name: int(n) * 8 for name, n in (word.split("=") for word in words if "=" in word)}


def collections_add_up(node):
    failures = tap.Failures()
    result, mine, bytes_of = watch_collections(node, "allocate", 20000)
    rows = {row["function"]: row for row in result["gc"]["functions"]}
    got = {name: rows.get("observed_node:" + name, {"bytes": 0})["bytes"] for name in bytes_of}
    due, seen = sum(bytes_of.values()), sum(got.values())
    failures.require("bytes %d, should be %d: %s" % (seen, due, got), abs(seen - due) <= 0.1 * due)
    failures.require("collections: %d" % len(mine), len(mine) > 50)
    failures.require("kinds: %s" % {row["kind"] for row in mine}, {row["kind"] for row in mine} <= {"minor", "major"})
    failures.require("pauses", all(row["pause_ns"] > 0 for row in mine))
    failures.require("heaps", all(row["heap_after_bytes"] <= row["heap_before_bytes"] for row in mine))
    order = sorted(bytes_of, key=got.get, reverse=True)
    failures.expect("order", order, ["big/2", "medium/2", "small/2"])
    return failures


def dirty_collections_count_once(node):
    failures = tap.Failures()
    rounds = 300
    result, mine, bytes_of = watch_collections(node, "allocate_large", rounds)
    rows = {row["function"]: row for row in result["gc"]["functions"]}
    seen = rows.get("observed_node:big/2", {"bytes": 0})["bytes"]
    due = bytes_of["big/2"]
    failures.require("bytes %d, should be %d (%s)" % (seen, due, rows), abs(seen - due) <= 0.1 * due)
    failures.require("large heaps: %s" % mine[:3], any(row["heap_before_bytes"] > 1 << 20 for row in mine))
    return failures


CASES = {
    "processes": processes_are_told,
    "allocators": allocators_agree,
    "shares of samples": shares_are_true,
    "blame": blame_is_in_order,
    "collections": collections_add_up,
    "dirty collections": dirty_collections_count_once,
}


def nodes(build):
    """(name, root or None, why not or None)"""
    yield "this machine", None, None if shutil.which("erl") else "no Erlang here"
    root = os.path.join(build, "roots/trixie")
    has = os.path.exists(os.path.join(root, "usr/bin/erl"))
    yield "trixie", root, None if has and os.geteuid() == 0 else "no Debian root with Erlang (make test makes it, as root)"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--build", required=True)
    build = os.path.realpath(arguments.parse_args().build)
    plan = tap.Plan(2 * len(CASES))
    why_never = None
    if not shutil.which("erlc"):
        why_never = "no Erlang compiler here"
    elif os.geteuid() != 0:
        why_never = "looking into another process needs root here"
    with tempfile.TemporaryDirectory(prefix="allogram-node-") as beams:
        os.chmod(beams, 0o755)
        if why_never is None:
            subprocess.run(["erlc", "+debug_info", "-o", beams, SOURCE], check=True)
        for where, root, why in nodes(build):
            if why or why_never:
                for name in CASES:
                    plan.skip("%s: %s" % (where, name), why or why_never)
                continue
            node = Node(beams, root)
            for name, case in CASES.items():
                plan.run("%s: %s" % (where, name), lambda case=case, node=node: case(node))
            node.close()
            if root:
                shutil.rmtree(root + beams, ignore_errors=True)
    sys.exit(plan.status())


if __name__ == "__main__":
    main()
