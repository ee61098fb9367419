#!/usr/bin/env python3
"""Sampled recordings of a program that says what it allocated: over many seeds the estimates of each of its functions have no
bias and their intervals hold the truth; realloc, aligned blocks, threads, signal handlers and children come out right; what samples
cannot tell is refused in one line.

Seeds are fixed and the program does the same in every run, so a case passes always or never."""

import argparse
import json
import math
import os
import subprocess
import sys

import recorded
import tap

SEEDS = 20
METRICS = ["allocated_blocks", "allocated_bytes", "freed_blocks", "freed_bytes"]


def truths(output):
    """{function: {metric: number}} of what the program says."""
    found = {}
    for line in output.decode().splitlines():
        words = line.split()
        if len(words) == 5:
            found[words[0]] = dict(zip(METRICS, map(int, [words[1], words[2], words[3], words[4]])))
    for values in found.values():
        for unit in ("blocks", "bytes"):
            values["in_use_" + unit] = values["allocated_" + unit] - values["freed_" + unit]
    return found


def sampled(tools, folder, mode, seed, interval="8K", options=()):
    for trace in recorded.traces_in(folder):
        os.remove(trace)
    return recorded.record(tools, [tools.program("sampled"), mode], folder,
                           options=["--mode=sample", "--interval=" + interval, "--seed=%d" % seed, *options])


def own_of(view, function):
    for site in view["sites"]:
        if site["function"] == function:
            return site["own"]
    return None


def judge(failures, name, estimates, intervals, truth):
    mean = sum(estimates) / len(estimates)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in estimates) / (len(estimates) - 1) / len(estimates))
    failures.require("%s: mean %.0f of %d, truth %d, z %.1f" % (name, mean, len(estimates), truth, (mean - truth) / deviation),
                     abs(mean - truth) < 4 * deviation)
    held = sum(low <= truth <= high for low, high in intervals)
    # 95 % of 20 are 19; fewer than 15 have a chance of 3 in 10,000
    failures.require("%s: %d of %d intervals hold %d" % (name, held, len(intervals), truth), held >= len(intervals) * 15 / 20)


def estimates_hold(tools, mode, interval="8K", options=()):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        views, truth = [], {}
        for seed in range(SEEDS):
            outcome, traces = sampled(tools, folder, mode, seed, interval, options)
            failures.expect("exit status", outcome.status, 0)
            truth = truths(outcome.stdout)
            views.append(recorded.report(tools, traces[0], "--view=sites"))
        for function, values in truth.items():
            rows = [own_of(view, function) for view in views]
            failures.require("%s was never sampled" % function, all(rows))
            for metric in values:
                if values[metric] > 0 and all(rows):
                    judge(failures, "%s %s" % (function, metric), [row[metric] for row in rows],
                          [row[metric + "_ci95"] for row in rows], values[metric])
    return failures


def views_agree_and_carry_intervals(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, traces = sampled(tools, folder, "periodic", 1)
        trace = traces[0]
        summary = recorded.report(tools, trace)
        failures.expect("mode", (summary["trace"]["mode"], summary["trace"]["interval_bytes"], summary["trace"]["seed"]),
                        ("sample", 8192, 1))
        failures.expect("temporary", summary["temporary_blocks"], None)
        tree = recorded.report(tools, trace, "--view=tree")["root"]
        types = recorded.report(tools, trace, "--view=types")["types"]
        heaps = recorded.report(tools, trace, "--view=heaps")["heaps"]
        threads = recorded.report(tools, trace, "--view=threads")["threads"]
        end = recorded.report(tools, trace, "--view=timeline")["points"][-1]
        whole, interval = summary["allocated_bytes"], summary["allocated_bytes_ci95"]
        failures.require("the interval is no interval", interval[0] < whole < interval[1])
        near = whole * 1e-6 + 100  # each row is rounded
        for name, value in [("tree", tree["allocated_bytes"]), ("types", sum(row["allocated_bytes"] for row in types)),
                            ("heaps", sum(row["allocated_bytes"] for row in heaps)),
                            ("threads", sum(row["allocated_bytes"] for row in threads)), ("timeline", end["allocated_bytes"])]:
            failures.require("%s: %d, summary %d" % (name, value, whole), abs(value - whole) <= near)
        failures.require("in use at the end", abs(end["in_use_blocks"] - summary["in_use_blocks_at_end"]) <= 100)
        for name, row in [("tree", tree), ("types", types[0]), ("heaps", heaps[0]), ("threads", threads[0])]:
            low, high = row["allocated_bytes_ci95"]
            failures.require("%s has no interval" % name, low <= row["allocated_bytes"] <= high)
        failures.expect("check", recorded.check(tools, trace)[0], 0)
    return failures


def the_same_seed_chooses_the_same(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        seen = []
        for seed in (5, 5, 6):
            _, traces = sampled(tools, folder, "periodic", seed)
            seen.append(recorded.report(tools, traces[0], "--view=sites")["sites"][0]["own"])
        failures.expect("seed 5 again", seen[1], seen[0])
        failures.require("seed 6 chooses the same as 5", seen[2] != seen[0])
    return failures


def odd_calls_come_out_right(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for interval in ("1", "100", "4K", "512K"):
            outcome, traces = sampled(tools, folder, "odd", 3, interval)
            failures.expect("exit status at %s" % interval, (outcome.status, outcome.stdout), (0, b""))
            summary = recorded.report(tools, traces[0])
            failures.expect("ghost frees at %s" % interval, summary["ghost_frees"], 0)
            failures.expect("lost at %s" % interval, summary["lost_events"]["total"], 0)
            row = own_of(recorded.report(tools, traces[0], "--view=sites"), "odd_sizes")
            if interval != "512K":
                failures.expect("what is left of it at %s" % interval, row["in_use_blocks"], 0)
    return failures


def a_budget_is_kept(tools):
    """Three seconds of nothing but allocations: the interval moves, the share stays, and the estimates are as good as they say."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("sampled"), "busy"], folder, options=["--budget=5", "--seed=1"])
        failures.expect("status", outcome.status, 0)
        truth = truths(outcome.stdout)
        summary = recorded.report(tools, traces[0])
        profiler = summary["profiler"]
        share = (profiler["cpu_ns"] + profiler["sampler_ns"]) / profiler["target_cpu_ns"]
        failures.require("it spent %.2f %% of the CPU, 5 were allowed: %s" % (100 * share, profiler), share < 0.05)
        failures.require("the interval stayed at %d" % profiler["least_interval_bytes"],
                         profiler["least_interval_bytes"] < profiler["most_interval_bytes"])
        failures.require("hardly a sample was taken for it: %s" % profiler, profiler["least_interval_bytes"] < 512 << 10)
        near = {row["function"]: row["total"] for row in recorded.report(tools, traces[0], "--view=sites")["sites"]}
        for function, values in truth.items():
            for metric in ("allocated_blocks", "allocated_bytes", "freed_bytes"):
                low, high = near[function][metric + "_ci95"]
                off = abs(near[function][metric] - values[metric])
                # four deviations: half an interval of 95 % is two
                failures.require("%s %s: %d, truth %d, interval %d to %d" % (function, metric, near[function][metric], values[metric], low, high),
                                 off <= high - low)
    return failures


def operators_are_sampled(tools):
    """new and delete have entries of their own; at an interval of one byte every block of 24 bytes and more is a sample."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for program in ("cxx_operators", "cxx_bad_alloc", "cxx_exceptions", "cxx_containers"):
            plain = recorded.run([tools.program(program)])
            for interval in ("1", "100", "512K"):
                for trace in recorded.traces_in(folder):
                    os.remove(trace)
                outcome, traces = recorded.record(tools, [tools.program(program)], folder,
                                                  options=["--mode=sample", "--interval=" + interval])
                failures.expect("%s at %s" % (program, interval), (outcome.status, outcome.stdout), (plain.status, plain.stdout))
                summary = recorded.report(tools, traces[0])
                failures.expect("ghosts of %s at %s" % (program, interval), summary["ghost_frees"], 0)
                if program == "cxx_operators" and interval == "1":
                    heaps = {row["name"]: row for row in recorded.report(tools, traces[0], "--view=heaps")["heaps"]}
                    found = heaps.get("operator new", {})
                    failures.expect("blocks of new", (found.get("allocated_blocks"), found.get("in_use_blocks")), (360, 5))
    return failures


def blocks_outlive_the_recorder(tools):
    """A child that is not followed has its parent's sampled blocks, and a recorder that is off."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for interval in ("1", "1K", "512K"):
            for trace in recorded.traces_in(folder):
                os.remove(trace)
            outcome, traces = recorded.record(tools, [tools.program("sampled"), "stopped"], folder,
                                              options=["--mode=sample", "--interval=" + interval, "--follow=none"])
            failures.expect("status at %s" % interval, (outcome.status, outcome.stdout, len(traces)), (0, b"", 1))
            failures.expect("ghosts at %s" % interval, recorded.report(tools, traces[0])["ghost_frees"], 0)
    return failures


def threads_free_for_each_other(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = sampled(tools, folder, "threads", 4)
        view = recorded.report(tools, traces[0], "--view=threads")
        truth = truths(outcome.stdout)["allocate_for_another"]
        failures.expect("pairs", len(view["pairs"]), 1)
        low, high = view["pairs"][0]["bytes_ci95"]
        failures.require("the pair's interval %d to %d misses %d" % (low, high, truth["freed_bytes"]),
                         low <= truth["freed_bytes"] <= high)
    return failures


def handlers_and_children_are_safe(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = sampled(tools, folder, "handler", 1, "1K")
        failures.expect("handler", outcome.status, 0)
        failures.expect("ghosts", recorded.report(tools, traces[0])["ghost_frees"], 0)
        outcome, traces = sampled(tools, folder, "fork", 2)
        failures.expect("fork", (outcome.status, len(traces)), (0, 2))
        truth = truths(outcome.stdout)
        for trace, function in zip(traces, ("small", "large")):
            row = own_of(recorded.report(tools, trace, "--view=sites"), function)
            low, high = row["allocated_bytes_ci95"]
            failures.require("%s: %d to %d misses %d" % (function, low, high, truth[function]["allocated_bytes"]),
                             low <= truth[function]["allocated_bytes"] <= high)
        failures.require("the child's frees of its parent's samples are no ghosts",
                         recorded.report(tools, traces[1])["ghost_frees"] > 0)
        for program in ("alarm_in_malloc", "longjmp_deep", "fork_with_threads", "short_threads"):
            plain = recorded.run([tools.program(program)])
            outcome, _ = recorded.record(tools, [tools.program(program)], folder, options=["--mode=sample", "--interval=1K"])
            failures.expect(program, outcome.status, plain.status)
    return failures


def an_unknown_answer_is_refused(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, traces = sampled(tools, folder, "periodic", 1)
        for words in (["report", "--view=temporary"], ["report", "--sort=temporary_blocks"], ["export", "--to=massif"],
                      ["export", "--to=dhat"], ["export", "--to=heaptrack"], ["export", "--to=firefox"],
                      ["export", "--to=folded", "--metric=temporary_blocks"]):
            outcome = recorded.run([tools.allogram, words[0], traces[0], *words[1:]])
            failures.require("%s: status %d" % (words, outcome.status), outcome.status != 0)
            failures.expect("lines of %s" % words, len(outcome.stderr.decode().splitlines()), 1)
        for export in ("pprof", "heapprofile", "folded", "speedscope", "callgrind", "csv", "json"):
            outcome = recorded.run([tools.allogram, "export", traces[0], "--to=" + export])
            failures.expect(export, (outcome.status, len(outcome.stdout) > 100), (0, True))
        outcome = recorded.run([tools.allogram, "export", traces[0], "--to=folded"])
        folded = sum(int(line.rsplit(b" ", 1)[1]) for line in outcome.stdout.splitlines())
        failures.expect("folded", folded, recorded.report(tools, traces[0])["allocated_bytes"])
    return failures


def diffs_say_what_is_chance(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder, recorded.Folder() as other:
        _, before = sampled(tools, folder, "periodic", 1)
        _, after = sampled(tools, other, "periodic", 2)
        outcome = recorded.run([tools.allogram, "diff", before[0], after[0], "--json"])
        total = json.loads(outcome.stdout)["total"]
        low, high = total["allocated_bytes_ci95"]
        failures.require("the change's interval misses 0: %d to %d" % (low, high), low <= 0 <= high)
        text = subprocess.run([tools.allogram, "diff", before[0], after[0]], capture_output=True, text=True, check=True).stdout
        failures.require("chance is called growth", "unsure" in text)
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    tools = recorded.Tools(parser.parse_args().build)
    cases = [("periodic sizes", lambda: estimates_hold(tools, "periodic")), ("powers of two", lambda: estimates_hold(tools, "powers")),
             ("a heavy tail", lambda: estimates_hold(tools, "heavy")),
             ("views agree and carry intervals", lambda: views_agree_and_carry_intervals(tools)),
             ("the same seed chooses the same", lambda: the_same_seed_chooses_the_same(tools)),
             ("odd calls come out right", lambda: odd_calls_come_out_right(tools)),
             ("a budget is kept", lambda: a_budget_is_kept(tools)),
             ("operators are sampled", lambda: operators_are_sampled(tools)),
             ("blocks outlive the recorder", lambda: blocks_outlive_the_recorder(tools)),
             ("threads free for each other", lambda: threads_free_for_each_other(tools)),
             ("handlers and children are safe", lambda: handlers_and_children_are_safe(tools)),
             ("an unknown answer is refused", lambda: an_unknown_answer_is_refused(tools)),
             ("diffs say what is chance", lambda: diffs_say_what_is_chance(tools))]
    plan = tap.Plan(len(cases))
    for name, case in cases:
        plan.run(name, case)
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
