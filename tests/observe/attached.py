"""Starts programs, and attaches allogram to them. Used by attach_tests.py, attach_rough_tests.py and attach_runtimes_tests.py, which are
called with the arguments ALLOGRAM (the path of allogram) and PROGRAMS (the folder of the test programs)."""

import hashlib
import json
import os
import re
import signal
import statistics
import subprocess
import tempfile
import time

from cases import ALLOGRAM

IS_FULL = os.environ.get("AG_TEST_SCALE") == "full"
OTHER_CYCLES = 1000 if IS_FULL else 5
MOST_REFUSED = 0.01 # the share of cycles in which `attach` may fail to attach; with fewer than 100 cycles, it may never fail
MOST_TO_LEAVE_S = 40 # seconds that the detach after a signal may take, in the background


class Target:
    """A program to attach to. It is killed when its `with` block ends."""

    def __init__(self, *command, **options):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def answer(self):
        line = self.process.stdout.readline().strip()
        assert line, f"the program ended with status {self.process.wait()}"
        return line

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def check(self):
        """For the program hammer, which checks its own state: its blocks, errno, registers and system calls."""
        answer = self.ask("check")
        assert answer == "check OK", answer


def maps(pid):
    with open(f"/proc/{pid}/maps", encoding="ascii") as file:
        return file.read().splitlines()


def image(pid):
    """Returns the parts of a process that an attach and a detach must not change: the mapped files, and the bytes of all code."""
    result = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps(pid):
            place, protection, *rest = line.split()
            if len(rest) < 4 and "x" not in protection:
                continue
            low, high = (int(part, 16) for part in place.split("-"))
            code = b""
            if "x" in protection and "[v" not in line:
                memory.seek(low)
                code = memory.read(high - low)
            if "[heap]" not in line and "[stack]" not in line:
                result.append((line, hashlib.sha256(code).hexdigest()))
    return result


def worker_of(process):
    """Returns the pid of the process that does the work of a running `allogram attach` (src/cli/foreground.h)."""
    end = time.monotonic() + 10
    while True:
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
            children = file.read()
        if children or time.monotonic() > end:
            return int(children)
        time.sleep(0.01)


class Attached:
    """A process `allogram attach` that has begun to record; detach() ends it by SIGINT, as Ctrl-C does. COMMAND: executes allogram."""

    def __init__(self, pid, folder, *options, command=(ALLOGRAM,)):
        self.pid = pid
        self.trace = os.path.join(folder, f"{pid}.{time.monotonic_ns()}.allogram")
        self.process = subprocess.Popen([*command, "attach", str(pid), "-o", self.trace, *options], stderr=subprocess.PIPE,
                                        text=True)
        self.left_alone = []  # lines of `attach` about runtimes that it cannot record, with the reason
        self.first = self.process.stderr.readline()
        while " is not recorded: " in self.first:
            self.left_alone.append(self.first)
            self.first = self.process.stderr.readline()
        self.is_refused = "no thread could call the" in self.first
        if not self.is_refused:
            assert self.first.startswith("allogram: attached to "), self.first
            stopped = re.search(r"stopped one thread for ([\d.]+) (us|ms|s)\b", self.first)
            self.stood_us = float(stopped[1]) * {"us": 1, "ms": 1e3, "s": 1e6}[stopped[2]]

    def detach(self):
        if not self.is_refused:
            self.process.send_signal(signal.SIGINT)
        rest = self.process.stderr.read()
        status = self.process.wait(timeout=60)
        is_under_way = "the agent is removed as soon as" in rest  # on a busy machine
        assert self.is_refused or (status == 0 and (is_under_way or "detached from" in rest)), (status, rest)
        end = time.monotonic() + MOST_TO_LEAVE_S
        while is_under_way and any("liballogram-attached" in line for line in maps(self.pid)):
            assert time.monotonic() < end, "the agent (allogram's library) is still in the program"
            time.sleep(0.01)
        return rest

    def report(self, *options):
        return json.loads(subprocess.run([ALLOGRAM, "report", self.trace, "--json", *options], check=True,
                                         capture_output=True).stdout)


def cycles(target, n, work, *options, command=(ALLOGRAM,), place=None):
    """N times: attaches, calls work(attached), and detaches. The traces are below the folder PLACE. If work returns a function, cycles calls this function with the argument `attached`
    after the detach, when the trace is complete. Returns the time, in us, for which each attach stopped a thread."""
    n_refused, stood = 0, []
    with tempfile.TemporaryDirectory(dir=place) as folder:
        os.chmod(folder, 0o777 if place else 0o700)
        for _ in range(n):
            attached = Attached(target.pid, folder, *options, command=command)
            if attached.is_refused:
                n_refused += 1
            else:
                stood.append(attached.stood_us)
                after = work(attached)
            attached.detach()
            if not attached.is_refused:
                if after:
                    after(attached)
                os.unlink(attached.trace)
    assert n_refused <= MOST_REFUSED * n, f"{n_refused} of {n} refused"
    print(f"# {n} cycles, {n_refused} refused; a thread was stopped for {statistics.median(stood):.0f} us (median), "
          f"{max(stood):.0f} (most)")
    return stood
