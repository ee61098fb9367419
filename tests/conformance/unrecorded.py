#!/usr/bin/env python3
"""`run` prints the number and the names of the processes, and the names of the allocators, that it could not record. Further cases test the end
of a recording: the files and processes that remain, exit statuses, and a writer (the process that writes the traces) that gets SIGTERM."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import recorded
import tap

SLEEPER = ("#include <stdlib.h>\n#include <unistd.h>\n"
           "int main(int argc, char **argv) { free(malloc(3)); return argc > 1 && usleep(1000 * atoi(argv[1])) != 0; }\n")
REMOVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    char line[8192], *path;
    free(malloc(3));
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps)) {
        if ((path = strstr(line, "/dev/shm/.allogram-live")) != NULL) {
            path[strcspn(path, "\n")] = 0;
            return unlink(path) != 0;
        }
    }
    return 9;
}
"""
# Starts the program in its last argument by each function of the C library that starts a program, 14 times in all. Then starts programs in several ways
# that fail. If there is an argument before the program, it is a folder; the starter first mounts an empty folder over it.
STARTER = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
#if !__GLIBC_PREREQ(2, 34)
#include <sys/syscall.h>
int execveat(int, const char *, char *const[], char *const[], int) __attribute__((weak)); /* the agent has it */
#define execveat(...) (execveat ? execveat(__VA_ARGS__) : (int)syscall(SYS_execveat, __VA_ARGS__))
#endif
#define IN_CHILD(make, call)                \
    do {                                    \
        const pid_t child = make();         \
        if (child == 0) {                   \
            call;                           \
            _exit(7);                       \
        }                                   \
        waitpid(child, NULL, 0);            \
    } while (0)
int main(int argc, char **argv) {
    char *program = argv[argc - 1], *arguments[] = {program, NULL}, line[4096];
    pid_t child;
    free(malloc(3));
    if (argc > 2 && (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
                     mount("none", argv[1], "tmpfs", 0, NULL) != 0)) {
        return 8;
    }
    IN_CHILD(fork, execve(program, arguments, environ));
    IN_CHILD(fork, execv(program, arguments));
    IN_CHILD(fork, execvp(program, arguments));
    IN_CHILD(fork, execvpe(program, arguments, environ));
    IN_CHILD(fork, execl(program, program, (char *)NULL));
    IN_CHILD(fork, execveat(AT_FDCWD, program, arguments, environ, 0));
    IN_CHILD(vfork, execlp(program, program, (char *)NULL));
    IN_CHILD(vfork, execle(program, program, (char *)NULL, environ));
    IN_CHILD(vfork, fexecve(open(program, O_RDONLY | O_CLOEXEC), arguments, environ));
    if (posix_spawn(&child, program, NULL, NULL, arguments, environ) != 0 || waitpid(child, NULL, 0) != child ||
        posix_spawnp(&child, program, NULL, NULL, arguments, environ) != 0 || waitpid(child, NULL, 0) != child) {
        return 1;
    }
    snprintf(line, sizeof line, "exec %s", program);
    if (system(line) != 0 || pclose(popen(line, "r")) != 0) {
        return 2;
    }
    signal(SIGCHLD, SIG_IGN);
    if (system(line) != -1) {
        return 4;
    }
    signal(SIGCHLD, SIG_DFL);
    struct rlimit all, none;
    if (getrlimit(RLIMIT_AS, &all) != 0) {
        return 5;
    }
    none = all;
    none.rlim_cur = 1;
    setrlimit(RLIMIT_AS, &none);
    const int statuses[] = {system("true"), system("true"), system("true")};
    setrlimit(RLIMIT_AS, &all);
    if (statuses[0] == 0 || statuses[1] == 0 || statuses[2] == 0) {
        return 6;
    }
    IN_CHILD(fork, execv("/missing", arguments));
    IN_CHILD(vfork, execlp("/missing", "missing", (char *)NULL));
    if (posix_spawn(&child, "/missing", NULL, NULL, arguments, environ) == 0 || system("/missing 2>/dev/null") == 0) {
        return 3;
    }
    return 0;
}
"""
# Starts the program in its arguments 20 times, each time from a child that ends at once, so that this process becomes the parent of the program.
# For this it becomes a subreaper. With the argument "init" it first creates a child that is the first process of a PID namespace; then the child
# does all this.
ADOPTER = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static int adopt(char **arguments) {
    for (int i = 0; i < 20; i++) {
        if (fork() == 0) {
            pid_t child;
            _exit(posix_spawn(&child, arguments[0], NULL, NULL, arguments, environ));
        }
        while (wait(NULL) > 0) {
        }
    }
    return 0;
}
int main(int argc, char **argv) {
    int status;
    free(malloc(3));
    if (strcmp(argv[1], "init") != 0) {
        return prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || adopt(argv + 2) != 0;
    }
    if (unshare(CLONE_NEWPID) != 0) {
        return 5;
    }
    if (fork() == 0) {
        execl("/proc/self/exe", argv[0], "subreaper", argv[2], argv[3], (char *)NULL);
    }
    return wait(&status) < 0 || status != 0;
}
"""
# A library to preload, which replaces execv and execvp by functions that call execve and execvpe.
WRAPPER = r"""
#define _GNU_SOURCE
#include <unistd.h>
extern char **environ;
int execv(const char *path, char *const arguments[]) { return execve(path, arguments, environ); }
int execvp(const char *file, char *const arguments[]) { return execvpe(file, arguments, environ); }
"""
# Forks by a system call that the agent does not see, and ends. After that, the child executes the program in the argument, also by a system call.
LATE_STARTER = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv) {
    char *arguments[] = {argv[1], "100", NULL};
    const pid_t self = getpid();
    free(malloc(3));
    if (argc > 1 && syscall(SYS_fork) == 0) {
        while (getppid() == self) {
        }
        syscall(SYS_execve, argv[1], arguments, environ);
        _exit(7);
    }
    return 0;
}
"""
# Allocates by the malloc of a second C library, and by that of the first one.
SECOND_LIBC = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
int main(void) {
    void *library = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
    void *(*second_malloc)(size_t) = library ? (void *(*)(size_t))dlsym(library, "malloc") : NULL;
    void *block = second_malloc ? second_malloc(100) : NULL;
    free(malloc(100));
    return block ? 0 : 7;
}
"""
# Opens the library in its argument with RTLD_DEEPBIND and calls its function. With a second argument, closes the library.
DEEP_BINDER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
    void *(*allocate)(void) = library ? (void *(*)(void))dlsym(library, "allocate") : NULL;
    return !allocate || !allocate() || (argc > 2 && dlclose(library));
}
"""
DEEP_LIBRARY = r"""
#include <stdlib.h>
void *allocate(void) { return malloc(100); }
"""
# A thread that has not allocated makes a child by a system call. The child may not map memory, frees blocks for half a second, and ends.
POOR_CHILD = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void *blocks[50];
static void *start(void *unused) {
    const struct rlimit none = {1, 1};
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        setrlimit(RLIMIT_AS, &none);
        for (int i = 0; i < 50; i++) {
            free(blocks[i]);
            usleep(10000);
        }
        _exit(0);
    }
    return waitpid(child, NULL, 0) == child ? unused : NULL;
}
int main(void) {
    pthread_t thread;
    void *result = NULL;
    for (int i = 0; i < 50; i++) {
        blocks[i] = malloc(1 << 10);
    }
    return pthread_create(&thread, NULL, start, blocks) != 0 || pthread_join(thread, &result) != 0 || !result;
}
"""
LONG_MS = 700  # the writer finds a program that runs for this time: it looks for processes every 100 ms, and examines each again 300 ms later


def build(folder, *options):
    source, program = os.path.join(folder, "sleeper.c"), os.path.join(folder, "static_sleeper" if options else "sleeper")
    with open(source, "w", encoding="ascii") as file:
        file.write(SLEEPER)
    subprocess.run(["gcc", *options, "-o", program, source], check=True, stderr=subprocess.DEVNULL)
    return program


def said(tools, folder, script, *words):
    """Runs a script under `allogram run`. Returns the exit status of `run` and the lines that it printed."""
    outcome = recorded.run([tools.allogram, "run", "-o", os.path.join(folder, "t.%p.allogram"), "--", "bash", "-c", script, *words])
    return outcome.status, outcome.stderr.decode()


def counted(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        static, plain = build(folder, "-static"), build(folder)
        status, text = said(tools, folder, '"$0" $2; env -i "$1" $2; "$1" $2; true', static, plain, str(LONG_MS))
        failures.expect("status", status, 0)
        failures.expect("number and names of the processes that are not recorded", re.findall(r"(\d+) process(?:es were| was) not recorded.*: (.*)", text), [("2", "static_sleeper, sleeper")])
        failures.expect('the closing line says "nothing lost"', "; nothing lost\n" in text, False)
        status, text = said(tools, folder, 'exec "$0" 250', static)
        found = re.findall(r"(\d+) process(?:es were| was) not recorded.*: (.*)", text)
        failures.require("the program of `run` itself counts: %s" % found, found in ([("1", "static_sleeper")], [("1", "executed by bash")]))
        status, text = said(tools, folder, '"$0" $1; ("$0" 1; "$0" 1); "$0" 400 & wait', plain, str(LONG_MS))
        failures.expect('the closing line says "not recorded" although all are recorded', "not recorded" in text, False)
        failures.expect('the closing line says "nothing lost"', "; nothing lost\n" in text, True)
    return failures


def counted_however_short(tools):
    """The programs end at once. A program in which no recorder starts counts as not recorded."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        static, plain = build(folder, "-static"), build(folder)
        source, starter = os.path.join(folder, "starter.c"), os.path.join(folder, "starter")
        with open(source, "w", encoding="ascii") as file:
            file.write(STARTER)
        subprocess.run(["gcc", "-o", starter, source], check=True)
        for program, options, wanted in ((static, [], [("14", "executed by starter, executed by dash")]), (plain, [], []),
                                         (static, ["--mode=sample"], [("14", "executed by starter, executed by dash")])):
            outcome = recorded.run([tools.allogram, "run", *options, "-o", os.path.join(folder, "t.%p.allogram"), "--", starter, program])
            found = re.findall(r"(\d+) process(?:es were| was) not recorded.*: (.*)", outcome.stderr.decode())
            failures.expect("status", outcome.status, 0)
            failures.expect("%s %s" % (os.path.basename(program), options), [(n, set(names.split(", ")) - {"static_sleeper"}) for n, names in found],  # the name is known only if the writer sees the short-lived process
                            [(n, set(names.split(", "))) for n, names in wanted])
    return failures


def without_the_agents_file(tools):
    """The program makes a mount namespace in which the agent's file does not exist. The agent's hooks of exec and posix_spawn
    remove the agent from the LD_PRELOAD of the executed program, so the loaders of these 11 programs print no error. But system and popen start
    their shells inside the C library, with an unchanged LD_PRELOAD: the loader prints an error for each of the four shells, and for each of the
    three programs that these shells execute. The 11 programs and the four shells count as not recorded."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        plain, source, starter = build(folder), os.path.join(folder, "starter.c"), os.path.join(folder, "starter")
        with open(source, "w", encoding="ascii") as file:
            file.write(STARTER)
        subprocess.run(["gcc", "-o", starter, source], check=True)
        agents = os.path.join(os.path.dirname(os.path.realpath(tools.allogram)), "../../adapters/libc")
        command = [tools.allogram, "run", "-o", os.path.join(folder, "t.%p.allogram"), "--", starter, os.path.realpath(agents), plain]
        outcome = recorded.run(command)
        failures.expect("status", outcome.status, 0)
        failures.expect("errors of the loader", outcome.stderr.count(b"cannot be preloaded"), 7)
        failures.expect("processes that are not recorded", re.findall(rb"(\d+) processes were not recorded", outcome.stderr), [b"15"])
        with open(os.path.join(folder, "show.sh"), "w", encoding="ascii") as file:
            file.write('#!/bin/sh\necho "LD_PRELOAD is $LD_PRELOAD"\n')
        os.chmod(file.name, 0o755)
        with open(os.path.join(folder, "other.c"), "w", encoding="ascii") as other:
            other.write("int other;\n")
        library = os.path.join(folder, "other.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, other.name], check=True)
        outcome = recorded.run([*command[:-1], file.name], env={"LD_PRELOAD": library})
        shown = outcome.stdout.decode().splitlines()
        # fexecve cannot execute a script by a descriptor that exec closes
        failures.expect("LD_PRELOAD of the executed scripts", shown.count("LD_PRELOAD is " + library), 10)
    return failures


def counted_once_through_wrappers(tools):
    """A preloaded library replaces execv and execvp by functions that call execve and execvpe. Each executed program must count once."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        static, plain = build(folder, "-static"), build(folder)
        sources = {"starter": STARTER, "wrapper.so": WRAPPER}
        for name, text in sources.items():
            with open(os.path.join(folder, name + ".c"), "w", encoding="ascii") as file:
                file.write(text)
            options = ["-shared", "-fPIC"] if name == "wrapper.so" else []
            subprocess.run(["gcc", *options, "-o", os.path.join(folder, name), os.path.join(folder, name + ".c")], check=True)
        for program, wanted in ((static, ["14"]), (plain, [])):
            outcome = recorded.run([tools.allogram, "run", "-o", os.path.join(folder, "t.%p.allogram"), "--", os.path.join(folder, "starter"),
                                    program], env={"LD_PRELOAD": os.path.join(folder, "wrapper.so")})
            failures.expect("%s: status" % program, outcome.status, 0)
            failures.expect("%s: processes that are not recorded" % program,
                            re.findall(r"(\d+) process(?:es were| was) not recorded", outcome.stderr.decode()), wanted)
    return failures


def counted_of_orphans(tools):
    """The parents of the programs end at once. A program in which no recorder starts counts as not recorded."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        static, plain = build(folder, "-static"), build(folder)
        source, adopter = os.path.join(folder, "adopter.c"), os.path.join(folder, "adopter")
        with open(source, "w", encoding="ascii") as file:
            file.write(ADOPTER)
        subprocess.run(["gcc", "-o", adopter, source], check=True)
        has_namespaces = subprocess.run(["unshare", "--pid", "--fork", "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0
        for kind in ("subreaper", "init") if has_namespaces else ("subreaper",):
            for program, wanted in ((plain, []), (static, [("20", "executed by adopter")])):
                outcome = recorded.run([tools.allogram, "run", "-o", os.path.join(folder, "t.%p.allogram"), "--", adopter, kind, program, "20"])
                failures.expect("%s: status" % kind, outcome.status, 0)
                failures.expect("%s %s" % (kind, os.path.basename(program)),
                                re.findall(r"(\d+) process(?:es were| was) not recorded.*: (.*)", outcome.stderr.decode()), wanted)
    return failures


def removed_file(tools):
    """The live file (the shared memory of the recording) is removed while the program runs. The recording continues, and `run` reports that
    new processes cannot be recorded."""
    failures = tap.Failures()
    remove = "rm \"$(grep -om1 '/dev/shm/[.]allogram-live.*' /proc/$$/maps)\"; "
    with recorded.Folder() as folder:
        plain = build(folder)
        status, text = said(tools, folder, remove + '(:); "$0" 1; "$0" 2; exit 7', plain)
        failures.expect("status", status, 7)
        failures.expect("a message says that the live file was removed",
                        "the live file in /dev/shm was removed while the program ran" in text, True)
        failures.expect('the closing line says "nothing lost"', "; nothing lost\n" in text, False)
        failures.expect("the trace is whole", [check for check in checks(tools, folder) if not check["whole"]], [])
    # The program removes the live file at its start. On one CPU, in one of ten runs, the writer has not locked the file yet.
    with recorded.Folder() as folder:
        source, program = os.path.join(folder, "remover.c"), os.path.join(folder, "remover")
        with open(source, "w", encoding="ascii") as file:
            file.write(REMOVER)
        subprocess.run(["gcc", "-o", program, source], check=True)
        cpu = str(min(os.sched_getaffinity(0)))
        for _ in range(40):
            outcome = recorded.run(["taskset", "-c", cpu, tools.allogram, "run", "-o", os.path.join(folder, "t.allogram"), "--", program])
            failures.expect("removed at once: status", outcome.status, 0)
            failures.expect("removed at once: the writer fails", b"failed" in outcome.stderr, False)
            failures.expect("removed at once: the trace is whole", [check for check in checks(tools, folder) if not check["whole"]], [])
    return failures


def nothing_is_left(tools):
    """When `run` returns, its live file (the shared memory of the recording) and its writer do not exist any more."""
    failures = tap.Failures()
    show = "grep -om1 '/dev/shm/[.]allogram-live.*' /proc/$$/maps; "
    with recorded.Folder() as folder:
        plain = build(folder)
        for script in ("exit 0", '"$0"', '("$0"; "$0") & "$0"; wait', 'kill -9 $$'):
            for mode in ("exact", "sample"):
                outcome = recorded.run([tools.allogram, "run", "-q", "--mode=" + mode, "-o", os.path.join(folder, "t.%p.allogram"), "--", "bash", "-c", show + script, plain])
                live = outcome.stdout.decode().strip()
                failures.require("the program has the live file mapped: %r" % live, "allogram-live" in live)
                failures.expect("%s, %s: the folder of the live file exists" % (script, mode), os.path.exists(os.path.dirname(live)), False)
                writers = [name for name in os.listdir("/proc") if name.isdigit() and maps_of(name).find(live) >= 0]
                failures.expect("%s, %s: processes that have the live file mapped" % (script, mode), writers, [])
    return failures


def maps_of(pid):
    try:
        with open("/proc/%s/maps" % pid, encoding="utf-8", errors="replace") as maps:
            return maps.read()
    except OSError:
        return ""


def without_memory(tools):
    """In a forked child, there is no memory for the recorder's state of the thread. So the child leaves the recording: its trace says that it
    was detached, and counts a lost event."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        source, program = os.path.join(folder, "poor.c"), os.path.join(folder, "poor")
        with open(source, "w", encoding="ascii") as file:
            file.write(POOR_CHILD)
        subprocess.run(["gcc", "-pthread", "-o", program, source], check=True)
        outcome, traces = recorded.record(tools, [program], folder)
        failures.expect("status", outcome.status, 0)
        views = [recorded.report(tools, trace) for trace in traces]
        failures.expect("end and lost events of parent and child", [(view["trace"]["end"], view["lost_events"]["total"]) for view in views],
                        [("exit", 0), ("detached", 1)])
    return failures


def executed_at_the_end(tools):
    """The program starts another program by system calls of its own, and ends before the recording of that program begins."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        plain, source, starter = build(folder), os.path.join(folder, "late.c"), os.path.join(folder, "late")
        with open(source, "w", encoding="ascii") as file:
            file.write(LATE_STARTER)
        subprocess.run(["gcc", "-o", starter, source], check=True)
        for number in range(20):
            inner = os.path.join(folder, str(number))
            os.mkdir(inner)
            outcome = recorded.run([tools.allogram, "run", "-q", "-o", os.path.join(inner, "t.%p.allogram"), "--", starter, plain])
            failures.expect("status", outcome.status, 0)
            commands = [recorded.report(tools, trace)["trace"]["command"][0] for trace in recorded.wait_until_ended(tools, inner, n_traces=2)]
            failures.expect("recorded programs", sorted(set(commands)), sorted([starter, plain]))
    return failures


def checks(tools, folder):
    return [json.loads(subprocess.run([tools.allogram, "check", "--json", os.path.join(folder, name)], capture_output=True, check=False).stdout)
            for name in os.listdir(folder) if name.endswith(".allogram")]


def without_following(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        static = build(folder, "-static")
        outcome = recorded.run([tools.allogram, "run", "--follow=none", "-o", os.path.join(folder, "t.%p.allogram"), "--", "bash", "-c",
                                '"$0" $1; true', static, str(LONG_MS)])
        failures.expect('a line says "not recorded"', b"not recorded" in outcome.stderr, False)
    return failures


def unseen_allocator(tools):
    """The closing line names the allocators that the report lists as not seen."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for mode in ("exact", "sample"):
            outcome = recorded.run([tools.allogram, "run", "--mode=" + mode, "-o", os.path.join(folder, mode + ".allogram"), "--",
                                    tools.program("fake_julia")], env={"FAKE_JULIA": "1.5.4"})
            runtimes = recorded.report(tools, os.path.join(folder, mode + ".allogram"))["runtimes"]
            failures.expect("%s: not seen, in the report" % mode, [runtime["name"] for runtime in runtimes if not runtime["hooked"]], ["julia"])
            failures.expect("%s: not recorded, in the closing line" % mode, b"; not recorded: allocations of julia\n" in outcome.stderr, True)
            failures.expect('%s: the closing line says "nothing lost"' % mode, b"nothing lost" in outcome.stderr, False)
    return failures


def second_c_library(tools):
    """A C library in a namespace of its own (dlmopen) has a malloc that the agent does not see. The closing line and the report say so."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        source, program, trace = (os.path.join(folder, name) for name in ("second.c", "second", "t.allogram"))
        with open(source, "w", encoding="ascii") as file:
            file.write(SECOND_LIBC)
        subprocess.run(["gcc", "-w", "-o", program, source, "-ldl"], check=True)
        outcome = recorded.run([tools.allogram, "run", "-o", trace, "--", program])
        failures.expect("status", outcome.status, 0)
        failures.require("not recorded, in the closing line: %r" % outcome.stderr, b"; not recorded: allocations of libc (dlmopen)\n" in outcome.stderr)
        hooked = {runtime["name"]: runtime["hooked"] for runtime in recorded.report(tools, trace)["runtimes"]}
        failures.expect("what is recorded, in the report", hooked, {"libc": True, "libc (dlmopen)": False})
    return failures


def deep_binding(tools):
    """Calls of malloc in a library that was opened with RTLD_DEEPBIND do not reach the agent. The closing line says so, also if the library was
    closed before the end."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        program, library = os.path.join(folder, "binder"), os.path.join(folder, "library.so")
        for text, arguments in ((DEEP_BINDER, (program, "-ldl")), (DEEP_LIBRARY, (library, "-shared", "-fPIC"))):
            subprocess.run(["gcc", "-w", "-x", "c", "-o", arguments[0], "-", *arguments[1:]], input=text.encode(), check=True)
        for arguments in ((), ("close",)):
            outcome = recorded.run([tools.allogram, "run", "-o", os.path.join(folder, "t.allogram"), "--", program, library, *arguments])
            failures.expect("status", outcome.status, 0)
            failures.require("not recorded, in the closing line: %r" % outcome.stderr,
                             b"; not recorded: allocations of libc (RTLD_DEEPBIND)\n" in outcome.stderr)
    return failures


# Allocates by glibc's inner names. With -DWRAPPER, the program calls functions of its own named malloc and free, which call the inner names.
INNER_NAMES = r"""
#include <stddef.h>
extern void *__libc_malloc(size_t size);
extern void __libc_free(void *block);
#ifdef WRAPPER
__attribute__((noinline)) void *malloc(size_t size) { return __libc_malloc(size); }
__attribute__((noinline)) void free(void *block) { __libc_free(block); }
#else
#define malloc __libc_malloc
#define free __libc_free
#endif
int main(void) {
    for (int i = 0; i < 100; i++) {
        free(malloc(1234));
    }
    return 0;
}
"""


def inner_names(tools):
    """Calls of __libc_malloc are not recorded, and the closing line says so. If the program's own malloc calls it, all blocks are recorded."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for options, ending in (([], b"; not recorded: allocations of libc (__libc_malloc)\n"), (["-DWRAPPER"], b"; nothing lost\n")):
            program, trace = os.path.join(folder, "program"), os.path.join(folder, "t.allogram")
            subprocess.run(["gcc", "-O1", "-fno-builtin", "-w", *options, "-x", "c", "-o", program, "-"], input=INNER_NAMES.encode(), check=True)
            outcome = recorded.run([tools.allogram, "run", "-o", trace, "--", program])
            failures.expect("status", outcome.status, 0)
            failures.require("the closing line ends with %r: %r" % (ending, outcome.stderr), ending in outcome.stderr)
            blocks = sum(row["size"] == 1234 for row in recorded.report(tools, trace, "--view=blocks", "--limit=0")["blocks"])
            failures.expect("blocks with %s" % options, blocks, 100 if options else 0)
            os.remove(trace)
    return failures


def under_valgrind(tools):
    """Valgrind's tool memcheck replaces malloc in the program, so none of its calls are recorded, and the closing lines say so: also if the program is
    a child of the recorded one. Under the tool none, all calls are recorded. Valgrind must not complain about the agent."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        program = build(folder)
        for tool, unseen in (("memcheck", True), ("none", False)):
            outcome, traces = recorded.record(tools, ["valgrind", "-q", "--tool=" + tool, program], folder)
            failures.expect("status and output with the tool " + tool, (outcome.status, outcome.stdout, outcome.stderr), (0, b"", b""))
            last = recorded.report(tools, traces[-1])
            note = last["runtimes"][0]["note"]
            failures.expect("recorded with the tool " + tool, (last["runtimes"][0]["hooked"], last["allocated_blocks"]), (not unseen, 0 if unseen else 1))
            failures.require("the reason is named: %r" % note, ("Valgrind" in note) == unseen)
            for trace in traces:
                os.remove(trace)
        for command, ending in (([], "; not recorded: allocations of libc\n"), (["sh", "-c", '"$@"; exit 0', "sh"], "; allocations of sleeper not recorded ")):
            outcome = recorded.run([tools.allogram, "run", "-o", os.path.join(folder, "t.%p.allogram"), "--", *command, "valgrind", "-q", program])
            failures.require("the closing lines contain %r: %r" % (ending, outcome.stderr), ending.encode() in outcome.stderr)
    return failures


def glibc_version():
    return tuple(int(number) for number in os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")[:2])


def is_over(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def the_writer_ends(tools):
    """The writer gets one SIGTERM. Then it must end when the program ends, although a child of the program still runs. The child's trace ends
    at this moment and is whole, and the child runs on."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        plain = build(folder)
        process = subprocess.Popen([tools.allogram, "run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--", "bash", "-c",
                                    '"$0" 3000 & read line; exit 4', plain], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        deadline = time.monotonic() + 20
        while (len(recorded.traces_in(folder)) < 2 or recorded.writer_of(process.pid) is None) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)  # in that time the child executes its program
        writer = recorded.writer_of(process.pid)
        os.kill(writer, signal.SIGTERM)
        time.sleep(0.2)
        failures.expect("the writer ended before the program", is_over(writer), False)
        process.stdin.write(b"go\n")
        process.stdin.close()
        began = time.monotonic()
        failures.expect("status", process.wait(timeout=20), 4)
        while not is_over(writer) and time.monotonic() < began + 2.5:
            time.sleep(0.05)
        failures.expect("the writer has ended; it ended before the child", (is_over(writer), time.monotonic() < began + 2.5), (True, True))
        ends = [recorded.report(tools, trace)["trace"]["end"] for trace in recorded.traces_in(folder)]
        failures.expect("ends that are cut", ends.count("cut"), 1)
        failures.expect("all traces are whole", all(recorded.check(tools, trace)[1].get("whole") for trace in recorded.traces_in(folder)), True)
        process.stdout.read()  # lasts until the child ends
        process.stdout.close()
    return failures


# Executes two commands with sh. Waits until each child has ended, leaves it as a zombie for 0.7 s, and only then takes its exit status.
PATIENT_PARENT = r"""
#define _GNU_SOURCE
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    static const char *const commands[] = {"exit 3", "kill -9 $$"};
    for (int i = 0; i < 2; i++) {
        siginfo_t info;
        const pid_t child = fork();
        if (child == 0) {
            execlp("sh", "sh", "-c", commands[i], (char *)NULL);
            _exit(127);
        }
        waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
        usleep(700 * 1000);
        waitpid(child, NULL, 0);
    }
    return 0;
}
"""


def linux_version():
    return tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2])


def statuses(tools, is_patient):
    """The traces of processes that are not direct children of `run` contain the exit status. If the parent of a process has taken the status
    already, Linux still gives it from version 6.15 on (src/writer/process_watch.h)."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        command = ["bash", "-c", 'sh -c "sleep 0.05; exit 3"; sh -c "sleep 0.05; kill -9 \\$\\$"; true']
        if is_patient:
            command = [os.path.join(folder, "parent")]
            subprocess.run(["gcc", "-w", "-x", "c", "-o", command[0], "-"], input=PATIENT_PARENT.encode(), check=True)
        recorded.record(tools, command, folder)
        found = []
        for trace in recorded.wait_until_ended(tools, folder):
            lines = recorded.run([tools.allogram, "dump", trace]).stdout.decode(errors="replace").splitlines()
            end = [line for line in lines if " end how=" in line][-1]
            if recorded.report(tools, trace)["trace"]["command"][0] == "sh":
                found.append(re.search(r"how=(\d) wait_status=(\d+) wait_status_known=(\d)", end).groups())
        failures.expect("how the processes ended, wait status, whether it is known", sorted(found), [("1", str(3 << 8), "1"), ("2", "9", "1")])
    return failures


def main():
    tools = recorded.tools_of_arguments()
    cases = {"processes that are not recorded are counted and named": counted, "programs that end at once are counted": counted_however_short,
             "programs that a preloaded library executes are counted once": counted_once_through_wrappers,
             "the agent's file does not exist for the executed programs": without_the_agents_file,
             "programs of orphans are counted": counted_of_orphans, "with --follow=none no process is reported as not recorded": without_following,
             "a live file that was removed": removed_file,
             "nothing is left when run returns": nothing_is_left,
             "a program that is executed at the end is recorded": executed_at_the_end,
             "a forked child without memory for its recording": without_memory,
             "a writer that is asked to end": the_writer_ends,
             "statuses of grandchildren": lambda tools: statuses(tools, is_patient=True),
             "an allocator that was not seen": unseen_allocator,
             "a library opened with RTLD_DEEPBIND": deep_binding, "inner names of glibc's malloc": inner_names}
    results = tap.Plan(len(cases) + 3)
    for name, case in cases.items():
        results.run(name, lambda case=case: case(tools))
    if shutil.which("valgrind"):
        results.run("under Valgrind", lambda: under_valgrind(tools))
    else:
        results.skip("under Valgrind", "no valgrind here")
    if linux_version() < (6, 15):
        results.skip("statuses that the parent takes at once", "Linux gives them from 6.15 on")
    else:
        results.run("statuses that the parent takes at once", lambda: statuses(tools, is_patient=False))
    if glibc_version() < (2, 35):
        results.skip("a second C library", "this glibc does not report whether there is one")
    else:
        results.run("a second C library", lambda: second_c_library(tools))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
