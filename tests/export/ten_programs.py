#!/usr/bin/env python3
"""ten_programs.py --build FOLDER: records ten programs of different kinds, and compares the numbers of exports in seven formats with
those of `allogram report`. Prints TAP.

A program whose runtime is not installed is skipped. With AG_TEST_SCALE=full the C++ compiler compiles a file that gives more than 100,000
stacks, and the program many_stacks has 131,072 of them."""

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../conformance"))

import consumers  # noqa: E402
import recorded  # noqa: E402
import tap  # noqa: E402

IS_FULL = os.environ.get("AG_TEST_SCALE") == "full"
METRICS = ("allocated_bytes allocated_blocks in_use_bytes in_use_blocks peak_bytes peak_blocks temporary_blocks freed_bytes "
           "freed_blocks").split()
PPROF = ["allocated_blocks", "allocated_bytes", "in_use_blocks", "in_use_bytes", "peak_blocks", "peak_bytes", "temporary_blocks"]
LUA = "local kept = {} for i = 1, 20000 do kept[i % 500] = {i, tostring(i)} end"
GUILE = "(define (build n) (if (= n 0) '() (cons (make-vector 10 n) (build (- n 1))))) (do ((i 0 (+ i 1))) ((= i 50)) (build 100))"
ERLANG = "lists:foldl(fun(I, All) -> [integer_to_list(I) | All] end, [], lists:seq(1, 2000)), halt()."
OCAML = "let rec build n = if n = 0 then [] else Array.make 300 n :: build (n - 1) let () = ignore (List.length (build 200))\n"
CXX = "#include <string>\nstruct Kept { std::string name; };\nKept make() { return {std::string(20, 'x')}; }\n"
CXX_FULL = "#include <regex>\n#include <map>\n#include <functional>\nstd::map<std::string, std::regex> all;\n" + "".join(
    "template <int N> struct T%d { std::map<int, std::function<int(T%d)>> m; };\ntemplate struct T%d<%d>;\n" % (i, i, i, i) for i in range(60))


# ---- the sums in a file ----

def varints(data):
    """The fields of a protocol buffer message: (number, value), where value is an integer or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        tag = varint()
        if tag & 7 == 2:
            length = varint()
            yield tag >> 3, data[at:at + length]
            at += length
        else:
            yield tag >> 3, varint()


def packed(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def pprof_sums(path):
    with gzip.open(path) as file:
        data = file.read()
    sums = [0] * len(PPROF)
    for number, sample in varints(data):
        if number == 2:
            for field, value in varints(sample):
                if field == 2:
                    for i, one in enumerate(packed(value)):
                        sums[i] += one
    return dict(zip(PPROF, sums))


def dhat_sums(path):
    with open(path) as file:
        points = json.load(file)["pps"]
    fields = {"tb": "allocated_bytes", "tbk": "allocated_blocks", "gb": "peak_bytes", "gbk": "peak_blocks", "eb": "in_use_bytes",
              "ebk": "in_use_blocks"}
    return {metric: sum(point[field] for point in points) for field, metric in fields.items()}


def folded_sums(path):
    with open(path, encoding="utf-8") as file:
        return {"allocated_bytes": sum(int(line.rsplit(" ", 1)[1]) for line in file)}


def speedscope_sums(path):
    with open(path) as file:
        return {"allocated_bytes": sum(json.load(file)["profiles"][0]["weights"])}


def csv_sums(path):
    rows = consumers.read_csv(path)
    return {metric: sum(int(row[metric] or 0) for row in rows) for metric in METRICS}


def heaptrack_sums(path):
    """The sums in a heaptrack file. The kinds of allocations must be used first in the order of their numbers (see heaptrack_format.c)."""
    sizes, used, sums = [], 0, dict.fromkeys(("allocated_blocks", "allocated_bytes", "freed_blocks", "freed_bytes"), 0)
    with open(path, errors="replace") as file:
        for line in file:
            if line.startswith("a "):
                sizes.append(int(line.split()[1], 16))
            elif line.startswith(("+ ", "- ")):
                kind = int(line[2:], 16)
                if kind > used or kind >= len(sizes):
                    raise RuntimeError("kind %d is used before kind %d" % (kind, used))
                used = max(used, kind + 1)
                what = "allocated" if line[0] == "+" else "freed"
                sums[what + "_blocks"] += 1
                sums[what + "_bytes"] += sizes[kind]
    if used != len(sizes):
        raise RuntimeError("%d of %d kinds of allocations are used" % (used, len(sizes)))
    return dict(sums, in_use_bytes=sums["allocated_bytes"] - sums["freed_bytes"])


SUMS = {"pprof": pprof_sums, "folded": folded_sums, "speedscope": speedscope_sums, "heaptrack": heaptrack_sums,
        "firefox": consumers.firefox_sums, "dhat": dhat_sums, "csv": csv_sums}
FROM_EVENTS = ("heaptrack", "firefox")


# ---- programs ----

def damage(path):
    """Overwrites the events of a chunk in the middle of a trace (src/format/trace_layout.h)."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    at, chunks = int.from_bytes(data[10:12], "little"), []
    while data[at:at + 4] == b"AGCK":
        size = int.from_bytes(data[at + 44:at + 48], "little")
        if data[at + 4] == 1:
            chunks.append((at + 64, size))
        at += 64 + size
    start, size = chunks[len(chunks) // 2]
    data[start:start + size] = bytes(size)
    with open(path, "wb") as file:
        file.write(data)


def compiler():
    """The command of the compiler proper, which g++ starts."""
    if shutil.which("g++") is None:
        return None
    def answer(question):
        return subprocess.run(["g++", question], capture_output=True, text=True, check=True).stdout.strip()
    path = answer("-print-prog-name=cc1plus")
    return [path, "-quiet", "-imultiarch", answer("-print-multiarch")] if os.path.isabs(path) else None


class Programs:
    def __init__(self, build, folder):
        self.tools = recorded.Tools(build)
        self.folder = folder
        self.heaptrack_files = []
        self.n_files = 0

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def commands(self):
        """Yields (name, command or None, options of `run`) for each program. None: the program is not installed."""
        def runtime(name, *words):
            return [name, *words] if shutil.which(name) else None
        cc1plus = compiler()
        source = self.file("compiled.cc", CXX_FULL if IS_FULL else CXX)
        yield "C++ compiler", cc1plus and [*cc1plus, source, "-o", os.devnull], ()
        yield "many stacks", [self.tools.program("many_stacks"), "17" if IS_FULL else "12"], ()
        yield "C++ with threads", [self.tools.program("cxx_containers")], ()
        yield "Lua", runtime("lua5.4", "-e", LUA), ()
        yield "Guile", runtime("guile", "--no-auto-compile", "-c", GUILE), ()
        yield "Erlang", runtime("erl", "-noshell", "-eval", ERLANG), ()
        yield "OCaml", runtime("ocaml", self.file("build.ml", OCAML)), ()
        yield "process tree", ["sh", "-c", "%s; %s" % (self.tools.program("temporary"), self.tools.program("forgetful"))], ()
        yield "sampled", [self.tools.program("cxx_containers")], ("--mode=sample", "--interval=4096")
        yield "damaged trace", [self.tools.program("cxx_containers")], ()

    def export(self, traces, form, *options):
        self.n_files += 1
        path = os.path.join(self.folder, "%d.%s" % (self.n_files, form))
        outcome = recorded.run([self.tools.allogram, "export", *traces[:1], *(["--merge", *traces[1:]] if traces[1:] else []),
                                "--to=" + form, "-o", path, *options])
        if outcome.status != 0:
            raise RuntimeError("export --to=%s: status %d: %s" % (form, outcome.status, outcome.stderr.decode(errors="replace")))
        return path

    def summary(self, traces, *options):
        outcome = recorded.run([self.tools.allogram, "report", "--json", *options, *(["--merge"] if traces[1:] else []), *traces])
        if outcome.status != 0:
            raise RuntimeError("report: status %d: %s" % (outcome.status, outcome.stderr.decode(errors="replace")))
        report = json.loads(outcome.stdout)
        return dict(report, in_use_bytes=report["in_use_bytes_at_end"], in_use_blocks=report["in_use_blocks_at_end"])

    def compare(self, failures, name, traces, is_sampled):
        summary = self.summary(traces)
        # The sums of a damaged trace are those of its index. Formats with the history of the blocks have the events that can be read, as
        # a report about a window of time has.
        readable = self.summary(traces, "--to=1h") if name == "damaged trace" else summary
        failures.require("%s: events are missing" % name, (readable["allocated_blocks"] < summary["allocated_blocks"]) == (name == "damaged trace"))
        failures.require("%s: blocks were recorded" % name, summary["allocated_blocks"] > 0)
        if name == "C++ compiler" and IS_FULL:
            failures.require("%s: %d stacks" % (name, summary["unique_stacks"]), summary["unique_stacks"] > 100000)
        for form, sums_of in SUMS.items():
            if traces[1:] and form == "heaptrack":
                continue  # the format describes one process
            path = self.export(traces, form)
            sums = sums_of(path)
            if form == "heaptrack":
                self.heaptrack_files.append(path)
            wanted = readable if form in FROM_EVENTS else summary
            for metric, total in sums.items():
                # A block of a heaptrack file has one size, so the size that a sample represents is rounded.
                slack = 0 if not (is_sampled and form == "heaptrack") else sums["allocated_blocks"] / 2
                if slack and metric.endswith("_blocks"):
                    continue # the file has one block for each sample
                if wanted.get(metric) is not None and abs(total - wanted[metric]) > slack:
                    failures.expect("%s: %s in %s" % (name, metric, form), total, wanted[metric])
        if not traces[1:]:
            self.compare_functions(failures, name, traces)

    def compare_functions(self, failures, name, traces):
        """The bytes of each function in folded stacks are those of the view sites. Functions of a virtual machine have the name of its runtime."""
        own, wanted = {}, {}
        with open(self.export(traces, "folded", "--fold=none"), encoding="utf-8") as file:
            for line in file:
                stack, number = line.rsplit(" ", 1)
                function = stack.rsplit(";", 1)[-1]
                own[function] = own.get(function, 0) + int(number)
        outcome = recorded.run([self.tools.allogram, "report", *traces, "--json", "--view=sites", "--fold=none"])
        for site in json.loads(outcome.stdout)["sites"]:
            if site["own"]["allocated_bytes"] > 0:
                runtime = "" if site["runtime"] == "c" else "[%s] " % site["runtime"]
                function = (runtime + (site["function"] or "")).replace(";", ":")
                wanted[function] = wanted.get(function, 0) + site["own"]["allocated_bytes"]
        for function in sorted(set(own) | set(wanted)):
            if own.get(function) != wanted.get(function):
                failures.expect("%s: bytes of the function %s" % (name, function), own.get(function), wanted.get(function))

    def case(self, name, command, options):
        failures = tap.Failures()
        folder = os.path.join(self.folder, re.sub(r"\W", "_", name))
        os.mkdir(folder)
        outcome, traces = recorded.record(self.tools, command, folder, list(options))
        traces = [trace for trace in traces if self.summary([trace])["allocated_blocks"] > 0]
        if outcome.status != 0 or not traces:
            raise RuntimeError("%s: status %d, %d traces: %s" % (name, outcome.status, len(traces), outcome.stderr[-300:]))
        if name == "Erlang":  # the largest trace is that of the emulator; its helper processes have traces, too
            traces = [max(traces, key=os.path.getsize)]
        if name == "damaged trace":
            damage(traces[0])
        self.compare(failures, name, traces, name == "sampled")
        return failures

    def gui(self):
        failures = tap.Failures()
        failures.expect("how heaptrack_gui ended", consumers.heaptrack_gui(self.folder, *self.heaptrack_files), None)
        return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", help="run only the programs whose name contains this text")
    arguments = parser.parse_args()
    recorded.hide_debug_files()
    with recorded.Folder() as folder:
        programs = Programs(arguments.build, folder)
        commands = [row for row in programs.commands() if arguments.only is None or arguments.only in row[0]]
        plan = tap.Plan(len(commands) + 1)
        for name, command, options in commands:
            if command is None:
                plan.skip(name, "it is not installed")
                continue
            plan.run(name, lambda name=name, command=command, options=options: programs.case(name, command, options))
        try:
            consumers.need("heaptrack_gui", "heaptrack-gui")
            plan.run("heaptrack_gui opens the exports of all programs", programs.gui)
        except consumers.Missing as missing:
            plan.skip("heaptrack_gui opens the exports of all programs", missing)
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
