#!/usr/bin/env python3
"""Live files (the shared memory of recordings) that remain after a recording was killed. `check` and `report` read such files: undamaged,
damaged at random, enlarged by a hole, cut, and owned by another user.

The test stops the writer (the process that copies events from the live file into traces) while the programs run, then kills all
processes. So the live file is full of events that no trace contains. Programs can write anything into the live file, so it is
untrusted input. A command may use at most 2 s + N / (10 MB/s) of CPU time and 256 MiB + 64 N of memory. N is the sum of its output and of
the bytes that live file and traces occupy before the command and after it. Whatever the live file contains, the command must not crash.
`report` must not change any file, and `check` must not change files outside of the recording."""

import argparse
import glob
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

import recorded
import tap

MIB = 1 << 20
PAGE = 4096
SEEDS = 400 if os.environ.get("AG_TEST_SCALE") == "full" else 40
STRANGER = 12345
COMMANDS = (["report", "--json"], ["check"], ["report", "--json"], ["check", "--json"])


def wait_for(what, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.01)
    raise RuntimeError("a condition did not become true in time")


def live_file(pid):
    with open("/proc/%d/maps" % pid, encoding="utf-8", errors="replace") as maps:
        for line in maps:
            if "/.allogram-live." in line:
                return line.split(None, 5)[5].strip()
    return None


def leave_behind(tools, folder):
    """Starts a recording into FOLDER and kills it. Then renames FOLDER to FOLDER.moved, and moves the live file's folder into it. Returns the
    new paths of the live file's folder and of the trace."""
    script = 'read x; "$0" 20000 24 >/dev/null; "$0" 5000 8 >/dev/null & wait; echo done; read y'
    run = subprocess.Popen([tools.allogram, "run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--", "sh", "-c", script,
                            tools.program("random_paths")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    writers = []
    try:
        live = wait_for(lambda: live_file(run.pid))
        first = wait_for(lambda: glob.glob(os.path.join(folder, "t.*.allogram")))[0]
        writers = [wait_for(lambda: recorded.writer_of(run.pid))]
        for pid in [run.pid] + writers:
            os.kill(pid, signal.SIGSTOP)
        run.stdin.write(b"\n")
        run.stdin.flush()
        run.stdout.readline()
    finally:
        for pid in writers:
            os.kill(pid, signal.SIGKILL)
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate(timeout=30)
    # Wait until all processes have ended. Readers recognize live processes by locks on the live file, and a copy of the file has no locks.
    wait_for(lambda: all(has_gone(os.kill, pid) for pid in writers) and has_gone(os.killpg, run.pid))
    # Move the trace away from the path that the live file names. Otherwise a reader would complete this trace, not a copy of it.
    moved = folder + ".moved"
    os.rename(folder, moved)
    left = os.path.join(moved, os.path.basename(os.path.dirname(live)))
    copy(os.path.dirname(live), left)
    shutil.rmtree(os.path.dirname(live))
    return left, os.path.join(moved, os.path.basename(first))


def has_gone(send, pid):
    try:
        send(pid, 0)
        return False
    except ProcessLookupError:
        return True


def copy(source, target):
    subprocess.run(["cp", "-a", "--sparse=always", source, target], check=True)


class Case:
    """A copy of the killed recording's files, in a folder of its own."""

    def __init__(self, left, trace, folder):
        self.folder = os.path.join(folder, "case")
        os.mkdir(self.folder)
        copy(left, self.folder)
        copy(trace, self.folder)
        self.live_folder = os.path.join(self.folder, os.path.basename(left))
        self.live = os.path.join(self.live_folder, os.listdir(self.live_folder)[0])
        self.trace = os.path.join(self.folder, os.path.basename(trace))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        shutil.rmtree(self.folder)

    def contents(self):
        """Hashes of the case's files, without the holes of the live file."""
        hashes = {}
        for path in glob.glob(self.folder + "/**", recursive=True, include_hidden=True):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    digest = hashlib.sha256()
                    for begin, end in data_ranges(file):
                        digest.update(os.pread(file.fileno(), end - begin, begin))
                    hashes[path] = (os.fstat(file.fileno()).st_size, digest.hexdigest())
        return hashes

    def occupied(self):
        return sum(os.stat(path).st_blocks * 512 for path in glob.glob(self.folder + "/**", recursive=True, include_hidden=True)
                   if os.path.isfile(path))


def measure(failures, tools, case, what):
    before = {path for path in glob.glob(case.folder + "/../*")}

    def limits():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))

    verdict = None
    for words in COMMANDS:
        contents = case.contents() if words[0] == "report" else None
        n_bytes = case.occupied()
        process = subprocess.Popen([tools.allogram, *words, case.trace], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, preexec_fn=limits)
        stdout = process.stdout.read()
        stderr = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.stdout.close()
        process.stderr.close()
        process.returncode = os.waitstatus_to_exitcode(status)
        n_bytes += case.occupied() + len(stdout) + len(stderr)
        seconds, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10
        name = "%s, %s" % (what, " ".join(words))
        failures.require("%s: status %d %s" % (name, process.returncode, stderr[-200:]), process.returncode in (0, 1))
        if contents is not None:
            failures.fail_unless("%s: the command changed a file" % name, case.contents() == contents)
        failures.require("%s: %.1f s of CPU time" % (name, seconds), seconds <= 2 + n_bytes / 10e6)
        # the mapped pages of the live file count as memory of the command
        failures.require("%s: %d MiB of memory" % (name, memory // MIB), memory <= 256 * MIB + 64 * n_bytes)
        if words == ["check", "--json"]:
            verdict = json.loads(stdout) if stdout.strip() else None
    failures.expect(what + ": files beside the case's folder", {path for path in glob.glob(case.folder + "/../*")} - before, set())
    return verdict


def without_cost(report):
    """Removes the cost of completing the trace from the report, because it differs in each run."""
    return {key: value for key, value in report.items() if key != "profiler"}


def whole(tools, left, trace, folder):
    failures = tap.Failures()
    with Case(left, trace, folder) as case:
        unsealed = without_cost(recorded.report(tools, case.trace))
        verdict = measure(failures, tools, case, "whole")
        failures.expect("the report before and after sealing", unsealed, without_cost(recorded.report(tools, case.trace)))
        failures.require("the trace is whole: %s" % verdict, verdict and verdict["whole"])
        traces = glob.glob(case.folder + "/t.*.allogram")
        failures.require("there are traces of all processes: %d" % len(traces), len(traces) >= 3)
        blocks = sum(recorded.report(tools, path)["allocated_blocks"] for path in traces)
        failures.require("the events of the live file are in the traces: %d blocks" % blocks, blocks > 10000)
        failures.expect("the live file still exists", os.path.exists(case.live_folder), False)
    return failures


def data_ranges(file):
    """The (begin, end) of each range between the holes of a file."""
    size, at = os.fstat(file.fileno()).st_size, 0
    while at < size:
        try:
            begin = os.lseek(file.fileno(), at, os.SEEK_DATA)
            at = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
        except OSError:  # only a hole is left
            break
        yield begin, at


def used_places(path):
    """Offsets of the pages that hold data."""
    with open(path, "rb") as file:
        return [place for begin, end in data_ranges(file) for place in range(begin, end, PAGE)]


def damaged(tools, left, trace, folder, seed):
    """Replaces words of the live file, mostly in its first pages, but not its first 32 bytes: they contain the number of the recording, by
    which readers find the file."""
    chance = random.Random(seed)
    failures = tap.Failures()
    with Case(left, trace, folder) as case:
        pages = used_places(case.live)
        with open(case.live, "r+b") as file:
            for _ in range(chance.choice((1, 4, 40, 1000))):
                page = chance.choice((pages[0], chance.choice(pages[:40]), chance.choice(pages)))
                at = page + 8 * chance.randrange(PAGE // 8)
                if 0 <= at < 32:
                    continue
                file.seek(at)
                word = struct.unpack("<Q", file.read(8))[0]
                new = chance.choice((0, 1, (1 << 64) - 1, (1 << 32) - 1, 1 << 31, chance.getrandbits(64), word ^ 1 << chance.randrange(64),
                                     word + chance.choice((-1, 1, 8, 4096))))
                file.seek(at)
                file.write(struct.pack("<Q", new % (1 << 64)))
        measure(failures, tools, case, "seed %d" % seed)
    return failures


def blown_up(tools, left, trace, folder):
    """The live file is enlarged to 1 TiB by a hole at its end. In the first case the size in its header does not change; in the second case
    the header has the new size."""
    failures = tap.Failures()
    for says_so in (False, True):
        with Case(left, trace, folder) as case:
            with open(case.live, "r+b") as file:
                os.ftruncate(file.fileno(), 1 << 40)
                if says_so:
                    file.seek(16)
                    file.write(struct.pack("<Q", 1 << 40))
            measure(failures, tools, case, "a file of 1 TiB")
    return failures


def cut(tools, left, trace, folder):
    failures = tap.Failures()
    for n_bytes in (0, 100, PAGE, 100000):
        with Case(left, trace, folder) as case:
            os.truncate(case.live, n_bytes)
            measure(failures, tools, case, "cut to %d" % n_bytes)
    return failures


def of_a_stranger(tools, left, trace, folder):
    """Another user owns the live file, its folder, the trace, or all three. `report` and `check` must not change the live file. They may remove
    the live file only if it belongs to the user who runs them."""
    failures = tap.Failures()
    for whose in ("the live file", "the folder", "the trace", "all"):
        with Case(left, trace, folder) as case:
            paths = {"the live file": [case.live], "the folder": [case.live_folder], "the trace": [case.trace],
                     "all": [case.live, case.live_folder, case.trace]}[whose]
            for path in paths:
                os.chown(path, STRANGER, STRANGER)
            with open(case.live, "rb") as file:
                before = file.read(1 << 20)
            measure(failures, tools, case, "%s of another user" % whose)
            with open(case.live, "rb") as file:
                failures.fail_unless("%s of another user: the live file was changed" % whose, file.read(1 << 20) == before)
            failures.expect("%s of another user: traces" % whose, len(glob.glob(case.folder + "/t.*.allogram")), 1)
            outcome = recorded.run([tools.allogram, "check", case.live])
            failures.fail_unless("%s of another user: status of check on the live file: %d" % (whose, outcome.status), outcome.status in (0, 1))
            failures.expect("%s of another user: the live file still exists" % whose, os.path.exists(case.live), whose not in ("the folder", "the trace"))
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--seed", type=int, action="append")
    options = parser.parse_args()
    tools = recorded.Tools(options.build)
    recorded.hide_debug_files()
    with recorded.Folder() as folder:
        os.mkdir(os.path.join(folder, "left"))
        left, trace = leave_behind(tools, os.path.join(folder, "left"))
        seeds = options.seed or range(SEEDS)

        def all_damaged():
            return [failure for seed in seeds for failure in damaged(tools, left, trace, folder, seed)]

        plan = tap.Plan(5)
        plan.run("whole", lambda: whole(tools, left, trace, folder))
        plan.run("damaged", all_damaged)
        plan.run("enlarged with a hole", lambda: blown_up(tools, left, trace, folder))
        plan.run("cut", lambda: cut(tools, left, trace, folder))
        if os.geteuid() == 0:
            plan.run("of another user", lambda: of_a_stranger(tools, left, trace, folder))
        else:
            plan.skip("of another user", "needs root to give a file away")
        return plan.status()


if __name__ == "__main__":
    sys.exit(main())
