#!/usr/bin/env python3
"""Programs that install a seccomp filter after their start. The filter of tests/programs/processes/strict_sandbox.c allows the system calls
that the program needs, and those that SECURITY.md lists for the agent (allogram's library in the program). Any other system call fails,
raises SIGSYS, or kills the process. So the test fails if the agent makes a system call that is not in that list."""

import os
import signal
import subprocess
import sys
import time

import recorded
import tap

KINDS = ("errno", "enosys", "trap", "kill")
MODES = {"exact": [], "sampled": ["--mode=sample", "--interval=64"]}
# case: the number of blocks of each process, in this order: the first process, then its children
TRUTH = {
    "single": [25000],
    "_exit": [25000],
    "threads": [32000],
    "forks": [0, 3000, 3000, 3000, 3000, 3000],
    "kept": [700000],
    "jump": [2000],
    "raw": [10, 3000],
    "silent": [10],
}
LATE_BLOCKS = 6000000  # blocks that the program allocates while the writer is stopped
# The agent makes some system calls only in certain situations. For each case with such a situation, this table has the number of the system call
# that the agent must make. If the agent did not make the call, the case would not test that the filter allows the call.
RARE = {"jump": 131, "raw": 39, "silent": 39}  # sigaltstack, getpid, getpid
THREAD_BLOCKS = 4  # blocks of the C library, at most: it allocates one for each thread for which it cannot reuse the stack of an ended thread
MAPPINGS = 200  # events of mappings and unmappings, at most; these events may be lost, too


def look_at_traces(failures, tools, traces, how, is_exact):
    failures.expect("number of traces", len(traces), len(TRUTH[how]))
    for trace, blocks in zip(traces, TRUTH[how]):
        summary = recorded.report(tools, trace)
        status, verdict = recorded.check(tools, trace)
        failures.expect("status of check, whole", (status, verdict.get("whole")), (0, True))
        failures.expect("lost events", summary["lost_events"]["total"], 0)
        failures.expect("ghost frees", summary["ghost_frees"], 0)
        failures.expect("end of the trace", summary["trace"]["end"], "exit")
        if is_exact:
            more = THREAD_BLOCKS if how in ("threads", "silent") else 0
            freed = 0 if how == "kept" else blocks
            found = (summary["allocated_blocks"], summary["freed_blocks"])
            failures.fail_unless("blocks, freed: %s, should be %s" % (found, (blocks, freed)),
                                 blocks <= found[0] <= blocks + more and freed <= found[1] <= freed + more)


def is_as_plain(failures, tools, outcome, kind, how, *more):
    plain = recorded.run([tools.program("strict_sandbox"), kind, how, *more])
    failures.expect("status, stderr without allogram", (plain.status, plain.stderr), (0, b""))
    for what in ("status", "stdout", "stderr"):
        failures.expect(what, getattr(outcome, what), getattr(plain, what))


def under_run(tools, kind, how, mode):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("strict_sandbox"), kind, how], folder, MODES[mode])
        is_as_plain(failures, tools, outcome, kind, how)
        look_at_traces(failures, tools, traces, how, mode == "exact")
    return failures


def attached(tools, kind, how):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        program = subprocess.Popen([tools.program("strict_sandbox"), kind, how, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        program.stdout.readline()
        tool = subprocess.Popen([tools.allogram, "attach", "-q", "--mode=exact", "-o", os.path.join(folder, "t.%p.allogram"),
                                 str(program.pid)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 30
        while tool.poll() is None and time.monotonic() < deadline:
            with open("/proc/%d/maps" % program.pid, encoding="utf-8") as maps:
                if "liballogram-attached" in maps.read():
                    break
            time.sleep(0.01)
        time.sleep(0.5)  # waits until the agent, which is mapped now, has installed its hooks
        stdout, stderr = program.communicate(b"go\n", timeout=60)
        _, complaints = tool.communicate(timeout=60)
        status = program.returncode if program.returncode >= 0 else 128 - program.returncode
        is_as_plain(failures, tools, recorded.Outcome(status, b"ready\n" + stdout, stderr), kind, how, "wait")
        failures.expect("status and output of attach", (tool.returncode, complaints), (0, b""))
        look_at_traces(failures, tools, recorded.traces_in(folder), how, is_exact=True)
    return failures


def refused(tools, how):
    """The filter also refuses the system calls of the agent. The program must run as without allogram, and events that could not be recorded
    must be counted as lost."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("strict_sandbox"), "bare", how], folder)
        is_as_plain(failures, tools, outcome, "bare", how)
        failures.expect("number of traces", len(traces), len(TRUTH[how]))
        counts = []
        for trace in traces:
            summary = recorded.report(tools, trace)
            counts.append(summary["allocated_blocks"] + summary["freed_blocks"] + summary["inherited_frees"] + summary["ghost_frees"] + summary["lost_events"]["total"])
        # sorted by count, because the order of the traces is that of the pids
        for events, blocks in zip(sorted(counts), sorted(TRUTH[how])):
            made = blocks if how == "kept" else 2 * blocks
            failures.require("all events are recorded or counted as lost: %d of %d" % (events, made), made <= events <= made + MAPPINGS)
    return failures


def while_the_writer_is_stopped(tools, kind, how, folder):
    run = subprocess.Popen([tools.allogram, "run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--",
                            tools.program("strict_sandbox"), kind, how, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
    first = run.stdout.readline()
    writer = recorded.writer_of(run.pid)
    os.kill(writer, signal.SIGSTOP)
    try:
        run.stdin.write(b"go\n")
        run.stdin.flush()
        lines = [first]
        while lines[-1] not in (b"", b"done\n"):
            lines.append(run.stdout.readline())
    finally:
        os.kill(writer, signal.SIGCONT)
    stdout, stderr = run.communicate(timeout=120)
    return recorded.Outcome(run.returncode, b"".join(lines) + stdout, stderr)


def late(tools, kind):
    """The writer (the process that writes the traces) is stopped while the program records more than 64 MiB of events. If the filter (kind
    "bare") refuses the system calls of the agent, the agent cannot use new pages of the live file (the memory that it shares with the
    writer). Then events are lost, and must be counted as lost."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        is_as_plain(failures, tools, while_the_writer_is_stopped(tools, kind, "late", folder), kind, "late", "wait")
        traces = recorded.traces_in(folder)
        failures.expect("number of traces", len(traces), 1)
        for trace in traces:
            summary = recorded.report(tools, trace)
            lost = summary["lost_events"]["total"]
            events = summary["allocated_blocks"] + summary["freed_blocks"] + summary["inherited_frees"] + summary["ghost_frees"] + lost
            if kind == "bare":
                failures.require("events are lost", lost > 0)
                failures.expect("events that are recorded or counted as lost", events, 2 * LATE_BLOCKS)
            else:
                failures.expect("blocks, freed, lost", (summary["allocated_blocks"], summary["freed_blocks"], lost),
                                (LATE_BLOCKS, LATE_BLOCKS, 0))
    return failures


def rare(tools, how):
    """Checks that the agent makes the system call RARE[how]: with a filter that forbids it, the program prints its number. In the case "jump",
    one of 200 signals has to interrupt the agent. In 2 of 100 runs none does, so the program is run up to 10 times."""
    failures = tap.Failures()
    line = b"forbidden: system call %d\n" % RARE[how]
    with recorded.Folder() as folder:
        for attempt in range(10):
            inner = os.path.join(folder, str(attempt))
            os.mkdir(inner)
            outcome, _ = recorded.record(tools, [tools.program("strict_sandbox"), "own", how], inner)
            failures.expect("status", outcome.status, 0)
            if line in outcome.stdout:
                break
        failures.fail_unless("%r is not in %r" % (line, outcome.stdout[-2000:]), line in outcome.stdout)
    return failures


def names(tools, *before):
    """The names of threads are in the trace. No filter could prevent this, because the writer reads the names, not the agent. The program runs
    without a filter here, because it calls prctl itself."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [*before, tools.program("strict_sandbox"), "none", "named"], folder)
        failures.expect("status", outcome.status, 0)
        found = [thread["name"] for trace in traces for thread in recorded.report(tools, trace, "--view=threads")["threads"]]
        failures.require("the names of both threads are in the trace: %s" % found, "painter" in found and "strict_sandbox" in found)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    cases = [("run %s: %s, %s" % (mode, kind, how), lambda kind=kind, how=how, mode=mode: under_run(tools, kind, how, mode))
             for mode in MODES for kind in KINDS for how in TRUTH]
    cases += [("attach: %s, %s" % (kind, how), lambda kind=kind, how=how: attached(tools, kind, how))
              for kind in KINDS for how in ("single", "_exit", "threads", "kept")]
    cases += [("refused: %s" % how, lambda how=how: refused(tools, how)) for how in TRUTH]
    cases += [("late: %s" % kind, lambda kind=kind: late(tools, kind)) for kind in ("kill", "trap", "bare")]
    cases += [("rare: %s" % how, lambda how=how: rare(tools, how)) for how in RARE]
    cases.append(("names of threads", lambda: names(tools)))
    can_unshare = subprocess.run(["unshare", "-p", "-f", "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0
    plan = tap.Plan(len(cases) + 1)
    for name, case in cases:
        plan.run(name, case)
    if can_unshare:
        plan.run("names of threads in a PID namespace", lambda: names(tools, "unshare", "-p", "-f"))
    else:
        plan.skip("names of threads in a PID namespace", "may not make a PID namespace")
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
