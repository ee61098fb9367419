#!/usr/bin/env python3
"""The screen of `run --live`, `attach --live` and `observe --live`, in a terminal of 80 columns and 24 rows and other sizes.

The program (commanded.c) allocates on command, so its numbers are known. A line of the screen must be equal to that of `allogram report`
on a dump of the same recording. However the screen ends, the terminal must be restored."""

import ctypes
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import recorded
import tap
from terminal import SECONDS, Terminal


class Live:
    """commanded.c in a terminal, recorded with `run --live`."""

    def __init__(self, tools, folder, *options, rows=24, columns=80, shell=None):
        self.tools, self.folder = tools, folder
        self.trace = os.path.join(folder, "t.allogram")
        self.input, self.writes = os.pipe()
        command = [tools.allogram, "run", "--live", "-o", self.trace, *options, "--", tools.program("commanded")]
        self.terminal = Terminal(shell(command) if shell else command, rows, columns, stdin=self.input, TMPDIR=folder)
        os.close(self.input)
        self.screen = self.terminal.screen

    def do(self, line):
        os.write(self.writes, line.encode() + b"\n")

    def end(self):
        os.close(self.writes)
        return self.terminal.finish()

    def pid_of_program(self):
        """Waits until the program runs: its pid is in the heading of the first report."""
        self.terminal.wait_for("the heading", lambda text: re.search(r"pid \d+, ", text))
        return int(re.search(r"pid (\d+), ", self.screen.text()).group(1))

    def report(self, *options):
        """The lines of a report on what is recorded now, as wide as the screen."""
        done = subprocess.run([self.tools.allogram, "control", str(self.pid_of_program()), "dump"], capture_output=True, text=True, check=True)
        dump = done.stdout.strip()
        try:
            return subprocess.run([self.tools.allogram, "report", dump, *options], capture_output=True, text=True, check=True,
                                  env=dict(os.environ, COLUMNS=str(self.screen.columns), NO_COLOR="1")).stdout.splitlines()[1:] # without the heading
        finally:
            os.unlink(dump)

    def children(self, pid):
        return [int(child) for child in open("/proc/%d/task/%d/children" % (pid, pid)).read().split()]

    def screen_process(self, run):
        """The child of `run` that reads the terminal's keys."""
        for child in self.children(run):
            status = open("/proc/%d/stat" % child).read()
            if open("/proc/%d/comm" % child).read().startswith("allogram") and status.rsplit(")")[1].split()[3] != str(child):
                return child # the other child, the writer, leads a session of its own
        raise RuntimeError("no process shows the screen")


def line_of(lines, word):
    return next((line.rstrip() for line in lines if word in line), None)


def seconds_of(terminal):
    """The length of the recording so far, from the heading of the report on the screen."""
    found = re.search(r", ([\d.]+) (ms|s), running", terminal.screen.text())
    return float(found.group(1)) / (1000 if found.group(2) == "ms" else 1) if found else 0


def left_over(folder):
    return glob.glob(os.path.join(folder, "allogram-live-*"))


def expect_restored(failures, live):
    failures.require("the terminal is restored", live.terminal.is_restored())
    failures.expect("folders that the screen has left", left_over(live.folder), [])


def numbers_and_keys(tools, folder):
    failures = tap.Failures()
    live = Live(tools, folder)
    shown = live.terminal.wait_for
    live.do("alloc 3000 1000")
    live.do("temporary 500 20000")
    live.do("gc")
    shown("the blocks", lambda text: "3,500" in text)
    live.terminal.keys("2") # sites
    wanted = line_of(live.report("--view=sites"), "alloc_as_c")
    failures.require("the report has all blocks: %s" % wanted, "3,500" in wanted)
    shown("the report's line: %s" % wanted, lambda text: wanted in [line.rstrip() for line in text.split("\n")])
    failures.expect("columns", max(map(len, live.screen.lines())) <= 80, True)

    live.terminal.keys("sss") # in_use_bytes
    wanted = line_of(live.report("--view=sites", "--sort=in_use_bytes"), "alloc_as_c")
    shown("the line sorted by bytes in use: %s" % wanted, lambda text: "sort: in_use_bytes" in text and wanted in text)

    live.terminal.keys("/no_such_function\r")
    shown("the filter", lambda text: "filter: no_such_function" in text and "commanded.c:" not in text and "no stack matches" in text)
    live.terminal.keys("/" + "\x7f" * 20 + "alloc_as\r")
    shown("the other filter", lambda text: "filter: alloc_as\n" in text and "alloc_as_c" in text)
    live.terminal.keys("/" + "\x7f" * 20 + "(\r")
    shown("the error of the report", lambda text: "not possible" in text and "--focus" in text)
    live.terminal.keys("/" + "\x7f" * 20 + "\r")

    live.terminal.keys("3") # tree
    wanted = line_of(live.report("--view=tree", "--sort=in_use_bytes"), "main")
    shown("the tree", lambda text: wanted in text)
    live.terminal.keys("5") # gc
    shown("the collection", lambda text: "commanded" in text and "full" in text)
    live.terminal.keys("\t") # threads
    wanted = line_of(live.report("--view=threads"), "commanded")
    shown("the threads: %s" % wanted, lambda text: wanted in text)
    live.terminal.keys("4")
    shown("the timeline", lambda text: "in use" in text and "█" in text)
    live.terminal.keys("9")
    shown("the program's output", lambda text: "ok" in text.split("\n")[2:5])

    live.terminal.keys("2 ") # pause
    shown("the pause", lambda text: "paused" in text and "alloc_as_c" in text)
    live.terminal.settle()
    before = live.screen.lines()
    live.do("alloc 777 1000")
    wanted = line_of(live.report("--view=sites", "--sort=in_use_bytes"), "alloc_as_c")
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        live.terminal.read(0.1)
    failures.expect("the screen during the pause", live.screen.lines(), before)
    live.terminal.keys(" ")
    shown("the numbers after the pause: %s" % wanted, lambda text: "3,777" in text and wanted in text)

    live.terminal.resize(60, 200)
    live.terminal.keys("2")
    shown("the wider report", lambda text: live.screen.lines()[59].startswith("q close") and "alloc_as_c" in text)
    wanted = line_of(live.report("--view=sites", "--sort=in_use_bytes"), "alloc_as_c")
    shown("the line at 200 columns: %s" % wanted, lambda text: wanted in text)
    live.terminal.resize(10, 40)
    shown("the small screen", lambda text: live.screen.lines()[9].startswith("q close") and "pid" in text)
    live.terminal.resize(24, 80)
    shown("the first size", lambda text: live.screen.lines()[23].startswith("q close"))

    failures.expect("exit status", live.end(), 0)
    failures.require("the program's output is on the terminal at the end", live.screen.lines().count("ok") == 4)
    failures.require("the closing lines are on the terminal", "nothing lost" in live.screen.text())
    expect_restored(failures, live)
    summary = recorded.report(tools, live.trace)
    failures.expect("blocks of the whole trace", summary["allocated_blocks"] >= 4277, True)
    live.terminal.close()
    return failures


def closed_screen(tools, folder):
    failures = tap.Failures()
    live = Live(tools, folder)
    live.do("alloc 10 1000")
    live.pid_of_program()
    live.terminal.keys("q")
    live.terminal.wait_for("the closed screen", lambda text: "the screen is closed" in text and "ok" in text)
    failures.require("the terminal is restored after q", live.terminal.is_restored())
    live.do("alloc 10 1000")
    live.terminal.wait_for("later output", lambda text: text.count("\nok") + text.startswith("ok") == 2)
    failures.expect("exit status", live.end(), 0)
    expect_restored(failures, live)
    live.terminal.close()
    return failures


def interrupted(tools, folder):
    failures = tap.Failures()
    live = Live(tools, folder)
    live.do("alloc 10 1000")
    live.pid_of_program()
    live.terminal.keys("\x03") # Ctrl-C
    failures.expect("exit status after Ctrl-C", live.terminal.finish(), 128 + signal.SIGINT)
    expect_restored(failures, live)
    failures.expect("the trace is sealed", recorded.report(tools, live.trace)["trace"]["end"], "signal")
    live.terminal.close()
    os.close(live.writes)
    return failures


def stopped(tools, folder):
    """Ctrl-Z in a shell with job control, then fg."""
    failures = tap.Failures()
    script = '"$@" <&3; echo "stopped: $?"; read -r line <&4; fg; echo "ended: $?"'
    live = Live(tools, folder, shell=lambda command: ["bash", "-c", "set -m; exec 3<&0 4</dev/tty; " + script, "bash", *command])
    live.do("alloc 10 1000")
    live.pid_of_program()
    live.terminal.keys("\x1a")
    live.terminal.wait_for("the shell", lambda text: "stopped: %d" % (128 + signal.SIGTSTP) in text or "stopped: %d" % (128 + signal.SIGSTOP) in text)
    failures.require("the terminal is restored while the command is stopped",
                     not live.screen.is_alternate and live.screen.has_cursor)
    live.terminal.keys("\r")
    live.terminal.wait_for("the screen after fg", lambda text: live.screen.is_alternate and "q close" in text and "alloc" in text)
    live.do("alloc 123 1000")
    live.terminal.wait_for("new numbers", lambda text: re.search(r"\b13[34]\b", text))
    os.close(live.writes)
    failures.expect("exit status of the shell", live.terminal.finish(), 0)
    failures.require("the command ended with status 0: %s" % live.screen.text(), "ended: 0" in live.screen.text())
    expect_restored(failures, live)
    live.terminal.close()
    return failures


def killed(tools, folder):
    failures = tap.Failures()
    live = Live(tools, folder)
    live.do("alloc 10 1000")
    live.pid_of_program()
    os.kill(live.screen_process(live.terminal.pid), signal.SIGKILL)
    live.terminal.wait_for("the message", lambda text: "signal 9 ended the screen" in text)
    failures.require("the terminal is restored after the screen was killed", live.terminal.is_restored())
    failures.expect("exit status", live.end(), 0)
    expect_restored(failures, live)
    live.terminal.close()

    os.mkdir(os.path.join(folder, "second"))
    live = Live(tools, os.path.join(folder, "second"))
    live.do("alloc 10 1000")
    live.pid_of_program()
    os.kill(live.terminal.pid, signal.SIGKILL)
    failures.expect("status of the killed command", live.terminal.finish(), -signal.SIGKILL)
    end = time.monotonic() + SECONDS
    while not live.terminal.is_restored() and time.monotonic() < end: # the process of the screen restores it, after the command has ended
        live.terminal.read(0.05)
    failures.require("the terminal is restored after the command was killed", live.terminal.is_restored())
    os.close(live.writes)
    live.terminal.close()
    return failures


def attached(tools, folder):
    failures = tap.Failures()
    program = subprocess.Popen([tools.program("commanded")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    trace = os.path.join(folder, "t.allogram")
    terminal = Terminal([tools.allogram, "attach", str(program.pid), "--live", "--mode=exact", "-o", trace], 24, 80, TMPDIR=folder)
    terminal.wait_for("the screen", lambda text: "q close" in text)
    terminal.keys("2")
    for line in (b"alloc 4000 512\n", b"alloc 1 1\n"):
        program.stdin.write(line)
        program.stdin.flush()
        program.stdout.readline()
    terminal.wait_for("the blocks", lambda text: "4,001" in text and "alloc_as_c" in text)
    terminal.keys("\x03")
    failures.expect("exit status", terminal.finish(), 0)
    failures.require("the terminal is restored", terminal.is_restored())
    failures.expect("folders that the screen has left", left_over(folder), [])
    sites = recorded.report(tools, trace, "--view=sites")["sites"]
    failures.expect("blocks in the trace", [site["own"]["allocated_blocks"] for site in sites if site["function"] == "alloc_as_commanded"], [4001])
    program.stdin.close()
    failures.expect("the program's exit status", program.wait(SECONDS), 0)
    program.stdout.close()
    terminal.close()
    return failures


# Uses CPU time in one function and makes its memory grow in another, until its standard input is closed.
BUSY = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static volatile unsigned counter;
__attribute__((noinline)) static void use_time(void) {
    for (int i = 0; i < 2000000; i++) {
        counter++;
    }
}
__attribute__((noinline)) static char *grow_memory(void) {
    char *block = malloc(1 << 20);
    return block ? memset(block, 1, 1 << 20) : NULL;
}
int main(void) {
    char end;
    fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    for (int i = 0; read(STDIN_FILENO, &end, 1) != 0; i++) {
        use_time();
        if (i % 10 == 0 && i < 5000) {
            grow_memory();
        }
    }
    return 0;
}
"""


def compile_busy(folder):
    source, busy = os.path.join(folder, "busy.c"), os.path.join(folder, "busy")
    with open(source, "w", encoding="ascii") as file:
        file.write(BUSY)
    subprocess.run(["gcc", "-O1", "-g", source, "-o", busy], check=True)
    return busy


class Openings:
    """Counts how often a file is opened from now on."""

    IN_OPEN = 0x20

    def __init__(self, path):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK)
        if self.fd < 0 or libc.inotify_add_watch(self.fd, os.fsencode(path), self.IN_OPEN) < 0:
            raise OSError(ctypes.get_errno(), "inotify", path)

    def count(self):
        """Equal events that follow each other are one event, so the result is 0 only if there was none."""
        try:
            events = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            events = b""
        os.close(self.fd)
        return len(events) // 16 # an event of a watched file has no name


def observed(tools, folder):
    """The screen shows reports on the observation so far. q ends the observation, with its results and its trace; so does a kill of the screen."""
    failures = tap.Failures()
    program = subprocess.Popen([compile_busy(folder)], stdin=subprocess.PIPE)
    try:
        command = [tools.allogram, "observe", str(program.pid), "--live", "--growth"]
        trace = os.path.join(folder, "t.allogram")
        terminal = Terminal([*command, "-o", trace], 24, 80, TMPDIR=folder)
        terminal.wait_for("samples of the function", lambda text: re.search(r"observed from outside, .*, running", text) and "use_time" in text)
        terminal.keys("2")
        terminal.wait_for("the functions", lambda text: re.search(r"\d s? +\d+ % .* use_time", text) and "q close" in text)
        terminal.keys("3")
        terminal.wait_for("the growth", lambda text: re.search(r"grow_memory +busy\.c:\d+", text))
        terminal.keys("7") # there is no such view
        terminal.keys("\t")
        terminal.wait_for("the tree", lambda text: re.search(r"main +busy\.c:\d+", text))
        terminal.keys("q")
        failures.expect("exit status", terminal.finish(), 0)
        failures.require("the results are on the terminal", "CPU time by function" in terminal.screen.text())
        failures.require("the terminal is restored", terminal.is_restored())
        failures.expect("folders that the screen has left", left_over(folder), [])
        functions = recorded.report(tools, trace, "--view=functions")["functions"]
        failures.expect("the first function of the trace", functions[0]["function"], "use_time")
        terminal.close()

        terminal = Terminal(command, 24, 80, TMPDIR=folder)
        terminal.wait_for("the screen", lambda text: "use_time" in text)
        terminal.keys("\x03")
        failures.expect("exit status after Ctrl-C", terminal.finish(), 0)
        failures.require("the terminal is restored after Ctrl-C", terminal.is_restored())
        failures.expect("folders after Ctrl-C", left_over(folder), [])
        terminal.close()

        terminal = Terminal([*command, "--duration=1s"], 24, 80, TMPDIR=folder)
        failures.expect("exit status after the duration", terminal.finish(), 0)
        failures.require("the terminal is restored after the duration", terminal.is_restored())
        failures.expect("folders after the duration", left_over(folder), [])
        terminal.close()
    finally:
        program.stdin.close()
        failures.expect("the program's exit status", program.wait(SECONDS), 0)
    return failures


def observed_file_is_opened_once(tools, folder):
    """The program's file is opened once, and not for each report: the kernel (inotify) reports each time that a process opens it."""
    failures = tap.Failures()
    busy = compile_busy(folder)
    program = subprocess.Popen([busy], stdin=subprocess.PIPE)
    try:
        terminal = Terminal([tools.allogram, "observe", str(program.pid), "--live"], 24, 80, TMPDIR=folder)
        terminal.wait_for("samples of the function", lambda text: "running" in text and "use_time" in text)
        openings = Openings(busy)
        shown = seconds_of(terminal)
        terminal.wait_for("later reports", lambda text: seconds_of(terminal) >= shown + 2)
        failures.expect("openings of the program's file", openings.count(), 0)
        failures.require("the function has its name: %s" % terminal.screen.text(), "use_time" in terminal.screen.text())
        terminal.keys("q")
        failures.expect("exit status", terminal.finish(), 0)
        terminal.close()
    finally:
        program.stdin.close()
        failures.expect("the program's exit status", program.wait(SECONDS), 0)
    return failures


def refused(tools, folder):
    failures = tap.Failures()
    for words, status in ((["run", "--live", "--", tools.program("commanded")], 125), (["attach", "--live", str(os.getpid())], 125),
                          (["observe", "--live", str(os.getpid())], 1)):
        done = subprocess.run([tools.allogram, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder, check=False)
        failures.expect("exit status without a terminal", done.returncode, status)
        failures.require("one line that says why: %s" % done.stderr, done.stderr.count("\n") == 1 and "--live needs a terminal" in done.stderr)
    terminal = Terminal(["env", "TERM=dumb", tools.allogram, "run", "--live", "--", "true"], 24, 80, TMPDIR=folder)
    failures.expect("exit status with TERM=dumb", terminal.finish(), 125)
    failures.require("the message names the terminal: %s" % terminal.screen.text(), "TERM=dumb" in terminal.screen.text())
    terminal.close()
    failures.expect("files", os.listdir(folder), [])
    return failures


CASES = [
    ("numbers, views, keys and sizes", numbers_and_keys),
    ("q closes the screen", closed_screen),
    ("Ctrl-C ends program and screen", interrupted),
    ("Ctrl-Z and fg", stopped),
    ("a kill of the screen or the command", killed),
    ("attach", attached),
    ("observe", observed),
    ("observe opens the program's file once", observed_file_is_opened_once),
    ("no terminal", refused),
]


def has_screen(tools):
    terminal = Terminal([tools.allogram, "run", "--live", "--", "/no/such/program"], 24, 200)
    terminal.finish()
    terminal.close()
    return "liballogram-live.so" not in terminal.screen.text()


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    plan = tap.Plan(len(CASES))
    is_built = has_screen(tools)
    for name, case in CASES:
        if not is_built:
            plan.skip(name, "allogram was built without ncurses")
            continue
        with tempfile.TemporaryDirectory() as folder:
            plan.run(name, lambda case=case, folder=folder: case(tools, folder))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
