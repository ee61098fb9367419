#!/usr/bin/env python3
"""count_tests BUILD: prints the number of passed, failed and skipped tests in its last line.

It reads the results of `meson test` in BUILD and in other builds directly below it, and those of run_fuzzers.sh. A test program that prints
TAP counts once per case; any other test program, and a fuzz target, count once. A test program that failed although none of its cases did
(it was killed, say) counts as one failure. Each test program with skipped cases has one line, with the reasons of the skips. Then
each failed case is named, with the first reasons that the test program printed.
"""

import glob
import itertools
import json
import os
import re
import sys
import xml.etree.ElementTree


MOST_REASONS = 5  # lines per failed case


def reasons_of_failure(output, case):
    """The comment lines of a TAP output that follow the line "not ok NUMBER NAME"; CASE is "NUMBER NAME"."""
    lines = iter(output.splitlines())
    for line in lines:
        if line == f"not ok {case}":
            break
    return list(itertools.islice(itertools.takewhile(lambda line: line.startswith("#"), lines), MOST_REASONS))


def reason_of_skip(output, case):
    """The text after "# SKIP" in the line of the case."""
    found = re.search(r"^ok %s *# skip *(.*)$" % re.escape(case), output, re.IGNORECASE | re.MULTILINE)
    return found.group(1) if found else "no reason given"


def cases_of(path):
    """(test program, case, outcome, reasons) of each case in a JUnit file of meson."""
    for suite in xml.etree.ElementTree.parse(path).getroot().iter("testsuite"):
        output = suite.findtext("system-out") or ""
        for case in suite.iter("testcase"):
            children = {child.tag for child in case}
            outcome = "failed" if children & {"failure", "error"} else "skipped" if "skipped" in children else "passed"
            why = []
            if outcome == "failed":
                why = reasons_of_failure(output, case.get("name"))
            elif outcome == "skipped":
                why = [reason_of_skip(output, case.get("name"))]
            yield suite.get("name"), case.get("name"), outcome, why


def failed_programs(path):
    """(test program, "the whole program", "failed", reasons) of each failed test program that has no failed case in the JUnit file, because the
    program ended before it printed its first case, or after cases that passed. PATH: the testlog.json of meson, with a line per program."""
    with open(path, encoding="utf-8") as file:
        for result in map(json.loads, file):
            output = result.get("stdout", "")
            has_failed = result["result"] not in ("OK", "SKIP", "EXPECTEDFAIL")
            has_case = {word: re.search(f"^{word} ", output, re.MULTILINE) for word in ("ok", "not ok")}
            if has_failed and not has_case["not ok"] and (has_case["ok"] or result["result"] in ("TIMEOUT", "INTERRUPT")):
                last_lines = (output + result.get("stderr", "")).splitlines()[-MOST_REASONS:]
                yield result["name"], "the whole program", "failed", [f"{result['result']}, exit status {result['returncode']}", *last_lines]


def fuzz_targets(folder):
    """(the word "fuzz", target, outcome, reasons) of each line of run_fuzzers.sh."""
    with open(os.path.join(folder, "results"), encoding="utf-8") as results:
        for line in results:
            outcome, name = line.split()
            why = ["no clang here"]
            if outcome == "failed":
                with open(os.path.join(folder, name + ".log"), encoding="utf-8", errors="replace") as log:
                    why = [text.rstrip() for text in log if re.search("ERROR|SUMMARY|ALARM|Test unit written", text)][:MOST_REASONS]
            yield "fuzz", name, outcome, why


def outcomes(build):
    """(test program, case, outcome, reasons) of everything that ran."""
    for folder in ["", "*/"]:
        for path in sorted(glob.glob(os.path.join(build, folder + "meson-logs/testlog*.junit.xml"))):
            yield from cases_of(path)
            yield from failed_programs(path.replace(".junit.xml", ".json"))
    if os.path.exists(os.path.join(build, "fuzz/results")):
        yield from fuzz_targets(os.path.join(build, "fuzz"))


def main():
    count = {"passed": 0, "failed": 0, "skipped": 0}
    skips, failures = {}, []  # skips: {test program: {reason: number of cases}}
    for program, case, outcome, why in outcomes(sys.argv[1]):
        count[outcome] += 1
        if outcome == "skipped":
            of_program = skips.setdefault(program, {})
            of_program[why[0]] = of_program.get(why[0], 0) + 1
        elif outcome == "failed":
            failures.append("\n    ".join([f"failed: {program}: {case}", *why]))
    for program, numbers in skips.items():
        print(f"skipped: {program}: " + "; ".join(f"{n} x {reason}" for reason, n in numbers.items()))
    for failure in failures:
        print(failure)
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    sys.exit(1 if count["failed"] or not count["passed"] else 0)


main()
