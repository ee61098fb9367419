#!/usr/bin/env python3
"""Tests recordings in which system calls of the agent (allogram's library in the program) or of the writer (the process that writes the
traces) fail (fault_injector.c), /dev/shm is full, or the writer is stopped.

In each case the program must behave as without allogram, every loss must be reported, and no process and no file may remain.

--seeds=N tries more seeds (default 3)."""

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../conformance"), os.path.join(HERE, "../torture")]
import recorded
import stack_ids
import surroundings
import tap

PROGRAMS = [["many_stacks"], ["family"], ["short_threads"], ["plugins"]]
NO_FILTERS = 77
AGENT_STARTED = 8  # number of system calls with which the agent starts; if one of them fails, the agent does not start
ROOM_MIB = 52      # size of /dev/shm: just enough to create the live file (the shared memory of a recording) there


def live_files():
    """Returns the live files (the shared memory of recordings) that remain. The writer may remove its live file shortly after `run` has returned,
    so the function waits for the removal."""
    end = time.monotonic() + 5
    while True:
        left = [name for name in os.listdir(surroundings.SHARED_MEMORY) if name.startswith(".allogram-")]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.02)


def allocated(tools, traces):
    """Returns three values for all traces together: the allocated blocks, the events that are counted as lost, and whether a trace is cut."""
    views = [recorded.report(tools, trace) for trace in traces]
    return (sum(view["allocated_blocks"] for view in views), sum(view["lost_events"]["total"] for view in views),
            any(view["trace"]["end"] == "cut" for view in views))


def is_loss_said(stderr):
    return any(words in stderr for words in (b" lost", b"not recorded", b"nothing was recorded", b"recording stopped", b"no trace"))


def record_plainly(tools, program):
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, program, folder)
        return outcome, allocated(tools, traces)[0]


def judge(tools, failures, what, outcome, folder, plain, truth, is_estimate=False):
    traces = recorded.traces_in(folder)
    if outcome.status == 125 and not outcome.stdout:  # refused, before the program began
        failures.fail_unless("%s: refused without a message" % what, outcome.stderr.startswith(b"allogram: "))
    else:
        failures.expect(what + ": status", outcome.status, plain.status)
        failures.expect(what + ": output", outcome.stdout, plain.stdout)
        blocks, lost, is_cut = allocated(tools, traces)
        failures.fail_unless("%s: more blocks than the program allocates: %d, should be %d" % (what, blocks, truth), blocks <= truth or is_estimate)
        failures.fail_unless("%s: %d blocks of %d, lost %d: %s" % (what, blocks, truth, lost, outcome.stderr.decode(errors="replace")),
                             is_estimate or blocks == truth or lost >= truth - blocks or is_cut or is_loss_said(outcome.stderr))
        for trace in traces:
            status, verdict = recorded.check(tools, trace)
            is_said = b"could not be sealed" in outcome.stderr or b"recording stopped" in outcome.stderr
            unsealed = is_said and (verdict.get("damage") or {}).get("what", "").startswith("not sealed")
            failures.fail_unless("%s: check: %s; %s" % (what, verdict, outcome.stderr.decode(errors="replace")), status == 0 or unsealed)
    failures.expect(what + ": left in " + surroundings.SHARED_MEMORY, live_files(), [])
    failures.expect(what + ": left beside the trace", [name for name in os.listdir(folder) if name.startswith(".")], [])


def calls_fail(tools, where, first, seeds, options=()):
    failures = tap.Failures()
    n_failed = 0
    for program in PROGRAMS:
        command = [tools.program(program[0]), *program[1:]]
        plain, truth = record_plainly(tools, command)
        for seed in range(seeds):
            for permille in (30, 200, 1000):
                with recorded.Folder() as folder:
                    counts = os.path.join(folder, "counts")
                    outcome = recorded.run([os.path.join(tools.build, "tests/faults/fault_injector"), str(seed), str(permille), where,
                                            str(first), counts, "--", tools.allogram, "run", "-o", os.path.join(folder, "t.%p.allogram"),
                                            *options, "--", *command])
                    if outcome.status == NO_FILTERS:
                        raise RuntimeError("the kernel does not support SECCOMP_RET_USER_NOTIF")
                    with open(counts, encoding="ascii") as file:
                        n_failed += int(file.read().split()[1])
                    judge(tools, failures, "%s %s, %d of 1000 fail, seed %d" % (program[0], where, permille, seed), outcome, folder, plain,
                          truth, is_estimate="--mode=sample" in options)
    failures.fail_unless("no call failed", n_failed > 0)
    return failures


def writer_of(run):
    """Returns the pid of the writer, the child process of `run` that executes allogram, or None if there is none."""
    for pid in surroundings.descendants_of(run):
        try:
            if os.path.basename(os.readlink("/proc/%d/exe" % pid)) == "allogram":
                return pid
        except OSError:
            pass
    return None


def while_it_runs(tools, command, folder, meanwhile):
    """Starts `allogram run COMMAND`, and calls meanwhile(pid of `run`) while the command runs. Returns the outcome of `run` and the result of
    meanwhile."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        run = subprocess.Popen([tools.allogram, "run", "-o", os.path.join(folder, "t.%p.allogram"), "--", *command],
                               stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        result = meanwhile(run.pid)
        status = run.wait(timeout=120)
        out.seek(0)
        err.seek(0)
        return recorded.Outcome(128 - status if status < 0 else status, out.read(), err.read()), result


def the_writer_is_stopped(tools, seeds):
    command = [tools.program("random_paths"), "150000", "24"]
    plain, truth = record_plainly(tools, command)
    failures = tap.Failures()

    def stop_and_go(run, after_s, for_s):
        time.sleep(after_s)
        writer = writer_of(run)
        if writer is None:
            return False
        os.kill(writer, signal.SIGSTOP)
        time.sleep(for_s)
        os.kill(writer, signal.SIGCONT)
        return True

    n_stopped = 0
    for seed in range(seeds):
        with recorded.Folder() as folder:
            outcome, was_stopped = while_it_runs(tools, command, folder, lambda run, s=seed: stop_and_go(run, 0.02 + 0.05 * s, 0.3 + 0.4 * s))
            n_stopped += was_stopped
            judge(tools, failures, "stopped, seed %d" % seed, outcome, folder, plain, truth)
    failures.fail_unless("the writer was never stopped", n_stopped > 0)
    # this program fills more memory than its threads may use without a wait for the writer
    with recorded.Folder() as folder:
        _, was_stopped = while_it_runs(tools, [tools.program("million_blocks")], folder, lambda run: stop_and_go(run, 0.05, 1.5))
        costs = [recorded.report(tools, trace)["profiler"] for trace in recorded.traces_in(folder)]
        failures.fail_unless("waits for a stopped writer are counted: %s" % costs,
                             was_stopped and all(cost["waits"] > 0 and cost["waited_ns"] > 1e8 for cost in costs))
    return failures


def shared_memory_is_full(tools):
    """The program has so many stacks that /dev/shm is too small for them. In the second run the test also fills /dev/shm with a file."""
    n_paths, depth = 12000, stack_ids.DEPTH
    command = [tools.program("random_paths"), str(n_paths), str(depth)]
    failures = tap.Failures()
    filler = os.path.join(surroundings.SHARED_MEMORY, "filler")

    def fill(_run):
        time.sleep(0.1)
        try:
            with open(filler, "wb", buffering=0) as file:
                while file.write(bytes(65536)) == 65536:
                    pass
        except OSError:
            pass

    remount = ctypes.CDLL(None).mount
    ms_remount = 32
    for what, meanwhile in (("small", lambda run: None), ("full", fill)):
        if remount(b"tmpfs", surroundings.SHARED_MEMORY.encode(), b"tmpfs", ms_remount, b"size=%dm" % ROOM_MIB) != 0:
            raise RuntimeError("/dev/shm cannot be made small")
        with recorded.Folder() as folder:
            try:
                outcome, _ = while_it_runs(tools, command, folder, meanwhile)
                left = live_files()
            finally:
                remount(b"tmpfs", surroundings.SHARED_MEMORY.encode(), b"tmpfs", ms_remount, b"size=2g")
                if os.path.exists(filler):
                    os.unlink(filler)
            failures.expect(what + ": status", outcome.status, 0)
            failures.expect(what + ": left", left, [])
            failures.fail_unless("%s: no message reports the loss: %s" % (what, outcome.stderr.decode(errors="replace")), is_loss_said(outcome.stderr))
            trace = recorded.traces_in(folder)[0]
            view = recorded.report(tools, trace)
            failures.fail_unless("%s: %d blocks, lost %d events" % (what, view["allocated_blocks"], view["lost_events"]["total"]),
                                 view["allocated_blocks"] + view["lost_events"]["total"] >= n_paths >= view["allocated_blocks"])
            found = stack_ids.judge(tools, trace, folder)
            failures.expect(what + ": blocks of another function", found["wrong"], 0)
            failures.expect(what + ": stacks kept", found["right"], view["allocated_blocks"] - view["missing"]["lost_stacks"])
            failures.expect(what + ": check", recorded.check(tools, trace)[0], 0)
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    tools = recorded.Tools(arguments.build)
    cases = [
        ("calls of the agent fail", lambda: calls_fail(tools, "agent", AGENT_STARTED, arguments.seeds)),
        ("calls of a sampling agent fail",
         lambda: calls_fail(tools, "agent", AGENT_STARTED, arguments.seeds, ["--mode=sample", "--interval=1"])),
        ("calls fail while the agent starts", lambda: calls_fail(tools, "agent", 0, arguments.seeds)),
        ("calls of the writer fail", lambda: calls_fail(tools, "writer", 0, arguments.seeds)),
        ("the writer is stopped", lambda: the_writer_is_stopped(tools, arguments.seeds)),
        ("shared memory is full", lambda: shared_memory_is_full(tools)),
    ]
    plan = tap.Plan(len(cases))
    has_own_memory = surroundings.enter()
    for name, case in cases:
        if has_own_memory:
            plan.run(name, case)
        else:
            plan.skip(name, "needs a mount namespace of its own: run as root")
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
