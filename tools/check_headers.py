#!/usr/bin/env python3
"""check_headers ROOT BUILD: every header compiles alone, so each includes all headers that it uses.

Public headers (include/allogram) are compiled as C11, C17 and C++17, with every warning an error, so that any program can include
them. Internal headers are compiled as gnu11, with the include path that meson.build gives to their module.
"""

import os
import shutil
import subprocess
import sys

import source_tree

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]


def complaint(command, path, what):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return []
    first = next((line for line in result.stderr.split("\n") if "error" in line), result.stderr.strip())
    return [f"{path}:1: does not compile alone as {what}: {first}"]


def public(root, path):
    full = os.path.join(root, path)
    search = ["-I", os.path.join(root, "include")]
    found = []
    for standard in ("c11", "c17"):
        found += complaint(["gcc", f"-std={standard}", *STRICT, *search, "-x", "c", full], path, standard)
    if shutil.which("g++"):
        found += complaint(["g++", "-std=c++17", *STRICT, *search, "-x", "c++", full], path, "c++17")
    return found


def internal(root, build, path):
    module = path.split(os.sep)[1]
    search = ["-I", os.path.join(build, "layers", module), "-I", os.path.join(root, "include")]
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    return complaint(["gcc", *flags, *search, "-x", "c", os.path.join(root, path)], path, "gnu11")


def main():
    root = source_tree.root_of(sys.argv)
    build = os.path.realpath(sys.argv[2])
    findings = []
    for path in source_tree.files(root, [".h"], "include"):
        findings += public(root, path)
    for path in source_tree.files(root, [".h"], "src"):
        findings += internal(root, build, path)
    source_tree.finish(findings)


main()
