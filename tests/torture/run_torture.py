#!/usr/bin/env python3
"""run_torture: runs random programs with unusual behavior (torture programs) with and without allogram, in all modes, and compares the runs.

    run_torture.py --build=BUILD --seeds=A-B [--modes=LIST] [--log=FILE]   the programs of these seeds (or A,B,...); adds one line to the log
    run_torture.py --build=BUILD --until=20000 --log=FILE                  continues where the log ends, in slices of 500 programs
    run_torture.py --build=BUILD --text=TEXT --variant=NAME                one program
    run_torture.py --build=BUILD --test                                    for `make test`: runs self_test.py, the programs in kept/, and
                                                                           500 seeds; prints TAP

A seed determines one program: a tree of acts, which are the steps of the program (program_text.py), and the way in which the program is compiled
(variants.py). judging.py describes the modes, and which differences count as findings. The folder kept/ (if it exists) has programs that failed once.
A program is not run in a mode in which it would show a known defect (known_defects.py), unless --all or --text is given; such programs are counted as
left out. --repeat runs the program of --text several times, --reduce makes a failing program smaller (reducing.py), --work is the folder for the
executables and the runs, and --verbose shows where in this script an exception was raised.
"""

import argparse
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time

import judging
import known_defects
import program_text
import reducing
import seed_log
import self_test
import surroundings
import trace_truth
import variants

HERE = os.path.dirname(os.path.abspath(__file__))
KEPT = os.path.join(HERE, "kept")
SLICE = 500
TESTED_SEEDS = 500
FRESH_SHARE = 0.15  # the share of programs with generated C code (fresh_source.py), which has to be compiled for each program


class Program:
    """A torture program. `variant` is one of variants.VARIANTS, or a variants.Fresh."""

    def __init__(self, seed, tree, variant):
        self.seed, self.tree, self.variant = seed, tree, variant

    def executable(self, builds, folder):
        return builds.make_fresh(self.variant, folder) if self.variant.way == "fresh" else builds.path(self.variant)


def program_of(seed):
    dice = random.Random("variant %d" % seed)
    is_fresh = dice.random() < FRESH_SHARE
    variant = variants.Fresh(seed) if is_fresh else dice.choice(variants.VARIANTS)
    return Program(seed, program_text.make_program(seed, variant.own_malloc, is_fresh), variant)


def variant_named(name):
    if name.startswith("fresh-"):
        return variants.Fresh(int(name.partition("-")[2]))
    return next(variant for variant in variants.VARIANTS if variant.name == name)


def kept_programs():
    found = []
    for name in sorted(os.listdir(KEPT)) if os.path.isdir(KEPT) else []:
        if name.endswith(".json"):
            with open(os.path.join(KEPT, name), encoding="utf-8") as file:
                kept = json.load(file)
            found.append(Program(name[:-5], program_text.parse(kept["text"]), variant_named(kept["variant"])))
    return found


class Result:
    """The result of one program. A worker process sends it to the driver (this script)."""

    def __init__(self, program):
        self.seed, self.text, self.variant = program.seed, program.tree.text(), program.variant.name
        self.findings, self.unstable, self.left_out = [], None, []
        self.n_runs = self.n_reported_losses = self.n_refused = 0


def spread_modes(program):
    others = judging.MODES[2:]
    return ["exact", "sample", others[program.seed % len(others)] if isinstance(program.seed, int) else None]


def work(number, options, builds, tasks, results):
    folder = tempfile.mkdtemp(prefix="torture-%d-" % number, dir=options.work)
    has_own_shm = surroundings.enter()
    judge = judging.Judge(options.allogram, builds, folder, has_own_shm, options.slowness)
    while True:
        program = tasks.get()
        if program is None:
            break
        result = Result(program)
        modes = []
        for mode in options.modes:
            if options.spread and mode not in spread_modes(program):
                continue
            marks = [] if options.all else known_defects.hit(program.tree, program.variant, mode, options.fixed)
            if marks:
                result.left_out += marks
            else:
                modes.append(mode)
        before = (judge.n_runs, judge.n_reported_losses, judge.n_refused)
        try:
            executable = program.executable(builds, folder)
            result.findings, result.unstable = judge.judge([executable, program.tree.text()], modes, program.seed)
            if result.findings and options.reduce:
                result.text = reducing.reduce(judge, executable, program, modes, result.findings).text()
            if program.variant.way == "fresh":
                os.unlink(executable)
        except Exception as error:  # the other programs are still run
            result.findings = [judging.Finding("driver", "error", "%s: %s" % (type(error).__name__, error))]
            if options.verbose:
                raise
        result.n_runs, result.n_reported_losses, result.n_refused = (
            judge.n_runs - before[0], judge.n_reported_losses - before[1], judge.n_refused - before[2])
        results.put(result)
    shutil.rmtree(folder, ignore_errors=True)
    results.put(None)


class Tally:
    def __init__(self):
        self.n_programs = self.n_runs = self.n_unstable = self.n_left_out = self.n_reported_losses = self.n_refused = 0
        self.kinds = {}
        self.failed, self.unstable = [], []

    def add(self, result):
        self.n_programs += 1
        self.n_runs += result.n_runs
        self.n_reported_losses += result.n_reported_losses
        self.n_refused += result.n_refused
        if result.unstable is not None:
            self.n_unstable += 1
            self.unstable.append(result)
        self.n_left_out += bool(result.left_out)
        if result.findings:
            self.failed.append(result)
            for kind in {finding.kind for finding in result.findings}:
                self.kinds[kind] = self.kinds.get(kind, 0) + 1

    def line(self, what, options, seconds):
        """Returns the line of the log for a slice (programs with consecutive seeds)."""
        kind = lambda *names: sum(self.kinds.get(name, 0) for name in names)
        return ("%s commit=%s seeds=%s modes=%s programs=%d runs=%d unstable=%d left_out=%d failed=%d differences=%d crashes_or_status=%d "
                "hangs=%d leftovers=%d unreported=%d traces=%d reported_losses=%d seconds=%d" % (
                    time.strftime("%Y-%m-%d", time.gmtime()), options.commit, what, "+".join(options.modes), self.n_programs, self.n_runs,
                    self.n_unstable, self.n_left_out, len(self.failed), kind("output", "stderr", "complaint"), kind("status"),
                    kind("hang"), kind("left"), kind("counts"), kind("trace", "attach", "error"), self.n_reported_losses, seconds))


def run_programs(programs, options, builds):
    context = multiprocessing.get_context("fork")
    tasks, results = context.Queue(), context.Queue()
    workers = [context.Process(target=work, args=(i, options, builds, tasks, results)) for i in range(options.jobs)]
    for program in programs:
        tasks.put(program)
    for worker in workers:
        tasks.put(None)
        worker.start()
    tally, n_ended = Tally(), 0
    while n_ended < len(workers):
        result = results.get()
        if result is None:
            n_ended += 1
            continue
        tally.add(result)
        if result.unstable:
            print("# seed %s: two runs without allogram differ (a defect of the generator): %s: %s %s" % (result.seed, result.unstable, result.variant, result.text), flush=True)
        if result.findings:
            print("# seed %s fails, %s: %s" % (result.seed, result.variant, result.text))
            for finding in result.findings:
                print("#     %s" % finding, flush=True)
    for worker in workers:
        worker.join()
    return tally


def run_slice(programs, what, options, builds):
    begin = time.monotonic()
    tally = run_programs(programs, options, builds)
    line = tally.line(what, options, time.monotonic() - begin)
    print("# " + line, flush=True)
    if options.log:
        with open(options.log, "a", encoding="utf-8") as file:
            file.write(line + "\n")
            for result in sorted(tally.failed + tally.unstable, key=lambda result: result.seed):
                kinds = sorted({"%s: %s" % (finding.mode, finding.kind) for finding in result.findings})
                file.write("    seed %s: %s\n" % (result.seed, ", ".join(kinds) or "unstable"))
    return tally


def test_judge(options, builds):
    """Runs the cases of self_test.py in a process of their own. Returns (name, error or None) of each case."""

    def worker(results):
        folder = tempfile.mkdtemp(prefix="torture-self-", dir=options.work)
        variant = variants.VARIANTS[2]
        results.put(self_test.run(options.allogram, builds, variant, folder, surroundings.enter()))
        shutil.rmtree(folder, ignore_errors=True)

    context = multiprocessing.get_context("fork")
    results = context.Queue()
    process = context.Process(target=worker, args=(results,))
    process.start()
    cases = results.get()
    process.join()
    return cases


def is_certain(result, options, builds):
    """Whether --test counts the findings of a program. A crash, a hang and a leftover always count. Another difference counts only if the program
    fails again in one of three more runs, because other load on the machine may have caused it. `make soak` counts every difference."""
    if any(finding.kind in ("status", "hang", "left") for finding in result.findings):
        return True
    return any(run_programs([program_of(result.seed)], options, builds).failed for _ in range(3))


def test(options, builds):
    """Prints TAP, with one case for each case of self_test.py, for each program in kept/, and for each hundred seeds."""
    n = 0

    def say(name, wrong):
        nonlocal n
        n += 1
        print("%s %d %s" % ("not ok" if wrong else "ok", n, name))
        if wrong:
            print("#     %s" % wrong, flush=True)
        return bool(wrong)

    failed = sum([say("the judge: " + name, wrong) for name, wrong in test_judge(options, builds)])
    for program in kept_programs():
        tally = run_programs([program], options, builds)
        failed += say("kept: %s" % program.seed, "see above" if tally.failed else None)
    options.spread = True
    for first in range(1, TESTED_SEEDS, 100):
        seeds = "%d-%d" % (first, first + 99)
        tally = run_slice([program_of(seed) for seed in seed_log.seeds_in(seeds)], seeds, options, builds)
        certain = [result for result in tally.failed if is_certain(result, options, builds)]
        if len(certain) < len(tally.failed):
            print("# %d programs failed once, and passed when they were run again" % (len(tally.failed) - len(certain)), flush=True)
        wrong = ["%d of 100 programs failed" % len(certain)] if certain else []
        wrong += ["%d of 100 programs are unstable" % tally.n_unstable] if tally.n_unstable else []
        failed += say("seeds %s" % seeds, ", ".join(wrong) or None)
    print("1..%d" % n)
    return 1 if failed else 0


def parse_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--allogram")
    parser.add_argument("--seeds")
    parser.add_argument("--until", type=int)
    parser.add_argument("--text")
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--spread", action="store_true", help="run each program in the modes exact and sample, and in one other mode")
    parser.add_argument("--variant", default="gcc-O2-libc-apart")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--modes", default=",".join(judging.MODES))
    parser.add_argument("--log")
    parser.add_argument("--slice", type=int, default=SLICE, help="how many programs a line of the log counts")
    parser.add_argument("--work")
    parser.add_argument("--jobs", type=int, default=2 * os.cpu_count())  # a program mostly waits
    parser.add_argument("--slowness", type=float, default=1.0, help="factor of all time limits")
    parser.add_argument("--all", action="store_true", help="also run programs that show a known defect")
    parser.add_argument("--fixed", default="", help="numbers of defects whose rows in known_defects.py are ignored")
    parser.add_argument("--reduce", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--print", action="store_true", help="print the texts of the programs, and run nothing")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    options.allogram = os.path.abspath(options.allogram or os.path.join(options.build, "src/cli/allogram"))
    options.modes = options.modes.split(",")
    options.fixed = options.fixed.split(",")
    options.work = os.path.abspath(options.work or os.path.join(options.build, "torture"))
    options.commit = seed_log.commit()
    return options


def main():
    options = parse_options()
    if options.print:
        for seed in seed_log.seeds_in(options.seeds):
            program = program_of(seed)
            print(seed, program.variant.name, program.tree.text())
        return 0
    os.makedirs(options.work, exist_ok=True)
    builds = variants.Builds(options.work)
    builds.make()
    for path in builds.shared_files():
        trace_truth.functions_of(path) # in this process, so that no worker has to read the symbols again
    if options.test:
        return test(options, builds)
    failed = 0
    if options.text:
        programs = [Program(i, program_text.parse(options.text), variant_named(options.variant)) for i in range(options.repeat)]
        options.all = True
        failed += len(run_slice(programs, "text", options, builds).failed)
    if options.seeds:
        failed += len(run_slice([program_of(seed) for seed in seed_log.seeds_in(options.seeds)], options.seeds, options, builds).failed)
    if options.until:
        next_seed = seed_log.last_in_log(options.log) + 1
        while next_seed <= options.until:
            last = min(next_seed + options.slice - 1, options.until)
            seeds = range(next_seed, last + 1)
            failed += len(run_slice([program_of(seed) for seed in seeds], "%d-%d" % (next_seed, last), options, builds).failed)
            next_seed = last + 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
