#!/usr/bin/env python3
"""include_graph [--dot] [ROOT]: prints which module includes which, if the includes form no cycle. (check_layers.py compares the includes
with the table of allowed includes.)

A module is a folder of src/, or all of adapters/. The text has a row per module, below the rows of the modules that it includes. A row has
the number of the module's files that include each other module. Then come the includes that `layers` in meson.build allows and that no file
uses. --dot prints the graph for graphviz, without edges that follow from other edges. Exit status 1: the includes, or the table, have a
cycle.
"""

import os
import re
import sys

import source_tree

SUFFIXES = [".c", ".h", ".def", ".S"]


def rows_of_meson(text):
    """The dictionary `layers`: module -> modules that it may include."""
    table = re.search(r"^layers = \{(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    if not table:
        return {}
    rows = re.findall(r"'([a-z_]+)'\s*:\s*\[(.*?)\]", table.group(1), re.DOTALL)
    return {module: re.findall(r"'([a-z_]+)'", below) for module, below in rows}


def modules_files(root):
    """(module, path) of each file; all adapters are one module."""
    for path in source_tree.files(root, SUFFIXES, "src"):
        yield path.split(os.sep)[1], path
    for path in source_tree.files(root, SUFFIXES, "adapters"):
        yield "adapters", path


def includes(root, path):
    """(line number, name) of each #include "name"."""
    for number, line in enumerate(source_tree.lines(root, path), 1):
        include = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if include:
            yield number, include.group(1)


def graph_of(root):
    """module -> {included module: number of files with such an include}."""
    files = list(modules_files(root))
    graph = {module: {} for module, _ in files}
    for module, path in files:
        below = {name.split("/")[0] for _, name in includes(root, path) if "/" in name}
        for name in below & set(graph) - {module}:
            graph[module][name] = graph[module].get(name, 0) + 1
    return graph


def cycle(rows):
    """Modules that include each other in a circle, [] if there are none."""
    done = set()

    def search(module, path):
        if module in path:
            return path[path.index(module) :] + [module]
        if module in done:
            return []
        for name in sorted(rows.get(module, ())):
            found = search(name, path + [module])
            if found:
                return found
        done.add(module)
        return []

    return next((found for found in (search(module, []) for module in sorted(rows)) if found), [])


def circles(graph, layers):
    """A finding for each cycle in the includes and in the table."""
    for what, rows in (("src:1: modules include each other", graph), ("meson.build:1: `layers` lets modules include each other", layers)):
        circle = cycle(rows)
        if circle:
            yield "%s: %s" % (what, " -> ".join(circle))


def levels(graph):
    """All modules, each after those that it includes. The graph must have no cycle."""
    order = []
    while len(order) < len(graph):
        order += sorted(name for name in graph if name not in order and set(graph[name]) <= set(order))
    return order


def reachable(graph, module):
    return {name for below in graph[module] for name in {below} | reachable(graph, below)}


def print_text(graph, layers):
    order = levels(graph)
    width = max(map(len, order))
    for module in order:
        below = ["%s %d" % (name, graph[module][name]) for name in order if name in graph[module]]
        print("%-*s  %s" % (width, module, ", ".join(below) if below else "-"))
    for module in order:
        unused = [name for name in layers.get(module, []) if name not in graph[module]]
        if unused:
            print("allowed and not used: %s: %s" % (module, ", ".join(unused)))


def print_dot(graph):
    print("digraph includes {\n    rankdir = BT;\n    node [shape = box];")
    for module in levels(graph):
        indirect = {name for below in graph[module] for name in reachable(graph, below)}
        for name in sorted(set(graph[module]) - indirect):
            print("    %s -> %s;" % (module, name))
    print("}")


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--dot"]
    root = source_tree.root_of(sys.argv[:1] + arguments)
    layers = rows_of_meson("\n".join(source_tree.lines(root, "meson.build")))
    graph = graph_of(root)
    findings = list(circles(graph, layers))
    if not findings and "--dot" in sys.argv:
        print_dot(graph)
    elif not findings:
        print_text(graph, layers)
    source_tree.finish(findings)


if __name__ == "__main__":
    main()
