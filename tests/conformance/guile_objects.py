#!/usr/bin/env python3
"""Guile 3.0, a runtime that uses the Boehm collector: every block that the collector hands out is recorded. Guile requests lists of small
blocks, from which it allocates without a call of the collector. In an exact recording Guile gets lists of one block. In a sampled
recording Guile gets whole lists, and the note of the runtime must say how many blocks were handed out in lists. tests/roots runs the same
test with a newer release of the collector."""

import sys

import place
import recorded
import tap

SCRIPT = recorded.source_of("guile_objects.scm")
N = 3000
VECTOR_BYTES = (133 + 1) * 8  # elements and a header


def guile(where):
    failures = tap.Failures()
    command = ["guile", "--no-auto-compile", where.bring(SCRIPT), str(N)]
    env = {"GUILE_AUTO_COMPILE": "0", "HOME": where.path("")}
    plain = where.run(command, env=env)
    with recorded.Folder() as folder:
        outcome, trace = where.record(command, folder, env=env)
        failures.expect("status", (outcome.status, plain.status), (0, 0))
        words = outcome.stdout.decode().split()
        failures.expect("first words of the output", words[:2], ["kept", str(N)])
        summary = where.report(trace)
        row = next(row for row in summary["runtimes"] if row["name"] == "bdwgc")
        failures.require("coverage %s" % row["coverage"], row["hooked"] and 0.999 <= row["coverage"] <= 1)
        failures.expect("note", row["note"], "")
        failures.expect("lost events, ghost frees", (summary["lost_events"]["total"], summary["ghost_frees"]), (0, 0))
        failures.expect("collections, as Guile counts them", len(where.report(trace, "--view=gc")["collections"]), int(words[3]))
        sites = {row["function"]: row["own"] for row in where.report(trace, "--view=sites")["sites"]}
        made = sites["scm_make_bytevector"]
        failures.expect("allocated bytevectors", made["allocated_blocks"], N)
        failures.require("most bytevectors are freed: %d" % made["freed_blocks"], made["freed_blocks"] > 0.98 * N)
        blocks = [block for block in where.report(trace, "--view=blocks", "--limit=0")["blocks"]
                  if block["size"] == VECTOR_BYTES and block["stack"][0]["function"] == "scm_c_make_vector"]
        failures.expect("vectors, vectors in use", (len(blocks), sum(block["state"] == "open" for block in blocks)), (N, N))
        lists = sum(block["allocated_blocks"] for name, block in sites.items() if name.startswith("0x") or name.startswith("scm_"))
        failures.require("the blocks of pairs are recorded", lists > 3 * N)
        _, trace = where.record(command, folder, env=env, options=["--mode=sample"])
        row = next(row for row in where.report(trace)["runtimes"] if row["name"] == "bdwgc")
        failures.require("the note of a sample says how many blocks were handed out in lists: %s" % row["note"],
                         "blocks were given to the program in lists" in row["note"])
    return failures


def run_cases(plan, where):
    if not where.has("guile"):
        plan.skip("guile", "guile-3.0 is not installed")
        return
    plan.run("Guile", lambda: guile(where))


def main():
    tools = recorded.tools_of_arguments()
    plan = tap.Plan(1)
    with place.Place(tools) as where:
        run_cases(plan, where)
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
