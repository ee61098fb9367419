#!/usr/bin/env python3
"""Lets the kernel kill recorded programs for lack of memory, at the limit of a cgroup (control group), and checks what the traces and reports say.

tests/programs/processes/killed_for_memory.c grows until it is killed, and counts its allocations in a shared file. After every kill the trace must
be readable and have these allocations, by site. The report must name the limit and the cgroup. Its last sample of the memory must be less than a
second old. The file memory of the sample must equal that of the kernel's message within 2 % or 1 MiB; its anonymous memory, plus what the program
allocated after the sample, must equal that of the message within 1 MiB (the exactness of the kernel's counters) and one block. In other cases a
user kills the program with SIGKILL, either when nothing else is killed, or at the moment at which the kernel kills another program of the cgroup.
The report must not call this a kill by the kernel. Without the capability CAP_SYSLOG, allogram cannot read the kernel's log, and has only the
counters of the cgroup; then the report may call a kill at that moment a probable kill by the kernel. One case tests --dump-at=memory. --runs is the
number of kills."""

import argparse
import contextlib
import ctypes
import glob
import mmap
import os
import random
import re
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../conformance"))
import recorded
import tap

MIB = 1 << 20
PR_CAPBSET_DROP, CAP_SYSLOG, CAP_SYS_ADMIN = 24, 34, 21
KERNEL_EXACTNESS = MIB  # the kernel's sums lack at most this many bytes, which are still in the counters of single CPUs


class Unavailable(Exception):
    """This machine cannot run the test."""


def hierarchy():
    """Returns the folder in which cgroups with a memory controller can be created, and the version of cgroups."""
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        fields = [line.split() for line in mounts]
    for field in fields:
        kind, options = field[field.index("-") + 1], field[-1].split(",")
        if kind == "cgroup" and "memory" in options:
            return field[4], 1
    for field in fields:
        if field[field.index("-") + 1] == "cgroup2" and os.path.exists(os.path.join(field[4], "cgroup.subtree_control")):
            with open(os.path.join(field[4], "cgroup.subtree_control"), encoding="ascii") as controllers:
                if "memory" in controllers.read().split():
                    return field[4], 2
    raise Unavailable("no hierarchy of cgroups has a memory controller")


class Cgroup:
    """A cgroup with a limit. At the end its processes are killed, and it is removed."""

    count = 0

    def __init__(self, limit, parent=None):
        folder, self.version = (parent.folder, parent.version) if parent else hierarchy()
        Cgroup.count += 1
        self.folder = os.path.join(folder, "allogram-test-%d-%d" % (os.getpid(), Cgroup.count))
        self.name = (parent.name if parent else "") + "/" + os.path.basename(self.folder)
        try:
            os.mkdir(self.folder)
            if limit:
                self.write("memory.max" if self.version == 2 else "memory.limit_in_bytes", limit)
        except OSError as error:
            raise Unavailable("cannot create a cgroup: %s" % error)

    def write(self, name, value):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(str(value))

    def enter(self):
        self.write("cgroup.procs", os.getpid())

    def pids(self):
        with open(os.path.join(self.folder, "cgroup.procs"), encoding="ascii") as file:
            return [int(line) for line in file]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end = time.monotonic() + 20
        while True:
            try:
                for pid in self.pids():
                    os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            try:
                os.rmdir(self.folder)
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)


class KernelLog:
    """The messages that the kernel writes from now on about the processes that it kills."""

    def __init__(self):
        try:
            self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self.fd, 0, os.SEEK_END)
        except OSError:
            self.fd = -1

    def kills(self):
        """{pid: (anonymous, file, shared bytes)}, or None if the log cannot be read."""
        found = {}
        while self.fd >= 0:
            try:
                line = os.read(self.fd, 8192).decode(errors="replace")
            except BlockingIOError:
                return found
            except BrokenPipeError:
                continue
            match = re.search(r"Killed process (\d+) .* anon-rss:(\d+)kB, file-rss:(\d+)kB, shmem-rss:(\d+)kB", line)
            if match:
                found[int(match[1])] = tuple(int(number) * 1024 for number in match.groups()[1:])
        return None

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)


class Progress:
    """The program's own counts."""

    def __init__(self, folder, name="progress"):
        self.path = os.path.join(folder, name)
        with open(self.path, "wb") as file:
            file.truncate(4096)
        with open(self.path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 4096)

    def read(self):
        return struct.unpack_from("<3Q", self.map)  # pid, allocations begun, done


def without_log():
    """Called in a child process: drops the capabilities that permit it to read the kernel's log."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYSLOG, 0, 0, 0)
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0)


class Program:
    """A program under `allogram run`. PLACE: "program": only the program is in the cgroup; "all": `run` and the writer are, too."""

    def __init__(self, tools, folder, cgroup, place, arguments, log=True, name="progress", options=()):
        self.progress = Progress(folder, name)
        command = [tools.program("killed_for_memory"), *map(str, arguments)]
        if place == "program":
            command = ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', os.path.join(cgroup.folder, "cgroup.procs"), *command]

        def prepare():
            if place == "all":
                cgroup.enter()
            if not log:
                without_log()

        self.process = subprocess.Popen([tools.allogram, "run", "-o", os.path.join(folder, name + ".%e.%p.allogram"), *options, "--",
                                         *command],
                                        env=dict(os.environ, PROGRESS=self.progress.path), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, preexec_fn=prepare)
        self.folder, self.name = folder, name

    def wait_for(self, blocks):
        end = time.monotonic() + 30
        while self.progress.read()[2] < blocks:
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("the program did not start: %s" % self.process.communicate()[1].decode())
            time.sleep(0.001)

    def finish(self):
        """Returns (status, standard error)."""
        errors = self.process.communicate(timeout=60)[1].decode()
        return 128 - self.process.returncode if self.process.returncode < 0 else self.process.returncode, errors

    def trace(self):
        found = [path for path in glob.glob(os.path.join(self.folder, self.name + ".killed_for_memory.*.allogram")) if ".dump" not in path]
        if len(found) != 1:
            raise RuntimeError("%d traces of %s" % (len(found), self.name))
        return found[0]


def make_file(folder, size):
    path = os.path.join(folder, "data")
    with open(path, "wb") as file:
        file.write(b"x" * size)
    return path


def is_near(got, wanted):
    return abs(got - wanted) <= max(wanted * 0.02, KERNEL_EXACTNESS)


def check_counts(failures, tools, program, block_bytes):
    trace = program.trace()
    status, verdict = recorded.check(tools, trace)
    failures.expect("status of check, whole", (status, verdict.get("whole")), (0, True))
    _, begun, done = program.progress.read()
    leaks = recorded.report(tools, trace, "--view=sites")["sites"]
    in_use = {row["function"]: row["own"]["in_use_bytes"] // block_bytes for row in leaks}
    little, much = in_use.get("grow_little", 0), in_use.get("grow_much", 0)
    failures.fail_unless("%d and %d blocks in use, %d begun, %d done" % (little, much, begun, done),
                         (done + 3) // 4 <= little <= (begun + 3) // 4 and done <= little + much <= begun)
    return recorded.report(tools, trace)


def check_kill(failures, tools, report, limit, cgroup, kills, log, block_bytes):
    trace = report["trace"]
    kill = trace.get("kernel_kill")
    if kill is None:
        failures.append("the report names no kill by the kernel; end %s" % trace["end"])
        return
    pid = trace["pid"]
    failures.expect("end", trace["end"], "signal")
    failures.expect("certain, reason, limit, cgroup", (kill["certain"], kill["reason"], kill["limit_bytes"], kill["cgroup"]),
                    (True, "cgroup_limit", limit, cgroup.name))
    last = kill["last_memory"]
    failures.fail_unless("the last sample is %.3f s old" % ((trace["duration_ns"] - last["time_ns"]) / 1e9),
                         trace["duration_ns"] - last["time_ns"] < 1000000000)
    failures.fail_unless("the last memory has no cgroup: %s" % last, last["cgroup_limit_bytes"] == limit and 0 < last["cgroup_bytes"] <= limit)
    failures.fail_unless("growth: %s" % kill["growth"], kill["growth"] is not None and kill["growth"]["bytes"] > 0)
    if kills is None:
        return
    wanted = kills.get(pid)
    if wanted is None:
        failures.append("the kernel's log does not name process %d: %s" % (pid, kills))
        return
    if log:
        failures.expect("sizes of the kernel's log", tuple((kill["kernel_log"] or {}).values()), wanted)
    else:
        failures.expect("sizes of a log that cannot be read", kill["kernel_log"], None)
    # The sample does not have what the program allocated after it. The last block may not have been used yet.
    sites = recorded.report(tools, trace["file"], "--view=sites", "--from=%dns" % last["time_ns"])["sites"]
    later = sum(row["own"]["allocated_bytes"] for row in sites if row["function"] in ("grow_little", "grow_much"))
    got = (last["anonymous_bytes"], last["file_bytes"])
    failures.fail_unless("anonymous and file bytes %s, %d later, by the kernel %s" % (got, later, wanted[:2]),
                         is_near(got[1], wanted[1]) and
                         -block_bytes - KERNEL_EXACTNESS <= wanted[0] - got[0] - later <= KERNEL_EXACTNESS)


def killed(tools, seed, place, log, nested=False):
    """The program is killed at the limit of its cgroup or, if nested is true, of the parent of its cgroup."""
    failures, chance = tap.Failures(), random.Random(seed)
    limit = chance.choice([64, 96, 128]) * MIB
    file_kib, block_kib = chance.choice([4, 8, 16]) << 10, chance.choice([64, 256, 1000])
    pause_us = int(chance.uniform(0.05, 0.5) * 1e6 / (limit / (block_kib << 10)))
    kernel = KernelLog()
    with recorded.Folder() as folder, Cgroup(limit) as above, (Cgroup(0, above) if nested else contextlib.nullcontext(above)) as cgroup:
        data = make_file(folder, file_kib << 10)
        program = Program(tools, folder, cgroup, place, [data, file_kib, block_kib, pause_us, 0], log)
        status, errors = program.finish()
        kills = kernel.kills()
        kernel.close()
        failures.expect("status of run", status, 137)
        report = check_counts(failures, tools, program, block_kib << 10)
        check_kill(failures, tools, report, limit, above, kills, log, block_kib << 10)
        words = "killed by the kernel: limit %.3g MiB of cgroup %s" % (limit / MIB, above.name)
        text = recorded.run([tools.allogram, "report", program.trace()]).stdout.decode()
        explained = recorded.run([tools.allogram, "explain", program.trace()]).stdout.decode()
        for what, got in ("closing lines", errors), ("summary", text), ("explain", explained):
            got = " ".join(got.split()).replace(".0 MiB of cgroup", " MiB of cgroup")
            failures.fail_unless("%s without %r: %s" % (what, words, got), words in got)
    return ["seed %d: %s" % (seed, failure) for failure in failures]


def killed_by_user(tools, seed, log):
    """A user kills the program, in a cgroup that has room."""
    failures = tap.Failures()
    with recorded.Folder() as folder, Cgroup(256 * MIB) as cgroup:
        data = make_file(folder, MIB)
        program = Program(tools, folder, cgroup, "all", [data, 1024, 64, 100, 200], log)
        program.wait_for(200)
        os.kill(program.progress.read()[0], signal.SIGKILL)
        status, errors = program.finish()
        failures.expect("status of run", status, 137)
        trace = check_counts(failures, tools, program, 64 << 10)["trace"]
        failures.expect("kernel_kill, end", (trace.get("kernel_kill"), trace["end"]), (None, "signal"))
        failures.fail_unless("closing lines: " + errors, "killed by the kernel" not in errors)
    return ["seed %d: %s" % (seed, failure) for failure in failures]


def killed_beside(tools, seed, log, other_is_recorded):
    """A user kills the program at the moment at which the kernel kills another program of the cgroup."""
    failures, limit = tap.Failures(), 96 * MIB
    kernel = KernelLog()
    with recorded.Folder() as folder, Cgroup(limit) as cgroup:
        data = make_file(folder, MIB)
        program = Program(tools, folder, cgroup, "program", [data, 1024, 64, 100, 100], log)
        program.wait_for(100)
        arguments = [data, 1024, 256, 300, 0]
        if other_is_recorded:
            other = Program(tools, folder, cgroup, "program", arguments, log, name="other")
            progress, process = other.progress, other.process
        else:
            progress = Progress(folder, "other")
            process = subprocess.Popen([tools.program("killed_for_memory"), *map(str, arguments)], preexec_fn=cgroup.enter,
                                       env=dict(os.environ, PROGRESS=progress.path))
        end = time.monotonic() + 30
        while not stalled_or_gone(process, progress) and time.monotonic() < end:
            pass
        os.kill(program.progress.read()[0], signal.SIGKILL)
        status, errors = program.finish()
        process.communicate()
        kills = kernel.kills()
        kernel.close()
        trace = recorded.report(tools, program.trace())["trace"]
        failures.expect("status of run", status, 137)
        kill = trace.get("kernel_kill")
        if kills is not None and trace["pid"] in kills:
            return []  # the kernel was faster
        if log and kills is not None:
            failures.expect("kernel_kill", kill, None)
        elif kill is not None:
            failures.expect("certain", kill["certain"], False)
            failures.fail_unless("closing lines: " + errors, "probably killed by the kernel" in errors)
    return ["seed %d: %s" % (seed, failure) for failure in failures]


def dumped(tools, seed):
    """--dump-at=memory=80% writes one trace when the cgroup is filled to 80 % of its limit, before the kernel kills the program."""
    failures, limit = tap.Failures(), 96 * MIB
    with recorded.Folder() as folder, Cgroup(limit) as cgroup:
        program = Program(tools, folder, cgroup, "program", [make_file(folder, MIB), 1024, 256, 1000, 0], options=["--dump-at=memory=80%"])
        program.finish()
        dumps = glob.glob(os.path.join(folder, "progress.killed_for_memory.*.dump*.allogram"))
        failures.expect("dumps", len(dumps), 1)
        for dump in dumps:
            share = recorded.report(tools, dump)["in_use_bytes_at_end"] / limit
            failures.fail_unless("%.0f %% in use in the dump" % (100 * share), 0.70 < share < 0.95)
    return ["seed %d: %s" % (seed, failure) for failure in failures]


def stalled_or_gone(process, progress):
    """Whether the program has ended, or its allocation takes long, because the cgroup is at its limit."""
    _, begun, done = progress.read()
    if process.poll() is not None:
        return True
    time.sleep(0.002)
    return begun > done and progress.read()[1:] == (begun, done)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--runs", type=int, default=1000 if os.environ.get("AG_TEST_SCALE") == "full" else 16)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--case", help="runs only the cases whose names contain this text")
    options = parser.parse_args()
    tools = recorded.Tools(options.build)
    recorded.hide_debug_files()
    n, few = options.runs // 4, max(options.runs // 50, 2)
    cases = [
        ("%d kills of a program in a cgroup" % n, n, lambda seed: killed(tools, seed, "program", True)),
        ("%d kills of a program whose cgroup contains its writer" % n, n, lambda seed: killed(tools, seed, "all", True)),
        ("%d kills without the kernel's log" % n, n, lambda seed: killed(tools, seed, "all", False)),
        ("%d kills at the limit of the cgroup above" % n, n, lambda seed: killed(tools, seed, "all", seed % 2 == 0, nested=True)),
        ("%d dumps before a kill" % few, few, lambda seed: dumped(tools, seed)),
        ("%d kills by a user" % few, few, lambda seed: killed_by_user(tools, seed, True)),
        ("%d kills by a user, without the log" % few, few, lambda seed: killed_by_user(tools, seed, False)),
        ("%d kills by a user beside one by the kernel" % few, few, lambda seed: killed_beside(tools, seed, True, False)),
        ("%d kills by a user beside one by the kernel, without the log" % few, few, lambda seed: killed_beside(tools, seed, False, False)),
        ("%d kills by a user beside one of a recorded program" % few, few, lambda seed: killed_beside(tools, seed, False, True)),
    ]
    cases = [case for case in cases if options.case is None or options.case in case[0]]
    results = tap.Plan(len(cases))
    try:
        with Cgroup(64 * MIB):
            pass
        why = None
    except Unavailable as error:
        why = str(error)
    for name, times, one in cases:

        def several():
            failures = []
            for i in range(times):
                failures += one(options.seed + i)
            return failures

        if why:
            results.skip(name, why)
        else:
            results.run(name, several)
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
