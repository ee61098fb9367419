#!/usr/bin/env python3
"""attached_in_root ROOT BUILD: tests `allogram attach` and `allogram observe` with an Erlang node of another Debian release. ROOT is a folder
with the root file system of that release (make_roots.sh). The release has OTP 27, in which each tracer has its own trace session (a set of
traced processes and functions). The cases are a part of those of tests/conformance/erlang_attached.py. Prints TAP."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../conformance"))
import erlang_attached  # noqa: E402
import erlang_counted  # noqa: E402
import own_mounts  # noqa: E402
import recorded  # noqa: E402
import tap  # noqa: E402


def main():
    root, build = own_mounts.arguments()
    tools = recorded.Tools(build)
    if erlang_counted.why_not(tools):
        own_mounts.skip_all(erlang_counted.why_not(tools))
    own_mounts.enter()
    cases = [("exact counts", erlang_attached.counts_are_exact), ("cost of recording", erlang_attached.default_costs_little),
             ("control", erlang_attached.control_is_obeyed), ("--duration and SIGUSR1", erlang_attached.duration_and_signal_are_obeyed),
             ("cycles", erlang_attached.cycles_leave_nothing), ("mappings", erlang_attached.nothing_stays_mapped), ("ends", erlang_attached.ends_in_every_way),
             ("other tracers", erlang_attached.others_are_left_alone), ("memory", erlang_attached.memory_is_explained)]
    plan = tap.Plan(len(cases))
    with recorded.Folder() as folder:
        for seen in ("/dev/shm", "/proc", build, folder):
            own_mounts.bind(seen, root + seen)
        place = erlang_attached.Place(tools, folder, root)
        try:
            for name, case in cases:
                plan.run(name, lambda case=case: case(place))
        finally:
            place.close()
    own_mounts.unbind(root + folder)
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
