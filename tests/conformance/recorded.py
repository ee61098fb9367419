"""Runs programs without allogram, under the judge (counting_preload.c, an independent counter of malloc's calls) and under allogram, and
reads the results."""

import argparse
import ctypes
import glob
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import pid_order


PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../programs")


def source_of(name):
    """Returns the path of the source file of tests/programs with this name; the name may be a pattern."""
    return glob.glob(os.path.join(PROGRAMS, "**", name), recursive=True)[0]


def line_of(name, text):
    """The number of the first line of a source file of tests/programs that contains the text."""
    with open(source_of(name), encoding="utf-8") as source:
        return next(number for number, line in enumerate(source, 1) if text in line)


def cases_of(name):
    """The names of the cases in the table of a program of tests/programs/embed."""
    with open(source_of(name + ".c"), encoding="utf-8") as source:
        return re.findall(r'^    \{"(\w+)", \w+\},$', source.read(), re.MULTILINE)


def truths_of(outcome, failures):
    """Parses the output of a program of tests/programs/embed. Each line with a JSON object says what a trace of the program must contain. A
    line "wrong: ..." is a failure."""
    lines = outcome.stdout.decode().splitlines()
    for line in lines:
        if line.startswith("wrong: "):
            failures.append(line)
    return [json.loads(line) for line in lines if line.startswith("{")]


class Tools:
    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.allogram = os.environ.get("ALLOGRAM", os.path.join(self.build, "src/cli/allogram"))
        self.programs = os.path.join(self.build, "tests/programs")
        self.judge = os.path.join(self.programs, "libcounting_preload.so")
        self.report_options = []  # options of every report

    def program(self, name):
        return os.path.join(self.programs, name)


def counts_in(path):
    """{name: number} from the lines "name number" of a file that a program of tests/programs wrote."""
    with open(path, encoding="utf-8") as file:
        return {key: int(value) for key, value in (line.split() for line in file)}


def tools_of_arguments():
    """The tools of a test whose only option is --build."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    return Tools(parser.parse_args().build)


CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000


def hide_debug_files():
    """Hides the debug files of the machine's libraries from this test and from the commands that it runs: they get a mount namespace with an
    empty /usr/lib/debug. Otherwise each report decompresses all debug information of libc, which takes most of its time. Tests call this
    if they make many reports and compare no function or line of a library. Without the right to mount, nothing is hidden."""
    libc = ctypes.CDLL(None)
    if libc.unshare(CLONE_NEWNS) == 0:
        libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
        libc.mount(b"tmpfs", b"/usr/lib/debug", b"tmpfs", 0, b"mode=755")


class Outcome:
    def __init__(self, status, stdout, stderr):
        self.status, self.stdout, self.stderr = status, stdout, stderr


def _no_core():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(command, env=None, cwd=None, stdin=None, timeout=300, preexec=None):
    """Runs a command to its end. The timeout (seconds) is far above what any command takes on a busy machine. If signal N ends the command,
    the status is 128 + N, as in a shell."""

    def prepare():
        _no_core()
        if preexec is not None:
            preexec()

    merged = dict(os.environ)
    merged.pop("MALLOC_PERTURB_", None)  # meson sets it to find uninitialized memory; libc would fill each block, even one of 5 GiB
    merged.update(env or {})
    with open(stdin or os.devnull, "rb") as source:
        process = subprocess.Popen(command, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=merged, cwd=cwd,
                                   preexec_fn=prepare)
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise RuntimeError("still running after %d s: %s" % (timeout, " ".join(map(str, command))))
    status = process.returncode
    return Outcome(128 - status if status < 0 else status, stdout, stderr)


def report(tools, trace, *options):
    """Returns a view as parsed JSON. `report` must succeed and print nothing on standard error. No stack may contain a frame of the agent,
    the library that allogram loads into the program."""
    outcome = run([tools.allogram, "report", trace, "--json", *tools.report_options, *options])
    if outcome.status != 0 or outcome.stderr:
        raise RuntimeError("report %s %s: status %d: %s" % (trace, " ".join(options), outcome.status,
                                                            outcome.stderr.decode(errors="replace")))
    if b'"image": "liballogram-a' in outcome.stdout:
        raise RuntimeError("report %s %s: a frame of the agent" % (trace, " ".join(options)))
    return json.loads(outcome.stdout)


def summary_lines(tools, trace, *options):
    """Returns the rows of the summary's table of lines to which blocks are attributed, the largest first: [(function, "file:line")]."""
    text = run([tools.allogram, "report", trace, "--limit=0", *options], env={**os.environ, "COLUMNS": "200"}).stdout.decode()
    return re.findall(r"^ +<?[\d.,]+ +<?\d+ % +<?[\d.,]+ +<?[\d.,]+  (\S.*?)  +(\S+)$", text, re.M)


def check(tools, trace):
    outcome = run([tools.allogram, "check", "--json", trace])
    return outcome.status, (json.loads(outcome.stdout) if outcome.stdout.strip() else {})


def stack_checks(tools, trace):
    """Returns how many stacks a second unwinder captured again (src/record/self_check.h), and how many of these differed."""
    dump = subprocess.run([tools.allogram, "dump", trace], capture_output=True, text=True, check=True).stdout
    return tuple(int(number) for number in re.search(r" stack_checks=(\d+) failed_stack_checks=(\d+)", dump).groups())


def traces_in(folder):
    """Returns the paths of the traces in order of pid (pid_order.py), then of exec: t.PID.allogram, t.PID-2.allogram, ..."""
    found = []
    for path in glob.glob(os.path.join(folder, "t.*.allogram")):
        match = re.fullmatch(r"t\.(\d+)(?:-(\d+))?\.allogram", os.path.basename(path))
        found.append((int(match[1]), int(match[2] or 1), path))
    return [path for _, _, path in pid_order.sort(found, lambda item: item[:2])]


def record(tools, command, folder, options=(), **how):
    """Runs `allogram run -q -o FOLDER/t.%p.allogram OPTIONS -- COMMAND`. Returns the outcome and the paths of the traces."""
    outcome = run([tools.allogram, "run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), *options, "--", *command], **how)
    return outcome, traces_in(folder)


def children_of(pid):
    """The processes that the first thread of a process started."""
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def name_of(pid):
    try:
        with open("/proc/%d/comm" % pid, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def writer_of(run):
    """Returns the pid of the writer, a child of `allogram run`, or None if there is none. The function may have to wait, because the writer
    sets its name some time after its start."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        for pid in children_of(run):
            if name_of(pid) == "allogram-writer":
                return pid
        time.sleep(0.005)
    return None


def wait_until_ended(tools, folder, seconds=15, n_traces=0):
    """Waits until there are at least n_traces traces and all their processes have ended, because processes may outlive `run`. Returns the paths
    of the traces. After `seconds` it raises RuntimeError with the state of each trace. Reads the heaps view, which needs no symbols and so takes
    little time."""
    end = time.monotonic() + seconds
    while True:
        is_last = time.monotonic() > end
        states = {}
        for trace in traces_in(folder):
            try:
                states[trace] = report(tools, trace, "--view=heaps")["trace"]["end"]
            except RuntimeError as error:  # the trace is still being written
                states[trace] = str(error)
        if len(states) >= n_traces and not any(state == "running" or state.startswith("report ") for state in states.values()):
            return list(states)
        if is_last:
            raise RuntimeError("after %d s %d of at least %d traces are there: %s" % (
                seconds, len(states), n_traces, ", ".join("%s: %s" % (os.path.basename(trace), state) for trace, state in states.items())))
        time.sleep(0.1)


def pair_up(tools, traces, images):
    """Returns [(trace, its summary, the judge's counters)] of the process images that allocated or freed. A forked process that only
    executes another program has a trace, but no counters, because the judge begins at the first call."""

    def is_busy(values):
        return values["allocated_blocks"] + values["freed_blocks"] + values["inherited_frees"] + values["ghost_frees"] > 0

    summaries = [(trace, report(tools, trace)) for trace in traces]
    busy = [(trace, summary) for trace, summary in summaries if is_busy(summary)]
    judged = [image for image in images if is_busy(image)]
    pids = [summary["trace"]["pid"] for _, summary in busy]
    if pids != [image["pid"] for image in judged]:
        raise RuntimeError("traces of %s, the judge saw %s" % (pids, [image["pid"] for image in judged]))
    return [(trace, summary, image) for (trace, summary), image in zip(busy, judged)]


class Folder:
    """A folder for one test. It is removed after the test, unless the environment variable KEEP is set."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="allogram-test-")
        return self.path

    def __exit__(self, *unused):
        if not os.environ.get("KEEP"):
            shutil.rmtree(self.path, ignore_errors=True)
