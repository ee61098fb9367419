#!/usr/bin/env python3
"""Runtimes that are compiled together with the program. The compiler sees which registers and which part of the stack the runtime's
functions change, so the code of their callers may rely on all other registers and the rest of the stack. The program's results must be the
same with and without allogram, and every block must be counted.

The programs are own_collector.c, built in many ways, and own_lua.c, linked with Lua's static library."""

import os
import shutil
import subprocess
import sys

import recorded
import tap

COLLECTOR = ["-fno-builtin", "-w", "-DINLINING=noinline"]
BUILDS = (
    [["gcc", level, "-DVECTOR_BYTES=16", *more] for level in ("-O0", "-O2", "-O3")
     for more in ([], ["-flto", "-fno-pie", "-no-pie"], ["-fno-ipa-stack-alignment", "-fno-omit-frame-pointer"])] +
    [["clang", "-O2", "-DVECTOR_BYTES=16"]])
LUA = "/usr/lib/x86_64-linux-gnu/liblua%s.a"
LUA_BUILDS = [(version, ["gcc", "-O2", *more]) for version in ("5.4", "5.3") for more in ([], ["-fno-pie", "-no-pie"])]
MODES = (["--mode=exact"], ["--mode=sample", "--interval=1KiB"])
ROUNDS = "300"


def same_in_all_modes(tools, command, folder, failures, truth):
    """Compares the results of all modes; returns the summary of the exact trace."""
    plain = recorded.run(command, env={"TRUTH_FILE": truth})
    failures.expect("status without allogram", plain.status, 0)
    summary = None
    for number, mode in enumerate(MODES):
        inner = os.path.join(folder, str(number))
        os.mkdir(inner)
        outcome, traces = recorded.record(tools, command, inner, options=mode)
        what = " ".join(mode)
        failures.expect("status, " + what, outcome.status, plain.status)
        failures.expect("output, " + what, outcome.stdout, plain.stdout)
        failures.expect("stderr, " + what, outcome.stderr, plain.stderr)
        failures.expect("traces, " + what, len(traces), 1)
        if traces and "--mode=exact" in mode:
            summary = recorded.report(tools, traces[0])
    return summary or {}


def runtime(summary, name):
    found = [row for row in summary.get("runtimes", []) if row["name"] == name]
    return found[0] if found else {}


def a_collector(tools, command):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        program, truth = os.path.join(folder, "program"), os.path.join(folder, "truth")
        subprocess.run([command[0], *COLLECTOR, *command[1:], recorded.source_of("own_collector.c"), "-o", program],
                       check=True, timeout=120)
        summary = same_in_all_modes(tools, [program, ROUNDS], folder, failures, truth)
        failures.expect("hooked", runtime(summary, "bdwgc").get("hooked"), True)
        for key in ("allocated_blocks", "freed_blocks"):
            failures.fail_unless("%s: %s, should be %d" % (key, summary.get(key), recorded.counts_in(truth)[key]),
                                 0 <= summary.get(key, -1) - recorded.counts_in(truth)[key] <= 20)
    return failures


def a_lua(tools, version, command):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        program = os.path.join(folder, "program")
        subprocess.run([*command, "-I/usr/include/lua" + version, recorded.source_of("own_lua.c"), LUA % version, "-lm", "-ldl", "-Wl,-E",
                        "-o", program], check=True, timeout=120)
        summary = same_in_all_modes(tools, [program], folder, failures, os.path.join(folder, "truth"))
        lua = runtime(summary, "lua")
        failures.expect("hooked", lua.get("hooked"), True)
        failures.require("more than 6000 blocks: %s" % summary.get("allocated_blocks"), summary.get("allocated_blocks", 0) > 6000)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    plan = tap.Plan(len(BUILDS) + len(LUA_BUILDS))
    for command in BUILDS:
        name = "a collector, built by " + " ".join(command)
        if shutil.which(command[0]):
            plan.run(name, lambda command=command: a_collector(tools, command))
        else:
            plan.skip(name, command[0] + " is not installed")
    for version, command in LUA_BUILDS:
        name = "Lua %s, built by %s" % (version, " ".join(command))
        if os.path.exists(LUA % version):
            plan.run(name, lambda version=version, command=command: a_lua(tools, version, command))
        else:
            plan.skip(name, "liblua%s-dev is not installed" % version)
    sys.exit(plan.status())


main()
