#!/usr/bin/env python3
"""suite_targets BUILD SUITE: prints the files that ninja has to build for the tests of a suite, one per line."""

import json
import os
import subprocess
import sys


def introspect(build, what):
    return json.loads(subprocess.run(["meson", "introspect", what, build], capture_output=True, check=True).stdout)


def main():
    build, suite = sys.argv[1:3]
    needed = {target for test in introspect(build, "--tests") if suite in {name.split(":")[-1] for name in test["suite"]}
              for target in test["depends"]}
    for target in introspect(build, "--targets"):
        if target["id"] in needed:
            for path in target["filename"]:
                print(os.path.relpath(path, os.path.realpath(build)))


main()
