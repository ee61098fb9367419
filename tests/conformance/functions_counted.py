#!/usr/bin/env python3
"""Programs that count the calls of their functions with allogram.h: an example whose counts are known, and programs that check every rule of
the header. The programs run alone, with liballogram, and under `allogram run`. The example is also built with pkg-config, as users build
programs."""

import glob
import os
import shlex
import shutil
import sys

import function_changes
import recorded
import tap

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "..", "..", "examples", "function_table.c")

TABLE = { # function: calls, own words, percent, words per call, words with callees; as in the example's first comment
    "loop": (100, 100, 50.0, 1.0, 130),
    "cons": (20, 60, 30.0, 3.0, 60),
    "fib": (9, 27, 13.5, 3.0, 27),
    "main": (1, 7, 3.5, 7.0, 200),
    "parse": (3, 6, 3.0, 2.0, 6),
    "range": (11, 0, 0.0, 0.0, 30),
    "even": (4, 0, 0.0, 0.0, 0),
    "odd": (4, 0, 0.0, 0.0, 0),
}
PATHS = { # path of functions from main downward: calls, own words
    ("main",): (1, 7),
    ("main", "loop"): (100, 100),
    ("main", "loop", "cons"): (10, 30),
    ("main", "even"): (4, 0),
    ("main", "odd"): (4, 0),
    ("main", "fib"): (1, 3),
    ("main", "fib", "fib"): (2, 6),
    ("main", "fib", "fib", "fib"): (4, 12),
    ("main", "fib", "fib", "fib", "fib"): (2, 6),
}
for level in range(1, 12):
    PATHS[("main",) + ("range",) * level] = (1, 0)
    if level <= 10:
        PATHS[("main",) + ("range",) * level + ("cons",)] = (1, 3)
for level in range(1, 4):
    PATHS[("main",) + ("parse",) * level] = (1, 2)


def paths_below(node, path=()):
    for child in node["children"]:
        yield path + (child["function"],), (child["calls"], child["own_words"])
        yield from paths_below(child, path + (child["function"],))


def compare_example(tools, trace):
    failures = tap.Failures()
    report = recorded.report(tools, trace, "--view=functions")
    table = {row["function"]: (row["calls"], row["own_words"], row["percent"], row["words_per_call"], row["acc_words"])
             for row in report["functions"]}
    failures.expect("table of functions", table, TABLE)
    failures.expect("runtimes", {row["runtime"] for row in report["functions"]}, {"calc"})
    failures.expect("bytes", {row["own_bytes"] - 8 * row["own_words"] for row in report["functions"]}, {0})
    failures.expect("calls, words in the total", (report["total"]["calls"], report["total"]["own_words"]), (152, 200))
    failures.expect("total time, compared with the time of main and its callees", report["total"]["own_ns"],
                    next(row["acc_ns"] for row in report["functions"] if row["function"] == "main"))
    failures.require("the total time is above 0", report["total"]["own_ns"] > 0)
    for name, wanted in (("cons", {"range": (10, 30), "loop": (10, 30)}), ("fib", {"main": (9, 27)}),
                         ("loop", {"main": (100, 100)}), ("main", {"[root]": (1, 7)})):
        rows = recorded.report(tools, trace, "--view=functions", "--callers=" + name)["callers"]
        failures.expect("callers of " + name, {row["function"]: (row["calls"], row["words"]) for row in rows}, wanted)
    root = recorded.report(tools, trace, "--view=functions", "--tree")["root"]
    failures.expect("call paths", dict(paths_below(root)), PATHS)
    failures.expect("lost events", recorded.report(tools, trace)["lost_events"]["total"], 0)
    failures.expect("status of check", recorded.check(tools, trace)[0], 0)
    return failures


def example_alone(tools):
    with recorded.Folder() as folder:
        outcome = recorded.run([os.path.join(tools.build, "examples/function_table")], cwd=folder)
        if outcome.status != 0:
            return ["status %d: %s" % (outcome.status, outcome.stderr)]
        return compare_example(tools, outcome.stdout.decode().strip())


def example_under_run(tools):
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [os.path.join(tools.build, "examples/function_table")], folder)
        failures = compare_example(tools, traces[0])
        failures.expect("status", outcome.status, 0)
        return failures


# ---- built as a user builds it ----

def built_with_pkg_config(tools):
    """Copies the header and the library to a folder like that of an installation, and builds the example with the .pc file."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        libraries, headers = os.path.join(folder, "lib"), os.path.join(folder, "include")
        os.mkdir(libraries)
        shutil.copytree(os.path.join(HERE, "..", "..", "include", "allogram"), os.path.join(headers, "allogram"))
        for library in glob.glob(os.path.join(tools.build, "src/embed/liballogram.so*")):
            if os.path.isfile(library):
                shutil.copy(library, libraries, follow_symlinks=False)
        pc = os.path.join(tools.build, "meson-private", "allogram.pc")
        flags = recorded.run(["pkg-config", "--define-variable=includedir=" + headers, "--define-variable=libdir=" + libraries,
                              "--cflags", "--libs", pc])
        if flags.status != 0:
            return ["pkg-config: %s" % flags.stderr.decode()]
        program = os.path.join(folder, "function_table")
        compiled = recorded.run(["cc", "-g", EXAMPLE, *shlex.split(flags.stdout.decode()), "-o", program])
        failures.expect("status, standard error of the compiler", (compiled.status, compiled.stderr), (0, b""))
        outcome = recorded.run([program], cwd=folder, env={"LD_LIBRARY_PATH": libraries})
        failures.expect("status", outcome.status, 0)
        for failure in compare_example(tools, outcome.stdout.decode().strip()):
            failures.append(failure)
    return failures


# ---- the rules ----

def compare(tools, trace, wanted, failures):
    outcome = recorded.run([tools.allogram, "check", trace]) # `check` also completes the trace of a killed program
    failures.expect("status of check", outcome.status, 0)
    rows = recorded.report(tools, trace, "--view=functions")["functions"]
    by_name = {}
    for row in rows: # several functions may have the same name
        counts = by_name.setdefault(row["function"], [0, 0, 0])
        by_name[row["function"]] = [sum(pair) for pair in zip(counts, (row["calls"], row["own_words"], row["own_ns"]))]
    failures.expect(os.path.basename(trace), by_name, wanted["functions"])
    places = {(row["function"], row["file"], row["line"], row["runtime"]) for row in rows}
    failures.expect("number of rows, compared with the number of functions", len(rows), len(places))
    failures.expect("lost events", recorded.report(tools, trace)["lost_events"]["total"], wanted["lost"])


def rule(tools, case, is_under_run):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        command = [tools.program("function_counters"), case]
        if is_under_run:
            outcome, traces = recorded.record(tools, command, folder)
        else:
            outcome = recorded.run(command, cwd=folder)
        failures.expect("status", outcome.status, 128 + 9 if case.startswith("killed") else 0)
        truths = recorded.truths_of(outcome, failures)
        if not is_under_run:
            truths = truths[:1] if case == "forked_child" else truths
            traces = [truth["trace"] for truth in truths]
            failures.expect("number of traces", len(os.listdir(folder)), len(truths))
        failures.require("the program prints its counts", truths)
        failures.expect("number of traces", len(traces), len(truths))
        for trace, truth in zip(traces, truths):
            compare(tools, trace, truth, failures)
    return failures


def one_name(tools):
    """Every view distinguishes functions with the same name by file and line. --callers accepts a name, for all functions with this name
    together, or a name with file and line, for one function."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome = recorded.run([tools.program("function_counters"), "one_name"], cwd=folder)
        trace = os.path.join(folder, recorded.truths_of(outcome, failures)[0]["trace"])
        view = [tools.allogram, "report", trace, "--view=functions"]
        rows = recorded.report(tools, trace, "--view=functions")["functions"]
        failures.expect("rows", {(row["function"], row["file"], row["line"]): (row["calls"], row["own_words"]) for row in rows},
                        {("new", "a.vm", 1): (10, 10), ("new", "b.vm", 9): (20, 2000), ("new", None, 7): (3, 3), ("new", None, None): (1, 5),
                         ("f", "f.vm", 3): (1, 0)})
        text = recorded.run(view).stdout.decode()
        names = [line[2:].split("  ")[0] for line in text.splitlines()]
        for name in ("new a.vm:1", "new b.vm:9", "new line 7", "new", "f"):
            failures.expect("lines of " + name, names.count(name), 1)
        tree = recorded.run(view + ["--tree", "--min=0"]).stdout.decode()
        failures.require("the tree distinguishes the two functions `new`: " + tree, "[vm] new a.vm:1\n" in tree and "[vm] new b.vm:9\n" in tree)
        for name, wanted in (("new", {"[root]": (14, 1008), "f": (20, 1010)}), ("new b.vm:9", {"[root]": (10, 1000), "f": (10, 1000)}),
                             ("[vm] new a.vm:1", {"f": (10, 10)})):
            callers = recorded.report(tools, trace, "--view=functions", "--callers=" + name)["callers"]
            failures.expect("callers of " + name, {row["function"]: (row["calls"], row["words"]) for row in callers}, wanted)
    return failures


FOLDED = {("g",): (1, 10), ("g", "f"): (510, 507), ("g", "f", "g"): (499, 4990), ("f",): (100000, 100003)}


def folded_paths(tools):
    """Two functions call each other a thousand levels deep. With ALLOGRAM_FOLD_RECURSION these calls are counted in three call paths,
    and the sums of each function do not change."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, traces = recorded.record(tools, [tools.program("function_counters"), "folded"], folder)
        root = recorded.report(tools, traces[0], "--view=functions", "--tree")["root"]
        wanted = dict(FOLDED)
        wanted[("g",)] = (2, 10) # also counts a call that the program makes at its end
        failures.expect("call paths", dict(paths_below(root)), wanted)
        rows = {row["function"]: row["acc_words"] for row in recorded.report(tools, traces[0], "--view=functions")["functions"]}
        failures.expect("words of g and f with their callees", rows, {"g": 5507, "f": 5497 + 100003})
    return failures


def changes(tools):
    """If only the second trace has the example's functions, `diff` must show their counts as an increase; if only the first trace has them,
    as a decrease. Two traces of the same program differ only in times."""
    failures = tap.Failures()
    example = os.path.join(tools.build, "examples/function_table")
    with recorded.Folder() as first, recorded.Folder() as second, recorded.Folder() as third:
        traces = [recorded.record(tools, command, folder)[1][0]
                  for folder, command in ((first, [example]), (second, [example]),
                                          (third, [tools.program("function_counters"), "folded"]))]
        changed = function_changes.compare(tools, traces[2], traces[0], failures)
        failures.expect("functions of the second trace only", {name: (row["calls"], row["own_words"], row["acc_words"]) for name, row in changed.items()
                                        if name in TABLE},
                        {name: (calls, words, acc_words) for name, (calls, words, _, _, acc_words) in TABLE.items()})
        changed = function_changes.compare(tools, traces[0], traces[2], failures)
        failures.expect("functions of the first trace only", {name: (row["calls"], row["own_words"]) for name, row in changed.items() if name in TABLE},
                        {name: (-calls, -words) for name, (calls, words, _, _, _) in TABLE.items()})
        changed = function_changes.compare(tools, traces[0], traces[1], failures)
        failures.expect("changes between two traces of the same program", {(row["calls"], row["own_words"], row["acc_words"]) for row in changed.values()} - {(0, 0, 0)},
                        set())
        for command, status, says in (([tools.allogram, "diff", *traces[:2], "--sort=calls", "--by=line"], 2, "does not apply"),
                                      ([tools.allogram, "report", traces[0], '--fail-if=functions["f"].own_wrds > 1'], 2, "the metrics are")):
            outcome = recorded.run(command)
            failures.expect(says, (outcome.status, says in outcome.stderr.decode()), (status, True))
        failures.expect("a condition on a function that is not in the trace", function_changes.gate(tools, traces[0], 'functions["f"].own_words > 0'), 0)
    return failures


def without_counters(tools):
    """If a trace has no function counters, a condition on function counters is an error; it is not just false."""
    failures = tap.Failures()
    with recorded.Folder() as folder, recorded.Folder() as other:
        plain = recorded.record(tools, [tools.program("temporary")], folder)[1][0]
        counted = recorded.record(tools, [os.path.join(tools.build, "examples/function_table")], other)[1][0]
        for trace, condition, options in ((plain, "own_words < 1", ()), (plain, 'functions["main"].calls < 1', ()),
                                          (counted, "growth.calls < 1", ("--base=" + plain,))):
            failures.expect(condition, function_changes.gate(tools, trace, condition, *options), 1)
        outcome = recorded.run([tools.allogram, "diff", plain, plain, "--sort=own_words"])
        failures.expect("status of diff; it says why", (outcome.status, b"neither trace has function counters" in outcome.stderr), (1, True))
    return failures


def apart_and_collected(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, traces = recorded.record(tools, [tools.program("function_counters"), "apart"], folder)
        report = recorded.report(tools, traces[0], "--view=functions")
        for key, count, words in (("messages", 2, 120), ("spawn_arguments", 1, 3), ("profiler", 5, 20)):
            failures.expect(key, report[key], {"count": count, "words": words, "bytes": 8 * words})
        gc = recorded.report(tools, traces[0], "--view=gc")["collections"]
        failures.expect("collections", [(row["kind"], row["process"], row["heap_before_bytes"], row["heap_after_bytes"],
                                         row["needed_bytes"]) for row in gc], [("minor", "keeper", 800, 160, 64)])
        blame = recorded.report(tools, traces[0], "--view=gc", "--blame")["blame"]
        failures.expect("blame", [(row["function"], row["collections"]) for row in blame], [("f", 1)])
    return failures


def rule_without_the_library(tools):
    """The program is not linked with liballogram. Then every call of allogram.h does nothing; under `run` the functions are counted."""
    failures = tap.Failures()
    program = tools.program("function_counters_alone")
    with recorded.Folder() as folder:
        outcome = recorded.run([program, "no_set"], cwd=folder)
        failures.expect("status", outcome.status, 0)
        failures.expect("files in the folder", os.listdir(folder), [])
        outcome, traces = recorded.record(tools, [program, "reset"], folder)
        compare(tools, traces[0], recorded.truths_of(outcome, failures)[0], failures)
    return failures


NOT_UNDER_RUN = {"sessions_in_turn"} # the program starts recordings of its own
ONLY_UNDER_RUN = {"left_by__exit", "left_by_quick_exit", "left_in_a_handler"} # only the library that `run` preloads is called at these ends


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    rules = recorded.cases_of("function_counters")
    results = tap.Plan(9 + 2 * len(rules) - len(NOT_UNDER_RUN) - len(ONLY_UNDER_RUN))
    results.run("the example alone", lambda: example_alone(tools))
    results.run("the example under run", lambda: example_under_run(tools))
    if shutil.which("pkg-config") and shutil.which("cc"):
        results.run("the example, built with pkg-config", lambda: built_with_pkg_config(tools))
    else:
        results.skip("the example, built with pkg-config", "pkg-config or cc is not installed")
    results.run("neither library nor profiler", lambda: rule_without_the_library(tools))
    results.run("recursion folded into paths", lambda: folded_paths(tools))
    results.run("one name, several functions", lambda: one_name(tools))
    results.run("changes from trace to trace", lambda: changes(tools))
    results.run("traces without counters", lambda: without_counters(tools))
    results.run("messages, arguments, profiler words, and a process's collection", lambda: apart_and_collected(tools))
    for case in rules:
        if case not in ONLY_UNDER_RUN:
            results.run("alone: " + case, lambda case=case: rule(tools, case, False))
        if case not in NOT_UNDER_RUN:
            results.run("under run: " + case, lambda case=case: rule(tools, case, True))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
