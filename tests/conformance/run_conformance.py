#!/usr/bin/env python3
"""Runs programs of tests/programs (table CASES) alone, with the judge, with allogram, and with both; all counts must be equal.

The judge is tests/programs/counting_preload.c, which counts independently of allogram. Four questions for each program:
 1. Are standard output, standard error and exit status the same with and without allogram?
 2. Does the judge agree with the counts made by hand, in the comment at the top of the program?
 3. Does allogram agree with the judge and with the counts made by hand? Is no event lost, is the trace whole, and do the views add up?
 4. If judge and allogram are in the same process, do they agree? (This works also for programs whose allocations differ between runs.)
"""

import argparse
import os
import sys
import time

import counted
import recorded
import tap
import truth

ORDERED = {"peak_bytes", "peak_blocks", "temporary_blocks"}  # depend on the order of events between threads
SUMMARY_KEYS = {"in_use_blocks": "in_use_blocks_at_end", "in_use_bytes": "in_use_bytes_at_end"}

# case: program, arguments ({programs}: folder of the built programs), values of words in the program's @ expressions (truth.py), expected
# status (None: the status in the program's comment)
CASES = {
    name: (name, [], {}, None)
    for name in ("family cross_free fork_child inherited_blocks exec_self spawned fork_with_threads longjmp_deep around_main recursion alloca_frames "
                 "short_threads coroutines million_blocks temporary libc_inside mappings daemon cxx_operators cxx_exceptions "
                 "cxx_bad_alloc cxx_thread_local cxx_containers rust_vectors thread_turns late_child many_stacks forgetful grown_arrays "
                 "recycled_stacks shared_children").split()
}
CASES["plugins"] = ("plugins", ["{programs}"], {}, None)
CASES["alarm_in_malloc"] = ("alarm_in_malloc", [], {}, None)
CASES["alarm_on_altstack"] = ("alarm_in_malloc", ["altstack"], {}, None)
for _how, _status, _handler in (("return", 2, 1), ("exit", 3, 1), ("_exit", 4, 0), ("_Exit", 5, 0), ("quick_exit", 6, 1),
                                ("abort", 134, 0), ("kill", 137, 0), ("segv", 139, 0), ("term", 143, 0)):
    CASES["ending_" + _how] = ("endings", [_how], {"handler": _handler}, _status)
for _what in "descriptors standard folder root file-size space data user umask environment nofile filter".split():
    CASES["host_" + _what] = ("hostile_host", [_what], {}, None)
NEEDS_ROOT = {"host_root", "host_user"}


def compare_hand(failures, what, process, names, counts):
    """Compares the judge's counts of one process with the counts made by hand, in the comment at the top of the program."""
    for key, expression in process.counts.items():
        if key in process.varies:
            continue
        value, has_runtime = truth.evaluate(expression, **names)
        if has_runtime:
            if counts[key] < value:
                failures.append("%s: the judge counts %s %d, by hand at least %d" % (what, key, counts[key], value))
        else:
            failures.expect("%s: the judge's %s" % (what, key), counts[key], value)


def compare_counts(failures, what, summary, counts, without):
    """Checks that the counts are equal. If the program has several threads, the trace has a range for the peak, because the order of events
    between threads is not known exactly; then the range must contain the judge's peak."""
    for key in truth.COUNTS:
        if key in without or (counts["threads"] > 1 and key in ORDERED):
            continue
        failures.expect("%s: %s" % (what, key), summary[SUMMARY_KEYS.get(key, key)], counts[key])
    if counts["threads"] > 1 and "peak_bytes" not in without:
        low, high = summary["peak_bytes_range"]
        failures.fail_unless("%s: peak_bytes %d..%d, should contain %d" % (what, low, high, counts["peak_bytes"]),
                             low <= counts["peak_bytes"] <= high)
        failures.fail_unless("%s: peak_bytes is outside of its range" % what, low <= summary["peak_bytes"] <= high)


def compare_views(failures, tools, trace, summary):
    """Checks that the sum of each view equals the number in the summary."""
    sums = {"allocated_blocks": summary["allocated_blocks"], "allocated_bytes": summary["allocated_bytes"]}
    sites = recorded.report(tools, trace, "--view=sites")["sites"]
    for key, value in sums.items():
        failures.expect("sites: sum of own " + key, sum(site["own"][key] for site in sites), value)
    leaks = recorded.report(tools, trace, "--view=leaks")["stacks"]
    failures.expect("leaks: sum of in_use_bytes", sum(stack["in_use_bytes"] for stack in leaks), summary["in_use_bytes_at_end"])
    peak = recorded.report(tools, trace, "--view=peak")["stacks"]
    failures.expect("peak: sum of peak_bytes", sum(stack["peak_bytes"] for stack in peak), summary["peak_bytes"])
    temporary = recorded.report(tools, trace, "--view=temporary")["stacks"]
    failures.expect("temporary: sum", sum(stack["temporary_blocks"] for stack in temporary), summary["temporary_blocks"])
    tree = recorded.report(tools, trace, "--view=tree")["root"]
    failures.expect("tree: root", tree["allocated_bytes"], summary["allocated_bytes"])
    threads = recorded.report(tools, trace, "--view=threads")
    failures.expect("threads: sum", sum(thread["allocated_blocks"] for thread in threads["threads"]), summary["allocated_blocks"])
    freed = {}
    for thread in threads["threads"]:  # the kernel may have given one thread number to two threads in turn
        freed[thread["id"]] = freed.get(thread["id"], 0) + thread["freed_blocks"]
    for pair in threads["pairs"]:  # a thread's freed blocks include those that another thread allocated
        freed[pair["freed_by"]] = freed.get(pair["freed_by"], 0) - pair["blocks"]
        if pair["allocated_by"] == pair["freed_by"]:
            failures.append("pairs: thread %d is listed as a pair with itself" % pair["freed_by"])
    if any(blocks < 0 for blocks in freed.values()):
        failures.append("pairs: more blocks than their threads freed: %s" % freed)


def compare_trace(failures, tools, trace, process):
    """Checks the rules that hold for every trace. Returns the summary of the trace."""
    summary = recorded.report(tools, trace)
    what = process.name
    failures.expect(what + ": lost events", summary["lost_events"]["total"], 0)
    status, verdict = recorded.check(tools, trace)
    failures.expect(what + ": check's status", status, 0)
    failures.expect(what + ": whole", verdict.get("whole"), True)
    failures.expect(what + ": allocated = freed + in use", summary["allocated_blocks"],
                    summary["freed_blocks"] + summary["in_use_blocks_at_end"])
    return summary


def compare_details(failures, tools, trace, process):
    if process.sites:
        own = {}
        for site in recorded.report(tools, trace, "--view=sites")["sites"]:
            got = own.setdefault(site["function"], [0, 0])
            got[0] += site["own"]["allocated_blocks"]
            got[1] += site["own"]["allocated_bytes"]
        for function, blocks, bytes_ in process.sites:
            failures.expect("site %s" % function, own.get(function), [blocks, bytes_])
    if process.pairs:
        pairs = recorded.report(tools, trace, "--view=threads")["pairs"]
        between = sorted((pair["blocks"], pair["bytes"]) for pair in pairs if pair["allocated_by"] != pair["freed_by"])
        for pair in process.pairs:
            if pair not in between:
                failures.append("no pair of threads with %s; there are %s" % (pair, between))
    if process.mapped_bytes is not None:
        heaps = recorded.report(tools, trace, "--view=heaps")["heaps"]
        failures.expect("mapped bytes", sum(heap["mapped_bytes"] for heap in heaps), process.mapped_bytes)
    for within, blocks in process.within:
        stacks = recorded.report(tools, trace, "--view=temporary", "--within=%d" % within)["stacks"]
        failures.expect("temporary within %d" % within, sum(stack["temporary_blocks"] for stack in stacks), blocks)


def processes_for(processes, n):
    """Returns the expected counts of n process images. If fewer are given, the last one is used for all further images."""
    return [processes[min(i, len(processes) - 1)] for i in range(n)]


def run_case(tools, name):
    program, arguments, names, wanted_status = CASES[name]
    failures = tap.Failures()
    processes, status, n_traces = truth.read(recorded.source_of(program + ".*"))
    wanted_status = status if wanted_status is None else wanted_status
    n_traces = n_traces or len(processes)
    command = [tools.program(program)] + [argument.format(programs=tools.programs) for argument in arguments]

    # 1. alone
    plain = recorded.run(command)
    failures.expect("status of the plain run", plain.status, wanted_status)

    # 2. under the judge alone
    with recorded.Folder() as folder:
        os.chmod(folder, 0o777)
        truth_path = os.path.join(folder, "truth")
        outcome = recorded.run(command, env=dict(counted.environment(tools.judge, folder), TRUTH_FILE=truth_path))
        failures.expect("standard output under the judge", outcome.stdout, plain.stdout)
        # The daemon outlives its parent. Its counter file may not exist yet, and is final when the counts do not change any more.
        outlives = program == "daemon"
        counts = [] if outlives else counted.read(folder)
        while outlives:
            time.sleep(2)
            before, counts = counts, counted.read(folder)
            if counts == before:
                break
        failures.expect("processes under the judge", len(counts), n_traces)
        for i, process in enumerate(processes_for(processes, len(counts))):
            compare_hand(failures, "%s (%d)" % (process.name, i), process, names, counts[i])
        if os.path.exists(truth_path):
            for key, value in recorded.counts_in(truth_path).items():
                failures.expect("as the program counted: " + key, counts[0][key], value)
    if failures:
        return failures
    if os.environ.get("JUDGE_ONLY"):
        return failures

    # 3. under allogram alone
    with recorded.Folder() as folder:
        os.chmod(folder, 0o777)
        truth_path = os.path.join(folder, "truth")
        outcome, traces = recorded.record(tools, command, folder, env={"TRUTH_FILE": truth_path})
        failures.expect("standard output", outcome.stdout, plain.stdout)
        failures.expect("standard error", outcome.stderr, plain.stderr)
        failures.expect("status", outcome.status, wanted_status)
        traces = recorded.wait_until_ended(tools, folder, n_traces=n_traces)
        failures.expect("number of traces", len(traces), n_traces)
        for i, process in enumerate(processes_for(processes, len(traces))):
            what = "%s (%d)" % (process.name, i)
            summary = compare_trace(failures, tools, traces[i], process)
            if i < len(counts):
                compare_counts(failures, what, summary, counts[i], process.varies)
            if os.path.exists(truth_path):
                for key, value in recorded.counts_in(truth_path).items():
                    failures.expect("as the program counted: " + key, summary[SUMMARY_KEYS.get(key, key)], value)
            compare_views(failures, tools, traces[i], summary)
            compare_details(failures, tools, traces[i], process)

    # 4. allogram in front of the judge, in one process
    with recorded.Folder() as folder:
        os.chmod(folder, 0o777)
        chained = ["sh", "-c", 'LD_PRELOAD="$LD_PRELOAD:$0" exec "$@"', tools.judge] + command
        outcome, traces = recorded.record(tools, chained, folder, env={"COUNTING_FOLDER": folder})
        failures.expect("chained: standard output", outcome.stdout, plain.stdout)
        traces = recorded.wait_until_ended(tools, folder, n_traces=n_traces + 1 if outlives else 0)[1:]  # without the trace of the shell
        for i, (_, summary, counts) in enumerate(recorded.pair_up(tools, traces, counted.read(folder))):
            compare_counts(failures, "chained: process %d" % i, summary, counts, ORDERED if processes[0].counts_itself else set())
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--list", action="store_true", help="print the cases")
    parser.add_argument("cases", nargs="*", help="default: all")
    options = parser.parse_args()
    if options.list:
        print("\n".join(CASES))
        return 0
    tools = recorded.Tools(options.build)
    recorded.hide_debug_files()
    names = options.cases or list(CASES)
    results = tap.Plan(len(names))
    for name in names:
        if name.startswith(("cxx_", "rust_")) and not os.path.exists(tools.program(CASES[name][0])):
            results.skip(name, "no compiler for this program is installed")
        elif name in NEEDS_ROOT and os.geteuid() != 0:
            results.skip(name, "needs root")
        else:
            results.run(name, lambda: run_case(tools, name))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
