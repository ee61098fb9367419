"""Runs programs for the workers of run_torture.py, and finds the processes and files that the programs leave behind.

A worker process adopts every orphan of its programs (PR_SET_CHILD_SUBREAPER), so it finds processes that outlive the programs. If it has the
right to mount, it mounts a file system of its own at /dev/shm, so it also finds files that remain in /dev/shm; and it hides the debug files of
the machine's libraries, because `allogram report` would decompress all debug information of libc for each trace.
"""

import ctypes
import os
import resource
import select
import shutil
import signal
import subprocess
import time

PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
SHARED_MEMORY = "/dev/shm"
DEBUG_FILES = "/usr/lib/debug"

libc = ctypes.CDLL(None, use_errno=True)


def enter():
    """Makes this process a worker. Returns whether the worker has a /dev/shm of its own."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if libc.unshare(CLONE_NEWNS) != 0:
        return False
    libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    libc.mount(b"tmpfs", DEBUG_FILES.encode(), b"tmpfs", 0, b"mode=755")
    return libc.mount(b"tmpfs", SHARED_MEMORY.encode(), b"tmpfs", 0, b"mode=1777") == 0


def children_of(pid):
    found = []
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, task), encoding="ascii") as file:
                found += [int(word) for word in file.read().split()]
    except OSError:
        pass
    return found


def descendants_of(pid):
    found, new = [], children_of(pid)
    while new:
        found += new
        new = [child for parent in new for child in children_of(parent)]
    return found


def command_of(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace")[:160]
    except OSError:
        return "?"


def is_running(pid):
    """Whether the process exists and is not a zombie."""
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Ended:
    """The end of a program: its wait status (None: the program did not end in time), its output, and the processes that are left."""

    def __init__(self):
        self.status, self.stdout, self.stderr, self.seconds = None, b"", b"", 0.0
        self.leftovers = []
        self.program_status = None  # wait status of the recorded program, if `allogram run` was killed before the program ended


def run(command, folder, name, env, timeout, meanwhile=None, watched=None):
    """Runs a command, and waits until the command and all its orphans have ended. Calls `meanwhile(pid)` after the start. `watched` is a list that
    `meanwhile` may fill with the pid of the recorded program, whose status is then stored in program_status."""
    ended = Ended()
    paths = [os.path.join(folder, name + suffix) for suffix in (".out", ".err")]
    statuses = {}
    begin = time.monotonic()
    with open(paths[0], "wb") as out, open(paths[1], "wb") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, cwd=folder, start_new_session=True)
    pidfd = os.pidfd_open(process.pid)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    if meanwhile is not None:
        meanwhile(process.pid)
    left = timeout - (time.monotonic() - begin)
    if not poll.poll(max(left, 0.001) * 1000):
        stuck = [process.pid, *descendants_of(process.pid)]
        ended.leftovers.append("still running after %.0f s: %s" % (timeout, "; ".join("%d %s" % (pid, command_of(pid)) for pid in stuck)))
        kill_all(stuck)
        poll.poll(5000)
    else:
        _, ended.status = os.waitpid(process.pid, 0)
        process.returncode = ended.status
    os.close(pidfd)
    ended.seconds = time.monotonic() - begin
    _wait_for_orphans(ended, statuses, process, timeout)
    if watched:
        ended.program_status = statuses.get(watched[0])
    for path, attribute in zip(paths, ("stdout", "stderr")):
        with open(path, "rb") as file:
            setattr(ended, attribute, file.read(1 << 20))
        os.unlink(path)
    return ended


def _wait_for_orphans(ended, statuses, process, timeout):
    end, nap = time.monotonic() + timeout, 0.0005
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid != 0:
            statuses[pid] = status
            if pid == process.pid and process.returncode is None:
                process.returncode = status
            continue
        if time.monotonic() > end:
            left = descendants_of(os.getpid())
            ended.leftovers.append("left running: " + "; ".join("%d %s" % (pid, command_of(pid)) for pid in left))
            kill_all(left)
            end = time.monotonic() + 5
        time.sleep(nap)
        nap = min(nap * 1.5, 0.02)


def kill_all(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def shared_memory_names():
    return sorted(os.listdir(SHARED_MEMORY))


def shared_memory_files():
    return [os.path.join(folder, name) for folder, _, names in os.walk(SHARED_MEMORY) for name in names]


def remove(name):
    path = os.path.join(SHARED_MEMORY, name)
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.exists(path):
        os.unlink(path)
