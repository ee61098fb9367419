"""Reads exports with other tools. Most functions run one tool on a file and return the sums that the tool prints. If the tool is not
installed, the function raises Missing with the name of the package to install."""

import contextlib
import csv
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


class Missing(Exception):
    pass


def run(command, timeout=120, **how):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=timeout, **how)
    if done.returncode != 0:
        raise RuntimeError("%s: status %d: %s" % (" ".join(command[:3]), done.returncode, done.stderr.decode(errors="replace")[-400:]))
    return done.stdout.decode(errors="replace")


def need(tool, package):
    path = shutil.which(tool)
    if path is None:
        raise Missing("%s is not here: install %s" % (tool, package))
    return path


class Readers:
    """The npm packages that read exports. They are installed into the build folder at the first use, and again if the lock file has
    changed."""

    def __init__(self, build):
        self.folder = os.path.join(build, "tests/export/readers")
        self.why_not = None

    def install(self):
        if self.why_not is not None:
            raise Missing(self.why_not)
        try:
            node = run([need("node", "nodejs"), "--version"])
            if int(node.lstrip("v").split(".")[0]) < 18:
                raise Missing("nodejs %s is too old: the readers need version 18 or later" % node.strip())
            self._install_packages()
        except (Missing, RuntimeError, subprocess.TimeoutExpired) as problem:
            self.why_not = "readers from npm: %s" % problem
            raise Missing(self.why_not)

    def _install_packages(self):
        stamp = os.path.join(self.folder, "installed")
        lock = os.path.join(HERE, "package-lock.json")
        if os.path.exists(stamp) and filecmp.cmp(stamp, lock, shallow=False):
            return
        npm = need("npm", "npm")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(os.path.join(HERE, name), self.folder)
        run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], timeout=240, cwd=self.folder)
        shutil.copy(lock, stamp)

    def read(self, which, *files):
        self.install()
        environment = dict(os.environ, READERS=self.folder)
        return json.loads(run(["node", os.path.join(HERE, "readers.mjs"), which, *files], env=environment))

    def firefox(self, path, folder):
        self.install()
        script = os.path.join(self.folder, "node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js")
        return FirefoxProfiler(script, path, folder)


class FirefoxProfiler:
    """The command line program of the Firefox Profiler. It starts a server process, which keeps the profile in memory until close."""

    def __init__(self, script, path, folder):
        self.script, self.path, self.folder = script, path, folder
        self.environment = dict(os.environ, PROFILER_CLI_SESSION_DIR=folder, PROFILER_CLI_NO_SYMBOLICATE="1", HOME=folder)

    def ask(self, *words):
        return run(["node", self.script, *words, "--session", "x"], timeout=60, env=self.environment)

    def __enter__(self):
        with contextlib.suppress(RuntimeError):
            self.ask("load", self.path)
        end = time.monotonic() + 60  # `load` itself waits only half a second for its server
        while True:
            try:
                self.ask("status")
                return self
            except RuntimeError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.3)

    def __exit__(self, *unused):
        with contextlib.suppress(RuntimeError):
            run(["node", self.script, "stop", "x"], env=self.environment)

    def total(self, strategy):
        return json.loads(self.ask("thread", "samples", "--strategy", strategy, "--json"))["categoryBreakdown"]["totalSamples"]

    def functions(self):
        return [known["name"] for known in json.loads(self.ask("thread", "samples", "--json"))["topFunctionsByTotal"]]


def firefox_sums(path):
    """Returns the bytes of allocations, of frees, and of allocations that are never freed, in a profile for the Firefox Profiler."""
    with open(path) as file:
        table = json.load(file)["threads"][0]["nativeAllocations"]
    sums, freed = {"allocated_bytes": 0, "freed_bytes": 0, "in_use_bytes": 0}, set()
    for weight, address in zip(table["weight"], table["memoryAddress"]):
        sums["allocated_bytes" if weight > 0 else "freed_bytes"] += abs(weight)
        if weight < 0:
            freed.add(address)
    sums["in_use_bytes"] = sum(weight for weight, address in zip(table["weight"], table["memoryAddress"]) if address not in freed)
    return sums


def go_pprof(path, sample_type, folder):
    """Returns the total of a sample type that `go tool pprof` prints."""
    environment = dict(os.environ, HOME=folder, PPROF_TMPDIR=folder, GOCACHE=folder)
    text = run([need("go", "golang-go"), "tool", "pprof", "-symbolize=none", "-sample_index=" + sample_type, "-top", "-unit=B", path],
               env=environment)
    found = re.search(r"of (\d+)B? total", text) or re.search(r"Total samples = (\d+)B?", text)
    return int(found[1]) if found else 0  # pprof prints no total if the total is 0


def dhat_view():
    for folder in ("/usr/libexec/valgrind", "/usr/lib/valgrind", "/usr/lib/x86_64-linux-gnu/valgrind"):
        if os.path.exists(os.path.join(folder, "dh_view.js")):
            return os.path.join(folder, "dh_view.js")
    raise Missing("dh_view.js is not here: install valgrind")


def ms_print(path):
    """Returns [(number of the snapshot, bytes)], and the number of the snapshot with the peak."""
    text = run([need("ms_print", "valgrind"), path])
    rows = [(int(row[1]), int(row[2].replace(",", ""))) for row in re.finditer(r"^ *(\d+) +[\d.,]+ +([\d,]+) +[\d,]+ +0 +0$", text, re.M)]
    peak = re.search(r"(\d+) \(peak\)", text)
    return rows, int(peak[1]) if peak else None


def callgrind_annotate(path):
    text = run([need("callgrind_annotate", "valgrind"), "--auto=no", path])
    events = re.search(r"^Events recorded: +(.*)$", text, re.M)[1].split()
    totals = re.search(r"^(.*) PROGRAM TOTALS(?: \(calculated\))?$", text, re.M)[1]  # callgrind_annotate prints "(calculated)" if the total is 0
    words = re.sub(r"\([^)]*\)", "", totals).split()
    numbers = [0 if word == "." else int(word.replace(",", "")) for word in words]
    return dict(zip(events, numbers))


def heaptrack_print(path, folder):
    tool = need("heaptrack_print", "heaptrack")
    text = run([tool, "-f", path])
    sums = {"calls": int(re.search(r"calls to allocation functions: (\d+)", text)[1])}
    for cost in ("allocations", "leaked", "peak"):
        stacks = os.path.join(folder, "stacks")
        run([tool, "-f", path, "-F", stacks, "--flamegraph-cost-type", cost])
        with open(stacks, errors="replace") as lines:
            sums[cost] = sum(int(line.rsplit(" ", 1)[1]) for line in lines if line.strip())
    return sums


def cpu_ticks(pid):
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def heaptrack_gui(folder, *paths):
    """Opens the files in heaptrack_gui, each in a window, and waits until heaptrack_gui uses no more CPU time. Returns None on success; otherwise a
    text: heaptrack_gui ended by itself, or was still busy after two minutes."""
    tool = need("heaptrack_gui", "heaptrack-gui")
    environment = dict(os.environ, QT_QPA_PLATFORM="offscreen", HOME=folder, XDG_RUNTIME_DIR=folder, XDG_CONFIG_HOME=folder)
    with subprocess.Popen([tool, *paths], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as gui:
        end, before, idle = time.monotonic() + 120, 0, 0
        while gui.poll() is None and idle < 8 and time.monotonic() < end:
            time.sleep(0.25)
            now = cpu_ticks(gui.pid)
            idle = idle + 1 if now > 0 and now - before <= 1 else 0
            before = now
        ended = gui.poll()
        gui.kill()
    if ended is not None:
        return "status %d" % ended
    return None if idle >= 8 else "still busy after 120 s"


def read_csv(path):
    csv.field_size_limit(sys.maxsize)
    with open(path, newline="") as file:
        return list(csv.DictReader(file, strict=True))
