#!/usr/bin/env python3
"""run_upstream.py --build BUILD [options] PROJECT...: runs other projects' own test suites with and without allogram.

Each test must have the same outcome with allogram as without. An outcome is the exit status and the standard output of the project's recipe, which
prints the results of the test without times and names that differ from run to run. A test that fails without allogram must fail with allogram in
the same way. The tests of a project run without allogram, and in the modes that --modes names (exact and sample by default):

    plain x 3    without allogram. A test whose outcomes differ between the three runs is unstable: it is listed and not compared. The
                 three runs have 0, 2 and 4 additional environment variables, because `allogram run` adds variables, and some outcomes
                 depend on the size of the environment. If the outcome of a test differs in another mode, three more plain runs show
                 whether the test is sometimes unstable
    exact        under `allogram run`
    sample       under `allogram run --mode=sample`
    attach       without `allogram run`; `allogram attach` attaches to the processes of the test and detaches, again and again

A recipe is a shell script with four verbs, each called as `sh projects/NAME.sh VERB FOLDER [TEST]`:

    packages     prints the names of the Debian packages that the recipe needs
    prepare      fetches and builds the project in FOLDER, once
    list         prints the names of the tests
    run          runs one test; its standard output is compared

An acceptable difference has a line in exceptions.txt: PROJECT TEST REASON. At most 1 % of the comparisons of a project may need such
a line; a comparison is a test in one mode.

The log gets one line for each project and mode, and one line for each difference. --first and --most select a part of a suite. If SIGTERM ends the
script, the log contains the tests that were compared until then. Tests whose first plain run takes longer than --limit are not compared, and are
named in the log.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECTS = os.path.join(HERE, "projects")
PLAIN_RUNS = 3
LEAST_SECONDS = 60  # added to ten times the plain run time of a test, to get its time limit
MODES = {"exact": [], "sample": ["--mode=sample"], "attach": None}


def recipe(project, *words, env=None, **options):
    return subprocess.Popen(
        [*(env or []), "sh", os.path.join(PROJECTS, project + ".sh"), *words], stdin=subprocess.DEVNULL, start_new_session=True, **options
    )


def ask(project, *words):
    process = recipe(project, *words, stdout=subprocess.PIPE, text=True)
    text = process.communicate()[0]
    if process.returncode:
        raise SystemExit(f"run_upstream: {project}: {words[0]} failed with {process.returncode}")
    return text.split("\n")[:-1]


class Attacher(threading.Thread):
    """A thread that attaches to processes of the test at random moments for random times, until it is stopped. SESSION is the session (setsid)
    of the test."""

    def __init__(self, allogram, session, folder):
        super().__init__(daemon=True)
        self.allogram, self.session, self.folder = allogram, session, folder
        self.is_over = threading.Event()
        self.n_attached = 0
        self.random = random.Random(session)

    def processes(self):
        for name in os.listdir("/proc"):
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == self.session and fields[0] != "Z":
                yield int(name)

    def run(self):
        while not self.is_over.wait(self.random.uniform(0, 0.05)):
            found = list(self.processes())
            if not found:
                continue
            seconds = self.random.choice([0.01, 0.05, 0.2])
            mode = self.random.choice(["exact", "sample"])
            done = subprocess.run(
                [self.allogram, "attach", str(self.random.choice(found)), f"--mode={mode}", f"--duration={seconds}", "--quiet",
                 "-o", os.path.join(self.folder, "%e.%p.%t.allogram")],
                capture_output=True, check=False, timeout=120,
            )  # fmt: skip
            self.n_attached += done.returncode == 0
            for trace in os.listdir(self.folder):
                os.unlink(os.path.join(self.folder, trace))


class Suite:
    def __init__(self, project, options):
        self.project, self.options = project, options
        self.allogram = os.path.join(os.path.realpath(options.build), "src/cli/allogram")
        self.folder = os.path.join(os.path.realpath(options.build), "upstream", project)
        self.n_attached = 0

    def outcome(self, test, mode, limit):
        """Runs a test. Returns its status (None: the test took longer than the limit), its output, and its run time in seconds."""
        traces = tempfile.mkdtemp(prefix="allogram-upstream.")
        before = []
        if mode.startswith("plain"):
            before = ["env", *("ALLOGRAM_UPSTREAM%d=%s" % (i, "x" * 150) for i in range(2 * int(mode[5:])))]
        elif MODES.get(mode) is not None:
            before = [self.allogram, "run", *MODES[mode], "--quiet", "-o", os.path.join(traces, "%e.%p.allogram"), "--"]
        begin = time.monotonic()
        process = recipe(self.project, "run", self.folder, test, env=before, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        attacher = Attacher(self.allogram, process.pid, traces) if mode == "attach" else None
        if attacher:
            attacher.start()
        try:
            output = process.communicate(timeout=limit)[0].decode(errors="replace")
            status = process.returncode
        except subprocess.TimeoutExpired:
            output, status = "", None
        finally:
            if attacher:
                attacher.is_over.set()
                attacher.join(120)
                self.n_attached += attacher.n_attached
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
            shutil.rmtree(traces, ignore_errors=True)
        return status, output, time.monotonic() - begin

    def prepare(self):
        packages = " ".join(ask(self.project, "packages", self.folder)).split()
        missing = [name for name in packages if subprocess.run(["dpkg", "-s", name], capture_output=True, check=False).returncode]
        if missing:
            print(f"{self.project}: installing {' '.join(missing)}", flush=True)
            subprocess.run(["apt-get", "-qq", "-y", "install", "--no-install-recommends", *missing], check=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})  # fmt: skip
        os.makedirs(self.folder, exist_ok=True)
        done = os.path.join(self.folder, ".prepared")
        if not os.path.exists(done):
            with open(os.path.join(self.folder, "prepare.log"), "wb") as log:
                if recipe(self.project, "prepare", self.folder, stdout=log, stderr=subprocess.STDOUT).wait():
                    raise SystemExit(f"run_upstream: {self.project} could not be prepared; see {log.name}")
            open(done, "wb").close()

    def exceptions(self):
        """Returns {test: reason} from exceptions.txt."""
        found = {}
        with open(os.path.join(HERE, "exceptions.txt"), encoding="utf-8") as file:
            for line in file:
                words = line.split(None, 2)
                if len(words) == 3 and words[0] == self.project:
                    found[words[1]] = words[2].strip()
        return found

    def plain_outcomes(self, test):
        """Returns the outcomes of the three plain runs, or one outcome if the first run takes longer than --limit."""
        first = self.outcome(test, "plain0", self.options.limit)
        others = range(1, PLAIN_RUNS) if first[0] is not None else []
        return [first, *(self.outcome(test, "plain%d" % number, LEAST_SECONDS + 10 * self.options.limit) for number in others)]

    def run(self, log):
        self.prepare()
        tests = ask(self.project, "list", self.folder)
        n_all = len(tests)
        if self.options.only:
            tests = [test for test in tests if test in self.options.only]
        tests = tests[self.options.first :][: self.options.most]
        excepted = self.exceptions()
        slow, unstable, wrong, n_compared, n_excepted = [], [], {mode: [] for mode in self.options.modes}, 0, 0

        def compare(test):
            nonlocal n_compared, n_excepted
            plain = self.plain_outcomes(test)
            if plain[0][0] is None:
                slow.append(test)
                return
            if any(run[:2] != plain[0][:2] for run in plain):
                unstable.append(test)
                return
            limit = LEAST_SECONDS + 10 * max(run[2] for run in plain)
            for mode in self.options.modes:
                status, output, _ = self.outcome(test, mode, limit)
                if (status, output) == plain[0][:2]:
                    continue
                if any(run[:2] != plain[0][:2] for run in self.plain_outcomes(test)):
                    unstable.append(test)
                    for found in wrong.values():
                        if test in found:
                            found.remove(test)
                    return
                if test in excepted:
                    n_excepted += 1
                    continue
                wrong[mode].append(test)
                log(f"{self.project}: {mode}: {test}: differs")
                log(f"    plain {plain[0][0]}: {plain[0][1].strip()[-300:]!r}")
                log(f"    {mode} {'over time' if status is None else status}: {output.strip()[-300:]!r}")
            n_compared += 1

        try:
            for number, test in enumerate(tests):
                if self.options.verbose:
                    print(f"# {self.options.first + number} {test}", flush=True)
                compare(test)
        finally:  # also if a signal ends the script before the last test
            for mode in self.options.modes:
                attached = f", {self.n_attached} times attached" if mode == "attach" else ""
                log(f"{self.project}: {mode}: {n_compared} of {n_all} tests compared, {len(unstable)} unstable, {n_excepted} excepted, "
                    f"{len(wrong[mode])} differ{attached}")  # fmt: skip
            if unstable:
                log(f"{self.project}: unstable: {' '.join(unstable)}")
            if slow:
                log(f"{self.project}: plain runs take more than {self.options.limit} s: {' '.join(slow)}")
        return sum(len(found) for found in wrong.values()) + (100 * n_excepted > max(n_compared, 1) * len(self.options.modes))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--modes", default="exact,sample", type=lambda text: text.split(","))
    parser.add_argument("--first", type=int, default=0, help="number of the first test")
    parser.add_argument("--most", type=int, default=1 << 30, help="run at most this number of tests")
    parser.add_argument("--limit", type=int, default=600, help="do not compare tests whose plain run takes more seconds")
    parser.add_argument("--verbose", action="store_true", help="print the number and name of each test before it runs")
    parser.add_argument("--only", action="append", help="run only this test")
    parser.add_argument("--log", help="append the lines of the log to this file, too")
    parser.add_argument("projects", nargs="*", default=sorted(name[:-3] for name in os.listdir(PROJECTS) if name.endswith(".sh")))
    options = parser.parse_args()
    commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()

    def log(line):
        print(line, flush=True)
        if options.log:
            with open(options.log, "a", encoding="utf-8") as file:
                file.write(line + "\n")

    log(f"== {time.strftime('%Y-%m-%d')}, commit {commit}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the running test, too
    failed = 0
    for project in options.projects:
        failed += Suite(project, options).run(log)
    return 1 if failed else 0


sys.exit(main())
