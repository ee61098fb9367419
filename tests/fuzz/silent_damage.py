#!/usr/bin/env python3
"""A reader of a damaged trace gives the numbers of the whole one, or says what is missing.

    silent_damage.py ALLOGRAM TRACE

A byte is overwritten inside of each chunk of a sealed trace in turn, and views, an export and a page's facts read it."""

import json
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../conformance"))
import tap  # noqa: E402

VIEWS = ["summary", "lifetimes", "blocks", "sites", "timeline", "threads"]


def chunks(data):
    at = struct.unpack_from("<H", data, 10)[0]
    while data[at:at + 4] == b"AGCK":
        stored = struct.unpack_from("<I", data, at + 44)[0]
        yield at, data[at + 4], stored
        at += 64 + stored


def run(allogram, words, trace):
    return subprocess.run([allogram] + words + [trace], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


def numbers(text):
    report = json.loads(text)
    damage = report.pop("damage", None)
    report.pop("trace")
    return report, damage


def main():
    allogram, whole = sys.argv[1:3]
    with open(whole, "rb") as file:
        data = file.read()
    places = [(at, kind, stored) for at, kind, stored in chunks(data) if kind != 3]
    plan = tap.Plan(len(places))
    with tempfile.TemporaryDirectory(prefix="silent_damage.") as folder:
        path = os.path.join(folder, "damaged.allogram")

        def damage(at, kind, stored):
            failures = tap.Failures()
            changed = bytearray(data)
            changed[at + 64 + stored // 2] ^= 0x55
            with open(path, "wb") as file:
                file.write(changed)
            for view in VIEWS:
                words = ["report", "--json", "--view=" + view]
                intact, _ = numbers(run(allogram, words, whole).stdout)
                got, said = numbers(run(allogram, words, path).stdout)
                failures.require("%s: other numbers, and nothing is said to be missing" % view, said or got == intact)
                if said and kind == 1:
                    failures.require("%s: how much is missing is not said: %r" % (view, said), said["missing_chunks"] == 1)
                text = run(allogram, ["report", "--view=" + view], path).stdout
                failures.expect("%s: the text begins with the damage" % view, text.startswith("damaged"), bool(said))
            exported = run(allogram, ["export", "--to=heaptrack"], path)
            failures.require("export says nothing", "damaged" in exported.stderr)
            return failures

        for at, kind, stored in places:
            plan.run("chunk at %d of kind %d" % (at, kind), lambda place=(at, kind, stored): damage(*place))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
