#!/usr/bin/env python3
"""suite_targets BUILD SUITE [--no-suite OTHER]...: prints the files that ninja has to build for the tests of a suite that are in no suite OTHER,
one per line."""

import argparse
import json
import os
import subprocess


def introspect(build, what):
    return json.loads(subprocess.run(["meson", "introspect", what, build], capture_output=True, check=True).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("suite")
    parser.add_argument("--no-suite", action="append", default=[])
    options = parser.parse_args()
    needed = set()
    for test in introspect(options.build, "--tests"):
        suites = {name.split(":")[-1] for name in test["suite"]}
        if options.suite in suites and not suites.intersection(options.no_suite):
            needed.update(test["depends"])
    for target in introspect(options.build, "--targets"):
        if target["id"] in needed:
            for path in target["filename"]:
                print(os.path.relpath(path, os.path.realpath(options.build)))


main()
