#!/usr/bin/env python3
"""new_runtime SOURCE: follows the instructions in adapters/README.md. It copies the source tree, adds the folder and the row of a runtime
with the code that README.md shows, builds the copy with this runtime alone, and records a program of the runtime. Prints TAP."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../conformance"))
import tap  # noqa: E402

PROGRAM = """
#include <stdlib.h>
const char toy_release[] = "%s";
void *toy_alloc(size_t bytes) {
    return malloc(bytes);
}
int main(void) {
    return toy_alloc(64) == NULL;
}
"""
TARGETS = ["adapters/libc/liballogram-agent.so", "src/cli/allogram"]


def example(readme, heading):
    """Returns the indented block after the line that contains HEADING and ends with a colon."""
    lines = readme.split("\n")
    start = next(i for i, line in enumerate(lines) if heading in line and line.endswith(":"))
    block = []
    for line in lines[start + 1:]:
        if line and not line.startswith("    "):
            break
        block.append(line[4:])
    return "\n".join(block).strip("\n") + "\n"


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError("%s: status %d: %s" % (" ".join(command[:4]), done.returncode, (done.stdout + done.stderr)[-2000:]))
    return done.stdout


def not_needed(folder, names):
    return [name for name in names if name in (".git", "tests", "node_modules") or os.path.exists(os.path.join(folder, name, "build.ninja"))]


class Toy:
    def __init__(self, source, folder):
        self.folder, self.tree, self.build = folder, os.path.join(folder, "tree"), os.path.join(folder, "build")
        shutil.copytree(source, self.tree, ignore=not_needed, symlinks=True)
        self.allogram = os.path.join(self.build, TARGETS[1])

    def path(self, name):
        return os.path.join(self.tree, "adapters", name)

    def add(self):
        with open(self.path("README.md"), encoding="utf-8") as file:
            readme = file.read()
        with open(self.path("runtimes.def"), encoding="utf-8") as file:
            rows = file.read()
        others = re.findall(r"^AG_RUNTIME\((\w+)", rows, re.MULTILINE)
        with open(self.path("runtimes.def"), "a", encoding="utf-8") as file:
            file.write(example(readme, "A row in `adapters/runtimes.def`"))
        os.mkdir(self.path("toy"))
        for name in ("toy/meson.build", "toy/toy_adapter.c"):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(example(readme, "`adapters/%s`" % name))
        run(["meson", "setup", self.build, self.tree, "-Dtests=disabled", "-Dviewer=disabled", "-Doptimization=0", "-Ddebug=false",
             "-Dwerror=true", "-Dwithout=" + ",".join(others)])
        run(["ninja", "-C", self.build, *TARGETS])

    def program(self, release):
        source, program = (os.path.join(self.folder, "toy_%s%s" % (release, end)) for end in (".c", ""))
        with open(source, "w", encoding="utf-8") as file:
            file.write(PROGRAM % release)
        run(["cc", "-rdynamic", "-o", program, source])
        return program

    def runtimes(self, release, *options):
        """Records the program. Returns the rows of the report about its runtimes, without the C library."""
        trace = tempfile.mktemp(dir=self.folder)
        run([self.allogram, "run", "--quiet", "--output=" + trace, *options, "--", self.program(release)])
        rows = json.loads(run([self.allogram, "report", trace, "--json"]))["runtimes"]
        return [(row["name"], row["version"], row["hooked"], row["note"]) for row in rows if row["name"] != "libc"]


def is_built(toy):
    toy.add()
    return [] if os.path.exists(toy.allogram) else ["no allogram was built"]


def is_listed(toy):
    done = subprocess.run([toy.allogram, "doctor"], capture_output=True, text=True, check=False)
    adapters = [line for line in done.stdout.split("\n") if re.search(r"\badapters\b.*toy \(1\.0\)", line)]
    return [] if adapters else ["doctor does not list the runtime: " + done.stdout]


def acts(toy):
    failures = tap.Failures()
    failures.expect("runtimes of the program", toy.runtimes("1.0"), [("toy", "1.0", True, "")])
    failures.expect("runtimes with --adapters=toy", toy.runtimes("1.0", "--adapters=toy"), [("toy", "1.0", True, "")])
    failures.expect("runtimes with --adapters=none", toy.runtimes("1.0", "--adapters=none"), [])
    return failures


def refuses(toy):
    failures = tap.Failures()
    failures.expect("runtimes of a program of another release", toy.runtimes("2.0"), [("toy", "2.0", False, "only version 1.0 is supported")])
    return failures


def main():
    with tempfile.TemporaryDirectory() as folder:
        toy = Toy(sys.argv[1], folder)
        plan = tap.Plan(4)
        for case in (is_built, is_listed, acts, refuses):
            plan.run("a new runtime " + case.__name__.replace("_", " "), lambda: case(toy))
    return plan.status()


sys.exit(main())
