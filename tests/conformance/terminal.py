"""A terminal for tests: a pseudo terminal (pty), a program in it, and what the program shows on the screen.

The screen understands the control sequences that ncurses uses for TERM=xterm. An unknown sequence raises an error, because the
contents of the screen would then be wrong."""

import codecs
import fcntl
import os
import re
import select
import signal
import struct
import termios
import time

SECONDS = 60


class Screen:
    """The cells of a terminal, and whether it is in the state that the shell expects."""

    def __init__(self, rows, columns):
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.pending = ""
        self.is_alternate, self.has_cursor, self.is_keypad = False, True, False
        self.main, self.resize = None, None
        self.set_size(rows, columns)

    def set_size(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.main_cells = [[" "] * columns for _ in range(rows)]
        self.row, self.column, self.top, self.bottom, self.last = 0, 0, 0, rows - 1, " "

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def text(self):
        return "\n".join(self.lines())

    def feed(self, data):
        self.pending += self.decoder.decode(data)
        while self.pending:
            found = re.match(r"\x1b\[([?>!]?)([0-9;]*)([@-~])|\x1b[()*+].|\x1b\][^\x07]*\x07|\x1b[78=>MDEc]|[^\x1b]", self.pending, re.S)
            if not found:
                if len(self.pending) > 64:
                    raise RuntimeError("unknown control sequence %r" % self.pending[:16])
                return # the rest of the sequence has not arrived yet
            self.pending = self.pending[found.end():]
            if found.group(3):
                self.control(found.group(1), [int(n or 0) for n in found.group(2).split(";")], found.group(3))
            else:
                self.character(found.group(0))

    def scroll(self, first, last, count):
        """Moves the rows from FIRST to LAST up by COUNT, or down if COUNT is negative."""
        for _ in range(min(abs(count), last - first + 1)):
            self.cells.insert(last + 1 if count > 0 else first, [" "] * self.columns)
            del self.cells[first if count > 0 else last + 1]

    def character(self, text):
        if text == "\r":
            self.column = 0
        elif text in ("\n", "\x1bD"):
            if self.row == self.bottom:
                self.scroll(self.top, self.bottom, 1)
            self.row = min(self.row + 1, self.rows - 1) if self.row != self.bottom else self.row
        elif text == "\x1bM":
            if self.row == self.top:
                self.scroll(self.top, self.bottom, -1)
            self.row -= self.row != self.top
        elif text == "\b":
            self.column = max(self.column - 1, 0)
        elif text == "\t":
            self.column = min(self.column // 8 * 8 + 8, self.columns - 1)
        elif text in ("\x1b=", "\x1b>"):
            self.is_keypad = text == "\x1b="
        elif len(text) == 1 and text >= " ":
            self.put(text)

    def put(self, text):
        if self.column >= self.columns:
            self.character("\r")
            self.character("\n")
        self.cells[self.row][self.column] = self.last = text
        self.column += 1

    def control(self, mark, numbers, final):
        n = max(numbers[0], 1)
        row = self.cells[self.row]
        if mark == "?":
            for number in numbers:
                if number == 1049 and (final == "h") != self.is_alternate:
                    self.is_alternate = final == "h"
                    self.cells, self.main_cells = self.main_cells, self.cells
                elif number == 25:
                    self.has_cursor = final == "h"
            return
        if mark or final in "mhltn":
            return # styles and modes
        self.column = min(self.column, self.columns - 1) if final not in "b" else self.column
        if final in "Hf":
            self.row, self.column = min(n, self.rows) - 1, min(max((numbers + [1])[1], 1), self.columns) - 1
        elif final == "d":
            self.row = min(n, self.rows) - 1
        elif final in "G`":
            self.column = min(n, self.columns) - 1
        elif final in "AB":
            self.row = max(0, min(self.rows - 1, self.row + (n if final == "B" else -n)))
        elif final in "CD":
            self.column = max(0, min(self.columns - 1, self.column + (n if final == "C" else -n)))
        elif final in "JK":
            first, last = {0: (self.column, self.columns), 1: (0, self.column + 1), 2: (0, self.columns)}[numbers[0]]
            row[first:last] = [" "] * (last - first)
            for other in {"K": (), "J": {0: range(self.row + 1, self.rows), 1: range(self.row), 2: range(self.rows)}[numbers[0]]}[final]:
                self.cells[other] = [" "] * self.columns
        elif final == "X":
            row[self.column:self.column + n] = [" "] * len(row[self.column:self.column + n])
        elif final == "P":
            row[self.column:] = (row[self.column + n:] + [" "] * n)[:self.columns - self.column]
        elif final == "@":
            row[self.column:] = ([" "] * n + row[self.column:])[:self.columns - self.column]
        elif final in "LM":
            self.scroll(self.row, self.bottom, n if final == "M" else -n)
        elif final in "ST":
            self.scroll(self.top, self.bottom, n if final == "S" else -n)
        elif final == "b":
            for _ in range(n):
                self.put(self.last)
        elif final == "r":
            self.top, self.bottom = n - 1, (numbers + [0])[1] - 1 if (numbers + [0])[1] else self.rows - 1
            self.row = self.column = 0
        else:
            raise RuntimeError("unknown control sequence: %s %r" % (final, numbers))


class Terminal:
    """A program in a terminal of its own. The program leads a session, so ^C and ^Z have their usual effect."""

    def __init__(self, command, rows, columns, stdin=None, **environment):
        self.screen = Screen(rows, columns)
        self.fd, own = os.openpty()
        self.set_size(rows, columns)
        self.before = termios.tcgetattr(own)
        self.slave = own # kept open, so that the settings can be read when the program has ended
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(own, termios.TIOCSCTTY, 0)
            for fd in range(3):
                os.dup2(own if fd or stdin is None else stdin, fd)
            os.closerange(3, 256)
            os.execvpe(command[0], command, dict(os.environ, TERM="xterm", LC_ALL="C.UTF-8", **environment))
        self.status = None

    def set_size(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows, columns):
        self.read(0.1)
        self.screen.set_size(rows, columns)
        self.set_size(rows, columns)

    def read(self, seconds):
        """Waits at most SECONDS for output of the program, and reads it. Returns whether there was output."""
        if select.select([self.fd], [], [], seconds)[0]:
            self.screen.feed(os.read(self.fd, 1 << 16))
            return True
        return False

    def keys(self, text):
        os.write(self.fd, text.encode())

    def wait_for(self, what, holds):
        """Reads until HOLDS(text of the screen) is true."""
        end = time.monotonic() + SECONDS
        while not holds(self.screen.text()):
            if time.monotonic() > end:
                raise RuntimeError("waited in vain for %s; the screen shows:\n%s" % (what, self.screen.text()))
            self.read(0.05)

    def settle(self):
        """Reads until the program has written nothing for 0.3 s, because its output may arrive in parts."""
        while self.read(0.3):
            pass

    def finish(self):
        """Waits for the end of the program. Returns its status as subprocess does."""
        end = time.monotonic() + SECONDS
        while self.status is None:
            self.read(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
        while self.read(0):
            pass
        return self.status

    def is_restored(self):
        return (not self.screen.is_alternate and self.screen.has_cursor and not self.screen.is_keypad and
                termios.tcgetattr(self.slave) == self.before)

    def close(self):
        os.close(self.fd)
        os.close(self.slave)
