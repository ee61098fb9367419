#!/usr/bin/env python3
"""hostile_tests ALLOGRAM PROGRAMS: runs `allogram attach` and `allogram observe` on programs that are hard to attach to and to observe
(hostile.c). SIGINT or SIGTERM, or for `attach` also SIGKILL, ends the command at a random moment. Prints TAP.

The command must end within 1.2 seconds, or later if the load of the machine is higher than its number of CPUs. The program must run on with
the same code, signal mask and registers, and no file may be left. To repeat a run, set AG_TEST_SEED to the seed that the run printed."""

import contextlib
import ctypes
import glob
import os
import random
import resource
import signal
import subprocess
import tempfile
import time

from attached import IS_FULL, Attached, Target, image
from cases import ALLOGRAM, PROGRAMS, Skip, run_all, test

MOST_S = 1.0
ROUNDS = 50 if IS_FULL else 3
BEST_OF = 5 if IS_FULL else 3
GOES_ON_S = 30  # seconds in which each of the program's threads must get a CPU
BACKGROUND_S = 40  # seconds in which the worker of `attach` must remove allogram's library from the program
SEED = int(os.environ.get("AG_TEST_SEED", "0")) or random.randrange(1, 1 << 30)
chance = random.Random(SEED)


class Hostile(Target):
    def __init__(self, mode):
        super().__init__(os.path.join(PROGRAMS, "hostile"), mode)
        self.mode = mode
        if self.answer() != "ready":
            self.__exit__()
            raise Skip(f"hostile {mode} cannot be done here")

    def __exit__(self, *arguments):
        super().__exit__(*arguments)
        for path in (f"/tmp/hostile.{self.pid}.so", f"/tmp/perf-{self.pid}.map"):
            if os.path.exists(path):
                os.unlink(path)

    def all_threads_go_on(self):
        """Checks that each thread that allocates all the time still does so."""
        wait = 0.1  # seconds; it grows, because each answer contains only what happened since the last one
        while self.ask("check").startswith("STUCK"):
            assert wait < GOES_ON_S, "a thread does not allocate any more"
            time.sleep(wait)
            wait *= 2

    def goes_on(self):
        first, second = (int(self.is_fine()) for _ in range(2))
        assert second > first or self.mode == "exec", (first, second)

    def is_fine(self):
        answer = self.ask("check")
        assert answer.startswith(("OK ", "STUCK ")), answer
        return answer.split()[1]


def own_shared_memory():
    """Mounts a private /dev/shm, because other programs leave files in /dev/shm, too. Returns whether the mount worked."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_mounts, private, recursive = 0x20000, 1 << 18, 1 << 14
    if os.geteuid() != 0 or libc.unshare(new_mounts) != 0 or libc.mount(None, b"/", None, private | recursive, None) != 0 or \
            libc.mount(b"none", b"/dev/shm", b"tmpfs", 0, None) != 0:
        print("# files that are left in /dev/shm are not checked: no private /dev/shm can be mounted", flush=True)
        return False
    return True


HAS_OWN_SHM = own_shared_memory()


def live_files():
    return set(glob.glob("/dev/shm/.allogram-live.*"))


def cpu_allowance():
    """Returns how many seconds a command may take to end. The number grows with the load of the machine."""
    return MOST_S * max(1.0, os.getloadavg()[0] / os.cpu_count())


class Ended:
    """Runs a command, and sends signal NUMBER to it after DELAY seconds."""

    def __init__(self, arguments, delay, number):
        self.delay = delay
        process = subprocess.Popen([ALLOGRAM, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            process.wait(timeout=delay)
            self.seconds = 0.0  # the command ended by itself
        except subprocess.TimeoutExpired:
            begin = time.monotonic()
            process.send_signal(number)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
            self.seconds = time.monotonic() - begin
        self.text = process.stderr.read()
        process.wait()
        process.stderr.close()
        self.status = process.returncode
        most = cpu_allowance() + 0.2
        assert self.seconds < most, f"{arguments[0]} ended {self.seconds:.2f} s after signal {number}, sent at {delay:.2f} s; " \
                                    f"AG_TEST_SEED={SEED}: {self.text}"


def mask(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return [line for line in file if line.startswith(("SigBlk", "SigIgn", "SigCgt", "TracerPid"))]


def is_restored(target, before, masks):
    """Waits until the program has the code and the signal masks that it had before the attach. This may take a while, because the
    worker of `attach` removes the agent (allogram's library)."""
    end = time.monotonic() + BACKGROUND_S
    while mask(target.pid) != masks or (image(target.pid) != before):
        assert time.monotonic() < end, "the agent is still in the program"
        time.sleep(0.05)


def attach(mode, options=(), is_code_kept=True):
    with Hostile(mode) as target, tempfile.TemporaryDirectory() as folder:
        files = live_files()
        before, masks = image(target.pid), mask(target.pid)
        for i in range(ROUNDS):
            delay = chance.choice((0.02, 0.1, 0.4, 1.2)) * chance.uniform(0.5, 1.5)
            number = chance.choice((signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
            Ended(["attach", str(target.pid), "-o", os.path.join(folder, f"{i}.allogram"), *options], delay, number)
            target.goes_on()
        if is_code_kept:
            is_restored(target, before, masks)
        target.goes_on()
        end = time.monotonic() + 10
        while live_files() - files and time.monotonic() < end:
            time.sleep(0.05)
        left = live_files() - files
        assert not (HAS_OWN_SHM and left), left


@test
def attach_to_a_calm_program():
    attach("calm")
    attach("calm", ("--mode=exact",))


def ends_of_a_recording(mode):
    """Records BEST_OF times, and ends each recording by SIGINT. Only the fastest end is compared with the limit, because other programs may
    delay a single command."""
    with Hostile(mode) as target, tempfile.TemporaryDirectory() as folder:
        before, masks = image(target.pid), mask(target.pid)
        ends = []
        for _ in range(BEST_OF):
            attached = Attached(target.pid, folder)
            time.sleep(0.3)
            begin = time.monotonic()
            attached.process.send_signal(signal.SIGINT)
            text = attached.process.stderr.read()
            attached.process.wait()
            ends.append((time.monotonic() - begin, text, attached))
            is_restored(target, before, masks)  # on a busy machine, the worker removes the agent in the background
            target.goes_on()
        target.all_threads_go_on()
        print("# ended in " + ", ".join(f"{seconds:.2f}" for seconds in sorted(end[0] for end in ends)) + " s")
        seconds, text, attached = min(ends, key=lambda end: end[0])
        assert seconds < cpu_allowance() and "detached from" in text, (seconds, text)
        assert attached.report()["trace"]["end"] == "detached"


@contextlib.contextmanager
def urgently():
    """Gives this process real-time priority, so that it measures the end of a command and not its own wait for a CPU."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except PermissionError as error:
        raise Skip("this user may not get real-time priority, without which the test would measure its own wait for a CPU") from error
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@test
def attach_to_4000_threads_that_wait():
    """Ends `attach` at random moments: before the hooks are placed, while they are placed, and while they are there."""
    attach("many")
    ends_of_a_recording("many")


@test
def attach_to_4000_threads_of_which_200_allocate():
    with urgently():
        ends_of_a_recording("crowd")


@test
def attach_to_200_threads_that_all_allocate():
    with urgently():
        ends_of_a_recording("flat")


@test
def attach_says_why_the_loader_refuses_the_agent():
    with Hostile("calm") as target, tempfile.TemporaryDirectory() as folder:
        resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (3, resource.prlimit(target.pid, resource.RLIMIT_NOFILE)[1]))
        ended = subprocess.run([ALLOGRAM, "attach", str(target.pid), "-o", os.path.join(folder, "a.allogram"), "--duration=1s"],
                               stderr=subprocess.PIPE, text=True, check=False)
        assert ended.returncode != 0 and "Too many open files" in ended.stderr, ended.stderr
        target.goes_on()


@test
def attach_while_the_loader_never_returns():
    attach("loader", is_code_kept=False)  # the agent may stay mapped, because the loader cannot unload it


@test
def attach_while_all_threads_are_in_signal_handlers():
    attach("handler")


@test
def attach_while_a_thread_waits_in_vfork():
    attach("vfork", is_code_kept=False)  # the agent may stay loaded, without an effect, until the next attach


@test
def attach_to_a_program_that_is_stopped():
    attach("stop")


@test
def attach_to_a_program_that_executes_itself():
    attach("exec", is_code_kept=False)


def observe(mode, *options):
    with Hostile(mode) as target:
        for _ in range(ROUNDS):
            delay = chance.choice((0.02, 0.3, 1.3)) * chance.uniform(0.5, 1.5)
            number = chance.choice((signal.SIGINT, signal.SIGTERM))
            ended = Ended(["observe", str(target.pid), "--duration=20s", *options], delay, number)
            if "perf events" in ended.text:
                raise Skip(ended.text.strip())
            if mode != "fault":  # in mode "fault" a read may still be waiting for the page
                target.goes_on()


@test
def observe_a_program_that_is_stopped():
    observe("stop")


@test
def observe_a_program_that_executes_itself():
    observe("exec")


@test
def observe_a_circular_list_of_generated_code():
    observe("circle")


@test
def observe_memory_whose_reads_never_return():
    observe("fault")


@test
def observe_has_the_status_of_the_signal_that_ends_it():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        with Hostile("fault") as target:
            ended = Ended(["observe", str(target.pid), "--duration=20s"], 1, number)
            if "perf events" in ended.text:
                raise Skip(ended.text.strip())
            assert (ended.status, "ended by a signal before" in ended.text) == (128 + number, True), (ended.status, ended.text)


@test
def observe_a_thousand_symbol_tables():
    observe("tables")


@test
def observe_symbol_tables_in_holes_of_a_file():
    observe("holes")


@test
def observe_a_perf_map_that_is_a_hole():
    observe("map")


@test
def observe_stays_within_cpu_and_memory_limits():
    """Nearly all data of these targets is repeated, a hole of a file, or a circular list. `observe` may use at most 2 s of
    CPU time and 256 MiB of memory for them."""
    for mode in ("circle", "tables", "holes", "map"):
        with Hostile(mode) as target:
            process = subprocess.Popen([ALLOGRAM, "observe", str(target.pid), "--duration=2s"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE)
            _, status, usage = os.wait4(process.pid, 0)
            text = process.stderr.read().decode()
            process.stderr.close()
            process.returncode = os.waitstatus_to_exitcode(status)
            if "perf events" in text:
                raise Skip(text.strip())
            cpu = usage.ru_utime + usage.ru_stime
            print(f"# {mode}: {cpu:.2f} s of CPU, {usage.ru_maxrss >> 10} MiB")
            assert process.returncode == 0, text
            assert cpu < 2 and usage.ru_maxrss < 256 << 10, (mode, cpu, usage.ru_maxrss)


if __name__ == "__main__":
    print(f"# AG_TEST_SEED={SEED}")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and the commands would inherit that
    raise SystemExit(run_all())
