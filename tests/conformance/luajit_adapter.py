#!/usr/bin/env python3
"""Tests of the LuaJIT adapter. The bytes in use in the trace must equal those that collectgarbage("count") returns, and the Lua frames of a block
must be those that debug.getinfo returns in the script when the script allocates the block."""

import os
import sys

import adapter_kit
import recorded
import tap

INTERPRETER = "/usr/bin/luajit"

# Allocates objects of all kinds, and prints LuaJIT's count of bytes. With the argument "exit" the script exits without closing the state.
# Nothing is allocated between the count and the exit, because io.write has a buffer already, and the collector is stopped.
SCRIPT = """
local kept, seed = {}, tonumber(arg[1])
math.randomseed(seed)
local has_ffi, ffi = pcall(require, "ffi")
local makers = {
  function(n) local t = {} for i = 1, n do t[i] = i end return t end,
  function(n) return ("x"):rep(n) .. n end,
  function(n) return function() return n end end,
  function(n) return coroutine.create(function() coroutine.yield(n) end) end,
  function(n) return has_ffi and ffi.new("char[?]", n) or n end,
  function(n) return newproxy(true) end,
  function(n) return loadstring("return function(a) return a + " .. n .. " end")() end,
}
for i = 1, 20000 do kept[math.random(500)] = makers[math.random(#makers)](math.random(200)) end
io.write("ready ", collectgarbage("count") > 0 and 12345678.125 or 0, "\\n")
collectgarbage()
collectgarbage("stop")
local count = collectgarbage("count") * 1024
io.write(count, "\\n")
if arg[2] == "exit" then os.exit(0) end
"""


# Most tables are made by compiled code, which is entered in the loop of `hot`.
COMPILED = """
local kept = {}
local function make(i) return { i } end
local function hot()
  for i = 1, 1000 do kept[i] = make(i) end -- the loop
end
local function calls()
  hot() -- the call
  return 1
end
local co = coroutine.wrap(function()
  calls() -- in the coroutine
end)
co() -- the resume
calls() -- in the chunk
big = ("x"):rep(1000000)
"""


def heap_in_use(tools, trace):
    rows = [row for row in recorded.report(tools, trace, "--view=heaps", "--limit=0")["heaps"] if row["name"] == "luajit"]
    return sum(row["in_use_bytes"] for row in rows)


def run_script(tools, failures, seed, how, options):
    with recorded.Folder() as folder:
        script = os.path.join(folder, "kinds.lua")
        with open(script, "w", encoding="utf-8") as out:
            out.write(SCRIPT)
        outcome, traces = recorded.record(tools, [INTERPRETER, *options, script, str(seed), how], folder)
        failures.expect("status", outcome.status, 0)
        failures.expect("standard error", outcome.stderr.decode(), "")
        summary = recorded.report(tools, traces[0])
        failures.expect("ghost frees", summary["ghost_frees"], 0)
        runtimes = [row for row in summary["runtimes"] if row["name"] == "luajit"]
        failures.expect("runtime", [(row["hooked"], row["note"]) for row in runtimes], [(True, "")])
        lines = outcome.stdout.decode().splitlines()
        return int(float(lines[1])), heap_in_use(tools, traces[0]), runtimes[0]["coverage"] if runtimes else None


def bytes_are_those_that_luajit_counts(tools):
    failures = tap.Failures()
    for seed in range(3):
        for options in ([], ["-joff"]):
            counted, in_use, coverage = run_script(tools, failures, seed, "exit", options)
            failures.expect("seed %d %s" % (seed, options), in_use, counted)
            failures.expect("coverage", coverage, 1.0)
            failures.require("the script allocated: %d" % counted, counted > 100000)
    return failures


def a_closed_state_has_freed_all(tools):
    failures = tap.Failures()
    _, in_use, _ = run_script(tools, failures, 7, "close", [])
    failures.expect("in use after lua_close", in_use, 0)
    return failures


def without_adapters_nothing_changes(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        script = os.path.join(folder, "kinds.lua")
        with open(script, "w", encoding="utf-8") as out:
            out.write(SCRIPT)
        command = [INTERPRETER, "-joff", script, "1", "close"]
        plain = recorded.run(command)
        for options in ([], ["--adapters=none"]):
            outcome, traces = recorded.record(tools, command, folder, options=options)
            failures.expect("output with %s" % options, (outcome.status, outcome.stdout, outcome.stderr),
                            (plain.status, plain.stdout, plain.stderr))
            os.remove(traces[0])
    return failures


def stacks_are_those_of_luajit(tools):
    return adapter_kit.traced_stacks(tools, "luajit", [INTERPRETER, "-joff"])


def compiled_code_has_frames(tools):
    """The stack of a block of compiled code has the Lua functions that were active when the code was entered, and is complete."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        script = os.path.join(folder, "compiled.lua")
        with open(script, "w", encoding="utf-8") as out:
            out.write(COMPILED)

        def at(name, text):
            return "%s:%d" % (name, [number for number, line in enumerate(COMPILED.splitlines(), 1) if text in line][0])

        _, traces = recorded.record(tools, [INTERPRETER, script], folder)
        stacks = recorded.report(tools, traces[0], "--view=peak", "--limit=0", "--focus=hot")["stacks"]
        rows = {}
        for stack in stacks:
            failures.expect("state", stack["state"], "complete")
            if stack["frames"][0]["function"] == "[compiled code]":
                own = tuple("%s:%s" % (frame["function"], frame["line"]) for frame in stack["frames"][1:] if frame["runtime"] == "luajit")
                rows[own] = rows.get(own, 0) + stack["allocated_blocks"]
        outer = (at("hot", "local function hot"), at("calls", "-- the call"))
        in_chunk = rows.get((*outer, at("main chunk", "-- in the chunk")), 0)
        in_coroutine = rows.get((*outer, at("function", "-- in the coroutine"), at("main chunk", "-- the resume")), 0)
        # the loop is compiled after 56 rounds; when the coroutine has ended, each call of `hot` enters the compiled code
        failures.fail_unless("tables of compiled code called by the chunk: %d of 1000" % in_chunk, 900 <= in_chunk <= 1000)
        failures.fail_unless("tables of compiled code called by the coroutine: %d" % in_coroutine, 800 <= in_coroutine <= 960)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    cases = (bytes_are_those_that_luajit_counts, a_closed_state_has_freed_all, without_adapters_nothing_changes,
             stacks_are_those_of_luajit, compiled_code_has_frames)
    results = tap.Plan(len(cases))
    for case in cases:
        if os.path.exists(INTERPRETER):
            results.run(case.__name__, lambda case=case: case(tools))
        else:
            results.skip(case.__name__, "no " + INTERPRETER)
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
