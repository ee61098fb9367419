#!/usr/bin/env python3
"""With `run --free-stacks` the trace has a stack for each freed block: the stack of the call that freed the block. The blocks are freed by
free, by realloc to a larger size or to 0, by the forms of delete, in another thread, and in a child process. Merged traces have these
stacks, too. Without the option a trace contains no such stacks."""

import json
import os
import subprocess
import sys

import recorded
import tap

# block size: the function that frees blocks of this size, and the number of these blocks
DEATHS = {101: ("frees", 100), 102: ("grows", 100), 5000: ("frees", 100), 103: ("empties", 100), 104: ("frees", 100),
          203: ("deletes", 100), 406: ("deletes_array", 100), 192: ("deletes_aligned", 100), 106: ("frees_for_another", 100)}


def plain_name(function):
    return function.split("(")[0]


def deaths_of(blocks):
    """{(size, freeing function): count} of the blocks whose sizes the program itself uses."""
    found = {}
    for block in blocks:
        if block["state"] == "closed" and block["size"] in DEATHS:
            frames = block["free_stack"]
            key = (block["size"], plain_name(frames[0]["function"]) if frames else None)
            found[key] = found.get(key, 0) + 1
    return found


WANTED = {(size, function): count for size, (function, count) in DEATHS.items()}


def every_death_has_its_stack(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("free_stacks")], folder, options=["--free-stacks"])
        failures.expect("exit status", outcome.status, 0)
        view = recorded.report(tools, traces[0], "--view=blocks")
        failures.expect("freed blocks by size and freeing function", deaths_of(view["blocks"]), WANTED)
        failures.expect("free_stacks_recorded", view["free_stacks_recorded"], True)
        failures.fail_unless("an open block has a free_stack", all(block["free_stack"] is None for block in view["blocks"]
                                                               if block["state"] == "open"))
        main_thread = [block for block in view["blocks"] if block["size"] == 101]
        failures.fail_unless("the stack of a free does not reach main", all("main" in [plain_name(frame["function"]) for frame in block["free_stack"]]
                                                              for block in main_thread))
        failures.expect("status of check", recorded.check(tools, traces[0])[0], 0)
        text = subprocess.run([tools.allogram, "report", traces[0], "--view=blocks", "--state=closed"], capture_output=True, text=True,
                              check=True).stdout
        failures.fail_unless("the text does not show the function that freed a block", "freed by\n      frees " in text)
        failures.expect("the trace has stacks of allocations", recorded.report(tools, traces[0])["unique_stacks"] > 0, True)
    return failures


def a_child_frees_what_it_inherited(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        environment = {"ALLOGRAM_FREE_STACKS": "1"}
        _, traces = recorded.record(tools, [tools.program("free_stacks"), "fork"], folder, env=environment)
        failures.expect("number of traces", len(traces), 2)
        blocks = [block for trace in traces for block in recorded.report(tools, trace, "--view=blocks", "--state=ghost,inherited")["blocks"]]
        failures.expect("functions that freed blocks whose allocation is in another trace",
                        [(block["state"], plain_name(block["free_stack"][0]["function"])) for block in blocks], [("inherited", "frees_inherited")])
        merged = recorded.run([tools.allogram, "report", "--merge", "--json", "--view=blocks", *traces])
        blocks = json.loads(merged.stdout)["blocks"]
        failures.expect("freed blocks of both processes", deaths_of(blocks), WANTED)
        failures.expect("inherited blocks of both processes", [plain_name(block["free_stack"][0]["function"]) for block in blocks
                                                               if block["state"] == "inherited"], ["frees_inherited"])
    return failures


def without_the_option_nothing_is_there(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, traces = recorded.record(tools, [tools.program("free_stacks")], folder, env={"ALLOGRAM_FREE_STACKS": "0"})
        view = recorded.report(tools, traces[0], "--view=blocks")
        failures.expect("free_stacks_recorded", view["free_stacks_recorded"], False)
        failures.expect("blocks that have a stack of their free", [block for block in view["blocks"] if block["free_stack"] is not None], [])
        dump = subprocess.run([tools.allogram, "dump", traces[0]], capture_output=True, text=True, check=True).stdout
        failures.expect("lines with free_stack in the dump", [line for line in dump.splitlines() if " free_stack " in line], [])
        failures.fail_unless("the dump contains no free", " free address=" in dump)
    return failures


def sums_are_the_same(tools):
    """A recording with the stacks of frees has the same summary as a recording without them."""
    failures = tap.Failures()
    numbers = []
    with recorded.Folder() as folder:
        for options in ([], ["--free-stacks"]):
            os.mkdir(os.path.join(folder, str(len(options))))
            _, traces = recorded.record(tools, [tools.program("free_stacks")], os.path.join(folder, str(len(options))), options=options)
            summary = recorded.report(tools, traces[0])
            numbers.append({key: summary[key] for key in ("allocated_blocks", "allocated_bytes", "freed_blocks", "freed_bytes",
                                                          "in_use_bytes_at_end", "ghost_frees", "unique_stacks", "threads",
                                                          "truncated_stacks", "lost_events")})
        failures.expect("numbers", numbers[1], numbers[0])
    return failures


def another_unwinder_agrees(tools, judge):
    """For each free and each allocation, libunwind must find the same stack as allogram."""
    failures = tap.Failures()
    for program in ("free_stacks", "cxx_operators", "coroutines"):
        checks = []
        for options in ([], ["--free-stacks"]):
            with recorded.Folder() as folder:
                _, traces = recorded.record(tools, [tools.program(program)], folder, options=options, env={"LD_PRELOAD": judge})
                made, failed = recorded.stack_checks(tools, traces[0])
                failures.expect("%s %s: stacks that differ" % (program, options), failed, 0)
                checks.append(made)
        failures.fail_unless("%s: stacks checked without and with --free-stacks: %s; the stacks of frees are not checked" % (program, checks), checks[1] > checks[0] * 3 // 2 > 0)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    cases = (every_death_has_its_stack, a_child_frees_what_it_inherited, without_the_option_nothing_is_there, sums_are_the_same)
    results = tap.Plan(len(cases) + 1)
    for case in cases:
        results.run(case.__name__, lambda case=case: case(tools))
    judge = os.path.join(tools.build, "tests/judge/liballogram_judge.so")
    if os.path.exists(judge):
        results.run("another_unwinder_agrees", lambda: another_unwinder_agrees(tools, judge))
    else:
        results.skip("another_unwinder_agrees", "built without libunwind")
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
