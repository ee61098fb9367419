#!/usr/bin/env python3
"""Records Erlang nodes that are hard to trace, or cannot be traced: the node must not be harmed, one clear line must say what is not
counted, and all that can be counted must be counted. The traced program is hard_to_trace.erl."""

import os
import shutil
import sys

import erlang_counted
import recorded
import tap

PROCESSES = 100000 if os.environ.get("AG_TEST_SCALE") == "full" else 10000


def traced(erlang, call, name, *options):
    """Calls a function of hard_to_trace under `allogram run`. Returns what the program printed, the (calls, words) of each function by name,
    and the path of the trace."""
    outcome, trace = erlang.record(["erl", "+P", "300000", *options, "-noshell", "-pa", erlang.folder, "-eval",
                                    "hard_to_trace:%s, halt(7)." % call], name=name)
    if outcome.status != 7 or outcome.stderr:
        raise RuntimeError("status %d: %s%s" % (outcome.status, outcome.stdout, outcome.stderr))
    status, verdict = recorded.check(erlang.tools, trace)
    if status != 0 or not verdict["whole"]:
        raise RuntimeError("check: %s" % verdict)
    return outcome.stdout, erlang_counted.rows_of(erlang.tools, trace), trace


def many_processes(erlang):
    """Each Erlang process has its own counters in memory. The tracer must need far fewer mappings than there are processes, because the
    kernel limits the mappings of a node to 65,530."""
    failures = tap.Failures()
    printed, rows, trace = traced(erlang, "many(%d)" % PROCESSES, "many")
    failures.expect("calls, words of kept/1 in all processes", rows["hard_to_trace:kept/1"], (PROCESSES, 0))
    groups = recorded.report(erlang.tools, trace, "--view=functions", "--by=initial_call")["initial_calls"]
    of_one = [row for row in groups if row["initial_call"] == "hard_to_trace:one/0"]
    failures.expect("number of processes with the initial call one/0", [row["processes"] for row in of_one], [PROCESSES])
    failures.require("the node has fewer than 2000 mappings: %s" % printed, int(printed) < 2000)
    return failures


def killed_in_a_call(erlang):
    failures = tap.Failures()
    _, rows, trace = traced(erlang, "killed(20)", "killed")
    endless, kept = rows["hard_to_trace:endless/1"], rows["hard_to_trace:kept/1"]
    failures.require("the calls of the killed processes are counted: %s" % (endless,), endless[0] > 20)
    failures.require("the calls of endless/1 and kept/1 differ by one for each process: %s %s" % (endless, kept), abs(endless[0] - (kept[0] - 20)) <= 20)
    failures.require("endless/1 allocates two words for each call, four for the last: %s" % (endless,), abs(endless[1] - 2 * endless[0]) <= 2 * 20)
    failures.expect("lost events", recorded.report(erlang.tools, trace)["lost_events"]["total"], 0)
    return failures


def code_is_reloaded(erlang):
    """If several versions of a module are loaded, the counts of a function in all versions are added up in one row."""
    failures = tap.Failures()
    _, rows, _ = traced(erlang, "reloaded(12)", "reloaded")
    failures.expect("calls, words in all twelve versions", rows.get("versions:which/1"), (120, 0))
    return failures


def names_are_odd(erlang):
    failures = tap.Failures()
    _, rows, trace = traced(erlang, "odd()", "odd", "+pc", "unicode")
    odd = {name: row for name, row in rows.items() if name.startswith("'odd ")}
    failures.expect("ten functions, three calls each", sorted(row for row in odd.values()), [(3, 0)] * 10)
    failures.require("names are quoted as in Erlang's source: %s" % sorted(odd), "'odd \\'module\\'':'a b'/0" in odd)
    shown = recorded.run([erlang.tools.allogram, "report", trace, "--view=functions", "--limit=0", "--color=never"])
    failures.expect("status, standard error of report", (shown.status, shown.stderr), (0, b""))
    failures.require("the report contains no escape character", b"\x1b" not in shown.stdout)
    return failures


def broken_tracer(erlang):
    """A folder with a copy of the tracer whose native library is not a library."""
    folder = os.path.join(erlang.folder, "broken")
    os.makedirs(folder, exist_ok=True)
    for name in ("allogram.beam", "allogram_built_in.beam", "allogram_selection.beam"):
        shutil.copy(os.path.join(erlang.tracer, name), folder)
    with open(os.path.join(folder, "allogram_beam.so"), "w", encoding="utf-8") as file:
        file.write("no library\n")
    return folder


def native_half_is_missing(erlang):
    """The native library of the tracer cannot be loaded. The node runs, and one line says why it is not traced. allogram:run uses counters
    that are built into the emulator, in place of the tracer."""
    failures = tap.Failures()
    broken = broken_tracer(erlang)
    outcome = recorded.run([*erlang.inside, "erl", "-noshell", "-pa", broken, "-s", "allogram", "inject", "-eval",
                            "io:put_chars(\"fine\"), halt(3)."], cwd=erlang.folder)
    failures.expect("status, output of the node", (outcome.status, outcome.stdout), (3, b"fine"))
    lines = outcome.stderr.decode().splitlines()
    failures.require("a line says that the library is not loaded: %s" % lines, lines and lines[-1].startswith("allogram: ") and "not loaded" in lines[0])
    outcome = recorded.run([*erlang.inside, "erl", "-noshell", "-pa", broken, "-pa", erlang.folder, "-eval",
                            "{ok, T} = allogram:run(hand_counted, main, [1000]), "
                            "{'EXIT', killed} = (catch allogram:run(fun() -> exit(self(), kill) end)), true = is_list(allogram:table()), "
                            "[io:format(\"~w:~w ~w ~w~n\", [M, F, C, W]) || {_, 0, {M, F, _}, C, W, _} <- T, M =:= hand_counted], halt()."],
                           cwd=erlang.folder)
    failures.expect("status", outcome.status, 0)
    failures.require("the message names the counters that are used, call_time: %s" % outcome.stderr, b"call_time" in outcome.stderr)
    rows = {}
    for line in outcome.stdout.decode().splitlines():
        name, calls, words = line.split()
        rows[name] = (int(calls), words)
    wanted = erlang_counted.wanted_table(1000, erlang.release)
    for name in ("tuples/1", "cons/1", "odd/1", "repeat/2", "tiny/1"):
        calls, words = wanted["hand_counted:" + name]
        failures.expect(name, rows.get("hand_counted:" + name.split("/")[0]),
                        (calls, str(words) if erlang.release >= 26 else "undefined"))
    return failures


def built_in_counters_of_a_node(erlang):
    """If the tracer does not know the emulator, the emulator's built-in counters are read each second, and the trace says so."""
    failures = tap.Failures()
    erlang.evaluate("ok = allogram_built_in:start(\"this emulator is not known\", #{output => \"built_in.allogram\"}), "
                    "spawn(fun() -> hand_counted:main(1000) end), timer:sleep(1500), hand_counted:cons(10), "
                    "allogram_built_in:stop(), allogram:stop()", says=b"not traced: this emulator is not known")
    trace = os.path.join(erlang.folder, "built_in.allogram")
    rows = erlang_counted.rows_of(erlang.tools, trace)
    wanted = erlang_counted.wanted_table(1000, erlang.release)["hand_counted:tuples/1"]
    failures.expect("calls", rows["hand_counted:tuples/1"], wanted if erlang.release >= 26 else (wanted[0], 0))
    runtimes = recorded.report(erlang.tools, trace)["runtimes"]
    note = [(row["hooked"], row["note"]) for row in runtimes if row["name"] == "beam"]
    failures.require("the summary says that the node was not traced: %s" % note, len(note) == 1 and not note[0][0] and "not traced" in note[0][1])
    return failures


OF_ANY_RELEASE = [("many processes", many_processes), ("killed in the middle of a call", killed_in_a_call),
                  ("code loaded again", code_is_reloaded), ("odd names", names_are_odd),
                  ("a native half that does not load", native_half_is_missing), ("built-in counters", built_in_counters_of_a_node)]


def main():
    return erlang_counted.run_cases(recorded.tools_of_arguments(), OF_ANY_RELEASE, programs=("hard_to_trace", "hand_counted"))


if __name__ == "__main__":
    sys.exit(main())
