#!/usr/bin/env python3
"""Runs programs in common use with and without allogram. Output, files and exit status must be the same, no event may be lost, and all
traces must be whole.

The counts are compared with those of the judge (counting_preload.c), an independent counter that is preloaded after allogram in the
same process. This works also for programs whose allocations differ between runs. Deterministic programs are run with the judge alone,
too, to show that they allocate the same as with allogram.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import time

import counted
import recorded
import tap

COUNTS = ("allocated_blocks", "allocated_bytes", "freed_blocks", "freed_bytes", "inherited_frees", "ghost_frees",
          "in_use_blocks", "in_use_bytes")
JSON_KEYS = {"in_use_blocks": "in_use_blocks_at_end", "in_use_bytes": "in_use_bytes_at_end"}


# ---- input, the same in every run ------------------------------------------------------------------------------------
def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def make_json(folder):
    source = random.Random(1)
    rows = ['{"id":%d,"name":"user %x","tags":["a%d","b%d"],"score":%.3f,"inner":{"x":null,"y":[1,2,{"z":true}]}}'
            % (i, source.getrandbits(40), i % 17, i % 5, source.random()) for i in range(4000)]
    write(os.path.join(folder, "in.json"), "[" + ",\n".join(rows) + "]\n")


def make_xml(folder):
    rows = ['<row id="%d"><name>n%d</name><v a="1" b="&lt;%d"/></row>' % (i, i * i, i) for i in range(5000)]
    write(os.path.join(folder, "in.xml"), "<all>" + "".join(rows) + "</all>\n")


def make_sql(folder):
    write(os.path.join(folder, "in.sql"), """
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
  insert into t select i, 'text ' || (i * 7919 % 10007), i / 3.0 from n;
create index tb on t(b);
select count(*), sum(c), min(b), max(b) from t;
select b, count(*) from t group by b order by 2 desc, 1 limit 10;
delete from t where a % 3 = 0; vacuum; select count(*) from t; pragma integrity_check;
""")


def make_dot(folder):
    source = random.Random(2)
    edges = ["n%d -> n%d;" % (i, source.randrange(i)) for i in range(1, 120)]
    write(os.path.join(folder, "in.dot"), "digraph g {" + "\n".join(edges) + "}\n")


def make_c(folder):
    functions = ["static int f%d(int x) { return x * %d + (x > %d ? f%d(x - 1) : 0); }" % (i, i, i, i - 1) for i in range(1, 400)]
    write(os.path.join(folder, "in.c"), "#include <stdio.h>\nstatic int f0(int x) { return x; }\n" + "\n".join(functions) +
          '\nint main(void) { printf("%d\\n", f399(3)); return 0; }\n')


def make_lua(folder):
    write(os.path.join(folder, "in.lua"), """
local words, n = {}, 0
for i = 1, 50000 do local k = 'w' .. (i * 7919 % 4001); words[k] = (words[k] or 0) + 1; n = n + #k end
local sorted = {}
for k, v in pairs(words) do sorted[#sorted + 1] = k .. v end
table.sort(sorted)
print(n, #sorted, table.concat(sorted, ','):sub(1, 60))
""")


def make_python(folder):
    write(os.path.join(folder, "in.py"), """
import json, collections, re, threading
data = json.loads(json.dumps([{'k%d' % i: [i] * 5, 'text': 'x' * (i % 50)} for i in range(5000)]))
count = collections.Counter(len(row['text']) for row in data)
big = [bytes(1000 + i) for i in range(2000)]
threads = [threading.Thread(target=lambda: [bytearray(600) for _ in range(3000)]) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(count.items())[:5], len(re.findall('k[0-9]+', json.dumps(data))), sum(map(len, big)))
""")


GIT = """
set -e
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z' GIT_CONFIG_NOSYSTEM=1 HOME=$PWD
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_PAGER=cat
rm -rf repo; git init -q -b trunk repo; cd repo
for i in 1 2 3; do seq $i 500 >file$i; mkdir -p dir$i; cp file$i dir$i/x; git add .; git commit -q -m "number $i"; done
git log --stat --format='%H %s'; git repack -q -a -d; git fsck --strict; git diff HEAD~2 --shortstat
"""


class Program:
    """A program to record. prepare(folder) writes the input; the command runs in this folder; files: names of files that are compared like output."""

    def __init__(self, name, command, prepare=None, files=(), stdin=None, deterministic=False, needs=None, env=None):
        self.name, self.command, self.prepare, self.files = name, command, prepare, files
        self.stdin, self.deterministic, self.env = stdin, deterministic, env or {}
        self.needs = needs or command[0]


PROGRAMS = [
    Program("jq", ["jq", "-S", "map({id, n: (.tags | length), s: (.score * 2)}) | group_by(.n) | length, .[0][0:3]", "in.json"],
            make_json, deterministic=True),
    Program("xmllint", ["xmllint", "--format", "in.xml"], make_xml, deterministic=True),
    Program("sqlite3", ["sqlite3", ":memory:"], make_sql, stdin="in.sql", deterministic=True),
    Program("dot", ["dot", "-Tsvg", "in.dot", "-o", "out.svg"], make_dot, files=["out.svg"]),
    Program("git", ["sh", "-c", GIT], needs="git"),
    Program("gcc", ["gcc", "-O1", "-c", "in.c", "-o", "out.o"], make_c, files=["out.o"]),
    Program("gcc_links", ["gcc", "-pipe", "in.c", "-o", "out"], make_c, files=["out"]),
    Program("python3", ["/usr/bin/python3", "-I", "in.py"], make_python),
    Program("lua5.4", ["lua5.4", "in.lua"], make_lua, deterministic=True),
    Program("lua5.3", ["lua5.3", "in.lua"], make_lua, deterministic=True),
    Program("bash", ["bash", "-c", "for i in {1..20}; do x=$(echo $i | tr 0-9 a-j); y+=$x; done; echo $y | sort | wc -c"]),
    Program("z3", ["z3", "-in"], lambda folder: write(os.path.join(folder, "in.smt2"), """
(declare-fun x () Int) (declare-fun y () Int) (declare-fun z () Int)
(assert (and (> x 0) (> y 0) (> z 0) (< x 40) (< y 40) (< z 40)))
(assert (= (+ (* x x) (* y y)) (* z z))) (assert (> x y)) (check-sat)
(assert (> y 12)) (check-sat)"""), stdin="in.smt2"),
]


def read_files(folder, program):
    contents = {}
    for name in program.files:
        with open(os.path.join(folder, name), "rb") as file:
            contents[name] = file.read()
        os.unlink(os.path.join(folder, name))
    return contents


def compare_summary(failures, summary, counts, what):
    for key in COUNTS:
        failures.expect("%s: %s" % (what, key), summary[JSON_KEYS.get(key, key)], counts[key])


def compare_traces(failures, tools, traces):
    for trace in traces:
        summary = recorded.report(tools, trace)
        what = "%s %s" % (summary["trace"]["pid"], summary["trace"]["exe"])
        failures.expect(what + ": lost events", summary["lost_events"]["total"], 0)
        failures.expect(what + ": end", summary["trace"]["end"], "exit")
        status, _ = recorded.check(tools, trace)
        failures.expect(what + ": check", status, 0)


def chain(tools, command):
    """Returns a command that preloads the judge after allogram in the same process, so that the judge counts the calls that allogram passes
    on."""
    return ["sh", "-c", 'LD_PRELOAD="$LD_PRELOAD:$0" exec "$@"', tools.judge] + command


def compare_chained(failures, tools, traces, images):
    """Checks that each process that the judge counted has a trace with the same numbers. The first trace is not compared: it belongs to the
    shell that starts the command."""
    failures.fail_unless("the judge counted no process", len(images) > 0)
    for _, summary, counts in recorded.pair_up(tools, traces[1:], images):
        compare_summary(failures, summary, counts, "chained: %d %s" % (counts["pid"], counts["exe"]))


def run_program(tools, program):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        if program.prepare:
            program.prepare(folder)

        def how(env=None):
            stdin = program.stdin and os.path.join(folder, program.stdin)
            return {"cwd": folder, "stdin": stdin, "env": dict(program.env, **(env or {}))}

        plain = recorded.run(program.command, **how())
        plain_files = read_files(folder, program)
        failures.expect("status of the plain run", plain.status, 0)

        outcome, traces = recorded.record(tools, program.command, folder, **how())
        failures.expect("status", outcome.status, 0)
        failures.expect("standard output", outcome.stdout, plain.stdout)
        failures.expect("standard error", outcome.stderr, plain.stderr)
        failures.fail_unless("the files that the program wrote differ", read_files(folder, program) == plain_files)
        failures.fail_unless("no trace", len(traces) > 0)
        compare_traces(failures, tools, traces)

        if program.deterministic:
            judged = os.path.join(folder, "judged")
            os.mkdir(judged)
            recorded.run(program.command, **how(counted.environment(tools.judge, judged)))
            compare_summary(failures, recorded.report(tools, traces[0]), counted.read(judged)[0], "judge alone")
        for trace in traces:
            os.unlink(trace)

        chained = os.path.join(folder, "chained")
        os.mkdir(chained)
        outcome, traces = recorded.record(tools, chain(tools, program.command), chained,
                                          **how({"COUNTING_FOLDER": chained}))
        failures.expect("chained: standard output", outcome.stdout, plain.stdout)
        compare_chained(failures, tools, traces, counted.read(chained))
    return failures


def run_redis(tools):
    """Records a server under load, with the judge in the same process. The load generator is not recorded."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        socket = os.path.join(folder, "s")
        command = ["redis-server", "--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "", "--appendonly", "no"]
        server = subprocess.Popen([tools.allogram, "run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--",
                                   *chain(tools, command)], env=dict(os.environ, COUNTING_FOLDER=folder),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            for _ in range(100):
                if recorded.run(["redis-cli", "-s", socket, "ping"]).stdout == b"PONG\n":
                    break
                time.sleep(0.1)
            else:
                failures.append("the server does not answer")
            for test in (["-t", "set,get,lpush,hset,zadd", "-r", "1000"], ["-t", "mset", "-P", "8", "-d", "500"]):
                load = recorded.run(["redis-benchmark", "-s", socket, "-n", "4000", "-c", "20", "-q", *test])
                failures.expect("status of redis-benchmark", load.status, 0)
            recorded.run(["redis-cli", "-s", socket, "bgsave"])  # the command bgsave forks the server
            time.sleep(0.5)
            info = recorded.run(["redis-cli", "-s", socket, "info", "memory"]).stdout
            failures.fail_unless("the server does not report jemalloc as its allocator", b"mem_allocator:jemalloc" in info)
            recorded.run(["redis-cli", "-s", socket, "shutdown", "nosave"])
            _, stderr = server.communicate(timeout=20)
            failures.expect("status", server.returncode, 0)
            failures.expect("standard error", stderr, b"")
        finally:
            if server.poll() is None:
                server.kill()
        traces = recorded.wait_until_ended(tools, folder)
        compare_traces(failures, tools, traces)
        compare_chained(failures, tools, traces, counted.read(folder))
    return failures


def run_preloaded(tools, library):
    """If the user preloads a library with an allocator, this allocator still serves the program. allogram's library is preloaded before the
    user's library."""
    failures = tap.Failures()
    for name in ("temporary", "family", "short_threads"):
        with recorded.Folder() as folder:
            command = [tools.program(name)]
            plain = recorded.run(command, env={"LD_PRELOAD": library})
            recorded.run(command, env=counted.environment(tools.judge + ":" + library, folder))
            outcome, traces = recorded.record(tools, command, folder, env={"LD_PRELOAD": library})
            failures.expect(name + ": output", outcome.stdout, plain.stdout)
            failures.expect(name + ": status", outcome.status, plain.status)
            failures.expect(name + ": traces", len(traces), 1)
            compare_summary(failures, recorded.report(tools, traces[0]), counted.read(folder)[0], name)
    return failures


def compare_own_allocator(failures, tools, program, counts, options=(), env=None, has_truth=False):
    """Records a program with a malloc of its own. The expected counts are constants of this test, because the functions of a preloaded judge
    do not replace the program's own malloc. A program with has_truth writes the sums of the whole process to TRUTH_FILE."""
    name = " ".join([os.path.basename(program), *options])
    with recorded.Folder() as folder:
        plain = recorded.run([program], env=env)
        failures.expect(name + ": status of the plain run", plain.status, 0)
        truth = os.path.join(folder, "truth")
        outcome, traces = recorded.record(tools, [program], folder, options, env={**(env or {}), "TRUTH_FILE": truth})
        failures.expect(name + ": output", outcome.stdout, plain.stdout)
        failures.expect(name + ": standard error", outcome.stderr, plain.stderr)
        failures.expect(name + ": status", outcome.status, 0)
        if not traces:
            failures.append(name + ": no trace")
            return
        compare_traces(failures, tools, traces)
        sites = recorded.report(tools, traces[0], "--view=sites")["sites"]
        main = [site["total"] for site in sites if site["function"] == "main"]
        failures.expect(name + ": sites of main", len(main), 1)
        for key, value in counts.items():  # the sums of main and its callees do not contain blocks of the allocator's start
            failures.expect("%s: %s" % (name, key), main and main[0][key], value)
        if has_truth:
            summary = recorded.report(tools, traces[0])
            notes = [row["note"] for row in summary["runtimes"] if row["name"] == "libc"]
            failures.require(name + ": the note says that inlined calls are not recorded: %s" % notes, "copies of it" in notes[0])
            for key, value in recorded.counts_in(truth).items():
                failures.expect("%s: %s of the process" % (name, key), summary[key], value)


def build_program(source, program, flags):
    """Builds a program of tests/programs. Returns the compiler's error messages."""
    build = recorded.run(["gcc", "-D_GNU_SOURCE", "-O2", "-g", "-fno-builtin", recorded.source_of(source), "-o", program, *flags])
    return "" if build.status == 0 else build.stderr.decode()[:300]


def run_own_allocator(tools, archive, flags):
    """Records programs that are linked statically with another malloc."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for source, counts in (("temporary.c", {"allocated_blocks": 6010, "freed_blocks": 6010, "temporary_blocks": 4001}),
                               ("longjmp_deep.c", {"allocated_blocks": 60600, "allocated_bytes": 969600}),
                               ("fork_child.c", {"allocated_blocks": 101, "allocated_bytes": 3201, "freed_blocks": 60}),
                               ("grown_arrays.c", {"allocated_blocks": 300, "allocated_bytes": 31000, "freed_blocks": 300})):
            program = os.path.join(folder, source[:-2])
            error = build_program(source, program, [archive, *flags, "-lpthread", "-ldl", "-lm"])
            if error:
                return ["cannot link with %s: %s" % (archive, error)]
            compare_own_allocator(failures, tools, program, counts)
    return failures


def run_own_malloc(tools):
    """The operators new and delete of libstdc++, and libc's reallocarray, call the program's own malloc. The functions by which allogram
    replaces the operators and reallocarray must call the program's malloc, too. libstdc++ also allocates when it is initialized; that block
    is in the sums of the process."""
    failures = tap.Failures()
    compare_own_allocator(failures, tools, tools.program("cxx_own_malloc"),
                          {"allocated_blocks": 400, "allocated_bytes": 15400, "freed_blocks": 400}, has_truth=True)
    return failures


THREAD_SANITIZER = ["-fsanitize=thread"]


def run_thread_sanitizer(tools):
    """The library of the thread sanitizer replaces functions of libc, and its functions do not work before the library has started.
    allogram's library starts earlier, so it must not call these functions during its start."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for source, counts in (("temporary.c", {"allocated_blocks": 6010, "freed_blocks": 6010, "temporary_blocks": 4001}),
                               ("fork_child.c", {"allocated_blocks": 101, "allocated_bytes": 3201, "freed_blocks": 60})):
            program = os.path.join(folder, source[:-2])
            error = build_program(source, program, THREAD_SANITIZER)
            if error:
                return [error]
            compare_own_allocator(failures, tools, program, counts)
    return failures


def can_build(flags):
    with recorded.Folder() as folder:
        return not build_program("temporary.c", os.path.join(folder, "program"), flags)


def run_nested_calls(tools):
    """Records an allocator in a library, linked or preloaded, whose functions call each other by their public names. Each block must count
    once. At a sampling interval of one byte every block of 24 bytes and more is a sample."""
    failures = tap.Failures()
    counts = {"allocated_blocks": 600, "allocated_bytes": 83000, "freed_blocks": 600, "freed_bytes": 83000}
    for end in ("", "_now"):
        for options in ((), ("--mode=sample", "--interval=1")):
            compare_own_allocator(failures, tools, tools.program("nested_calls" + end), counts, options)
        preload = {"LD_PRELOAD": tools.program("libnested_malloc%s.so" % end)}
        for program, counts_of in (("temporary", {"allocated_blocks": 6010, "freed_blocks": 6010, "temporary_blocks": 4001}),
                                   ("grown_arrays", {"allocated_blocks": 300, "allocated_bytes": 31000, "freed_blocks": 300})):
            compare_own_allocator(failures, tools, tools.program(program), counts_of, env=preload)
    return failures


LIBRARIES = "/usr/lib/x86_64-linux-gnu/"
PRELOADED = {"jemalloc_preloaded": LIBRARIES + "libjemalloc.so.2", "mimalloc_preloaded": LIBRARIES + "libmimalloc.so.2.0"}
STATIC = {
    "jemalloc_static": (LIBRARIES + "libjemalloc.a", ["-lstdc++"]),
    "tcmalloc_static": (LIBRARIES + "libtcmalloc_minimal.a", ["-lstdc++"]),
    "mimalloc_static": ("{build}/mimalloc/mimalloc.o", []),
}


def make_mimalloc(build):
    """Builds mimalloc from Debian's source package, if the package can be downloaded. Debian has no static library of mimalloc."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mimalloc_from_source.sh")
    subprocess.run([script, os.path.join(build, "mimalloc")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


LONG = ["bash", "git", "redis-server", "gcc_links", *STATIC]  # `make check` leaves them out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    tools = recorded.Tools(options.build)
    cases = [(program.name, program.needs, lambda program=program: run_program(tools, program)) for program in PROGRAMS]
    cases.append(("redis-server", "redis-server", lambda: run_redis(tools)))
    cases += [(name, path, lambda path=path: run_preloaded(tools, path)) for name, path in PRELOADED.items()]
    for name, (path, flags) in STATIC.items():
        path = path.format(build=tools.build)
        cases.append((name, path, lambda path=path, flags=flags: run_own_allocator(tools, path, flags)))
    lazy = tools.program("liblazy_objects.so")
    cases.append(("lazy_objects", lazy, lambda: run_preloaded(tools, lazy)))
    cases.append(("nested_calls", tools.program("nested_calls"), lambda: run_nested_calls(tools)))
    cases.append(("own_malloc", tools.program("cxx_own_malloc"), lambda: run_own_malloc(tools)))
    cases = [case for case in cases if not options.cases or case[0] in options.cases]
    if os.environ.get("AG_TEST_SCALE") == "brief":
        cases = [case for case in cases if case[0] not in LONG]
    if any(case[0] == "mimalloc_static" for case in cases):
        make_mimalloc(tools.build)
    sanitized = "thread_sanitizer"
    has_sanitized = not options.cases or sanitized in options.cases
    results = tap.Plan(len(cases) + has_sanitized)
    for name, needs, case in cases:
        if shutil.which(needs) is None and not os.path.exists(needs):
            results.skip(name, "%s is not here" % needs)
        else:
            results.run(name, case)
    if has_sanitized and can_build(THREAD_SANITIZER):
        results.run(sanitized, lambda: run_thread_sanitizer(tools))
    elif has_sanitized:
        results.skip(sanitized, "gcc cannot link with -fsanitize=thread")
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
