#!/usr/bin/env python3
"""Programs and plugins without a sorted table of their functions (.eh_frame_hdr), which musl-gcc does not make by default. Each stack must
reach main. Files whose headers describe these tables wrongly must not disturb the program."""

import os
import shutil
import struct
import subprocess
import sys

import recorded
import tap

# Without frame pointers, only the rules of .eh_frame lead from these frames to their callers. The frames have different sizes.
FUNCTIONS = """
#include <stdlib.h>
#include <string.h>
#define CALLED __attribute__((noinline, noclone))
CALLED void *inner_%(tag)s(volatile int *n) { char space[40]; memset(space, *n, sizeof space); n += space[3] == 99;
    void *volatile block = malloc(%(bytes)d); return *n ? block : NULL; }
CALLED void *middle_%(tag)s(volatile int *n) { char space[200]; memset(space, *n, sizeof space); n += space[7] == 99;
    void *block = inner_%(tag)s(n); return *n ? block : NULL; }
CALLED void *outer_%(tag)s(volatile int *n) { void *block = middle_%(tag)s(n); return *n ? block : NULL; }
"""
ALONE = FUNCTIONS % {"tag": "own", "bytes": 1001} + """
int main(void) { volatile int n = 1; for (int i = 0; i < 10; i++) outer_own(&n); return 0; }
"""
# The plugins are loaded at the same address in turns, so the tables of an unloaded plugin must not be used for the next one.
HOST = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    volatile int n = 1;
    for (int round = 0; round < 20; round++)
        for (int i = 1; i + 1 < argc; i += 2) {
            void *plugin = dlopen(argv[i], RTLD_NOW);
            void *(*outer)(volatile int *) = plugin ? (void *(*)(volatile int *))dlsym(plugin, argv[i + 1]) : NULL;
            if (!outer) return 2;
            outer(&n);
            dlclose(plugin);
        }
    puts("done");
    return 0;
}
"""
OPTIONS = ["-O2", "-fomit-frame-pointer", "-fasynchronous-unwind-tables"]
UNSORTED = [*OPTIONS, "-Wl,--no-eh-frame-hdr"]


def build(source, path, *options, compiler="gcc"):
    subprocess.run([compiler, "-x", "c", "-", "-x", "none", "-o", path, *options], input=source.encode(), check=True, timeout=60)


def has_header(path):
    return b"GNU_EH_FRAME" in subprocess.run(["readelf", "-lW", path], capture_output=True, check=True).stdout


def stacks(tools, trace, bytes_of_block):
    """[(blocks, functions)] of the stacks of blocks of this size."""
    rows = recorded.report(tools, trace, "--view=leaks", "--limit=0", "--fold=none")["stacks"]
    return [(row["in_use_blocks"], [frame["function"] for frame in row["frames"]]) for row in rows
            if row["in_use_bytes"] == bytes_of_block * row["in_use_blocks"]]


def expect_stack(failures, tools, trace, tag, bytes_of_block, blocks):
    wanted = ["inner_" + tag, "middle_" + tag, "outer_" + tag, "main"]
    found = stacks(tools, trace, bytes_of_block)
    failures.expect("blocks and inner frames of %s" % tag, [(n, frames[:len(wanted)]) for n, frames in found], [(blocks, wanted)])


def program(tools, compiler="gcc", options=()):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        path = os.path.join(folder, "unsorted")
        build(ALONE, path, *(UNSORTED if compiler == "gcc" else OPTIONS), *options, compiler=compiler)
        failures.require("the program has no header", not has_header(path))
        outcome, traces = recorded.record(tools, [path], folder)
        failures.expect("status", outcome.status, 0)
        expect_stack(failures, tools, traces[0], "own", 1001, 10)
        if compiler == "gcc": # the first frames of musl's programs have no tables
            failures.expect("incomplete stacks", recorded.report(tools, traces[0])["incomplete_stacks"], 0)
    return failures


def plugins(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        host = os.path.join(folder, "host")
        build(HOST, host, *OPTIONS, "-ldl")
        arguments = []
        for tag, size in (("red", 2001), ("blue", 3001), ("green", 4001)):
            path = os.path.join(folder, tag + ".so")
            build(FUNCTIONS % {"tag": tag, "bytes": size}, path, *UNSORTED, "-shared", "-fPIC")
            failures.require("the plugin has no header", not has_header(path))
            arguments += [path, "outer_" + tag]
        outcome, traces = recorded.record(tools, [host, *arguments], folder)
        failures.expect("status and output", (outcome.status, outcome.stdout), (0, b"done\n"))
        for tag, size in (("red", 2001), ("blue", 3001), ("green", 4001)):
            expect_stack(failures, tools, traces[0], tag, size, 20)
        failures.expect("incomplete stacks", recorded.report(tools, traces[0])["incomplete_stacks"], 0)
    return failures


def section_headers(image):
    """The offset of each section header, and the name of the section."""
    first, = struct.unpack_from("<Q", image, 0x28)
    size, number, names = struct.unpack_from("<HHH", image, 0x3a)
    text, = struct.unpack_from("<Q", image, first + size * names + 24)
    for index in range(number):
        at = first + size * index
        start = text + struct.unpack_from("<I", image, at)[0]
        yield at, bytes(image[start:image.index(0, start)])


def wrong_files(path):
    """{what is wrong: the bytes of the file}: copies of a plugin whose headers describe .eh_frame wrongly."""
    with open(path, "rb") as file:
        good = file.read()
    header = next(at for at, name in section_headers(good) if name == b".eh_frame")
    address, offset, n_bytes = struct.unpack_from("<QQQ", good, header + 16)
    changes = {
        "address outside of the image": (header + 16, struct.pack("<Q", 1 << 40)),
        "address that overflows": (header + 16, struct.pack("<Q", (1 << 64) - 8)),
        "address between two segments": (header + 16, struct.pack("<Q", address + 0x900)),
        "address of other data": (header + 16, struct.pack("<Q", 0x40)),
        "size beyond the segment": (header + 32, struct.pack("<Q", 1 << 30)),
        "size that overflows": (header + 32, struct.pack("<Q", (1 << 64) - 8)),
        "no bytes": (header + 32, struct.pack("<Q", 0)),
        "headers outside of the file": (0x28, struct.pack("<Q", 1 << 50)),
        "names outside of the file": (header, struct.pack("<I", 0xfffffff0)),
        "too many sections": (0x3c, struct.pack("<H", 0xffff)),
        "zeros as table": (offset, bytes(n_bytes)),
        "ones as table": (offset, b"\xff" * n_bytes),
        "a long first entry": (offset, struct.pack("<I", n_bytes - 4)),
        "a length beyond the section": (offset, struct.pack("<I", 0x7ffffff0)),
    }
    wrong = {}
    for what, (at, new) in changes.items():
        changed = bytearray(good)
        changed[at:at + len(new)] = new
        wrong[what] = bytes(changed)
    return wrong


def hostile(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        host, plugin = os.path.join(folder, "host"), os.path.join(folder, "plugin.so")
        build(HOST, host, *OPTIONS, "-ldl")
        build(FUNCTIONS % {"tag": "red", "bytes": 2001}, plugin, *UNSORTED, "-shared", "-fPIC")
        arguments = []
        for number, (_, content) in enumerate(wrong_files(plugin).items()):
            wrong = os.path.join(folder, "wrong%d.so" % number)
            with open(wrong, "wb") as file:
                file.write(content)
            arguments += [wrong, "outer_red"]
        outcome, traces = recorded.record(tools, [host, *arguments], folder)
        failures.expect("status and output", (outcome.status, outcome.stdout), (0, b"done\n"))
        summary = recorded.report(tools, traces[0])
        failures.expect("lost events", summary["lost_events"]["total"], 0)
        found = sum(n for n, _ in stacks(tools, traces[0], 2001)) # some of the files have no readable symbols
        failures.expect("blocks of the plugins", found, 20 * len(arguments) // 2)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    plan = tap.Plan(4)
    plan.run("a program without a sorted table", lambda: program(tools))
    if shutil.which("musl-gcc"):
        plan.run("a program made by musl-gcc", lambda: program(tools, compiler="musl-gcc"))
    else:
        plan.skip("a program made by musl-gcc", "musl-gcc is not installed")
    plan.run("plugins without sorted tables, in turns", lambda: plugins(tools))
    plan.run("plugins whose files are wrong about their tables", lambda: hostile(tools))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
