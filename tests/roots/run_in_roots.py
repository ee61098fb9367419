#!/usr/bin/env python3
"""run_in_roots ROOTS BUILD: tests the agent (the library that allogram preloads) in programs of an older and a newer Debian release. Two folders
below ROOTS, the roots, have the root file systems of these releases (make_roots.sh). Prints TAP.

allogram itself runs outside of the root: `allogram run -- chroot ROOT PROGRAM`. So a case also tests recording through exec and chroot, and
reading with --sysroot. Three folders of this machine are mounted in the root, in a mount namespace that ends with the test: the folder of the
agent, /dev/shm, which has the shared memory of the recording, and /proc.

The programs are programs of the root, and programs of tests/programs, which are compiled for the libc of the root. A preloaded library
(tests/programs/counting_preload.c, the judge) counts the allocations of each program in the same process, for comparison. Two more cases per
release attach to a program, and one case records the Lua of the newer release.
"""

import os
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../conformance"))
import counted  # noqa: E402
import lua_adapter  # noqa: E402
import own_mounts  # noqa: E402
import recorded  # noqa: E402
import tap  # noqa: E402

PUBLIC = os.path.join(HERE, "../../include")
SUITES = {"bullseye": "glibc 2.31", "trixie": "glibc 2.41"}
INSIDE = "/allogram-test"  # folder in the root: programs, and the counts of the judge
HAND_COUNTED = {
    "family": [],
    "cross_free": [],
    "short_threads": [],
    "longjmp_deep": [],
    "recursion": [],
    "alloca_frames": [],
    "around_main": [],
    "plugins": [INSIDE],
    "libc_inside": [],
}
OF_THE_ROOT = {
    "perl": ["/usr/bin/perl", "-e", "my %h; $h{$_ % 977} .= chr(65 + $_ % 26) for 1 .. 60000; print join '', map { $h{$_} } sort keys %h"],
    "sort": ["/usr/bin/sort", "/usr/share/dict/none", "/etc/debconf.conf", "/etc/passwd"],
    "dpkg-query": ["/usr/bin/dpkg-query", "-W"],
    "bash": ["/bin/bash", "-c", "for i in {1..2000}; do a[$i]=$(( i * i )); done; echo ${a[@]}"],
}


def compile_for(root, source, output, *flags):
    libraries = os.path.join(root, "usr/lib/x86_64-linux-gnu")
    command = ["gcc", f"--sysroot={root}", f"-B{libraries}", f"-L{libraries}", "-D_GNU_SOURCE", "-fno-builtin", "-g", "-O2", "-w",
               "-o", output, source, *flags, "-lpthread", "-ldl"]
    subprocess.run(command, check=True)


def prepare(root, agent_folder):
    folder = root + INSIDE
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder + "/counts")
    compile_for(root, recorded.source_of("counting_preload.c"), folder + "/judge.so", "-shared", "-fPIC")
    for plugin in ("plugin_red", "plugin_blue"):
        compile_for(root, recorded.source_of(plugin + ".c"), f"{folder}/{plugin}.so", "-shared", "-fPIC")
    for name in HAND_COUNTED:
        compile_for(root, recorded.source_of(name + ".c"), f"{folder}/{name}")
    compile_for(root, os.path.join(HERE, "../observe/hammer.c"), folder + "/hammer")
    own_mounts.bind("/dev/shm", root + "/dev/shm")
    own_mounts.bind("/proc", root + "/proc")
    own_mounts.bind(agent_folder, root + agent_folder)


def run_case(tools, root, command):
    failures = tap.Failures()
    inside = ["chroot", root, "/usr/bin/env", "PERL_HASH_SEED=0"]
    plain = recorded.run([*inside, *command])

    # Without the judge: the program behaves as without allogram, the traces are whole, and nothing is lost.
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [*inside, *command], folder)
        failures.expect("standard output", outcome.stdout, plain.stdout)
        failures.expect("standard error", outcome.stderr, plain.stderr)
        failures.expect("status", outcome.status, plain.status)
        failures.require("chroot, env and the program have a trace each", len(traces) >= 3)
        if failures:
            return failures
        sites = recorded.report(tools, traces[-1], "--view=sites", "--sysroot=" + root)["sites"]
        failures.require("functions are found with --sysroot", any(not site["function"].startswith("0x") for site in sites))
        for trace in traces:
            summary = recorded.report(tools, trace)
            failures.expect("lost events", summary["lost_events"]["total"], 0)
            failures.expect("check's status", recorded.check(tools, trace)[0], 0)

    # With the judge in the same process: the trace and the judge have equal counts.
    with recorded.Folder() as folder:
        for name in os.listdir(root + INSIDE + "/counts"):
            os.unlink(os.path.join(root + INSIDE + "/counts", name))
        script = f'LD_PRELOAD="{INSIDE}/judge.so:$LD_PRELOAD" COUNTING_FOLDER={INSIDE}/counts exec "$@"'
        outcome, traces = recorded.record(tools, [*inside, "/bin/sh", "-c", script, "sh", *command], folder)
        failures.expect("judged: standard output", outcome.stdout, plain.stdout)
        counts = counted.read(root + INSIDE + "/counts")
        failures.expect("judged processes", len(counts), 1)
        if failures:
            return failures
        summary = recorded.report(tools, traces[-1])
        for key, value in counts[0].items():
            if key in ("allocated_blocks", "allocated_bytes", "freed_blocks", "freed_bytes", "inherited_frees", "ghost_frees"):
                failures.expect(key, summary[key], value)
    return failures


LUA = "trixie"  # the release with another Lua than this machine


def another_lua(tools, root):
    """Tests the frames of a deep Lua stack, which Lua 5.4.7 reallocates in another way than 5.4.4, and the lines of table constructors."""
    failures = tap.Failures()
    compile_for(root, recorded.source_of("lua_guest.c"), root + INSIDE + "/lua_guest", f"-I{root}/usr/include/lua5.4", f"-I{PUBLIC}",
                "-llua5.4")
    shutil.copy(lua_adapter.SCRIPT, root + INSIDE)
    guest = ["chroot", root, INSIDE + "/lua_guest", INSIDE + "/" + os.path.basename(lua_adapter.SCRIPT)]
    with recorded.Folder() as folder:
        lua_adapter.deep_frames(tools, lua_adapter.VERSIONS[0], [*guest, "deep_frames"], folder, failures)
    for case in ("constructors", "constructors_in_need"):
        with recorded.Folder() as folder:
            lua_adapter.lines_of_constructors(tools, [*guest, case], folder, failures)
    with recorded.Folder() as folder: # a hook makes Lua's stack grow in a function that the adapter has not seen before
        outcome, _ = recorded.record(tools, [*guest, "calls_and_words"], folder, ["--calls"])
        failures.expect("status with --calls", outcome.status, 0)
    return failures


def attach_case(tools, root, hidden=None):
    """Attaches, from outside of the root, five times to a program that counts its own allocations (hammer.c). With HIDDEN, the folder of the agent, the
    program is in a container of its own, which has neither that folder nor this machine's /dev/shm."""
    failures = tap.Failures()
    command, sysroot = ["chroot", root, INSIDE + "/hammer"], ["--sysroot=" + root]
    if hidden:
        hide = 'umount "$0/dev/shm" "$0/proc" "$0$1" && mount -t proc proc "$0/proc" && exec chroot "$0" "$2"'
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", hide, root, hidden, INSIDE + "/hammer"]
        sysroot = []  # while the program runs, its files are found through /proc
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as hammer:
        try:
            failures.expect("first line of hammer", hammer.stdout.readline(), "ready\n")
            pid = hammer.pid
            if hidden:
                with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                    pid = int(file.read())

            def ask(line):
                hammer.stdin.write(line + "\n")
                hammer.stdin.flush()
                return hammer.stdout.readline().strip()

            for _ in range(5):
                with recorded.Folder() as folder:
                    trace = os.path.join(folder, "attached.allogram")
                    with subprocess.Popen([tools.allogram, "attach", str(pid), "--mode=exact", "-o", trace],
                                          stderr=subprocess.PIPE, text=True) as attached:
                        first = attached.stderr.readline()
                        truth = ask("burst 10") if "attached to" in first else first
                        attached.send_signal(signal.SIGINT)
                        rest = attached.stderr.read()
                    failures.expect("status, " + first + rest, attached.returncode, 0)
                    if failures:
                        return failures
                    rows = recorded.report(tools, trace, "--view=sites", "--by=function", "--focus=counted_round",
                                           *sysroot)["sites"]
                    own = [row["total"] for row in rows if row["function"] == "counted_round"]
                    failures.expect("blocks and bytes of the burst", own and f"burst {own[0]['allocated_blocks']} {own[0]['allocated_bytes']}", truth)
            failures.expect("hammer's own check", ask("check"), "check OK")
        finally:
            hammer.kill()
    return failures


def main():
    roots, build = (os.path.abspath(path) for path in sys.argv[1:3])
    missing = [suite for suite in SUITES if not os.path.exists(os.path.join(roots, suite, ".complete"))]
    if missing:
        own_mounts.skip_all(f"no root of {' and '.join(missing)} (tests/roots/make_roots.sh says why)")
    own_mounts.enter()
    tools = recorded.Tools(build)
    cases = {**{name: [f"{INSIDE}/{name}", *arguments] for name, arguments in HAND_COUNTED.items()}, **OF_THE_ROOT}
    plan = tap.Plan(len(SUITES) * (len(cases) + 2) + 1)
    for suite, libc in SUITES.items():
        root = os.path.join(roots, suite)
        agents = os.path.join(build, "adapters/libc")
        prepare(root, agents)
        for name, command in cases.items():
            plan.run(f"{suite} ({libc}): {name}", lambda command=command: run_case(tools, root, command))
        plan.run(f"{suite} ({libc}): attach", lambda root=root: attach_case(tools, root))
        plan.run(f"{suite} ({libc}): attach to a container", lambda root=root, agents=agents: attach_case(tools, root, agents))
    plan.run(f"{LUA}: Lua, a stack that moves, lines", lambda: another_lua(tools, os.path.join(roots, LUA)))
    sys.exit(plan.status())


main()
