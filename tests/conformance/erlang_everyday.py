#!/usr/bin/env python3
"""Runs each function of everyday.erl, which contains common Erlang code. The words that allogram counts must equal the growth of the
heap in a process that is not traced and never collects. For servers, processes that hibernate or are killed, and ports, the test
compares with counts by hand. Then nodes are started by elixir -e and by the script of a release."""

import os
import re
import sys

import erlang_counted
import recorded
import tap

N = 200

COMPARE = """N = %d, [begin
  Case = fun() -> everyday:C(N) end, _ = Case(),
  Heap = everyday:used(C, N),
  {_, T} = allogram:run(everyday, C, [N]),
  Words = lists:sum([W || {_, _, F, _, W, _} <- T, F =/= undefined]),
  io:format("~w ~w ~w~n", [C, Heap, Words])
end || C <- %s]"""


def compare(erlang, cases):
    """Returns {case: (words by which the heap of an untraced process grew, words counted for all functions)}."""
    rows = {}
    for line in erlang.evaluate(COMPARE % (N, cases)).splitlines():
        name, *words = line.split()
        rows[name] = tuple(map(int, words))
    return rows


# Tolerance, in words: a built-in function that yields allocates 3 words each time, and the number of yields varies.
YIELDS = {"maps": 8, "yielding": 200}


def heaps_grow_by_what_is_counted(erlang):
    failures = tap.Failures()
    rows = compare(erlang, "everyday:cases()")
    failures.require("at least 28 cases ran: %d" % len(rows), len(rows) >= 28)
    for name, (heap, words) in rows.items():
        if name in YIELDS:
            failures.fail_unless("%s: %d words, should be %d" % (name, words, heap), abs(words - heap) <= YIELDS[name])
        else:
            failures.expect(name, words, heap)
    return failures


TOLD = """N = %d, [begin
  {_, T} = allogram:run(everyday, told, [Queue, N]),
  [io:format("~w ~w ~w~n", [F, lists:sum([C || {_, _, {_, G, _}, C, _, _} <- T, G =:= F]), lists:sum([W || {_, _, {_, G, _}, _, W, _} <- T, G =:= F])])
   || F <- [told_of_end, told_of_exit, told_of_start, spawn_monitor, spawn_link, spawn_request]]
end || Queue <- [off_heap, on_heap]]"""


def own_messages_are_no_words(erlang):
    """The messages DOWN, EXIT and spawn_reply are made by the process that receives them, on the heap of the process if its message queue is on
    the heap. The functions of the process must have the same words whether the queue is on the heap or not: the words that were counted by
    hand (a cons has 2 words)."""
    failures = tap.Failures()
    lines = [line.split() for line in erlang.evaluate(TOLD % N).splitlines()]
    off_heap, on_heap = ({name: (int(calls), int(words)) for name, calls, words in lines[at:at + 6]} for at in (0, 6))
    for name in ("told_of_end", "told_of_exit", "told_of_start"):
        failures.expect(name, on_heap[name], (N + 1, 2 * N))
    for name in ("spawn_monitor", "spawn_link", "spawn_request"):
        failures.expect(name, on_heap[name], off_heap[name])
    return failures


def servers_and_sleepers(erlang):
    """The program has a server, a process that hibernates ten times, a port, and processes that are killed, some of them before they have
    called a function."""
    failures = tap.Failures()
    outcome, trace = erlang.record(["erl", "+S", "2", "-noshell", "-pa", erlang.folder, "-eval", "everyday:main(%d), halt(4)." % N],
                                   name="servers")
    failures.expect("status and output", (outcome.status, outcome.stdout, outcome.stderr), (4, b"", b""))
    rows = erlang_counted.rows_of(erlang.tools, trace)
    wanted = {"handle_call/3": (N + 1, 7 * (N + 1)), "handle_cast/2": (N, 3 * N), "handle_info/2": (N, 6 * N), "init/1": (1, 6),
              "ask/2": (N, 3 * N), "woken/1": (11, 30)}
    for name, counts in wanted.items():
        failures.expect(name, rows.get("everyday:" + name), counts)
    calls, words = rows["everyday:slept/1"]
    # The emulator sends no event for the collection at hibernation, so the 2 words that the process allocates between its last call and
    # each hibernation are not counted.
    failures.require("slept/1: %d calls, %d words" % (calls, words), 11 <= calls <= 11 + N // 10 and words <= 2 * calls)
    report = recorded.report(erlang.tools, trace, "--view=functions")
    failures.require("messages: %s" % report["messages"], report["messages"]["count"] >= 4 * N + N // 10 + 30)
    failures.expect("lost events", recorded.report(erlang.tools, trace)["lost_events"]["total"], 0)
    return failures


RELEASE = """[{ok, _} = {ok, application:load(App)} || App <- [kernel, stdlib]],
  Versions = [{App, element(2, application:get_key(App, vsn))} || App <- [kernel, stdlib]],
  ok = file:write_file("shop.rel", io_lib:format("~p.", [{release, {"shop", "1"}, {erts, erlang:system_info(version)}, Versions}])),
  ok = systools:make_script("shop", [local, silent]) == ok orelse element(1, systools:make_script("shop", [local, silent]))"""


def release_is_counted(erlang):
    """Records a node that is started like the releases of mix and relx: a shell script starts the node in embedded mode with the boot file
    of the release."""
    failures = tap.Failures()
    erlang.evaluate(RELEASE)
    script = os.path.join(erlang.folder, "shop")
    with open(script, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\ncd '%s' || exit 1\nexec erl -boot ./shop -mode embedded -noshell -pa . -eval "
                   "'{module, _} = code:load_file(everyday), io:put_chars(integer_to_list(length(everyday:mutual(%d)))), init:stop(5).' -extra \"$@\"\n" % (erlang.folder, N))
    os.chmod(script, 0o755)
    outcome, trace = erlang.record([script, "foreground"], name="shop")
    failures.expect("status", (outcome.status, outcome.stderr), (5, b""))
    rows = erlang_counted.rows_of(erlang.tools, trace)
    failures.expect("first function of the release", rows.get("everyday:mutual/1"), (1, 0))
    runtimes = recorded.report(erlang.tools, trace)["runtimes"]
    begin = [(row["hooked"], row["note"]) for row in runtimes if row["name"] == "beam" and "calls are counted from" in row["note"]]
    failures.require("a note says that calls of the boot script are not counted: %s" % runtimes,
                     len(begin) == 1 and begin[0][0] and
                     re.search(r"from \d+\.\d{3} s after the emulator's start.*; tracing makes calls up to fifty times slower$", begin[0][1]))
    calls = [rows.get("everyday:" + name, (0, 0))[0] for name in ("hop/2", "skip/2")]
    failures.expect("calls of hop/2 and skip/2: %s" % calls, sum(calls), N + 1)
    return failures


def elixir_evaluates(erlang):
    failures = tap.Failures()
    outcome, trace = erlang.record(["elixir", "-e", "IO.write(Enum.sum(Enum.map(1..50, fn x -> x * 2 end)))"], name="elixir")
    failures.expect("status and output", (outcome.status, outcome.stdout), (0, b"2550"))
    rows = erlang_counted.rows_of(erlang.tools, trace)
    failures.require("functions have the names that Elixir uses", "Enum.map/2" in rows and "Enum.sum/1" in rows)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    cases = [("heaps grow by what is counted", heaps_grow_by_what_is_counted), ("messages of the process itself", own_messages_are_no_words),
             ("servers, sleepers, ports", servers_and_sleepers),
             ("a release's script", release_is_counted), ("elixir -e", elixir_evaluates)]
    return erlang_counted.run_cases(tools, cases, [elixir_evaluates], programs=("everyday",))


if __name__ == "__main__":
    sys.exit(main())
