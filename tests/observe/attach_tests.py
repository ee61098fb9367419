#!/usr/bin/env python3
"""attach_tests ALLOGRAM PROGRAMS: attaches repeatedly to programs that count their own allocations, and detaches. Prints TAP.

The programs must give the right answers throughout. After the last detach, the mapped files and the code of a program must be the same as before the
first attach. With AG_TEST_SCALE=full there are 10,000 cycles with the program hammer, and 1,000 with each other program."""

import fcntl
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from attached import IS_FULL, OTHER_CYCLES, Attached, Target, cycles, image, maps, worker_of
from cases import ALLOGRAM, PROGRAMS, Skip, run_all, test

HAMMER_CYCLES = 10000 if IS_FULL else 30


def hammer(niceness=0, n_threads=4):
    """Starts the program hammer. With NICENESS above 0, the program leaves the CPU to allogram, so that attach and
    detach take a fifth of the time."""
    target = Target("nice", "-n", str(niceness), os.path.join(PROGRAMS, "hammer"), str(n_threads))
    assert target.answer() == "ready"
    return target


def counted(attached):
    """Returns the blocks and bytes of counted_round in the trace, in the form of hammer's answer to `burst`."""
    rows = attached.report("--view=sites", "--by=function", "--focus=counted_round")["sites"]
    found = [row["total"] for row in rows if row["function"] == "counted_round"]
    return f"burst {found[0]['allocated_blocks']} {found[0]['allocated_bytes']}" if found else "burst 0 0"


def are_counted_to_the_unit(target, n_cycles, n_rounds):
    with target:
        before = image(target.pid)

        def work(_):
            truth = target.ask(f"burst {n_rounds}")

            def check(attached):
                assert counted(attached) == truth, (counted(attached), truth)

            return check

        cycles(target, n_cycles, work, "--mode=exact")
        target.check()
        after = image(target.pid)
        assert after == before, set(after) ^ set(before)


@test
def four_threads_that_hammer_malloc_are_counted_to_the_unit():
    are_counted_to_the_unit(hammer(niceness=10), HAMMER_CYCLES, 10)


@test
def a_hundred_threads_that_allocate_are_counted_to_the_unit():
    are_counted_to_the_unit(hammer(niceness=5, n_threads=100), 1, 1)


@test
def samples_give_the_right_bytes_and_the_program_frees_sampled_blocks():
    with Target(os.path.join(PROGRAMS, "hammer"), "quiet") as target:
        assert target.answer() == "ready"
        before = image(target.pid)

        def work(_):
            assert target.ask("fill 500") == "fill"

            def check(attached):
                assert target.ask("drop") == "drop"  # frees the sampled blocks after the detach
                summary = attached.report("--view=summary")
                size, interval = 512 << 10, 512 << 10
                chance = 1 - math.exp(-(size + 1) / interval)
                spread = math.sqrt((1 - chance) / chance / 500)
                assert abs(summary["allocated_bytes"] / (500 * size) - 1) < 5 * spread, summary

            return check

        cycles(target, OTHER_CYCLES, work, "--mode=sample")
        target.check()
        assert image(target.pid) == before


@test
def threads_that_hammer_are_unharmed_by_sampling():
    with hammer() as target:
        before = image(target.pid)

        def work(_):
            assert target.ask("burst 10").startswith("burst ")

        cycles(target, OTHER_CYCLES, work, "--interval=4K")
        target.check()
        assert image(target.pid) == before


@test
def frees_of_blocks_from_before_the_attach_are_counted():
    with hammer() as target, tempfile.TemporaryDirectory() as folder:
        assert target.ask("fill 100") == "fill"
        attached = Attached(target.pid, folder, "--mode=exact")
        assert target.ask("drop") == "drop"
        attached.detach()
        rows = attached.report("--view=blocks", "--state=ghost")
        assert rows["ghost_frees"] >= 100 if "ghost_frees" in rows else len(rows["blocks"]) >= 100, list(rows)


@test
def frees_of_blocks_that_a_filter_leaves_out_are_not_counted():
    with hammer() as target, tempfile.TemporaryDirectory() as folder:
        assert target.ask("fill 100") == "fill"
        attached = Attached(target.pid, folder, "--mode=exact", "--filter=size=200..300000")
        assert target.ask("drop") == "drop"  # frees blocks from before the attach, which are too large for the filter
        target.ask("burst 10")  # in four threads; the filter selects the blocks of 200, 256 and 300,000 bytes of each round
        text = attached.detach()
        assert "recorded only --filter=size=200..300000" in text, text
        assert counted(attached) == f"burst {3 * 40} {40 * (200 + 256 + 300000)}", counted(attached)
        summary = attached.report()
        assert (summary["ghost_frees"], summary["lost_events"]["total"]) == (0, 0), summary
        assert summary["trace"]["filter"] == "size=200..300000"


@test
def blocks_from_before_the_attach_are_reported():
    with Target(os.path.join(PROGRAMS, "hammer"), "quiet") as target, tempfile.TemporaryDirectory() as folder:
        assert target.answer() == "ready"

        def held():
            said = Attached(target.pid, folder).detach()
            found = re.search(r"allocated before attach: ([\d,]+) blocks, ([\d.]+) (KiB|MiB) in use in glibc's main heap, the largest part .* up to ([\d.]+ \w+)",
                              said)
            assert found, said
            return (int(found[1].replace(",", "")), float(found[2]) * {"KiB": 1, "MiB": 1024}[found[3]], found[4])

        assert target.ask("hold 10") == "hold"
        before = held()
        assert target.ask("hold 5000") == "hold"
        after = held()
        assert 0 <= after[0] - before[0] - 5000 < 50, (before, after)  # the message also counts free blocks in a thread's cache
        assert abs(after[1] - before[1] - 5000 * 1008 / 1024) < 60, (before, after)  # the message rounds its number
        assert after[2] == "1.00 KiB", after


@test
def threads_that_end_free_nothing_twice():
    with Target(os.path.join(PROGRAMS, "hammer"), "quiet") as target, tempfile.TemporaryDirectory() as folder:
        assert target.answer() == "ready"
        attached = Attached(target.pid, folder, "--mode=exact")
        assert target.ask("threads 20") == "threads"
        attached.detach()
        summary = attached.report("--view=summary")
        assert summary["ghost_frees"] == 0, summary
        assert summary["allocated_blocks"] >= 20 * 100, summary


@test
def python_gives_right_answers_while_attached():
    script = ("import sys\n"
              "print('ready', flush=True)\n"
              "for line in sys.stdin:\n"
              "    words = [str(i) * 50 for i in range(20000)]\n"
              "    print(len(set(words)), flush=True)\n")
    with Target(sys.executable, "-c", script) as target:
        assert target.answer() == "ready"
        assert target.ask("go") == "20000"
        before = image(target.pid)

        def work(_):
            assert target.ask("go") == "20000"

            def check(attached):
                assert attached.report("--view=summary")["trace"]["end"] == "detached"

            return check

        cycles(target, OTHER_CYCLES, work, "--mode=exact")
        assert image(target.pid) == before


SIGNALS = """
import os, signal, sys
for number in sys.argv[1:]:
    signal.signal(int(number), signal.SIG_IGN)
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os._exit(len({str(i) * 50 for i in range(1000)}) % 256)
    print(os.waitpid(child, 0)[1] >> 8, flush=True)
"""


def signals_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return [line for line in file if line.startswith(("SigIgn", "SigCgt", "SigBlk"))]


@test
def a_program_that_ignores_traps_and_forks_is_unharmed():
    with Target(sys.executable, "-c", SIGNALS, str(int(signal.SIGTRAP))) as target, tempfile.TemporaryDirectory() as folder:
        assert target.answer() == "ready"
        signals = signals_of(target.pid)
        for n_traces, option in enumerate(("--mode=exact", "--interval=1"), 1):
            attached = Attached(target.pid, folder, option)
            assert target.ask("fork") == str(1000 % 256)
            attached.detach()
            assert signals_of(target.pid) == signals
            assert target.ask("fork") == str(1000 % 256)
            assert len([name for name in os.listdir(folder) if name.endswith(".allogram")]) == n_traces
            assert attached.report("--view=summary")["trace"]["end"] == "detached", option


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@test
def redis_answers_while_it_is_attached_to():
    server = shutil.which("redis-server")
    if not server:
        raise Skip("redis-server is not installed (tools/install_packages.sh)")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder, \
            Target(server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder) as target:
        for _ in range(200):
            try:
                link = socket.create_connection(("127.0.0.1", port), timeout=30)
                break
            except ConnectionRefusedError:
                time.sleep(0.02)
        stream = link.makefile("rwb")

        def command(*words):
            stream.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
            stream.flush()
            line = stream.readline()
            return stream.read(int(line[1:]) + 2)[:-2] if line.startswith(b"$") else line.strip()

        assert command(b"PING") == b"+PONG"
        before = image(target.pid)

        def work(_):
            for i in range(200):
                assert command(b"SET", b"key%d" % i, b"%d" % i * 500) == b"+OK"
            for i in range(200):
                assert command(b"GET", b"key%d" % i) == b"%d" % i * 500

        cycles(target, OTHER_CYCLES, work, "--mode=exact")
        assert command(b"PING") == b"+PONG"
        assert image(target.pid) == before
        link.close()


@test
def a_busy_erlang_node_goes_on():
    erl = shutil.which("erl")
    if not erl:
        raise Skip("erl is not installed (tools/install_packages.sh)")
    loop = ("P = self(), [spawn(fun F() -> lists:sum([length(lists:seq(1, 500)) || _ <- lists:seq(1, 100)]), F() end) "
            "|| _ <- [1]], io:format(\"ready~n\"), "
            "G = fun G() -> case io:get_line(\"\") of eof -> halt(); _ -> "
            "io:format(\"~w~n\", [length([binary:copy(<<1>>, 100000) || _ <- lists:seq(1, 1000)])]), G() end end, G().")
    with Target(erl, "-noinput", "-noshell", "-eval", loop) as target:
        assert target.answer() == "ready"
        assert target.ask("go") == "1000"  # after this, all modules are loaded
        before = image(target.pid)

        def work(_):
            assert target.ask("go") == "1000"

        cycles(target, OTHER_CYCLES, work, "--mode=exact")
        assert target.ask("go") == "1000"
        assert image(target.pid) == before


# ---- refusals ----


def refusal(pid, *options, wrapper=()):
    done = subprocess.run([*wrapper, ALLOGRAM, "attach", str(pid), "-o", "/dev/shm/attach-refused.allogram", *options],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 125, done
    assert done.stderr.count("\n") == 1, done.stderr
    assert not os.path.exists("/dev/shm/attach-refused.allogram")
    return done.stderr


@test
def a_process_that_does_not_exist_is_refused():
    assert "no such process" in refusal(4194303)


@test
def the_command_itself_is_refused():
    said = subprocess.run(["sh", "-c", f"exec {ALLOGRAM} attach $$"], capture_output=True, text=True, check=False)
    assert said.returncode == 125 and "is this command itself" in said.stderr, said


@test
def a_zombie():
    with Target("sh", "-c", "sleep 0 & exec sleep 1000") as target:
        child = None
        for _ in range(200):
            with open(f"/proc/{target.pid}/task/{target.pid}/children", encoding="ascii") as file:
                children = file.read().split()
            child = int(children[0]) if children else None
            if child:
                with open(f"/proc/{child}/stat", encoding="ascii") as file:
                    if file.read().rsplit(")")[-1].split()[0] == "Z":
                        break
            time.sleep(0.01)
        assert "zombie" in refusal(child)


@test
def a_thread_of_the_kernel_is_refused():
    try:
        with open("/proc/2/comm", encoding="ascii") as file:
            is_here = file.read() == "kthreadd\n"
    except OSError:
        is_here = False
    if not is_here:
        raise Skip("threads of the kernel are not visible in this PID namespace")
    assert "thread of the kernel" in refusal(2)


@test
def a_static_program_is_refused():
    with Target(os.path.join(PROGRAMS, "cpu_shares_static")) as target:
        assert target.answer() == "ready"
        assert "statically linked" in refusal(target.pid)


@test
def a_program_of_another_libc_is_refused():
    path = os.path.join(PROGRAMS, "hammer_musl")
    if not os.path.exists(path):
        raise Skip("musl-gcc is not installed")
    with Target(path) as target:
        assert target.answer() == "ready"
        assert "is not glibc" in refusal(target.pid)


@test
def a_process_that_strace_traces_is_refused():
    strace = shutil.which("strace")
    if not strace:
        raise Skip("strace is not installed")
    with Target("sleep", "1000") as target:
        tracer = subprocess.Popen([strace, "-p", str(target.pid)], stderr=subprocess.PIPE, text=True)
        try:
            assert "attached" in tracer.stderr.readline()
            assert "is traced by process" in refusal(target.pid)
        finally:
            tracer.terminate()
            tracer.wait()


@test
def a_process_that_is_recorded_already_is_refused():
    with Target("sleep", "1000") as target, tempfile.TemporaryDirectory() as folder:
        attached = Attached(target.pid, folder)
        assert "recorded by allogram already" in refusal(target.pid)
        attached.detach()


@test
def a_process_of_another_user_is_refused():
    if os.geteuid() != 0:
        raise Skip("needs root, to run attach as another user")
    with Target("sleep", "1000") as target:
        assert "belongs to user 0" in refusal(target.pid, wrapper=("setpriv", "--reuid=65534", "--clear-groups"))


@test
def a_process_with_a_seccomp_filter_is_refused():
    with Target(os.path.join(PROGRAMS, "filtered")) as target:
        assert target.answer() == "ready"
        assert "seccomp filter" in refusal(target.pid)
        assert target.ask("still there?") == "still there"


@test
def one_that_handles_page_faults():
    opens = "import ctypes, sys; fd = ctypes.CDLL(None).syscall(323, 1); print('ready' if fd >= 0 else 'no'); sys.stdout.flush(); sys.stdin.read()"
    with Target(sys.executable, "-c", opens) as target:
        if target.answer() != "ready":
            raise Skip("the kernel gives this user no userfaultfd")
        assert "userfaultfd" in refusal(target.pid)


@test
def one_that_ignores_sigtrap_and_sigsegv():
    """attach makes a thread of the program call functions. Each call ends with one of these two signals."""
    with Target(sys.executable, "-c", SIGNALS, str(int(signal.SIGTRAP)), str(int(signal.SIGSEGV))) as target:
        assert target.answer() == "ready"
        assert "ignores SIGTRAP and SIGSEGV" in refusal(target.pid)


@test
def a_process_that_has_another_dev_shm_is_recorded():
    if os.geteuid() != 0:
        raise Skip("needs root, to make a namespace")
    with Target("unshare", "-m", "sh", "-c", "mount -t tmpfs none /dev/shm && echo ready && exec sleep 1000") as target, \
            tempfile.TemporaryDirectory() as folder:
        assert target.answer() == "ready"
        attached = Attached(target.pid, folder)
        attached.detach()
        assert attached.report()["trace"]["end"] == "detached"
        assert not [line for line in maps(target.pid) if "allogram" in line], maps(target.pid)


@test
def a_stopped_process_is_refused():
    with Target("sleep", "1000") as target:
        target.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, target.pid, os.WSTOPPED | os.WNOWAIT)
        assert "is stopped" in refusal(target.pid)


@test
def old_return_addresses_on_a_stack_do_not_keep_the_agent():
    with Target(os.path.join(PROGRAMS, "old_words")) as target, tempfile.TemporaryDirectory() as folder:
        assert target.answer() == "ready"
        for _ in range(3):
            attached = Attached(target.pid, folder, "--mode=exact")
            assert target.ask("go") == "allocated"
            attached.detach()
            assert attached.report("--view=summary")["allocated_blocks"] == 1
        assert not [line for line in maps(target.pid) if "allogram" in line], maps(target.pid)


@test
def a_program_that_ends_while_it_is_recorded_leaves_a_whole_trace():
    with hammer() as target, tempfile.TemporaryDirectory() as folder:
        attached = Attached(target.pid, folder, "--mode=exact")
        target.process.stdin.close()
        target.process.wait()
        attached.process.wait(timeout=60)
        attached.process.stderr.close()
        assert attached.report("--view=summary")["trace"]["end"] == "exit"
        subprocess.run([ALLOGRAM, "check", attached.trace], check=True, capture_output=True)


@test
def the_trace_says_how_the_program_ended():
    script = "import os, sys\nprint('ready', flush=True)\nsys.stdin.readline()\n"
    ends = {"os._exit(3)": "exit", "os.kill(os.getpid(), 9)": "signal", "os.execlp('sleep', 'sleep', '100')": "exit"}
    for last, end in ends.items():
        with Target(sys.executable, "-c", script + last) as target, tempfile.TemporaryDirectory() as folder:
            assert target.answer() == "ready"
            attached = Attached(target.pid, folder, "--mode=exact")
            target.process.stdin.write("go\n")
            target.process.stdin.flush()
            if "exec" in last:
                while "sleep" not in os.readlink(f"/proc/{target.pid}/exe"):
                    time.sleep(0.01)
                attached.process.send_signal(signal.SIGINT)
            rest = attached.process.stderr.read()
            assert attached.process.wait(timeout=60) == 0, rest
            assert "has ended" in rest or "executed another program" in rest, rest
            assert attached.report("--view=summary")["trace"]["end"] == end, last


@test
def attach_waits_for_another_attach():
    """Only one allogram at a time may attach to a program. Here another process holds the lock for 12 s; attach waits up to 100 s."""
    with hammer() as target, tempfile.TemporaryDirectory() as folder:
        with open(f"/proc/{target.pid}/auxv", "rb") as claimed:
            fcntl.flock(claimed, fcntl.LOCK_EX)
            command = [ALLOGRAM, "attach", str(target.pid), "--duration=50ms", "-o", os.path.join(folder, "late.allogram")]
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as attaching:
                time.sleep(12)
                assert attaching.poll() is None, attaching.stderr.read()
                fcntl.flock(claimed, fcntl.LOCK_UN)
                assert attaching.wait(timeout=60) == 0, attaching.stderr.read()


@test
def attach_removes_the_agent_that_a_killed_allogram_left():
    with hammer() as target, tempfile.TemporaryDirectory() as folder:
        before = image(target.pid)
        first = Attached(target.pid, folder, "--mode=exact")
        os.kill(worker_of(first.process), signal.SIGKILL)
        said = first.process.stderr.read()
        assert first.process.wait(timeout=60) == 125 and "was ended by signal 9" in said, said
        second = subprocess.run([ALLOGRAM, "attach", str(target.pid), "--duration=50ms", "-o", os.path.join(folder, "second.allogram")],
                                check=True, capture_output=True, text=True)
        assert "removed the agent that an earlier attach had left" in second.stderr, second.stderr
        assert image(target.pid) == before
        target.check()
        for _ in range(100):
            if first.report("--view=summary")["trace"]["end"] == "detached":
                return
            time.sleep(0.05)
        raise AssertionError("the first trace was not sealed")


sys.exit(run_all())
