#!/usr/bin/env python3
"""allogram's OCaml library: examples/recorded.ml uses it alone and under `allogram run`, built native, as bytecode and static. The counts
must equal those in the example's first comment. The source of a second program does not name the library; the environment variable OCAMLPARAM makes
the compiler link it."""

import os
import shutil
import sys

import ocaml_programs
import recorded
import tap

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "recorded.ml")
PAIR, CELL = "Recorded.pair", "Recorded.work"


def lines():
    with open(EXAMPLE, encoding="utf-8") as source:
        text = source.read().split("\n")
    return {name: next(number for number, line in enumerate(text, 1) if start in line)
            for name, start in ((PAIR, "let pair n"), (CELL, "let work n"))}


class Library:
    def __init__(self, build):
        self.folder = os.path.join(build, "adapters/ocaml/pkg")
        self.shared = os.path.join(build, "src/embed")
        self.static = os.path.join(build, "src/embed/static")
        self.is_there = os.path.exists(os.path.join(self.folder, "META")) and shutil.which("ocamlfind") is not None

    def program(self, folder, options, compiler="ocamlopt", archive="allogram.cmxa"):
        shutil.copy(EXAMPLE, folder)
        made = recorded.run(["ocamlfind", compiler, "-g", "-I", self.folder, *options, archive, "recorded.ml", "-o", "recorded"], cwd=folder)
        if made.status != 0:
            raise RuntimeError(made.stderr.decode(errors="replace")[-400:])
        return os.path.join(folder, "recorded")

    def dynamic(self):
        return ["-ccopt", "-L%s -Wl,-rpath,%s" % (self.shared, self.shared)]


def compare(failures, tools, trace, closures=0, in_use=0):
    """closures: the number of closures that bytecode allocates for each function, on the function's first line, and that stay in use;
    in_use: the number of blocks of each of the three kinds (pairs, options, cells) that are in use at the end of the trace."""
    at = lines()
    failures.expect("status of check", recorded.run([tools.allogram, "check", trace]).status, 0)
    failures.expect("pairs and options", ocaml_programs.own(tools, trace, PAIR),
                    {at[PAIR]: (220 + closures, 110 * 24 + 16 * closures, 2 * in_use + closures)})
    failures.expect("cells", ocaml_programs.own(tools, trace, CELL),
                    {at[CELL]: (110 + closures, 110 * 16 + 32 * closures, in_use + closures)})
    dump = recorded.run([tools.allogram, "dump", trace]).stdout.decode()
    marks = [name for name in ("phase", "collected") if ' mark name="%s"' % name in dump]
    failures.expect("marks", marks, ["phase", "collected"] if not in_use else ["phase"])
    failures.require("the dump contains the label", ' label=1 name="request"' in dump)
    failures.expect("incomplete stacks", recorded.report(tools, trace)["incomplete_stacks"], 0)
    stacks = [path for path in ocaml_programs.paths(tools, trace) if PAIR in path and len(path) > 3] # not the stack of its closure
    failures.require("the stacks are whole: %s" % stacks, stacks and all("Recorded.(toplevel)" in path and CELL in path for path in stacks))


def by_environment(tools, library, options, compiler="ocamlopt", archive="allogram.cmxa"):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        program = library.program(folder, options, compiler, archive)
        failures.expect("output and traces without ALLOGRAM_OUTPUT", (recorded.run([program], cwd=folder).stdout, recorded.traces_in(folder)),
                        (b"done\n", []))
        outcome = recorded.run([program], {"ALLOGRAM_OUTPUT": "t.%p.allogram"}, cwd=folder)
        failures.expect("output and status", (outcome.status, outcome.stdout, outcome.stderr), (0, b"done\n", b""))
        compare(failures, tools, recorded.traces_in(folder)[0], closures=1 if compiler == "ocamlc" else 0)
    return failures


def started(tools, library):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        program = library.program(folder, library.dynamic())
        outcome = recorded.run([program, "own.allogram"], cwd=folder)
        failures.expect("output and status", (outcome.status, outcome.stdout, outcome.stderr), (0, b"done\n", b""))
        compare(failures, tools, os.path.join(folder, "own.allogram"))
        compare(failures, tools, os.path.join(folder, "own.allogram.snapshot"), in_use=110)
    return failures


def under_run(tools, library):
    """Under `run`, the OCaml library passes its events to the library that `run` preloads. Blocks of OCaml and of malloc are in one trace, and
    no block is counted twice."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        program = library.program(folder, library.dynamic())
        outcome, traces = recorded.record(tools, [program], folder)
        failures.expect("output and status", (outcome.status, outcome.stdout), (0, b"done\n"))
        compare(failures, tools, traces[0])
        ocaml_programs.expect_all_reported(failures, tools, traces[0])
    return failures


def without_a_change(tools, library):
    """Records a program that does not name the library; OCAMLPARAM links the library with this program."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        shutil.copy(os.path.join(ocaml_programs.SOURCES, "counted.ml"), folder)
        wish = {"OCAMLPARAM": "I=%s,cmxa=allogram.cmxa,ccopt=-L%s,_" % (library.folder, library.shared)}
        failures.expect("status of ocamlopt", recorded.run(["ocamlopt", "-g", "counted.ml", "-o", "counted"], wish, cwd=folder).status, 0)
        outcome = recorded.run(["./counted"], {"ALLOGRAM_OUTPUT": "t.%p.allogram", "LD_LIBRARY_PATH": library.shared}, cwd=folder)
        failures.expect("status", outcome.status, 0)
        pairs = ocaml_programs.own(tools, recorded.traces_in(folder)[0], "Counted.pair")
        failures.expect("pair", sorted(pairs.values()), [(1500, 1500 * 8, 1000), (1500, 1500 * 16, 1000), (3000, 1500 * 24, 2000)])
    return failures


def main():
    tools = recorded.tools_of_arguments()
    library = Library(tools.build)
    static = ["-ccopt", "-static -L" + library.static, "-cclib", "-lzstd"]
    bytecode = ["-custom", *library.dynamic()]
    cases = [("native", lambda: by_environment(tools, library, library.dynamic())),
             ("bytecode", lambda: by_environment(tools, library, bytecode, "ocamlc", "allogram.cma")),
             ("static", lambda: by_environment(tools, library, static)),
             ("started by the program, with a snapshot", lambda: started(tools, library)),
             ("under run", lambda: under_run(tools, library)),
             ("a program that is not changed", lambda: without_a_change(tools, library))]
    results = tap.Plan(len(cases))
    for title, case in cases:
        if library.is_there:
            results.run(title, case)
        else:
            results.skip(title, "no ocamlfind here, or no OCaml with Memprof")
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
