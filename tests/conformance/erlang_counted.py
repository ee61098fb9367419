#!/usr/bin/env python3
"""Traces Erlang nodes with the tracer inside the node, by `allogram run` and by allogram:run/4. The words and calls of the functions of
hand_counted.erl, and their callers, must equal counts by hand exactly. Messages and the arguments of started processes are reported
separately. After a recording no trace settings are left in the node."""

import contextlib
import glob
import os
import re
import shutil
import subprocess
import sys

import erlang_random
import function_changes
import recorded
import tap

N = 1000
LEAST_RUNS, MOST_RUNS = (500, 500) if os.environ.get("AG_TEST_SCALE") == "full" else (2, 8)  # nodes that run beside busy loops


class Erlang:
    """The installed Erlang emulator, or the emulator of another Debian release, whose root file system is in the folder ROOT; with the
    tracer and the compiled programs."""

    def __init__(self, tools, folder, root=None, programs=("hand_counted", "attached_node")):
        self.tools, self.folder = tools, folder
        self.inside = ["chroot", root, "/usr/bin/env", "-C", folder] if root else []
        self.tracer = os.path.join(tools.build, "adapters/erlang/inside")
        for program in programs:
            self.compile(recorded.source_of(program + ".erl"))
        self.release = int(self.evaluate("io:put_chars(erlang:system_info(otp_release))"))

    def compile(self, source):
        """Compiles with this emulator's own compiler. The source is copied first, because in ROOT only the folder of the test is visible."""
        shutil.copy(source, self.folder)
        self.compile_all([os.path.basename(source)])

    def compile_all(self, names):
        compiled = recorded.run([*self.inside, "erlc", *names], cwd=self.folder)
        if compiled.status != 0:
            raise RuntimeError("erlc: %s" % compiled.stdout.decode())

    def evaluate(self, expression, *options, env=None, says=b""):
        """Returns what an expression prints on a node that has the tracer in its path and is not recorded. SAYS: text that the one line
        on the node's standard error must contain."""
        outcome = recorded.run([*self.inside, "erl", "-noshell", "-pa", self.tracer, "-pa", self.folder, *options, "-eval",
                                expression + ", halt()."], cwd=self.folder, env=env)
        if outcome.status != 0 or (says not in outcome.stderr if says else outcome.stderr):
            raise RuntimeError("erl: status %d: %s%s" % (outcome.status, outcome.stdout.decode(), outcome.stderr.decode()))
        return outcome.stdout.decode()

    def record(self, command, options=(), name="t", **how):
        """Returns (outcome, the emulator's trace or None)."""
        pattern = os.path.join(self.folder, name + ".%e.%p.allogram")
        outcome = recorded.run([self.tools.allogram, "run", "-q", "-o", pattern, *options, "--", *self.inside, *command], cwd=self.folder,
                               **how)
        found = [os.path.join(self.folder, file) for file in os.listdir(self.folder) if file.startswith(name + ".beam.smp.")]
        return outcome, max(found, key=os.path.getsize) if found else None


def wanted_table(n, release):
    """{function: (calls, own words)} of the functions that hand_counted:main(n) calls."""
    # words of a closure with one variable: the header has 5 words before OTP 26, 3 words before OTP 29, and 2 words in OTP 29 (28 was not run)
    closure = 6 if release < 26 else 4 if release < 29 else 3
    return {
        "hand_counted:bytes/2": (n + 1, 5), "hand_counted:matched/1": (1, 0),
        "hand_counted:sequences/1": (1, 0), "hand_counted:tuples/1": (n + 1, 4 * n), "hand_counted:set_one/1": (1, 0),
        "hand_counted:set_two/1": (1, 3), "hand_counted:floats/2": (n + 1, 2 * n), "hand_counted:maps_of_two/1": (n + 1, 5 * n),
        "hand_counted:binaries/1": (n + 1, 2 * n), "hand_counted:closures/1": (n + 1, closure * n), "hand_counted:to_tuple/1": (1, 0),
        "hand_counted:thrown/1": (1, 3), "hand_counted:throw_deep/1": (n + 1, 0), "hand_counted:tail_first/1": (1, 0),
        "hand_counted:cons/1": (2 * (n + 1) + 3, 2 * (2 * n + 2)), "hand_counted:loop_a/1": (n + 1, 0),
        "hand_counted:loop_b/1": (n, 0), "hand_counted:odd/1": (n // 2 + 1, n), "hand_counted:even/1": (n // 2, n),
        "hand_counted:repeat/2": (2 * n + 2, 0), "hand_counted:tiny/1": (500, 0), "hand_counted:long/1": (3, 0),
        "hand_counted:busy/2": (8 * (n + 1), 0), "hand_counted:receiver/2": (n // 10 + 1, 0),
    }


def rows_of(tools, trace, *options):
    return {row["function"]: (row["calls"], row["own_words"])
            for row in recorded.report(tools, trace, "--view=functions", *options)["functions"]}


def callers_of(tools, trace, function):
    rows = recorded.report(tools, trace, "--view=functions", "--callers=" + function)["callers"]
    return {row["function"]: (row["calls"], row["words"]) for row in rows}


def program_is_counted(erlang):
    """Compares the counts of main and its callees, and the counts by caller, on a node with four schedulers."""
    failures, tools = tap.Failures(), erlang.tools
    outcome, trace = erlang.record(["erl", "+S", "4", "-noshell", "-pa", erlang.folder, "-eval",
                                    "hand_counted:main(%d), io:put_chars(\"done\"), halt(3)." % N])
    failures.expect("status and output", (outcome.status, outcome.stdout, outcome.stderr), (3, b"done", b""))
    rows, wanted = rows_of(tools, trace), wanted_table(N, erlang.release)
    for name, counts in wanted.items():
        failures.expect(name, rows.get(name), counts)
    sums = rows_of(tools, trace, "--focus=^hand_counted:sequences")
    failures.expect("lists:seq", sums.get("lists:seq_loop/3", (0, 0))[1], 2 * N)
    sums = rows_of(tools, trace, "--focus=^hand_counted:busy")
    failures.expect("lists:seq of eight processes", sums.get("lists:seq_loop/3", (0, 0))[1], 8 * N * 60)
    sums = rows_of(tools, trace, "--focus=^hand_counted:binaries")
    failures.expect("binaries", sums.get("erlang:list_to_binary/1"), (N, 4 * N))
    sums = rows_of(tools, trace, "--focus=^hand_counted:to_tuple")
    failures.expect("list_to_tuple", sums.get("erlang:list_to_tuple/1"), (1, N + 1))
    callers = callers_of(tools, trace, "erlang:setelement/3")
    failures.expect("calls, words of setelement/3 from repeat/2", callers.get("hand_counted:repeat/2"), (2 * N, 15 * N))
    for caller, words in (("set_one", 5), ("set_two", 10)):
        rows = rows_of(tools, trace, "--focus=^hand_counted:%s/1" % caller)
        failures.expect("setelement/3 below " + caller, rows.get("erlang:setelement/3"), (N, words * N))
    callers = callers_of(tools, trace, "hand_counted:cons/1")
    failures.expect("callers: tail calls and a function that catches", callers,
                    {"hand_counted:main/1": (N + 1, 2 * N), "hand_counted:tail_second/1": (N + 1, 2 * N),
                     "hand_counted:thrown/1": (3, 4)})
    callers = callers_of(tools, trace, "hand_counted:loop_b/1")
    failures.expect("callers in a loop of tail calls", callers, {"hand_counted:loop_a/1": (N, 0)})
    failures.expect("lost events", recorded.report(tools, trace)["lost_events"]["total"], 0)
    return failures


def changes_are_counted(erlang):
    """`diff` and `--fail-if` show how many more calls and words main(200) has than main(100). The test counts them by hand."""
    failures, tools = tap.Failures(), erlang.tools
    traces = [erlang.record(["erl", "-noshell", "-pa", erlang.folder, "-eval", "hand_counted:main(%d), halt()." % n], name="n%d" % n)[1]
              for n in (100, 200)]
    changed = function_changes.compare(tools, *traces, failures)
    less, more = (wanted_table(n, erlang.release) for n in (100, 200))
    for name, (calls, words) in more.items():
        row = changed.get(name, {"calls": 0, "own_words": 0})
        failures.expect(name, (row["calls"], row["own_words"]), (calls - less[name][0], words - less[name][1]))
    return failures


def processes_have_their_own(erlang):
    """Reports functions by initial call and by process, with a call tree for each process, and the collections of each process."""
    failures, tools = tap.Failures(), erlang.tools
    _, trace = erlang.record(["erl", "+S", "2", "-noshell", "-pa", erlang.folder, "-eval",
                              "register(hand, self()), hand_counted:main(%d), proc_lib:start(hand_counted, begun, [%d]), hand_counted:in_fun(%d), " % (N, N, N) +
                              "ignore = gen_server:start(hand_counted, 7, []), halt()."],
                             name="processes")

    def rows(by, key):
        return {row[by]: (row["processes"], row["calls"], row["own_words"])
                for row in recorded.report(tools, trace, "--view=functions", "--by=" + by)[key]}

    by_call, by_process = rows("initial_call", "initial_calls"), rows("process", "processes")
    busy = by_call.get("hand_counted:busy/2", (0, 0, 0))
    failures.expect("processes, words of the eight busy processes", (busy[0], busy[2]), (8, 8 * N * 60))
    failures.expect("processes that proc_lib started", by_call.get("hand_counted:begun/1", (0, 0, 0))[0], 1)
    failures.expect("processes whose initial call is the server's init/1", by_call.get("hand_counted:init/1", (0, 0, 0))[0], 1)
    # erlang:apply/2, the fun's function (with the variable of the fun as its argument), and the calls of cons/1
    failures.expect("processes, calls, words with a fun as their initial call", by_call.get("hand_counted:'-in_fun/1-fun-0-'/1"), (1, N + 3, 2 * N))
    failures.expect("processes, words with the initial call of spawn_request", by_call.get("hand_counted:cons/1", (0, 0, 0))[::2], (1, 2 * N))
    failures.require("a process has its registered name", "hand" in by_process)
    report = recorded.report(tools, trace, "--view=functions", "--by=process", "--tree")
    tops = {node["function"]: node["acc_words"] for node in report["root"]["children"]}
    failures.expect("words of each process in the call trees", tops, {name: row[2] for name, row in by_process.items() if name in tops})
    total = report["total"]
    failures.expect("calls, words of all processes together", (sum(row[1] for row in by_process.values()), sum(row[2] for row in by_process.values())),
                    (total["calls"], total["own_words"]))
    gc = recorded.report(tools, trace, "--view=gc", "--by=process")
    sums = {}
    for row in gc["collections"]:
        count, reclaimed = sums.get(row["process"], (0, 0))
        sums[row["process"]] = count + 1, reclaimed + max(0, row["heap_before_bytes"] - row["heap_after_bytes"])
    failures.expect("collections, reclaimed bytes of each process", {row["process"]: (row["collections"], row["reclaimed_bytes"]) for row in gc["processes"]}, sums)
    failures.require("the process `hand` has collections", "hand" in sums)
    return failures


@contextlib.contextmanager
def busy_cores():
    """One endless loop for each core."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


# The lists are not on the heap of the process, because a collection that copies them would take as long as the calls. The emulator must not
# interrupt the call, because the program's clock also counts the time in which an interrupted process waits.
TIMED = """Make = fun() -> binary_to_list(binary:copy(<<1>>, 5000000)) end,
  persistent_term:put(lists, {Make(), Make()}), Lists = persistent_term:get(lists),
  io:format("~w ~w", [hand_counted:tinies(100), lists:sum([hand_counted:timed(Lists) || _ <- [a, b, c]])]), halt()."""
TINY_MOST = 0.2  # share of the time that the call takes with the tracer; 0.09 to 0.16 were measured


def times_are_right(erlang):
    """Runs nodes beside an endless loop on each core. For three calls that take some 10 ms of CPU time each, the trace must have the time that the
    program's own clock shows for all three. A function that does nothing must have nearly no time: at most the share TINY_MOST of the time that the
    program's clock shows for a hundred calls, which is nearly all time of the tracer. If the kernel preempts a scheduler in one of these calls, the
    wait counts as time of the function, so half of the runs may exceed TINY_MOST. If more than half of the first LEAST_RUNS runs do, further runs
    are made."""
    failures = tap.Failures()
    n_warned, tiny = 0, []
    for i in range(MOST_RUNS):
        if i >= LEAST_RUNS and sum(share > TINY_MOST for share in tiny) <= i // 2:
            break
        with busy_cores():
            outcome, trace = erlang.record(["erl", "+S", "2", "-noshell", "-pa", erlang.folder, "-eval", TIMED], name="time%d" % i)
        rows = {row["function"]: row["own_ns"]
                for row in recorded.report(erlang.tools, trace, "--view=functions")["functions"]}
        tinies, own = (int(text) for text in outcome.stdout.split())
        long = rows["hand_counted:long/1"]
        tiny.append(rows["hand_counted:tiny/1"] / tinies)
        notes = [row["note"] for row in recorded.report(erlang.tools, trace)["runtimes"] if row["name"] == "beam"]
        is_warned = any("times may be wrong" in note for note in notes)
        n_warned += is_warned
        failures.require("run %d: %d ns, by the program's clock %d" % (i, long, own), is_warned or abs(long / own - 1) <= 0.1)
        os.remove(trace)
    failures.require("%d of %d runs have a warning" % (n_warned, len(tiny)), n_warned <= len(tiny) // 20)
    failures.require("share of calls that do nothing in their time with the tracer, in each run: %s" % [round(share, 3) for share in tiny],
                     sum(share > TINY_MOST for share in tiny) <= len(tiny) // 2)
    return failures


def stands_apart(erlang):
    """The words of sent messages, of copied arguments and of the tracer's events are reported separately from the words of functions."""
    failures = tap.Failures()
    _, trace = erlang.record(["erl", "-noshell", "-pa", erlang.folder, "-eval", "hand_counted:main(%d), halt()." % N], name="apart")
    report = recorded.report(erlang.tools, trace, "--view=functions")
    n = N // 10
    failures.require("all sent messages are counted: %s" % report["messages"],
                     report["messages"]["count"] >= n and report["messages"]["words"] >= n * 103)
    failures.require("the arguments of nine processes are counted: %s" % report["spawn_arguments"], report["spawn_arguments"]["count"] >= 9)
    binaries = report["profiler"]["words"] - 4 * report["profiler"]["count"]
    # Before OTP 27, a call that passes on a match context also makes a binary of five words: N calls of bytes/2 do.
    failures.require("the tuple of an event has four words: %s" % report["profiler"],
                     binaries == 0 if erlang.release >= 27 else binaries % 5 == 0 and (binaries >= 5 * N or erlang.release > 25))
    return failures


SHOP = """-module(shop).
-behaviour(application).
-export([start/2, stop/1, init/1]).
start(_, _) -> _ = hand_counted:cons(1000), supervisor:start_link(?MODULE, []).
init(_) -> _ = hand_counted:cons(10), {ok, {#{}, []}}.
stop(_) -> ok.
"""
SHOP_APP = """{application, shop, [{description, "a shop"}, {vsn, "1"}, {modules, [shop, hand_counted]}, {registered, []},
  {applications, [kernel, stdlib]}, {mod, {shop, []}}]}."""
MAKE_RELEASE = """Applications = [begin application:load(A), {ok, V} = application:get_key(A, vsn), {A, V} end || A <- [kernel, stdlib]],
  Release = {release, {"shop", "1"}, {erts, erlang:system_info(version)}, Applications ++ [{shop, "1"}]},
  ok = file:write_file("shop.rel", io_lib:format("~p.~n", [Release])), {ok, _, _} = systools:make_script("shop", [{path, ["."]}, silent]),
  {ok, Script} = file:read_file("shop.boot"),
  ok = file:write_file("packed.boot", term_to_binary(binary_to_term(Script), [compressed]))"""


def releases_are_counted_from_their_start(erlang):
    """An application of a release is counted while it starts, before -eval, in both modes in which a release loads its code. A boot script that
    allogram cannot change (a compressed one) is not changed: then counting begins after the script, and the report says so."""
    failures, tools = tap.Failures(), erlang.tools
    for name, text in (("shop.erl", SHOP), ("shop.app", SHOP_APP)):
        with open(os.path.join(erlang.folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    recorded.run([*erlang.inside, "erlc", "shop.erl"], cwd=erlang.folder)
    erlang.evaluate(MAKE_RELEASE)
    for boot, mode, when in (("shop", "interactive", "before the first application"), ("shop", "embedded", "before the first application"),
                             ("packed", "embedded", "when the boot script has ended")):
        outcome, trace = erlang.record(["erl", "-noshell", "-mode", mode, "-pa", erlang.folder, "-boot", boot, "-eval",
                                        "io:format(\"~w ~p\", [lists:keymember(shop, 1, application:which_applications()), code:is_loaded(allogram)]), "
                                        "hand_counted:tiny(1), halt()."], name=boot + "." + mode)
        which = "%s, %s: " % (boot, mode)
        failures.expect(which + "status", outcome.status, 0)
        failures.require(which + "the application runs, and the code server knows the tracer's module: %r" % outcome.stdout,
                         outcome.stdout.startswith(b"true {file,") and b"allogram.beam" in outcome.stdout)
        rows = rows_of(tools, trace)
        failures.expect(which + "tiny/1", rows.get("hand_counted:tiny/1"), (1, 0))
        notes = [row["note"] for row in recorded.report(tools, trace)["runtimes"] if row["name"] == "beam"]
        failures.require(which + "the note: %s" % notes, len(notes) == 1 and when in notes[0])
        failures.expect(which + "cons/1 while the application starts", rows.get("hand_counted:cons/1", (0, 0)),
                        (1001 + 11, 2020) if boot == "shop" else (0, 0))
        if (boot, mode) == ("shop", "embedded"): # in interactive mode, error_handler makes the first call, because it loads the module
            failures.expect(which + "callers", callers_of(tools, trace, "hand_counted:cons/1"), {"shop:start/2": (1001, 2000), "shop:init/1": (11, 20)})
    twice = ("case file:write_file(\"booted\", [], [exclusive]) of ok -> hand_counted:tiny(1), init:restart(), timer:sleep(infinity); "
             "_ -> hand_counted:tiny(1), halt() end.")
    outcome, trace = erlang.record(["erl", "-noshell", "-pa", erlang.folder, "-boot", "shop", "-eval", twice], name="restarted")
    failures.expect("init:restart(): status", outcome.status, 0)
    rows = rows_of(tools, trace)
    failures.expect("init:restart(): tiny/1, and cons/1 while the application starts for the first and for the second time",
                    (rows.get("hand_counted:tiny/1"), rows.get("hand_counted:cons/1")), ((2, 0), (2 * 1012, 2 * 2020)))
    notes = [row["note"] for row in recorded.report(tools, trace)["runtimes"] if row["name"] == "beam"]
    failures.require("init:restart(): the note has both begins: %s" % notes,
                     len(notes) == 1 and re.search(r"from [\d.]+ s after the emulator's start, before the first application, and again from [\d.]+ s on, "
                                                   "after a restart;", notes[0]))
    _, trace = erlang.record(["erl", "-noshell", "-pa", erlang.folder, "-boot", "shop", "-eval", "halt()."],
                             options=["--trace=hand_counted:cons/1"], name="chosen_release")
    rows = rows_of(tools, trace)
    failures.expect("--trace: cons/1 while the application starts", rows.get("hand_counted:cons/1"), (1012, 2020))
    failures.expect("--trace: functions with calls", {name for name, row in rows.items() if row[0] > 0}, {"hand_counted:cons/1"})
    return failures


LATER = """-module(later).
-export([made/1, other/1]).
made(0) -> [];
made(N) -> [other(N) | made(N - 1)].
other(N) -> {N}.
"""


def functions_are_selected(erlang):
    """With --trace only the selected functions are counted, also those of a module that the node can load only later. Their callers are
    known although they are not traced. Words of a function that is not selected count for the selected function that called it."""
    failures, tools = tap.Failures(), erlang.tools
    later = os.path.join(erlang.folder, "later")
    os.makedirs(later, exist_ok=True)
    with open(os.path.join(later, "later.erl"), "w", encoding="utf-8") as file:
        file.write(LATER)
    recorded.run([*erlang.inside, "erlc", "-o", "later", "later/later.erl"], cwd=erlang.folder)
    program = ("hand_counted:main(%d), code:add_patha(\"later\"), later:made(100), timer:sleep(400), later:made(100), "
               "hand_counted:main(10), halt()." % N)
    choice = "--trace=hand_counted:cons/1,later:made/1,erlang:setelement/3"
    _, trace = erlang.record(["erl", "-noshell", "-pa", erlang.folder, "-eval", program], options=[choice], name="chosen")
    rows = rows_of(tools, trace)
    counted = {name: row for name, row in rows.items() if row[0] > 0}
    wanted = {"hand_counted:cons/1": (2 * (N + 11) + 6 + 2, 4 * (N + 10) + 8), "later:made/1": (202, 200 * 4)}
    for name, counts in wanted.items():
        failures.expect(name, rows.get(name), counts)
    others = {name for name in counted if not name.startswith(("hand_counted:cons/", "later:made/", "erlang:setelement/"))}
    failures.expect("other functions with calls", others, set())
    failures.expect("callers of cons/1", callers_of(tools, trace, "hand_counted:cons/1"),
                    {"hand_counted:main/1": (2 * N + 24, 4 * N + 40), "hand_counted:thrown/1": (6, 8)})
    callers = callers_of(tools, trace, "erlang:setelement/3")
    failures.expect("setelement/3 called by repeat/2", callers.get("hand_counted:repeat/2"), (2 * N + 20, 15 * (N + 10)))
    failures.require("calls of setelement/3 have a caller: %s" % callers, "[root]" not in callers)
    return failures


def processes_are_selected(erlang):
    """With --process only the selected processes are counted: by name from the moment of the registration, by initial call from the start of the
    process, and by pid."""
    failures, tools = tap.Failures(), erlang.tools
    program = ("spawn(fun() -> hand_counted:cons(7), register(hand, self()), hand_counted:cons(100) end), "
               "P = spawn(fun() -> receive go -> register(named, self()), hand_counted:cons(20) end end), Self = self(), "
               "Q = spawn(fun() -> receive go -> hand_counted:cons(50), Self ! done end end), register(other, Q), P ! go, Q ! go, "
               "receive done -> ok end, hand_counted:main(%d), halt()." % N)

    def recorded_with(choice, name):
        _, trace = erlang.record(["erl", "-noshell", "-pa", erlang.folder, "-eval", program], options=["--process=" + choice], name=name)
        return rows_of(tools, trace), {row["process"] for row in recorded.report(tools, trace, "--view=functions", "--by=process")["processes"]}

    rows, processes = recorded_with("hand,other,never", "named")
    failures.expect("cons/1 of the named processes", rows.get("hand_counted:cons/1"), (101 + 51, 200 + 100))
    failures.expect("named processes", processes, {"hand", "other"})
    failures.require("main/1, of another process, is not counted", "hand_counted:main/1" not in rows)
    rows, processes = recorded_with("initial:hand_counted:busy/2", "initial")
    failures.expect("calls of busy/2", rows.get("hand_counted:busy/2", (0,))[0], 8 * (N + 1))
    failures.expect("lists:seq of the busy processes", rows.get("lists:seq_loop/3", (0, 0))[1], 8 * N * 60)
    failures.expect("number of processes", len(processes), 8)
    pid = erlang.evaluate("io:format(\"~w\", [self()])")
    rows, processes = recorded_with(pid, "number")
    failures.expect("calls of main/1, busy/2 with --process=" + pid, [rows.get("hand_counted:%s" % name, (0,))[0] for name in ("main/1", "busy/2")],
                    [1, 0])
    failures.expect("processes", processes, {pid})
    return failures


def wrong_choices_are_refused(erlang):
    """A text that has no valid form is refused before the node starts, in one line. If nothing was counted, the summary says so."""
    failures = tap.Failures()
    for choice in ("--trace=foo", "--trace=lists:map/x", "--trace=,", "--process=<0.1>", "--process=initial:foo"):
        outcome = recorded.run([erlang.tools.allogram, "run", choice, "--", "true"], cwd=erlang.folder)
        failures.expect(choice, (outcome.status, outcome.stderr.count(b"\n")), (125, 1))
    outcome = recorded.run([erlang.tools.allogram, "run", "-o", "nosuch.%e.%p", "--trace=nosuch:_", "--", *erlang.inside, "erl", "-noshell", "-eval", "halt()."],
                           cwd=erlang.folder)
    failures.require("nothing was counted: %r" % outcome.stderr, b"no call was counted: --trace=nosuch:_ selected no function" in outcome.stderr)
    return failures


def summary_names_the_node(erlang):
    """The summary of `run` names the emulator's trace and not that of the start script, gives the words of functions, and has one line about
    all other traces."""
    failures = tap.Failures()
    folder = os.path.join(erlang.folder, "summary")
    os.makedirs(folder)
    outcome = recorded.run([erlang.tools.allogram, "run", "--", *erlang.inside, "erl", "-noshell", "-pa", erlang.folder, "-eval",
                            "hand_counted:main(%d), halt()." % N], cwd=folder)
    lines = outcome.stderr.decode().splitlines()
    others = [line for line in lines if " other traces: " in line]
    failures.require("the last line names the trace of beam.smp: %s" % lines[-1:],
                     lines and re.search(r"^allogram: trace allogram\.beam\.smp\.\d+\.allogram, .*--view=functions$", lines[-1]))
    failures.require("a line has the calls and words: %s" % lines, any(re.match(r"allogram: beam \d+: [\d,]+ calls of [\d,]+ functions allocated .* words",
                                                                               line) for line in lines))
    traces = [file for file in os.listdir(folder) if file.endswith(".allogram")]
    failures.expect("lines about other traces", len(others), 1)
    failures.require("%d traces: %s" % (len(traces), others), others and others[0].startswith("allogram: %d other traces: " % (len(traces) - 1)))
    failures.expect("the pattern in the line about other traces matches all traces", len(glob.glob(os.path.join(folder, others[0].split(" report ")[1].split(" --view=")[0]))), len(traces))
    return failures


MEASURE = """Words = fun(M, F, A, Of) -> {_, T} = allogram:run(M, F, A, #{output => "own.%%p.allogram"}),
  lists:sum([W || {_, _, {_, Name, _}, _, W, _} <- T, Name =:= Of]) end,
  [io:format("~w ", [Words(lists, seq, [1, N], seq_loop)]) || N <- %s]"""


def from_erlang(erlang):
    """allogram:run/4 returns the result of the function and a table of counts. The counts are right for heaps of all sizes: small heaps are
    collected often, large heaps rarely."""
    failures = tap.Failures()
    sizes = [0, 1, 2, 3, 10, 100, 1000, 10000, 100000, 300000]
    printed = erlang.evaluate(MEASURE % sizes)
    failures.expect("lists:seq", [int(word) for word in printed.split()], [2 * size for size in sizes])
    printed = erlang.evaluate(("Words" + MEASURE[5:MEASURE.index("[io:format")]) +
                              "io:format(\"~w\", [Words(erlang, spawn, [lists, seq, [1, 2]], spawn)])")
    failures.expect("spawn makes nothing on its caller's heap", printed, "0")
    printed = erlang.evaluate("{R, T} = allogram:run(erlang, list_to_tuple, [lists:seq(1, 200)]), " +
                              "io:format(\"~w ~w\", [tuple_size(R), lists:sum([W || {_, _, {erlang, list_to_tuple, 1}, _, W, _} <- T])])")
    failures.expect("result and table", printed, "200 201")
    failures.expect("traces of a run without the option output", [file for file in os.listdir(erlang.folder) if file.startswith("allogram.")], [])
    printed = erlang.evaluate("S = spawn(fun() -> receive stop -> ok end end), P = spawn(fun() -> receive stop -> ok end end), " +
                              "erlang:trace(P, true, [call, {tracer, S}]), {_, _} = allogram:run(lists, seq, [1, 9]), " +
                              "io:format(\"~w\", [erlang:trace_info(P, tracer) =:= {tracer, S}])")
    failures.expect("a process with another tracer keeps that tracer", printed, "true")
    outcome, trace = erlang.record(["erl", "-noshell", "-pa", erlang.folder, "-eval",
                                    "io:format(\"~0p\", [catch allogram:run(lists, seq, [1, 9])]), hand_counted:tiny(1), halt()."],
                                   name="twice")
    failures.require("allogram:run is refused under `run`: %s" % outcome.stdout, b"counted already" in outcome.stdout)
    failures.expect("calls, words of tiny/1 after the refusal", rows_of(erlang.tools, trace).get("hand_counted:tiny/1"), (1, 0))
    return failures


UNTRACED = """Untraced = fun() -> {A, B, C, _, _, D} = attached_node:left(), {A, B, C, D} =:= {[], [], {all, false}, []} end,
  Of = fun(Table) -> {lists:sum([C || {_, _, {hand_counted, cons, 1}, C, _, _} <- Table]),
                      lists:sum([W || {_, _, {hand_counted, cons, 1}, _, W, _} <- Table])} end,
  Wait = fun Wait(Is) -> case Is() of true -> true; false -> timer:sleep(5), Wait(Is) end end,
  Endless = fun Endless() -> hand_counted:cons(9), Endless() end, """


def run_takes_funs(erlang):
    """Tests allogram:run/1 and run/2. A function that raises an exception is counted until it raises, and the caller of run gets the
    exception."""
    failures = tap.Failures()
    printed = erlang.evaluate(UNTRACED + "{R, T} = allogram:run(fun() -> length(hand_counted:cons(50)) end), "
                              "{R, T2} = allogram:run(fun() -> length(hand_counted:cons(50)) end, #{trace => [{hand_counted, '_', '_'}]}), "
                              "io:format(\"~w ~w ~w ~w ~w\", [R, Of(T), Of(T2), allogram:table(), Untraced()])")
    failures.expect("results and counts of two runs with a fun", printed, "50 {51,100} {51,100} undefined true")
    printed = erlang.evaluate(UNTRACED + "try allogram:run(fun() -> length(hand_counted:cons(50)) end, #{callers => false}) of "
                              "{R, T} -> io:format(\"~w ~w ~w ~w\", [R, Of(T), lists:usort([P || {_, P, _, _, _, _} <- T]), Untraced()]) "
                              "catch error:{allogram, Why} -> io:put_chars(Why) end")
    failures.expect("a run without callers, by the emulator's own counters", printed,
                    "50 {51,100} [0] true" if erlang.release >= 26 else "callers => false needs OTP 26")
    for raised in ("throw:ball", "error:badarith", "exit:normal"):
        name, reason = raised.split(":")
        output = os.path.join(erlang.folder, name + ".allogram")
        printed = erlang.evaluate(UNTRACED + (
            "F = fun() -> hand_counted:cons(50), erlang:%s(%s) end, "
            "{C, Y, S} = try allogram:run(F, #{output => \"%s\"}) catch A:B:D -> {A, B, D} end, "
            "io:format(\"~w:~w ~w ~w ~w ~w\", [C, Y, is_list(S), Of(allogram:table()), Untraced(), processes() -- [self() | Before]])")
            .replace("F =", "Before = processes(), F =", 1) % (name, reason, output))
        failures.expect(raised, printed, raised + " true {51,100} true []")
        failures.expect("calls, words of cons/1 in the trace of %s" % raised, rows_of(erlang.tools, output).get("hand_counted:cons/1"), (51, 100))
    printed = erlang.evaluate(UNTRACED + "{'EXIT', Why} = (catch allogram:run(fun() -> hand_counted:cons(50), exit(self(), kill), "
                              "timer:sleep(infinity) end)), io:format(\"~w ~w ~w\", [Why, Of(allogram:table()), Untraced()])")
    failures.expect("the function kills its process", printed, "killed {51,100} true")
    return failures


def run_ends_with_its_caller(erlang):
    """Nothing stays traced if the process that called allogram:run is killed, or if the keeper (allogram's own process) is killed. A second
    run at the same time is refused."""
    failures = tap.Failures()
    begin = UNTRACED + ("Before = processes(), Self = self(), "
                        "Caller = spawn(fun() -> Self ! {failed, catch allogram:run(fun() -> Self ! runs, Endless() end, #{output => \"%s\"})} end), "
                        "receive runs -> timer:sleep(100) end, false = Untraced(), ")
    output = os.path.join(erlang.folder, "left.allogram")
    printed = erlang.evaluate(begin % output + "exit(Caller, kill), Wait(Untraced), Wait(fun() -> processes() -- Before =:= [] end), "
                              "{_, T} = allogram:run(hand_counted, cons, [9]), io:format(\"~w ~w\", [Of(T), Untraced()])")
    failures.expect("the caller is killed", printed, "{10,18} true")
    calls, words = rows_of(erlang.tools, output).get("hand_counted:cons/1", (0, 0))
    failures.require("the trace of a run whose caller is killed is whole: %d calls, %d words" % (calls, words), calls > 0 and abs(words - 1.8 * calls) < 20)
    printed = erlang.evaluate(begin % output + "exit(whereis(allogram_run), kill), Wait(Untraced), "
                              "Wait(fun() -> processes() -- Before =:= [] end), "
                              "receive {failed, {'EXIT', {{allogram, Why}, _}}} -> ok end, "
                              "{_, T} = allogram:run(hand_counted, cons, [9]), io:format(\"~s ~w\", [Why, Of(T)])")
    failures.expect("the keeper is killed", printed, "the process that kept the run ended: killed {10,18}")
    printed = erlang.evaluate(UNTRACED + "Before = processes(), Self = self(), [begin "
                              "spawn(fun() -> Self ! {failed, catch allogram:run(Endless)} end), "
                              "Wait(fun() -> whereis(allogram_run) =/= undefined end), timer:sleep(Ms), exit(whereis(allogram_run), kill), "
                              "receive {failed, Failed} -> {'EXIT', {{allogram, _}, _}} = Failed end, "
                              "Wait(Untraced), Wait(fun() -> processes() -- Before =:= [] end) end || Ms <- [0, 1, 3, 5, 8, 12, 20, 30, 40, 50]], "
                              "{_, T} = allogram:run(hand_counted, cons, [9]), io:format(\"~w\", [Of(T)])")
    failures.expect("the keeper is killed while it starts", printed, "{10,18}")
    printed = erlang.evaluate(begin % output + "{'EXIT', {{allogram, Why}, _}} = (catch allogram:run(fun() -> 1 end)), "
                              "exit(Caller, kill), Wait(Untraced), io:format(\"~s\", [Why])")
    failures.expect("message of a second run", printed, "this node is counted already")
    return failures


def others_are_left_alone(erlang):
    """With --adapters=none or --mode=sample no call is traced. If the user has set the environment variable ERL_AFLAGS, these flags of the
    emulator stay in effect."""
    failures = tap.Failures()
    command = ["erl", "-noshell", "-pa", erlang.folder, "-eval", "hand_counted:main(10), halt()."]
    for name, options in (("none", ["--adapters=none"]), ("sample", ["--mode=sample"])):
        outcome, trace = erlang.record(command, options=options, name=name)
        failures.expect(name, (outcome.status, outcome.stderr), (0, b""))
        failures.expect(name + " traces nothing", rows_of(erlang.tools, trace), {})
    outcome, trace = erlang.record(["erl", "-noshell", "-eval", "io:put_chars(os:getenv(\"THEIRS\", \"\")), hand_counted:main(10), halt()."],
                                   name="flags", env={"ERL_AFLAGS": "-pa %s -env THEIRS kept" % erlang.folder})
    failures.expect("flags of the user", (outcome.status, outcome.stdout), (0, b"kept"))
    failures.require("functions are counted although the user has set flags", "hand_counted:main/1" in rows_of(erlang.tools, trace))
    return failures


def escript_is_named(erlang):
    failures = tap.Failures()
    script = os.path.join(erlang.folder, "script")
    with open(script, "w", encoding="utf-8") as file:
        file.write("#!/usr/bin/env escript\n-mode(compile).\nmain([N]) -> io:format(\"~w\", [length(twice(list_to_integer(N)))]).\n"
                   "twice(0) -> [];\ntwice(N) -> [N, N | twice(N - 1)].\n")
    os.chmod(script, 0o755)
    outcome, trace = erlang.record([script, "50"], name="script")
    failures.expect("status and output", (outcome.status, outcome.stdout), (0, b"100"))
    found = [counts for name, counts in rows_of(erlang.tools, trace).items() if name.endswith(":twice/1")]
    failures.expect("function of the script", found, [(51, 200)])
    return failures


def elixir_is_named(erlang):
    failures = tap.Failures()
    program = os.path.join(erlang.folder, "program.exs")
    with open(program, "w", encoding="utf-8") as file:
        file.write("defmodule Hand.Counted do\n  def pair?(0), do: []\n  def pair?(n), do: [{n, n} | pair?(n - 1)]\nend\n"
                   "IO.write(length(Hand.Counted.pair?(70)))\n")
    outcome, trace = erlang.record(["elixir", program], name="elixir")
    failures.expect("status and output", (outcome.status, outcome.stdout), (0, b"70"))
    rows = rows_of(erlang.tools, trace)
    failures.expect("function of the Elixir program", rows.get("Hand.Counted.pair?/1"), (71, 350))
    return failures


MIX_FILES = {"mix.exs": """defmodule Shop.MixProject do
  use Mix.Project
  def project, do: [app: :shop, version: "1.0.0", releases: [shop: [include_executables_for: [:unix], reboot_system_after_config: true]]]
  def application, do: [mod: {Shop, []}]
end
""", "config/runtime.exs": "import Config\n", "lib/shop.ex": """defmodule Shop do
  use Application
  def start(_, _) do
    _ = made(1000)
    spawn(fn -> System.stop() end)
    Supervisor.start_link([], strategy: :one_for_one)
  end
  def made(0), do: []
  def made(n), do: [n | made(n - 1)]
end
"""}


def mix_release_is_counted(erlang):
    """The start script of a release that Elixir's mix made starts the node. The node reads its configuration, and then boots a second time.
    What the application does while it starts is counted."""
    failures = tap.Failures()
    folder = os.path.join(erlang.folder, "mix")
    for name, text in MIX_FILES.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    environment = {"HOME": folder, "MIX_ENV": "prod", "RELEASE_DISTRIBUTION": "none"}
    made = recorded.run(["mix", "release", "--quiet"], cwd=folder, env=environment)
    failures.expect("status of mix release: %s" % made.stderr.decode(), made.status, 0)
    outcome, trace = erlang.record([os.path.join(folder, "_build/prod/rel/shop/bin/shop"), "start"], name="mix", env=environment)
    failures.expect("status", outcome.status, 0)
    failures.expect("calls, words of Shop.made/1", rows_of(erlang.tools, trace).get("Shop.made/1"), (1001, 2000))
    return failures


def why_not(tools):
    """Returns the reason why Erlang cannot be traced on this machine; "": it can."""
    return "no Erlang here (packages erlang-base, erlang-dev)" if not shutil.which("erlc") else \
        "the tracer was not built" if not os.path.exists(os.path.join(tools.build, "adapters/erlang/inside/allogram.beam")) else ""


def run_cases(tools, cases, of_elixir=(), **options):
    """Runs the (name, case) pairs of CASES with one object Erlang, which is made with OPTIONS. Skips the cases in OF_ELIXIR if Elixir is
    not installed. Returns the exit status."""
    results = tap.Plan(len(cases))
    why = why_not(tools)
    with recorded.Folder() as folder:
        erlang = None if why else Erlang(tools, folder, **options)
        for name, case in cases:
            reason = why or ("no elixir here" if case in of_elixir and not shutil.which("elixir") else "")
            if reason:
                results.skip(name, reason)
            else:
                results.run(name, lambda case=case: case(erlang))
    return results.status()


def main():
    tools = recorded.tools_of_arguments()
    cases = [("a program, with four schedulers", program_is_counted), ("changes", changes_are_counted), ("processes", processes_have_their_own),
             ("random programs", erlang_random.random_programs), ("time", times_are_right),
             ("selected functions", functions_are_selected), ("selected processes", processes_are_selected),
             ("wrong selections", wrong_choices_are_refused), ("the summary of a run", summary_names_the_node),
             ("releases", releases_are_counted_from_their_start),
             ("messages and arguments", stands_apart), ("allogram:run from Erlang", from_erlang),
             ("allogram:run and exceptions", run_takes_funs), ("the end of the caller of allogram:run", run_ends_with_its_caller),
             ("what is not traced", others_are_left_alone), ("escript", escript_is_named), ("elixir", elixir_is_named)]
    if os.environ.get("AG_TEST_SCALE") == "full":
        cases.append(("a release made by mix", mix_release_is_counted))
    return run_cases(tools, cases, [elixir_is_named, mix_release_is_counted])


if __name__ == "__main__":
    sys.exit(main())
