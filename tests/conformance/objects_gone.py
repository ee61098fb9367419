#!/usr/bin/env python3
"""Shared objects that are loaded and unloaded: iconv's modules, plugins in turn, and more than 4096 plugins at once. The program must
behave as without allogram, and every block must belong to the function that allocated it, in the object that was loaded at the time of
the allocation."""

import os
import re
import shutil
import subprocess
import sys
import time

import recorded
import tap

N_SITES = 40
PLUGIN_SITE = re.compile(r"plugin_(\d+)_site(\d+)$")
ATTACHED_SECONDS = 0.8


def plugin_files(tools, numbers):
    return [tools.program("numbered_plugin_%d.so" % number) for number in numbers]


def compare_sites(failures, tools, trace, numbers, n_runs=None):
    """Checks that all blocks of a plugin function have the size that only this function allocates. n_runs: the number of blocks that each
    function must have (None: any number)."""
    view = recorded.report(tools, trace, "--view=sites")
    summary = recorded.report(tools, trace)
    failures.expect("lost events", summary["lost_events"]["total"], 0)
    failures.expect("incomplete stacks", summary["incomplete_stacks"], 0)
    seen = {}
    for site in view["sites"]:
        match = PLUGIN_SITE.match(site["function"] or "")
        if match is None:
            failures.fail_unless("blocks without a stack: %r" % site, site["function"] not in ("[no stack]", "[incomplete]"))
            continue
        key = (int(match[1]), int(match[2]))
        blocks, size = seen.get(key, (0, 0))
        seen[key] = (blocks + site["own"]["allocated_blocks"], size + site["own"]["allocated_bytes"])
    failures.expect("functions of plugins", len(seen), N_SITES * len(numbers))
    for (number, place), (blocks, size) in sorted(seen.items()):
        failures.expect("bytes of plugin_%d_site%d, of %d blocks" % (number, place, blocks), size, blocks * (1000 * number + place))
        if n_runs is not None:
            failures.expect("blocks of plugin_%d_site%d" % (number, place), blocks, n_runs)


def unharmed(failures, tools, folder, arguments, options=()):
    """Records the program, and compares its output and exit status with those of a run without allogram. Returns the trace."""
    command = [tools.program("objects_gone"), *map(str, arguments)]
    plain = recorded.run(command)
    outcome, traces = recorded.record(tools, command, folder, options)
    failures.expect("status", outcome.status, plain.status)
    failures.expect("output", (outcome.stdout, outcome.stderr), (plain.stdout, plain.stderr))
    failures.expect("number of traces", len(traces), 1)
    return traces[0] if traces else None


def converters(tools, threads, *options):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for _ in range(3):
            trace = unharmed(failures, tools, folder, ["converters", 600, threads], options)
            if trace:
                failures.expect("status of check", recorded.check(tools, trace)[0], 0)
                os.unlink(trace)
    return failures


def reloaded(tools, numbers, n_rounds, threads):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = unharmed(failures, tools, folder, ["plugins", n_rounds, threads, *plugin_files(tools, numbers)])
        if trace:
            compare_sites(failures, tools, trace, numbers, n_rounds // len(numbers))
    return failures


def kept(tools, n_plugins):
    """Keeps N_PLUGINS plugins loaded. Each plugin is a copy of the same file, because the loader loads a file only once."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        original = plugin_files(tools, [0])[0]
        stripped = os.path.join(folder, "plugin.so")
        subprocess.run(["strip", "--strip-unneeded", "-o", stripped, original], check=True)
        files = []
        for number in range(n_plugins):
            files.append(os.path.join(folder, "%d.so" % number))
            shutil.copyfile(stripped, files[-1])
        os.chdir(folder)
        trace = unharmed(failures, tools, folder, ["keep", 1, 0, *["./%d.so" % number for number in range(n_plugins)]])
        if trace:
            view = recorded.report(tools, trace, "--view=sites")["sites"]
            of_plugins = [site for site in view if re.fullmatch(r"\d+\.so", site["image"] or "")]
            failures.expect("plugins with blocks", len({site["image"] for site in of_plugins}), n_plugins)
            failures.expect("blocks of plugins", sum(site["own"]["allocated_blocks"] for site in of_plugins), n_plugins)
    return failures


def attached(tools, threads):
    failures = tap.Failures()
    numbers = [1, 2, 3, 4, 5, 6]
    with recorded.Folder() as folder:
        trace = os.path.join(folder, "attached.allogram")
        with subprocess.Popen([tools.program("objects_gone"), "plugins", "0", str(threads), *plugin_files(tools, numbers)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
            try:
                time.sleep(0.2)
                for _ in range(2):  # twice, because the first attach could leave something that disturbs the second
                    outcome = recorded.run([tools.allogram, "attach", str(program.pid), "--mode=exact", "-q", "-o", trace,
                                            "--duration=%g" % ATTACHED_SECONDS])
                    failures.expect("attach: %s" % outcome.stderr.decode(errors="replace"), outcome.status, 0)
                    compare_sites(failures, tools, trace, numbers)
                    os.unlink(trace)
                time.sleep(0.2)
                failures.expect("the program's status while it runs", program.poll(), None)
                said = program.communicate(b"end", timeout=30)[0]
                failures.expect("status and output of the program", (program.returncode, said), (0, b"plugins 0\n"))
            finally:
                if program.poll() is None:
                    program.kill()
    return failures


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    cases = {
        "converters": lambda: converters(tools, 0),
        "converters, and threads that allocate": lambda: converters(tools, 3),
        "converters, sampled": lambda: converters(tools, 3, "--mode=sample", "--interval=1"),
        "converters, with the stacks of frees": lambda: converters(tools, 1, "--free-stacks"),
        "a plugin that is loaded again and again": lambda: reloaded(tools, [1], 4500, 0),
        "plugins by turns": lambda: reloaded(tools, [1, 2, 3, 4, 5, 6], 600, 0),
        "plugins by turns, and threads that allocate": lambda: reloaded(tools, [3, 1, 6, 2, 5, 4], 600, 3),
        "more than 4096 plugins at once": lambda: kept(tools, 4200),
    }
    attached_cases = {"attached, plugins by turns": lambda: attached(tools, 0),
                      "attached, plugins by turns, and threads that allocate": lambda: attached(tools, 2)}
    results = tap.Plan(len(cases) + len(attached_cases))
    for name, case in cases.items():
        results.run(name, case)
    for name, case in attached_cases.items():
        if os.geteuid() == 0:
            results.run(name, case)
        else:
            results.skip(name, "attaching to a process that is no child needs root here")
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
