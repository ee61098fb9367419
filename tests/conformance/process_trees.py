#!/usr/bin/env python3
"""`report --view=process_tree` of real processes. Each process writes its pid and that of its parent into a log. The tree must have the same
processes and parents, and each row the numbers that the report on its trace has."""

import glob
import os
import random
import re
import sys
import time

import recorded
import tap

# The shell forks a subshell for each "( )"; `exec` replaces the program of the (sub)shell. /proc/self/stat shows a subshell its own pid.
LOG = 'log() { read -r pid name state parent rest </proc/self/stat; echo "$1 $pid $parent" >>"$LOG"; }; '
METRICS = ("allocated_bytes", "allocated_blocks", "freed_bytes", "freed_blocks", "peak_bytes", "peak_blocks", "temporary_blocks")


def grown_script(folder, chance, name, depth):
    """A shell script whose processes are chosen at random: subshells, executed shells, and daemons, whose parent ends at once."""
    script = "log %s; " % name
    for number in range(chance.randint(1, 3) if depth > 0 else 0):
        inner = "%s.%d" % (name, number)
        kind = chance.choice(("fork", "exec", "daemon"))
        body = grown_script(folder, chance, inner, depth - 1)
        if kind == "exec":
            write_script(folder, inner, body)
            script += "(log %s-before; exec sh %s.sh); " % (inner, inner)
        elif kind == "daemon":
            script += "(log %s-parent; (%s) & ); " % (inner, body)
        else:
            script += "(%s true); " % body
    return script


def write_script(folder, name, body):
    with open(os.path.join(folder, name + ".sh"), "w", encoding="utf-8") as file:
        file.write(LOG + body + "\n")


def await_log(folder):
    """Waits until each process of the scripts has written its line, because daemons outlive `run`."""
    names = sum(len(re.findall(r"\blog [\w.-]+;", open(script, encoding="utf-8").read())) for script in glob.glob(os.path.join(folder, "*.sh")))
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with open(os.path.join(folder, "log"), encoding="utf-8") as file:
            if len(file.readlines()) >= names:
                return
        time.sleep(0.05)


def read_log(path):
    """{name: (pid, parent)}. A daemon may have another parent by the time it writes, so its parent is the process that wrote NAME-parent."""
    with open(path, encoding="utf-8") as file:
        log = {name: (int(pid), int(parent)) for name, pid, parent in (line.split() for line in file)}
    return {name: (pid, log[name + "-parent"][0] if name + "-parent" in log else parent) for name, (pid, parent) in log.items()}


def compare_parents(failures, report, log):
    rows = {row["file"]: row for row in report["processes"]}
    failures.expect("pids of the processes", {row["pid"] for row in report["processes"]} - {pid for pid, _ in log.values()}, set())
    parents = {}
    for pid, parent in log.values():  # dash runs the last subshell of a subshell in the same process, so the first name of a pid counts
        parents.setdefault(pid, parent)
    parents[log["top"][0]] = None
    n_executed = 0
    for row in report["processes"]:
        above = rows[row["parent_file"]] if row["parent_file"] else None
        n_executed += row["was_executed"]
        if row["was_executed"]:
            failures.expect("%s: pid and end of the program before" % row["file"], (above["pid"], above["end"]), (row["pid"], "executed"))
        else:
            failures.expect("%s: pid of the parent" % row["file"], above and above["pid"], parents[row["pid"]])
    failures.expect("executed programs", n_executed, sum(name.endswith("-before") for name in log))
    failures.expect("numbers of processes, programs and repeated traces",
                    (report["total"]["processes"], report["total"]["programs"], report["repeated_traces"]),
                    (len(parents), len(parents) + n_executed, 0))


def compare_sums(failures, tools, report, traces):
    total = dict.fromkeys(METRICS, 0)
    for row in report["processes"]:
        alone = recorded.report(tools, row["file"])
        failures.expect("numbers of %s" % row["file"], {metric: row[metric] for metric in METRICS}, {metric: alone[metric] for metric in METRICS})
        failures.expect("resident memory of %s" % row["file"], row["rss_peak_bytes"] or 0, alone["rss_peak_bytes"])
        total = {metric: total[metric] + row[metric] for metric in METRICS}
    failures.expect("total", {metric: report["total"][metric] for metric in METRICS}, total)
    merged = recorded.report(tools, traces[0], "--merge", *traces[1:])
    failures.expect("total of --merge", {metric: merged[metric] for metric in METRICS}, total)


def one_tree(tools, seed):
    failures = tap.Failures()
    chance = random.Random(seed)
    with recorded.Folder() as folder:
        write_script(folder, "top", grown_script(folder, chance, "top", 3) + "true")
        outcome, _ = recorded.record(tools, ["sh", "top.sh"], folder, cwd=folder, env={"LOG": os.path.join(folder, "log")})
        await_log(folder)
        log = read_log(os.path.join(folder, "log"))
        n_programs = len({pid for pid, _ in log.values()}) + sum(name.endswith("-before") for name in log)
        traces = recorded.wait_until_ended(tools, folder, n_traces=n_programs)
        failures.expect("status", outcome.status, 0)
        chance.shuffle(traces)
        report = recorded.report(tools, traces[0], "--view=process_tree", *traces[1:])
        compare_parents(failures, report, log)
        compare_sums(failures, tools, report, traces)
    return failures


def merge_opens_files_once(tools):
    """The memory for merging many small traces is not in proportion to their number, because the traces share the files with symbols: each
    copy of the C library's debug information takes more than 20 MiB, if it is installed, and its symbol table more than 1 MiB."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, ["sh", "-c", "for i in $(seq 60); do ls / >/dev/null; done"], folder)
        failures.expect("status", outcome.status, 0)
        failures.require("60 programs were executed: %d traces" % len(traces), len(traces) > 60)
        program = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        kib = [int(recorded.run([sys.executable, "-c", program, tools.allogram, "report", "--merge", *some]).stdout) for some in (traces[-4:], traces)]
        failures.require("%d traces take at most 40 MiB more than four: %d KiB, %d KiB" % (len(traces), kib[1], kib[0]), kib[1] - kib[0] < 40 << 10)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    seeds = range(1, 7)
    plan = tap.Plan(len(seeds) + 1)
    plan.run("merging many traces", lambda: merge_opens_files_once(tools))
    recorded.hide_debug_files()
    for seed in seeds:
        plan.run("tree %d" % seed, lambda seed=seed: one_tree(tools, seed))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
