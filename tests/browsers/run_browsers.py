#!/usr/bin/env python3
"""Runs Chromium (as an ordinary user, in its own sandbox) and Firefox (as root and as an ordinary user) under `allogram run`, and compares these
runs with plain runs (runs without allogram).

The browsers draw a page. This script checks:

 - The picture and standard error are the same as without allogram. (Numbers in lines are ignored. Each line of the recorded run must occur in at
   least one plain run, and each line that occurs in every plain run must occur in the recorded run.)
 - The numbers of allocations and of bytes in all processes of the browser are those that uprobes (breakpoints of the kernel) count in the same
   run. Both browsers contain their own allocator, so a preloaded library could not count; uprobes also work in the sandbox. Calls that
   are not finished when their process ends are not in the traces, MISSING_BLOCKS per process at most.
 - The log also has the range of ten plain runs, in which the same uprobes count. These numbers depend on how long a browser runs: one
   process of Chromium made 177,000 allocations in 2.1 seconds and 397,000 in 5.0 seconds, without allogram. Recorded runs take longer, so
   their numbers may be above that range.
 - Nothing is lost, every trace is whole, and no process and no file is left.

`make soak` runs this script. A browser that is not installed is skipped; without uprobes all cases are skipped. --log appends the results to a file."""

import argparse
import collections
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

JUDGED, RUNS = 10, 5
MISSING_BLOCKS, MISSING_BYTES = 1, 4096
JUMP_BYTES = 5  # length of the jump that allogram writes at the start of a function
USER = 65534
TRACING = "/sys/kernel/tracing"
GROUP = "allogram_browsers_%d" % os.getpid()
PAGE = """<!doctype html><html><body><h1 id=a>hello</h1><script>
let sum = 0, kept = [];
for (let i = 0; i < 20000; i++) { kept.push({number: i, name: "x" + i}); sum += kept[i].number; }
document.getElementById("a").textContent = "sum " + sum;
</script></body></html>
"""
# The functions of the program's own allocator, and the registers whose product is the size of the allocation. Functions that only call or jump
# to another function of the list (the operators and strdup of Firefox) are not in the list, because their allocations would be counted twice.
C_ENTRIES = {"malloc": ["di"], "calloc": ["di", "si"], "realloc": ["si"], "memalign": ["si"], "aligned_alloc": ["si"],
             "posix_memalign": ["dx"], "valloc": ["di"], "pvalloc": ["di"]}
OPERATORS = {name: ["di"] for name in ("_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t", "_ZnwmSt11align_val_t",
                                       "_ZnamSt11align_val_t", "_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZnamSt11align_val_tRKSt9nothrow_t")}
ARENAS = {"moz_arena_malloc": ["si"], "moz_arena_calloc": ["si", "dx"], "moz_arena_realloc": ["dx"], "moz_arena_memalign": ["dx"]}
BROWSERS = {
    "chromium": {"program": "/usr/lib/chromium/chromium", "entries": {**C_ENTRIES, **OPERATORS},
                 "command": lambda home, picture, page: ["chromium", "--headless=new", "--user-data-dir=" + home + "/profile",
                                                         "--disable-gpu", "--window-size=400,300", "--screenshot=" + picture, page]},
    "firefox": {"program": "/usr/lib/firefox-esr/firefox-esr", "entries": {**C_ENTRIES, **ARENAS},
                "command": lambda home, picture, page: ["firefox-esr", "--headless", "--profile", home + "/profile",
                                                        "--window-size=400,300", "--screenshot", picture, page]},
}
CASES = [("chromium", USER), ("firefox", 0), ("firefox", USER)]


class Skipped(Exception):
    pass


# ---- counts of uprobes ----

def file_offsets(path, wanted):
    """Returns {name: offset in the file at which a uprobe is placed} for the wanted functions in the dynamic symbol table."""
    lines = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout.split("\n")
    addresses = {fields[2].split("@")[0]: int(fields[0], 16) for fields in (line.split() for line in lines) if len(fields) == 3}
    segments = []
    with open(path, "rb") as file:
        header = file.read(64)
        at, size, count = struct.unpack_from("<Q", header, 32)[0], *struct.unpack_from("<HH", header, 54)
        file.seek(at)
        for _ in range(count):
            kind, _, offset, address, _, bytes_in_file, _, _ = struct.unpack("<IIQQQQQQ", file.read(size)[:56])
            if kind == 1:
                segments.append((address, bytes_in_file, offset))
    found = {}
    places = places_behind_jump(path, {name: addresses[name] for name in wanted if name in addresses})
    for name, distance in places.items():
        for address, length, offset in segments:
            if address <= addresses[name] < address + length:
                found[name] = addresses[name] + distance - address + offset
    return found


def places_behind_jump(path, addresses):
    """Returns {name: distance in bytes from the start of the function to its uprobe}. The uprobe is at the first instruction that allogram does not
    overwrite in a recorded run, behind its jump of JUMP_BYTES. If the function's first instruction is a jump, the uprobe is at the target of this
    jump. The instructions before the uprobe must not change the registers of arguments."""
    places = {}
    for name, address in addresses.items():
        text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--start-address=%d" % address, "--stop-address=%d" % (address + 44), path],
                              capture_output=True, text=True, check=True).stdout
        code = [(int(at, 16), word, operands) for at, word, operands in re.findall(r"^\s*([0-9a-f]+):\t(\w+)\s*(.*)$", text, re.MULTILINE)]
        if code[0][1] == "jmp":
            places[name] = int(code[0][2].split()[0], 16) - address
            continue
        places[name] = next(at - address for at, _, _ in code if at - address >= JUMP_BYTES)
        for at, word, operands in code:
            if at - address < places[name] and (word[0] == "j" or word in ("call", "ret", "pop") or re.search(r",%[er](di|si|dx)$", operands)):
                raise RuntimeError("%s: the uprobe cannot be behind `%s %s`" % (name, word, operands))
    return places


class Judge:
    """Counts the calls of a program's allocator in all processes that execute the program, by uprobes. Does not disturb a recorded run."""

    def __init__(self, program, entries):
        self.sizes = {}
        places = {}
        for name, offset in file_offsets(program, entries).items():
            places.setdefault(offset, name)  # if a function has several names, only the first is used
        for offset, name in places.items():
            event = re.sub(r"\W", "_", name)
            arguments = " ".join("a%d=%%%s:u64" % (i, register) for i, register in enumerate(entries[name]))
            self._write("p:%s/%s %s:0x%x %s" % (GROUP, event, program, offset, arguments))
            self.sizes[event] = len(entries[name])

    @staticmethod
    def _write(line):
        try:
            file = os.open(TRACING + "/uprobe_events", os.O_WRONLY | os.O_APPEND)  # open() would seek, which this file does not support
            try:
                os.write(file, line.encode() + b"\n")
            finally:
                os.close(file)
        except OSError as error:
            raise Skipped("no uprobes: %s" % error) from error

    def close(self):
        for event in self.sizes:
            self._write("-:%s/%s" % (GROUP, event))

    def count(self, run):
        """Calls run(). Returns its result, and the numbers of blocks and bytes that were allocated during the call."""
        with tempfile.TemporaryDirectory(prefix="allogram-judge-") as folder:
            data = folder + "/perf.data"
            events = [argument for event in self.sizes for argument in ("-e", "%s:%s" % (GROUP, event))]
            # with a high priority and large buffers, so that perf loses no event on a busy machine
            perf = subprocess.Popen(["nice", "-n", "-10", "perf", "record", "-q", "-a", "-m", "16384", "-o", data, *events],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            time.sleep(1)
            if perf.poll() is not None:
                raise Skipped("perf: " + perf.stderr.read().decode(errors="replace").strip()[-200:])
            try:
                result = run()
            finally:  # the uprobes cannot be removed while perf runs
                perf.send_signal(signal.SIGINT)
                perf.communicate()
            script = subprocess.Popen(["perf", "script", "-i", data, "-F", "event,trace", "--show-lost-events"], stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, text=True, errors="replace")
            blocks = total = 0
            pattern = re.compile(r"%s:(\w+): \(\w+\)((?: a\d=\d+)+)" % GROUP)
            for line in script.stdout:
                match = pattern.search(line)
                if match:
                    size = 1
                    for number in re.findall(r"=(\d+)", match[2]):
                        size *= int(number)
                    blocks, total = blocks + 1, total + size
                elif "LOST" in line:
                    raise RuntimeError("the judge lost events: " + line.strip())
            script.wait()
            # losses after which no other event came have no LOST line
            stats = subprocess.run(["perf", "report", "-i", data, "--stats"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            lost = [line.strip() for line in stats.splitlines() if "LOST" in line and not line.split(":")[1].strip().startswith("0 ")
                    and line.split(":")[1].strip() != "0"]
            if lost:
                raise RuntimeError("the judge lost events: " + "; ".join(lost))
        return result, blocks, total


# ---- runs ----

Result = collections.namedtuple("Result", "status picture lines folder")


def normal(line):
    """Returns a line without the parts that differ from run to run: numbers, and the name of the home folder."""
    return re.sub(r"0x[0-9a-f]+|[0-9]+", "N", re.sub(r"/tmp/allogram-browser-\w+", "HOME", line)).strip()


def left_processes(mark):
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if mark.encode() in file.read():
                    found.append(path.split("/")[2])
        except OSError:
            pass
    return found


def draw(browser, user, page, before=()):
    """Runs a browser once as `user`. The words `before` are put before the browser's command; in them, {out} is a folder for traces."""
    home = tempfile.mkdtemp(prefix="allogram-browser-")
    os.mkdir(home + "/profile")
    os.mkdir(home + "/out")
    for path in (home, home + "/profile", home + "/out"):
        os.chown(path, user, user if user else 0)
    picture = home + "/picture.png"
    command = [word.format(out=home + "/out") for word in before] + BROWSERS[browser]["command"](home, picture, page)
    if user:
        command = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", *command]
    environment = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", "TMPDIR": home}
    try:
        outcome = subprocess.run(command, env=environment, cwd=home, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, timeout=180, check=False)
        end = time.monotonic() + 20
        while left_processes(home) and time.monotonic() < end:
            time.sleep(0.1)
        left = left_processes(home)
        for pid in left:
            os.kill(int(pid), 9)
        lines = {normal(line) for line in outcome.stderr.decode(errors="replace").split("\n")} - {""}
        with open(picture, "rb") as file:
            drawn = hashlib.sha256(file.read()).hexdigest()
        if left:
            raise RuntimeError("processes are left: %s" % left)
        return Result(outcome.returncode, drawn, lines, home)
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise


def read_traces(allogram, folder, program):
    """Returns the faults that were found, and for the processes that execute `program` the numbers of blocks, bytes and processes."""
    complaints, blocks, total, processes = [], 0, 0, 0
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if not name.endswith(".allogram"):
            complaints.append("a file is left: " + name)
            continue
        if subprocess.run([allogram, "check", path], capture_output=True, check=False).returncode != 0:
            complaints.append(name + ": not whole")
        summary = json.loads(subprocess.run([allogram, "report", path, "--json"], capture_output=True, check=True).stdout)
        if summary["lost_events"]["total"] != 0:
            complaints.append("%s: lost %d" % (name, summary["lost_events"]["total"]))
        if summary["trace"]["exe"] == program:
            processes += 1
            blocks += summary["allocated_blocks"]
            total += summary["allocated_bytes"]
    return complaints, blocks, total, processes


def left_sessions(folder):
    """Returns the live files (the shared memory of recordings) that remain of the recording that wrote the traces in FOLDER. The name of a live
    file's folder has the number of its recording, which is also in the header of a trace."""
    headers = []
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            headers.append(file.read(64))
    return ["left in /dev/shm: " + name for name in os.listdir("/dev/shm") if name.startswith(".allogram-live.")
            and any(struct.pack("<Q", int(name.rpartition(".")[2], 16)) in header for header in headers)]


def judge_case(allogram, browser, user, page, log):
    what = BROWSERS[browser]
    complaints, plain, recorded, lines = [], [], [], set()
    judge = Judge(what["program"], what["entries"])
    try:
        for _ in range(JUDGED):
            result, blocks, total = judge.count(lambda: draw(browser, user, page))
            shutil.rmtree(result.folder, ignore_errors=True)
            plain.append((result, blocks, total))
        pictures = {result.picture for result, _, _ in plain}
        seen = set.union(*(result.lines for result, _, _ in plain))
        always = set.intersection(*(result.lines for result, _, _ in plain))
        statuses = {result.status for result, _, _ in plain}
        for _ in range(RUNS):
            result, *judged = judge.count(lambda: draw(browser, user, page, [allogram, "run", "-q", "-o", "{out}/t.%p.allogram", "--"]))
            try:
                found, blocks, total, processes = read_traces(allogram, result.folder + "/out", what["program"])
                complaints += found + left_sessions(result.folder + "/out")
            finally:
                shutil.rmtree(result.folder, ignore_errors=True)
            recorded.append((blocks, total, processes))
            for name, count, truth, missing in (("allocations", blocks, judged[0], MISSING_BLOCKS), ("bytes", total, judged[1], MISSING_BYTES)):
                if not truth - missing * processes <= count <= truth:
                    complaints.append("%s: %d, the uprobes of the same run count %d" % (name, count, truth))
            lines |= result.lines - seen
            if result.status not in statuses:
                complaints.append("status %d" % result.status)
            if result.picture not in pictures:
                complaints.append("the picture differs from that of the plain runs")
            complaints += ["standard error lacks: " + line for line in always - result.lines]
    finally:
        judge.close()
    complaints += ["standard error has an additional line: " + line for line in lines]
    figures = ["%s=%d (plain runs: %d..%d)" % (name, statistics.median(row[index] for row in recorded), min(row[index + 1] for row in plain),
                                               max(row[index + 1] for row in plain)) for name, index in (("allocations", 0), ("bytes", 1))]
    line = "%s as %s: %s, processes=%d, %s" % (browser, "root" if user == 0 else "a user", ", ".join(figures), recorded[0][2],
                                               "as plainly" if not complaints else "%d differences" % len(complaints))
    print("# " + line)
    log.append(line)
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--log")
    parser.add_argument("cases", nargs="*", help="names of browsers (default: all)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that uprobes and folders are removed
    allogram = os.path.join(os.path.abspath(options.build), "src/cli/allogram")
    log, failed = [], 0
    if os.geteuid() == 0 and not os.path.exists(TRACING + "/uprobe_events"):
        subprocess.run(["mount", "-t", "tracefs", "nodev", TRACING], check=False, stderr=subprocess.DEVNULL)
    with tempfile.NamedTemporaryFile("w", suffix=".html", prefix="allogram-page-") as page:
        page.write(PAGE)
        page.flush()
        os.chmod(page.name, 0o644)
        cases = [case for case in CASES if not options.cases or case[0] in options.cases]
        print("1..%d" % len(cases), flush=True)
        for number, (browser, user) in enumerate(cases, 1):
            name = "%s as %s" % (browser, "root" if user == 0 else "a user")
            try:
                if os.geteuid() != 0:
                    raise Skipped("needs root, for uprobes and to run as another user")
                if not os.path.exists(BROWSERS[browser]["program"]) or not shutil.which("perf"):
                    raise Skipped("%s or perf is not installed" % BROWSERS[browser]["program"])
                complaints = judge_case(allogram, browser, user, "file://" + page.name, log)
            except Skipped as why:
                print("ok %d %s # SKIP %s" % (number, name, why), flush=True)
                continue
            except Exception as error:  # the other cases are still run
                complaints = ["%s: %s" % (type(error).__name__, error)]
            print("%s %d %s" % ("not ok" if complaints else "ok", number, name), flush=True)
            for complaint in complaints[:40]:
                print("#     " + complaint[:300], flush=True)
            failed += bool(complaints)
    if options.log and log:
        with open(options.log, "a", encoding="utf-8") as file:
            commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
            day = time.strftime("%Y-%m-%d", time.gmtime())
            file.write("".join("%s commit %s %s\n" % (day, commit, line) for line in log))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
