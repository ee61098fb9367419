#!/usr/bin/env python3
"""`report --view=process_tree` of real processes. Each process writes its pid and that of its parent into a log. The tree must have the same
processes and parents, and each row the numbers that the report on its trace has."""

import glob
import os
import pwd
import random
import re
import sys
import time

import recorded
import tap

# A shell forks a subshell for each "( )"; `exec` replaces the program of the shell or subshell. From /proc/self/stat, a subshell reads its own pid.
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
    while True:
        with open(os.path.join(folder, "log"), encoding="utf-8") as file:
            found = len(file.readlines())
        if found >= names:
            return
        if time.monotonic() > end:
            raise RuntimeError("%d of %d processes have written their line after 30 s" % (found, names))
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
    sites = recorded.report(tools, traces[0], "--view=sites", "--by=os_process", *traces[1:])["sites"]
    failures.expect("sites by os_process", {row["trace"]: {metric: row["own"][metric] for metric in METRICS} for row in sites},
                    {row["file"]: {metric: row[metric] for metric in METRICS} for row in report["processes"]})


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


def titles(tools):
    """Checks in the process tree the names that processes give themselves while they run, their users, and the limits of their address space (ulimit
    -v)."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        limit = 1 << 46
        script = 'ulimit -v %d; exec "$0" first-argument' % (limit >> 10)
        outcome, traces = recorded.record(tools, ["sh", "-c", script, tools.program("titled")], folder)
        failures.expect("status, standard output", (outcome.status, outcome.stdout), (0, b"done\n"))
        rows = [row for row in recorded.report(tools, traces[0], "--view=process_tree", *traces[1:])["processes"]
                if os.path.basename(row["exe"]) == "titled"]
        failures.expect("titles", sorted(str(row["title"]) for row in rows), ["None", "dispatcher", "titled: worker 1"])
        failures.expect("commands", {tuple(row["command"][1:]) for row in rows}, {("first-argument",)})
        failures.expect("users", {(row["user"], row["user_id"]) for row in rows}, {(pwd.getpwuid(os.geteuid()).pw_name, os.geteuid())})
        failures.expect("limits of addresses", {row["address_space_limit_bytes"] for row in rows}, {limit})
        text = recorded.run([tools.allogram, "report", "--view=process_tree", *traces]).stdout.decode()
        failures.require("the tree shows the titles", "titled: worker 1" in text and "dispatcher" in text)
        outcome, traces = recorded.record(tools, [sys.executable, "-c", "import time; time.sleep(0.3)", "", ""], folder)
        row = recorded.report(tools, traces[-1], "--view=process_tree")["processes"][0]
        failures.expect("title and limit of a process that changes nothing, with empty arguments", (row["title"], row["address_space_limit_bytes"]), (None, None))
    return failures


def without_process(row):
    return {key: value for key, value in row.items() if key not in ("os_process", "pid", "trace")}


def compare_views(failures, tools, traces):
    """Each row of a view with --by=os_process has the numbers that the view of the trace alone has."""
    first, *rest = traces
    by_process = ["--by=os_process", *rest]
    for view in ("leaks", "peak", "temporary"):
        rows = recorded.report(tools, first, "--view=" + view, *by_process)["processes"]
        alone = {trace: recorded.report(tools, trace, "--view=" + view)["total"] for trace in traces}
        blocks = {"leaks": "in_use_blocks", "peak": "peak_blocks", "temporary": "temporary_blocks"}[view]
        failures.expect(view, {row["trace"]: without_process(row) for row in rows}, {trace: total for trace, total in alone.items() if total[blocks] > 0})
    rows = recorded.report(tools, first, "--view=types", *by_process)["types"]
    for trace in traces:
        failures.expect("types of " + trace, [without_process(row) for row in rows if row["trace"] == trace],
                        recorded.report(tools, trace, "--view=types")["types"])
    failures.require("a type has rows of several processes", len({row["trace"] for row in rows if row["type"] is None}) > 1)
    rows = recorded.report(tools, first, "--view=lifetimes", *by_process)["sites"]
    for trace in traces:
        found = [without_process(row) for row in rows if row["trace"] == trace]
        failures.expect("lifetimes of " + trace, found,
                        [without_process(row) for row in recorded.report(tools, trace, "--view=lifetimes", "--by=os_process")["sites"]])
        summary = recorded.report(tools, trace)
        failures.expect("blocks of " + trace, [(row["blocks"], row["bytes"], row["ended"]) for row in found],
                        [(summary["allocated_blocks"], summary["allocated_bytes"], summary["freed_blocks"])] if summary["allocated_blocks"] else [])
    counted = recorded.report(tools, first, "--view=functions", *by_process)["os_processes"]
    alone = {trace: recorded.report(tools, trace, "--view=functions")["total"] for trace in traces}
    failures.expect("function counters", {row["trace"]: (row["own_words"], row["own_ns"]) for row in counted},
                    {trace: (total["own_words"], total["own_ns"]) for trace, total in alone.items() if total["calls"] > 0})
    failures.expect("processes with function counters", len(counted), 2)


def compare_finding(failures, tools, traces):
    """The finding about the peak of all processes names the process with most of it, and the command that shows more reads its trace."""
    merged = recorded.report(tools, traces[0], "--merge", *traces[1:])
    findings = [finding for finding in merged["findings"] if finding["kind"] == "peak_holder"]
    if not findings:
        failures.append("no finding about the peak: %s" % merged["findings"])
        return
    finding = findings[0]
    parts = {}
    for trace in traces:
        for site in recorded.report(tools, trace, "--view=sites", "--by=line")["sites"]:
            if (site["function"], site["line"]) == (finding["function"], finding["line"]):
                parts[trace] = site["own"]["peak_bytes"]
    most = max(parts, key=parts.get)
    failures.expect("process of the finding", (finding["trace"], finding["processes"]), (most, sum(part > 0 for part in parts.values())))
    failures.expect("its share", round(finding["process_percent"]), round(100 * parts[most] / sum(parts.values())))
    failures.require("the text names the process", "process %s" % finding["os_process"] in finding["text"])
    text = recorded.run([tools.allogram, "report", "--merge", *traces], env={"COLUMNS": "200"}).stdout.decode()
    failures.require("the command reads its trace", "-> allogram report %s --view=peak" % most in text)


def by_process(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        script = '"$0/phases"; "$0/forgetful"; "$0/faults" peak; "$0/phases"; "$0/faults" peak; "$0/counted_functions"; "$0/counted_functions"'
        outcome, traces = recorded.record(tools, ["sh", "-c", script + " >/dev/null", tools.programs], folder)
        failures.expect("status", outcome.status, 0)
        compare_views(failures, tools, traces)
        compare_finding(failures, tools, traces)
    return failures


def merge_opens_files_once(tools):
    """The memory for merging many small traces is not in proportion to their number, because the traces share the files with symbols: a
    copy of the C library's symbol table takes more than 1 MiB, and a copy of its debug information, if that is installed, more than 20 MiB."""
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
    plan = tap.Plan(len(seeds) + 3)
    plan.run("merging many traces", lambda: merge_opens_files_once(tools))
    recorded.hide_debug_files()
    plan.run("titles", lambda: titles(tools))
    plan.run("views by process", lambda: by_process(tools))
    for seed in seeds:
        plan.run("tree %d" % seed, lambda seed=seed: one_tree(tools, seed))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
