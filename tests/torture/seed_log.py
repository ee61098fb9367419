"""The seeds of tests that run random programs in slices (programs with consecutive seeds), and their logs: each slice adds a line with
"seeds=FIRST-LAST", so that the next run continues after the last one."""

import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


def seeds_in(text):
    """The seeds of "1-20,25"."""
    seeds = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def last_in_log(path):
    last = 0
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                match = re.search(r" seeds=\d+-(\d+) ", line)
                last = max(last, int(match[1]) if match else 0)
    return last


def commit():
    """The commit of this repository, for the log."""
    return subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                          check=False).stdout.strip() or "unknown"
