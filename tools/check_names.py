#!/usr/bin/env python3
"""check_names [ROOT]: names of files.

A file's name is its subject. In src, include, adapters and tools it is unique, except the names of REPEATABLE and files in arch folders.
Assembly is in arch folders only. No typedef hides a pointer.
"""

import os
import re
import sys

import source_tree

NO_SUBJECT = {"util", "utils", "misc", "common", "helper", "helpers", "shared"}
REPEATABLE = {"meson.build", "README.md", "Makefile", "compat.h", "layout.def"}


def file_names(root):
    first = {}
    for path in source_tree.files(root):
        name = os.path.basename(path)
        stem = name.split(".")[0]
        if stem.lower() in NO_SUBJECT:
            yield f"{path}:1: {stem} names no subject: name the file after its subject"
        is_ours = path.split(os.sep)[0] in ("src", "include", "adapters", "tools")
        # Arch folders of different CPUs have files of the same names.
        if not is_ours or name in REPEATABLE or f"{os.sep}arch{os.sep}" in path:
            continue
        if name in first:
            yield f"{path}:1: {first[name]} has this file name already"
        first.setdefault(name, path)


def assembly_places(root):
    """Assembly files are in the arch folder of their module, so that a port to another CPU finds all of them."""
    for path in source_tree.files(root, [".S"]):
        is_data = ".incbin" in "\n".join(source_tree.lines(root, path))
        if path.split(os.sep)[0] in ("src", "adapters") and f"{os.sep}arch{os.sep}" not in path and not is_data:
            yield f"{path}:1: assembly outside of an arch folder"


def pointer_types(root):
    for path in source_tree.files(root, [".c", ".h"]):
        text = source_tree.without_comments("\n".join(source_tree.lines(root, path)))
        for match in re.finditer(r"\btypedef\b[^;{(]*\*\s*(\w+)\s*;", text):
            yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match.group(1)} is a pointer behind a typedef"


def main():
    root = source_tree.root_of(sys.argv)
    source_tree.finish([*file_names(root), *assembly_places(root), *pointer_types(root)])


main()
