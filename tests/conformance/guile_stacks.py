#!/usr/bin/env python3
"""Guile 3.0: the Scheme procedures and lines in the stacks of blocks, in Guile's bytecode interpreter, in compiled code (JIT) and in its
evaluator of source code. The program prints the stacks that Guile itself shows (make-stack), and the recorded stacks of the blocks that the
program allocates at these moments must be the same. Guile takes small blocks from the collector in lists. The numbers of blocks of the procedures
show that each small block has the stack of its own allocation, and not the stack of the call that made the list. tests/roots runs the same test
with a newer release of Guile."""

import os
import sys

import place
import recorded
import tap

SCRIPT = recorded.source_of("guile_stacks.scm")
N = 500
LIBRARY = "guile/3.0/"
START = "start of Guile"  # the frame of blocks that Guile's C code allocates before it can run Scheme code
PAIR_BYTES = 16
BYTES_BYTES = 4 * 8 + 1777  # of a bytevector, with its header
CASES = [("bytecode", "-1"), ("compiled code", "0"), ("both", "1000"), ("the evaluator", "1000")]  # name, GUILE_JIT_THRESHOLD


def vector_bytes(words):
    return (words + 1) * 8


def scheme_frames(block):
    return [frame for frame in block["stack"] if frame["runtime"] == "guile"]


def names_of(block):
    return [(frame["function"], frame["file"], frame["line"]) for frame in scheme_frames(block)]


def printed_stacks(output):
    """Returns {words: [(name, file, line)]}: the stacks that the program printed. For each of these stacks, the procedure `witness` allocated a
    vector with this number of words."""
    stacks, frames = {}, []
    for line in output.decode().splitlines():
        words = line.split()
        if words[0] == "stack":
            frames = stacks.setdefault(int(words[1]), [])
        elif words[0] == "frame":
            frames.append((words[1], words[2], int(words[3])))
    return stacks


def without_library(file):
    """Source files of Guile's own library have a folder in the trace that Guile does not print."""
    return file[len(LIBRARY):] if file and file.startswith(LIBRARY) else file


def is_same(recorded_frame, printed):
    """Guile has no name for some procedures. For `witness` the program prints the line of make-stack, which is not the line of the
    allocation."""
    name, file, line = recorded_frame
    same_name = name == printed[0] or printed[0] == "-" and name in ("lambda", "top level")
    return same_name and printed[1] in (without_library(file), "-") and (line == printed[2] or printed[0] == "witness" or printed[1] == "-")


def stacks_of(where, is_evaluated, threshold):
    failures = tap.Failures()
    script = where.bring(SCRIPT)
    environment = {"HOME": where.path(""), "XDG_CACHE_HOME": where.path("cache"), "GUILE_JIT_THRESHOLD": threshold}
    if is_evaluated:
        command = ["guile", "--no-auto-compile", script, str(N)]
        environment["GUILE_AUTO_COMPILE"] = "0"
    else:
        command = ["guile", script, str(N)]
    plain = where.run(command, env=environment)  # compiles the script, unless it is evaluated
    with recorded.Folder() as folder:
        outcome, trace = where.record(command, folder, env=environment)
        failures.expect("status", (outcome.status, plain.status), (0, 0))
        summary = where.report(trace)
        rows = {row["name"]: row for row in summary["runtimes"]}
        failures.expect("Guile is hooked, without a note", (rows["guile"]["hooked"], rows["guile"]["note"]), (True, ""))
        failures.require("coverage %s" % rows["bdwgc"]["coverage"], 0.999 <= rows["bdwgc"]["coverage"] <= 1)
        failures.expect("note of the collector", rows["bdwgc"]["note"], "")
        failures.expect("lost events, ghost frees", (summary["lost_events"]["total"], summary["ghost_frees"]), (0, 0))
        failures.expect("incomplete stacks", summary["incomplete_stacks"], 0)
        focus = "--focus=make_vector$" if is_evaluated else "--focus=^witness$"
        witnesses = where.report(trace, "--view=blocks", "--limit=0", focus, "--frames=0")["blocks"]
        compare_stacks(failures, witnesses, printed_stacks(outcome.stdout))
        if not is_evaluated:
            count_blocks(failures, where, trace)
            check_lines(failures, where, trace, ["guile_stacks.scm"])
    return failures


def check_lines(failures, where, trace, files):
    """The summary attributes each block to a procedure of the program, also if Guile's library allocated the block, and no block to the
    library. The library's files are those that are installed in Guile's folder."""
    rows = recorded.summary_lines(where.tools, trace, *where.options)
    schemes = [place for function, place in rows if function.startswith("[guile] ") and function != "[guile] " + START]
    failures.require("the first line is one of the program: %s" % rows[:5], rows and rows[0][1].split(":")[0] in files)
    failures.expect("lines of other files", [place for place in schemes if place.split(":")[0] not in files], [])
    frames = [frame for row in where.report(trace, "--view=sites", "--limit=0", "--runtime=guile")["sites"] if row["runtime"] == "guile"
              for frame in [row["file"]] if frame]
    installed = where.root + "/usr/share/"
    failures.expect("files of the library that are not installed", sorted({name for name in frames if name.startswith(LIBRARY) and
                                                                          not os.path.exists(installed + name)}), [])
    failures.expect("installed files that do not count as the library", sorted({name for name in frames if not name.startswith(LIBRARY) and
                                                                              os.path.exists(installed + LIBRARY + name)}), [])


def compare_stacks(failures, blocks, stacks):
    failures.expect("printed stacks", sorted(stacks), list(range(4001, 4009)))
    for words, printed in stacks.items():
        witnesses = [block for block in blocks if block["size"] == vector_bytes(words)]
        failures.require("witness %d: %d blocks" % (words, len(witnesses)), witnesses)
        for block in witnesses[:1]:
            found = names_of(block)
            same = len(found) == len(printed) and all(is_same(*pair) for pair in zip(found, printed))
            failures.require("witness %d: recorded %s, Guile shows %s" % (words, found, printed), same)


def count_blocks(failures, where, trace):
    for name, size in (("make-pairs", PAIR_BYTES), ("make-vectors", vector_bytes(133)), ("make-boxes-deep", vector_bytes(37)),
                       ("make-boxes-deep", PAIR_BYTES), ("make-texts", BYTES_BYTES)):
        blocks = where.report(trace, "--view=blocks", "--limit=0", "--focus=^%s$" % name, "--frames=10")["blocks"]
        innermost = [scheme_frames(block)[0]["function"] for block in blocks if block["size"] == size]
        failures.expect("blocks of %d bytes of %s" % (size, name), innermost.count(name), N)


COMPILER = """(use-modules (system base compile))
(compile-file (list-ref (command-line) 1) #:output-file (list-ref (command-line) 2))
"""


def compiler(where):
    """Guile's compiler, compiling the program of this test: at least 95 % of the blocks have a Scheme procedure with a name in their
    stacks. Nearly all others belong to Guile's start."""
    failures = tap.Failures()
    script = where.bring(SCRIPT)
    with open(os.path.join(where.folder, "compile.scm"), "w", encoding="utf-8") as file:
        file.write(COMPILER)
    command = ["guile", "--no-auto-compile", where.path("compile.scm"), script, where.path("out.go")]
    with recorded.Folder() as folder:
        outcome, trace = where.record(command, folder, env={"HOME": where.path(""), "GUILE_AUTO_COMPILE": "0"})
        failures.expect("status", outcome.status, 0)
        summary = where.report(trace)
        total = summary["allocated_blocks"]
        named, start = named_blocks(where, trace)
        failures.require("%d of %d blocks have a Scheme procedure" % (named, total), total > 100 * 1000 and 0.95 * total < named <= total)
        failures.require("%d of %d blocks have a Scheme procedure or belong to Guile's start" % (named + start, total), 0.999 * total < named + start <= total)
    return failures


def named_blocks(where, trace):
    """Returns the number of blocks whose innermost frame of Guile is a Scheme procedure, and the number of those that belong to Guile's start."""
    rows = [row for row in where.report(trace, "--view=sites", "--limit=0", "--runtime=guile")["sites"] if row["runtime"] == "guile"]
    start = sum(row["own"]["allocated_blocks"] for row in rows if row["function"] == START)
    return sum(row["own"]["allocated_blocks"] for row in rows) - start, start


def start(where):
    """Guile evaluates a number, and then a program of a known number of blocks. The start has the same blocks in both runs. Its frame
    is the outermost frame of Guile, called by libguile's function scm_boot_guile."""
    failures, counts = tap.Failures(), []
    with recorded.Folder() as folder:
        for expression in ("1", "(let loop ((i 0) (list '())) (if (< i 5000) (loop (+ i 1) (cons i list))))"):
            outcome, trace = where.record(["guile", "--no-auto-compile", "-c", expression], folder, env={"HOME": where.path("")})
            failures.expect("status", outcome.status, 0)
            counts.append((where.report(trace)["allocated_blocks"], *named_blocks(where, trace)))
        blocks = where.report(trace, "--view=blocks", "--limit=0", "--focus=^%s$" % START, "--frames=0")["blocks"]
    failures.expect("blocks of the start in both runs", counts[1][2], counts[0][2])
    failures.require("blocks, with a Scheme procedure, of the start: %s" % counts, all(begun > 5000 and named + begun > 0.95 * total for total, named, begun in counts) and
                     counts[1][1] - counts[0][1] > 5000)
    callers = {tuple(frame["function"] for frame in block["stack"] if frame["runtime"] == "guile" or frame["function"] == "scm_boot_guile")[-2:]
               for block in blocks}
    failures.expect("the outermost frame of Guile, and its caller", callers, {(START, "scm_boot_guile")})
    return failures


OWN_MODULE = """(define-module (web own) #:export (kept))
(define (kept n) (map (lambda (i) (number->string (* i i))) (iota n)))
"""


def own_module(where):
    """A module of the program is in a folder `web`, as modules of Guile's library are. Blocks of the module must be attributed to the module, as to
    any other part of the program."""
    failures = tap.Failures()
    os.makedirs(os.path.join(where.folder, "web"), exist_ok=True)
    for name, text in (("web/own.scm", OWN_MODULE), ("main.scm", "(use-modules (web own))\n(let loop ((i 0)) (when (< i 300) (kept 100) (loop (+ i 1))))\n")):
        with open(os.path.join(where.folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    environment = {"HOME": where.path(""), "XDG_CACHE_HOME": where.path("cache")}
    command = ["guile", "-L", where.path(""), where.path("main.scm")]
    where.run(command, env=environment)  # compiles the files
    with recorded.Folder() as folder:
        outcome, trace = where.record(command, folder, env=environment)
        failures.expect("status", outcome.status, 0)
        check_lines(failures, where, trace, ["own.scm", "main.scm"])
    return failures


def checked(where, judge):
    """Each stack is captured a second time. libunwind captures the native frames; it can unwind through the bytecode interpreter, but not
    through compiled code. The adapter reads the Scheme frames again, without the stacks that it remembers from earlier walks."""
    failures = tap.Failures()
    environment = {"HOME": where.path(""), "XDG_CACHE_HOME": where.path("cache"), "GUILE_JIT_THRESHOLD": "-1", "LD_PRELOAD": judge}
    command = ["guile", where.bring(SCRIPT), "50" if os.environ.get("AG_TEST_SCALE") == "full" else "10"]
    where.run(command, env={**environment, "LD_PRELOAD": ""})  # compiles the script
    with recorded.Folder() as folder:
        outcome, trace = where.record(command, folder, env=environment)
        failures.expect("status", outcome.status, 0)
        made, failed = recorded.stack_checks(where.tools, trace)
        failures.expect("stacks that differ", failed, 0)
        failures.require("stacks checked: %d" % made, made > where.report(trace)["allocated_blocks"])
    return failures


PROGRAMS = [("Guile's compiler", compiler), ("a module of the program", own_module), ("Guile's start", start)]


def run_cases(plan, where):
    for name, threshold in CASES:
        if not where.has("guile"):
            plan.skip(name, "guile-3.0 is not installed")
        else:
            plan.run(name, lambda evaluated=name == "the evaluator", threshold=threshold: stacks_of(where, evaluated, threshold))
    for name, case in PROGRAMS:
        if where.has("guile"):
            plan.run(name, lambda case=case: case(where))
        else:
            plan.skip(name, "guile-3.0 is not installed")


def main():
    tools = recorded.tools_of_arguments()
    judge = os.path.join(tools.build, "tests/judge/liballogram_judge.so")
    plan = tap.Plan(len(CASES) + len(PROGRAMS) + 1)
    with place.Place(tools) as where:
        run_cases(plan, where)
        if where.has("guile") and os.path.exists(judge):
            plan.run("every stack is checked", lambda: checked(where, judge))
        else:
            plan.skip("every stack is checked", "guile-3.0 is not installed, or allogram is built without libunwind")
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
