#!/usr/bin/env python3
"""A program and its libraries are loaded by relative paths, and the program changes its working directory. Reports, exports and pages, which
are made in another directory, must name the functions."""

import os
import shutil
import subprocess
import sys

import recorded
import tap
import views_agree

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


LIBRARY = """
#include <stdlib.h>
__attribute__((noinline)) void *allocate_in_library(void) { void *volatile block = malloc(4343); return block; }
"""
# Started as ./program in the folder of the library; the plugin is in the folder of the argument.
SEARCHING = """
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
void *allocate_in_library(void);
__attribute__((noinline)) void *allocate_in_program(void) { void *volatile block = malloc(4444); return block; }
int main(int argc, char **argv) {
    if (argc < 2 || chdir(argv[1]) < 0) return 1;
    allocate_in_library();
    allocate_in_program();
    void *plugin = dlopen("plugin.so", RTLD_NOW);
    void *(*allocate)(void) = plugin ? (void *(*)(void))dlsym(plugin, "allocate_in_plugin") : NULL;
    if (!allocate) return 2;
    allocate();
    return 0;
}
"""
# (compiler, an entry of LD_LIBRARY_PATH that means the working directory). The loader names the library ./library.so if the entry is ".", and
# library.so if the entry is empty. musl ignores an empty entry.
SEARCHED = [("gcc", "."), ("gcc", ""), ("musl-gcc", ".")]


def build(source, path, *options, compiler="gcc"):
    subprocess.run([compiler, "-O1", "-x", "c", "-", "-x", "none", "-o", path, *options], input=source.encode(), check=True, timeout=60)


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


def searched(tools, search_path, compiler):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outer, inner = os.path.join(folder, "outer"), os.path.join(folder, "inner")
        os.mkdir(outer)
        os.mkdir(inner)
        build(LIBRARY, os.path.join(outer, "library.so"), "-shared", "-fPIC", compiler=compiler)
        build(PLUGIN, os.path.join(inner, "plugin.so"), "-shared", "-fPIC", compiler=compiler)
        # the path of the library has no slash in the program, so the loader searches it
        subprocess.run([compiler, "-O1", "-x", "c", "-", "-x", "none", "-o", "program", "-L.", "-l:library.so", "-ldl"], cwd=outer,
                       input=SEARCHING.encode(), check=True, timeout=60)
        outcome, traces = recorded.record(tools, ["./program", inner], folder, cwd=outer, env={"LD_LIBRARY_PATH": search_path + ":/nowhere"})
        failures.expect("status: %s" % outcome.stderr, outcome.status, 0)
        wanted = {"allocate_in_library": "library.so", "allocate_in_program": "program", "allocate_in_plugin": "plugin.so"}
        sites = recorded.report(tools, traces[0], "--view=sites")["sites"]
        failures.expect("functions of the report", {site["function"]: site["image"] for site in sites if site["image"] in wanted.values()
                                                    and site["own"]["allocated_blocks"] > 0}, wanted)
        folded = recorded.run([tools.allogram, "export", "--to=folded", traces[0]]).stdout.decode()
        page = views_agree.Page(tools, traces[0], folder)
        for name in wanted:
            failures.require("the export has %s: %s" % (name, folded), name in folded)
            failures.require("the page has %s" % name, name in page.names)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    plan = tap.Plan(1 + len(SEARCHED))
    plan.run("a plugin opened by a relative path", lambda: relative_plugin(tools))
    for compiler, path in SEARCHED:
        case = "libraries found by the entry '%s' of LD_LIBRARY_PATH, %s" % (path, compiler)
        if shutil.which(compiler):
            plan.run(case, lambda path=path, compiler=compiler: searched(tools, path, compiler))
        else:
            plan.skip(case, compiler + " is not installed")
    sys.exit(plan.status())


main()
