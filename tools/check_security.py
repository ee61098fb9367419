#!/usr/bin/env python3
"""check_security [ROOT]: each statement of SECURITY.md names a test that exists.

A statement is an item of "What is promised", or a row of a table whose last column is "test". An item ends with "Tests: " and the names of
tests; a row has them in its last cell. A name is `subject` or `subject: case`. The subject is a file below tests/ (its name with or without
"test_", "_tests" and "run_"), a check of tools/ (without "check_"), or the name of a test in a meson.build. A file below tests/ must also
occur in the meson.build of its folder, or of the folder above if its own has none. The case is a text in that file, written with blanks or
underscores."""

import os
import re
import sys

import source_tree

DOCUMENT = "SECURITY.md"
PROMISES = "## What is promised"


def statements(lines):
    """(line number, beginning, names of tests) of each statement."""
    section, columns, item = "", [], None
    for number, line in enumerate(lines + [""], 1):
        if item is not None and (line.startswith("- ") or not line.strip() or line.startswith("#")):
            text = " ".join(item[1])
            found = re.search(r"Tests: (.*)$", text)
            yield item[0], text[:60], re.findall(r"`([^`]*)`", found[1]) if found else []
            item = None
        if line.startswith("#"):
            section = line
        if section == PROMISES and line.startswith("- "):
            item = (number, [line])
        elif item is not None:
            item[1].append(line.strip())
        if not line.startswith("|"):
            columns = []
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not columns:
            columns = cells
        elif columns[-1] == "test" and not set(line) <= set("|- "):
            yield number, cells[0][:60], re.findall(r"`([^`]*)`", cells[-1]) if len(cells) == len(columns) else []


def subjects(root):
    """subject -> files that it may refer to."""
    found, known = {}, {}
    for path in source_tree.files(root, ["meson.build"], "tests"):
        known[os.path.dirname(path)] = "\n".join(source_tree.lines(root, path))
        for name in re.findall(r"\btest\('(\w+)'", known[os.path.dirname(path)]):
            found.setdefault(name, []).append(path)
    for path in source_tree.files(root, ["meson.build"], "adapters"): # their lists runtime_proofs name tests of tests/conformance
        known.setdefault("tests/conformance", "")
        known["tests/conformance"] += "\n".join(source_tree.lines(root, path))
    for path in source_tree.files(root, below="tests"):
        stem = os.path.splitext(os.path.basename(path))[0]
        subject = re.sub(r"^(test|run)_|_tests?$", "", stem)
        # a loop in meson.build may contain only the last word of the subject
        words = "|".join(re.escape(word) for word in (stem, subject, subject.rpartition("_")[2]))
        folder = os.path.dirname(path)
        built_by = known.get(folder, known.get(os.path.dirname(folder), ""))
        if any(re.search(r"\b(%s)\b" % words, text) for text in (built_by, known.get("tests/unit", ""))):
            found.setdefault(stem, []).append(path)
            found.setdefault(subject, []).append(path)
    for path in source_tree.files(root, [".py"], "tools"):
        if os.path.basename(path).startswith("check_"):
            found.setdefault(os.path.basename(path)[len("check_"):-3], []).append(path)
    return found


def fault(root, found, name):
    subject, _, case = name.partition(": ")
    if subject not in found:
        return "no test `%s`" % subject
    text = " ".join("\n".join(source_tree.lines(root, path)) for path in found[subject]).replace("_", " ")
    if case and case.replace("_", " ") not in text:
        return "no case `%s` in %s" % (case, ", ".join(found[subject]))
    return None


def main():
    root = source_tree.root_of(sys.argv)
    found = subjects(root)
    findings = []
    count = 0
    for number, what, names in statements(source_tree.lines(root, DOCUMENT)):
        count += 1
        if not names:
            findings.append("%s:%d: names no test: %s" % (DOCUMENT, number, what))
        findings += ["%s:%d: %s: %s" % (DOCUMENT, number, fault(root, found, name), what) for name in names if fault(root, found, name)]
    if count == 0:
        findings.append("%s:1: no statement with a test" % DOCUMENT)
    print("\n".join(findings) if findings else "%d statements, each with its test" % count)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
