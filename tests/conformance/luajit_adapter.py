#!/usr/bin/env python3
"""Tests of the LuaJIT adapter: the bytes in use in the trace must equal those that collectgarbage("count") returns."""

import os
import sys

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


def main():
    tools = recorded.tools_of_arguments()
    cases = (bytes_are_those_that_luajit_counts, a_closed_state_has_freed_all, without_adapters_nothing_changes)
    results = tap.Plan(len(cases))
    for case in cases:
        if os.path.exists(INTERPRETER):
            results.run(case.__name__, lambda case=case: case(tools))
        else:
            results.skip(case.__name__, "no " + INTERPRETER)
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
