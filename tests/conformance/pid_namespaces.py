#!/usr/bin/env python3
"""Processes in pid namespaces of their own, as in containers. The pid that such a process itself sees does not exist outside of the
namespace, or belongs to another process there. Each process must be recorded to its end, and its trace must not be sealed (completed)
earlier."""

import os
import shutil
import signal
import subprocess
import sys
import time

import recorded
import tap

TRUTH = {"allocated_blocks": 1100001, "freed_blocks": 600000}  # of the program million_blocks


def can_unshare():
    return subprocess.run(["unshare", "-p", "-f", "--mount-proc", "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0


def expect_traces(failures, tools, traces, n, truth):
    """Checks that there are N traces, each whole and with the counts of TRUTH."""
    failures.expect("number of traces", len(traces), n)
    for trace in traces:
        status, verdict = recorded.check(tools, trace)
        summary = recorded.report(tools, trace)
        name = os.path.basename(trace)
        failures.expect(name + ": check", (status, verdict.get("whole")), (0, True))
        failures.expect(name + ": end", summary["trace"]["end"], "exit")
        failures.expect(name + ": lost", summary["lost_events"]["total"], 0)
        for key, value in truth.items():
            failures.expect("%s: %s" % (name, key), summary[key], value)


def of_program(tools, traces, program):
    return [trace for trace in traces
            if os.path.basename(recorded.report(tools, trace)["trace"]["command"][0]) == os.path.basename(program)]


def one(tools, *options):
    """Records a program with pid 1, with the /proc of the outer namespace or of its own. Its trace must be whole when `run` returns."""
    failures = tap.Failures()
    program = tools.program("million_blocks")
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, ["unshare", "-p", "-f", *options, program], folder)
        failures.expect("status", outcome.status, 0)
        failures.expect("standard output", outcome.stdout, b"a million\n")
        expect_traces(failures, tools, of_program(tools, traces, program), 1, TRUTH)
    return failures


def twins(tools):
    """Records two programs at the same time that have pid 1, each in its own namespace."""
    failures = tap.Failures()
    program = tools.program("million_blocks")
    script = 'unshare -p -f "$0" & unshare -p -f --mount-proc "$0" & wait'
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, ["sh", "-c", script, program], folder)
        failures.expect("status", outcome.status, 0)
        expect_traces(failures, tools, of_program(tools, traces, program), 2, TRUTH)
    return failures


def same_number(tools):
    """A child has, in its namespace, the same pid as a process outside of the namespace. The end of one of these processes must not end the
    recording of the other."""
    failures = tap.Failures()
    program = tools.program("million_blocks")
    script = ('export P=$$; unshare -p -f --mount-proc sh -c \'echo $((P-1)) >/proc/sys/kernel/ns_last_pid; "$0"; true\' "$0" & '
              'exec "$0"')
    with recorded.Folder() as folder:
        outcome, _ = recorded.record(tools, ["sh", "-c", script, program], folder)
        failures.expect("status", outcome.status, 0)
        found = of_program(tools, recorded.wait_until_ended(tools, folder), program)
        failures.expect("number of different pids of the two processes", len({recorded.report(tools, trace)["trace"]["pid"] for trace in found}), 1)
        expect_traces(failures, tools, found, 2, TRUTH)
    return failures


def chosen(tools):
    """The parent starts its children in a namespace of which it is not a member. The children have the pids 1, 2 and 3 there; outside of
    the namespace these are the pids of other processes."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("chosen_namespace")], folder)
        failures.expect("status", (outcome.status, outcome.stdout), (0, b"three\n"))
        blocks = sorted(recorded.report(tools, trace)["allocated_blocks"] for trace in traces)
        failures.expect("blocks of the processes", blocks, [200, 400, 600, 5000])
        expect_traces(failures, tools, traces, 4, {})
    return failures


def cousins(tools):
    """Short-lived processes with pid 1, in two namespaces at a time. Each must have a trace of its own, although all have the same pid."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("cousins")], folder)
        failures.expect("status", outcome.status, 0)
        blocks = [recorded.report(tools, trace)["allocated_blocks"] for trace in traces]
        failures.expect("traces with 100 blocks", blocks.count(100), int(outcome.stdout))
    return failures


def tree_of_namespaces(tools):
    """Three namespaces at the same time, in which processes have the same pids. For each, `unshare` forks a child, which executes a shell (pid 1).
    This shell starts another shell, and that shell starts a program; the argument of the program is the number of the namespace. In the process
    tree, each process must be below the right parent."""
    failures = tap.Failures()
    inner = 'sh -c "/bin/ls / $N >/dev/null 2>&1; true" $N; true'
    script = "for N in 1 2 3; do export N; (unshare -p -f --mount-proc sh -c '%s' $N; true) & done; wait; true" % inner
    with recorded.Folder() as folder:
        outcome, _ = recorded.record(tools, ["sh", "-c", script], folder)
        failures.expect("status", outcome.status, 0)
        traces = recorded.wait_until_ended(tools, folder, n_traces=1 + 3 * 6)
        rows = {row["file"]: row for row in recorded.report(tools, traces[0], "--view=process_tree", *traces[1:])["processes"]}
        chains = []
        for row in rows.values():
            if os.path.basename(row["command"][0]) == "ls":
                number, chain, at = row["command"][-1], [], row
                while at is not None:
                    chain.append((os.path.basename(at["command"][0]), at["was_executed"], at["command"][-1] in ("1", "2", "3") and at["command"][-1] != number))
                    at = rows.get(at["parent_file"])
                chains.append(chain)
        # each chain: the program; its shell; pid 1; the child of unshare, which executed pid 1; unshare; the subshell that executed it; the
        # first shell
        failures.expect("programs", len(chains), 3)
        for chain in chains:
            failures.expect("names of the ancestors", [name for name, _, _ in chain], ["ls", "sh", "sh", "unshare", "unshare", "sh", "sh"])
            failures.expect("ancestors of another namespace", [name for name, _, is_other in chain if is_other], [])
            failures.expect("executed", [executed for _, executed, _ in chain[1:4]], [False, True, False])
        failures.expect("identities", len({row["identity"] for row in rows.values()}), len(rows))
    return failures


def living(tools):
    """`run` and the writer (the process that writes the traces) are killed. As long as a process in a namespace lives, `check` must not seal
    (complete) its trace."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        process = subprocess.Popen([tools.allogram, "run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--", "unshare",
                                    "-p", "-f", "--mount-proc", "sh", "-c", "read line; exec \"$0\"", tools.program("temporary")],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        deadline = time.monotonic() + 20
        while len(recorded.traces_in(folder)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.2)
        writer = recorded.writer_of(process.pid)
        os.kill(process.pid, signal.SIGKILL)  # `run` is killed first, because it would start another writer
        os.kill(writer, signal.SIGKILL)
        process.wait()
        early = {trace: recorded.check(tools, trace)[0] for trace in recorded.traces_in(folder)}
        process.stdin.write(b"go\n")
        process.stdin.close()
        output = process.stdout.read()  # waits for the end of the program, which has the pipe open
        process.stdout.close()
        failures.expect("standard output", output, b"temporary\n")
        failures.require("there were traces: %s" % early, len(early) >= 2)
        time.sleep(0.2)
        for trace in recorded.traces_in(folder):
            recorded.check(tools, trace)
        expect_traces(failures, tools, of_program(tools, recorded.traces_in(folder), "temporary"), 1, {"allocated_blocks": 6010})
    return failures


NOBODY = 65534
BLOCKS = 200000  # allocated by each process of the program hidden


def as_nobody(tools, folder):
    """Prepares recordings by an ordinary user: copies the command, the library that it preloads and the program to FOLDER, where the user
    may read them. Returns the tools in FOLDER, and the words of a command that executes another command as this user."""
    for path in (tools.allogram, os.path.join(tools.build, "adapters/libc/liballogram-agent.so"), tools.program("hidden")):
        shutil.copy(path, folder)
    os.chmod(folder, 0o777)  # mkdtemp has made the folder readable for root alone
    copied = recorded.Tools(tools.build)
    copied.allogram = os.path.join(folder, "allogram")
    copied.programs = folder
    return copied, ["setpriv", "--reuid=%d" % NOBODY, "--regid=%d" % NOBODY, "--clear-groups"]


def live_files(user):
    return [name for name in os.listdir("/dev/shm")
            if name.startswith(".allogram-live.") and owner(os.path.join("/dev/shm", name)) == user]


def owner(path):
    try:
        return os.stat(path).st_uid
    except FileNotFoundError:
        return None


def hidden(tools, kind, n_processes, *wrapper):
    """Records processes whose /proc files an ordinary user may not read. Each must have a whole trace of its own, and no live file (the
    shared memory of the recording) may be left."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        copied, user = as_nobody(tools, folder)
        command = [*user, copied.allogram, "run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--", *wrapper,
                   copied.program("hidden"), str(BLOCKS), kind]
        outcome = recorded.run(command, timeout=60)
        failures.expect("status", outcome.status, 0)
        failures.expect("standard error", outcome.stderr, b"")
        deadline = time.monotonic() + 20
        while live_files(NOBODY) and time.monotonic() < deadline:
            time.sleep(0.05)
        failures.expect("live files", live_files(NOBODY), [])
        found = of_program(tools, recorded.traces_in(folder), "hidden")
        expect_traces(failures, tools, found, n_processes,
                      {"allocated_blocks": BLOCKS, "allocated_bytes": 40 * BLOCKS, "freed_blocks": BLOCKS})
        for trace in found:
            # The resident size is 0 if it is not known; it must not be that of the process that has the pid outside of the namespace.
            resident = recorded.report(tools, trace)["rss_peak_bytes"]
            failures.expect("%s: resident size %d" % (os.path.basename(trace), resident), resident < 8 << 20, True)
    return failures


def can_be_nobody():
    return os.geteuid() == 0 and subprocess.run(
        ["setpriv", "--reuid=%d" % NOBODY, "--regid=%d" % NOBODY, "--clear-groups", "unshare", "--user", "--map-root-user", "--pid",
         "--fork", "--mount-proc", "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0


def main():
    tools = recorded.tools_of_arguments()
    cases = {"pid 1, with the outer /proc": lambda: one(tools),
             "pid 1, with a /proc of its own": lambda: one(tools, "--mount-proc"),
             "two programs with pid 1": lambda: twins(tools),
             "a pid that another process has outside": lambda: same_number(tools),
             "children in a namespace that is not their parent's": lambda: chosen(tools),
             "short-lived processes with pid 1 in several namespaces": lambda: cousins(tools),
             "the tree of processes with the same pids in three namespaces": lambda: tree_of_namespaces(tools),
             "alive after `run` and the writer were killed": lambda: living(tools)}
    sandbox = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    users_cases = {"an ordinary user's process that is not dumpable, in namespaces": lambda: hidden(tools, "", 1, *sandbox),
                   "a child of pid 1": lambda: hidden(tools, "fork", 2, *sandbox),
                   "pid 1 of a nested namespace": lambda: hidden(tools, "nest", 2, *sandbox),
                   "sandboxed children without exec": lambda: hidden(tools, "sandbox", 3),
                   "sandboxed children of pid 1": lambda: hidden(tools, "sandbox", 3, *sandbox)}
    results = tap.Plan(len(cases) + len(users_cases))
    allowed = can_unshare()
    for name, case in cases.items():
        if allowed:
            results.run(name, case)
        else:
            results.skip(name, "this machine does not permit pid namespaces")
    users_allowed = can_be_nobody()
    for name, case in users_cases.items():
        if users_allowed:
            results.run(name, case)
        else:
            results.skip(name, "needs root, to become a user, and a kernel that lets users make namespaces")
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
