#!/usr/bin/env python3
"""attach_runtimes_tests ALLOGRAM PROGRAMS: attaches repeatedly to programs with a language runtime or a garbage collector, and detaches.
Most of these runtimes can be recorded from any moment on. Prints TAP.

For each runtime: allocations, types and frees between attach and detach must be exact. Only frees of blocks that were allocated before the
attach may be ghost frees (frees of blocks whose allocation is not in the trace). The program must work as without allogram, and nothing of
allogram may be left in it. If an adapter (allogram's code for a runtime) cannot record its runtime, one line must say why."""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile

from attached import IS_FULL, Attached, Target, image, maps
from cases import PROGRAMS, Skip, run_all, test

HERE = os.path.dirname(os.path.abspath(__file__))
CYCLES = 200 if IS_FULL else 3
N = 20000
MAY_LIVE = 2 # blocks that a conservative collector may keep, because a register or an old stack frame still points to them
BUILD = tempfile.TemporaryDirectory()
COMMANDS = {
    "late_ocaml": ("ocamlfind", "ocamlopt", "-g", "late_ocaml.ml", "-o", "late_ocaml"),
    "late_crystal": ("crystal", "build", "-Dwithout_traces", "late_crystal.cr", "-o", "late_crystal"),
}


def build(name):
    """Returns the program's path, or a Skip if its compiler is missing."""
    command = COMMANDS[name]
    if not shutil.which(command[0]):
        return Skip(f"{command[0]} is not installed (tools/install_packages.sh)")
    folder = os.path.join(BUILD.name, name)
    os.mkdir(folder)
    source = next(word for word in command if word.startswith(name + "."))
    shutil.copy(os.path.join(HERE, source), folder)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=280,
                          env={**os.environ, "CRYSTAL_CACHE_DIR": os.path.join(folder, "cache")})
    assert done.returncode == 0, done
    return os.path.join(folder, name)


WORKERS = concurrent.futures.ThreadPoolExecutor(2)
BUILT = {name: WORKERS.submit(build, name) for name in COMMANDS}


def started(name, *arguments):
    path = BUILT[name].result() if name in BUILT else os.path.join(PROGRAMS, name)
    if isinstance(path, Skip):
        raise path
    if not os.path.exists(path):
        raise Skip(f"{name} was not built (tools/install_packages.sh)")
    target = Target(path, *arguments)
    assert target.answer() == "ready"
    return target


def tell(target, *lines):
    for line in lines:
        answer = target.ask(line)
        assert answer == line, (line, answer)


def rows_of(attached, function):
    rows = attached.report("--view=sites", "--by=function")["sites"]
    return [(row["own"]["allocated_blocks"], row["own"]["allocated_bytes"], row["own"]["in_use_blocks"])
            for row in rows if row["function"] == function]


def runtime(attached, name):
    found = [row for row in attached.report("--view=summary")["runtimes"] if row["name"] == name]
    assert len(found) == 1, found
    return found[0]


def cycle(target, folder, *lines, options=("--mode=exact",)):
    attached = Attached(target.pid, folder, *options)
    assert not attached.is_refused, attached.first
    tell(target, *lines)
    attached.detach()
    return attached


def leaves_nothing(target, work, grows=False):
    """Attaches and detaches once, then several times more. At the end the mapped files and the code must be the same as after the first
    time, and there may be at most 2 more mappings (any number if GROWS: the program's own heap grows)."""
    with tempfile.TemporaryDirectory() as folder:
        work(folder)
        before, mapped = image(target.pid), len(maps(target.pid))
        for _ in range(CYCLES):
            work(folder)
        assert image(target.pid) == before
        assert grows or len(maps(target.pid)) <= mapped + 2, (mapped, maps(target.pid))


@test
def blocks_of_the_boehm_collector():
    with started("late_boehm") as target:
        def work(folder):
            attached = cycle(target, folder, f"make {N}", "keep 500", "drop")
            found = rows_of(attached, "counted")
            assert [row[:2] for row in found] == [(N + 500, N * 64 + 500 * 100)] and found[0][2] <= MAY_LIVE, found
            assert runtime(attached, "bdwgc")["hooked"]
            assert attached.report("--view=summary")["ghost_frees"] == 0
            tell(target, f"make {N}", "drop")

        leaves_nothing(target, work)


@test
def frees_of_gc_blocks_from_before_the_attach_are_counted():
    with started("late_boehm") as target, tempfile.TemporaryDirectory() as folder:
        attached = cycle(target, folder, "keep 10", "free")
        assert attached.report("--view=summary")["ghost_frees"] == 1000
        assert rows_of(attached, "counted") == [(10, 1000, 0)]


@test
def the_programs_own_listener_is_still_called():
    with started("late_boehm") as target, tempfile.TemporaryDirectory() as folder:
        tell(target, "listen")
        assert target.ask("drop") == "drop notified"
        attached = Attached(target.pid, folder, "--mode=exact")
        assert target.ask("drop") == "drop notified"
        tell(target, "listen")
        assert target.ask("drop") == "drop notified"
        attached.detach()
        assert target.ask("drop") == "drop notified"


@test
def a_busy_collector():
    with started("late_boehm", "busy") as target:
        def work(folder):
            attached = cycle(target, folder, f"make {N}", "keep 50", "drop")
            found = rows_of(attached, "counted")
            assert [row[:2] for row in found] == [(N + 50, N * 64 + 50 * 100)], found
            cycle(target, folder, "make 1000", options=("--interval=4K",))

        leaves_nothing(target, work, grows=True)


@test
def objects_of_crystal_have_their_types():
    with started("late_crystal") as target:
        def work(folder):
            attached = cycle(target, folder, f"make {N}", "keep 500", "drop")
            rows = {row["type"]: row for row in attached.report("--view=types")["types"]}
            assert rows["Point"]["allocated_blocks"] == N + 500, rows["Point"]
            assert rows["Point"]["in_use_blocks"] <= MAY_LIVE, rows["Point"]
            tell(target, f"make {N}", "drop")

        leaves_nothing(target, work)


@test
def blocks_of_ocaml():
    with started("late_ocaml") as target:
        if not subprocess.run(["ocamlfind", "ocamlopt", "-version"], capture_output=True, text=True, check=True).stdout.startswith("4."):
            raise Skip("this OCaml is not 4.11 to 4.14")

        def work(folder):
            attached = cycle(target, folder, "minor", f"make {N}", "keep 500", "drop")
            made = rows_of(attached, "Late_ocaml.make_one")
            kept = rows_of(attached, "Late_ocaml.keep_one")
            assert made == [(N, N * 8, 0)], made
            assert kept == [(1000, 500 * 8 + 500 * 16, 0)], kept
            assert runtime(attached, "ocaml")["hooked"]
            tell(target, f"make {N}", "drop")

        leaves_nothing(target, work)


@test
def ocaml_that_allocates_all_the_time():
    with started("late_ocaml") as target, tempfile.TemporaryDirectory() as folder:
        target.process.stdin.write("churn 1\n")
        target.process.stdin.flush()
        for number in range(2 * CYCLES):  # a detach allocates on the OCaml heap, which may start a collection
            attached = Attached(target.pid, folder, ("--mode=exact", "--interval=1K")[number % 2])
            attached.detach()
        assert target.answer() == "churn 1"
        tell(target, "make 100", "drop")


@test
def a_memprof_profile_of_the_program_is_not_disturbed():
    with started("late_ocaml") as target, tempfile.TemporaryDirectory() as folder:
        tell(target, "memprof")
        attached = cycle(target, folder, "minor", f"make {N}")
        assert sum(row[0] for row in rows_of(attached, "Late_ocaml.make_one")) == 0
        row = runtime(attached, "ocaml")
        assert not row["hooked"] and "Gc.Memprof" in row["note"] and row["version"], row
        assert target.ask("over") == "over some samples"
        tell(target, f"make {N}")
        attached = Attached(target.pid, folder, "--mode=exact")
        tell(target, "minor", "make 100", "memprof", f"make {N}")
        assert target.ask("over") == "over some samples"
        attached.detach()
        tell(target, f"make {N}", "drop")


@test
def a_runtime_that_cannot_be_recorded_late_is_reported():
    lua = shutil.which("lua5.4")
    if not lua:
        raise Skip("lua5.4 is not installed (tools/install_packages.sh)")
    with Target(lua, "-e", "print('ready') io.stdout:flush() for l in io.lines() do print(l) io.stdout:flush() end") as target, \
            tempfile.TemporaryDirectory() as folder:
        assert target.answer() == "ready"
        attached = cycle(target, folder, "go")
        assert len(attached.left_alone) == 1 and "lua is not recorded" in attached.left_alone[0], attached.left_alone
        assert not cycle(target, folder, "go", options=("--adapters=none",)).left_alone


sys.exit(run_all())
