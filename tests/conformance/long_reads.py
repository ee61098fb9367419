#!/usr/bin/env python3
"""long_reads --build BUILD: what a command shows while it reads a trace for more than a second, and what it leaves behind if a signal ends it.

No trace is so long that reading it takes a second on every machine. So the test stops the command with SIGSTOP while it reads, waits for more
than a second, and continues it."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

import recorded
import tap

SECONDS = 60
PROGRAM = "for i in range(4000000): [[i]]"  # with PYTHONMALLOC=malloc: three blocks of malloc in each round
ERASE = b"\r\x1b[K"


class TooLate(Exception):
    """The command had read everything before the test could stop it, because other programs used the CPUs."""


def repeated(case, times=8):
    """Runs the case until it does not raise TooLate, at most TIMES times. If it raises TooLate each time, as when a command never shows a line, the
    test fails."""
    def repeat():
        for left in reversed(range(times)):
            try:
                return case()
            except TooLate:
                if left == 0:
                    raise
        return None
    return repeat


class Terminal:
    """A pseudo terminal. The command writes to one end. It writes so little that the test can read everything at the other end
    afterwards."""

    def __init__(self, columns=80):
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.set_blocking(self.ours, False)

    def text(self):
        read = b""
        while True:
            try:
                piece = os.read(self.ours, 1 << 16)
            except (BlockingIOError, OSError):
                return read
            if not piece:
                return read
            read += piece

    def close(self):
        os.close(self.ours)
        os.close(self.theirs)


def wait_until(condition, command):
    """Whether the condition became true while the command runs."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and command.poll() is None:
        if condition():
            return True
    return False


def opened(command, path):
    """Whether the command has opened the file."""
    folder = "/proc/%d/fd" % command.pid
    try:
        return any(os.readlink(os.path.join(folder, fd)) == path for fd in os.listdir(folder))
    except OSError:
        return False


def run_slowly(arguments, trace, failures, folder, columns=80, stderr=None, stdout=subprocess.DEVNULL):
    """Runs the command, and stops it for 1.2 s after it has opened the trace. The command's standard error is a pseudo terminal, unless STDERR is
    given. Returns the status and the bytes that the terminal got."""
    terminal = Terminal(columns)
    command = subprocess.Popen(arguments, cwd=folder, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr or terminal.theirs)
    failures.require("%s opens the trace" % arguments[1], wait_until(lambda: opened(command, trace), command))
    command.send_signal(signal.SIGSTOP)
    time.sleep(1.2)
    command.send_signal(signal.SIGCONT)
    status = command.wait(SECONDS)
    text = terminal.text()
    terminal.close()
    return status, text


COMMANDS = {
    "check": ["check"],
    "report": ["report", "--from=1us"],
    "export": ["export", "--from=1us", "--to=folded", "-o", "out.folded"],
    "diff": ["diff", "--from=1us"],
    "explain": ["explain", "--findings"],
}


def words_of(tools, name, trace):
    command = COMMANDS[name]
    return [tools.allogram] + command + [trace] * (2 if name == "diff" else 1)


def shows_progress(tools, trace, name):
    def case():
        failures = tap.Failures()
        with tempfile.TemporaryDirectory() as folder:
            status, text = run_slowly(words_of(tools, name, trace), trace, failures, folder)
            failures.expect("exit status", status, 0)
            if not text:
                raise TooLate
            lines = [line for line in text.split(ERASE) if line]
            failures.require("%r ends with an erased line" % text, text.endswith(ERASE))
            for line in lines:
                failures.require("%r names the command and a share" % line, line.startswith(b"allogram: %s: " % name.encode()) and b" % of " in line)
                failures.require("%r is short enough" % line, len(line) < 80 and b"\n" not in line)
        return failures
    return case


def is_silent(tools, trace, what):
    def case():
        failures = tap.Failures()
        words = words_of(tools, "check", trace)
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as other:
            if what == "quiet":
                status, text = run_slowly(words + ["-q"], trace, failures, folder)
            else:
                status, text = run_slowly(words, trace, failures, folder, stderr=other)
                other.seek(0)
                text += other.read()
            failures.expect("exit status", status, 0)
            failures.expect("standard error", text, b"")
        return failures
    return case


def first_second(tools, trace):
    def case():
        failures = tap.Failures()
        small = os.path.join(os.path.dirname(trace), "small.allogram")
        terminal = Terminal()
        status = subprocess.run([tools.allogram, "check", small], stdout=subprocess.DEVNULL, stderr=terminal.theirs, timeout=SECONDS, check=False)
        failures.expect("exit status", status.returncode, 0)
        failures.expect("standard error", terminal.text(), b"")
        terminal.close()
        return failures
    return case


def narrow(tools, trace):
    def case():
        failures = tap.Failures()
        with tempfile.TemporaryDirectory() as folder:
            _, text = run_slowly(words_of(tools, "check", trace), trace, failures, folder, columns=30)
            lines = [line for line in text.split(ERASE) if line]
            if not lines:
                raise TooLate
            failures.require("%r has lines of at most 29 columns" % lines, all(len(line) < 30 for line in lines))
        return failures
    return case


OUTPUTS = {
    "export": ["export", "--from=1us", "--to=folded", "-o", "out.folded"],
    "view": ["view", "--no-open", "-o", "out.html"],
}


def interrupted(tools, trace, name, number):
    """Sends the signal `number` to the command when it has created its output file and still reads the trace. The command must end by this signal,
    and leave no file."""
    def case():
        failures = tap.Failures()
        with tempfile.TemporaryDirectory() as folder:
            command = subprocess.Popen([tools.allogram] + OUTPUTS[name] + [trace], cwd=folder, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            failures.require("a file is created", wait_until(lambda: os.listdir(folder), command))
            command.send_signal(signal.SIGSTOP)
            command.send_signal(number)
            command.send_signal(signal.SIGCONT)
            status = command.wait(SECONDS)
            if status == 0:
                raise TooLate
            failures.expect("status", status, -number)
            failures.expect("files", os.listdir(folder), [])
        return failures
    return case


def interrupted_line(tools, trace):
    def case():
        failures = tap.Failures()
        terminal = Terminal()
        command = subprocess.Popen(words_of(tools, "check", trace), stdout=subprocess.DEVNULL, stderr=terminal.theirs)
        failures.require("opens the trace", wait_until(lambda: opened(command, trace), command))
        command.send_signal(signal.SIGSTOP)
        time.sleep(1.2)
        command.send_signal(signal.SIGCONT)
        text = b""

        def has_line():
            nonlocal text
            text += terminal.text()
            return b"read" in text
        wait_until(has_line, command)
        command.send_signal(signal.SIGINT)
        status = command.wait(SECONDS)
        text += terminal.text()
        if status == 0:
            terminal.close()
            raise TooLate
        failures.expect("status", status, -signal.SIGINT)
        failures.require("%r ends with an erased line" % text, text.endswith(ERASE))
        terminal.close()
        return failures
    return case


def ignored(tools, trace):
    """A command that was started with SIGINT ignored, as a script starts its background commands, is not ended by SIGINT."""
    def case():
        failures = tap.Failures()
        with tempfile.TemporaryDirectory() as folder:
            command = subprocess.Popen([tools.allogram] + OUTPUTS["export"] + [trace], cwd=folder, stderr=subprocess.DEVNULL,
                                       preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
            failures.require("a file is created", wait_until(lambda: os.listdir(folder), command))
            command.send_signal(signal.SIGINT)
            failures.expect("status", command.wait(SECONDS), 0)
            failures.expect("files", os.listdir(folder), ["out.folded"])
        return failures
    return case


def main():
    tools = recorded.tools_of_arguments()
    signal.signal(signal.SIGHUP, signal.SIG_DFL) # nohup ignores it, and the commands would inherit that
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        trace = os.path.join(folder, "long.allogram")
        environment = dict(os.environ, PYTHONMALLOC="malloc")
        subprocess.run([tools.allogram, "run", "-q", "-o", trace, "--", sys.executable, "-S", "-c", PROGRAM], check=True, env=environment)
        subprocess.run([tools.allogram, "run", "-q", "-o", os.path.join(folder, "small.allogram"), "--", "true"], check=True)
        cases = [("progress of %s" % name, shows_progress(tools, trace, name)) for name in COMMANDS]
        cases += [("no progress with --quiet", is_silent(tools, trace, "quiet")),
                  ("no progress without a terminal", is_silent(tools, trace, "file")),
                  ("no progress in the first second", first_second(tools, trace)),
                  ("a narrow terminal", narrow(tools, trace))]
        has_page = "without its page" not in subprocess.run([tools.allogram, "view", "-o", "-", trace], check=False, encoding="utf-8",
                                                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE).stderr
        for name in OUTPUTS:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if name != "view" or has_page:
                    cases.append(("%s ends %s" % (number.name, name), interrupted(tools, trace, name, number)))
        cases += [("SIGINT erases the line", interrupted_line(tools, trace)), ("an ignored SIGINT", ignored(tools, trace))]
        plan = tap.Plan(len(cases))
        for name, case in cases:
            plan.run(name, repeated(case))
        return plan.status()


if __name__ == "__main__":
    sys.exit(main())
