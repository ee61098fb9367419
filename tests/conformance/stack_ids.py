#!/usr/bin/env python3
"""A program whose stacks have more nodes (frames) than 24 bits can number: each block must have the stack that allocated it. The size of a
block is a hash of its call path (programs/stacks/random_paths.c), so the size shows which stack is right. If there is no memory for more
stacks, the report must begin with the number of blocks whose stacks are not kept, and must not attribute these blocks to a function."""

import os
import re
import resource
import shutil
import sys

import recorded
import tap

PATHS, DEPTH = 80000, 240  # 18 million nodes; a node is one frame, with the number of its caller's node
FEW_PATHS = 25000          # 5.6 million nodes; shared memory of the smallest size has numbers for 4.2 million
SMALL_FILE_BYTES = 250 << 20
BIT_OF = {"left": "0", "right": "1", "leaf_left": "0", "leaf_right": "1"}  # a call path consists of calls of these functions


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_FILE_BYTES, SMALL_FILE_BYTES))


def size_of(path):
    return 16 + ((path * 0x9e3779b97f4a7c15 & (1 << 64) - 1) >> 40) % 1000


def judge(tools, trace, folder):
    """Returns {verdict: number of stacks} of a trace; the verdicts are "right", "wrong" and "not kept"."""
    found = {"right": 0, "wrong": 0, "not kept": 0}
    exported = os.path.join(folder, "folded")
    outcome = recorded.run([tools.allogram, "export", "--to=folded", "--metric=allocated_bytes", "-o", exported, trace], timeout=600)
    if outcome.status != 0:
        raise RuntimeError(outcome.stderr.decode(errors="replace"))
    with open(exported, encoding="utf-8") as lines:
        for line in lines:
            stack, _, number = line.rpartition(" ")
            if stack == "[stack not kept]":
                found["not kept"] += 1
                continue
            bits = "".join([BIT_OF[name] for name in stack.split(";") if name in BIT_OF])  # the lowest bit of the path first
            again = bits == (bits[:64] * (1 + DEPTH // 64))[:len(bits)]  # after 64 calls the path repeats
            is_right = len(bits) == DEPTH and again and size_of(int(bits[:64][::-1], 2)) == int(number)
            found["right" if is_right else "wrong"] += 1
    return found


def no_stack_is_lost(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("random_paths"), str(PATHS), str(DEPTH)], folder, timeout=600)
        failures.expect("exit status", outcome.status, 0)
        failures.expect("stacks", judge(tools, traces[0], folder), {"right": PATHS, "wrong": 0, "not kept": 0})
    return failures


def a_stack_that_is_not_kept_is_counted(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        pattern = os.path.join(folder, "t.%p.allogram")
        outcome = recorded.run([tools.allogram, "run", "-o", pattern, tools.program("random_paths"), str(FEW_PATHS), str(DEPTH)],
                               preexec=small_files, timeout=600)
        failures.expect("exit status", outcome.status, 0)
        failures.fail_unless("the closing line does not report the lost blocks: %s" % outcome.stderr.decode(), b" blocks lost: shared memory was full" in outcome.stderr)
        trace = recorded.traces_in(folder)[0]
        summary = recorded.report(tools, trace)
        lost = summary["missing"]["lost_stacks"]
        failures.expect("allocated_blocks", summary["allocated_blocks"], FEW_PATHS)
        failures.require("some stacks, but not most, were lost: %d" % lost, FEW_PATHS // 10 < lost < FEW_PATHS // 2)
        found = judge(tools, trace, folder)
        failures.expect("stacks", found, {"right": FEW_PATHS - lost, "wrong": 0, "not kept": 1})
        sites = {site["function"]: site["own"]["allocated_blocks"] for site in recorded.report(tools, trace, "--view=sites")["sites"]}
        failures.expect("blocks without a stack", sites.get("[stack not kept]"), lost)
        text = recorded.run([tools.allogram, "report", trace]).stdout.decode()
        failures.fail_unless("the report does not begin with the lost stacks: %s" % text[:200], text.startswith("not stored: the stacks of "))
    return failures


# A node is one frame of a stack, with a link to its caller's node. Stack walks that are discarded must not consume ids of nodes. Ids are
# assigned in order, and the trace contains only nodes that an event names. So the largest id divided by the number of nodes shows how many
# ids were wasted. Each program makes many stacks.
OCAML = """
let rec walk depth path = if depth = 0 then [Sys.opaque_identity (string_of_int path)]
  else if path land 1 = 0 then List.rev (walk (depth - 1) (path lsr 1)) else List.map String.uppercase_ascii (walk (depth - 1) (path lsr 1))
let () = for path = 0 to 999 do ignore (Sys.opaque_identity (walk 10 path)) done
"""
LUA = """
local function walk(depth, path)
    if depth == 0 then return {path} end
    if path % 2 == 0 then return {walk(depth - 1, path // 2)} end
    return {(walk(depth - 1, path // 2))}
end
for path = 0, 999 do walk(10, path) end
"""
WASTE_MOST = 1.25 # limit of largest id / number of nodes: a walk may use some ids twice if a runtime renames its frames


def program_of(language, folder):
    source = os.path.join(folder, "program." + language)
    with open(source, "w", encoding="utf-8") as file:
        file.write({"ml": OCAML, "lua": LUA}[language])
    if language == "lua":
        return ["lua5.4", source]
    compiled = recorded.run(["ocamlfind", "ocamlopt", source, "-o", os.path.join(folder, "program")], cwd=folder)
    if compiled.status != 0:
        raise RuntimeError(compiled.stderr.decode())
    return [os.path.join(folder, "program")]


def no_id_is_spent_on_walks_that_are_discarded(tools, command_of):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, command_of(folder), folder)
        failures.expect("exit status", outcome.status, 0)
        dump = recorded.run([tools.allogram, "dump", traces[0]]).stdout.decode()
        ids = [int(number) for number in re.findall(r"^\S+ \S+ nodes id=(\d+) ", dump, re.MULTILINE)]
        failures.fail_unless("%d nodes are too few for this test" % len(ids), len(ids) > 500)
        failures.require("the largest id %d is near the number of nodes %d" % (max(ids, default=0), len(ids)), max(ids, default=0) < WASTE_MOST * len(ids))
    return failures


def main():
    tools = recorded.tools_of_arguments()
    plan = tap.Plan(5)
    plan.run("no stack is lost", lambda: no_stack_is_lost(tools))
    plan.run("a stack that cannot be kept is counted", lambda: a_stack_that_is_not_kept_is_counted(tools))
    for language, needs in (("ml", "ocamlfind"), ("lua", "lua5.4")):
        name = "no id is spent on walks that are discarded: " + language
        if shutil.which(needs):
            plan.run(name, lambda language=language: no_id_is_spent_on_walks_that_are_discarded(
                tools, lambda folder: program_of(language, folder)))
        else:
            plan.skip(name, "no %s here" % needs)
    plan.run("no id is spent on walks that are discarded: C", lambda: no_id_is_spent_on_walks_that_are_discarded(
        tools, lambda folder: [tools.program("random_paths"), "1000", "20"]))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
