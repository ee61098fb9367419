#!/usr/bin/env python3
"""check_defs [ROOT]: conditional compilation (#if, #ifdef) is used only where it is allowed.

Allowed: include guards; src/base/compiler.h; src/unwind/arch/; adapters/*/compat.h; `#ifdef __cplusplus` in headers that C++
includes too (public ones, and tests); in a table (.def) with several kinds of rows, `#ifdef AG_ROW` around the rows of that
kind. Elsewhere choose by file at link time, or by a method table at start.
"""

import re
import sys

import source_tree

ALLOWED = re.compile(r"^(src/base/compiler\.h|src/unwind/arch/.*|adapters/[^/]+/compat\.h)$")


def guarded(text):
    """The line number of the #ifndef of an include guard, which encloses the whole file; None: the file has none."""
    code = [(n, line.split()) for n, line in enumerate(text, 1) if line.strip()]
    if len(code) < 3 or code[0][1][0] != "#ifndef" or code[1][1] != ["#define", *code[0][1][1:]]:
        return None
    depth = 0
    for n, line in enumerate(text, 1):
        depth += bool(re.match(r"\s*#\s*if", line)) - bool(re.match(r"\s*#\s*endif", line))
        if depth == 0 and n >= code[0][0]:
            return code[0][0] if n == code[-1][0] else None
    return None


def conditionals(lines):
    """(line number, text) of each #if, #ifdef, #ifndef, #elif outside an include guard."""
    text = source_tree.without_comments("\n".join(lines)).split("\n")
    guard = guarded(text)
    return [(n, line.strip()) for n, line in enumerate(text, 1) if re.match(r"\s*#\s*(if|elif)", line) and n != guard]


def chooses_rows(lines, number, directive):
    """Whether the conditional at this line of a table encloses rows of the kind that it tests, as in #ifdef AG_ROW."""
    row = re.fullmatch(r"#ifdef (AG_\w+)", directive)
    return bool(row) and lines[number].startswith(row.group(1) + "(")


def main():
    root = source_tree.root_of(sys.argv)
    findings = []
    for path in source_tree.files(root, [".c", ".h", ".def"]):
        if ALLOWED.match(path):
            continue
        lines = source_tree.lines(root, path)
        for number, directive in conditionals(lines):
            if path.startswith(("include/", "tests/")) and directive == "#ifdef __cplusplus":
                continue
            if path.endswith(".def") and chooses_rows(lines, number, directive):
                continue
            findings.append(f"{path}:{number}: {directive}: choose by file or by table, not by #if")
    source_tree.finish(findings)


main()
