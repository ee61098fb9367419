#!/usr/bin/env python3
"""Functions of stripped programs and libraries: no symbol names them, but the unwind tables say where they begin. So all call sites of a
function must be one row of a report, one frame of an export and one name on the page, named by the start of the function."""

import os
import re
import subprocess
import sys

import recorded
import tap
import views_agree

PROGRAM = """
#include <stdlib.h>
void allocate_in_library(int n);
static void *volatile block;
static __attribute__((noinline)) void makes_three(int n) {
    block = malloc(1001);
    if (n) block = malloc(1002);
    block = malloc(1003);
}
static __attribute__((noinline)) void makes_one(void) { block = malloc(1004); }
static __attribute__((noinline)) void calls_both(int n) {
    makes_three(n);
    makes_one();
    makes_three(n);
    allocate_in_library(n);
}
int main(int argc, char **argv) {
    (void)argv;
    for (int i = 0; i < 10; i++) calls_both(argc);
    return 0;
}
"""
LIBRARY = """
#include <stdlib.h>
static void *volatile block;
static __attribute__((noinline)) void makes_two(int n) {
    block = malloc(1005);
    if (n) block = malloc(1006);
}
void allocate_in_library(int n) { makes_two(n); block = malloc(1007); }
"""
BLOCKS = {"makes_three": 60, "makes_one": 10, "makes_two": 20}
OPTIONS = ["-O1", "-fno-inline", "-fno-optimize-sibling-calls", "-fno-toplevel-reorder"]


def build(folder, options):
    """Builds the stripped program and its library. Returns the path of the program, and the name that each function without a symbol must
    have: {function: name}."""
    names = {}
    paths = {"library.so": ["-shared", "-fPIC"], "program": ["-L.", "-l:library.so", "-Wl,-rpath,$ORIGIN"]}
    for name, more in paths.items():
        subprocess.run(["gcc", *OPTIONS, *options, "-x", "c", "-", "-x", "none", "-o", name, *more], cwd=folder, check=True, timeout=60,
                       input=(PROGRAM if name == "program" else LIBRARY).encode())
        symbols = subprocess.run(["nm", name], cwd=folder, check=True, capture_output=True, text=True).stdout
        for address, function in re.findall(r"^([0-9a-f]+) [tT] (makes_\w+|calls_both|main)$", symbols, re.MULTILINE):
            names[function] = "0x%x [%s]" % (int(address, 16), name)
        subprocess.run(["strip", "--strip-all", name], cwd=folder, check=True)
    return os.path.join(folder, "program"), names


def one_row_each(tools, options=()):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        program, names = build(folder, options)
        outcome, traces = recorded.record(tools, [program], folder)
        failures.expect("status", outcome.status, 0)
        wanted = {names[function]: blocks for function, blocks in BLOCKS.items()}
        wanted["allocate_in_library"] = 10
        for key in ("function", "line"):
            rows = recorded.report(tools, traces[0], "--view=sites", "--by=" + key)["sites"]
            failures.expect("rows by " + key, sorted((row["function"], row["own"]["allocated_blocks"]) for row in rows
                                                     if row["image"] in ("program", "library.so") and row["own"]["allocated_blocks"]),
                            sorted(wanted.items()))
        stacks = recorded.run([tools.allogram, "export", "--to=folded", "--fold=none", traces[0]]).stdout.decode()
        chains = [line.rpartition(" ")[0].split(";")[-3:] for line in stacks.splitlines() if names["makes_three"] in line]
        failures.expect("stacks of the export", chains, [[names["main"], names["calls_both"], names["makes_three"]]])
        on_page = {name for name in views_agree.Page(tools, traces[0], folder).names if re.search(r" \[(program|library\.so)\]$", name)}
        failures.require("names on the page: %s" % on_page, set(names.values()) <= on_page)
        failures.require("the page has no other addresses of the library: %s" % on_page,
                         [name for name in on_page if "library" in name] == [names["makes_two"]])
    return failures


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    cases = {"a stripped program": (), "linked at a fixed address": ("-no-pie", "-fno-pie"),
             "without a sorted table": ("-Wl,--no-eh-frame-hdr",)}
    plan = tap.Plan(len(cases))
    for name, options in cases.items():
        plan.run(name, lambda options=options: one_row_each(tools, options))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
