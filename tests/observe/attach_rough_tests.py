#!/usr/bin/env python3
"""attach_rough_tests ALLOGRAM PROGRAMS: `allogram attach` to programs that are hard to attach to (rough.c), to interpreters, and to
programs that are stopped, debugged or ended during the attach. Prints TAP.

Each program must run as without allogram, and allogram must count each allocation between attach and detach."""

import ctypes
import json
import os
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from attached import IS_FULL, MOST_TO_LEAVE_S, Attached, Target, image, worker_of
from cases import ALLOGRAM, PROGRAMS, Skip, run_all, test

CYCLES = 100 if IS_FULL else 2
ROUNDS = 200  # rounds of rough.c, each of which allocates 1000 bytes


def rough(mode):
    target = Target(os.path.join(PROGRAMS, "rough"), mode)
    assert target.answer() == "ready"
    assert target.ask("go") == f"{ROUNDS} OK"
    return target


def counted(attached):
    rows = attached.report("--view=sites", "--by=function", "--focus=counted_round")["sites"]
    return [(row["total"]["allocated_blocks"], row["total"]["freed_bytes"]) for row in rows if row["function"] == "counted_round"]


def is_unharmed(mode, cycles=CYCLES):
    with rough(mode) as target, tempfile.TemporaryDirectory() as folder:
        before = image(target.pid) if mode != "plugins" else None
        for _ in range(cycles):
            attached = Attached(target.pid, folder, "--mode=exact")
            assert not attached.is_refused, attached.first
            assert target.ask("go") == f"{ROUNDS} OK"
            attached.detach()
            assert counted(attached) == [(ROUNDS, ROUNDS * 1000)], counted(attached)
            assert target.ask("go") == f"{ROUNDS} OK"
        if before:
            assert image(target.pid) == before


@test
def children_of_vfork_are_waited_for():
    is_unharmed("vfork")


@test
def attach_to_a_program_with_a_handler_every_100_us():
    is_unharmed("timer")


@test
def attach_while_a_thread_lives_in_a_handler():
    is_unharmed("handler")


@test
def attach_while_threads_start_and_end():
    is_unharmed("threads")


@test
def attach_while_libraries_are_loaded_and_unloaded():
    is_unharmed("plugins")


@test
def attach_while_threads_make_system_calls_that_do_not_wait():
    is_unharmed("calls")


@test
def attach_to_a_coroutine_on_memory_of_malloc():
    is_unharmed("coroutine")


@test
def attach_while_an_allocator_of_the_program_holds_its_lock():
    """Half of the time, the thread is in a function to which malloc or free has jumped, and which holds the allocator's lock. A call of
    dlopen would then wait for ever."""
    with Target(os.path.join(PROGRAMS, "locked_malloc")) as target, tempfile.TemporaryDirectory() as folder:
        assert target.answer() == "ready"
        for _ in range(100 if IS_FULL else 10):
            attached = Attached(target.pid, folder, "--mode=exact")
            assert not attached.is_refused, attached.first
            attached.detach()
        assert target.ask("go") == "done"


@test
def calls_after_a_change_of_hooked_code_may_be_missing():
    """The program writes a jump over malloc, and so over the jump to the agent. The agent then stays in the program, and trace and message say that
    calls may be missing. When the code is as before, the next attach records everything."""
    with Target(os.path.join(PROGRAMS, "changed_code")) as target, tempfile.TemporaryDirectory() as folder:
        for line in ("change", "restore"):
            assert target.ask("allocate") == "allocate"
            attached = Attached(target.pid, folder, "--mode=exact")
            assert not attached.is_refused, attached.first
            assert target.ask("allocate") == "allocate" and target.ask(line) == line
            attached.process.send_signal(signal.SIGINT)
            said, status = attached.process.stderr.read(), attached.process.wait(timeout=60)
            summary = attached.report("--view=summary")
            runtimes = {row["name"]: row for row in summary["runtimes"]}
            if line == "change":
                assert status == 125 and "calls may be missing" in said, (status, said)
                row = runtimes["libc (changed code)"]
                assert not row["hooked"] and "calls since then may be missing" in row["note"], row
                assert target.ask("restore") == "restore"
                again = subprocess.run([ALLOGRAM, "attach", str(target.pid), "--duration=10ms", "-o", os.path.join(folder, "again.allogram")],
                                       capture_output=True, text=True, timeout=60, check=False)
                assert again.returncode == 0 and "removed the agent" in again.stderr, again.stderr
            else:
                assert status == 0, said
                assert list(runtimes) == ["libc"], runtimes
            assert (summary["allocated_blocks"], summary["allocated_bytes"]) == (100, 100000), summary


@test
def attach_to_threads_with_the_smallest_stacks():
    is_unharmed("small")


@test
def a_program_that_intercepts_its_own_system_calls_is_refused():
    if tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2]) < (6, 4):
        raise Skip("the kernel does not report whether a thread intercepts its system calls")
    with rough("dispatch") as target:
        assert "intercepts its own system calls" in one_line(target.pid)
        assert target.ask("still there?") == f"{ROUNDS} OK"


def one_line(pid):
    done = subprocess.run([ALLOGRAM, "attach", str(pid), "-q", "--duration=10ms", "-o", "/dev/shm/attach-rough.%p.allogram"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 125) and done.stderr.count("\n") == (done.returncode != 0), done
    for name in os.listdir("/dev/shm"):
        if name.startswith(f"attach-rough.{pid}."):
            os.unlink(os.path.join("/dev/shm", name))
    return done.stderr


@test
def a_process_whose_first_thread_has_ended_is_refused():
    with rough("leader") as target:
        assert "its first thread has ended" in one_line(target.pid)
        assert target.ask("go") == f"{ROUNDS} OK"


def lines_while_signals_come(pid, interval_s, *signals):
    """Attaches and detaches a few times, while the process gets the signals in a loop. Returns what each `allogram attach` printed."""
    is_over = threading.Event()

    def send():
        while not is_over.wait(interval_s):
            for number in signals:
                os.kill(pid, number)

    sender = threading.Thread(target=send)
    sender.start()
    lines = [one_line(pid) for _ in range(3 * CYCLES)]
    is_over.set()
    sender.join()
    return lines


@test
def a_process_that_is_stopped_and_continued_is_unharmed():
    with rough("calls") as target:
        said = lines_while_signals_come(target.pid, 0.003, signal.SIGSTOP, signal.SIGCONT)
        assert all(not line or "is stopped" in line or "stopped by a signal" in line for line in said), said
        assert target.ask("go") == f"{ROUNDS} OK"


@test
def sigtrap_and_sigfpe_are_delivered_after_the_attach():
    script = ("import signal, sys\ncount = [0]\n"
              "def caught(*_):\n    count[0] += 1\n"
              "signal.signal(signal.SIGTRAP, caught)\nsignal.signal(signal.SIGFPE, caught)\nprint('ready', flush=True)\n"
              "for line in sys.stdin:\n    print('seen' if count[0] else 'none', flush=True)\n")
    with Target(sys.executable, "-c", script) as target:
        assert target.answer() == "ready"
        said = lines_while_signals_come(target.pid, 0.0005, signal.SIGTRAP, signal.SIGFPE)
        assert not any(said), said
        assert target.ask("?") == "seen"


@test
def programs_that_end_during_the_attach_keep_their_status():
    for delay in range(0, 10 * CYCLES):
        with Target("sh", "-c", f"sleep 0.0{delay % 10}; exit 7") as target:
            line = one_line(target.pid)
            assert not line or any(word in line for word in ("has ended", "ended while", "no such process", "zombie")), line
            assert target.process.wait() == 7


INTERPRETERS = {
    "perl": ["-e", "$| = 1; print \"ready\\n\"; while (<STDIN>) { my %h; $h{$_} = \"x\" x 100 for 1..5000; "
                   "print scalar(keys %h), \"\\n\"; }"],
    # Node.js maps its code again for each worker
    "node": ["-e", "for (let i = 0; i < 4; i++) new (require('worker_threads').Worker)('setInterval(() => {}, 100)', {eval: true}); "
                   "console.log('ready'); require('readline').createInterface({input: process.stdin}).on('line', () => { "
                   "const a = []; for (let i = 0; i < 5000; i++) a.push(Buffer.alloc(20000, 1)); console.log(a.length); })"],
}


def interpreter(name, question, answer):
    path = shutil.which(name)
    if not path:
        raise Skip(f"{name} is not installed (tools/install_packages.sh)")
    with Target(path, *INTERPRETERS[name]) as target, tempfile.TemporaryDirectory() as folder:
        assert target.answer() == "ready"
        assert target.ask(question) == answer
        before = [row for row in image(target.pid) if " 00:00 0" not in row[0]]  # code of a JIT compiler changes, so it is not compared
        for option in ("--mode=exact", "--interval=1K"):
            attached = Attached(target.pid, folder, option)
            assert not attached.is_refused, attached.first
            assert target.ask(question) == answer
            attached.detach()
            assert attached.report("--view=summary")["allocated_blocks"] >= 100
            assert target.ask(question) == answer
        assert [row for row in image(target.pid) if " 00:00 0" not in row[0]] == before


@test
def perl():
    interpreter("perl", "go", "5000")


@test
def node():
    interpreter("node", "go", "5000")


@test
def a_process_under_a_debugger_is_refused():
    gdb = shutil.which("gdb")
    if not gdb:
        raise Skip("gdb is not installed")
    with rough("calls") as target:
        debugger = subprocess.Popen([gdb, "-q", "-nx", "-p", str(target.pid)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL, text=True)
        try:
            for _ in range(1000):
                with open(f"/proc/{target.pid}/status", encoding="ascii") as file:
                    if "TracerPid:\t0\n" not in file.read():
                        break
                time.sleep(0.02)
            assert "is traced by process" in one_line(target.pid)
        finally:
            debugger.communicate("detach\nquit\n", timeout=60)
        assert target.ask("go") == f"{ROUNDS} OK"
        assert one_line(target.pid) == ""
        assert target.ask("go") == f"{ROUNDS} OK"


@test
def a_process_with_another_root_without_proc_is_refused():
    if os.geteuid() != 0:
        raise Skip("needs root, to call chroot")
    with tempfile.TemporaryDirectory() as folder:
        for path in ("/lib", "/lib64", "/usr"):
            if os.path.islink(path):
                os.symlink(os.readlink(path), folder + path)
        os.makedirs(folder + "/usr", exist_ok=True)
        command = f"mount --rbind /usr {folder}/usr && exec chroot {folder} /usr/bin/sleep 1000"
        with Target("unshare", "-m", "sh", "-c", command) as target:
            for _ in range(500):
                if os.readlink(f"/proc/{target.pid}/exe").endswith("sleep"):
                    break
                time.sleep(0.02)
            assert "has no /proc that shows it" in one_line(target.pid)


@test
def a_process_in_another_pid_namespace_is_recorded():
    command = ("unshare", "--fork", "--pid", "--mount-proc", "--kill-child", os.path.join(PROGRAMS, "rough"), "small")
    if subprocess.run([*command[:-2], "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("needs the right to make a pid namespace")
    with Target(*command) as outer, tempfile.TemporaryDirectory() as folder:
        assert outer.answer() == "ready"
        with open(f"/proc/{outer.pid}/task/{outer.pid}/children", encoding="ascii") as file:
            pid = int(file.read())
        attached = Attached(pid, folder, "--mode=exact")
        assert outer.ask("go") == f"{ROUNDS} OK"
        attached.detach()
        assert counted(attached) == [(ROUNDS, ROUNDS * 1000)], counted(attached)
        assert attached.report("--view=summary")["trace"]["end"] == "detached"
        assert os.listdir(folder) == [os.path.basename(attached.trace)]


@test
def a_process_that_is_killed_at_the_begin_of_recording_is_reported():
    with rough("calls") as target, tempfile.TemporaryDirectory() as folder:
        ours, theirs = os.pipe()
        os.set_blocking(theirs, False)
        try:
            while True:
                os.write(theirs, bytes(4096))  # fills the pipe, so allogram waits when it writes its first line
        except BlockingIOError:
            os.set_blocking(theirs, True)
        attaching = subprocess.Popen([ALLOGRAM, "attach", str(target.pid), "-o", os.path.join(folder, "x.allogram")], stderr=theirs)
        os.close(theirs)
        is_writing = False
        while not is_writing:
            time.sleep(0.02)
            with open(f"/proc/{worker_of(attaching)}/syscall", encoding="ascii") as file:
                is_writing = file.read().startswith("1 0x2 ")
        target.process.kill()
        target.process.wait()
        with os.fdopen(ours, "rb") as file:
            said = file.read().lstrip(b"\0")
        assert attaching.wait(timeout=60) == 0, said
        assert b"attached to" in said and b"has ended" in said, said


def is_stopped(pid):
    states = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii") as file:
            states.append(file.read().rpartition(")")[2].split()[0])
    return set(states) == {"T"}


@test
def a_process_that_is_stopped_at_the_detach_keeps_the_agent():
    with rough("calls") as target, tempfile.TemporaryDirectory() as folder:
        before = image(target.pid)
        n_kept = 0
        for _ in range(10):
            if n_kept == 3:
                break
            attached = Attached(target.pid, folder, "--mode=exact")
            assert target.ask("go") == f"{ROUNDS} OK"
            os.kill(target.pid, signal.SIGSTOP)
            while not is_stopped(target.pid):
                time.sleep(0.01)
            begin = time.monotonic()
            attached.process.send_signal(signal.SIGINT)
            said = attached.process.stderr.read()
            status = attached.process.wait(timeout=60)
            seconds = time.monotonic() - begin
            os.kill(target.pid, signal.SIGCONT)
            assert seconds < 4.5, seconds  # attach gives up after half a second; without the signal, after 5 s
            if status == 125:
                n_kept += 1
                assert said.count("\n") == 1 and f"kill -CONT {target.pid}) and attach again" in said, said
                assert counted(attached) == [(ROUNDS, ROUNDS * 1000)], counted(attached)
                assert attached.report("--view=summary")["trace"]["end"] == "detached"
            else:  # on a loaded machine, there was no time to find out that the process is stopped
                late = {0: "the agent is removed as soon as", 128 + signal.SIGINT: "ended by a signal"}
                assert status in late and late[status] in said, (status, said)
            assert target.ask("go") == f"{ROUNDS} OK"
            attach_again(target.pid, folder)
            assert image(target.pid) == before
        assert n_kept > 0


def attach_again(pid, folder):
    """Attaches once more, which removes an agent that was left in the program. Waits for a writer and the worker of the previous
    `attach`, which may still work in the background."""
    end = time.monotonic() + MOST_TO_LEAVE_S
    command = [ALLOGRAM, "attach", str(pid), "--duration=10ms", "-o", os.path.join(folder, "again.allogram")]
    while (done := subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)).returncode != 0:
        assert time.monotonic() < end, done
        time.sleep(0.1)


PTRACE_GETREGS, PTRACE_CONT, PTRACE_DETACH, PTRACE_SYSCALL, PTRACE_SEIZE, PTRACE_INTERRUPT = 12, 7, 17, 24, 0x4206, 0x4207
SYS_PTRACE = 101
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
ptrace.restype = ctypes.c_long


def hold_after(pid, request, seconds):
    """Sends SIGINT to PID, the worker of `allogram attach`, and keeps its first thread from running for SECONDS after the thread has made the ptrace request
    REQUEST, as on a machine without a free CPU. Returns whether allogram still runs after this."""
    seize_with_marked_calls = 1
    assert ptrace(PTRACE_SEIZE, pid, None, seize_with_marked_calls) == 0, os.strerror(ctypes.get_errno())
    ptrace(PTRACE_INTERRUPT, pid, None, None)
    _, status = os.waitpid(pid, 0x40000000)  # __WALL
    os.kill(pid, signal.SIGINT)
    registers = (ctypes.c_ulonglong * 27)()
    is_inside = False
    while os.WIFSTOPPED(status):
        if os.WSTOPSIG(status) == signal.SIGTRAP | 0x80:
            is_inside = not is_inside
            ptrace(PTRACE_GETREGS, pid, None, ctypes.addressof(registers))
            if not is_inside and (registers[15], registers[14]) == (SYS_PTRACE, request):  # orig_rax, rdi
                time.sleep(seconds)
                return ptrace(PTRACE_DETACH, pid, None, None) == 0
        ptrace(PTRACE_SYSCALL, pid, None, None)
        _, status = os.waitpid(pid, 0x40000000)
    assert False, f"allogram ended without the request {request}"


@test
def a_signal_while_allogram_gets_no_cpu_leaves_the_program_unharmed():
    with rough("calls") as target, tempfile.TemporaryDirectory() as folder:
        before = image(target.pid)
        for request in (PTRACE_CONT, PTRACE_GETREGS):  # after PTRACE_CONT, a thread of the program executes a function for allogram
            attached = Attached(target.pid, folder, "--mode=exact")
            try:
                has_waited = hold_after(worker_of(attached.process), request, 1.3)
            finally:
                said = attached.process.stderr.read()
                status = attached.process.wait(timeout=60)
            assert target.ask("go") == f"{ROUNDS} OK"
            assert has_waited and status in (0, 128 + signal.SIGINT), (status, said)
            attach_again(target.pid, folder)
            assert image(target.pid) == before


@test
def one_of_several_attaches_at_once_succeeds():
    with rough("calls") as target, tempfile.TemporaryDirectory() as folder:
        for number in range(CYCLES):
            names = [os.path.join(folder, f"{number}.{i}.allogram") for i in range(4)]
            started = [subprocess.Popen([ALLOGRAM, "attach", str(target.pid), "--mode=exact", "-o", name], stderr=subprocess.PIPE,
                                        text=True) for name in names]
            first = [attaching.stderr.readline() for attaching in started]
            assert target.ask("go") == f"{ROUNDS} OK"
            for i, attaching in enumerate(started):
                if "attached to" in first[i]:
                    attaching.send_signal(signal.SIGINT)
                first[i] += attaching.stderr.read()
            states = [attaching.wait(timeout=60) for attaching in started]
            assert sorted(states) == [0, 125, 125, 125], first
            assert all("attached to" in text or "is recorded by allogram already" in text for text in first), first
            done = subprocess.run([ALLOGRAM, "report", names[states.index(0)], "--json"], check=True, capture_output=True)
            assert json.loads(done.stdout)["allocated_blocks"] >= ROUNDS


@test
def a_process_that_executes_another_program_is_reported():
    with Target("sh", "-c", "echo ready; read line; exec cat") as target, tempfile.TemporaryDirectory() as folder:
        assert target.answer() == "ready"
        attached = Attached(target.pid, folder, "--mode=exact")
        target.process.stdin.write("go\n")
        target.process.stdin.flush()
        assert attached.process.wait(timeout=60) == 0 # `attach` ends without a signal
        assert "executed another program" in attached.process.stderr.read()
        assert attached.report("--view=summary")["trace"]["end"] == "exit"
        assert target.ask("still there") == "still there"


@test
def a_killed_allogram_leaves_the_process():
    """SIGKILL ends only the foreground process of `attach`. The worker ends the recording as after Ctrl-C."""
    with rough("calls") as target, tempfile.TemporaryDirectory() as folder:
        before = image(target.pid)
        attached = Attached(target.pid, folder, "--mode=exact")
        assert target.ask("go") == f"{ROUNDS} OK"
        attached.process.kill()
        said = attached.process.stderr.read() # until the worker has ended, too
        assert attached.process.wait() == -signal.SIGKILL and "detached from" in said, said
        assert image(target.pid) == before
        assert counted(attached) == [(ROUNDS, ROUNDS * 1000)], counted(attached)
        assert attached.report("--view=summary")["trace"]["end"] == "detached"


@test
def an_ignored_hangup_ends_no_recording():
    """nohup, for example, lets a command ignore SIGHUP."""
    with rough("calls") as target, tempfile.TemporaryDirectory() as folder:
        signal.signal(signal.SIGHUP, signal.SIG_IGN) # inherited by `attach`
        try:
            attached = Attached(target.pid, folder, "--mode=exact")
        finally:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
        attached.process.send_signal(signal.SIGHUP)
        time.sleep(0.5) # within this time, SIGHUP would have ended the recording
        assert attached.process.poll() is None and target.ask("go") == f"{ROUNDS} OK"
        attached.detach()
        assert counted(attached) == [(ROUNDS, ROUNDS * 1000)], counted(attached)


@test
def control_accepts_the_pid_of_attach():
    with rough("calls") as target, tempfile.TemporaryDirectory() as folder:
        attached = Attached(target.pid, folder, "--mode=exact")
        assert target.ask("go") == f"{ROUNDS} OK"
        done = subprocess.run([ALLOGRAM, "control", str(attached.process.pid), "stop"], capture_output=True, text=True, timeout=60,
                              check=False)
        assert (done.returncode, done.stderr) == (0, ""), done
        assert attached.process.wait(timeout=60) == 0
        assert counted(attached) == [(ROUNDS, ROUNDS * 1000)], counted(attached)


@test
def control_stop_ends_the_recording_of_a_killed_allogram():
    with rough("calls") as target, tempfile.TemporaryDirectory() as folder:
        before = image(target.pid)
        attached = Attached(target.pid, folder, "--mode=exact")
        os.kill(worker_of(attached.process), signal.SIGKILL)
        attached.process.wait()
        assert target.ask("go") == f"{ROUNDS} OK"
        done = subprocess.run([ALLOGRAM, "control", str(target.pid), "stop"], capture_output=True, text=True, timeout=60,
                              check=False)
        assert (done.returncode, done.stderr) == (0, ""), done
        assert image(target.pid) == before
        assert counted(attached) == [(ROUNDS, ROUNDS * 1000)], counted(attached)
        assert attached.report("--view=summary")["trace"]["end"] == "detached"


@test
def attach_ends_when_its_program_is_killed_at_any_moment():
    """The program has a hundred threads. If `attach` has stopped several of them, the kernel reports the end of the first thread only after
    `attach` has waited for the others. The parent does not wait for the program before `attach` has ended."""
    moments = random.Random(1)
    for _ in range(400 if IS_FULL else 40):
        with Target("nice", "-n", "5", os.path.join(PROGRAMS, "hammer"), "100") as target, tempfile.TemporaryDirectory() as folder:
            assert target.answer() == "ready"
            with subprocess.Popen([ALLOGRAM, "attach", str(target.pid), "--mode=exact", "-o", os.path.join(folder, "t.allogram")],
                                  stderr=subprocess.PIPE, text=True) as attach:
                time.sleep(moments.uniform(0, 0.25))
                os.kill(target.pid, signal.SIGKILL)
                try:
                    attach.communicate(timeout=20)
                except subprocess.TimeoutExpired:
                    os.kill(worker_of(attach), signal.SIGKILL)
                    raise


sys.exit(run_all())
