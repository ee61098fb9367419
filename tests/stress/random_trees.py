#!/usr/bin/env python3
"""random_trees: records random trees of processes, and compares the process tree, the parents, the titles, the sums of each process, the
merged sums and the frees of inherited blocks with the counts that each process wrote itself (tests/programs/processes/process_family.c).

    random_trees.py --build=BUILD                            for `make test`: 20 trees; prints TAP
    random_trees.py --build=BUILD --seeds=A-B [--log=FILE]   the trees of these seeds (or A,B,...); adds one line to the log
    random_trees.py --build=BUILD --until=2000 --log=FILE    continues where the log ends, in slices of 100 trees

Every difference is a failure. Titles are the only thing that depends on time, because the writer reads them again and again while a process runs:
a tree whose only differences are titles that the writer has not seen is recorded again, up to three times in all.
"""

import argparse
import glob
import multiprocessing
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../conformance"), os.path.join(HERE, "../torture")]
import counted  # noqa: E402
import recorded  # noqa: E402
import seed_log  # noqa: E402
import tap  # noqa: E402

TESTED_SEEDS = range(1, 21)
SLICE = 100
DEPTH = 3
ATTEMPTS = 3
COUNTS = ("allocated_blocks", "allocated_bytes", "freed_blocks", "freed_bytes", "inherited_frees", "peak_bytes")
NOTHING_MISSING = {"lost_events": 0, "lost_stacks": 0, "damaged_chunks": 0, "damaged_events": 0, "end_of_file": False, "after_ns": None}
NUMBERS = ("processes", "programs", "inherited_frees", "titles")


def thread_block_bytes(tools):
    """The size of the block that pthread_create allocates for the first thread of a program, by the judge's count. Stops if libc does not allocate
    one block for the first thread and none for the second, because process_family counts on this."""
    sizes = []
    for threads in (1, 2):
        with recorded.Folder() as folder:
            recorded.run([tools.program("process_family"), str(threads)], env=counted.environment(tools.judge, folder))
            images = counted.read(folder)
            sizes.append([(image["allocated_blocks"], image["allocated_bytes"]) for image in images])
    if sizes[0] != sizes[1] or len(sizes[0]) != 1 or sizes[0][0][0] != 1:
        raise RuntimeError("pthread_create allocates other blocks than expected: %s" % sizes)
    return sizes[0][0][1]


def read_log(path):
    """{(pid, number of programs that the process had executed before): (name, parent's name, how, title, counts)}"""
    family = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            name, parent, how, pid, image, title, *counts = line.split()
            known = {count: int(value) for count, value in zip(COUNTS, counts) if value != "?"}
            family[int(pid), int(image)] = (name, parent, how, title, known)
    return family


def key_of(path):
    """The key of read_log for a trace: t.PID.allogram, and t.PID-2.allogram of the second program of the process."""
    match = re.fullmatch(r"t\.(\d+)(?:-(\d+))?\.allogram", os.path.basename(path))
    return int(match[1]), int(match[2] or 1) - 1


def wait_for_tree(tools, folder, log):
    """Waits until each process has written its line and has a sealed trace, because daemons outlive `run`. Returns the traces, the process tree of
    `report`, and what read_log returns."""
    end = time.monotonic() + 60
    while True:
        traces, truth = recorded.traces_in(folder), read_log(log)
        try:
            tree = recorded.report(tools, traces[0], "--view=process_tree", *traces[1:])
            is_complete = len(traces) == len(truth) and all(row["end"] != "running" for row in tree["processes"])
            if is_complete or time.monotonic() > end:
                return traces, tree, truth
        except RuntimeError:
            if time.monotonic() > end:
                raise
        time.sleep(0.1)


def compare(failures, titles, tools, traces, tree, truth):
    """Adds differences to `failures`, titles that were not seen to `titles`."""
    rows = {key_of(row["file"]): row for row in tree["processes"]}
    failures.expect("processes and programs", sorted(rows), sorted(truth))
    failures.expect("total of processes and programs, repeated traces",
                    (tree["total"]["processes"], tree["total"]["programs"], tree["repeated_traces"]),
                    (len({pid for pid, _ in truth}), len(truth), 0))
    if failures:
        return
    name_of = {row["file"]: truth[key][0] for key, row in rows.items()}
    sums = dict.fromkeys(COUNTS, 0)
    for key, (name, parent, how, title, counts) in truth.items():
        row = rows[key]
        failures.expect(name + ": counts", {count: row[count] for count in counts}, counts)
        failures.expect(name + ": ghosts, what is missing", (row["ghost_frees"], row["missing"]), (0, NOTHING_MISSING))
        failures.expect(name + ": parent", (row["parent_file"] and name_of[row["parent_file"]], row["was_executed"]),
                        (None if parent == "-" else parent, how == "exec"))
        if row["title"] is None and title not in ("-", "?"):
            titles.expect(name + ": title", row["title"], title)
        elif title != "?":
            failures.expect(name + ": title", row["title"] or "-", title)
        sums = {count: sums[count] + counts.get(count, row[count]) for count in COUNTS}
    merged = recorded.report(tools, traces[0], "--merge", *traces[1:])
    failures.expect("merged", {count: merged[count] for count in COUNTS}, sums)
    failures.expect("merged: ghosts, lost events", (merged["ghost_frees"], merged["lost_events"]["total"]), (0, 0))


def record_once(tools, seed, block_bytes):
    failures, titles, numbers = tap.Failures(), tap.Failures(), {}
    with recorded.Folder() as folder:
        log = os.path.join(folder, "log")
        open(log, "w").close()
        os.mkdir(log + ".root")
        outcome, _ = recorded.record(tools, [tools.program("process_family"), str(seed), log, "top", str(DEPTH)], folder,
                                     env={"THREAD_BLOCK_BYTES": str(block_bytes)})
        failures.expect("status, output", (outcome.status, outcome.stdout, outcome.stderr), (0, b"", b""))
        traces, tree, truth = wait_for_tree(tools, folder, log)
        compare(failures, titles, tools, traces, tree, truth)
        failures.require("the live file is removed", not glob.glob(os.path.join(folder, "*.live")))
        numbers = {"processes": len({pid for pid, _ in truth}), "programs": len(truth),
                   "inherited_frees": sum(counts["inherited_frees"] for *_, counts in truth.values()),
                   "titles": sum(title not in ("-", "?") for _, _, _, title, _ in truth.values())}
    return failures, titles, numbers


def run_tree(task):
    """Returns the seed, the failures and the numbers of the tree of a seed. Runs in a worker process."""
    tools, seed, block_bytes = task
    try:
        for _ in range(ATTEMPTS):
            failures, titles, numbers = record_once(tools, seed, block_bytes)
            if failures or not titles:
                break
        return seed, failures + titles, numbers
    except Exception as error:  # the other trees are still run
        return seed, ["%s: %s" % (type(error).__name__, error)], {}


def run_trees(tools, seeds, jobs):
    """Yields the results of run_tree in the order of the seeds. The processes of a tree wait much, so several trees are recorded at the same time."""
    block_bytes = thread_block_bytes(tools)
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(run_tree, [(tools, seed, block_bytes) for seed in seeds])


def test(tools, jobs):
    plan = tap.Plan(len(TESTED_SEEDS))
    for seed, failures, _ in run_trees(tools, TESTED_SEEDS, jobs):
        plan.run("tree %d" % seed, lambda failures=failures: failures)
    return plan.status()


def run_slice(tools, seeds, what, log, jobs):
    """Runs the trees of the seeds, prints the failures, and appends a line to the log. Returns the number of trees that failed."""
    begin = time.monotonic()
    sums, failed = dict.fromkeys(NUMBERS, 0), []
    for seed, failures, numbers in run_trees(tools, seeds, jobs):
        sums = {name: sums[name] + numbers.get(name, 0) for name in NUMBERS}
        if failures:
            failed.append((seed, failures))
            print("# seed %d fails\n#     %s" % (seed, "\n#     ".join(failures)), flush=True)
    line = "%s commit=%s seeds=%s trees=%d %s failed=%d seconds=%d" % (
        time.strftime("%Y-%m-%d", time.gmtime()), seed_log.commit(), what, len(seeds), " ".join("%s=%d" % item for item in sums.items()),
        len(failed), time.monotonic() - begin)
    print("# " + line, flush=True)
    if log:
        with open(log, "a", encoding="utf-8") as file:
            file.write(line + "\n")
            for seed, failures in failed:
                file.write("    seed %d: %s\n" % (seed, failures[0]))
    return len(failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--seeds")
    parser.add_argument("--until", type=int)
    parser.add_argument("--log")
    parser.add_argument("--jobs", type=int, default=4)
    options = parser.parse_args()
    if options.until and not options.log:
        parser.error("--until continues a log: give --log, too")
    tools = recorded.Tools(options.build)
    recorded.hide_debug_files()
    if options.seeds:
        return run_slice(tools, seed_log.seeds_in(options.seeds), options.seeds, options.log, options.jobs) > 0
    if not options.until:
        return test(tools, options.jobs)
    failed, first = 0, seed_log.last_in_log(options.log) + 1
    while first <= options.until:
        last = min(first + SLICE - 1, options.until)
        failed += run_slice(tools, range(first, last + 1), "%d-%d" % (first, last), options.log, options.jobs)
        first = last + 1
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
