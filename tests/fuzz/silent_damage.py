#!/usr/bin/env python3
"""A reader of a damaged trace must show the numbers of the undamaged trace, or report what is missing.

    silent_damage.py ALLOGRAM TRACE

For each chunk (a unit of the file) of a complete trace, except the index, one byte of the chunk is overwritten. Then check, dump, views, a diff, an
export and a page read the damaged trace."""

import json
import os
import re
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
        kind = data[at + 4]
        yield at, kind, struct.unpack_from("<I", data, at + 28)[0] if kind == 1 else 0, stored
        at += 64 + stored


def run(allogram, words, trace):
    return subprocess.run([allogram] + words + [trace], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


def numbers(text):
    report = json.loads(text)
    damage = report.pop("damage", None)
    report.pop("trace")
    return report, damage


def facts_of(page):
    """The facts about the trace that a page contains besides the tables."""
    return json.loads(re.search(r'<script[^>]* id="b0-facts">([^<]*)</script>', page).group(1))


def main():
    allogram, whole = sys.argv[1:3]
    with open(whole, "rb") as file:
        data = file.read()
    places = [place for place in chunks(data) if place[1] != 3]
    plan = tap.Plan(len(places))
    with tempfile.TemporaryDirectory(prefix="silent_damage.") as folder:
        path = os.path.join(folder, "damaged.allogram")

        page = os.path.join(folder, "page.html")

        def damage(at, kind, events, stored):
            failures = tap.Failures()
            changed = bytearray(data)
            changed[at + 64 + stored // 2] ^= 0x55
            with open(path, "wb") as file:
                file.write(changed)
            for view in VIEWS:
                words = ["report", "--json", "--view=" + view]
                intact, _ = numbers(run(allogram, words, whole).stdout)
                got, said = numbers(run(allogram, words, path).stdout)
                failures.fail_unless("%s: the numbers differ, and no damage is reported" % view, said or got == intact)
                if said and kind == 1:
                    failures.fail_unless("%s: the number of missing chunks is wrong or missing: %r" % (view, said), said["missing_chunks"] == 1)
                text = run(allogram, ["report", "--view=" + view], path).stdout
                failures.expect("%s: the text begins with the damage" % view, text.startswith("damaged"), bool(said))
            counts = {"missing_chunks": 1, "missing_events": events, "missing_bytes": stored}
            checked = run(allogram, ["check", "--json"], path)
            found = json.loads(checked.stdout)["damage"] or {}
            failures.fail_unless("check --json: the damage is not reported correctly: %r" % found,
                                 all(found.get(key) == value for key, value in counts.items()))
            missing = "up to %d events" % events
            failures.fail_unless("check: the text does not say how many events are missing", missing in run(allogram, ["check"], path).stdout)
            failures.fail_unless("dump does not say how many events are missing", missing in run(allogram, ["dump"], path).stderr)
            if kind == 1:
                compared = run(allogram, ["diff", "--from=1ns", "--older", whole], path).stdout  # reads all events
                failures.fail_unless("diff: the text does not say how many events are missing", "up to %d events, of 1 damaged chunk" % events in compared)
                run(allogram, ["view", "-o", page], path)
                with open(page, encoding="utf-8") as file:
                    said = facts_of(file.read()).get("damage") or {}
                os.unlink(page)
                failures.fail_unless("the page does not say how much is missing: %r" % said, all(said.get(key) == value for key, value in counts.items()))
            exported = run(allogram, ["export", "--to=heaptrack"], path)
            failures.fail_unless("export does not report the damage", "damaged" in exported.stderr)
            return failures

        for place in places:
            plan.run("chunk at %d of kind %d" % place[:2], lambda place=place: damage(*place))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
