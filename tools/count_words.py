#!/usr/bin/env python3
"""count_words.py [REVISION]: counts, in this tree or in that of a revision, the words that the project has replaced by other words
(docs/explanation/adr/0012-words.md lists them).

It is a measurement and not a check: most of these words also have an ordinary English sense, and only a reader can distinguish the two."""

import re
import subprocess
import sys

WORDS = ["tell", "tells", "telling", "told", "wish", "wishes", "spot", "spots", "books", "hush", "hushed", "speak", "hears", "at hand", "of before",
         "nobody", "somebody", "anybody", "whoever", "beside", "stands in"]
KINDS = [("code", r"\.(c|h|def|S|ts|js|py|erl|build)$"), ("documents", r"\.(md|1|7|txt)$")]
# files that may use the old words: old logs, the list of the words itself, and an interface that keeps its names
LEFT_OUT = re.compile(r"^docs/explanation/adr/|^bench/results/|^CHANGELOG\.md$|^tools/count_words\.py$|^include/")


def files(revision):
    listing = ["git", "ls-tree", "-r", "--name-only", revision] if revision else ["git", "ls-files"]
    return subprocess.run(listing, capture_output=True, text=True, check=True).stdout.splitlines()


def text_of(revision, path):
    if revision:
        return subprocess.run(["git", "show", "%s:%s" % (revision, path)], capture_output=True, check=True).stdout.decode(errors="replace")
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def main():
    revision = sys.argv[1] if len(sys.argv) > 1 else None
    if revision and revision.startswith("-"):
        print(__doc__)
        return 0 if revision in ("-h", "--help") else 2
    counts = {}
    for path in files(revision):
        kind = next((name for name, pattern in KINDS if re.search(pattern, path)), None)
        if kind is None or LEFT_OUT.search(path):
            continue
        words = re.sub(r"[\s_*/#]+", " ", text_of(revision, path))  # so that the words in an identifier count separately
        for word in WORDS:
            counts[word, kind] = counts.get((word, kind), 0) + len(re.findall(r"(?i)(?<![a-z])%s(?![a-z])" % word, words))
    print("%-12s %8s %10s" % ("word", *(name for name, _ in KINDS)))
    for word in WORDS:
        print("%-12s %8d %10d" % (word, *(counts.get((word, name), 0) for name, _ in KINDS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
