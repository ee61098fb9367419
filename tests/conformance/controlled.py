#!/usr/bin/env python3
"""`allogram control PID` during a recording. The program (commanded.c) allocates and frees on command, so the exact contents of the trace
are known. For each request that is refused, `control` must print one line on standard error."""

import contextlib
import glob
import os
import signal
import subprocess
import sys
import time

import recorded
import snapshots
import tap
from recording_times import SEEN_S, sums, own_at_end

FULL = os.environ.get("AG_TEST_SCALE") == "full"
SAMPLES_OF_ALL = ("--mode=sample", "--interval=1")


def program_of(commanded):
    """The pid of commanded.c, a child of `allogram run`."""
    def find():
        return next((pid for pid in recorded.children_of(commanded.process.pid) if recorded.name_of(pid) == "commanded"), None)
    snapshots.wait_for("commanded.c", find)
    return find()


def control(tools, pid, action, *options):
    return recorded.run([tools.allogram, "control", str(pid), action, *options])


def ask(tools, pid, action, failures):
    """Sends the request ACTION, which must succeed; returns what `control` printed."""
    outcome = control(tools, pid, action)
    failures.expect("control %s" % action, (outcome.status, outcome.stderr.decode()), (0, ""))
    time.sleep(SEEN_S)
    return outcome.stdout.decode().strip()


def refused(tools, pid, action, failures, status=1):
    outcome = control(tools, pid, action)
    lines = outcome.stderr.decode().splitlines()
    failures.expect("%s is refused: status, lines" % action, (outcome.status, len(lines)), (status, 1))
    return lines[0] if lines else ""


def finish(tools, commanded, failures, expected):
    failures.expect("sums at the end", own_at_end(tools, commanded, failures), expected)


def pause_and_resume(tools, *options):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = snapshots.Commanded(tools, folder, *options)
        commanded.do("alloc 10 100")
        pid = program_of(commanded)
        ask(tools, pid, "pause", failures)
        failures.require("a second pause is refused", "paused already" in refused(tools, pid, "pause", failures))
        commanded.do("alloc 2000 200", "free 2005", "temporary 3000 60")
        ask(tools, pid, "resume", failures)
        failures.require("a second resume is refused", "not paused" in refused(tools, pid, "resume", failures))
        commanded.do("alloc 7 50")
        finish(tools, commanded, failures, sums(17, 1350, 5, 850))
    return failures


def pause_and_resume_samples(tools):
    return pause_and_resume(tools, *SAMPLES_OF_ALL)


def a_signal_after_a_request_toggles_the_recording(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = snapshots.Commanded(tools, folder, "--signal=USR1")
        commanded.do("alloc 10 100")
        ask(tools, commanded.process.pid, "pause", failures)  # `control` accepts the pid of `run` and the pid of the program
        commanded.do("alloc 2000 200", "free 2000")
        commanded.process.send_signal(signal.SIGUSR1)
        time.sleep(SEEN_S)
        commanded.do("alloc 7 50")
        finish(tools, commanded, failures, sums(17, 1350, 0, 1350))
    return failures


def reset(tools, *options):
    """Reports begin at the reset: blocks allocated before the reset count as in use, but not as allocated."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = snapshots.Commanded(tools, folder, *options, is_quiet=False)
        commanded.do("alloc 1000 100", "free 990")
        ask(tools, program_of(commanded), "reset", failures)
        commanded.do("alloc 7 50", "free 2")
        failures.expect("status", commanded.finish(), 0)
        # The closing summary of an exact recording includes the events before the reset. The closing summary of a sampled recording is
        # read from the trace, which begins at the reset.
        failures.expect("sentences about the time before the reset in the closing summary: %s" % commanded.said(), commanded.said().count("totals include the time before the reset"), 0 if options else 1)
        snapshots.is_whole(tools, commanded.trace, failures)
        seen = snapshots.own(tools, commanded.trace)
        failures.expect("allocated and freed since the reset", (seen["allocated_blocks"], seen["freed_blocks"]), (7, 2))
        failures.expect("bytes in use", seen["in_use_bytes"], 10 * 100 + 5 * 50)
    return failures


def reset_samples(tools):
    return reset(tools, *SAMPLES_OF_ALL)


def a_reset_without_later_events(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = snapshots.Commanded(tools, folder)
        commanded.do("alloc 1000 100", "free 990")
        ask(tools, program_of(commanded), "reset", failures)
        commanded.process.kill()  # kills only `run`; the program ends when its standard input is closed
        commanded.process.wait()
        commanded.process.stdin.close()
        snapshots.wait_for("the end", lambda: recorded.check(tools, commanded.trace)[1].get("whole"))
        summary = recorded.report(tools, commanded.trace)
        failures.expect("allocated since the reset", summary["allocated_blocks"], 0)
        failures.require("at least 1000 bytes are in use: %d" % summary["in_use_bytes_at_end"], summary["in_use_bytes_at_end"] >= 1000)
    return failures


def dumps(tools, *options):
    """Requests a dump of a recording. Then three processes request a dump at the same time, and each must get a dump of its own."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = snapshots.Commanded(tools, folder, *options)
        commanded.do("alloc 10 100", "free 2")
        pid = program_of(commanded)
        first = ask(tools, pid, "dump", failures)
        failures.expect("name of the first dump", first, os.path.join(folder, "t.dump1.allogram"))
        snapshots.is_whole(tools, first, failures)
        failures.expect("sums of the first dump", snapshots.own(tools, first), sums(10, 1000, 2, 800))
        commanded.do("alloc 5 10")
        askers = [subprocess.Popen([tools.allogram, "control", str(pid), "dump"], stdout=subprocess.PIPE) for _ in range(3)]
        names = sorted(os.path.basename(asker.communicate()[0].decode().strip()) for asker in askers)
        failures.expect("names of the three other dumps", names, ["t.dump%d.allogram" % number for number in (2, 3, 4)])
        failures.expect("sums of the last dump", snapshots.own(tools, commanded.dump(4)), sums(15, 1050, 2, 850))
        finish(tools, commanded, failures, sums(15, 1050, 2, 850))
    return failures


def a_dump_is_whole_if_the_program_ends_meanwhile(tools):
    """The program ends while a dump is written: the dump is whole and contains all events up to the request."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = snapshots.Commanded(tools, folder)
        commanded.do(*["alloc 1000000 16", "free 1000000"] * 3)
        asker = subprocess.Popen([tools.allogram, "control", str(program_of(commanded)), "dump"], stdout=subprocess.PIPE)
        path = os.path.join(folder, "t.dump1.allogram")
        snapshots.wait_for("a dump that is being written", lambda: os.path.exists(path + ".part") or os.path.exists(path))
        failures.expect("status", commanded.finish(), 0)
        failures.expect("name of the dump", asker.communicate()[0].decode().strip(), path)
        failures.expect("status of control", asker.returncode, 0)
        snapshots.is_whole(tools, path, failures)
        failures.expect("sums of the dump", snapshots.own(tools, path), sums(3000000, 48000000, 3000000, 0))
    return failures


def a_stuck_dump_is_given_up(tools):
    """The process that writes a dump is stopped while the program ends. After a minute in which the dump does not grow, `run` ends, and neither
    the process nor an incomplete file is left."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = snapshots.Commanded(tools, folder)
        commanded.do(*["alloc 1000000 16", "free 1000000"] * 3)
        asker = subprocess.Popen([tools.allogram, "control", str(program_of(commanded)), "dump"], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        path = os.path.join(folder, "t.dump1.allogram")
        stuck = []

        def is_stopped():
            for link in glob.glob("/proc/[0-9]*/fd/*"):
                with contextlib.suppress(OSError):
                    if os.readlink(link) == path + ".part":
                        stuck.append(int(link.split("/")[2]))
                        os.kill(stuck[0], signal.SIGSTOP)
                        return True
            return False
        snapshots.wait_for("a process that writes a dump", is_stopped)
        commanded.process.stdin.close()
        failures.expect("status", commanded.process.wait(180), 0)
        failures.expect("processes that are left", [pid for pid in stuck if os.path.exists("/proc/%d" % pid)], [])
        failures.expect("dumps that are left", commanded.dumps(), [])
        failures.expect("status of control", asker.wait(60), 1)
    return failures


def a_program_in_another_root_can_be_dumped(tools):
    failures = tap.Failures()
    script = "import os, sys; os.chroot(sys.argv[1]); print(flush=True); sys.stdin.readline()"
    with recorded.Folder() as folder:
        os.mkdir(os.path.join(folder, "root"))
        with subprocess.Popen([tools.allogram, "run", "-q", "-o", os.path.join(folder, "t.allogram"), "--", sys.executable, "-c", script,
                               os.path.join(folder, "root")], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            with open("/proc/%d/task/%d/children" % (process.pid, process.pid), encoding="ascii") as children:
                pids = [pid for pid in children.read().split() if os.readlink("/proc/%s/root" % pid).endswith("/root")]
            failures.expect("number of processes with another root", len(pids), 1)
            path = ask(tools, pids[0], "dump", failures)
            snapshots.is_whole(tools, path, failures)
            process.stdin.close()
            failures.expect("status", process.wait(snapshots.SECONDS), 0)
    return failures


def dumps_of_samples(tools):
    return dumps(tools, *SAMPLES_OF_ALL)


def stop(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = snapshots.Commanded(tools, folder, "--signal=USR1")
        commanded.do("alloc 10 100", "free 2")
        pid = program_of(commanded)
        ask(tools, pid, "stop", failures)
        for action, words in (("stop", "was stopped already"), ("pause", "cannot be resumed"), ("resume", "cannot be resumed")):
            failures.require("%s is refused after a stop" % action, words in refused(tools, pid, action, failures))
        commanded.process.send_signal(signal.SIGUSR1)  # this signal must not start the recording again
        time.sleep(SEEN_S)
        commanded.do("alloc 1000 30", "free 1008")
        finish(tools, commanded, failures, sums(10, 1000, 2, 800))
    return failures


def pause_and_resume_are_refused_during_the_delay(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = snapshots.Commanded(tools, folder, "--delay=1h")
        commanded.do("alloc 10 100")
        for action in ("pause", "resume"):
            failures.require("the message says that recording waits for --delay", "--delay" in refused(tools, program_of(commanded), action, failures))
        failures.expect("status", commanded.finish(), 0)
    return failures


def stop_ends_an_attached_recording(tools):
    """When `control` stops an attached recording, `attach` leaves the program and ends. Then the trace is whole, and the program is not recorded any
    more."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = os.path.join(folder, "t.allogram")
        with subprocess.Popen([tools.program("commanded")], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
            def tell(line):
                program.stdin.write(line.encode() + b"\n")
                program.stdin.flush()
                program.stdout.readline()
            tell("alloc 1 10")
            with subprocess.Popen([tools.allogram, "attach", str(program.pid), "--mode=exact", "-o", trace],
                                  stderr=subprocess.PIPE) as attach:
                said = attach.stderr.readline()
                failures.require("attach says that it attached: %r" % said, b"attached to" in said)
                tell("alloc 10 100")
                ask(tools, program.pid, "pause", failures)
                tell("alloc 2000 200")
                ask(tools, program.pid, "resume", failures)
                tell("alloc 7 50")
                dump = ask(tools, program.pid, "dump", failures)
                failures.expect("sums of the dump", snapshots.own(tools, dump), sums(17, 1350, 0, 1350))
                ask(tools, program.pid, "stop", failures)
                failures.expect("status of attach", attach.wait(snapshots.SECONDS), 0)
                attach.stderr.read()
            snapshots.is_whole(tools, trace, failures)
            failures.expect("sums of the trace", snapshots.own(tools, trace), sums(17, 1350, 0, 1350))
            tell("alloc 3 50")
            failures.require("the program is not recorded after the stop",
                             "not recorded" in refused(tools, program.pid, "pause", failures))
            program.stdin.close()
            failures.expect("status of the program", program.wait(snapshots.SECONDS), 0)
    return failures


def wrong_arguments_are_refused(tools):
    failures = tap.Failures()
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        failures.require("the message for a process that is not recorded advises `allogram attach`", "allogram attach" in refused(tools, sleeper.pid, "pause", failures))
        failures.require("an unknown action is refused", "not one of" in refused(tools, sleeper.pid, "begin", failures, status=2))
        outcome = control(tools, sleeper.pid, "pause", "--cookie-file=x")
        failures.expect("status, lines for --cookie-file with a pid", (outcome.status, len(outcome.stderr.splitlines())), (2, 1))
    finally:
        sleeper.kill()
        sleeper.wait()
    failures.require("a process that has ended is refused", "control: " in refused(tools, sleeper.pid, "pause", failures))
    failures.require("a word that is neither a pid nor the name of an Erlang node is refused", "neither" in refused(tools, "me", "pause", failures, status=2))
    return failures


def main():
    tools = recorded.tools_of_arguments()
    cases = (pause_and_resume, pause_and_resume_samples, a_signal_after_a_request_toggles_the_recording, reset, reset_samples,
             a_reset_without_later_events, dumps, dumps_of_samples, a_dump_is_whole_if_the_program_ends_meanwhile, stop,
             pause_and_resume_are_refused_during_the_delay, stop_ends_an_attached_recording, wrong_arguments_are_refused,
             a_program_in_another_root_can_be_dumped) + (a_stuck_dump_is_given_up,) * FULL
    results = tap.Plan(len(cases))
    for case in cases:
        if case is a_program_in_another_root_can_be_dumped and os.geteuid() != 0:
            results.skip(case.__name__.replace("_", " "), "needs root")
            continue
        results.run(case.__name__.replace("_", " "), lambda case=case: case(tools))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
