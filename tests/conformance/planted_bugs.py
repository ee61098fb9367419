#!/usr/bin/env python3
"""Twenty memory bugs in seven small programs, in C, C++, Rust, OCaml, Crystal, Erlang and Lua (tests/programs/planted). For each bug,
its program is run twice, with the bug and without:

    allogram run -- PROGRAM BUG planted     the first finding of `report` must name the line with the comment PLANTED, if a rule finds this bug
    allogram run -- PROGRAM BUG             the program without the bug must not have this finding"""

import os
import shutil
import subprocess
import sys

import recorded
import tap

FOLDER = os.path.join(recorded.PROGRAMS, "planted")
# language: (source, the command that builds it in a folder, the command that runs it there)
LANGUAGES = {
    "C": ("planted.c", ["gcc", "-g", "-O1", "-fno-builtin", "planted.c", "-o", "planted_c"], ["./planted_c"]),
    "C++": ("planted.cc", ["g++", "-g", "-O1", "-std=c++17", "planted.cc", "-o", "planted_cc"], ["./planted_cc"]),
    "Rust": ("planted.rs", ["rustc", "-g", "-C", "opt-level=2", "planted.rs", "-o", "planted_rs"], ["./planted_rs"]),
    "OCaml": ("planted.ml", ["ocamlfind", "ocamlopt", "-g", "planted.ml", "-o", "planted_ml"], ["./planted_ml"]),
    "Crystal": ("planted.cr", ["crystal", "build", "-d", "planted.cr", "-o", "planted_cr"], ["./planted_cr"]),
    "Erlang": ("planted.erl", ["erlc", "+debug_info", "planted.erl"], ["erl", "-noshell", "-run", "planted", "main"]),
    "Lua": ("planted.lua", ["lua5.4", "-v"], ["lua5.4", "planted.lua"]),
}
# (language, bug, kind of the finding). If the kind is None, no rule finds the bug. For example, the trace of an Erlang node has the words that
# each function allocates, but not how long they live.
BUGS = [
    ("C", "leak", "growing_leak"),
    ("C", "cache", "growing_leak"),
    ("C", "peak", "peak_holder"),
    ("C", "temporary", "temporary_storm"),
    ("C", "fragmentation", None),
    ("C++", "leak", "growing_leak"),
    ("C++", "temporary", "temporary_storm"),
    ("C++", "double", "peak_holder"),
    ("C++", "cache", "growth_until_exit"),
    ("Rust", "leak", "growing_leak"),
    ("Rust", "temporary", "temporary_storm"),
    ("Rust", "peak", "peak_holder"),
    ("Rust", "double", "peak_holder"),
    ("OCaml", "cache", "growing_leak"),
    ("OCaml", "leak", "growing_leak"),
    ("Crystal", "cache", "growing_leak"),
    ("Crystal", "peak", "growing_leak"),
    ("Erlang", "leak", None),
    ("Lua", "cache", "growth_until_exit"),
    ("Lua", "peak", "peak_holder"),
]


def build(folder, language):
    """Builds the program of a language. Returns None, or the reason why it cannot be built."""
    source, command, _ = LANGUAGES[language]
    if shutil.which(command[0]) is None:
        return command[0] + " is not installed"
    shutil.copy(os.path.join(FOLDER, source), folder)
    made = subprocess.run(command, cwd=folder, env={**os.environ, "CRYSTAL_CACHE_DIR": os.path.join(folder, "crystal_cache")}, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if made.returncode != 0:
        raise RuntimeError("%s: %s" % (" ".join(command), made.stdout.decode(errors="replace")[-400:]))
    return None


def findings_of(tools, failures, folder, language, words):
    """Records a program, and returns the findings of its largest trace, each as (kind, place)."""
    traces = os.path.join(folder, "-".join([language, *words]))
    os.mkdir(traces)
    outcome, found = recorded.record(tools, [*LANGUAGES[language][2], *words], traces, cwd=folder)
    failures.expect("status " + outcome.stderr.decode(errors="replace"), outcome.status, 0)
    summary = recorded.report(tools, max(found, key=os.path.getsize))
    return [(row["kind"], "%s:%s" % (os.path.basename(row.get("file") or ""), row.get("line"))) for row in summary["findings"]]


def judge(tools, folder, language, bug, kind):
    failures = tap.Failures()
    source = LANGUAGES[language][0]
    planted = "%s:%d" % (source, recorded.line_of("planted/" + source, "PLANTED " + bug))
    with_bug = findings_of(tools, failures, folder, language, [bug, "planted"])
    without = findings_of(tools, failures, folder, language, [bug])
    if kind is None:
        failures.fail_unless("a rule finds this bug now, so the table must name its kind: %s" % with_bug, planted not in [place for _, place in with_bug[:1]])
    else:
        failures.expect("the first finding", with_bug[:1], [(kind, planted)])
    failures.fail_unless("without the bug: %s" % without, (kind, planted) not in without)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    results = tap.Plan(len(BUGS))
    with recorded.Folder() as folder:
        reasons = {language: build(folder, language) for language in LANGUAGES}
        for language, bug, kind in BUGS:
            if reasons[language]:
                results.skip("%s: %s" % (language, bug), reasons[language])
            else:
                results.run("%s: %s" % (language, bug), lambda language=language, bug=bug, kind=kind: judge(tools, folder, language, bug, kind))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
