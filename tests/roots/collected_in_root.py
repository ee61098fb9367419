#!/usr/bin/env python3
"""collected_in_root ROOT BUILD: records programs of Crystal and Guile, which use the Boehm collector, of another Debian release. ROOT is a
folder with the root file system of that release (make_roots.sh). The cases are those of crystal_objects.py, guile_objects.py and
guile_stacks.py in tests/conformance. Prints TAP."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../conformance"))
import crystal_objects  # noqa: E402
import guile_objects  # noqa: E402
import guile_stacks  # noqa: E402
import own_mounts  # noqa: E402
import place  # noqa: E402
import recorded  # noqa: E402
import tap  # noqa: E402


def main():
    root, build = own_mounts.arguments()
    own_mounts.enter()
    agents = os.path.join(build, "adapters/libc")
    for folder in ("/dev/shm", "/proc", agents):
        own_mounts.bind(folder, root + folder)
    plan = tap.Plan(len(crystal_objects.CASES) + 1 + len(guile_stacks.CASES) + len(guile_stacks.PROGRAMS))
    with place.Place(recorded.Tools(build), root) as where:
        crystal_objects.run_cases(plan, where)
        guile_objects.run_cases(plan, where)
        guile_stacks.run_cases(plan, where)
    return plan.status()


sys.exit(main())
