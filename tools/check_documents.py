#!/usr/bin/env python3
"""check_documents [ROOT]: documents to which a page or a comment refers exist.

A relative link of a Markdown page must lead to a file, and its anchor to a heading of that file. If a page or a source file contains the name of
a document (`sampling.md`, `docs/explanation/sampling.md`, a picture or a log below docs/ or bench/results/), that document must exist.
docs/mkdocs.yml must list every page of docs/ except the single decisions, and no other page."""

import os
import re
import sys

import source_tree

LINK = re.compile(r"\]\(([^()\s]+)\)")
PAGE = re.compile(r"(?<![\w/.:*%@-])((?:[\w.-]+/)*[\w-]+\.md)\b(?!\()")
RESULT = re.compile(r"(?<![\w./-])((?:docs|bench/results)/[\w./-]+\.(?:log|png|svg|1))\b")
NAMING = [".md", ".1", ".c", ".h", ".def", ".S", ".py", ".sh", ".js", ".mjs", ".build", ".jl", ".erl", "Makefile"]


def anchors(text):
    """The anchors of a page's headings, as GitHub and similar sites make them."""
    for heading in re.findall(r"^#+ +(.*?)\s*$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M):
        yield re.sub(r"[^\w\- ]", "", re.sub(r"[`*]|\]\([^)]*\)", "", heading).lower()).replace(" ", "-")


def link_faults(root, path, number, line):
    for target in LINK.findall(line):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        place = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if not os.path.exists(os.path.join(root, place)):
            yield f"{path}:{number}: the link {target} leads to no file"
        elif anchor and anchor not in anchors("\n".join(source_tree.lines(root, place))):
            yield f"{path}:{number}: {place} has no heading for #{anchor}"


def findings(root):
    paths = source_tree.files(root)
    names = {os.path.basename(path) for path in paths if path.endswith(".md")}
    for path in paths:
        if not path.endswith(tuple(NAMING)) or path.startswith(("tools/check_", "tests/lint/")):
            continue
        for number, line in enumerate(source_tree.lines(root, path), 1):
            if path.endswith(".md"):
                yield from link_faults(root, path, number, line)
            for page in PAGE.findall(LINK.sub("", line)):
                nearby = os.path.join(os.path.dirname(path), page)
                if "/" not in page and page not in names or "/" in page and not any(
                        os.path.exists(os.path.join(root, place)) for place in (page, nearby)):
                    yield f"{path}:{number}: there is no document {page}"
            for result in RESULT.findall(line):
                if not os.path.exists(os.path.join(root, result)):
                    yield f"{path}:{number}: there is no {result}"


def site_faults(root):
    config = "docs/mkdocs.yml"
    if not os.path.exists(os.path.join(root, config)):
        return
    listed = set(re.findall(r"^ +- .*: (\S+\.md)$", "\n".join(source_tree.lines(root, config)), re.M))
    pages = {os.path.relpath(path, "docs") for path in source_tree.files(root, [".md"], "docs")}
    for page in sorted(listed - pages):
        yield f"{config}:1: the site has {page}, which is not there"
    for page in sorted(pages - listed):
        if "/adr/0" not in page:
            yield f"docs/{page}:1: the site of {config} leaves it out"


if __name__ == "__main__":
    tree = source_tree.root_of(sys.argv)
    source_tree.finish([*findings(tree), *site_faults(tree)])
