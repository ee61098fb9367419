#!/usr/bin/env python3
"""julia_in_root ROOTS BUILD: records programs with Julia 1.5.3 of Debian bullseye. A folder below ROOTS has the root file system of that release
(make_roots.sh). Prints TAP.

The recorded counts are compared with those of Julia itself: with Base.gc_num(), and with finalizers that count freed objects. Lines are compared
with the source text, and outputs with those of runs without allogram.
"""

import collections
import csv
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../conformance"))
import julia_root  # noqa: E402
import recorded  # noqa: E402
import tap  # noqa: E402

SCALE = 1 if os.environ.get("AG_TEST_SCALE") == "full" else 10
INSIDE = "/allogram-test-julia"  # folder in the root
EXPRESSIONS = INSIDE + "/Allogram.jl"
LIBRARY = "ALLOGRAM_JULIA_LIBRARY="
HEAPS = ("julia pool", "julia big", "julia std")


class Case:
    """A recording of a program, and the reports of its trace."""

    def __init__(self, tools, root, command, options=(), variables=()):
        self.tools, self.root, self.failures = tools, root.path, tap.Failures()
        self.command, self.options = root.command(command, variables), options

    def record(self, folder):
        self.outcome, traces = recorded.record(self.tools, self.command, folder, self.options)
        summaries = [(trace, recorded.report(self.tools, trace)) for trace in traces]
        self.summaries = [summary for _, summary in summaries]
        self.trace, self.summary = [found for found in summaries if os.path.basename(found[1]["trace"]["exe"]) == "julia"][0]
        self.failures.expect("lost events", self.summary["lost_events"]["total"], 0)
        self.failures.expect("check's status", recorded.check(self.tools, self.trace)[0], 0)
        return self

    def view(self, view, *options):
        return recorded.report(self.tools, self.trace, "--view=" + view, "--sysroot=" + self.root, *options)

    def sites(self):
        """Returns the rows of the CSV export, as dictionaries."""
        path = self.trace + ".csv"
        outcome = recorded.run([self.tools.allogram, "export", self.trace, "--to=csv", "-o", path, "--sysroot=" + self.root])
        self.failures.expect("export's status", outcome.status, 0)
        csv.field_size_limit(1 << 24)
        with open(path, newline="", encoding="utf-8", errors="replace") as file:
            return list(csv.DictReader(file))

    def runtime(self, name):
        found = [runtime for runtime in self.summary["runtimes"] if runtime["name"] == name]
        return found[0] if found else {}

    def stacks_of(self, type_name, n_frames):
        stacks = self.view("types", "--type=" + type_name)["stacks"]
        return [[(frame["runtime"], frame["function"], os.path.basename(frame["file"] or ""), frame["line"])
                 for frame in stack["frames"][:n_frames]] for stack in stacks]


def numbers(line):
    return {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)}


def allocs_between_marks(tools, trace):
    """Returns the number of blocks of each heap of HEAPS that were allocated between the last marks "begin" and "end" in the output of
    `allogram dump`."""
    dump = recorded.run([tools.allogram, "dump", trace]).stdout
    heaps = {int(number): name.decode() for number, name in re.findall(rb' heap heap=(\d+) [^\n]*? name="([^"]*)"', dump)}
    begin, end = dump.rfind(b' mark name="begin"'), dump.rfind(b' mark name="end"')
    counts = collections.Counter(int(via) for via in re.findall(rb" alloc [^\n]* via=(\d+)", dump[begin:end])) if begin >= 0 else {}
    return {name: counts.get(heap, 0) for heap, name in heaps.items() if name in HEAPS}


def counted(tools, root):
    case = Case(tools, root, [INSIDE + "/julia_counted.jl", str(SCALE)], variables=["JULIA_NUM_THREADS=2"])
    with recorded.Folder() as folder:
        case.record(folder)
        failures, lines = case.failures, case.outcome.stdout.decode().splitlines()
        failures.expect("status", case.outcome.status, 0)
        failures.require("the program printed three lines", len(lines) == 3)
        if failures:
            return failures
        gc, end = numbers(lines[0]), numbers(lines[2])

        # The numbers equal Julia's own counters, to the unit. A string that Julia moves counts as a realloc and as a block of the big heap.
        counts = allocs_between_marks(tools, case.trace)
        failures.expect("pool objects", counts["julia pool"], gc["pool"])
        failures.expect("blocks of big, malloc and realloc", counts["julia big"] + counts["julia std"], gc["big"] + gc["malloc"] + gc["realloc"])
        failures.require("the program has arrays in malloc's memory", gc["malloc"] >= 24 and gc["realloc"] >= 16)
        julia = case.runtime("julia")
        failures.expect("version, hooked", (julia.get("version"), julia.get("hooked")), ("1.5.3", True))
        failures.require(f"coverage is {julia.get('coverage')}", (julia.get("coverage") or 0) >= 0.999)

        # Every block has a type, and names of types are complete.
        rows = case.sites()
        untyped = sum(int(row["allocated_blocks"]) for row in rows if row["heap"] in HEAPS and not row["type"])
        failures.expect("untyped objects", untyped, 0)
        types = {row["type"]: row for row in case.view("types")["types"]}
        holder = "Main.Holder{Main.Pair3{Union{Nothing, Int64}, 2}}"
        failures.expect(holder, types.get(holder, {}).get("allocated_blocks"), 1000)
        failures.expect("blocks in use of the type", types.get(holder, {}).get("in_use_blocks"), 1000)
        stacks = case.view("types", "--type=Holder{Pair3{Union{Nothing,Int64},2}}")["stacks"]
        failures.expect("blocks of the type in the spelling of Julia", sum(stack["allocated_blocks"] for stack in stacks), 1000)
        failures.require("the data of an array has the type of the array", "Array{Float64, 1} data" in types)

        # The numbers of freed objects equal those that the finalizers counted.
        failures.expect("freed and live objects that the finalizers counted", (end["dead"], end["alive"]), (90_000 // SCALE, 10_000 // SCALE))
        leaf = types.get("Main.Leaf", {})
        failures.expect("leaves that were freed", leaf.get("freed_blocks"), end["dead"] + 10)
        failures.expect("leaves in use", leaf.get("in_use_blocks"), end["alive"])
        failures.expect("number of threads", end["threads"], 2)

        # The lines of frames are right, also those of inlined frames.
        source = "julia_counted.jl"
        leaves = [(os.path.basename(row["file"]), row["line"]) for row in rows if row["type"] == "Main.Leaf" and
                  row["stack"].startswith("[julia] Leaf < [julia] make_leaves < ")]
        failures.expect("stack of leaves", leaves, [(source, "7")])
        failures.expect("inlined stack", case.stacks_of("Main.Holder{Float64}", 4),
                        [[("julia", "Holder", source, 15), ("julia", "innermost", source, 40), ("julia", "inner", source, 41),
                          ("julia", "outer", source, 45)]])
        failures.expect("incomplete and cut stacks", (case.summary.get("incomplete_stacks", 0), case.summary["truncated_stacks"]), (0, 0))

        # The summary attributes blocks to lines of the program, not to those of Julia's own library.
        text = recorded.run([tools.allogram, "report", case.trace, "--limit=0", "--sysroot=" + root.path], env={"COLUMNS": "200"}).stdout.decode()
        files = [place.split(":")[0] for place in re.findall(r"^ .* %.*  \[julia\] \S+ +(\S+\.jl:\d+)$", text, re.M)]
        failures.expect("files of the summary's first lines of Julia", files[:5], [source] * 5)
        failures.require("lines of files that call the program's code: %s" % files, not {"Base.jl", "client.jl", "loading.jl"} & set(files))

        # The number of collections equals Julia's count.
        view = case.view("gc", "--blame")
        found = view["collections"]
        kinds = collections.Counter(row["kind"] for row in found)
        failures.expect("collections", len(found), end["pauses"])
        failures.require(f"there are full and incremental collections: {kinds}", kinds["full"] >= 5 and set(kinds) <= {"full", "incremental"})
        failures.require("the program requested full collections", any("gc" in row["function"] for row in view["blame"]))

        # Julia's heaps are not also recorded as malloc's, and stacks of tasks are recorded.
        heaps = {heap["name"]: heap for heap in case.view("heaps")["heaps"]}
        failures.require("the pools' heap has mapped more than is in use", heaps["julia pool"]["mapped_bytes"] > heaps["julia pool"]["in_use_bytes"])
        failures.require("stacks of tasks are recorded as mapped", heaps.get("julia task stacks", {}).get("mapped_bytes", 0) > 0)
        ours = [row for row in rows if row["heap"] == "malloc" and row["via"] == "posix_memalign" and "libjulia" in row["image"]]
        failures.expect("blocks of Julia's heaps that are also recorded as malloc's", len(ours), 0)
        return failures


def filtered(tools, root):
    """--filter selects a type, although allogram learns the type of a Julia object only after the allocation: exactly the objects Main.Leaf
    are recorded, with their frees."""
    case = Case(tools, root, [INSIDE + "/julia_counted.jl", str(SCALE)], ["--filter=type=Main.Lea?,!size=1K..,allocator=pool"],
                ["JULIA_NUM_THREADS=2"])
    with recorded.Folder() as folder:
        case.record(folder)
        failures, end = case.failures, numbers(case.outcome.stdout.decode().splitlines()[2])
        types = {row["type"]: (row["freed_blocks"], row["in_use_blocks"]) for row in case.view("types")["types"]}
        failures.expect("types", types, {"Main.Leaf": (end["dead"] + 10, end["alive"])})
        failures.expect("ghost frees", case.summary["ghost_frees"], 0)
        return failures


def mixed(tools, root):
    case = Case(tools, root, [INSIDE + "/julia_mixed.jl", INSIDE + "/mixed.so"])
    with recorded.Folder() as folder:
        case.record(folder)
        failures = case.failures
        failures.expect("output", (case.outcome.status, case.outcome.stdout), (0, b"kept 50 7\n"))
        rows = case.sites()
        taken = [row for row in rows if row["function"] == "take_inside"]
        failures.expect("blocks that C took", [(row["allocated_blocks"], row["in_use_blocks"]) for row in taken], [("100", "50")])
        stack = taken[0]["stack"] if taken else ""
        failures.require("a stack goes through C and Julia: " + stack[:300],
                         re.match(r"take_inside < mixed_take < \[julia\] take < ", stack) is not None and
                         "__libc_start_main" in stack)
        failures.expect("line of the call in `take`", [row["line"] for row in case.view("sites", "--by=line")["sites"]
                                     if row["function"] == "take" and row["line"] == 10], [10])
        back = [row["stack"] for row in rows if row["type"] == "Main.FromC"]
        failures.require("a stack goes through a Julia function that C called: " + str(back)[:300],
                         len(back) == 1 and re.search(r"\[julia\] called < .*mixed_back < \[julia\] around < ", back[0]) is not None)
        adopted = [row for row in rows if row["allocated_bytes"] == "8000" and row["heap"] == "malloc" and row["via"] == "malloc"
                   and row["stack"].startswith("[julia] malloc < ")]
        failures.expect("memory that an array took over", [row["in_use_blocks"] for row in adopted], ["0"])
        # Libraries that Julia opens are not recorded until Julia looks up their first function. Blocks that their initialization allocates
        # are freed later, as ghost frees.
        failures.require(f"fewer than 100 ghost frees: {case.summary['ghost_frees']}", case.summary["ghost_frees"] < 100)
        return failures


def unharmed(tools, root):
    case = Case(tools, root, [INSIDE + "/julia_wild.jl"], variables=["JULIA_NUM_THREADS=2"])
    plain = recorded.run(case.command)
    with recorded.Folder() as folder:
        case.record(folder)
        case.failures.expect("standard output", case.outcome.stdout, plain.stdout)
        case.failures.expect("standard error", case.outcome.stderr, plain.stderr)
        case.failures.expect("status", (case.outcome.status, plain.status), (7, 7))
        case.failures.require("the coverage is at least 99.9 %, with the memory of big numbers", (case.runtime("julia").get("coverage") or 0) >= 0.999)
        return case.failures


def various(tools, root):
    """Records one program with Julia's interpreter and with its compiler. The outputs must be equal, and all objects that Julia counts must be
    recorded."""
    failures, outcomes = tap.Failures(), []
    for options in (["--compile=min"], ["-O3", "--check-bounds=yes"]):
        case = Case(tools, root, [*options, INSIDE + "/julia_various.jl"], variables=["JULIA_NUM_THREADS=2"])
        with recorded.Folder() as folder:
            case.record(folder)
            failures.extend(case.failures)
            outcomes.append((case.outcome.status, case.outcome.stdout, case.outcome.stderr))
            failures.require(f"{options}: coverage is {case.runtime('julia')['coverage']}", case.runtime("julia")["coverage"] >= 0.999)
    failures.expect("status and standard error", (outcomes[0][0], outcomes[0][2]), (0, b""))
    failures.expect("outcomes with the interpreter and the compiler", outcomes[0], outcomes[1])
    return failures


def alone(tools, root):
    """With --adapters=none Julia's adapter does nothing, and malloc is recorded."""
    case = Case(tools, root, ["-e", "print(length(zeros(10)))"], options=["--adapters=none"])
    with recorded.Folder() as folder:
        case.record(folder)
        case.failures.expect("output", case.outcome.stdout, b"10")
        # Julia opens libraries with RTLD_DEEPBIND, and only its adapter binds their calls of malloc to the agent.
        case.failures.expect("runtimes", [runtime["name"] for runtime in case.summary["runtimes"]], ["libc", "libc (RTLD_DEEPBIND)"])
        return case.failures


def sampled(tools, root):
    """Estimates for 1,000 objects of 100 KiB and 500,000 of 16 bytes are within five standard deviations of the true values."""
    program = ("f(n) = (for i in 1:n; push!(kept, Vector{UInt8}(undef, 102_400)); end); g(n) = [Ref(i) for i in 1:n]; "
               "const kept = Any[]; f(1000); const more = g(500_000); GC.gc(); empty!(kept); GC.gc(); GC.gc()")
    case = Case(tools, root, ["-e", program], options=["--mode=sample", "--interval=32K", "--seed=11"])
    with recorded.Folder() as folder:
        case.record(folder)
        failures = case.failures
        types = {row["type"]: row for row in case.view("types")["types"]}
        arrays, boxes = types.get("Array{UInt8, 1} data", {}), types.get("Base.RefValue{Int64}", {})
        failures.require(f"the estimate for arrays is near the true value: {arrays.get('allocated_bytes')}", abs(arrays.get("allocated_bytes", 0) - 102_400_000) < 8_000_000)
        failures.require(f"nearly all arrays are freed, in use: {arrays.get('in_use_bytes')}", arrays.get("in_use_bytes", 1e9) < 5_000_000)
        failures.require(f"the estimate for boxes is near the true value: {boxes.get('allocated_bytes')}", abs(boxes.get("allocated_bytes", 0) - 8_000_000) < 2_600_000)
        failures.expect("ghost frees", case.summary["ghost_frees"], 0)
        return failures


def mapped_for_perf(tools, root):
    """A function determines its own address between two of its allocations. The perf map must have the function at this address, and no two
    functions of the map may overlap."""
    program = ("@noinline function between(n); a = zeros(n); here = backtrace(); b = zeros(n); (length(a) + length(b), here); end; "
               "const found = between(1000)[2]; for ip in found; "
               "any(frame -> frame.func == :between, StackTraces.lookup(ip)) && println(string(UInt(ip), base = 16)); end")
    case = Case(tools, root, ["-e", program])
    with recorded.Folder() as folder:
        case.record(folder)
        failures, path = case.failures, folder + "/perf-1.map"
        outcome = recorded.run([tools.allogram, "export", case.trace, "--to=perf-map", "-o", path])
        failures.expect("status and standard error of export", (outcome.status, outcome.stderr), (0, b""))
        with open(path, encoding="utf-8") as file:
            ranges = [(int(low, 16), int(size, 16), name.rstrip("\n")) for low, size, name in (line.split(" ", 2) for line in file)]
        failures.require("ranges of the perf map do not overlap: %d" % len(ranges),
                         len(ranges) > 3 and all(a[0] + a[1] <= b[0] for a, b in zip(ranges, ranges[1:])))
        places = [int(line, 16) - 1 for line in case.outcome.stdout.split()]  # the return address - 1 is inside of the call instruction
        failures.expect("places of the function", len(places), 1)
        failures.expect("functions of the map at this place", [name for low, size, name in ranges if low <= places[0] < low + size],
                        ["[julia] between"])
        return failures


def precompiled(tools, root):
    """A child process of Julia precompiles a package of the test. Both processes are recorded, and the package works."""
    shutil.rmtree(root.folder + "/depot", ignore_errors=True)
    folder = root.folder + "/packages/Little/src"
    os.makedirs(folder)
    with open(folder + "/Little.jl", "w", encoding="utf-8") as file:
        file.write("module Little\nexport twice\nstruct Two{T}; a::T; b::T; end\ntwice(x) = Two(x, x)\nprecompile(twice, (Int,))\nend\n")
    with open(folder + "/../Project.toml", "w", encoding="utf-8") as file:
        file.write('name = "Little"\nuuid = "f0c5a8a8-2b5b-4d4f-9d0d-0a7f3f5b9a11"\nversion = "0.1.0"\n')
    program = f'push!(LOAD_PATH, "{INSIDE}/packages"); using Little; println(twice(21).a + twice(21).b)'
    case = Case(tools, root, ["-e", program])
    with recorded.Folder() as traces:
        case.record(traces)
        failures = case.failures
        failures.expect("output", (case.outcome.status, case.outcome.stdout), (0, b"42\n"))
        compiled = [name for _, _, names in os.walk(root.folder + "/depot/compiled") for name in names if name.endswith(".ji")]
        failures.expect("compiled packages", len(compiled), 1)
        acted = [summary for summary in case.summaries for runtime in summary["runtimes"]
                 if runtime["name"] == "julia" and runtime["hooked"] and (runtime["coverage"] or 0) >= 0.999]
        failures.require(f"parent and child were recorded: {len(acted)}", len(acted) == 2)
        return failures


def expressions_of(outcome):
    """Parses the output of julia_expressions.jl. Returns {name of the expression: (trace, {key: number})}."""
    found = re.findall(r"^(\w+) trace=(\S*) (.*)$", outcome.stdout.decode(), re.M)
    return {name: (trace, numbers(rest)) for name, trace, rest in found}


def in_use_of(tools, trace, type_name, *options):
    rows = {row["type"]: row for row in recorded.report(tools, trace, "--view=types", *options)["types"]}
    return [rows.get(type_name, {}).get(key, 0) for key in ("allocated_blocks", "in_use_blocks")]


def tables_of(outcome):
    """The tables that Julia printed: {name: text}."""
    return dict(re.findall(r"^table (\w+)\n(.*?)(?=^table |\Z)", outcome.stdout.decode(), re.M | re.S))


def check_tables(failures, tables):
    """The tables have the last expression, and no other."""
    failures.expect("tables", list(tables), ["types", "flat", "tree"])
    rows = re.findall(r"^ .* (\d+) .*  (Main\.\w+)$", tables.get("types", ""), re.M)
    failures.require("the types have 30 blocks of Main.Other: " + tables.get("types", ""), re.search(r" 30 .*Main\.Other$", tables.get("types", ""), re.M))
    failures.expect("types of other expressions", [name for _, name in rows if name != "Main.Other"], [])
    for table in ("flat", "tree"):
        failures.require("%s has the function: %s" % (table, tables.get(table)), re.search(r"\[julia\] (make|Other)\b", tables.get(table, "")))


def expressions_alone(tools, root):
    """Allogram.jl records single expressions without `allogram run`. Each expression has a trace of its own, with exactly the blocks of the
    expression."""
    failures = tap.Failures()
    outcome = recorded.run(root.command([INSIDE + "/julia_expressions.jl", EXPRESSIONS], [LIBRARY + tools.julia_library, tools.program_inside]), cwd=root.folder)
    failures.expect("status and standard error", (outcome.status, outcome.stderr), (0, b""))
    check_tables(failures, tables_of(outcome))
    found = expressions_of(outcome)
    failures.expect("names of the expressions", list(found), ["function", "top", "value", "error", "named"])
    if failures:
        return failures
    lines = outcome.stdout.decode()
    for words in ("without collector: Allogram: Julia did not collect", "an error: ArgumentError: its own\n",
                  "twice: Allogram: an expression is recorded already\n"):
        failures.require(words, words in lines)
    traces = {name: root.path + trace for name, (trace, _) in found.items()}
    for name, trace in traces.items():
        failures.expect(f"{name}: check's status", recorded.check(tools, trace)[0], 0)
    summary = recorded.report(tools, traces["function"])
    failures.expect("blocks", summary["allocated_blocks"], found["function"][1]["counted"])
    julia = [(runtime["name"], runtime["version"], runtime["hooked"], runtime["coverage"]) for runtime in summary["runtimes"]]
    failures.expect("runtimes", julia, [("julia", "1.5.3", True, 1)])
    failures.expect("lost events, ghost frees", (summary["lost_events"]["total"], summary["ghost_frees"]), (0, 0))
    failures.expect("incomplete stacks", summary["incomplete_stacks"], 0)
    failures.expect("leaves allocated, in use", in_use_of(tools, traces["function"], "Main.Leaf"), [1000, 100])
    failures.expect("data of arrays allocated, in use; the data moved", in_use_of(tools, traces["function"], "Array{Float64, 1} data"), [2, 2])
    stacks = recorded.report(tools, traces["function"], "--view=types", "--type=Main.Leaf", "--sysroot=" + root.path)["stacks"]
    named = [(frame["function"], frame["line"]) for frame in stacks[0]["frames"] if frame["runtime"] == "julia"]
    failures.require(f"stack of the expression: {named}", ("make", 15) in named and named[-1][0] == "_start")
    failures.expect("blocks of an expression at the top level", in_use_of(tools, traces["top"], "Main.Other"), [500, 50])
    failures.expect("variable of the top-level expression", found["top"][1], {"made": 500})
    failures.expect("blocks of a value that stays in use", in_use_of(tools, traces["value"], "Main.Leaf"), [50, 50])
    failures.expect("blocks of another expression in this trace", in_use_of(tools, traces["value"], "Main.Other"), [0, 0])
    failures.expect("blocks in the trace with a given name", in_use_of(tools, traces["named"], "Main.Other"), [30, 3])
    return failures


def example(tools, root):
    """The recorded counts of examples/julia_expression.jl equal those in its first comment."""
    failures = tap.Failures()
    outcome = recorded.run(root.command([INSIDE + "/julia_expression.jl", EXPRESSIONS], [LIBRARY + tools.julia_library]), cwd=root.folder)
    failures.expect("status and standard error", (outcome.status, outcome.stderr), (0, b""))
    trace = root.path + outcome.stdout.decode().strip()
    failures.expect("entries allocated, in use", in_use_of(tools, trace, "Main.Entry"), [10_000, 1_000])
    return failures


def expressions_joined(tools, root):
    """Allogram.jl under `allogram run`: there is one trace, which contains only the blocks of the expressions."""
    case = Case(tools, root, [INSIDE + "/julia_expressions.jl", EXPRESSIONS], variables=["ALLOGRAM_PROGRAM=/bin/echo"])
    with recorded.Folder() as folder:
        case.record(folder)
        failures, found = case.failures, expressions_of(case.outcome)
        # The path of the trace is not valid after chroot. So the commands are only printed, and run here.
        commands = {name: text.split() for name, text in tables_of(case.outcome).items()}
        failures.expect("trace of the tables", {words[1] for words in commands.values()}, {case.trace})
        check_tables(failures, {name: recorded.run([tools.allogram, *words, "--sysroot=" + root.path]).stdout.decode()
                                for name, words in commands.items()})
        failures.expect("status", case.outcome.status, 0)
        failures.expect("traces", {trace for trace, _ in found.values()}, {case.trace})
        failures.expect("coverage", case.runtime("julia")["coverage"], 1)
        # the first expression is recorded although Julia's collector is off
        failures.expect("leaves allocated", in_use_of(tools, case.trace, "Main.Leaf")[0], 7 + 1000 + 50)
        failures.expect("objects of type Other allocated", in_use_of(tools, case.trace, "Main.Other")[0], 500 + 30)
        dump = recorded.run([tools.allogram, "dump", case.trace]).stdout
        marks = re.findall(rb'mark name="expression (\w+)"', dump)
        failures.expect("marks in the dump", marks, [b"begins", b"ends"] * 7)
        return failures


CASES = {
    "counts, types, frees, lines, collections": counted,
    "a filter": filtered,
    "Julia and C in one stack": mixed,
    "an unharmed program": unharmed,
    "programs of many kinds": various,
    "--adapters=none": alone,
    "a sample": sampled,
    "a map for perf": mapped_for_perf,
    "a package is precompiled": precompiled,
    "expressions, alone": expressions_alone,
    "expressions, the example": example,
    "expressions, under run": expressions_joined,
}


def main():
    roots, build = (os.path.abspath(path) for path in sys.argv[1:3])
    root = julia_root.Root(roots, INSIDE)
    root.enter(build)
    root.add("julia_counted.jl", "julia_expressions.jl", "julia_mixed.jl", "julia_various.jl", "julia_wild.jl",
             "../../adapters/julia/Allogram.jl", "../../examples/julia_expression.jl")
    tools = recorded.Tools(build)
    tools.program_inside = "ALLOGRAM_PROGRAM=" + root.add_program(tools.allogram)
    tools.julia_library = os.path.join(build, "adapters/julia/liballogram-julia.so")
    wanted = sys.argv[3:]
    cases = {name: case for name, case in CASES.items() if not wanted or any(word in name for word in wanted)}
    plan = tap.Plan(len(cases))
    for name, case in cases.items():
        plan.run("Julia 1.5.3: " + name, lambda case=case: case(tools, root))
    root.leave()
    sys.exit(plan.status())


main()
