"""Reads the expected counts from the comment at the top of each program of tests/programs: lines ` * @key expression`.

`@process NAME` begins the counts of the next process (in order of pid, then of exec). The word `runtime` in an expression stands for an
unknown number of allocations of the C runtime. Then the true count is that of the judge (counting_preload.c), which must be at least the
count in the comment. The test case sets other words, e.g. `handler`. Keys that are not counts: @exit STATUS; @traces N: number of traces;
@varies KEY...: counts that differ between runs; @counts_itself KEY...: counts that the program writes to a file; @site FUNCTION BLOCKS BYTES:
blocks that the function allocates; @pair BLOCKS BYTES: blocks that one thread allocates and another thread frees; @within N BLOCKS: blocks
that are freed after at most N other allocations; @mapped_bytes N: bytes that the program has mapped itself at the end."""

import re

COUNTS = ("allocated_blocks", "allocated_bytes", "freed_blocks", "freed_bytes", "in_use_blocks", "in_use_bytes", "peak_bytes",
          "peak_blocks", "temporary_blocks", "inherited_frees", "ghost_frees", "threads")


class Process:
    def __init__(self, name):
        self.name = name
        self.counts = {}  # key -> expression
        self.varies = set()
        self.counts_itself = set()
        self.sites, self.pairs, self.within = [], [], []
        self.mapped_bytes = None


def evaluate(expression, **names):
    """Returns (value, whether the expression contains `runtime`); only arithmetic is allowed."""
    if not re.fullmatch(r"[\w\s+\-*/()<]*", expression):
        raise ValueError(expression)
    has_runtime = re.search(r"\bruntime\b", expression) is not None
    return int(eval(expression.replace("/", "//"), {"__builtins__": {}}, dict(names, runtime=0))), has_runtime


def read(path):
    """Returns the processes, the exit status, and the number of traces or None."""
    processes, status, traces = [Process("program")], 0, None
    for line in open(path, encoding="utf-8"):
        match = re.match(r" \* @(\w+)\s+(.*?)\s*$", line)
        if not match:
            continue
        key, rest = match.groups()
        current = processes[-1]
        if key == "process":
            if current.name == "program" and not current.counts:
                processes.pop()
            processes.append(Process(rest))
        elif key in COUNTS:
            current.counts[key] = rest
        elif key == "mapped_bytes":
            current.mapped_bytes = evaluate(rest)[0]
        elif key == "varies":
            current.varies.update(rest.split())
        elif key == "counts_itself":
            current.counts_itself.update(rest.split())
        elif key == "site":
            function, blocks, bytes_ = rest.split(None, 2)
            current.sites.append((function, evaluate(blocks)[0], evaluate(bytes_)[0]))
        elif key == "pair":
            blocks, bytes_ = rest.split(None, 1)
            current.pairs.append((evaluate(blocks)[0], evaluate(bytes_)[0]))
        elif key == "within":
            n, blocks = rest.split(None, 1)
            current.within.append((int(n), evaluate(blocks)[0]))
        elif key == "exit":
            status = int(rest)
        elif key == "traces":
            traces = int(rest)
        else:
            raise ValueError("%s: unknown key @%s" % (path, key))
    return processes, status, traces
