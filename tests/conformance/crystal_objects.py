#!/usr/bin/env python3
"""Records Crystal programs, in a debug and a release build. The test checks the types of all objects; the stacks of objects, also through a
C library; frees after GC.collect; four worker threads; the type names of a release build from a file; the message about a wrong file;
trackers; and a recording of the Crystal compiler itself. tests/roots runs these cases with a newer release of Crystal.

The compiler needs half a minute for a release build, nearly all of it for the code that prints the stacks of exceptions. The test leaves
out this code (-Dwithout_traces), unless AG_TEST_SCALE is full: then the release build has this code, and code for JSON."""

import concurrent.futures
import os
import re
import sys

import place
import recorded
import tap
import views_agree

BINDING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "adapters", "crystal", "allogram.cr")
IS_FULL = os.environ.get("AG_TEST_SCALE") == "full"
N = 1000000 if IS_FULL else 20000
BOUND = 10

EXACT = {"Point": 2 * N + 4 * N, "Node(Int64)": 5 * N, "Node(Int32)": N, "Hash(Int32, Point)": 1, "Called": BOUND}
EXACT_KINDS = {"Left": N, "Right": 2 * N}  # one line allocates objects of both types, in two branches
EXACT_JSON = {"Hash(String, JSON::Any)": N, "Array(JSON::Any)": 1}
HELLO_1_6 = {"Crystal::SpinLock": 19, "IO::FileDescriptor": 4, "Mutex": 2}
HELLO_1_14 = {"IO::FileDescriptor": 4, "Hash(Thread, Crystal::EventLoop::Event)": 8, "Hash(Thread, Deque(Fiber))": 8}
HELLO = {"1.6": HELLO_1_6, "1.14": HELLO_1_14}  # counted with a compiler whose programs print each object that they allocate


class Programs:
    """The test programs. They are compiled in parallel; a case waits for the program that it needs."""

    def __init__(self, where):
        self.where = where
        self.version = where.run(["crystal", "--version"]).stdout.decode().split()[1]
        source = where.bring(recorded.source_of("crystal_objects.cr"))
        binding = where.bring(recorded.source_of("crystal_binding.c"))
        with open(os.path.join(where.folder, "hello.cr"), "w", encoding="utf-8") as hello:
            hello.write('puts "Hello world!"\n')
        library = where.path("binding.o")
        outcome = where.run(["gcc", "-g", "-O1", "-c", binding, "-o", library])
        if outcome.status != 0:
            raise RuntimeError("gcc: " + outcome.stderr.decode(errors="replace")[:300])
        linked = "--link-flags=" + library
        workers = concurrent.futures.ThreadPoolExecutor(2)
        extras = ["-Dwith_json"] if IS_FULL else ["-Dwithout_traces"]
        self.built = {
            "release": workers.submit(self.build, "release", source, "--release", *extras, linked),
            "hello": workers.submit(self.build, "hello", where.path("hello.cr")),
            "hello_threads": workers.submit(self.build, "hello_threads", where.path("hello.cr"), "-Dpreview_mt"),
            "debug": workers.submit(self.build, "debug", source, "-Dwith_json", "-Dpreview_mt", linked),
            "wild": workers.submit(self.build_wild),
        }
        buffers = where.bring(recorded.source_of("crystal_buffers.cr"))
        for name, options in (("buffers", []), ("buffers_bare", ["--release", "--no-debug"])):
            self.built[name] = workers.submit(self.build, name, buffers, "-Dwithout_traces", *options)

    def build(self, name, source, *options, env=None):
        env = {"CRYSTAL_CACHE_DIR": self.where.path("cache"), "CRYSTAL_DUMP_TYPE_ID": "1", **(env or {})}
        outcome = self.where.run(["crystal", "build", *options, source, "-o", self.where.path(name)], env=env, timeout=600)
        if outcome.status != 0:
            raise RuntimeError("crystal build: " + outcome.stderr.decode(errors="replace")[:300])
        return self.where.path(name), outcome.stdout

    def build_wild(self):
        """Builds crystal_wild.cr. allogram.cr is in the same folder, where the compiler's `require` searches last."""
        self.where.bring(BINDING)
        source = self.where.bring(recorded.source_of("crystal_wild.cr"))
        path = self.where.run(["crystal", "env", "CRYSTAL_PATH"]).stdout.decode().strip()
        return self.build("wild", source, env={"CRYSTAL_PATH": "%s:%s" % (path, self.where.path(""))})

    def __getitem__(self, name):
        """Waits for the build NAME. Returns the path of the program, and the table of its type numbers, which the compiler printed."""
        return self.built[name].result()


def types_of(where, trace, *options):
    return {row["type"]: row for row in where.report(trace, "--view=types", *options)["types"]}


def judge(failures, where, program, folder, wanted, arguments=(), options=(), report_options=()):
    outcome, trace = where.record([program, *arguments], folder, options=options, env={"CRYSTAL_WORKERS": "4"})
    failures.expect("status", outcome.status, 0)
    summary = where.report(trace)
    for name in ("bdwgc", "crystal"):
        failures.require("the adapter %s has hooked its runtime" % name, any(row["name"] == name and row["hooked"] for row in summary["runtimes"]))
    coverage = [row["coverage"] for row in summary["runtimes"] if row["name"] == "bdwgc"]
    failures.require("coverage %s" % coverage, coverage and coverage[0] is not None and 0.999 <= coverage[0] <= 1)
    failures.expect("lost events, cut stacks, ghost frees", (summary["lost_events"]["total"], summary["truncated_stacks"], summary["ghost_frees"]), (0, 0, 0))
    types = types_of(where, trace, *report_options)
    for name, blocks in wanted.items():
        failures.expect(name, types.get(name, {}).get("allocated_blocks"), blocks)
    return trace, types


def stacks_of(where, trace, name, *options):
    view = where.report(trace, "--view=types", "--type=" + name, *options)["stacks"]
    return [[frame["function"] for frame in row["frames"]] for row in view]


def is_whole(stack):
    """Whether the stack goes down to the start of the thread or of the fiber."""
    if "Fiber#run" in stack:
        return len(stack) == stack.index("Fiber#run") + 2 and stack[-1].startswith("->(") and "/fiber.cr:" in stack[-1]
    return stack[-1] == "_start" and "__crystal_main" in stack


def through_the_library(failures, where, trace):
    """Checks the stacks of a program in which Crystal calls a C function. The C function allocates with malloc, and calls a Crystal function,
    which allocates an object."""
    stacks = stacks_of(where, trace, "Called")
    failures.require("an object made in a callback has one stack, from the callback to the C library: %s" % stacks, len(stacks) == 1 and stacks[0][0] == "Called.new" and
                     stacks[0][1].startswith("->(") and stacks[0][2:4] == ["kept_and_called", "bound"])
    failures.require("the stacks go down to the start of the thread", all(map(is_whole, stacks)))
    own = [row for row in where.report(trace, "--view=sites")["sites"] if row["function"] == "kept_and_called"]
    failures.expect("blocks of malloc in the C library", [(row["own"]["allocated_blocks"], row["own"]["allocated_bytes"], row["runtime"]) for row in own],
                    [(BOUND, BOUND * 12345, "c")])
    leaks = where.report(trace, "--view=leaks", "--focus=^kept_and_called$")["stacks"]
    functions = [[frame["function"] for frame in row["frames"]] for row in leaks]
    mixed = [stack for stack in functions if stack[0] == "kept_and_called"]
    failures.require("one stack goes through C and Crystal: %s" % mixed, len(mixed) == 1 and mixed[0][1] == "bound" and is_whole(mixed[0]))


def debug_with_four_workers(programs, where):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace, types = judge(failures, where, programs["debug"][0], folder, {**EXACT, **EXACT_KINDS, **EXACT_JSON}, [str(N)])
        failures.expect("blocks in use of four types", [types[name]["in_use_blocks"] for name in ("Left", "Right", "Hash(String, JSON::Any)", "Node(Int64)")],
                        [N, 2 * N, N, 5 * N])
        failures.require("unreachable objects are freed", types["Node(Int32)"]["in_use_blocks"] < N // 100)
        failures.require("the memory of hashes has a type", types["Pointer(Hash::Entry(Int32, Point))"]["allocated_blocks"] > 5)
        points = stacks_of(where, trace, "Point")
        failures.expect("innermost frames of the stacks", {stack[0] for stack in points}, {"Point.new"})
        failures.require("a stack begins in a fiber", any("Fiber#run" in stack for stack in points))
        failures.require("a stack contains the function `points`", any("points" in stack for stack in points))
        failures.require("the stacks of points are whole: %s" % points, all(map(is_whole, points)))
        lines = recorded.summary_lines(where.tools, trace, *where.options)
        failures.expect("files of the summary's first lines", {place.split(":")[0] for _, place in lines[:5]}, {"crystal_objects.cr"})
        through_the_library(failures, where, trace)
        collections = where.report(trace, "--view=gc")["collections"]
        failures.require("collections are reported", collections)
        failures.require("Crystal's code caused collections", where.report(trace, "--view=gc", "--runtime=crystal")["collections"])
    return failures


def hello(programs, where):
    failures = tap.Failures()
    wanted = HELLO.get(programs.version.rpartition(".")[0], {})
    failures.require("the expected counts of this release are known: " + programs.version, wanted)
    with recorded.Folder() as folder:
        trace, types = judge(failures, where, programs["hello"][0], folder, wanted)
        if "Crystal::SpinLock" in wanted:
            view = where.report(trace, "--view=types", "--type=Crystal::SpinLock", "--frames=3", "--min-count=2")["stacks"]
            failures.extend(views_agree.runtimes_agree(where.tools, trace, ("crystal", "bdwgc"), where.options))
            failures.require("stacks of the spin locks", len(view) == 4 and all(
                row["frames"][0]["function"] == "Crystal::SpinLock.new" and row["frames"][0]["runtime"] == "crystal" and
                row["frames"][2]["function"] == "IO::FileDescriptor.new" for row in view))
        failures.fail_unless("a type has a number in place of its name: %s" % sorted(name for name in types if name), all(not name.startswith("#") for name in types if name))
    return failures


def hello_with_threads(programs, where):
    """A program with four worker threads that allocates little. The collector counts its own records of the threads as allocated memory, so
    these records must be in the trace, too."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, types = judge(failures, where, programs["hello_threads"][0], folder, {})
        failures.require("the fibers of the threads have a type", types.get("Fiber", {}).get("allocated_blocks", 0) >= 4)
    # On one CPU, the program often exits while a thread is inside of an allocation, which the collector has counted already.
    for _ in range(8):
        with recorded.Folder() as folder:
            _, trace = where.record(["taskset", "-c", "0", programs["hello_threads"][0]], folder, env={"CRYSTAL_WORKERS": "4"})
            coverage = [row["coverage"] for row in where.report(trace)["runtimes"] if row["name"] == "bdwgc"]
            failures.require("coverage on one CPU: %s" % coverage, coverage and 0.999 <= coverage[0] <= 1)
    return failures


def kinds(version):
    """Returns the expected types of the line that allocates objects of two types, in two branches. The compiler of 1.14 joins the two
    branches into one allocation and records only its line. allogram cannot know whether a block of such an allocation begins with a type
    number, so it shows the file and line of the allocation as type."""
    with open(recorded.source_of("crystal_objects.cr"), encoding="utf-8") as source:
        line = 1 + next(i for i, text in enumerate(source) if "Left.new : Right.new" in text)
    return EXACT_KINDS if version.startswith("1.6.") else {"(either @ crystal_objects.cr:%d)" % line: 3 * N}


def release(programs, where):
    failures = tap.Failures()
    program, table = programs["release"]
    numbers = os.path.join(where.folder, "types.txt")
    with open(numbers, "wb") as file:
        file.write(table)
    wanted = {**EXACT, **kinds(programs.version), **(EXACT_JSON if IS_FULL else {})}
    with recorded.Folder() as folder:
        trace, types = judge(failures, where, program, folder, wanted, [str(N)], report_options=["--crystal-types=" + numbers])
        failures.require("buffers that Crystal's library makes are distinguished by the lines that call it: %s" % sorted(map(str, types)),
                         any(re.match(r"buffer \(\S+ @ hash\.cr:\d+ < points @ crystal_objects\.cr:\d+\)$", str(name)) for name in types))
        bare = types_of(where, trace)
        failures.require("a label with file and line: %s" % sorted(str(name) for name in bare)[:5],
                         any(name and name.startswith("#") and "(new @ crystal_objects.cr:" in name and row["allocated_blocks"] == 5 * N
                             for name, row in bare.items()))
        source = recorded.source_of("crystal_objects.cr")
        for what, text in (("/no/such/file", "No such file"), (source, "CRYSTAL_DUMP_TYPE_ID")):
            outcome = recorded.run([where.tools.allogram, "report", trace, "--crystal-types=" + what])
            failures.require("%s: %s" % (what, outcome.stderr), outcome.status != 0 and text in outcome.stderr.decode() and
                             outcome.stderr.count(b"\n") == 1)
    with recorded.Folder() as folder:
        _, trace = where.record([program, str(N)], folder, options=["--mode=sample", "--interval=4K", "--seed=5"])
        types = types_of(where, trace, "--crystal-types=" + numbers)
        # Nodes stay in use, most points are freed soon. In both cases allogram must read the type number in time, that is before a free.
        for name in ("Node(Int64)", "Point"):
            low, high = types[name]["allocated_blocks_ci95"]
            failures.require("sampled %s: %d between %d and %d" % (name, EXACT[name], low, high), 0.85 * low <= EXACT[name] <= 1.15 * high)
    if where.root:
        return failures  # `run` is outside of the root and the preloaded library inside, so the file has two different paths
    with recorded.Folder() as folder:
        judge(failures, where, program, folder, wanted, [str(N)], options=["--crystal-types=" + where.path("types.txt")])
    return failures


def is_object(name):
    """Whether the name of a row is a type of objects, and neither the source line of an allocation nor a pointer to a buffer."""
    return name is not None and name[0] not in "(#" and not name.startswith(("Pointer(", "buffer "))


def release_without_lines(programs, where):
    """The program's arrays, hashes and closures begin with numbers that look like the numbers of types. In a release build without debug
    information the functions that make buffers are inlined and invisible. For each type the report must have the number of objects that the
    program counted, and the same number as for a build with debug information. No buffer may be reported as an object."""
    failures = tap.Failures()
    n = 5000
    found = {}
    for name in ("buffers", "buffers_bare"):
        program, table = programs[name]
        numbers = os.path.join(where.folder, name + ".txt")
        with open(numbers, "wb") as file:
            file.write(table)
        with recorded.Folder() as folder:
            outcome, trace = where.record([program, str(n)], folder)
            failures.expect("status", outcome.status, 0)
            wanted = {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in outcome.stdout.decode().splitlines()}
            failures.expect("counts that the program printed", len(wanted), 4)
            types = {row: counts["allocated_blocks"] for row, counts in types_of(where, trace, "--crystal-types=" + numbers).items()}
            for row, blocks in wanted.items():
                failures.expect("%s: %s" % (name, row), types.get(row), blocks)
            found[name] = {row: blocks for row, blocks in types.items() if is_object(row)}
            known = set(re.findall(r" - (\d+)}: ", table.decode()))
            shown = {row.split()[0][1:] for row in types_of(where, trace) if row and row[0] == "#"}
            failures.expect("%s: numbers that no type of the program has" % name, shown - known, set())
    bare = found["buffers_bare"]
    failures.expect("types with another count than in the build with debug information", {row for row in bare if bare[row] != found["buffers"].get(row)}, set())
    removed = set(found["buffers"]) - set(bare) # the optimizer of 1.14 removes one object that the program does not use
    failures.require("the release build has nearly all types: it lacks %s of %d" % (removed, len(found["buffers"])), len(removed) <= 1 and len(bare) > 20)
    return failures


def wild(programs, where):
    """A program with generics, modules, structs, closures, exceptions, finalizers, the collections of Crystal's library, reused objects,
    and memory that the program frees itself."""
    failures = tap.Failures()
    n = 1000
    program = programs["wild"][0]
    plain = where.run([program, str(n)])
    wanted = {name: int(blocks) for name, blocks in (line.rsplit(" ", 1) for line in plain.stdout.decode().splitlines())}
    failures.require("the program printed the counts of all types: %s" % wanted, len(wanted) == 11)
    stripped = where.path("stripped")
    failures.expect("status of strip", where.run(["strip", "-o", stripped, program]).status, 0)
    with recorded.Folder() as folder:
        trace, types = judge(failures, where, program, folder, wanted, [str(n)])
        failures.require("finalized objects are freed", types["Finished"]["in_use_blocks"] < n // 10)
        failures.require("structs are not counted as objects", "Flat" not in types)
        own = {row["function"]: row["own"] for row in where.report(trace, "--view=sites")["sites"]}
        failures.expect("blocks that the program frees itself: allocated, enough are freed", (own["by_hand"]["allocated_blocks"], own["by_hand"]["freed_blocks"] >= n + n // 2), (2 * n, True))
    with recorded.Folder() as folder:
        outcome, trace = where.record([stripped, str(n)], folder)
        failures.expect("status, output of the stripped program", (outcome.status, outcome.stdout), (0, plain.stdout))
        coverage = [row["coverage"] for row in where.report(trace)["runtimes"] if row["name"] == "bdwgc"]
        failures.require("coverage without symbols %s" % coverage, coverage and 0.999 <= coverage[0] <= 1)
    return failures


def tracked(programs, where):
    """A tracker is a set of functions of the program (allogram.h) that allogram calls for blocks. The tracker is called once for each object,
    after the program has written the object's type number, and once when the object is freed, while the collector's lock is free."""
    failures = tap.Failures()
    n = 1000
    program = programs["wild"][0]
    failures.expect("without a recording no function of the tracker is called", where.run([program, str(n), "track"]).stdout, b"false 0 0 0 0 0 %d\n" % n)
    for options in ([], ["--mode=sample", "--interval=64K"]):
        with recorded.Folder() as folder:
            outcome, _ = where.record([program, str(n), "track"], folder, options=options)
            words = outcome.stdout.decode().split()
            failures.expect("status", (outcome.status, words[0]), (0, "true"))
            created, died, of_any, wrong, after, kept = map(int, words[1:])
            failures.expect("created, of another type, after the end", (created, wrong, after), (21 * n, 0, 0))
            failures.require("all or nearly all objects died: %d" % died, 20 * n - 20 <= died <= 20 * n and kept == n)
            failures.require("calls of the tracker for objects of any type: %d" % of_any, 22 * n <= of_any < 22 * n + 50)
    return failures


def compiler(programs, where):
    """Records the Crystal compiler, which is itself a Crystal program (Debian's is stripped); all its memory must be recorded. In
    a full run the compiler builds the same program as without allogram. Otherwise the compiler stops before it calls LLVM, a library
    of another language, to generate machine code."""
    failures = tap.Failures()
    made = where.path("again")
    if IS_FULL:
        programs.build("again", where.path("hello.cr"))
        with open(where.root + made, "rb") as file:
            plain = file.read()
    with recorded.Folder() as folder:
        wish = ["-o", made] if IS_FULL else ["--no-codegen"]
        outcome, _ = where.record(["crystal", "build", where.path("hello.cr"), *wish], folder,
                                  env={"CRYSTAL_CACHE_DIR": where.path("cache"), "CRYSTAL_DUMP_TYPE_ID": "1"}, timeout=600)
        failures.expect("status and standard error", (outcome.status, outcome.stderr), (0, b""))
        if IS_FULL:
            failures.expect("output of the compiled program", where.run([made]).stdout, b"Hello world!\n")
            with open(where.root + made, "rb") as file:
                failures.require("the compiled program is the same as without allogram", file.read() == plain)
        summaries = [where.report(trace) for trace in recorded.traces_in(folder)]
        failures.expect("lost events, incomplete stacks", {(of["lost_events"]["total"], of["incomplete_stacks"]) for of in summaries}, {(0, 0)})
        itself = max(summaries, key=lambda of: of["allocated_blocks"])
        coverage = {row["name"]: row["coverage"] for row in itself["runtimes"]}.get("bdwgc")
        failures.require("coverage of the compiler: %s" % coverage, coverage is not None and 0.999 <= coverage <= 1)
        failures.require("blocks: %d" % itself["allocated_blocks"], itself["allocated_blocks"] > 1_000_000)
        failures.require("collections of the compiler", any(row["runtime"] == "bdwgc" for row in itself.get("gc") or []))
    return failures


CASES = (hello, hello_with_threads, debug_with_four_workers, release, release_without_lines, wild, tracked, compiler)


def run_cases(plan, where):
    if not where.has("crystal"):
        for case in CASES:
            plan.skip(case.__name__, "crystal is not installed")
        return
    programs = Programs(where)
    for case in CASES:
        plan.run("Crystal %s: %s" % (programs.version, case.__name__), lambda case=case: case(programs, where))


def main():
    tools = recorded.tools_of_arguments()
    plan = tap.Plan(len(CASES))
    with place.Place(tools) as where:
        run_cases(plan, where)
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
