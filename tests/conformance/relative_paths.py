#!/usr/bin/env python3
"""A program opens a plugin by a relative path, and changes its working directory before and after this. `allogram report`, which runs in
another directory, must name the plugin's functions."""

import os
import subprocess
import sys

import recorded
import tap

PLUGIN = """
#include <stdlib.h>
__attribute__((noinline)) void *allocate_in_plugin(void) { void *volatile block = malloc(4242); return block; }
"""
HOST = """
#include <dlfcn.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (argc < 2 || chdir(argv[1]) < 0) return 1;
    for (int round = 0; round < 3; round++) {
        void *plugin = dlopen("./plugin.so", RTLD_NOW);
        void *(*allocate)(void) = plugin ? (void *(*)(void))dlsym(plugin, "allocate_in_plugin") : NULL;
        if (!allocate) return 2;
        for (int i = 0; i < 10; i++) allocate();
        dlclose(plugin);
    }
    return chdir("/") < 0;
}
"""


def build(source, path, *options):
    subprocess.run(["gcc", "-O1", "-x", "c", "-", "-o", path, *options], input=source.encode(), check=True, timeout=60)


def relative_plugin(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        inner = os.path.join(folder, "plugins")
        os.mkdir(inner)
        program = os.path.join(folder, "program")
        build(PLUGIN, os.path.join(inner, "plugin.so"), "-shared", "-fPIC")
        build(HOST, program)
        outcome, traces = recorded.record(tools, [program, inner], folder)
        failures.expect("status", outcome.status, 0)
        report = subprocess.run([tools.allogram, "report", "--view=sites", traces[0]], cwd="/", capture_output=True, text=True,
                                check=True, timeout=60)
        found = [line for line in report.stdout.split("\n") if "allocate_in_plugin" in line]
        failures.expect("lines of the function in %s" % report.stdout, len(found), 1)
        failures.require("the function has 30 blocks: %s" % found, found and "30" in found[0].split())
    return failures


def main():
    tools = recorded.tools_of_arguments()
    plan = tap.Plan(1)
    plan.run("a plugin opened by a relative path", lambda: relative_plugin(tools))
    sys.exit(plan.status())


main()
