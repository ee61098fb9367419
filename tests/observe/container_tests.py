#!/usr/bin/env python3
"""container_tests ALLOGRAM PROGRAMS: `attach`, `observe` and `run` with programs in containers. Prints TAP.

A container is a root folder that has only a program and its libraries, as in images without a shell ("distroless"), with namespaces of its own. It
is made by small_container.py, by bubblewrap and by runc, as root and as an ordinary user. After the last detach, the mapped files, the code and
the descriptors of the program must be the same as before the first attach. With AG_TEST_SCALE=full there are 500 cycles in each container."""

import json
import os
import re
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from attached import IS_FULL, Attached, Target, cycles, image, worker_of
from cases import ALLOGRAM, PROGRAMS, Skip, run_all, test

CYCLES = 500 if IS_FULL else 10
HERE = os.path.dirname(os.path.abspath(__file__))
USER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
NAMESPACES = ("unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child")
BUILD = os.path.dirname(os.path.dirname(os.path.abspath(PROGRAMS)))


def add_libraries(root, program):
    """Copies the libraries of a program into a root folder. A program of musl has only its interpreter, which ldd of glibc does not show."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    headers = subprocess.run(["readelf", "--program-headers", program], capture_output=True, text=True, check=True).stdout
    for path in {*re.findall(r"(/\S+) \(0x", listed), *re.findall(r"interpreter: (/\S+)\]", headers)}:
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        shutil.copy(path, root + path)


class Folder:
    """A folder that an ordinary user can read, with a root folder and an installation of allogram."""

    def __init__(self, *programs):
        self.path = tempfile.mkdtemp(prefix="allogram-container-")
        self.root, self.traces = self.path + "/root", self.path + "/traces"
        os.makedirs(self.root + "/proc")
        os.mkdir(self.traces)
        os.chmod(self.path, 0o755)
        os.chmod(self.traces, 0o777)
        for program in programs or ("hammer",):
            add_libraries(self.root, os.path.join(PROGRAMS, program))
            shutil.copy(os.path.join(PROGRAMS, program), self.root)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)

    def add_allogram(self, folder):
        """Copies allogram and its agents into a folder. Returns the path of allogram."""
        agents = os.path.join(BUILD, "adapters/libc")
        os.makedirs(folder, exist_ok=True)
        for name in ("liballogram-agent.so", "liballogram-attached.so", "liballogram-attached-runtimes.so"):
            shutil.copy(os.path.join(agents, name), folder)
        return shutil.copy(ALLOGRAM, folder)


def descendant(pid, name):
    """Returns the pid of a process NAME below process PID."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        found = [pid]
        for one in found:
            try:
                with open(f"/proc/{one}/comm", encoding="ascii") as comm:
                    if comm.read() == name + "\n":
                        return one
                for thread in os.listdir(f"/proc/{one}/task"):
                    with open(f"/proc/{one}/task/{thread}/children", encoding="ascii") as children:
                        found += map(int, children.read().split())
            except OSError:
                pass  # the process has ended
        time.sleep(0.01)
    raise AssertionError(f"no process {name} below {pid}")


class Contained(Target):
    """A program in a container. `pid` is its pid on this machine."""

    def __init__(self, command, name="hammer", **options):
        super().__init__(*command, **options)
        self.outer = self.pid
        try:
            self.pid = descendant(self.outer, name)
            assert self.answer() == "ready"
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise


def python_for(before):
    """Returns a Python that a command can execute whose first words are BEFORE."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([*before, python, "-c", ""], check=False, capture_output=True).returncode == 0:
            return python
    raise Skip("no Python that an ordinary user can execute")


QUIET = ("/hammer", "quiet")


def small(folder, *options, program=QUIET, namespaces=NAMESPACES, user=()):
    if any(option.startswith("--shm") for option in options):
        os.makedirs(folder.root + "/dev/shm")
    script = shutil.copy(os.path.join(HERE, "small_container.py"), folder.path)
    return [*user, *namespaces, python_for([*user, *namespaces]), script, folder.root, *options, "--", *program]


def as_root():
    if os.geteuid() != 0:
        raise Skip("needs root")
    if subprocess.run([*NAMESPACES, "true"], check=False, stderr=subprocess.DEVNULL).returncode:
        raise Skip("the kernel permits no namespaces here")


def as_user():
    as_root()
    if subprocess.run([*USER, *NAMESPACES, "--user", "--map-root-user", "true"], check=False, stderr=subprocess.DEVNULL).returncode:
        raise Skip("the kernel permits no user namespaces here")


def state(pid):
    """What an attach and a detach must not change: mapped files, code, descriptors (but those of epoll, which hammer opens and closes all the time)."""
    descriptors = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            descriptors.add((fd, os.readlink(f"/proc/{pid}/fd/{fd}")))
        except FileNotFoundError:
            pass  # the program has closed it
    return {*image(pid), *(one for one in descriptors if one[1] != "anon_inode:[eventpoll]")}


def is_removed(attached):
    """Checks that the live file of a recording is removed, by the number of its session. The writer removes it some seconds later if the program still
    had it mapped when the trace was complete."""
    session = attached.report("--view=process_tree")["processes"][0]["session"]
    assert len(session) == 16, session
    end = time.monotonic() + 30
    for folder in ("/dev/shm", os.path.dirname(attached.trace)):
        while os.path.exists(f"{folder}/.allogram-live.{session}"):
            assert time.monotonic() < end, f"{folder}/.allogram-live.{session} is still there"
            time.sleep(0.05)


def counted(report):
    """The blocks and bytes of counted_round, in the form of the answer to `burst`, from the report --view=sites --by=function."""
    found = [row["total"] for row in report["sites"] if row["function"] == "counted_round"]
    return f"burst {found[0]['allocated_blocks']} {found[0]['allocated_bytes']}" if found else "burst 0 0"


def numbers_of(names):
    done = subprocess.run(["gcc", "-E", "-dM", "-include", "sys/syscall.h", "-"], input="", capture_output=True, text=True, check=True)
    return {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", done.stdout) if name in names}


def calls_of_attach():
    """The system calls that `attach` looks for in a filter."""
    with open(os.path.join(HERE, "../../src/attach/seccomp_filter.c"), encoding="ascii") as file:
        names = set(re.findall(r"\bCALL\((\w+)\)", file.read())) - {"name"}
    numbers = numbers_of(names)
    assert names == set(numbers) and len(names) > 20, names
    return numbers


# what the kernel and the program hammer need: its start, its output, its threads, and the waits that it tests
CALLS_OF_HAMMER = {"access", "arch_prctl", "clock_nanosleep", "clone", "clone3", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "execve",
                   "exit", "exit_group", "nanosleep", "pipe", "pipe2", "poll", "ppoll", "prlimit64", "pselect6", "restart_syscall", "rseq",
                   "rt_sigaction", "rt_sigreturn", "rt_sigtimedwait", "select", "set_robust_list", "set_tid_address", "write"}
# what runc needs after it has installed the filter of a container
CALLS_OF_RUNC = {"capget", "capset", "chdir", "close_range", "epoll_pwait", "faccessat2", "fchdir", "getdents64", "openat2", "setgid", "setgroups",
                 "setuid", "statfs", "fstatfs", "statx", "tgkill", "getuid", "getgid", "geteuid", "getegid", "eventfd2", "readlinkat"}


BURST = ("--view=sites", "--by=function", "--focus=counted_round")


def burst(target):
    """Four threads allocate all the time; the program counts the blocks of one function."""
    truth = target.ask("burst 10")

    def check(attached):
        found = counted(attached.report(*BURST))
        assert found == truth, (found, truth)
        is_removed(attached)

    return check


def hold(target):
    """One thread allocates 100 blocks of 1000 bytes, and nothing else."""
    assert target.ask("hold 100") == "hold"

    def check(attached):
        rows = attached.report("--view=sites", "--by=function")["sites"]
        found = [(row["function"], row["total"]["allocated_blocks"], row["total"]["allocated_bytes"]) for row in rows if row["own"]["allocated_blocks"]]
        assert found == [("main", 100, 100000)], found
        is_removed(attached)

    return check


def are_counted_to_the_unit(target, n_cycles=CYCLES, work=hold, **how):
    with target:
        before = state(target.pid)
        cycles(target, n_cycles, lambda _: work(target), "--mode=exact", **how)
        target.check()
        after = state(target.pid)
        assert after == before, after ^ before


@test
def a_container_is_counted_to_the_unit():
    as_root()
    with Folder() as folder:
        are_counted_to_the_unit(Contained(small(folder, "--read-only")))


@test
def four_threads_in_a_container_that_hammer_malloc_are_counted_to_the_unit():
    as_root()
    with Folder() as folder:
        are_counted_to_the_unit(Contained(["nice", *small(folder, program=("/hammer",))]), 500 if IS_FULL else 2, burst)


@test
def a_user_attaches_to_the_users_container():
    as_user()
    # The container of root has the same pid in its namespace, and the user cannot look into it.
    with Folder() as folder, Folder() as of_root, Contained(small(of_root)):
        allogram = folder.add_allogram(folder.path + "/allogram")
        command = small(folder, "--read-only", namespaces=(*NAMESPACES, "--user", "--map-root-user"), user=USER)
        are_counted_to_the_unit(Contained(command), command=(*USER, allogram), place=folder.traces)


@test
def root_attaches_to_a_users_container():
    as_user()
    with Folder() as folder:
        command = small(folder, "--shm=1M", namespaces=(*NAMESPACES, "--user", "--map-root-user"), user=USER)
        are_counted_to_the_unit(Contained(command))


@test
def a_container_of_bubblewrap():
    as_root()
    if not shutil.which("bwrap"):
        raise Skip("bubblewrap is not installed (tools/install_packages.sh)")
    command = ["bwrap", "--unshare-all", "--die-with-parent", "--proc", "/proc", "--dev", "/dev"]
    if subprocess.run([*command, "--ro-bind", "/", "/", "true"], check=False, stderr=subprocess.DEVNULL).returncode:
        raise Skip("bubblewrap makes no container here")
    with Folder() as folder:
        os.mkdir(folder.root + "/dev")
        are_counted_to_the_unit(Contained(["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", folder.root, "/", "--proc", "/proc", "--dev",
                                           "/dev", *QUIET]))


class OfRunc(Contained):
    """A container of runc, which stays if runc is killed. It has a seccomp filter that libseccomp made, as containers of Docker and Podman have."""

    def __init__(self, folder, name):
        self.name = name
        with open(folder.path + "/config.json", encoding="ascii") as file:
            settings = json.load(file)
        settings["process"].update(args=list(QUIET), terminal=False)
        names = sorted({*calls_of_attach(), *CALLS_OF_HAMMER, *CALLS_OF_RUNC})
        settings["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ERRNO", "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
                                        "syscalls": [{"names": names, "action": "SCMP_ACT_ALLOW"}]}
        with open(folder.path + "/config.json", "w", encoding="ascii") as file:
            json.dump(settings, file)
        super().__init__(["runc", "run", "--bundle", folder.path, name])

    def __exit__(self, *how):
        subprocess.run(["runc", "kill", self.name, "KILL"], check=False, stderr=subprocess.DEVNULL)
        super().__exit__(*how)
        subprocess.run(["runc", "delete", "--force", self.name], check=False, stderr=subprocess.DEVNULL)


@test
def a_container_of_runc():
    as_root()
    if not shutil.which("runc"):
        raise Skip("runc is not installed (tools/install_packages.sh)")
    with Folder("hammer") as folder:
        os.rename(folder.root, folder.path + "/rootfs")
        subprocess.run(["runc", "spec", "--bundle", folder.path], check=True)
        try:
            target = OfRunc(folder, secrets.token_hex(32))  # engines name containers in this way
        except AssertionError as why:
            raise Skip(f"runc makes no container here: {why}") from why

        def work(_):
            check = hold(target)

            def check_name(attached):
                check(attached)
                assert attached.report()["trace"]["container"] == {"id": target.name, "engine": None, "pod": None}, attached.report()["trace"]
                text = subprocess.run([ALLOGRAM, "report", attached.trace], capture_output=True, text=True, check=True).stdout
                assert f"in container {target.name[:12]}\n" in text, text

            return check_name

        are_counted_to_the_unit(target, work=work)


@test
def a_sidecar_attaches():
    as_root()
    with Folder() as folder, Folder() as beside, Contained(small(folder, "--read-only")) as target:
        add_libraries(beside.root, beside.add_allogram(beside.root + "/bin"))
        os.mkdir(beside.root + "/out")
        before = state(target.pid)
        program = ("/bin/allogram", "attach", "1", "--mode=exact", "-o", "/out/beside.allogram")
        command = ["nsenter", f"--target={target.pid}", "--pid", "--",
                   *small(beside, "--read-only", "--out=" + beside.traces, program=program, namespaces=("unshare", "--mount"))]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as attached:
            first = attached.stderr.readline()
            assert "attached to 1 (hammer)" in first, first
            assert target.ask("hold 100") == "hold"
            os.kill(descendant(attached.pid, "allogram"), signal.SIGINT)
            rest = attached.stderr.read()
        assert attached.returncode == 0 and "detached from 1 (hammer)" in rest, (attached.returncode, rest)
        target.check()
        assert state(target.pid) == before
        assert os.listdir(beside.traces) == ["beside.allogram"], os.listdir(beside.traces)
        shown = subprocess.run([ALLOGRAM, "report", beside.traces + "/beside.allogram", "--json"], capture_output=True, check=True).stdout
        summary = json.loads(shown)
        found = (summary["trace"]["end"], summary["trace"]["pid"], summary["allocated_blocks"], summary["allocated_bytes"])
        assert found == ("detached", 1, 100, 100000), summary


@test
def what_a_killed_allogram_left_in_a_container_is_removed():
    as_root()
    with Folder() as folder, Contained(small(folder)) as target:
        before = state(target.pid)
        attached = Attached(target.pid, folder.traces, "--mode=exact")
        os.kill(worker_of(attached.process), signal.SIGKILL)
        attached.process.wait()
        assert target.ask("hold 100") == "hold"
        second = subprocess.run([ALLOGRAM, "attach", str(target.pid), "--duration=0.1", "-o", folder.traces + "/second.allogram"], capture_output=True,
                                text=True, timeout=60, check=False)
        assert second.returncode == 0 and "removed the agent that an earlier attach had left" in second.stderr, second
        assert state(target.pid) == before
        target.check()


@test
def control_stop_ends_a_recording_in_a_container():
    as_root()
    with Folder() as folder, Contained(small(folder)) as target:
        before = state(target.pid)
        attached = Attached(target.pid, folder.traces, "--mode=exact")
        check = hold(target)
        done = subprocess.run([ALLOGRAM, "control", str(target.pid), "stop"], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done
        assert attached.process.wait(timeout=60) == 0
        check(attached)
        assert state(target.pid) == before


@test
def a_trace_names_the_cgroup():
    as_root()
    with Folder() as folder, Contained(small(folder)) as target:
        with open(f"/proc/{target.pid}/cgroup", encoding="ascii") as file:
            paths = {line.rstrip("\n").split(":", 2)[2] for line in file}
        attached = Attached(target.pid, folder.traces)
        attached.detach()
        assert attached.report()["trace"]["cgroup"] in paths, (attached.report()["trace"], paths)


@test
def a_container_is_observed():
    as_root()
    with Folder("cpu_shares") as folder, Contained(small(folder, program=("/cpu_shares",)), name="cpu_shares") as target:
        trace = folder.traces + "/observed.allogram"
        done = subprocess.run([ALLOGRAM, "observe", str(target.pid), "--duration=2", "--json", "-o", trace], capture_output=True, text=True, timeout=60,
                              check=False)
        if "perf_event" in done.stderr and done.returncode:
            raise Skip("the kernel permits no perf events")
        names = [row["function"] for row in json.loads(done.stdout)["functions"]]
        assert "main" in names and {"three_parts", "one_part"} & set(names), names  # main calls the others
        shown = subprocess.run([ALLOGRAM, "report", trace, "--view=functions", "--json"], capture_output=True, text=True, timeout=60, check=True).stdout
        assert '"main"' in shown, shown


@test
def what_cannot_be_opened_in_a_container_is_said():
    as_user()
    with Folder("cpu_shares") as folder:
        allogram = folder.add_allogram(folder.path + "/allogram")
        shutil.move(folder.root + "/cpu_shares", folder.traces)
        os.mkdir(folder.root + "/out")
        command = small(folder, "--out=" + folder.traces, program=("/out/cpu_shares",), namespaces=(*NAMESPACES, "--user", "--map-root-user"), user=USER)
        with Contained(command, name="cpu_shares") as target:
            os.unlink(folder.traces + "/cpu_shares")  # now only /proc/PID/map_files leads to the file, and only for root
            done = subprocess.run([*USER, allogram, "observe", str(target.pid), "--duration=1"], capture_output=True, text=True, timeout=60, check=False)
        if done.returncode and "perf" in done.stderr:
            raise Skip("the kernel permits this user no perf events")
        assert "/cpu_shares and perhaps other mapped files cannot be opened" in done.stdout + done.stderr, done


# ---- seccomp ----


@test
def a_filter_as_that_of_an_engine_permits_attach():
    as_root()
    with Folder() as folder:
        are_counted_to_the_unit(Contained(small(folder, "--no-ptrace")), 2)


@test
def attach_makes_only_the_calls_that_it_looks_for():
    as_root()
    needed = {**numbers_of(CALLS_OF_HAMMER), **calls_of_attach()}
    with Folder() as folder:
        are_counted_to_the_unit(Contained(small(folder, "--only=" + ",".join(map(str, needed.values())), program=("/hammer",))), 3, burst)


@test
def a_filter_that_kills_a_thread_at_a_call_of_the_agent_is_refused():
    for name in ("mremap", "socketpair", "getcwd"):
        is_refused("its seccomp filter does not always permit the system call " + name, f"--kill={numbers_of({name})[name]}")


@test
def a_filter_that_an_ordinary_user_cannot_read_is_refused():
    as_user()
    with Folder() as folder:
        allogram = folder.add_allogram(folder.path + "/allogram")
        command = small(folder, "--no-ptrace", namespaces=(*NAMESPACES, "--user", "--map-root-user"), user=USER)
        with Contained(command) as target:
            before = state(target.pid)
            line = refusal(target.pid, folder, command=(*USER, allogram))
            assert "the filter cannot be read" in line, line
            assert state(target.pid) == before
            target.check()


# ---- refusals ----


def refusal(pid, folder, command=(ALLOGRAM,)):
    """Calls `attach`, with a /dev/shm of its own, which has to be empty afterwards."""
    own_shm = 'mount -t tmpfs -o mode=1777 tmpfs /dev/shm; "$@"; status=$?; ls -A /dev/shm; exit $status'
    done = subprocess.run(["unshare", "--mount", "sh", "-c", own_shm, "sh", *command, "attach", str(pid), "-o", folder.traces + "/refused.allogram"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 125 and done.stderr.count("\n") == 1 and done.stdout == "", done
    assert os.listdir(folder.traces) == [], os.listdir(folder.traces)
    return done.stderr


def is_refused(said, *options, name="hammer", **how):
    as_root()
    with Folder(name) as folder, Contained(small(folder, *options, program=("/" + name, "quiet")), name=name, **how) as target:
        before = state(target.pid)
        line = refusal(target.pid, folder)
        assert said in line, line
        assert state(target.pid) == before
        target.check()


@test
def a_container_without_proc_is_refused():
    is_refused("has no /proc", "--no-proc")


@test
def a_container_with_another_libc_is_refused():
    if not os.path.exists(os.path.join(PROGRAMS, "hammer_musl")):
        raise Skip("musl-gcc is not installed")
    is_refused("is not glibc", name="hammer_musl")


@test
def a_container_without_a_free_descriptor_is_refused():
    as_root()
    with Folder() as folder, Contained(small(folder)) as target:
        used = len(os.listdir(f"/proc/{target.pid}/fd"))
        before = state(target.pid)
        for room in range(3 + 2):  # a socket pair and three files
            resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (used + room, 4096))
            line = refusal(target.pid, folder)
            assert "files cannot be passed to it" in line and "Too many open files" in line, (room, line)
            assert state(target.pid) == before
        resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (4096, 4096))
        Attached(target.pid, folder.traces).detach()
        target.check()
        assert state(target.pid) == before


# ---- run inside of a container ----


def is_recorded_inside(*options):
    as_user()
    with Folder() as folder:
        add_libraries(folder.root, folder.add_allogram(folder.root + "/bin"))
        os.mkdir(folder.root + "/out")
        command = small(folder, "--read-only", "--no-ptrace", "--out=" + folder.traces, *options,
                        program=("/bin/allogram", "run", "-o", "/out/inside.allogram", "--", "/hammer"),
                        namespaces=(*NAMESPACES, "--user", "--map-root-user"), user=USER)
        with Target(*command) as target:
            assert target.answer() == "ready"
            truth = target.ask("burst 10")
            target.check()
            target.process.stdin.close()
            assert target.process.wait(timeout=60) == 0
        assert os.listdir(folder.traces) == ["inside.allogram"], os.listdir(folder.traces)

        def report(*options):
            done = subprocess.run([ALLOGRAM, "report", folder.traces + "/inside.allogram", "--json", f"--sysroot={folder.root}", *options], check=True,
                                  capture_output=True)
            return json.loads(done.stdout)

        found = counted(report(*BURST))
        assert found == truth, (found, truth)
        assert report()["lost_events"]["total"] == 0


@test
def a_read_only_container_with_a_small_dev_shm_and_no_ptrace_is_recorded_inside():
    is_recorded_inside("--shm=1M")


@test
def a_read_only_container_without_dev_shm_and_ptrace_is_recorded_inside():
    is_recorded_inside()


sys.exit(run_all())
