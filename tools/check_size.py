#!/usr/bin/env python3
"""check_size [ROOT]: files and functions that a reader can hold in mind.

A file over 800 lines says in its opening comment, a function over 60 in the comment before it, `Long because` and why.
Nothing is over 1500 and 100.
"""

import re
import sys

import source_tree

FILE_SOFT, FILE_HARD = 800, 1500
FUNCTION_SOFT, FUNCTION_HARD = 60, 100
EXCUSE = "Long because"


def functions(lines):
    """(name, first line, last line), by the layout that clang-format gives: a head in column 0, a brace to close it."""
    head = None
    for number, line in enumerate(lines, 1):
        if re.match(r"[A-Za-z_]", line) and not line.startswith(("struct ", "enum ", "union ", "typedef ")):
            head = number
        elif re.match(r"(struct|enum|union) .*\(", line):
            head = number
        if line == "}" and head:
            names = re.findall(r"(\w+)\s*\(", " ".join(lines[head - 1 : head + 3]))
            if names:
                yield names[0], head, number
            head = None
        elif line.startswith("};"):
            head = None


def comment_before(lines, first):
    """The comment that ends just above a line, as one string."""
    last = first - 2
    start = last
    while start >= 0 and lines[start].strip() and not lines[start].startswith("}"):
        start -= 1
    return " ".join(lines[start + 1 : last + 1])


def main():
    root = source_tree.root_of(sys.argv)
    findings = []
    for path in source_tree.files(root, [".c", ".h", ".py", ".sh", ".bats"]):
        lines = source_tree.lines(root, path)
        n_lines = len(lines) - 1
        if n_lines > FILE_HARD:
            findings.append(f"{path}:1: {n_lines} lines, over {FILE_HARD}: split it")
        elif n_lines > FILE_SOFT and EXCUSE not in " ".join(lines[:40]):
            findings.append(f"{path}:1: {n_lines} lines, over {FILE_SOFT}: split it, or say at the top `{EXCUSE} ...`")
        if not path.endswith(".c"):
            continue
        for name, first, last in functions(lines):
            length = last - first + 1
            if length > FUNCTION_HARD:
                findings.append(f"{path}:{first}: {name} has {length} lines, over {FUNCTION_HARD}: split it")
            elif length > FUNCTION_SOFT and EXCUSE not in comment_before(lines, first):
                findings.append(
                    f"{path}:{first}: {name} has {length} lines, over {FUNCTION_SOFT}: split it, or say above it "
                    f"`{EXCUSE} ...`"
                )
    source_tree.finish(findings)


main()
