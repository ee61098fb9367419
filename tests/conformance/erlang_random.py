"""Random Erlang programs whose calls and words are counted while they are generated. Used by erlang_counted.py and erlang_in_root.py.

A program is a module of some functions with one argument N. A function calls only functions that follow it, or itself. Its body consists
of statements: terms of known size (passed to keep/1, so that the compiler cannot leave them out), calls, messages that the process sends
to itself, and exceptions that are caught. The last statement may be a tail call of a later function with N, or a call of the function
itself with N - 1, as a tail call or as the tail of a list. Each term contains a number that occurs only once in the program, so that the
compiler cannot use a term twice. Each term also contains N (a list contains N at its end), so that no part of the term is a literal."""

import collections
import os
import random

import tap

PROGRAMS = 300 if os.environ.get("AG_TEST_SCALE") == "full" else 12
ARGUMENT, CALLS_MOST = 4, 3000

RUN = """[begin
  {_, Table} = allogram:run(Module, f0, [%d]),
  Names = maps:from_list([{Node, F} || {Node, _, F, _, _, _} <- Table]),
  [io:format("~w ~w ~w ~w ~w~n", [Module, G, case maps:get(Parent, Names) of {Module, Caller, _} -> Caller; _ -> none end, Calls, Words])
   || {_, Parent, {M, G, _}, Calls, Words, _} <- Table, Calls + Words > 0, M =:= Module orelse G =:= setelement]
end || Module <- [%s]]"""


class Node:
    """A function on one path of calls, as allogram counts it."""

    def __init__(self, function, parent):
        self.function, self.parent, self.children = function, parent, {}

    def child(self, function):
        return self if function == self.function else self.children.setdefault(function, Node(function, self))


class Program:
    def __init__(self, seed, release):
        self.random, self.release, self.name, self.n_terms = random.Random(seed), release, "random%d" % seed, 0
        self.bodies = []  # for each function: its statements, the kind of its end, and the later function that it calls there (None: no later one)
        n = self.random.randrange(3, 9)
        self.bodies = [self.body(i, n) for i in range(n)]

    def term(self):
        """Returns (source, own words, words of erlang:setelement/3)."""
        self.n_terms += 1
        n, one = self.random.randrange(1, 7), 1000 + self.n_terms
        more = ", ".join(["N"] * n)
        return self.random.choice([
            ("{%d, %s}" % (one, more), n + 2, 0),
            ("[%d, %s]" % (one, more), 2 * (n + 1), 0),
            ("(N + 1) * %d.5" % one, 2, 0),
            ("#{key%d => N, two => N, three => N}" % one, 6, 0),
            ("fun() -> {N, %d} end" % one, 6 if self.release < 26 else 4 if self.release < 29 else 3, 0),
            ("<<%d:64, N:64>>" % one, 4, 0),
            ("setelement(1, keep({%d, %s}), N)" % (one, more), n + 2, n + 2),
        ])

    def body(self, i, n):
        statements = [self.statement(i, n) for _ in range(self.random.randrange(1, 6))]
        kind = self.random.choice(["end", "loop", "recursion"] + ["tail"] * (i + 1 < n))
        return statements, kind, self.random.randrange(i + 1, n) if kind == "tail" else None

    def statement(self, i, n):
        kind = self.random.choice(["term", "term", "term", "message", "thrown"] + ["call", "call"] * (i + 1 < n))
        if kind == "call":
            return kind, self.random.randrange(i + 1, n)
        return kind, self.term()

    def source(self):
        lines = ["-module(%s)." % self.name, "-export([f0/1, keep/1, raise/1])."]
        for i, (statements, kind, callee) in enumerate(self.bodies):
            texts = [self.text(*statement) for statement in statements]
            last = {"end": "ok", "loop": "f%d(N - 1)" % i, "recursion": "[N | f%d(N - 1)]" % i, "tail": "f%s(N)" % callee}[kind]
            lines += ["f%d(0) -> [];" % i] * (kind in ("loop", "recursion"))
            lines.append("f%d(N) -> %s." % (i, ", ".join(texts + [last])))
        return "\n".join(lines + ["keep(X) -> X.", "raise(X) -> throw(X).", ""])

    @staticmethod
    def text(kind, what):
        if kind == "call":
            return "_ = f%d(N)" % what
        if kind == "message":
            return "self() ! %s, receive _ -> ok end" % what[0]
        if kind == "thrown":
            return "(try raise(%s) catch throw:_ -> ok end)" % what[0]
        return "_ = keep(%s)" % what[0]

    def counts(self):
        """Returns {(function, caller): (calls, words)}, or None if there are too many calls."""
        sums, root = collections.defaultdict(lambda: [0, 0]), Node("none", None)

        def add(node, calls, words):
            key = node.function, node.parent.function
            sums[key][0] += calls
            sums[key][1] += words

        def call(parent, function):
            node = parent.child(function)
            add(node, 1, 0)
            return node

        def leaf(parent, function, words=0):
            add(call(parent, function), 0, words)

        def run(node, i, n):
            statements, kind, callee = self.bodies[i]
            if sum(calls for calls, _ in sums.values()) > CALLS_MOST:
                return
            if n == 0 and kind in ("loop", "recursion"):
                return
            for of, what in statements:
                if of == "call":
                    run(call(node, "f%d" % what), what, n)
                    continue
                text, words, copied = what
                add(node, 0, words)
                if copied:
                    leaf(node, "keep")
                    leaf(node, "setelement", copied)
                if of != "message":
                    leaf(node, "keep" if of == "term" else "raise")
            if kind == "recursion":
                run(call(node, "f%d" % i), i, n - 1)
                add(node, 0, 2)
            elif kind == "loop":
                run(call(node, "f%d" % i), i, n - 1)
            elif kind == "tail":
                run(call(node, "f%d" % callee), callee, n)

        run(call(root, "f0"), 0, ARGUMENT)
        total = sum(calls for calls, _ in sums.values())
        return {key: tuple(value) for key, value in sums.items()} if total <= CALLS_MOST else None


def programs(release, n):
    seed, found = 0, []
    while len(found) < n:
        program = Program(seed, release)
        if program.counts():
            found.append(program)
        seed += 1
    return found


def random_programs(erlang):
    """The calls and words of each function, by caller, must equal the counts of the generator."""
    failures, wanted = tap.Failures(), programs(erlang.release, PROGRAMS)
    for program in wanted:
        with open(os.path.join(erlang.folder, program.name + ".erl"), "w", encoding="utf-8") as file:
            file.write(program.source())
    erlang.compile_all([program.name + ".erl" for program in wanted])
    found = collections.defaultdict(lambda: collections.defaultdict(lambda: (0, 0)))
    for line in erlang.evaluate(RUN % (ARGUMENT, ", ".join(program.name for program in wanted))).splitlines():
        module, function, caller, *counts = line.split()
        calls, words = found[module][function, caller]
        found[module][function, caller] = calls + int(counts[0]), words + int(counts[1])
    for program in wanted:
        failures.expect(program.name, dict(found[program.name]), program.counts())
    print("# %d programs, %d calls, %d words" % (len(wanted), *(sum(row[i] for program in wanted for row in program.counts().values()) for i in (0, 1))))
    return failures
