#!/usr/bin/env python3
"""count_tests BUILD: prints the number of passed, failed and skipped tests in one line.

It reads the results of `meson test` in BUILD and in the sanitizer builds below it, and those of run_fuzzers.sh. A test program that prints
TAP counts once per case; any other test program, and a fuzz target, count once. Failed and skipped tests are named, with the reasons that the
test program printed for the first failures.
"""

import glob
import itertools
import os
import sys
import xml.etree.ElementTree


MOST_REASONS = 5  # lines per failed case


def reasons(output, case):
    """The comment lines of a TAP output that follow the line "not ok NUMBER NAME"; CASE is "NUMBER NAME"."""
    lines = iter(output.splitlines())
    for line in lines:
        if line == f"not ok {case}":
            break
    return list(itertools.islice(itertools.takewhile(lambda line: line.startswith("#"), lines), MOST_REASONS))


def cases_of(path):
    """(name, outcome, reasons) of each case in a JUnit file of meson."""
    for suite in xml.etree.ElementTree.parse(path).getroot().iter("testsuite"):
        output = suite.findtext("system-out") or ""
        for case in suite.iter("testcase"):
            children = {child.tag for child in case}
            outcome = "failed" if children & {"failure", "error"} else "skipped" if "skipped" in children else "passed"
            why = reasons(output, case.get("name")) if outcome == "failed" else []
            yield f"{suite.get('name')}: {case.get('name')}", outcome, why


def outcomes(build):
    """(name, outcome, reasons) of everything that ran."""
    for folder in ["", "*/"]:
        for path in sorted(glob.glob(os.path.join(build, folder + "meson-logs/testlog*.junit.xml"))):
            yield from cases_of(path)
    fuzzed = os.path.join(build, "fuzz/results")
    if os.path.exists(fuzzed):
        with open(fuzzed, encoding="utf-8") as file:
            for line in file:
                outcome, name = line.split(None, 1)
                yield name.strip(), outcome, []


def main():
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for name, outcome, why in outcomes(sys.argv[1]):
        count[outcome] += 1
        if outcome != "passed":
            print("\n    ".join([f"{outcome}: {name}", *why]))
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    sys.exit(1 if count["failed"] or not count["passed"] else 0)


main()
