#!/usr/bin/env python3
"""Records OCaml programs that do not use allogram's library. The recorded blocks, words, source lines, stacks and frees must equal the counts
made by hand and the runtime's own counters."""

import argparse
import math
import os
import re
import resource
import shutil
import subprocess
import sys

import recorded
import tap
import views_agree
from ocaml_programs import SOURCES, Toolchain, expect_all_reported, own, paths, runtime

def nearly_all(failures, tools, trace):
    """Checks the coverage in the summary: the trace has at least 99.9 % of the words that the runtime itself counted."""
    coverage = runtime(recorded.report(tools, trace)).get("coverage")
    failures.require("coverage %s" % coverage, coverage is not None and coverage >= 0.999)


# ---- cases ----

PAIRS = {
    recorded.line_of("counted.ml", "(x, (* [2]"): (1500, 1500 * 16, 1000),
    recorded.line_of("counted.ml", "Some (* [1]"): (1500, 1500 * 8, 1000),
    recorded.line_of("counted.ml", "(float_of_int y"): (3000, 1500 * (16 + 8), 2000),
}


def counted(tools, folder, chain):
    """Compares with the table of counts in counted.ml. Bytecode also allocates a closure for each function, on the function's first line."""
    failures = tap.Failures()
    program = chain.program(folder, "counted", ["counted.ml"])
    words = int(recorded.run([program, "report"]).stdout) # the words that work allocates in the minor heap, with headers
    outcome, traces = recorded.record(tools, [program], folder)
    failures.expect("exit status", outcome.status, 0)
    trace = traces[0]
    at = lambda text: recorded.line_of("counted.ml", text)
    closure = lambda text, words: {at(text): (1, 8 * words, 1)} if chain.is_bytecode else {}
    failures.expect("pair", own(tools, trace, "Counted.pair"), {**PAIRS, **closure("let pair", 2)})
    failures.expect("build", own(tools, trace, "Counted.build"), {at("pair n n :: acc"): (1500, 1500 * 16, 1000)})
    failures.expect("text", own(tools, trace, "Counted.text"), {
        at("Bytes.create n"): (2, 80 + 16, 1) if chain.is_bytecode else (1, 80, 0)}) # the closure is on the same line
    failures.expect("work", own(tools, trace, "Counted.work"), {
        at("Array.make 5000"): (1, 40000, 1), at("opaque_identity (dropped"): (1, 16, 0), at("keep := Obj.repr"): (2, 32, 2),
        **closure("let work", 5)})
    tree = recorded.report(tools, trace, "--view=sites", "--focus=^Counted.work$", "--runtime=ocaml")["sites"]
    blocks = sum(row["own"]["allocated_blocks"] for row in tree)
    in_bytes = sum(row["own"]["allocated_bytes"] for row in tree)
    # In bytecode the closure belongs to work, and the boxed result of Gc.minor_words belongs to its caller.
    failures.expect("words of work, without the major heap's array", in_bytes // 8 + blocks - 5001,
                    words + (6 - 2 if chain.is_bytecode else 0))
    expect_all_reported(failures, tools, trace)
    large = [row for row in recorded.report(tools, trace, "--view=blocks", "--state=open,closed")["blocks"]
             if row["tag"]["allocator"] != "ocaml" and any(frame["function"].startswith("caml_shared_try_alloc") for frame in row["stack"])]
    summary = recorded.report(tools, trace)
    failures.expect("blocks that are counted twice; ghost frees", (large, summary["ghost_frees"]), ([], 0))
    failures.expect("note of the runtime", runtime(summary).get("note"), "")
    return failures


def deaths_and_sources(tools, folder, chain):
    failures = tap.Failures()
    program = chain.program(folder, "counted", ["counted.ml"])
    _, traces = recorded.record(tools, [program], folder)
    heaps = {row["name"]: row for row in recorded.report(tools, traces[0], "--view=heaps")["heaps"]}
    failures.expect("unmarshalled: 100 cells and 100 pairs", (heaps["unmarshalled"]["allocated_bytes"],
                                                              heaps["unmarshalled"]["in_use_bytes"]), (200 * 16, 0))
    failures.require("the heaps' own memory is mapped", heaps["minor heap"]["mapped_bytes"] >= 256 * 1024 * 8 and
                     heaps["major heap"]["mapped_bytes"] > 0)
    malloc = recorded.report(tools, traces[0], "--view=sites")["sites"]
    twice = [row["function"] for row in malloc if re.search("caml_alloc_for_heap|caml_memprof|realloc_entries", row["function"])
             and row["own"]["allocated_blocks"]]
    failures.expect("blocks of malloc that are counted twice, or that allogram allocated", twice, [])
    collections = recorded.report(tools, traces[0], "--view=gc")["collections"]
    kinds = [row["kind"] for row in collections]
    failures.require("the trace has minor collections and whole major cycles: %s" % kinds, kinds.count("minor") >= 1 and
                     kinds.count("major") >= 2)
    failures.require("all collections have a pause", all(row["pause_ns"] for row in collections))
    return failures


def survivors(tools, folder, chain):
    """For each source line, compares two numbers with counts by hand: the blocks that a minor collection kept, and the blocks that it freed.
    The promoted words must equal the runtime's own count, and so must the reclaimed words: those that were allocated and not promoted."""
    failures = tap.Failures()
    program = chain.program(folder, "survivors", ["survivors.ml"])
    outcome, traces = recorded.record(tools, [program], folder)
    by_hand, since_first, dead = map(int, outcome.stdout.split()) # the first collection also promotes blocks of the runtime's start
    failures.expect("words of a thousand pairs and cells", by_hand, 1000 * 2 * 3)
    view = recorded.report(tools, traces[0], "--view=lifetimes", "--runtime=ocaml")["sites"]
    rows = {row["function"]: row for row in view}
    keys = ("young_blocks", "survived_blocks", "died_young_blocks", "promoted_blocks", "promoted_bytes", "ended")
    # In bytecode each function has one more block, its closure, which stays in use.
    closure = 1 if chain.is_bytecode else 0
    for name, wanted in (("stays", (1010, 1000, 10, 1000, 16000, 1010)), ("cell", (1010, 1000, 10, 1000, 16000, 1010)),
                         ("goes", (1010, 0, 1010, 0, 0, 1010))):
        row = rows["Survivors." + name]
        survived = (closure, closure, 0, closure, closure * (24 if name == "cell" else 16), 0)
        failures.expect(name, tuple(row[key] for key in keys), tuple(a + b for a, b in zip(wanted, survived)))
        failures.expect(name + ": most collections that a block survived", row["survived_collections"]["max"], 1 if name != "goes" else closure)
    failures.expect("blocks allocated in the major heap that count as young", rows["Survivors.in_major"]["young_blocks"], closure or None)
    gc = recorded.report(tools, traces[0], "--view=gc")["collections"]
    minor = [row for row in gc if row["kind"] == "minor"]
    failures.expect("minor collections without promoted bytes", [row for row in minor if row["promoted_bytes"] is None], [])
    promoted = sum(row["promoted_bytes"] for row in minor)
    before = [i for i in range(len(minor)) if sum(row["promoted_bytes"] for row in minor[:i + 1]) == promoted - 8 * since_first]
    failures.require("the minor collections after the first promote %s words; bytes of each: %s" % (since_first, [row["promoted_bytes"] for row in minor]), before)
    first = minor[before[0] if before else 0]
    # OCaml 5 also lists collections of the empty young generation, without sizes
    second = [row for row in minor[minor.index(first) + 1:] if row["heap_before_bytes"] is not None][0]["start_ns"]
    blame = recorded.report(tools, traces[0], "--view=gc", "--blame", "--from=%dns" % second, "--to=%dns" % (second + 1))["blame"]
    failures.expect("words that the second minor collection reclaimed", [row["reclaimed_bytes"] for row in blame], [dead * 8])
    summary = next(row for row in recorded.report(tools, traces[0])["gc"] if row["runtime"] == "ocaml")
    failures.expect("promoted bytes in the summary", summary["promoted_bytes"], promoted)
    later = recorded.report(tools, traces[0], "--view=lifetimes", "--from=%dns" % (first["start_ns"] + first["pause_ns"]))["sites"]
    failures.expect("promoted words after the first collection, with headers", sum(row["promoted_bytes"] // 8 + row["promoted_blocks"] for row in later if row["young_blocks"]),
                    since_first)
    text = recorded.run([tools.allogram, "report", traces[0], "--view=lifetimes"]).stdout.decode()
    failures.require("the text has the columns about survival", " survived a collection, " in text and re.search("survived +promoted", text) is not None)
    return failures


def owners(tools, folder, chain):
    """If an OCaml block owns memory outside of OCaml's heap, this memory counts once, as a block of malloc. Its type is the identifier of
    the custom operations of the OCaml block."""
    failures = tap.Failures()
    program = chain.program(folder, "owners", ["owners_stubs.c", "owners.ml"])
    _, traces = recorded.record(tools, [program], folder)
    rows = {row["type"]: row for row in recorded.report(tools, traces[0], "--view=types")["types"]}
    keys = ("allocated_blocks", "allocated_bytes", "in_use_blocks", "in_use_bytes")
    in_two_calls = "owners.resource" if chain.is_bytecode else None # in bytecode all calls of primitives have one return address
    more = 4 if chain.is_bytecode else 0
    wanted = {"_bigarr02": (20, 160000, 5, 40000), "owners.resource": (30 + more, 21000 + 900 * more, 7, 4900)}
    for name, counts in wanted.items():
        failures.expect(name, tuple(rows.get(name, {}).get(key) for key in keys), counts)
    if not chain.root: # OCaml 5 does not report the memory that a channel owns
        failures.require("the memory of channels has a type: %s" % sorted(map(str, rows)), rows.get("_chan", {}).get("freed_blocks", 0) >= 1)
    blocks = recorded.report(tools, traces[0], "--view=blocks", "--state=open,closed")["blocks"]
    for bytes, name, count in ((8000, "_bigarr02", 20), (700, "owners.resource", 30), (900, in_two_calls, 4)):
        mine = [row for row in blocks if row["size"] == bytes and row["tag"]["allocator"] != "ocaml"]
        failures.expect("blocks of %d bytes, and their types" % bytes, (len(mine), {row["type"] for row in mine}), (count, {name}))
    stacks = recorded.report(tools, traces[0], "--view=types", "--type=_bigarr02")["stacks"]
    functions = [[frame["function"] for frame in row["frames"]] for row in stacks]
    failures.require("the stacks of the bigarrays are whole: %s" % functions, functions and all("caml_ba_alloc" in row and "main" in row for row in functions))
    failures.extend(views_agree.agree(tools, traces[0])) # every view agrees, although these types became known late
    return failures


def everything(tools, folder, chain):
    """A program that uses records, floats, closures, lazy values, exceptions, functors, objects, Marshal, Str, Scanf, weak tables,
    finalizers and compaction."""
    return compare_with_runtime(tools, folder, chain, "everything", chain.libraries("str"))


def signals(tools, folder, chain):
    """Allocations in a signal handler are recorded, although the interpreter may run the handler inside of a callback of Memprof, OCaml's
    sampler, by which allogram records."""
    return compare_with_runtime(tools, folder, chain, "signals", chain.libraries("unix"))


def compare_with_runtime(tools, folder, chain, name, libraries):
    failures = tap.Failures()
    program = chain.program(folder, name, [name + ".ml"], libraries)
    plain = recorded.run([program])
    outcome, traces = recorded.record(tools, [program], folder)
    failures.expect("output and status", (outcome.status, outcome.stdout), (plain.status, plain.stdout))
    expect_all_reported(failures, tools, traces[0])
    return failures


def between(tools, folder, chain):
    """OCaml code calls C, C calls an OCaml function, and this function calls C again. The blocks of the innermost functions have complete stacks."""
    failures = tap.Failures()
    program = chain.program(folder, "between", ["between_stubs.c", "between.ml"])
    _, traces = recorded.record(tools, [program], folder)
    stub = ["caml_c_call"] if chain.root else []
    exn = ["caml_callback_exn"] if chain.root else []
    wanted = ["Between.(toplevel)", *stub, "between_caller", "caml_callback", *exn, "caml_start_program", "Between.inner"]
    mine = [path for path in paths(tools, traces[0]) if "Between.inner" in path]
    failures.require("the stacks contain main and %s: %s" % (" ".join(wanted), mine), mine and all(
        "main" in path and " ".join(wanted) in " ".join(path) for path in mine))
    failures.require("a stack ends in between_take, which calls malloc", any(path[-1] == "between_take" for path in mine))
    at = lambda text: recorded.line_of("between.ml", text)
    failures.expect("own blocks of Between.inner", own(tools, traces[0], "Between.inner"), {at("let made = make 300"): (10, 24000, 10),
                                                                   at("(n, made)"): (10, 160, 10)})
    return failures


def own_memprof(tools, folder, chain):
    failures = tap.Failures()
    program = chain.program(folder, "own_memprof", ["own_memprof.ml"])
    plain = recorded.run([program])
    outcome, traces = recorded.record(tools, [program], folder)
    failures.expect("output and status", (outcome.status, outcome.stdout), (0, plain.stdout))
    note = runtime(recorded.report(tools, traces[0]), "ocaml").get("note", "")
    failures.require("the note says that the program uses Memprof itself: " + note, "Memprof of its own" in note)
    return failures


def threads_and_fork(tools, folder, chain):
    failures = tap.Failures()
    program = chain.program(folder, "threads", ["threads.ml"], chain.libraries("unix", "threads"))
    outcome, traces = recorded.record(tools, [program], folder)
    failures.expect("output and status", (outcome.status, outcome.stdout), (0, b"seven\n"))
    failures.expect("number of traces", len(traces), 2)
    for trace, blocks in zip(traces, (4 * 4000, 4000)):
        mine = own(tools, trace, "Threads.pairs.go")
        failures.expect("pairs and cells of " + trace, sum(row[0] for row in mine.values()), blocks)
    return failures


def domains(tools, folder, chain):
    """OCaml 5: compares the blocks of each function, in all domains, with counts by hand. Stacks through effect handlers are complete."""
    failures = tap.Failures()
    program = chain.program(folder, "domains", ["domains.ml"], chain.libraries("unix", "threads"))
    outcome, traces = recorded.record(tools, [program], folder)
    failures.expect("output and status", (outcome.status, outcome.stdout), (0, b"done\n"))
    failures.expect("pairs and cells", sum(row[0] for row in own(tools, traces[0], "Domains.pairs.go").values()), 2 * 10000)
    for function, blocks in (("in_domain", 12000), ("in_thread", 4000), ("stepping", 2000)):
        rows = recorded.report(tools, traces[0], "--view=sites", "--focus=^Domains.%s$" % function)["sites"]
        failures.expect(function, sum(row["own"]["allocated_blocks"] for row in rows if row["function"] == "Domains.pairs.go"), blocks)
    stepping = [path for path in paths(tools, traces[0], "--focus=^Domains.stepping$") if "Domains.pairs.go" in path]
    failures.require("stacks of stepping are whole: %s" % stepping, stepping and all("main" in path for path in stepping))
    summary = recorded.report(tools, traces[0])
    failures.expect("truncated stacks; ghost frees", (summary["truncated_stacks"], summary["ghost_frees"]), (0, 0))
    expect_all_reported(failures, tools, traces[0])
    return failures


def small_stack():
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))


def lives(tools, folder, chain):
    """The frees of blocks that a compaction moved, and of blocks in a minor heap that was resized, are recorded. A stack overflow during an
    allocation raises the exception that the program expects. A stack that is deeper than --depth counts as cut, not as incomplete."""
    failures = tap.Failures()
    program = chain.program(folder, "lives", ["lives.ml"])
    environment = {"OCAMLRUNPARAM": "l=64k"} # size of OCaml 5's stack in words; OCaml 4 uses the system's stack
    plain = recorded.run([program], env=environment, preexec=small_stack)
    outcome, traces = recorded.record(tools, [program], folder, env=environment, preexec=small_stack)
    failures.expect("output and status", (outcome.status, outcome.stdout), (plain.status, plain.stdout))
    failures.expect("the output after the overflow", outcome.stdout.split(b"\n")[0], b"overflow")
    one = lambda name: [row for row in own(tools, traces[0], "Lives." + name).values()]
    failures.expect("blocks, bytes, blocks in use of `moved`", one("moved"), [(1000, 8000, 250)])
    failures.expect("blocks, bytes, blocks in use of `resized`", one("resized"), [(500100, 8 * 500100, 100)])
    failures.require("`deep` has more than 1000 blocks, none in use: %s" % one("deep"), one("deep") and one("deep")[0][0] > 1000 and one("deep")[0][2] == 0)
    summary = recorded.report(tools, traces[0])
    failures.require("stacks are cut: %s" % summary["truncated_stacks"], summary["truncated_stacks"] > 0)
    expect_all_reported(failures, tools, traces[0])
    return failures


STATISTICS = {"OCAMLRUNPARAM": "v=0x400,l=64k"} # at the end the runtime prints its counters to the standard error


def undisturbed(tools, folder, chain):
    """At the end of a recorded program, the runtime's counters (words, promoted words, collections of each kind, sizes of the heap) equal
    those of a run without allogram. If the program uses Memprof, OCaml's sampler, it gets the same samples."""
    failures = tap.Failures()
    programs = [("counted", []), ("survivors", []), ("everything", ["str"]), ("finalizers", []), ("cycles", ["unix"]), ("lives", []),
                ("rates", []), ("stops", []), ("own_memprof", [])]
    for name, libraries in programs:
        program = chain.program(folder, name, [name + ".ml"], chain.libraries(*libraries) if libraries else [])
        plain = recorded.run([program], env=STATISTICS, preexec=small_stack)
        outcome, _ = recorded.record(tools, [program], folder, env=STATISTICS, preexec=small_stack)
        failures.require(name + ": the runtime printed its counters", b"minor_words: " in plain.stderr)
        failures.expect(name + ": status, output", (outcome.status, outcome.stdout), (plain.status, plain.stdout))
        failures.expect(name + ": counters", counters_in(outcome.stderr), counters_in(plain.stderr))
    return failures


def counters_in(stderr):
    """Returns {name: text} of the runtime's lines "name: number", without the words of stacks, which differ between runs of OCaml 5."""
    return dict(re.findall(r"^(\w+_(?:words|collections|chunks)|compactions): (\d+)$", stderr.decode(), re.MULTILINE))


PLAIN_RUNS, TRIES = 6, 3


def undisturbed_tools(tools, folder, chain):
    """Records OCaml's own tools. Their counters at the end equal those of a run without allogram. The counters of ocamlopt.opt differ by two words
    in one of eight runs without allogram, because it chooses the name of a temporary file at random. So the counters of a recorded run must
    equal those of one of several plain runs. If they do not equal those of the first plain run, further plain runs are made, and the recorded
    run is repeated."""
    failures = tap.Failures()
    library = subprocess.run([*chain.command, "-where"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    sources = ["scanf.ml", "hashtbl.ml"]
    work = os.path.join(folder, "work")
    os.mkdir(work)
    for source in sources:
        shutil.copy(os.path.join(library, source), work)
    open(os.path.join(work, "tokens.mll"), "w", encoding="utf-8").write("rule token = parse ['0'-'9']+ { 1 } | _ { token lexbuf } | eof { 0 }\n")
    commands = [["ocamldep.opt", *sources], ["ocamlc.opt", "-w", "-a", "-i", "scanf.ml"],
                ["ocamlopt.opt", "-w", "-a", "-stop-after", "scheduling", "hashtbl.ml"], ["ocamllex.opt", "-q", "tokens.mll"],
                ["ocamlobjinfo.opt", os.path.join(library, "stdlib.cmxa")]]
    n_run = 0
    for command in commands:
        if not shutil.which(command[0]):
            continue
        n_run += 1
        recorded.run(command, cwd=work, env=STATISTICS) # adds files to the folder, which the tools read in the next runs
        plain = recorded.run(command, cwd=work, env=STATISTICS)
        counters, traces = [counters_in(plain.stderr)], []
        for n_try in range(TRIES):
            for trace in traces:
                os.unlink(trace)
            outcome, traces = recorded.record(tools, command, folder, cwd=work, env=STATISTICS)
            if counters_in(outcome.stderr) in counters:
                break
            if n_try == 0:
                counters += [counters_in(recorded.run(command, cwd=work, env=STATISTICS).stderr) for _ in range(PLAIN_RUNS - 1)]
                if counters_in(outcome.stderr) in counters:
                    break
        failures.expect(command[0] + ": status, output", (outcome.status, outcome.stdout), (plain.status, plain.stdout))
        failures.require(command[0] + ": the runtime printed its counters", "minor_words" in counters_in(plain.stderr))
        failures.require("%s: counters are %s, in plain runs %s" % (command[0], counters_in(outcome.stderr), counters),
                         counters_in(outcome.stderr) in counters)
        expect_all_reported(failures, tools, traces[0])
        for trace in traces:
            os.unlink(trace)
    failures.require("at least three tools ran: %d" % n_run, n_run >= 3)
    return failures


def debug_runtime(tools, folder, chain):
    """Records a program with OCaml's debug runtime, which checks its own invariants. In OCaml 4 allogram records by allocation_path.c, in
    OCaml 5.3 by Memprof (OCaml's sampler)."""
    failures = tap.Failures()
    program = chain.compile(folder, "counted", ["counted.ml"], ["-runtime-variant", "d"])
    outcome, traces = recorded.record(tools, [program], folder)
    failures.expect("status", outcome.status, 0)
    failures.expect("pair", own(tools, traces[0], "Counted.pair"), PAIRS)
    expect_all_reported(failures, tools, traces[0])
    return failures


def ended_domain(tools, folder, chain):
    """OCaml 5: when a domain has ended, other domains' collections free its blocks. These frees are recorded."""
    failures = tap.Failures()
    program = chain.program(folder, "ended_domain", ["ended_domain.ml"], chain.libraries("unix"))
    outcome, traces = recorded.record(tools, [program], folder)
    failures.expect("output and status", (outcome.status, outcome.stdout), (0, b"100\n"))
    failures.expect("cells", own(tools, traces[0], "Ended_domain.cell"), {recorded.line_of("ended_domain.ml", "ref i"): (900, 7200, 100)})
    return failures


def later_release(tools, folder, chain):
    """If the program has a later release of OCaml than allogram knows, OCaml blocks are not recorded, and one line says so. Blocks of malloc
    are recorded."""
    failures = tap.Failures()
    program = chain.program(folder, "counted", ["later_stubs.c", "counted.ml"])
    plain = recorded.run([program, "report"])
    outcome, traces = recorded.record(tools, [program, "report"], folder)
    failures.expect("output and status", (outcome.status, outcome.stdout), (0, plain.stdout))
    summary = recorded.report(tools, traces[0])
    row = runtime(summary)
    failures.expect("hooked", row.get("hooked"), False)
    failures.require("the note names the release: %s" % row, "5.4" in row.get("note", ""))
    failures.require("malloc is recorded", summary["allocated_blocks"] > 0)
    return failures


def interpreted(tools, folder, chain):
    """Records the interpreter with a bytecode file, with and without debug information."""
    failures = tap.Failures()
    run, at = chain.interpreter(folder), lambda text: recorded.line_of("counted.ml", text)
    for options, made in (("-g", "counted.byte"), ("-bin-annot", "plain.byte")):
        program = chain.compile(folder, made, ["counted.ml"], [options], debug=options == "-g")
        outcome, traces = recorded.record(tools, [run, program], folder)
        failures.expect(made + ": status", outcome.status, 0)
        if options == "-g":
            failures.expect("pair", own(tools, traces[-1], "Counted.pair"), {at("let pair"): (1, 16, 1), **PAIRS})
        else:
            rows = recorded.report(tools, traces[-1], "--view=sites", "--by=line")["sites"]
            places = sorted(row["own"]["allocated_blocks"] for row in rows if row["function"].startswith("bytecode+0x"))
            failures.expect("blocks of the five code addresses in pair", places[-5:], [1500] * 5)
        nearly_all(failures, tools, traces[-1])
    return failures


def script(tools, folder, chain):
    """OCaml's toplevel runs a script. The toplevel gives no source locations for the code that it compiles, so this code has the name
    `(toplevel code)`. The functions of the compiler, which is part of the toplevel, have their names."""
    failures = tap.Failures()
    shutil.copy(os.path.join(SOURCES, "counted.ml"), os.path.join(folder, "script.ml"))
    outcome, traces = recorded.record(tools, ["ocaml", "script.ml"], folder, ["--interval=64", "--mode=sample", "--seed=1"], cwd=folder)
    failures.expect("status", outcome.status, 0)
    rows = {row["function"]: row["own"] for row in recorded.report(tools, traces[-1], "--view=sites")["sites"]}
    low, high = rows.get("(toplevel code)", {}).get("allocated_bytes_ci95", (0, 0))
    made = 40000 + 1500 * 64 # bytes of the array, and of pair and build
    failures.require("the 95 %% interval contains the bytes of the script: %s" % [low, high], low < made + 6000 and high > made)
    failures.require("functions of the compiler are in the report", any(name.startswith("Typecore.") for name in rows))
    return failures


def stripped(tools, folder, chain):
    failures = tap.Failures()
    program = chain.program(folder, "counted", ["counted.ml"])
    subprocess.run(["strip", program], check=True)
    _, traces = recorded.record(tools, [program], folder)
    failures.expect("pair", sum(row[0] for row in own(tools, traces[0], "Counted.pair").values()), 6000)
    return failures


def compiler(tools, folder, chain):
    failures = tap.Failures()
    opt = shutil.which("ocamlopt.opt") or shutil.which("ocamlopt")
    command = [opt, "-g", "-c", "counted.ml"]
    shutil.copy(os.path.join(SOURCES, "counted.ml"), folder)
    made = []
    for prefix in ([], [tools.allogram, "run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--"]):
        outcome = recorded.run(prefix + command, cwd=folder)
        failures.expect("exit status", outcome.status, 0)
        made.append(open(os.path.join(folder, "counted.cmx"), "rb").read())
    failures.expect("the compiler writes the same module as without allogram", made[0] == made[1], True)
    trace = recorded.traces_in(folder)[0]
    expect_all_reported(failures, tools, trace)
    return failures


def sampled(tools, folder, chain):
    """The sum of the estimates of eight seeds must lie within four standard deviations of the exact value. A block of w words is sampled
    with the probability 1 - exp(-8 (w + 1) / interval)."""
    failures = tap.Failures()
    program = chain.program(folder, "counted", ["counted.ml"])
    interval, seeds = 300, 8
    sums = {}
    for seed in range(1, seeds + 1):
        outcome = recorded.run([tools.allogram, "run", "-q", "--mode=sample", "--interval=%d" % interval, "--seed=%d" % seed,
                                "-o", os.path.join(folder, "s%d.allogram" % seed), "--", program])
        failures.expect("exit status", outcome.status, 0)
        for line, row in own(tools, os.path.join(folder, "s%d.allogram" % seed), "Counted.pair").items():
            sums.setdefault(line, []).append(row[0])
    at = lambda text: recorded.line_of("counted.ml", text)
    for text, words, each in (("(x, (* [2]", 2, 1500), ("Some (* [1]", 1, 1500)):
        got = sums.get(at(text), [])
        chance = 1 - math.exp(-8 * (words + 1) / interval)
        deviation = math.sqrt(each * seeds * (1 - chance) / chance)
        score = (sum(got) - each * seeds) / deviation
        failures.require("%s: the estimates %s deviate by less than four standard deviations: %.1f" % (text, got, score), abs(score) < 4)
        failures.require("different seeds give different estimates", len(set(got)) > seeds // 2)
    return failures


def stops_none_of_its_own(tools, folder, chain):
    failures = tap.Failures()
    program = chain.program(folder, "stops", ["stops.ml"])
    plain = recorded.run([program])
    outcome, traces = recorded.record(tools, [program], folder)
    failures.expect("output and status", (outcome.status, outcome.stdout), (plain.status, plain.stdout))
    note = runtime(recorded.report(tools, traces[0])).get("note", "")
    failures.require("the note says that the program uses Memprof itself: " + note, "Memprof of its own" in note)
    return failures


def in_finalizers(tools, folder, chain):
    """All blocks that finalizers, alarms and exit functions allocate are recorded."""
    failures = tap.Failures()
    program = chain.program(folder, "finalizers", ["finalizers.ml"])
    outcome, traces = recorded.record(tools, [program], folder)
    failures.expect("output and status", (outcome.status, outcome.stdout), (0, b""))
    closure = 1 if chain.is_bytecode else 0
    for function, blocks in (("finalised", 200), ("last", 2), ("make", 100)):
        failures.expect(function, sum(row[0] for row in own(tools, traces[0], "Finalizers." + function).values()), blocks + closure)
    failures.require("blocks of an alarm are recorded at each cycle", sum(row[0] for row in own(tools, traces[0], "Finalizers.at_cycle").values()) >= 2)
    nearly_all(failures, tools, traces[0])
    return failures


def without_debug_information(tools, folder, chain):
    failures = tap.Failures()
    program = chain.compile(folder, "counted", ["counted.ml"], debug=False)
    _, traces = recorded.record(tools, [program], folder)
    rows = recorded.report(tools, traces[0], "--view=sites")["sites"]
    pairs = {row["function"]: row["own"]["allocated_blocks"] for row in rows if row["function"] in ("Counted.pair", "Counted.build")}
    failures.expect("blocks by function, named by the linker's symbols", pairs, {"Counted.pair": 6000, "Counted.build": 1500})
    return failures


def attributed(tools, folder, chain):
    """The summary attributes the blocks that OCaml's library and runtime allocate to the lines of the program that call them, also if the program has
    no debug information."""
    failures = tap.Failures()
    for debug in (True, False):
        options = ["-custom"] if chain.is_bytecode else []
        program = chain.compile(folder, "attributed%d" % debug, ["attributed.ml"], options, debug=debug)
        _, traces = recorded.record(tools, [program], folder)
        text = recorded.run([tools.allogram, "report", traces[-1], "--limit=0"], env={**os.environ, "COLUMNS": "200"}).stdout.decode()
        lines = re.findall(r"^ .* %.*  (\[ocaml\] \S+) +(\S+)$", text, re.M)
        failures.expect("lines of OCaml's library", [line for line in lines if re.match(r"\[ocaml\] (Stdlib|Camlinternal)", line[0])], [])
        if chain.is_bytecode and not debug:
            continue # functions have no names
        for name in ("mapped", "created", "buffered", "printed", "hashed", "big"):
            places = {place.split(":")[:2] == ["attributed.ml", str(recorded.line_of("attributed.ml", "let %s " % name))]
                      for function, place in lines if function == "[ocaml] Attributed." + name}
            failures.require("%s has a line: %s" % (name, lines), places and (places == {True} or not debug))
        if debug:
            number = recorded.line_of("attributed.ml", "let buffered")
            with open(os.path.join(SOURCES, "attributed.ml"), encoding="utf-8") as source:
                line = source.read().splitlines()[number - 1]
            calls = ("Buffer.add_string b (string_of_int i)", "(string_of_int i)")
            wanted = {"attributed.ml:%d:%d-%d" % (number, line.index(call), line.index(call) + len(call)) for call in calls}
            failures.require("the columns tell the calls of one line apart: %s" % lines, wanted <= {place for _, place in lines})
            rows = recorded.report(tools, traces[-1], "--view=sites", "--by=line")["sites"]
            columns = {(row["column"], row["end_column"]) for row in rows if row["function"] == "Attributed.buffered" and "column" in row}
            failures.require("the JSON has the columns: %s" % columns, {(line.index(call), line.index(call) + len(call)) for call in calls} <= columns)
    return failures


def static(tools, folder, chain):
    """allogram's library cannot be preloaded into a static program, and one line says so."""
    failures = tap.Failures()
    program = chain.compile(folder, "counted", ["counted.ml"], ["-ccopt", "-static"])
    outcome = recorded.run([tools.allogram, "run", "-o", os.path.join(folder, "t.%p.allogram"), "--", program, "report"])
    failures.expect("status, and lines that say why", (outcome.status, outcome.stderr.decode().count("statically linked"),
                                                       len(outcome.stderr.decode().splitlines())), (125, 1, 1))
    return failures


def at_each_cycle(tools, folder, chain):
    """--dump-at=gc writes a dump after each major cycle of an OCaml program; the dump has the call tree of the blocks in use."""
    failures = tap.Failures()
    program = chain.program(folder, "cycles", ["cycles.ml"], chain.libraries("unix"))
    trace = os.path.join(folder, "c.allogram")
    outcome = recorded.run([tools.allogram, "run", "-q", "-o", trace, "--dump-at=gc", "--", program])
    failures.expect("status", outcome.status, 0)
    made = []
    for number in range(1, 100):
        dump = os.path.join(folder, "c.dump%d.allogram" % number)
        if not os.path.exists(dump):
            break
        if any(row["kind"] == "major" for row in recorded.report(tools, dump, "--view=gc")["collections"]):
            made.append(sum(row[0] for row in own(tools, dump, "Cycles.stay").values()))
            there = [path for path in paths(tools, dump) if "Cycles.stay" in path]
            failures.require("the dump has a call tree: %s" % there, there and all("Cycles.(toplevel)" in path for path in there))
    failures.require("there is a dump after each of the three cycles: %s" % made, {2000, 4000, 6000} <= set(made))
    kinds = [row["kind"] for row in recorded.report(tools, trace, "--view=gc")["collections"]]
    failures.require("the trace has at least three major cycles: %s" % kinds, kinds.count("major") >= 3)
    stayed = [sum(row[2] for row in own(tools, trace, "Cycles." + name).values()) for name in ("stay", "go")]
    failures.expect("blocks in use of `stay` and of `go`", stayed, [6000, 0])
    return failures


def at_a_thousandth(tools, folder, chain):
    """Samples one word in 1000, with several seeds. The sum of the estimates for each function must lie within four standard deviations of the exact
    value, and the variance of the estimates must be the one that chance predicts."""
    failures = tap.Failures()
    program = chain.program(folder, "rates", ["rates.ml"])
    interval, seeds = 8000, 100 if os.environ.get("AG_TEST_SCALE") == "full" else 6
    places = {"one": (1, 100000), "two": (2, 100000), "three": (3, 100000), "nine": (9, 100000), "big": (400, 1000)}
    sums, squares = dict.fromkeys(places, 0), 0
    for seed in range(1, seeds + 1):
        trace = os.path.join(folder, "r%d.allogram" % seed)
        outcome = recorded.run([tools.allogram, "run", "-q", "--mode=sample", "--interval=%d" % interval, "--seed=%d" % seed, "-o", trace,
                                "--", program])
        failures.expect("exit status", outcome.status, 0)
        rows = {row["function"]: row["own"]["allocated_blocks"] for row in recorded.report(tools, trace, "--view=sites")["sites"]}
        os.unlink(trace)
        for name, (words, each) in places.items():
            chance = 1 - math.exp(-8 * (words + 1) / interval)
            got = rows.get("Rates." + name, 0)
            sums[name] += got
            squares += (got - each) ** 2 / (each * (1 - chance) / chance)
    for name, (words, each) in places.items():
        chance = 1 - math.exp(-8 * (words + 1) / interval)
        score = (sums[name] - each * seeds) / math.sqrt(each * seeds * (1 - chance) / chance)
        failures.require("%s: the estimate %d of %d deviates by less than four standard deviations: %.1f" % (name, sums[name], each * seeds, score), abs(score) < 4)
    n = len(places) * seeds # chi-square: mean n, deviation sqrt(2 n)
    failures.require("the sum of the squared deviations is near its mean: %.1f of %d" % (squares, n), abs(squares - n) < 5 * math.sqrt(2 * n))
    return failures


SHARED = [counted, attributed, survivors, owners, everything, signals, own_memprof, stops_none_of_its_own, in_finalizers, threads_and_fork]
CASES = {
    "4": (Toolchain(), [*SHARED, deaths_and_sources, debug_runtime, lives, undisturbed, undisturbed_tools, between, stripped, without_debug_information, static, at_each_cycle, compiler, sampled, at_a_thousandth]),
    "4 bytecode": (Toolchain(is_bytecode=True), [*SHARED, interpreted, script]),
}


def cases_of_root(root):
    return {
        "5.3": (Toolchain(root), [*SHARED, debug_runtime, lives, undisturbed, between, stripped, at_each_cycle, sampled, at_a_thousandth, domains, ended_domain, later_release]),
        "5.3 bytecode": (Toolchain(root, is_bytecode=True), [counted, attributed, survivors, everything, signals, threads_and_fork, interpreted, domains]),
    }


LONG = [undisturbed_tools, undisturbed, lives]  # `make check` leaves them out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--root", default="", help="a folder with the root file system of another Debian release, with its OCaml")
    parser.add_argument("--only", default="", help="run only the case with this name")
    options = parser.parse_args()
    tools = recorded.Tools(options.build)
    recorded.hide_debug_files()
    table = cases_of_root(os.path.abspath(options.root)) if options.root else CASES
    cases = [(name, chain, case) for name, (chain, cases) in table.items() for case in cases if options.only in case.__name__]
    if os.environ.get("AG_TEST_SCALE") == "brief":  # `make check`
        cases = [row for row in cases if row[2] not in LONG]
    results = tap.Plan(len(cases))
    for name, chain, case in cases:
        title = "%s: %s" % (name, case.__name__)
        if not chain.is_there:
            results.skip(title, "no %s here" % (chain.compiler if not chain.root else "OCaml in " + chain.root))
            continue

        def in_folder(case=case, chain=chain):
            with recorded.Folder() as folder:
                return case(tools, folder, chain)

        results.run(title, in_folder)
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
