"""source_tree: lists and reads the project's own files, for the checks in this folder.

A check takes the root of a tree (default: the tree that contains the check), prints one line per finding as `file:line: what`, and
exits with 1 if there is a finding. So tests/lint can run each check on a small tree that the check must refuse.
"""

import os
import sys

SKIPPED_FOLDERS = {".git", "node_modules", "__pycache__", "corpus"}


def root_of(arguments):
    return os.path.realpath(arguments[1] if len(arguments) > 1 else os.path.join(os.path.dirname(__file__), ".."))


def files(root, suffixes=None, below=""):
    """Relative paths of all files below the folder `below`, sorted, without SKIPPED_FOLDERS and build folders."""
    found = []
    for folder, folders, names in os.walk(os.path.join(root, below)):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith("build")]
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), root)
            if os.path.isfile(os.path.join(root, path)) and (suffixes is None or name.endswith(tuple(suffixes))):
                found.append(path)
    return sorted(found)


def lines(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read().split("\n")


def without_comments(text):
    """C text in which comments and the contents of literals are replaced by blanks; line breaks remain."""
    result = []
    state = "code"
    i = 0
    while i < len(text):
        two = text[i : i + 2]
        char = text[i]
        if state == "code":
            if two in ("/*", "//"):
                state = two
                result.append("  ")
                i += 2
                continue
            if char in "\"'":
                state = char
            result.append(char)
        elif state == "/*":
            if two == "*/":
                state = "code"
                result.append("  ")
                i += 2
                continue
            result.append(char if char == "\n" else " ")
        elif state == "//":
            if char == "\n":
                state = "code"
            result.append(char if char == "\n" else " ")
        else:
            if char == "\\":
                result.append("  ")
                i += 2
                continue
            if char == state or char == "\n":
                state = "code"
                result.append(char)
            else:
                result.append(" ")
        i += 1
    return "".join(result)


def finish(findings):
    for finding in findings:
        print(finding)
    sys.exit(1 if findings else 0)
