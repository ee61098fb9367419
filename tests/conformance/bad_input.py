#!/usr/bin/env python3
"""Errors whose cause is outside of allogram: folders, disks, limits, commands and damaged traces. For each error allogram must print one
line on standard error and exit with the documented status, and the recorded program must run as without allogram."""

import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import recorded
import tap


class Case:
    def __init__(self, tools):
        self.tools, self.failures = tools, tap.Failures()

    def expect(self, *arguments):
        self.failures.expect(*arguments)

    def fail_unless(self, *arguments):
        self.failures.fail_unless(*arguments)

    def run(self, *arguments, **how):
        return recorded.run([self.tools.allogram, *arguments], **how)

    def one_line(self, outcome, *words):
        """Checks that standard error is one line that begins with `allogram`, does not end in a dot, and contains WORDS."""
        text = outcome.stderr.decode(errors="replace")
        self.fail_unless("the message is not one line: %r" % text, text.count("\n") == 1 and text.endswith("\n"))
        self.fail_unless("the message does not begin with the name of the program: %r" % text, text.startswith("allogram"))
        self.fail_unless("the message ends in a dot: %r" % text, not text.endswith(".\n"))
        for word in words:
            self.fail_unless("the message does not contain %r: %r" % (word, text), word in text)


def make_trace(case, folder, program="million_blocks"):
    _, traces = recorded.record(case.tools, [case.tools.program(program)], folder)
    if not traces:
        raise RuntimeError("no trace to damage")
    return traces[0]


# ---- run: the command ------------------------------------------------------------------------------------------------
def command_not_found(case, folder):
    outcome = case.run("run", "--", "/no/such/command", cwd=folder)
    case.expect("status", outcome.status, 127)
    case.one_line(outcome, "/no/such/command")
    case.expect("files left behind", os.listdir(folder), [])


def command_not_executable(case, folder):
    path = os.path.join(folder, "plain.txt")
    with open(path, "w") as file:
        file.write("no program\n")
    os.chmod(path, 0o644)
    outcome = case.run("run", "--", path, cwd=folder)
    case.expect("status", outcome.status, 126)
    case.one_line(outcome, path)


def script_without_interpreter(case, folder):
    path = os.path.join(folder, "script")
    with open(path, "w") as file:
        file.write("#!/no/such/interpreter\n")
    os.chmod(path, 0o755)
    outcome = case.run("run", "--", path, cwd=folder)
    case.fail_unless("status %d" % outcome.status, outcome.status in (126, 127))
    case.one_line(outcome, path)


def static_program(case, folder):
    source, program = os.path.join(folder, "static.c"), os.path.join(folder, "static")
    with open(source, "w") as file:
        file.write("#include <stdlib.h>\n#include <unistd.h>\n"
                   "int main(void) { return write(1, \"here\\n\", 5) == 5 && malloc(3) ? 5 : 1; }\n")
    if subprocess.run(["gcc", "-static", "-o", program, source], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        raise RuntimeError("cannot link statically here")
    outcome = case.run("run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--", program)
    case.one_line(outcome, "observe")  # the message recommends `allogram observe`
    case.fail_unless("status %d" % outcome.status, outcome.status in (5, 125))
    case.fail_unless("the program ran and did not print its line", outcome.status == 125 or outcome.stdout == b"here\n")


def setuid_program(case, folder):
    if os.geteuid() != 0:
        return
    program = os.path.join(folder, "setuid")
    shutil.copy(case.tools.program("temporary"), program)
    os.chown(program, 65534, 65534)
    os.chmod(program, 0o4755)
    outcome = case.run("run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--", program)
    case.one_line(outcome, "setuid")


def no_command(case, folder):
    outcome = case.run("run", cwd=folder)
    case.expect("status", outcome.status, 125)
    case.fail_unless("no message on standard error", outcome.stderr != b"")


def exit_status_of_program(case, folder):
    for status in (0, 1, 77, 125, 126, 127, 255):
        outcome = case.run("run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--", "sh", "-c", "exit %d" % status)
        case.expect("status", outcome.status, status)
        case.expect("standard error", outcome.stderr, b"")


def closing_summary(case, folder):
    outcome = case.run("run", "-o", os.path.join(folder, "t.%p.allogram"), "--", case.tools.program("temporary"))
    text = outcome.stderr.decode()
    case.expect("standard output", outcome.stdout, b"temporary\n")
    case.fail_unless("the summary does not show the number of allocations: %r" % text, "6,010" in text or "6010" in text or "6.0" in text)
    case.fail_unless("the summary does not name the trace: %r" % text, recorded.traces_in(folder)[0] in text)
    case.fail_unless("the summary does not name the next command: %r" % text, "allogram report" in text)


# ---- run: where the trace goes ---------------------------------------------------------------------------------------
def folder_does_not_exist(case, folder):
    outcome = case.run("run", "-o", os.path.join(folder, "none/t.allogram"), "--", case.tools.program("temporary"))
    case.expect("status", outcome.status, 125)
    case.expect("output of the program, which must not run", outcome.stdout, b"")
    case.one_line(outcome, "none")


def output_that_is_no_file(case, folder):
    """`run` refuses a folder, a FIFO or a device as output. (If a regular file with the name exists, `run` appends a number to the
    name; `-o /dev/null` must not create /dev/null-2.)"""
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    for path, word in ((folder, "folder"), (fifo, "regular"), ("/dev/null", "regular")):
        outcome = case.run("run", "-o", path, "--", case.tools.program("temporary"))
        case.expect("status", outcome.status, 125)
        case.expect("output of the program, which must not run", outcome.stdout, b"")
        case.one_line(outcome, path, word)


def empty_command(case, folder):
    outcome = case.run("run", "--", "", cwd=folder)
    case.expect("status", outcome.status, 127)
    case.one_line(outcome, "empty")


def folder_is_not_writable(case, folder):
    if not os.path.isdir("/proc/self"):
        return
    outcome = case.run("run", "-o", "/proc/self/t.allogram", "--", case.tools.program("temporary"))
    case.expect("status", outcome.status, 125)
    case.one_line(outcome)


def never_overwrites(case, folder):
    path = os.path.join(folder, "t.allogram")
    for name in ("t.allogram", "t-2.allogram", "t-3.allogram"):
        outcome = case.run("run", "-q", "-o", path, "--", case.tools.program("temporary"))
        case.expect("status", outcome.status, 0)
        case.fail_unless("no " + name, os.path.exists(os.path.join(folder, name)))
    case.expect("mode of the trace's file", oct(os.stat(path).st_mode & 0o777), "0o600")
    case.fail_unless("the first trace was overwritten", recorded.report(case.tools, path)["allocated_blocks"] == 6010)


def link_in_the_way(case, folder):
    victim, path = os.path.join(folder, "victim"), os.path.join(folder, "t.allogram")
    with open(victim, "w") as file:
        file.write("precious\n")
    os.symlink(victim, path)
    case.run("run", "-q", "-o", path, "--", case.tools.program("temporary"))
    with open(victim) as file:
        case.expect("contents of the file to which the link points", file.read(), "precious\n")


def folder_vanishes(case, folder):
    inner = os.path.join(folder, "inner")
    os.mkdir(inner)
    # rm is recorded, too: the writer may create its trace after rm has read the folder, and then rm cannot remove the folder
    program = ["sh", "-c", "while [ -e '%s' ]; do rm -rf '%s' 2>/dev/null; done; exec %s" % (inner, inner, case.tools.program("million_blocks"))]
    outcome = case.run("run", "-o", os.path.join(inner, "t.%p.allogram"), "--", *program)
    case.expect("status", outcome.status, 0)
    case.expect("standard output", outcome.stdout, b"a million\n")
    text = outcome.stderr.decode()
    case.fail_unless("the message does not say what could not be created: %r" % text, "could not be created: No such file or directory" in text)
    case.fail_unless("a message advises to read the missing trace: %r" % text, "allogram report" not in text)


def trace_is_deleted(case, folder):
    """The program deletes its trace during the recording. Nothing can recover the trace, and no message may advise to read it."""
    for mode in ("exact", "sample"):
        outcome = case.run("run", "--mode=" + mode, "-o", os.path.join(folder, "t.%p.allogram"), "--", "sh", "-c",
                           'rm "$0/t.$$.allogram"; exit 3', folder)
        case.expect("status", outcome.status, 3)
        text = outcome.stderr.decode()
        case.fail_unless("no message says that the trace was deleted: %r" % text, ".allogram was deleted while it was written: it cannot be recovered" in text)
        case.fail_unless("a message describes the deleted trace: %r" % text, "allogram report" not in text and "nothing lost" not in text)


def expect_counted(case, outcome, traces, why, least):
    """Checks the numbers that `run` prints: how many other processes have a trace, and how many have none, with the reason WHY. The
    two numbers must add up to at least LEAST."""
    text = outcome.stderr.decode()
    others = re.search(r"(\d+) other traces?", text)
    case.expect("other traces in %r" % text, int(others.group(1)) if others else 0, len(traces) - 1)
    missing = re.search(r"(\d+) process(?: has|es have) no trace: " + why, text)
    case.fail_unless("no message says how many processes have no trace, and why: %r" % text, missing)
    if missing:
        case.fail_unless("fewer than %d other processes with or without a trace: %r" % (least, text), int(missing.group(1)) + len(traces) - 1 >= least)


def too_few_descriptors(case, folder):
    """60 processes run at the same time, but there are only enough descriptors for the traces of about a dozen processes."""
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    script = ('mkfifo "$0.come" "$0.go"; exec 3<>"$0.come" 4<>"$0.go"; for i in $(seq 60); do sh -c "echo >&3; read x <&4" & done; '
              'for i in $(seq 60); do read x <&3; done; for i in $(seq 60); do echo >&4; done; wait; exit 7')
    outcome = case.run("run", "-o", os.path.join(folder, "t.%p.allogram"), "--", "sh", "-c", script, os.path.join(folder, "fifo"),
                       preexec=limit)
    case.expect("status", outcome.status, 7)
    expect_counted(case, outcome, recorded.traces_in(folder), "Too many open files; ", 60)


def name_too_long(case, folder):
    """The file name of the child's trace is too long; the file name of its parent's trace is not."""
    child = os.path.join(folder, "n" * 200)
    shutil.copy(case.tools.program("temporary"), child)
    traces = os.path.join(folder, "traces")
    os.mkdir(traces)
    outcome = case.run("run", "-o", os.path.join(traces, "t." + "t" * 60 + ".%e.%p.allogram"), "--", "sh", "-c", '"$0"; exit 7', child)
    case.expect("status", outcome.status, 7)
    expect_counted(case, outcome, os.listdir(traces), "File name too long; ", 1)


class SmallDisk:
    """A tmpfs of the given size in bytes; needs root."""

    def __init__(self, folder, bytes_):
        self.path = os.path.join(folder, "disk")
        os.mkdir(self.path)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d" % bytes_, "none", self.path], check=True)

    def __enter__(self):
        return self.path

    def __exit__(self, *unused):
        subprocess.run(["umount", "-l", self.path], check=False)


def disk_full(case, folder):
    if os.geteuid() != 0:
        return
    with SmallDisk(folder, 64 << 10) as disk:
        outcome = case.run("run", "-o", os.path.join(disk, "t.%p.allogram"), "--", case.tools.program("million_blocks"))
        case.expect("status", outcome.status, 0)
        case.expect("standard output", outcome.stdout, b"a million\n")
        text = outcome.stderr.decode()
        case.fail_unless("the closing summary does not say that the disk is full: %r" % text, "space" in text or "full" in text)
        traces = recorded.traces_in(disk)
        case.fail_unless("no trace", len(traces) == 1)
        if traces:
            summary = recorded.report(case.tools, traces[0])
            case.fail_unless("the trace contains no allocation", summary["allocated_blocks"] > 0)
            case.fail_unless("no event is counted as lost", summary["lost_events"]["total"] > 0)
            case.expect("end of the trace", summary["trace"]["end"], "cut")


def disk_full_of_several(case, folder):
    """A shell and two programs write their traces to a small disk: `run` reports if a trace could not be written to its end, and no
    trace takes more space than it needs."""
    with SmallDisk(folder, 512 << 10) as disk:
        program = case.tools.program("million_blocks")
        outcome = case.run("run", "-o", os.path.join(disk, "t.%p.allogram"), "--", "sh", "-c", '"$0" & "$0" & wait; exit 7', program)
        case.expect("status", outcome.status, 7)
        case.expect("standard output", outcome.stdout, b"a million\n" * 2)
        recorded_events = 0
        for trace in recorded.traces_in(disk):
            summary = recorded.report(case.tools, trace)
            recorded_events += summary["allocated_blocks"] + summary["freed_blocks"]
            if summary["lost_events"]["total"] > 1000:
                case.fail_unless("no message says that recording stopped: %r" % outcome.stderr, b"recording stopped" in outcome.stderr)
        case.fail_unless("only %d events on 512 KiB" % recorded_events, recorded_events > 100000)


def disk_of_the_live_file_full(case, folder):
    """There is too little shared memory: `run` either refuses to start the program, or the program runs as without allogram and all
    its events are recorded or counted as lost."""
    if os.geteuid() != 0:
        return
    script = ("mount -t tmpfs -o size=1m none /dev/shm && exec \"$@\"")
    outcome = recorded.run(["unshare", "-m", "sh", "-c", script, "sh", case.tools.allogram, "run", "-q", "-o",
                            os.path.join(folder, "t.%p.allogram"), "--", case.tools.program("million_blocks")])
    case.fail_unless("status %d" % outcome.status, outcome.status == 0 or (outcome.status == 125 and outcome.stdout == b""))
    if outcome.status == 0:
        case.expect("standard output", outcome.stdout, b"a million\n")
        traces = recorded.traces_in(folder)
        case.expect("traces", len(traces), 1)
        for trace in traces:
            summary = recorded.report(case.tools, trace)
            got = summary["allocated_blocks"] + summary["freed_blocks"] + summary["lost_events"]["total"]
            case.fail_unless("%d of 1700001 events are recorded or counted as lost" % got, got >= 1700001)


CROWD = """#include <pthread.h>
#include <stdlib.h>
static pthread_barrier_t all;
static void *work(void *unused) {
    for (int i = 0; i < 10; i++) { void *volatile block = malloc(5); free(block); }
    pthread_barrier_wait(&all);
    return unused;
}
int main(void) {
    enum { N = 1200 };
    static pthread_t threads[N];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 32768);
    pthread_barrier_init(&all, NULL, N);
    for (int i = 0; i < N; i++) { if (pthread_create(&threads[i], &small, work, NULL)) { _Exit(1); } }
    for (int i = 0; i < N; i++) { pthread_join(threads[i], NULL); }
}
"""


def more_threads_than_chunks(case, folder):
    """The events recorded and the events counted as lost add up to the events that happened."""
    source, program = os.path.join(folder, "crowd.c"), os.path.join(folder, "crowd")
    with open(source, "w") as file:
        file.write(CROWD)
    subprocess.run(["gcc", "-pthread", "-o", program, source], check=True)
    script = 'mount -t tmpfs -o size="$0" none /dev/shm && exec "$@"'
    recorded_events, lost_events = [], []
    for size in ("400m", "64m"):
        trace = os.path.join(folder, size + ".allogram")
        outcome = recorded.run(["unshare", "-m", "sh", "-c", script, size, case.tools.allogram, "run", "-q", "-o", trace, "--", program])
        case.expect("status", outcome.status, 0)
        summary = recorded.report(case.tools, trace)
        recorded_events.append(summary["allocated_blocks"] + summary["freed_blocks"])
        lost_events.append(summary["lost_events"]["total"])
    case.expect("lost events, with memory for all threads", lost_events[0], 0)
    case.fail_unless("nothing lost with 64 MiB", lost_events[1] > 0)
    case.expect("events recorded or lost with 64 MiB, compared with all events", recorded_events[1] + lost_events[1], recorded_events[0])


def file_size_limit(case, folder):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))

    outcome = case.run("run", "-o", os.path.join(folder, "t.%p.allogram"), "--", case.tools.program("million_blocks"),
                       preexec=limit)
    case.fail_unless("status %d: %r" % (outcome.status, outcome.stderr), outcome.status in (0, 125))
    case.fail_unless("the program was harmed", outcome.status == 125 or outcome.stdout == b"a million\n")
    case.fail_unless("no message on standard error", outcome.stderr != b"")


def max_size(case, folder):
    outcome = case.run("run", "-q", "--max-size=64K", "-o", os.path.join(folder, "t.%p.allogram"), "--",
                       case.tools.program("million_blocks"))
    case.expect("status", outcome.status, 0)
    trace = recorded.traces_in(folder)[0]
    case.fail_unless("the trace has %d bytes" % os.path.getsize(trace), os.path.getsize(trace) <= 64 << 10)
    summary = recorded.report(case.tools, trace)
    case.expect("end of the trace", summary["trace"]["end"], "cut")
    case.expect("status of check", recorded.check(case.tools, trace)[0], 0)


def closed_descriptors(case, folder):
    """allogram starts with descriptors 0, 1 and 2 closed. The program runs with the same descriptors as without allogram, and `run` ends with
    the program's exit status."""
    script = 'exec 0<&- 1>&- 2>&-; exec "$@"'
    seen = []
    for words in ([], [case.tools.allogram, "run", "-o", os.path.join(folder, "t.%p.allogram"), "--"]):
        listing = os.path.join(folder, "fds.%d" % len(words))
        outcome = recorded.run(["sh", "-c", script, "sh", *words, "sh", "-c", "ls /proc/$$/fd > '%s'; exit 4" % listing])
        case.expect("status", outcome.status, 4)
        with open(listing, encoding="ascii") as file:
            seen.append(file.read().split())
        os.unlink(listing)
    case.expect("descriptors", seen[1], seen[0])
    case.fail_unless("without allogram, descriptors 0 and 2 are not closed: %s" % seen[0], not {"0", "2"} & set(seen[0]))  # 1 is the listing


def descriptors_of_the_program(case, folder):
    """The program has the same descriptors as without allogram, and no more."""
    listing = ["sh", "-c", "ls /proc/$$/fd"]
    plain = recorded.run(listing)
    outcome, _ = recorded.record(case.tools, listing, folder)
    case.expect("descriptors", outcome.stdout, plain.stdout)


def signals_of_the_program(case, folder):
    """Signal masks, signal dispositions, capabilities and seccomp state of the program are the same as without allogram."""
    listing = ["grep", "-E", "^(Sig[^Q]|Shd|Cap|NoNewPrivs|Seccomp)", "/proc/self/status"]
    plain = recorded.run(listing)
    outcome, _ = recorded.record(case.tools, listing, folder)
    case.expect("signals", outcome.stdout, plain.stdout)


def interrupted(case, folder):
    """Ctrl-C sends SIGINT to the program and to `allogram run`. The program decides whether it ends, and the trace is whole."""
    process = subprocess.Popen([case.tools.allogram, "run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--", "sh", "-c",
                                "trap 'exit 9' INT; echo up; while :; do sleep 0.05; done"], stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()
    os.killpg(process.pid, 2)
    process.wait(timeout=10)
    process.stdout.close()
    case.expect("status", process.returncode, 9)
    for trace in recorded.wait_until_ended(case.tools, folder, n_traces=1):
        case.expect("status of check", recorded.check(case.tools, trace)[0], 0)


# ---- files that are no traces, and damaged traces --------------------------------------------------------------------------------------------
READERS = (["report"], ["report", "--json"], ["dump"], ["report", "--view=sites"], ["report", "--view=leaks", "--json"])


def spoiled(case, path, *words):
    for reader in READERS:
        outcome = case.run(*reader, path)
        case.expect("status of %s" % reader, outcome.status, 1)
        case.one_line(outcome, *words)
    verdict = case.run("check", path)  # `check` of an existing file prints its verdict on standard output, not on standard error
    said = (verdict.stdout + verdict.stderr).decode(errors="replace")
    case.expect("status of check", verdict.status, 1)
    case.fail_unless("the verdict of check is not one line: %r" % said, said.count("\n") == 1)
    for word in words:
        case.fail_unless("the verdict of check does not contain %r: %r" % (word, said), word in said)


def empty_trace(case, folder):
    path = os.path.join(folder, "empty.allogram")
    open(path, "w").close()
    spoiled(case, path, path)


def missing_trace(case, folder):
    spoiled(case, os.path.join(folder, "none.allogram"), "none.allogram")


def foreign_trace(case, folder):
    spoiled(case, "/bin/ls", "/bin/ls")


def folder_as_trace(case, folder):
    spoiled(case, folder, folder)


def newer_trace(case, folder):
    """A trace with a newer version of the format; the version is the u16 after the magic. The test need not correct the checksum of the
    header, because readers check the version first."""
    path = make_trace(case, folder, "temporary")
    with open(path, "r+b") as file:
        file.seek(8)
        file.write((99).to_bytes(2, "little"))
    spoiled(case, path, "version")


def cut_trace(case, folder):
    """A trace that is cut is readable up to the cut, and `check` ends with status 1."""
    path = make_trace(case, folder)
    with open(path, "rb") as file:
        data = file.read()
    cut = os.path.join(folder, "cut.allogram")
    for share in (0.999, 0.9, 0.5, 0.2):
        with open(cut, "wb") as file:
            file.write(data[: int(len(data) * share)])
        outcome = case.run("check", cut)
        case.expect("status of check of a trace that is cut to %g of its length" % share, outcome.status, 1)
        summary = recorded_anyway(case, cut)
        if share >= 0.5:
            case.fail_unless("nothing is readable in a trace that is cut to %g of its length" % share, summary and summary["allocated_blocks"] > 1000)


def recorded_anyway(case, path):
    """Returns the JSON of `report` for a damaged trace, with the readable part of the trace."""
    outcome = case.run("report", path, "--json")
    try:
        return json.loads(outcome.stdout)
    except ValueError:
        case.failures.append("report does not show the readable part: status %d %r" % (outcome.status, outcome.stderr))
        return None


def flipped_trace(case, folder):
    """Traces with single flipped bits: `check` finds nearly all of them, and no reader crashes."""
    path = make_trace(case, folder, "temporary")
    with open(path, "rb") as file:
        original = file.read()
    data = bytearray(original)
    source = random.Random(7)
    flipped = os.path.join(folder, "flipped.allogram")
    unseen = 0
    for _ in range(60):
        at = source.randrange(len(data))
        data[at] ^= 1 << source.randrange(8)
        with open(flipped, "wb") as file:
            file.write(data)
        outcome = case.run("check", flipped)
        case.fail_unless("check: status %d with a flipped bit at byte %d" % (outcome.status, at), outcome.status in (0, 1, 2))
        unseen += outcome.status == 0
        for reader in READERS[:2]:
            status = case.run(*reader, flipped).status
            case.fail_unless("%s: status %d with a flipped bit at byte %d" % (reader, status, at), status in (0, 1, 2))
        data[at] = original[at]
    case.fail_unless("%d of 60 flipped bits were not seen" % unseen, unseen <= 2)


def trace_still_growing(case, folder):
    """`report` reads the trace of a recording that is still running. `check` finds the trace whole after the recording has ended."""
    process = subprocess.Popen([case.tools.allogram, "run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--", "cat"], stdin=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not (traces := recorded.traces_in(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    case.fail_unless("no trace yet", len(traces) == 1)
    if traces:
        outcome = case.run("report", traces[0], "--json")
        case.fail_unless("report: status %d" % outcome.status, outcome.status in (0, 1))
    process.stdin.close()
    process.wait()
    case.expect("status", process.returncode, 0)
    case.expect("status of check", recorded.check(case.tools, traces[0])[0], 0)


def sleeps(pid, program):
    """Whether PID has begun to execute PROGRAM and now sleeps in nanosleep or clock_nanosleep."""
    try:
        with open("/proc/%s/syscall" % pid, encoding="ascii") as call:
            # 35: nanosleep, 230: clock_nanosleep
            return os.readlink("/proc/%s/exe" % pid).endswith(program) and call.read().split()[0] in ("35", "230")
    except OSError:  # the process ends
        return False


def live_file_of(process):
    """The path of the live file (the shared memory of the recording) that `run` has mapped, and the pid of the child of `run`."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with open("/proc/%d/maps" % process, encoding="utf-8", errors="replace") as maps:
            live = [line.split(None, 5)[5].strip() for line in maps if "/.allogram-live." in line]
        with open("/proc/%d/task/%d/children" % (process, process), encoding="ascii") as children:
            found = [int(child) for child in children.read().split() if sleeps(child, "/sleep")]
        if live and found:
            return live[0], found[0]
        time.sleep(0.02)
    raise RuntimeError("no live file")


def live_file_cut(case, folder):
    """The live file (the shared memory of the recording) is truncated, partly or to zero bytes, while the program sleeps.
    `run`, its writer (the process that writes the traces) and `control` must not crash, and `run` must end with the program's status."""
    for n_bytes in (0, 4096, 100000):
        process = subprocess.Popen([case.tools.allogram, "run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--", "sleep", "1000"],
                                   stderr=subprocess.PIPE)
        live, child = live_file_of(process.pid)
        os.truncate(live, n_bytes)
        time.sleep(0.1)  # the writer reads the live file at least once in that time
        case.expect("status of control, with the live file cut to %d bytes" % n_bytes, case.run("control", str(child), "pause").status, 1)
        os.kill(child, signal.SIGKILL)
        process.communicate(timeout=30)
        case.expect("status of run, with the live file cut to %d bytes" % n_bytes, process.returncode, 128 + signal.SIGKILL)
        deadline = time.monotonic() + 20
        while os.path.exists(os.path.dirname(live)) and time.monotonic() < deadline:
            time.sleep(0.05)
        case.expect("the live file that was cut to %d bytes still exists" % n_bytes, os.path.exists(os.path.dirname(live)), False)


def closed_pipe(case, folder):
    """If the reader of the output (| head) closes the pipe early, no error message is printed."""
    path = make_trace(case, folder, "temporary")
    outcome = recorded.run(["sh", "-c", '"$0" dump "$1" | head -1', case.tools.allogram, path])
    case.expect("standard error", outcome.stderr, b"")


CASES = [command_not_found, command_not_executable, script_without_interpreter, static_program, setuid_program, no_command,
         exit_status_of_program, closing_summary, folder_does_not_exist, folder_is_not_writable, output_that_is_no_file,
         empty_command, never_overwrites, link_in_the_way, folder_vanishes, trace_is_deleted, too_few_descriptors, name_too_long, disk_full, disk_full_of_several,
         disk_of_the_live_file_full, more_threads_than_chunks, file_size_limit, max_size, closed_descriptors, descriptors_of_the_program,
         signals_of_the_program, interrupted, empty_trace, missing_trace, foreign_trace, folder_as_trace, newer_trace,
         cut_trace, flipped_trace, trace_still_growing, live_file_cut, closed_pipe]
NEED_ROOT = {setuid_program, disk_full, disk_full_of_several, disk_of_the_live_file_full, more_threads_than_chunks}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    tools = recorded.Tools(options.build)
    chosen = [case for case in CASES if not options.cases or case.__name__ in options.cases]
    results = tap.Plan(len(chosen))
    for case in chosen:
        if case in NEED_ROOT and os.geteuid() != 0:
            results.skip(case.__name__, "needs root")
            continue

        def run():
            state = Case(tools)
            with recorded.Folder() as folder:
                case(state, folder)
            return state.failures

        results.run(case.__name__, run)
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
