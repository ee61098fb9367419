#!/usr/bin/env python3
"""Snapshots: traces of a program that still runs. `run --dump-at` writes snapshots to the folder of the trace, and `run --serve` exports
them for go tool pprof.

The program (commanded.c) allocates and frees on command, and answers when it has done so. So the exact contents of each snapshot are
known. The trace of the whole run must be the same as without snapshots."""

import http.client
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

import recorded
import tap

SECONDS = 60
MIB = 1 << 20


class Commanded:
    """The program commanded.c under `allogram run`, in FOLDER."""

    def __init__(self, tools, folder, *options, is_quiet=True, under=()):
        self.tools, self.folder = tools, folder
        self.trace = os.path.join(folder, "t.allogram")
        self.temporary = os.path.join(folder, "temporary")
        os.mkdir(self.temporary)
        self.errors = open(os.path.join(folder, "errors"), "w+b")
        self.process = subprocess.Popen([*under, tools.allogram, "run", *["-q"] * is_quiet, "-o", self.trace, *options, "--", tools.program("commanded")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        env=dict(os.environ, TMPDIR=self.temporary))

    def do(self, *lines):
        for line in lines:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
            if self.process.stdout.readline() != b"ok\n":
                raise RuntimeError("commanded.c did not confirm the command: " + line)

    def dump(self, number):
        """Waits for a dump; returns its path."""
        path = os.path.join(self.folder, "t.dump%d.allogram" % number)
        wait_for("sums of dump %d" % number, lambda: os.path.exists(path))
        return path

    def dumps(self):
        return sorted(name for name in os.listdir(self.folder) if ".dump" in name)

    def finish(self):
        self.process.stdin.close()
        status = self.process.wait(SECONDS)
        self.process.stdout.close()
        return status

    def said(self):
        self.errors.seek(0)
        return self.errors.read().decode()


def wait_for(what, holds):
    end = time.monotonic() + SECONDS
    while not holds():
        if time.monotonic() > end:
            raise RuntimeError("waited in vain for %s, %d s" % (what, SECONDS))
        time.sleep(0.005)


def own(tools, trace):
    for site in recorded.report(tools, trace, "--view=sites")["sites"]:
        if site["function"] == "alloc_as_commanded":
            return {key: site["own"][key] for key in ("allocated_blocks", "allocated_bytes", "freed_blocks", "in_use_bytes")}
    return None


def sums(blocks, size, freed=0):
    return {"allocated_blocks": blocks, "allocated_bytes": blocks * size, "freed_blocks": freed, "in_use_bytes": (blocks - freed) * size}


def is_whole(tools, trace, failures):
    status, verdict = recorded.check(tools, trace)
    failures.expect("check of " + os.path.basename(trace), (status, verdict.get("whole"), verdict["lost_events"]["total"]), (0, True, 0))


def every_so_many_bytes(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = Commanded(tools, folder, "--dump-at=every=10M")
        commanded.do("alloc 9 %d" % MIB)
        commanded.do("alloc 1 %d" % MIB, "alloc 1 %d" % MIB)
        first = commanded.dump(1)
        is_whole(tools, first, failures)
        seen = own(tools, first)
        failures.require("the first dump has the blocks at its limit: %s" % seen, seen in (sums(10, MIB), sums(11, MIB)))
        failures.expect("end of the first dump", recorded.report(tools, first)["trace"]["end"], "detached")
        commanded.do("free 5", "alloc 100000 10")  # fills several chunks (buffers of events); freed bytes count, too
        commanded.do("alloc 9 %d" % MIB)
        commanded.dump(2)
        failures.expect("status", commanded.finish(), 0)
        failures.expect("names of the dumps", commanded.dumps(), ["t.dump1.allogram", "t.dump2.allogram"])
        is_whole(tools, commanded.trace, failures)
        summary = recorded.report(tools, commanded.trace)
        failures.expect("the trace's end", summary["trace"]["end"], "exit")
        failures.expect("blocks in the trace of the whole run", own(tools, commanded.trace)["allocated_blocks"], 100020)
    return failures


def at_a_new_peak(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = Commanded(tools, folder, "--dump-at=peak")
        commanded.do("alloc 1 %d" % (20 * MIB))
        failures.expect("sums of the dump at the first peak", own(tools, commanded.dump(1)), sums(1, 20 * MIB))
        commanded.do("free 1", "alloc 1 %d" % (10 * MIB), "free 1")  # lower than the peak
        commanded.do("alloc 1 %d" % (21 * MIB), "free 1")  # less than a tenth higher than the peak
        commanded.do("alloc 1 %d" % (40 * MIB))
        failures.expect("bytes in use in the dump at the next peak", own(tools, commanded.dump(2))["in_use_bytes"], 40 * MIB)
        failures.expect("status", commanded.finish(), 0)
        failures.expect("names of the dumps", commanded.dumps(), ["t.dump1.allogram", "t.dump2.allogram"])
    return failures


def every_so_often(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = Commanded(tools, folder, "--dump-at=every=200ms")
        commanded.do("alloc 7 1000")
        first = commanded.dump(1)
        times = [recorded.report(tools, commanded.dump(number))["trace"]["duration_ns"] for number in (1, 2, 3)]
        failures.require("the dumps are at least 0.2 s apart: %s" % times, times[0] >= 2e8 and times[1] >= 4e8 and times[2] >= 6e8)
        failures.require("the first dump has no block or all blocks: %s" % own(tools, first), own(tools, first) in (None, sums(7, 1000)))
        failures.expect("sums of the third dump", own(tools, commanded.dump(3)), sums(7, 1000))
        failures.expect("status", commanded.finish(), 0)
    return failures


def at_each_collection(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = Commanded(tools, folder, "--dump-at=gc")
        for n in (1, 2, 3):
            commanded.do("alloc 5 100", "gc")
            dump = commanded.dump(n)
            failures.expect("sums of dump %d" % n, own(tools, dump), sums(5 * n, 100))
            failures.expect("collections in the dump", len(recorded.report(tools, dump, "--view=gc")["collections"]), n)
        commanded.do("alloc 5 100")
        failures.expect("status", commanded.finish(), 0)
        failures.expect("number of dumps", len(commanded.dumps()), 3)
    return failures


def at_a_signal(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = Commanded(tools, folder, "--dump-at=signal=USR1", "--mode=sample", "--interval=1")
        commanded.do("alloc 300 1000")  # at an interval of one byte every block is a sample
        for n in (1, 2):
            os.kill(commanded.process.pid, signal.SIGUSR1)
            dump = commanded.dump(n)
            failures.expect("sums of dump %d" % n, own(tools, dump), sums(300 * n, 1000))
            commanded.do("alloc 300 1000")
        failures.expect("status of the program, which does not get the signal", commanded.finish(), 0)
    return failures


def when_processes_wait_for_memory(tools):
    """A file of the test replaces the kernel's, because a test cannot make the kernel run out of memory to a known degree."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        pressure = os.path.join(folder, "pressure")

        def wait_share(percent):
            with open(pressure, "r+", encoding="ascii") as file:  # the same file: it is mounted
                file.write("some avg10=%05.2f avg60=0.00 avg300=0.00 total=1\n" % percent)

        with open("/proc/self/cgroup", encoding="utf-8") as file:
            unified = [line.rstrip("\n").split("::")[1] for line in file if line.startswith("0::")]
        replaced = [path for path in ["/proc/pressure/memory"] + ["/sys/fs/cgroup%s/memory.pressure" % name for name in unified]
                    if os.path.exists(path)]
        with open(pressure, "w", encoding="ascii"):
            wait_share(19)
        script = "".join("mount --bind '%s' '%s' && " % (pressure, path) for path in replaced) + 'exec "$@"'
        commanded = Commanded(tools, folder, "--dump-at=pressure=20%", under=["unshare", "-m", "sh", "-c", script, "sh"])
        commanded.do("alloc 3 100")
        time.sleep(1.5)  # longer than between two readings
        failures.expect("dumps with 19 %", commanded.dumps(), [])
        wait_share(20)
        failures.expect("sums at 20 %", own(tools, commanded.dump(1)), sums(3, 100))
        commanded.do("alloc 2 100")
        wait_share(15)
        time.sleep(1.5)
        wait_share(30)
        time.sleep(1.5)
        failures.expect("dumps while the share stays above 10 %", len(commanded.dumps()), 1)
        wait_share(9)
        time.sleep(1.5)
        wait_share(20)
        failures.expect("sums when 20 % are reached again", own(tools, commanded.dump(2)), sums(5, 100))
        failures.expect("status", commanded.finish(), 0)
        is_whole(tools, commanded.trace, failures)
    return failures


def nothing_is_overwritten(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        with open(os.path.join(folder, "t.dump1.allogram"), "w", encoding="utf-8") as file:
            file.write("mine")
        commanded = Commanded(tools, folder, "--dump-at=peak")
        commanded.do("alloc 1 %d" % (20 * MIB))
        failures.expect("sums of the dump with the next number", own(tools, commanded.dump(2)), sums(1, 20 * MIB))
        commanded.finish()
        with open(os.path.join(folder, "t.dump1.allogram"), encoding="utf-8") as file:
            failures.expect("an existing file with the name of a dump", file.read(), "mine")
        failures.expect("unfinished dumps that are left", [name for name in os.listdir(folder) if name.endswith(".part")], [])
    return failures


def wrong_words_are_refused(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        many = ["--dump-at=gc"] * 9
        for options in (["--dump-at=never"], ["--dump-at=every="], ["--dump-at=every=0"], ["--dump-at=every=0s"], ["--dump-at=every=x"],
                        ["--dump-at=signal=KILL"], ["--dump-at=signal="], many, ["--dump-at=peak", "--mode=sample"],
                        ["--dump-at=pressure=100%"], ["--dump-at=pressure=20"], ["--dump-at=every=1M", "--budget=1"], ["--serve=http"], ["--serve=65536"], ["--serve=-1"],
                        ["--serve=%d" % taken.getsockname()[1]]):
            outcome = recorded.run([tools.allogram, "run", *options, "--", "true"], cwd=folder)
            failures.expect("%s: status and lines" % options, (outcome.status, len(outcome.stderr.decode().splitlines())), (125, 1))
        failures.expect("files left in the folder", os.listdir(folder), [])
    return failures


# ---- the endpoint ----

def get(port, path, method="GET", headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request(method, path, headers=headers or {})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, body


def served(commanded):
    wait_for("the endpoint", lambda: "token=" in commanded.said())
    match = re.search(r"http://127\.0\.0\.1:(\d+)/debug/pprof/heap\?token=([0-9a-f]{32})", commanded.said())
    return int(match[1]), match[2]


def in_pprof(commanded, port, token, page):
    """Returns {sample type: value of the function alloc_as_commanded} that go tool pprof reads from a page of the endpoint."""
    found = {}
    for index in ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space"):
        outcome = recorded.run(["go", "tool", "pprof", "-sample_index=" + index, "-unit=B", "-top",
                                "http://127.0.0.1:%d/debug/pprof/%s?token=%s" % (port, page, token)],
                               env={"PPROF_TMPDIR": commanded.temporary, "HOME": commanded.temporary})
        match = re.search(rb"^ *(\S+) +\S+ +\S+ +\S+ +\S+ +alloc_as_commanded$", outcome.stdout, re.MULTILINE)
        found[index] = match[1].decode().rstrip("B") if match else None
    return found


def go_reads_it(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = Commanded(tools, folder, "--serve=0")
        port, token = served(commanded)
        commanded.do("alloc 30 1000", "free 10")
        wanted = {"alloc_objects": "30", "alloc_space": "30000", "inuse_objects": "20", "inuse_space": "20000"}
        failures.expect("values of the page heap", in_pprof(commanded, port, token, "heap"), wanted)
        failures.expect("values of the page allocs", in_pprof(commanded, port, token, "allocs"), wanted)
        outcome = recorded.run(["go", "tool", "pprof", "-top", "http://127.0.0.1:%d/debug/pprof/allocs?token=%s" % (port, token)],
                               env={"PPROF_TMPDIR": commanded.temporary, "HOME": commanded.temporary})
        failures.require("the page `allocs` shows allocated bytes by default", b"Type: alloc_space" in outcome.stdout)
        failures.expect("status", commanded.finish(), 0)
        failures.expect("sums of the whole run", own(tools, commanded.trace), sums(30, 1000, freed=10))
    return failures


def exported(commanded, body):
    path = os.path.join(commanded.folder, "growth.pb.gz")
    with open(path, "wb") as file:
        file.write(body)
    outcome = recorded.run(["go", "tool", "pprof", "-sample_index=inuse_objects", "-top", path], env={"HOME": commanded.temporary})
    match = re.search(rb"^ *(\S+) +\S+ +\S+ +\S+ +\S+ +alloc_as_commanded$", outcome.stdout, re.MULTILINE)
    return int(match[1]) if match else 0


def growth_is_since_it_was_asked_for(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = Commanded(tools, folder, "--serve=0")
        port, token = served(commanded)
        path = "/debug/pprof/growth?token=" + token
        for blocks, freed, grown in ((30, 10, 20), (7, 2, 5), (0, 0, 0), (3, 0, 3)):
            commanded.do("alloc %d 100" % blocks, "free %d" % freed)
            status, body = get(port, path)
            failures.expect("growth by %d" % grown, (status, exported(commanded, body)), (200, grown))
        failures.expect("status", commanded.finish(), 0)
    return failures


def strangers_get_nothing(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = Commanded(tools, folder, "--serve=0")
        port, token = served(commanded)
        commanded.do("alloc 3 100")
        wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
        for path in ("/", "/debug/pprof/heap", "/debug/pprof/heap?token=", "/debug/pprof/heap?token=" + wrong,
                     "/debug/pprof/heap?token=" + token[:-1], "/debug/pprof/heap?token=" + token + "0", "/debug/pprof/heap?xtoken=" + token):
            failures.expect(path, get(port, path)[0], 403)
        failures.expect("status of another page", get(port, "/etc/passwd?token=" + token)[0], 404)
        failures.expect("status of another method", get(port, "/debug/pprof/heap?token=" + token, method="POST")[0], 405)
        status, body = get(port, "/debug/pprof/heap", headers={"Authorization": "Bearer " + token})
        failures.expect("status, first bytes with the token in a header", (status, body[:2]), (200, b"\x1f\x8b"))
        for sent in (b"", b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"a" * 9000 + b"\r\n\r\n", b"GET\r\n\r\n", b"GET /\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as client:
                try:
                    client.sendall(sent)
                    client.shutdown(socket.SHUT_WR)
                    answer = client.recv(100)
                except OSError: # the endpoint closed the connection before it read everything
                    answer = b"HTTP/1.1 400"
                failures.expect("%r" % sent[:20], answer[:11], b"HTTP/1.1 40")
        with socket.socket() as elsewhere:
            elsewhere.settimeout(2)
            own_addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
            for address in sorted(address for address in own_addresses if not address.startswith("127.")):
                failures.fail_unless("the endpoint listens on " + address, elsewhere.connect_ex((address, port)) != 0)
        failures.expect("number of times that the token was printed", commanded.said().count(token), 1)
        failures.expect("status", commanded.finish(), 0)
        failures.expect("temporary files that are left", os.listdir(commanded.temporary), [])
        with socket.socket() as later:
            failures.fail_unless("the port is still taken", later.connect_ex(("127.0.0.1", port)) != 0)
        is_whole(tools, commanded.trace, failures)
    return failures


def silent_clients_delay_no_other(tools):
    """More clients are connected than the endpoint accepts at the same time. Some send nothing, others half a request. A client that sends a
    request must get its answer while the other clients stay connected."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = Commanded(tools, folder, "--serve=0")
        port, token = served(commanded)
        commanded.do("alloc 3 100")
        clients = []
        for number in range(24):
            clients.append(socket.create_connection(("127.0.0.1", port), timeout=SECONDS))
            clients[-1].sendall((b"", b"GET /debug/pprof/heap?tok")[number % 2])
        failures.expect("status of a whole request", get(port, "/debug/pprof/heap?token=" + token)[0], 200)
        failures.expect("answer to the oldest client", clients[0].recv(12), b"HTTP/1.1 400")
        for client in clients:
            client.close()
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as silent, \
                socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as wrong:
            wrong.sendall(b"GET /\0")
            first, _, _ = select.select([silent, wrong], [], [], SECONDS)
            failures.require("a request with a byte of 0 is refused before the time limit of a silent client", first == [wrong])
            failures.expect("answer to a request with a byte of 0", wrong.recv(12), b"HTTP/1.1 400")
        failures.expect("status", commanded.finish(), 0)
        is_whole(tools, commanded.trace, failures)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    cases = [("every so many bytes", every_so_many_bytes), ("at a new peak", at_a_new_peak), ("every so often", every_so_often),
             ("at each collection", at_each_collection), ("at a signal", at_a_signal),
             ("nothing is overwritten", nothing_is_overwritten), ("wrong words are refused", wrong_words_are_refused),
             ("strangers get nothing", strangers_get_nothing), ("silent clients delay no other", silent_clients_delay_no_other)]
    by_go = [("go tool pprof reads the pages", go_reads_it), ("the page growth shows the growth since the last request", growth_is_since_it_was_asked_for)]
    plan = tap.Plan(len(cases) + len(by_go) + 1)
    for name, case in cases:
        plan.run(name, lambda case=case: case(tools))
    for name, case in by_go:
        if shutil.which("go") is None:
            plan.skip(name, "golang-go is not installed")
        else:
            plan.run(name, lambda case=case: case(tools))
    pressure = "when processes wait for memory"
    if subprocess.run(["unshare", "-m", "test", "-r", "/proc/pressure/memory"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        plan.skip(pressure, "no right to make a mount namespace, or no /proc/pressure/memory")
    else:
        plan.run(pressure, lambda: when_processes_wait_for_memory(tools))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
