#!/usr/bin/env python3
"""Sampled recordings of a program that prints the true sums of its allocations. Over many seeds, the estimates for each function of the
program must have no bias, and nearly all of their confidence intervals must contain the true value. Realloc, aligned blocks, threads,
signal handlers and children are sampled, too. If samples cannot answer what a command of allogram is asked for, the command must say so in
one line and fail.

Seeds are fixed, and the program allocates the same blocks in every run, so each run of a case has the same result."""

import csv
import gzip
import json
import math
import os
import re
import subprocess
import sys

import recorded
import tap

SEEDS = 20
METRICS = ["allocated_blocks", "allocated_bytes", "freed_blocks", "freed_bytes"]


def truths(output):
    """Returns {function: {metric: number}}, the true values that the program printed."""
    found = {}
    for line in output.decode().splitlines():
        words = line.split()
        if len(words) == 5:
            found[words[0]] = dict(zip(METRICS, map(int, [words[1], words[2], words[3], words[4]])))
    for values in found.values():
        for unit in ("blocks", "bytes"):
            values["in_use_" + unit] = values["allocated_" + unit] - values["freed_" + unit]
    return found


def sampled(tools, folder, mode, seed, interval="8K", options=(), program="sampled"):
    for trace in recorded.traces_in(folder):
        os.remove(trace)
    return recorded.record(tools, [tools.program(program), mode], folder,
                           options=["--mode=sample", "--interval=" + interval, "--seed=%d" % seed, *options])


def own_of(view, function):
    for site in view["sites"]:
        if site["function"] == function:
            return site["own"]
    return None


def judge(failures, name, estimates, intervals, truth):
    mean = sum(estimates) / len(estimates)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in estimates) / (len(estimates) - 1) / len(estimates))
    failures.require("%s: the mean %.0f of %d estimates is near the truth %d (deviation / standard error: %.1f)" % (name, mean, len(estimates), truth, (mean - truth) / deviation),
                     abs(mean - truth) < 4 * deviation)
    held = sum(low <= truth <= high for low, high in intervals)
    # Of 20 intervals, 19 are expected to contain the truth; the probability of fewer than 15 is 3 in 10,000.
    failures.require("%s: %d of %d intervals contain the truth, %d" % (name, held, len(intervals), truth), held >= len(intervals) * 15 / 20)


def estimates_hold(tools, mode, interval="8K", options=(), program="sampled"):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        views, truth = [], {}
        for seed in range(SEEDS):
            outcome, traces = sampled(tools, folder, mode, seed, interval, options, program)
            failures.expect("exit status", outcome.status, 0)
            truth = truths(outcome.stdout)
            views.append(recorded.report(tools, traces[0], "--view=sites"))
        for function, values in truth.items():
            rows = [own_of(view, function) for view in views]
            failures.fail_unless("%s was never sampled" % function, all(rows))
            for metric in values:
                if values[metric] > 0 and all(rows):
                    judge(failures, "%s %s" % (function, metric), [row[metric] for row in rows],
                          [row[metric + "_ci95"] for row in rows], values[metric])
    return failures


ALL = ["allocated_bytes", "allocated_blocks", "freed_bytes", "freed_blocks", "in_use_bytes_at_end", "in_use_blocks_at_end"]


def covered(row, truth):
    """Returns {metric: whether its interval contains the true value}."""
    return {name: row[name + "_ci95"][0] <= value <= row[name + "_ci95"][1] for name, value in truth.items()}


def intervals_include_small_blocks_next_to_a_huge_one(tools):
    """One block of a function is so large that it is always a sample. 0.4 of the function's 2000 small blocks are expected to be samples, so usually
    none of them is a sample. The interval must contain the true value also in this case."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        held, n_unseen = [], 0
        for seed in range(2 * SEEDS):
            outcome, traces = sampled(tools, folder, "huge", seed, "512K")
            truth = truths(outcome.stdout)["mixed"]
            own = own_of(recorded.report(tools, traces[0], "--view=sites"), "mixed")
            n_unseen += own["allocated_blocks"] == 1
            held.append(covered(own, truth))
        failures.require("in more than a third of the runs no small block is a sample: %d of %d" % (n_unseen, len(held)), n_unseen > len(held) / 3)
        for name in truth:
            n_held = sum(one[name] for one in held)
            # Of 40 intervals, 38 are expected to contain the truth; the probability of fewer than 33 is 7 in 10,000.
            failures.require("%s: %d of %d intervals contain the truth, %d" % (name, n_held, len(held), truth[name]), n_held >= 33)
    return failures


def no_samples_are_not_reported_as_zero(tools):
    """Only 0.05 samples are expected, so most traces have no sample. No view may report 0 as an exact number."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        n_without = 0
        for seed in range(SEEDS):
            outcome, traces = sampled(tools, folder, "periodic", seed, "1G")
            truth = {name: sum(values[name.replace("_at_end", "")] for values in truths(outcome.stdout).values()) for name in ALL}
            summary = recorded.report(tools, traces[0])
            held = covered(summary, truth)
            failures.require("seed %d: all intervals contain the truth: %s in %s" % (seed, held, summary), all(held.values()))
            if summary["allocated_blocks"] > 0:
                continue
            n_without += 1
            for view, key in [("tree", "root"), ("peak", "total"), ("leaks", "total")]:
                row = recorded.report(tools, traces[0], "--view=" + view)[key]
                failures.expect("%s of seed %d" % (view, seed), row["allocated_bytes_ci95"], summary["allocated_bytes_ci95"])
            outcome = recorded.run([tools.allogram, "report", traces[0], "--fail-if=allocated_bytes > 1M"])
            failures.require("--fail-if says that the number is uncertain: %s" % outcome.stderr, outcome.status == 0 and b"is uncertain, because its numbers are estimates" in outcome.stderr)
        failures.require("more than half of the traces have no sample: %d of %d" % (n_without, SEEDS), n_without > SEEDS / 2)
        printed = recorded.run([tools.allogram, "run", "--mode=sample", "--interval=1024G", "--seed=1", "-o", os.path.join(folder, "t.allogram"), "--",
                             tools.program("sampled"), "periodic"]).stderr
        failures.require("the last line of `run` shows an upper bound of the allocated bytes: %s" % printed, b"0 samples, one in 1.00 TiB: at most 3.69 TiB allocated in " in printed)
    return failures


def timeline_points_have_the_numbers_of_one_moment(tools):
    """In each point of the timeline, either all numbers include the huge block, or no number does."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for seed in range(5):
            _, traces = sampled(tools, folder, "huge", seed, "16K")
            points = recorded.report(tools, traces[0], "--view=timeline", "--limit=0")["points"]
            peak = recorded.report(tools, traces[0])["peak_bytes"]
            failures.expect("highest point of the timeline of seed %d, compared with the peak" % seed, max(point["in_use_bytes"] for point in points), peak)
            for before, point in zip([None, *points], points):
                sides = {point["in_use_bytes"] >= 50000000, point["allocated_bytes"] >= 50000000, point["in_use_blocks"] >= 1}
                failures.require("seed %d: the numbers of the point are of one moment: %s" % (seed, point), len(sides) == 1 and point["in_use_bytes"] <= point["allocated_bytes"])
                failures.require("seed %d: the allocated bytes do not decrease: %s" % (seed, point), not before or before["allocated_bytes"] <= point["allocated_bytes"])
    return failures


def sums_add_up(tools):
    """In every row, allocated bytes are the sum of freed bytes and bytes in use, to the byte."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        n_rows = 0
        for mode, interval in [("periodic", "8K"), ("powers", "20000"), ("heavy", "7777"), ("huge", "3333")]:
            _, traces = sampled(tools, folder, mode, 1, interval)
            summary = recorded.report(tools, traces[0])
            summary.update({name: summary[name + "_at_end"] for name in ("in_use_bytes", "in_use_blocks")})
            sites = recorded.report(tools, traces[0], "--view=sites")["sites"]
            types = recorded.report(tools, traces[0], "--view=types")["types"]
            for row in [summary, *types, *(site[part] for site in sites for part in ("own", "total"))]:
                n_rows += 1
                for unit in ("bytes", "blocks"):
                    values = [row[name + "_" + unit] for name in ("allocated", "freed", "in_use")]
                    failures.require("%s at %s, %s: %s" % (mode, interval, unit, values), values[0] == values[1] + values[2])
        failures.require("more than 20 rows were checked: %d" % n_rows, n_rows > 20)
    return failures


def views_agree_and_carry_intervals(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, traces = sampled(tools, folder, "periodic", 1)
        trace = traces[0]
        summary = recorded.report(tools, trace)
        failures.expect("mode, interval, seed", (summary["trace"]["mode"], summary["trace"]["interval_bytes"], summary["trace"]["seed"]),
                        ("sample", 8192, 1))
        failures.expect("temporary blocks", summary["temporary_blocks"], None)
        tree = recorded.report(tools, trace, "--view=tree")["root"]
        types = recorded.report(tools, trace, "--view=types")["types"]
        heaps = recorded.report(tools, trace, "--view=heaps")["heaps"]
        threads = recorded.report(tools, trace, "--view=threads")["threads"]
        end = recorded.report(tools, trace, "--view=timeline")["points"][-1]
        whole, interval = summary["allocated_bytes"], summary["allocated_bytes_ci95"]
        failures.fail_unless("the interval does not contain its estimate", interval[0] < whole < interval[1])
        near = whole * 1e-6 + 100  # each row is rounded
        for name, value in [("tree", tree["allocated_bytes"]), ("types", sum(row["allocated_bytes"] for row in types)),
                            ("heaps", sum(row["allocated_bytes"] for row in heaps)),
                            ("threads", sum(row["allocated_bytes"] for row in threads)), ("timeline", end["allocated_bytes"])]:
            failures.require("%s: %d, summary %d" % (name, value, whole), abs(value - whole) <= near)
        failures.require("the timeline ends with the blocks in use of the summary", abs(end["in_use_blocks"] - summary["in_use_blocks_at_end"]) <= 100)
        for name, row in [("tree", tree), ("types", types[0]), ("heaps", heaps[0]), ("threads", threads[0])]:
            low, high = row["allocated_bytes_ci95"]
            failures.fail_unless("%s: the interval does not contain its estimate" % name, low <= row["allocated_bytes"] <= high)
        failures.expect("status of check", recorded.check(tools, trace)[0], 0)
    return failures


def the_same_seed_samples_the_same_blocks(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        seen = []
        for seed in (5, 5, 6):
            _, traces = sampled(tools, folder, "periodic", seed)
            seen.append(recorded.report(tools, traces[0], "--view=sites")["sites"][0]["own"])
        failures.expect("samples of seed 5, twice", seen[1], seen[0])
        failures.fail_unless("seeds 5 and 6 choose the same samples", seen[2] != seen[0])
    return failures


def unusual_calls_have_right_sums(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for interval in ("1", "100", "4K", "512K"):
            outcome, traces = sampled(tools, folder, "odd", 3, interval)
            failures.expect("exit status at %s" % interval, (outcome.status, outcome.stdout), (0, b""))
            summary = recorded.report(tools, traces[0])
            failures.expect("ghost frees at %s" % interval, summary["ghost_frees"], 0)
            failures.expect("lost events at %s" % interval, summary["lost_events"]["total"], 0)
            row = own_of(recorded.report(tools, traces[0], "--view=sites"), "odd_sizes")
            if interval != "512K":
                failures.expect("blocks of odd_sizes in use, at interval %s" % interval, row["in_use_blocks"], 0)
    return failures


def a_budget_is_kept(tools):
    """The program only allocates, for three seconds. The sampling interval must be adapted, allogram's share of the CPU time must stay
    within the budget, and the true values must lie in the intervals of the estimates."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("sampled"), "busy"], folder, options=["--budget=5", "--seed=1"])
        failures.expect("status", outcome.status, 0)
        truth = truths(outcome.stdout)
        summary = recorded.report(tools, traces[0])
        profiler = summary["profiler"]
        share = (profiler["cpu_ns"] + profiler["sampler_ns"]) / profiler["target_cpu_ns"]
        failures.fail_unless("allogram used %.2f %% of the CPU time, 5 %% were allowed: %s" % (100 * share, profiler), share < 0.05)
        failures.fail_unless("the interval stayed at %d" % profiler["least_interval_bytes"],
                             profiler["least_interval_bytes"] < profiler["most_interval_bytes"])
        failures.fail_unless("the interval was never below 512 KiB, although the budget allows more samples: %s" % profiler, profiler["least_interval_bytes"] < 512 << 10)
        near = {row["function"]: row["total"] for row in recorded.report(tools, traces[0], "--view=sites")["sites"]}
        for function, values in truth.items():
            for metric in ("allocated_blocks", "allocated_bytes", "freed_bytes"):
                low, high = near[function][metric + "_ci95"]
                off = abs(near[function][metric] - values[metric])
                # The deviation may be four standard deviations; half of a 95 % interval is two standard deviations.
                failures.require("%s %s: %d, truth %d, interval %d to %d" % (function, metric, near[function][metric], values[metric], low, high),
                                 off <= high - low)
    return failures


def nested_calls_are_sampled_once(tools):
    """The functions of this program's allocator call each other by their public names. Each block must be sampled at most once."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        summaries, truth = [], {}
        for seed in range(SEEDS):
            outcome, traces = sampled(tools, folder, "20000", seed, program="nested_calls")
            failures.expect("exit status", outcome.status, 0)
            truth = truths(outcome.stdout)["all"]
            summaries.append(recorded.report(tools, traces[0]))
        for metric in METRICS:
            judge(failures, metric, [summary[metric] for summary in summaries], [summary[metric + "_ci95"] for summary in summaries],
                  truth[metric])
    return failures


def operators_are_sampled(tools):
    """allogram has separate hooks (functions that the program calls in place of others) for new and delete. At a sampling interval of one
    byte every block of 24 bytes and more is a sample."""
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
                failures.expect("ghost frees of %s at %s" % (program, interval), summary["ghost_frees"], 0)
                if program == "cxx_operators" and interval == "1":
                    heaps = {row["name"]: row for row in recorded.report(tools, traces[0], "--view=heaps")["heaps"]}
                    found = heaps.get("operator new", {})
                    failures.expect("blocks of new", (found.get("allocated_blocks"), found.get("in_use_blocks")), (360, 5))
    return failures


def sampled_blocks_are_usable_after_the_recorder_stopped(tools):
    """With --follow=none a child process is not recorded. It inherits sampled blocks of its parent, and frees these blocks."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for interval in ("1", "1K", "512K"):
            for trace in recorded.traces_in(folder):
                os.remove(trace)
            outcome, traces = recorded.record(tools, [tools.program("sampled"), "stopped"], folder,
                                              options=["--mode=sample", "--interval=" + interval, "--follow=none"])
            failures.expect("status at %s" % interval, (outcome.status, outcome.stdout, len(traces)), (0, b"", 1))
            failures.expect("ghost frees at %s" % interval, recorded.report(tools, traces[0])["ghost_frees"], 0)
    return failures


def threads_free_for_each_other(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = sampled(tools, folder, "threads", 4)
        view = recorded.report(tools, traces[0], "--view=threads")
        truth = truths(outcome.stdout)["allocate_for_another"]
        failures.expect("pairs of an allocating and a freeing thread", len(view["pairs"]), 1)
        low, high = view["pairs"][0]["bytes_ci95"]
        failures.fail_unless("the pair's interval %d to %d does not contain %d" % (low, high, truth["freed_bytes"]),
                             low <= truth["freed_bytes"] <= high)
    return failures


def handlers_and_children_are_safe(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = sampled(tools, folder, "handler", 1, "1K")
        failures.expect("status of handler", outcome.status, 0)
        failures.expect("ghost frees", recorded.report(tools, traces[0])["ghost_frees"], 0)
        outcome, traces = sampled(tools, folder, "fork", 2)
        failures.expect("status, number of traces of fork", (outcome.status, len(traces)), (0, 2))
        truth = truths(outcome.stdout)
        for trace, function in zip(traces, ("small", "large")):
            row = own_of(recorded.report(tools, trace, "--view=sites"), function)
            low, high = row["allocated_bytes_ci95"]
            failures.fail_unless("%s: the interval %d to %d does not contain %d" % (function, low, high, truth[function]["allocated_bytes"]),
                                 low <= truth[function]["allocated_bytes"] <= high)
        child = recorded.report(tools, traces[1])
        failures.require("the child frees some of its parent's samples", child["inherited_frees"] > 0)
        failures.expect("ghost frees of the child", child["ghost_frees"], 0)
        for program in ("alarm_in_malloc", "longjmp_deep", "fork_with_threads", "short_threads"):
            plain = recorded.run([tools.program(program)])
            outcome, _ = recorded.record(tools, [tools.program(program)], folder, options=["--mode=sample", "--interval=1K"])
            failures.expect(program, outcome.status, plain.status)
    return failures


def questions_that_samples_cannot_answer_are_refused(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, traces = sampled(tools, folder, "periodic", 1)
        for words in (["report", "--view=temporary"], ["report", "--sort=temporary_blocks"],
                      ["export", "--to=folded", "--metric=temporary_blocks"]):
            outcome = recorded.run([tools.allogram, words[0], traces[0], *words[1:]])
            failures.require("%s is refused: status %d" % (words, outcome.status), outcome.status != 0)
            failures.expect("lines of %s" % words, len(outcome.stderr.decode().splitlines()), 1)
            failures.fail_unless("%s names the trace twice: %s" % (words, outcome.stderr), outcome.stderr.decode().count(traces[0]) <= 1)
    return failures


SUMS = ("allocated_bytes", "in_use_bytes", "peak_bytes")


def sums_of_dhat(text):
    points = json.loads(text)["pps"]
    own = [max(point["gb"], point["eb"]) <= point["mb"] + point["tbk"] and point["mb"] <= point["tb"] + point["tbk"] and point["tl"] > 0
           for point in points]
    return tuple(sum(point[key] for point in points) for key in ("tb", "eb", "gb")) if all(own) else own


def sums_of_massif(text):
    snapshots = [dict(re.findall(r"^(\w+)=(.*)$", part, re.MULTILINE)) for part in text.decode().split("#-----------\nsnapshot=")[1:]]
    trees = re.findall(r"^n\d+: (\d+) \(heap allocation", text.decode(), re.MULTILINE)
    peak = [int(one["mem_heap_B"]) for one in snapshots if one["heap_tree"] == "peak"]
    return None, int(snapshots[-1]["mem_heap_B"]), peak[0] if str(peak[0]) in trees else None


def sums_of_heaptrack(text):
    sizes, allocated, in_use, peak = [], 0, 0, 0
    for line in text.decode().splitlines():
        words = line.split()
        if words[0] == "a":
            sizes.append(int(words[1], 16))
        elif words[0] == "+":
            allocated += sizes[int(words[1], 16)]
            in_use += sizes[int(words[1], 16)]
            peak = max(peak, in_use)
        elif words[0] == "-":
            in_use -= sizes[int(words[1], 16)]
    return allocated, in_use, peak


def sums_of_firefox(text):
    weights = json.loads(text)["threads"][0]["nativeAllocations"]["weight"]
    return sum(weight for weight in weights if weight > 0), sum(weights), None


def sums_of_csv(text):
    rows = list(csv.DictReader(text.decode().splitlines()))
    whole = all(int(row[name + "_ci95_low"]) <= int(row[name]) <= int(row[name + "_ci95_high"]) for row in rows for name in SUMS)
    unknown = {row["temporary_blocks"] for row in rows}
    return tuple(sum(int(row[name]) for row in rows) for name in SUMS) if whole and unknown == {""} else unknown


def sums_of_json(text):
    exported = json.loads(text)
    whole = all(row[name + "_ci95"][0] <= row[name] <= row[name + "_ci95"][1] for row in exported["stacks"] for name in SUMS)
    whole = whole and all(point["in_use_bytes_ci95"][0] <= point["in_use_bytes"] <= point["in_use_bytes_ci95"][1] for point in exported["timeline"])
    return tuple(sum(row[name] for row in exported["stacks"]) for name in SUMS) if whole else "an interval"


def sums_of_folded(text):
    return sum(int(line.rsplit(b" ", 1)[1]) for line in text.splitlines()), None, None


# format: the function that reads its sums (None: the test does not read them), and the text that marks estimates. The function returns a tuple; an
# element is None if the format does not contain this sum.
EXPORTS = {
    "dhat": (sums_of_dhat, rb'"cmd": ".*\[estimates from samples'),
    "massif": (sums_of_massif, rb"(?m)^desc: .*estimates from samples"),
    "heaptrack": (sums_of_heaptrack, rb"(?m)^X .*\[bytes are estimates from samples"),
    "firefox": (sums_of_firefox, rb'"extra": \[.*"value": "estimates from samples'),
    "csv": (sums_of_csv, rb"allocated_bytes_ci95_low"),
    "json": (sums_of_json, rb'"interval_bytes": 8192'),
    "folded": (sums_of_folded, rb""),
    "callgrind": (None, rb"(?m)^desc: estimates from samples"),
    "speedscope": (None, rb'"exporter": "allogram; estimates from samples'),
    "pprof": (None, rb"estimates from samples(?s:.*)|inuse_space_ci95(?s:.*)estimates from samples"),
    "heapprofile": (None, rb""),
}


def exports_carry_estimates(tools):
    """Exports contain the same sums as the summary, with an error of at most one byte for each sample. Exports are marked as estimates, and
    have the intervals if the format can express them."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, traces = sampled(tools, folder, "periodic", 1)
        summary = recorded.report(tools, traces[0])
        wanted = tuple(summary[key] for key in ("allocated_bytes", "in_use_bytes_at_end", "peak_bytes"))
        n_samples = len(recorded.report(tools, traces[0], "--view=blocks", "--limit=0")["blocks"])
        failures.require("the trace has more than 1000 samples: %d" % n_samples, n_samples > 1000)
        for name, (sums_of, note) in EXPORTS.items():
            outcome = recorded.run([tools.allogram, "export", traces[0], "--to=" + name])
            failures.expect(name, (outcome.status, outcome.stderr), (0, b""))
            text = gzip.decompress(outcome.stdout) if name == "pprof" else outcome.stdout
            failures.fail_unless("%s does not say that its numbers are estimates" % name, re.search(note, text))
            found = sums_of(text) if sums_of else (None, None, None)
            near = len(found) == 3 and all(value is None or abs(value - right) <= n_samples for value, right in zip(found, wanted))
            failures.fail_unless("%s: %s, not %s" % (name, found, wanted), near)
            if name == "pprof":
                failures.require("the pprof export contains intervals", b"alloc_objects_ci95" in text and b"inuse_space_ci95" in text)
    return failures


def gates_are_unsure_within_an_interval(tools):
    """`--fail-if` ends with status 3 only if the condition is true for all values in the interval of the estimate. If the condition is
    true for some values of the interval only, a message says that the result is uncertain, and the status is 0."""
    failures = tap.Failures()
    with recorded.Folder() as folder, recorded.Folder() as other:
        _, traces = sampled(tools, folder, "periodic", 1)
        _, others = sampled(tools, other, "periodic", 2)
        summary = recorded.report(tools, traces[0])
        value, (low, high) = summary["allocated_bytes"], summary["allocated_bytes_ci95"]
        site = next(row for row in recorded.report(tools, traces[0], "--view=sites")["sites"] if row["own"]["allocated_blocks"] > 0)
        own = 'sites["%s"].allocated_blocks' % site["function"]
        cases = {
            "allocated_bytes > %d" % (low - 1): 3, "allocated_bytes > %d" % low: "unsure", "allocated_bytes > %d" % (value - 1): "unsure",
            "allocated_bytes > %d" % (high - 1): "unsure", "allocated_bytes > %d" % high: 0, "not allocated_bytes > %d" % high: 3,
            "temporary_blocks > 0": "unsure", "threads > 0": 3, "lost_events > 0": 0, "growth.allocated_bytes > 0": "unsure",
            "growth.allocated_bytes > 100%": 0, "growth.allocated_bytes > -90%": 3, 'sites["nowhere"].allocated_bytes > 0': "unsure",
            'sites["nowhere"].allocated_bytes > 1G': 0, "%s > %d" % (own, site["own"]["allocated_blocks_ci95"][0] - 1): 3,
            "%s > %d" % (own, site["own"]["allocated_blocks"] - 1): "unsure",
        }
        for expression, wanted in cases.items():
            base = ["--base=" + others[0]] if "growth" in expression else []
            outcome = recorded.run([tools.allogram, "report", traces[0], *base, "--fail-if=" + expression])
            is_unsure = b"is uncertain, because its numbers are estimates" in outcome.stderr
            failures.expect(expression, "unsure" if is_unsure else outcome.status, wanted)
            failures.expect("status of " + expression, outcome.status, 3 if wanted == 3 else 0)
    return failures


def diffs_say_what_is_chance(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder, recorded.Folder() as other:
        _, before = sampled(tools, folder, "periodic", 1)
        _, after = sampled(tools, other, "periodic", 2)
        outcome = recorded.run([tools.allogram, "diff", before[0], after[0], "--json"])
        total = json.loads(outcome.stdout)["total"]
        low, high = total["allocated_bytes_ci95"]
        failures.fail_unless("the interval of the change does not contain 0: %d to %d" % (low, high), low <= 0 <= high)
        text = subprocess.run([tools.allogram, "diff", before[0], after[0]], capture_output=True, text=True, check=True).stdout
        failures.fail_unless("the text does not say that the change is uncertain", "uncertain" in text)
    return failures


def merged_processes_add_up(tools):
    """Merges the traces of two processes with different sampling intervals. The estimates must have no bias, their intervals must contain
    the true value, and the variances of the two traces must add up."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        traces, truth = [], {}
        for seed in range(100, 120):
            os.mkdir(os.path.join(folder, str(seed)))
            outcome, found = sampled(tools, os.path.join(folder, str(seed)), "periodic", seed, "8K" if seed % 2 else "16K")
            truth = truths(outcome.stdout)
            traces += found
        os.mkdir(os.path.join(folder, "exact"))
        _, exact = recorded.record(tools, [tools.program("sampled"), "periodic"], os.path.join(folder, "exact"))
        views = {trace: recorded.report(tools, trace, "--view=sites") for trace in traces}
        pairs = list(zip(traces[::2], traces[1::2]))
        both = [recorded.report(tools, *pair, "--merge", "--view=sites") for pair in pairs]
        failures.expect("sampling interval of the merged traces", both[0]["trace"]["interval_bytes"], None)
        for function, values in truth.items():
            rows = [own_of(view, function) for view in both]
            for metric in (name for name in values if values[name] > 0):
                judge(failures, "%s %s" % (function, metric), [row[metric] for row in rows], [row[metric + "_ci95"] for row in rows],
                      2 * values[metric])
            own = [own_of(views[trace], function) for trace in pairs[0]]
            failures.expect("allocated bytes, compared with the sum of the two traces", rows[0]["allocated_bytes"], sum(row["allocated_bytes"] for row in own))
            widths = [high - low for low, high in [row["allocated_bytes_ci95"] for row in (*own, rows[0])]]
            failures.require("the widths of the intervals add up as variances do: %s" % widths, abs(math.hypot(widths[0], widths[1]) / widths[2] - 1) < 0.1)
            mixed = own_of(recorded.report(tools, traces[0], exact[0], "--merge", "--view=sites"), function)
            low, high = mixed["allocated_bytes_ci95"]
            failures.require("an exact trace does not widen the interval", abs((high - low) / widths[0] - 1) < 0.1)
        summary = recorded.report(tools, *pairs[0], "--merge")
        failures.require("the summary has intervals", summary["allocated_bytes_ci95"][0] < summary["allocated_bytes_ci95"][1])
        points = recorded.report(tools, *pairs[0], "--merge", "--view=timeline")["points"]
        failures.require("points have intervals", any(low < high for low, high in (point["in_use_bytes_ci95"] for point in points)))
        off = abs(points[-1]["allocated_bytes"] - summary["allocated_bytes"])
        failures.fail_unless("the last point of the timeline differs from the summary by %d" % off, off <= 4) # each number is rounded on its own
        for view in ("threads", "types", "heaps", "lifetimes", "tree", "peak", "leaks", "blocks"):
            recorded.report(tools, *pairs[0], "--merge", "--view=" + view, "--limit=5")
        text = recorded.run([tools.allogram, "report", *pairs[0], "--merge"]).stdout.decode()
        failures.require("the text has the intervals: " + text[:300], "each process has its own interval" in text and "±" in text)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    cases = [("periodic sizes", lambda: estimates_hold(tools, "periodic")), ("powers of two", lambda: estimates_hold(tools, "powers")),
             ("a heavy tail", lambda: estimates_hold(tools, "heavy")),
             ("heaps that the program reports by allogram.h", lambda: estimates_hold(tools, "reported", program="sampled_heap")),
             ("heaps that the program reports by a tracker of allogram.h", lambda: estimates_hold(tools, "tracked", program="sampled_heap")),
             ("views agree and have intervals", lambda: views_agree_and_carry_intervals(tools)),
             ("intervals include small blocks next to a huge one", lambda: intervals_include_small_blocks_next_to_a_huge_one(tools)),
             ("no samples are not reported as zero", lambda: no_samples_are_not_reported_as_zero(tools)),
             ("timeline points have the numbers of one moment", lambda: timeline_points_have_the_numbers_of_one_moment(tools)),
             ("sums add up", lambda: sums_add_up(tools)),
             ("the same seed samples the same blocks", lambda: the_same_seed_samples_the_same_blocks(tools)),
             ("zero sizes, realloc and aligned blocks have right sums", lambda: unusual_calls_have_right_sums(tools)),
             ("the budget of CPU time is kept", lambda: a_budget_is_kept(tools)),
             ("nested calls are sampled once", lambda: nested_calls_are_sampled_once(tools)),
             ("operators are sampled", lambda: operators_are_sampled(tools)),
             ("sampled blocks are usable after the recorder stopped", lambda: sampled_blocks_are_usable_after_the_recorder_stopped(tools)),
             ("threads free blocks of each other", lambda: threads_free_for_each_other(tools)),
             ("signal handlers and children are sampled", lambda: handlers_and_children_are_safe(tools)),
             ("questions that samples cannot answer are refused", lambda: questions_that_samples_cannot_answer_are_refused(tools)),
             ("exports have the estimates", lambda: exports_carry_estimates(tools)),
             ("conditions of --fail-if are uncertain within a confidence interval", lambda: gates_are_unsure_within_an_interval(tools)),
             ("estimates of merged processes add up", lambda: merged_processes_add_up(tools)),
             ("diffs say which changes are uncertain", lambda: diffs_say_what_is_chance(tools))]
    plan = tap.Plan(len(cases))
    for name, case in cases:
        plan.run(name, case)
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
