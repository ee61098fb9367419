#!/usr/bin/env python3
"""check_layers [ROOT]: every module includes only the modules that the layer table allows.

The table is in ARCHITECTURE.md for readers and in meson.build for the compiler. The two must be equal and have no cycle. A module may
include only the modules of its row, and an adapter includes no other adapter, except the headers of OFFERED. (A forbidden
include of a module does not compile either, but this check names the rule.)
"""

import os
import sys

import include_graph
import source_tree


def rows_of_document(text):
    """Rows below the line `| module | may include |`; `-` means none."""
    rows = {}
    inside = False
    for line in text.split("\n"):
        cells = [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]
        if len(cells) >= 2 and cells[0] == "module" and cells[1] == "may include":
            inside = True
        elif inside and not line.startswith("|"):
            inside = False
        elif inside and not set(cells[0]) <= set("-: "):
            rows[cells[0]] = [name for name in cells[1].replace(",", " ").split() if name != "-"]
    return rows


def compare(meson, document):
    for module in sorted(set(meson) | set(document)):
        if module not in document:
            yield f"ARCHITECTURE.md: the layer table has no row for {module}"
        elif module not in meson:
            yield f"meson.build: `layers` has no row for {module}"
        elif sorted(meson[module]) != sorted(document[module]):
            yield f"ARCHITECTURE.md: {module} may include {document[module]}, but meson.build says {meson[module]}"


OFFERED = {"bdwgc/object_reader.h"} # headers of adapters that other adapters may include


def foreign_adapters(root):
    """An adapter includes no other adapter, except the headers of OFFERED."""
    for path in source_tree.files(root, include_graph.SUFFIXES, "adapters"):
        own = path.split(os.sep)[1]
        for number, name in include_graph.includes(root, path):
            folder = name.split("/")[0]
            if "/" in name and folder not in (own, "..") and name not in OFFERED and os.path.isdir(os.path.join(root, "adapters", folder)):
                yield f"{path}:{number}: includes another adapter ({name})"


def foreign_includes(root, rows):
    for module, path in include_graph.modules_files(root):
        if module not in rows:
            yield f"{path}:1: the folder {module} has no row in the layer table"
            continue
        for number, name in include_graph.includes(root, path):
            above = name.split("/")[0]
            if name.startswith("../") or "/../" in name:
                yield f"{path}:{number}: includes {name} by a way out of its folder"
            elif "/" in name and above in rows and above != module and above not in rows[module]:
                yield f"{path}:{number}: {module} may not include {above} ({name})"


def main():
    root = source_tree.root_of(sys.argv)
    texts = ["\n".join(source_tree.lines(root, name)) for name in ("meson.build", "ARCHITECTURE.md")]
    meson, document = include_graph.rows_of_meson(texts[0]), rows_of_document(texts[1])
    findings = [] if meson else ["meson.build: no dictionary `layers`"]
    findings += compare(meson, document)
    findings += foreign_includes(root, meson)
    findings += foreign_adapters(root)
    findings += include_graph.circles(include_graph.graph_of(root), meson)
    source_tree.finish(findings)


main()
