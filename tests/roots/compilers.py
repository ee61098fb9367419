#!/usr/bin/env python3
"""compilers ROOTS BUILD: tests that the source tree compiles without a warning with clang and with a newer gcc. Prints TAP.

The usual build uses the gcc of this machine. In this test clang compiles the source tree, with the test programs. Then the gcc of a newer Debian
release compiles the source tree in a folder below ROOTS that has the root file system of that release (make_roots.sh); the packages for the
test programs are not installed there, so they are left out. For both compilers a warning is an error. To save time, the builds have no debug
information, and clang compiles the tests of unusual stacks (tests/judge) with one of their four sets of options.
"""

import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../conformance"))
import own_mounts  # noqa: E402
import tap  # noqa: E402

SOURCE = os.path.realpath(os.path.join(HERE, "../.."))
INSIDE = "/allogram-compilers"  # folder in the root: source and build
SAME_SOURCES = ("corner_cases_optimized", "corner_cases_frame_pointers", "corner_cases_vectorized")  # the same sources as corner_cases_plain


def compiled_targets(folder):
    """The programs and libraries of a configured tree; the other targets (Rust and Go programs, Erlang modules ...) have compilers of their own."""
    rows = json.loads(subprocess.run(["meson", "introspect", "--targets", folder], capture_output=True, check=True).stdout)
    return [os.path.relpath(path, os.path.realpath(folder)) for row in rows if row["type"] != "custom" and row["name"] not in SAME_SOURCES
            for path in row["filename"]]


def build(folder, source, *options, inside=None, compiler=None):
    """Configures the tree, and builds all of it in the root INSIDE. Without INSIDE, builds here what compiled_targets returns. Returns the
    errors, or an empty text."""
    before = ["chroot", inside, "/usr/bin/env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"] if inside else ["env"]
    before += [f"CC={compiler}"] if compiler else []
    setup = subprocess.run([*before, "meson", "setup", folder, source, "-Dwerror=true", "-Ddebug=false", *options], capture_output=True, text=True, check=False)
    if setup.returncode:
        return setup.stdout[-2000:] + setup.stderr[-2000:]
    targets = [] if inside else compiled_targets(folder)
    made = subprocess.run([*before, "ninja", "-k0", "-C", folder, *targets], capture_output=True, text=True, check=False)
    if made.returncode == 0:
        return ""
    lines = [line for line in made.stdout.splitlines() if "error:" in line]
    return "\n".join(lines[:20]) or made.stdout[-2000:]


def case(*arguments, **named):
    failures = tap.Failures()
    failures.expect("errors of the build", build(*arguments, **named), "")
    return failures


def main():
    own_mounts.enter()
    roots, our_build = sys.argv[1:3]
    root = os.path.join(roots, "trixie")
    plan = tap.Plan(2)
    folder = os.path.join(our_build, "clang")
    shutil.rmtree(folder, ignore_errors=True)
    if shutil.which("clang"):
        plan.run("clang compiles all without a warning", lambda: case(folder, SOURCE, "-Dtests=enabled", "-Doptimization=0", "-Dviewer=disabled", compiler="clang"))
    else:
        plan.skip("clang compiles all without a warning", "no clang here")
    if os.path.exists(os.path.join(root, ".complete")):
        shutil.rmtree(root + INSIDE + "/build", ignore_errors=True)
        own_mounts.bind(SOURCE, root + INSIDE + "/source")
        plan.run(
            "the gcc of Debian trixie compiles all without a warning",
            lambda: case(INSIDE + "/build", INSIDE + "/source", "-Dtests=disabled", "-Dviewer=disabled", inside=root),
        )
        own_mounts.unbind(root + INSIDE + "/source")
        shutil.rmtree(root + INSIDE, ignore_errors=True)
    else:
        plan.skip("the gcc of Debian trixie compiles all without a warning", "no root of trixie (tests/roots/make_roots.sh says why)")
    shutil.rmtree(folder, ignore_errors=True)
    return plan.status()


sys.exit(main())
