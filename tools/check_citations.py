#!/usr/bin/env python3
"""check_citations [ROOT]: each ag_ or allogram_ name in a comment of the C code occurs in some file outside of C comments.

These names are not checked: a name with capitals (ag_record_append_NAME) or with an underscore at its end, which stands for several names; a
name with "toy" in it, which belongs to an example; and a name in a line with a quotation mark."""

import re
import sys

import source_tree

C_FILES = [".c", ".h", ".def", ".S"]
OTHERS = [".py", ".build", ".map", ".txt", ".hpp", ".cc", ".cr", ".jl", ".ml", ".erl", ".sh"]
NAME = re.compile(r"\b(?:ag|allogram)_\w+")


def findings(root):
    known = set()
    for path in source_tree.files(root, C_FILES + OTHERS):
        text = "\n".join(source_tree.lines(root, path))
        known |= set(NAME.findall(source_tree.without_comments(text) if path.endswith(tuple(C_FILES)) else text))
    for path in source_tree.files(root, C_FILES):
        text = "\n".join(source_tree.lines(root, path))
        if not set(NAME.findall(text)) - known:
            continue
        code = source_tree.without_comments(text).split("\n")
        for number, (line, bare) in enumerate(zip(text.split("\n"), code), 1):
            for name in set(NAME.findall(line)) - set(NAME.findall(bare)) - known:
                if not re.search(r"[A-Z]|_$|toy", name) and '"' not in line:
                    yield f"{path}:{number}: there is no {name}"


if __name__ == "__main__":
    source_tree.finish(list(findings(source_tree.root_of(sys.argv))))
