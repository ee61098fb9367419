#!/usr/bin/env python3
"""Tests of the Lua adapter: blocks and calls of scripts against counts made by hand; the frames, names and lines of Lua functions; samples;
and a Lua release that the adapter does not know."""

import os
import shutil
import sys

import adapter_kit
import function_changes
import recorded
import sampled_runs
import tap

SCRIPT = adapter_kit.SCRIPT


class Lua:
    """A version of Lua. hand_counted: the blocks of each function of the case hand_counted, {type: (blocks, bytes)}; guest: lua_guest
    with the shared library of this version; table_words: the size of a table without elements, in words."""

    runtime, heap, source = "lua", "lua", None

    def __init__(self, version, hand_counted, guest, table_words=7):
        self.version, self.hand_counted, self.guest, self.table_words = version, hand_counted, guest, table_words
        self.interpreter = "/usr/bin/lua" + version
        self.library = "liblua%s.so.0" % version
        self.command = [self.interpreter, SCRIPT]


def line(text):
    return adapter_kit.line_of(text)


# The sizes are those of Lua's structs on 64-bit machines: a table has 56 bytes, an array of n values 16 n, a Lua closure 32 + 8 for each
# upvalue, a string 25 + its length. 5.4: an upvalue has 40 bytes, a coroutine 208, its stack has 45 slots. 5.3: an upvalue has 32 bytes
# and no type (it counts as a vector), a coroutine has 216 bytes, its stack has 40 slots. 5.2: an upvalue has 40 bytes, a coroutine
# 208, its stack has 40 slots. 5.1: a table has 64 bytes, a Lua closure 40 + 8 for each upvalue, an upvalue 40, a coroutine 184, its stack
# has 45 slots, and its calls are an array of 8 times 40 bytes. 5.5: a table has 48 bytes, an array of n values 4 + 9 n, a string of
# more than 40 bytes 33 + its length, a coroutine 216 bytes, its stack has 45 slots.
HAND_COUNTED = {
    "tables": {"table": (1000, 56000)},
    "arrays": {"table": (10, 560), "vector": (10, 480)},
    "strings": {"string": (100, sum(25 + length for length in range(2, 102)))},
}
VERSIONS = [
    Lua("5.4", {**HAND_COUNTED, "closures": {"closure": (100, 4000), "upvalue": (100, 4000)},
                "threads_of_lua": {"thread": (50, 50 * 208), "vector": (50, 50 * 720)}}, "lua_guest"),
    Lua("5.3", {**HAND_COUNTED, "closures": {"closure": (100, 4000), "vector": (100, 3200)},
                "threads_of_lua": {"thread": (50, 50 * 216), "vector": (50, 50 * 640)}}, "lua_guest_5_3"),
    Lua("5.5", {"tables": {"table": (1000, 48000)}, "arrays": {"table": (10, 480), "vector": (10, 310)},
                "strings": {"string": (100, sum((25 if length <= 40 else 33) + length for length in range(2, 102)))},
                "closures": {"closure": (100, 4000), "upvalue": (100, 4000)},
                "threads_of_lua": {"thread": (50, 50 * 216), "vector": (50, 50 * 720)}}, "lua_guest_5_5", table_words=6),
    Lua("5.1", {**HAND_COUNTED, "tables": {"table": (1000, 64000)}, "arrays": {"table": (10, 640), "vector": (10, 480)},
                "closures": {"closure": (100, 4800), "upvalue": (100, 4000)},
                "threads_of_lua": {"thread": (50, 50 * 184), "vector": (100, 50 * (720 + 320))}}, "lua_guest_5_1", table_words=8),
    Lua("5.2", {**HAND_COUNTED, "closures": {"closure": (100, 4000), "upvalue": (100, 4000)},
                "threads_of_lua": {"thread": (50, 50 * 208), "vector": (50, 50 * 640)}}, "lua_guest_5_2"),
]


def run(tools, lua, case, folder, failures, path=None, options=()):
    outcome, traces = recorded.record(tools, [path or lua.interpreter, SCRIPT, case], folder, options)
    failures.expect("status", outcome.status, 0)
    failures.expect("output", outcome.stdout.decode(), "done\t%s\n" % case)
    failures.expect("standard error", outcome.stderr.decode(), "")
    failures.expect("status of check", recorded.check(tools, traces[0])[0], 0)
    return traces[0]


def counts_by_hand(tools, lua):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = run(tools, lua, "hand_counted", folder, failures)
        for function, types in lua.hand_counted.items():
            rows = recorded.report(tools, trace, "--view=types", "--limit=0", "--focus=" + function)["types"]
            found = {row["type"]: (row["allocated_blocks"], row["allocated_bytes"]) for row in rows}
            failures.expect(function, {name: found.get(name) for name in types}, types)
            failures.expect("nothing else in " + function, set(found) - set(types) - {"vector"}, set())
    return failures


def has_frames(tools, lua, case, wanted):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = run(tools, lua, case, folder, failures)
        stacks = adapter_kit.stacks_with(tools, lua, trace, "leaf")
        own = [[name for name in stack if ":" in name] for stack in stacks]
        failures.require("%s: %s" % (wanted, own), own and all(stack == wanted for stack in own))
    return failures


def coroutines_have_frames(tools, lua):
    return has_frames(tools, lua, "coroutine_frames", [
        "leaf:%d" % line("return function() return n end"), "function:%d" % (line("coroutine.yield()\n") + 1),
        "function:%d" % line("local _, t = coroutine.resume(inner)"), "coroutine_frames:%d" % line("local t = outer()"),
        "main chunk:%d" % line("  kept = f()")])


def yielded_calls_have_frames(tools, lua):
    return has_frames(tools, lua, "yielded_frames", [
        "leaf:%d" % line("return function() return n end"), "function:%d" % (line("      coroutine.yield()") + 1),
        "function:%d" % line("local ok, t = pcall"), "yielded_frames:%d" % line("local t = co()"), "main chunk:%d" % line("  kept = f()")])


def hooks_have_frames(tools, lua):
    """Lua 5.3 calls a call hook before luaV_execute runs the called function, so the function has no native frame of its own."""
    return has_frames(tools, lua, "hooked_frames", [
        "leaf:%d" % line("return function() return n end"), "hook:%d" % line("-- in the hook"),
        "target:%d" % line("local function target"), "hooked_frames:%d" % line("pcall(target)"), "main chunk:%d" % line("  kept = f()")])


def functions_have_names(tools, lua):
    """A function that is stored under a key that is a variable or a number does not get a name from the code that stores it. It
    is named like the variable through which it is called, f."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = run(tools, lua, "named", folder, failures)
        rows = recorded.report(tools, trace, "--view=sites", "--by=line", "--limit=0", "--focus=named")["sites"]
        names = {row["line"]: row["function"] for row in rows if row["total"]["allocated_blocks"] == 10}
        for text, name in (("t.by_field =", "by_field"), ("function by_global", "by_global"), ("local function by_local", "by_local")):
            failures.expect(text, names.get(line(text)), name)
        for text in ("t[1] =", "t[key] ="):
            failures.expect(text, names.get(line(text)), "f")
    return failures


def alike_stacks_are_distinguished(tools, lua):
    """The script reaches one native stack from two lines, and two native stacks from one line, each a hundred times in turn. The trace
    distinguishes all these stacks."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = run(tools, lua, "alike", folder, failures)
        rows = recorded.report(tools, trace, "--view=sites", "--by=line", "--limit=0", "--focus=alike")["sites"]
        blocks = {row["line"]: row["total"]["allocated_blocks"] for row in rows if row["function"] == "alike"}
        for text, wanted in (("local first =", 100), ("local second =", 100), ("local third, name =", 300)):
            failures.expect(text, blocks.get(line(text)), wanted)
        rows = recorded.report(tools, trace, "--view=sites", "--by=stack", "--limit=0", "--focus=alike")["sites"]
        # Lua 5.3 may allocate the first closure of a function by another call in its code, because no closure is cached yet
        failures.expect("stacks (closures and an upvalue, a number as text, and a name)",
                        len([row for row in rows if row["own"]["allocated_blocks"] in (99, 100)]), 7)
    return failures


def only_frames_of_lua(tools, lua):
    """With --runtime=lua, the stacks contain no native frames, and the blocks of the native functions belong to the Lua functions that
    called them."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = run(tools, lua, "alike", folder, failures)

        def sites(*options):
            return recorded.report(tools, trace, "--view=sites", "--limit=0", "--focus=alike", *options)["sites"]

        def blocks(rows, key):
            return sum(row[key]["allocated_blocks"] for row in rows)

        everything, lua = sites(), sites("--runtime=lua")
        failures.expect("images of the sites", {row["image"] for row in lua}, {"[lua]"})
        failures.expect("blocks of the functions", blocks(lua, "own"), blocks(everything, "own"))
        failures.expect("blocks of alike with its callees", blocks([row for row in lua if row["function"] == "alike"], "total"),
                        blocks([row for row in everything if row["function"] == "alike"], "total"))
        stacks = recorded.report(tools, trace, "--view=sites", "--by=stack", "--limit=0", "--focus=alike", "--runtime=lua")["sites"]
        failures.require("each stack has a function of Lua only: %s" % [row["image"] for row in stacks],
                         stacks and all(row["image"] == "[lua]" for row in stacks))
        lines = recorded.summary_lines(tools, trace)
        failures.require("the summary's first line is one of the script: %s" % lines[:3],
                         lines and lines[0][0].startswith("[lua] ") and lines[0][1].startswith(os.path.basename(SCRIPT) + ":"))
    return failures


def blocks_by_hand():
    with open(SCRIPT, encoding="utf-8") as source:
        marked = {number: text.partition("--= ")[2] for number, text in enumerate(source, 1)}
    return {number: int(count) for number, count in marked.items() if count.strip().isdigit()}


def lines_of_constructors(tools, command, folder, failures):
    outcome, traces = recorded.record(tools, command, folder)
    failures.expect("status, standard error", (outcome.status, outcome.stderr.decode()), (0, ""))
    rows = recorded.report(tools, traces[-1], "--view=sites", "--by=line", "--limit=0", "--focus=constructors")["sites"]
    blocks = {row["line"]: row["total"]["allocated_blocks"] for row in rows if row["image"] == "[lua]"}
    for number, count in blocks_by_hand().items():
        failures.expect("blocks of line %d" % number, blocks.get(number), count)


def constructors_have_lines(tools, lua):
    """The blocks of each table constructor have its line, also in a dynamically linked Lua, and when the collector runs between the
    start of the instruction and the allocation of its block."""
    failures = tap.Failures()
    guest = tools.program(lua.guest)
    commands = [[lua.interpreter, SCRIPT, "constructors"], [guest, SCRIPT, "constructors"]]
    if lua.version not in ("5.1", "5.2"): # these do not collect when a block is refused while the collector is stopped
        commands.append([guest, SCRIPT, "constructors_in_need"])
    for command in commands:
        if os.path.exists(command[0]):
            with recorded.Folder() as folder:
                lines_of_constructors(tools, command, folder, failures)
    return failures


def stacks_are_those_of_lua(tools, lua):
    return adapter_kit.traced_stacks(tools, "lua", [lua.interpreter])


def deep_frames(tools, lua, guest, folder, failures):
    """Lua reallocates its stack. When the new block is recorded, Lua's calls still point to the old block, which is freed and
    overwritten, so the calls cannot be read. Lua 5.4.4 allocates the new stack before it frees the old one, so with 5.4.4 this test
    cannot fail; tests/roots/run_in_roots.py tests a later release."""
    _, traces = recorded.record(tools, guest, folder, env={"GLIBC_TUNABLES": "glibc.malloc.perturb=85"})
    stacks = adapter_kit.stacks_with(tools, lua, traces[-1], "dig")
    failures.require("a stack has more than 100 frames: %s" % [len(stack) for stack in stacks], any(len(stack) > 100 for stack in stacks))
    types = adapter_kit.types_in(tools, traces[-1], ["vector"], "--focus=dig")
    # 300 calls take 64 bytes each, and the stack doubles up to 640 slots
    failures.require("the blocks of Lua's stack are in the trace: %s" % types, types["vector"][1] >= 300 * 64 + 16 * (160 + 320 + 640))


def a_stack_that_moves_has_frames(tools, lua):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        guest = [tools.program(lua.guest), SCRIPT, "deep_frames"] # the allocator of lua_guest always moves blocks
        if os.path.exists(guest[0]):
            deep_frames(tools, lua, guest, folder, failures)
    return failures


def a_callback_that_leaves_keeps_no_frames(tools, lua):
    """While Lua reallocates an array or a stack, the adapter uses frames that it read earlier. If a function of the program that allogram
    calls for the new block (a tracker of allogram.h) raises an error, the adapter must not use these frames for later stacks."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        guest = [tools.program(lua.guest), SCRIPT, "left_while_it_moves"]
        if not os.path.exists(guest[0]):
            return failures
        outcome, traces = recorded.record(tools, guest, folder)
        failures.expect("standard error", outcome.stderr.decode(), "")
        stacks = adapter_kit.stacks_with(tools, lua, traces[0], "leaf")
        wanted = ["leaf:%d" % line("return function() return n end"), "by_native:%d" % (line("local function by_native") + 1),
                  "caller:%d" % line("call_back(by_native)"), "left_while_it_moves:%d" % line("kept = { caller() }")]
        own = [[name for name in stack if ":" in name] for stack in stacks]
        failures.require("%s: %s" % (wanted, own), own and all(stack == wanted for stack in own))
    return failures


def coverage_is_reported(tools, lua):
    """At the end of the program, the bytes in use in the trace (reported) equal those that Lua itself counts (counted)."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        guest = [tools.program(lua.guest), SCRIPT, "counts"]
        if not os.path.exists(guest[0]):
            return failures
        _, traces = recorded.record(tools, guest, folder)
        heap = adapter_kit.heap_in(tools, traces[0], "lua")
        runtime = [row for row in recorded.report(tools, traces[0])["runtimes"] if row["name"] == "lua"][0]
        failures.require("hooked: %s" % runtime, runtime["hooked"])
        dump = recorded.run([tools.allogram, "dump", traces[0]]).stdout.decode()
        failures.require("reported and counted are both %d" % heap["in_use_bytes"],
                         "reported=%d counted=%d" % (heap["in_use_bytes"], heap["in_use_bytes"]) in dump)
    return failures


# function: calls, own words (None: the words vary, because Lua allocates a CallInfo when it extends its list of calls). For `make`: the number
# of tables, in place of their words.
MADE = 50 + 50 + 10 + 4 + 5 * 2 + 3
CALLS = {"fib": (177, 0), "make": (19, MADE), "twice": (1, 0), "thrower": (10, None),
         "tail": (10, 0), "passes": (1, 0), "each": (1, None), "calls_and_words": (1, None)}
CALLERS = {"make": {"twice": 2, "thrower": 10, "each": 5, "calls_and_words": 2}, "fib": {"calls_and_words": 177},
           "tail": {"calls_and_words": 10}}


def calls_of(lua):
    return {**CALLS, "make": (CALLS["make"][0], MADE * lua.table_words)}


def calls_are_counted(tools, lua):
    """With --calls, the calls of functions are counted, also if errors, tail calls or coroutines occur. Without --calls, no calls are
    counted."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = run(tools, lua, "calls_and_words", folder, failures, options=("--calls",))
        view = recorded.report(tools, trace, "--view=functions", "--limit=0")
        rows = {row["function"].split()[-1]: row for row in view["functions"]}
        for name, (calls, words) in calls_of(lua).items():
            row = rows.get(name, {})
            failures.expect(name, (row.get("calls"), row.get("own_words") if words is not None else None), (calls, words))
        for name, callers in CALLERS.items():
            found = recorded.report(tools, trace, "--view=functions", "--callers=" + name)["callers"]
            failures.expect("callers of " + name, {row["function"].split()[-1]: row["calls"] for row in found}, callers)
    with recorded.Folder() as folder:
        trace = run(tools, lua, "calls_and_words", folder, failures)
        failures.expect("functions without --calls", recorded.report(tools, trace, "--view=functions")["functions"], [])
    return failures


def changes_of_calls(tools, lua):
    """The script of the first trace has none of the counted functions. So the changes in `diff` and `--fail-if` are the counts made by
    hand."""
    failures = tap.Failures()
    with recorded.Folder() as folder, recorded.Folder() as other:
        after = run(tools, lua, "calls_and_words", folder, failures, options=("--calls",))
        before = run(tools, lua, "hand_counted", other, failures, options=("--calls",))
        changed = function_changes.compare(tools, before, after, failures)
        changed = {name.split()[-1]: row for name, row in changed.items()}
        for name, (calls, words) in calls_of(lua).items():
            row = changed.get(name, {})
            failures.expect(name, (row.get("calls"), row.get("own_words") if words is not None else None), (calls, words))
    return failures


FINALIZERS = """
local function helper() return {} end
helper()
for i = 1, 1000 do setmetatable({}, {__gc = function() helper() end}) end
collectgarbage()
"""


def finalizers_have_words_without_calls(tools, lua):
    """Lua calls no hooks in __gc finalizers. Words that finalizers allocate are counted; calls in finalizers are not, and the runtime's note
    says so."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        script = os.path.join(folder, "finalizers.lua")
        with open(script, "w", encoding="utf-8") as out:
            out.write(FINALIZERS)
        notes = []
        for options in ((), ("--calls",)):
            _, traces = recorded.record(tools, [lua.interpreter, script], folder, options)
            text = recorded.run([tools.allogram, "report", traces[0]]).stdout.decode()
            failures.expect("the text says that calls in finalizers are not counted (with %s)" % (options,), "lua " + lua.version in text and "calls in __gc finalizers are not counted" in " ".join(text.split()),
                            bool(options))
            notes.append([row["note"] or "" for row in recorded.report(tools, traces[0])["runtimes"] if row["name"] == "lua"][0])
            if options:
                rows = {row["function"]: row for row in recorded.report(tools, traces[0], "--view=functions", "--limit=0")["functions"]}
                failures.expect("calls of helper, and whether its words are counted", (rows["helper"]["calls"], rows["helper"]["own_words"] >= 1001 * lua.table_words), (1, True))
            os.remove(traces[0])
        failures.expect("the notes without and with --calls mention __gc: %s" % notes, ["__gc" in note for note in notes], [False, True])
    return failures


def samples_stand_for_all(tools, lua):
    """Compares the estimates for each type with the exact recording of the same script. Lua allocates the same blocks in each run."""
    failures = tap.Failures()
    metrics, seeds = ("allocated_bytes", "allocated_blocks", "freed_bytes"), 20

    def types_of(folder, *options):
        trace = run(tools, lua, "many", folder, failures, options=options)
        return {row["type"]: row for row in recorded.report(tools, trace, "--view=types")["types"]}

    with recorded.Folder() as folder:
        exact = types_of(folder)
    views = []
    for seed in range(seeds):
        with recorded.Folder() as folder:
            views.append(types_of(folder, "--mode=sample", "--interval=8K", "--seed=%d" % seed))
    for name in ("table", "string", "vector"):
        for metric in metrics:
            sampled_runs.judge(failures, "%s %s" % (name, metric), [view[name][metric] for view in views],
                               [view[name][metric + "_ci95"] for view in views], exact[name][metric])
    return failures


def patched(lua, folder, old, new):
    path = os.path.join(folder, "lua")
    shutil.copyfile(lua.interpreter, path)
    with open(path, "rb") as file:
        code = file.read()
    with open(path, "wb") as file:
        file.write(code.replace(old, new))
    os.chmod(path, 0o755)
    return path


def an_unknown_release_is_refused(tools, lua):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        ident = b"$Lua: Lua " if lua.version == "5.1" else b"$LuaVersion: Lua "
        path = patched(lua, folder, ident + lua.version.encode() + b".", ident + b"5.9.")
        trace = run(tools, lua, "counts", folder, failures, path)
        runtimes = [row for row in recorded.report(tools, trace)["runtimes"] if row["name"] == "lua"]
        failures.expect("the unknown release is hooked", [row["hooked"] for row in runtimes], [False])
        failures.require("the note says that the release is not supported: %s" % runtimes, runtimes and "this release is not supported" in runtimes[0]["note"])
        failures.expect("Lua's heap, which is not recorded", adapter_kit.heap_in(tools, trace, "lua"), None)
        plain = run(tools, lua, "counts", folder, failures, path, ("--adapters=none",))
        heaps = [adapter_kit.heap_in(tools, one, "malloc")["allocated_bytes"] for one in (trace, plain)]
        failures.require("malloc has about as many bytes as with --adapters=none: %s" % heaps, abs(heaps[0] - heaps[1]) <= 64)
    return failures


def a_plugin(tools, lua):
    """The program loads the Lua library with dlopen. Lua is recorded only if the library was also loaded at the program's start, here by
    LD_PRELOAD."""
    failures = tap.Failures()
    for environment, wanted in (({}, (None, None)), ({"LD_PRELOAD": lua.library}, (True, 101))):
        with recorded.Folder() as folder:
            outcome, traces = recorded.record(tools, [tools.program("lua_plugin"), lua.library], folder, env=environment)
            failures.expect("status", (outcome.status, outcome.stdout), (0, b""))
            runtimes = [row for row in recorded.report(tools, traces[0])["runtimes"] if row["name"] == "lua"]
            rows = recorded.report(tools, traces[0], "--view=types", "--focus=tables")["types"]
            tables = [row["allocated_blocks"] for row in rows if row["type"] == "table"]
            failures.expect("%s: hooked, tables" % environment, (runtimes[0]["hooked"] if runtimes else None, tables[0] if tables else None), wanted)
    return failures


# Lua 5.1 has neither coroutines that yield in pcall nor tables with finalizers.
NOT_IN_5_1 = (yielded_calls_have_frames, finalizers_have_words_without_calls)


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    cases = {
        "blocks and bytes by hand": counts_by_hand,
        "coroutines": coroutines_have_frames,
        "a coroutine that yielded below pcall": yielded_calls_have_frames,
        "a hook": hooks_have_frames,
        "names of functions": functions_have_names,
        "stacks that are alike": alike_stacks_are_distinguished,
        "only frames of Lua": only_frames_of_lua,
        "lines of constructors": constructors_have_lines,
        "stacks that debug.getinfo shows": stacks_are_those_of_lua,
        "a stack that moves": a_stack_that_moves_has_frames,
        "a callback that leaves while an array moves": a_callback_that_leaves_keeps_no_frames,
        "coverage": coverage_is_reported,
        "calls and words": calls_are_counted,
        "changes of calls and words": changes_of_calls,
        "words and no calls in finalizers": finalizers_have_words_without_calls,
        "samples stand for all": samples_stand_for_all,
        "an unknown release": an_unknown_release_is_refused,
        "a plugin": a_plugin,
    }
    if os.environ.get("AG_TEST_SCALE") == "brief":  # `make check`
        del cases["samples stand for all"]
    results = tap.Plan(len(cases) * len(VERSIONS))
    for lua in VERSIONS:
        for case_name, case in cases.items():
            name = "Lua %s: %s" % (lua.version, case_name)
            if lua.version == "5.1" and case in NOT_IN_5_1:
                results.skip(name, "Lua 5.1 cannot do that")
            elif os.path.exists(lua.interpreter):
                results.run(name, lambda case=case, lua=lua: case(tools, lua))
            else:
                results.skip(name, "lua%s is not here" % lua.version)
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
