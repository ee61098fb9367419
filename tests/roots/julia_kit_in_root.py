#!/usr/bin/env python3
"""julia_kit_in_root ROOTS BUILD [WORD...]: tests the rules that hold for every adapter (tests/conformance/adapter_kit.py) with a Julia program of an
older Debian release. A folder below ROOTS has the root file system of that release (make_roots.sh). WORDs select rules by their names. Prints TAP."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../conformance"))
import adapter_kit  # noqa: E402
import julia_root  # noqa: E402
import recorded  # noqa: E402
import tap  # noqa: E402

SCRIPT = "julia_guest.jl"
SELDOM = ("moves", "deaths", "every block", ": _exit", "quick_exit", "abort", "with none")  # parts of the names of rules that only `make soak` runs, because each rule starts Julia again


def line_of(text):
    return recorded.line_of(SCRIPT, text)


def guest(root):
    frames = ["leaf:%d" % line_of("leaf(i) = "), "by_native:%d" % line_of("push!(leaves, leaf(i)) # of by_native"), "mixed_back",
              "caller:%d" % line_of('ccall(("mixed_back"'), "frames:%d" % line_of("caller(@cfunction")]
    native = ["take_inside", "mixed_take", "ask:%d" % line_of("ask(n) = "), "native_memory:%d" % line_of("ask(54_321)")]
    command = root.command([root.inside + "/" + SCRIPT, root.library], ["JULIA_NUM_THREADS=2"])
    return adapter_kit.Guest("julia", "julia pool", "julia", command, frames, native, is_whole=False, source=SCRIPT,
                             program="julia", ghosts=100)  # ghosts: frees of blocks that libraries allocate when Julia opens them (adapters/julia/julia_imports.c)


def main():
    roots, build = (os.path.abspath(path) for path in sys.argv[1:3])
    root = julia_root.Root(roots, "/allogram-test-julia-kit")
    root.enter(build)
    root.add(SCRIPT)
    tools = recorded.Tools(build)
    tools.report_options = ["--sysroot=" + root.path]
    rules = adapter_kit.rules_of(tools, guest(root))
    wanted = sys.argv[3:]
    if os.environ.get("AG_TEST_SCALE") != "full" and not wanted:
        rules = {name: rule for name, rule in rules.items() if not any(word in name for word in SELDOM)}
    rules = {name: rule for name, rule in rules.items() if not wanted or any(word in name for word in wanted)}
    plan = tap.Plan(len(rules))
    for name, rule in rules.items():
        plan.run("julia: " + name, rule)
    root.leave()
    sys.exit(plan.status())


main()
