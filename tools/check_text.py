#!/usr/bin/env python3
"""check_text [ROOT]: refuses text that no text file of the project may contain.

This text is: paths of the developer's machine; a TODO without the number of its issue; blanks at a line's end; a last line without a
newline; in C code also tabs, and lines over 100 columns, except those with a string or a link, which clang-format cannot break. Files in
folders named expected/ are not checked, since they contain output of programs.
"""

import os
import re
import sys

import source_tree

TEXT = [".c", ".h", ".def", ".py", ".sh", ".bats", ".md", ".build", ".txt", ".json"]
COLUMNS = 100
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
ISSUE = re.compile(r"\b(TODO|FIXME|XXX)\b\W{0,2}(issue )?#\d+")
HOME = re.compile(r"(?<![\w.])/(home|root|Users)/[a-z]")
STANDARD = "bin boot dev etc home lib lib64 media mnt opt proc root run sbin srv sys tmp usr var".split()


def place_of(root):
    """A pattern for paths of this machine: the first folder of ROOT, or all of ROOT if the first folder exists on every machine."""
    first = root.split(os.sep)[1]
    return re.compile(r"(?<![\w.])" + re.escape(root if first in STANDARD else os.sep + first) + r"/")


def findings_of(root, path, here):
    is_check = path.startswith(("tools/check_", "tests/lint/"))
    lines = source_tree.lines(root, path)
    if lines[-1] != "":
        yield f"{path}:{len(lines)}: the last line does not end with a line feed"
    for number, line in enumerate(lines, 1):
        if here.search(line) or (HOME.search(line) and not is_check):
            yield f"{path}:{number}: a path of one machine"
        if UNFINISHED.search(line) and not ISSUE.search(line) and not is_check:
            yield f"{path}:{number}: unfinished, and no issue number says where it will be finished"
        if line != line.rstrip():
            yield f"{path}:{number}: blanks at the end"
        if path.endswith((".c", ".h")) and "\t" in line:
            yield f"{path}:{number}: a tab"
        if path.endswith((".c", ".h")) and len(line) > COLUMNS and '"' not in line and "http" not in line:
            yield f"{path}:{number}: {len(line)} columns, over {COLUMNS}"


def main():
    root = source_tree.root_of(sys.argv)
    findings = []
    for path in source_tree.files(root, TEXT):
        if f"{os.sep}expected{os.sep}" not in path:
            findings += findings_of(root, path, place_of(root))
    source_tree.finish(findings)


main()
