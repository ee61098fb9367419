#!/usr/bin/env python3
"""run_systems.py --build BUILD [SYSTEM...]: runs large programs that other people wrote under `allogram run`, and compares the numbers with those
that are counted independently of allogram in the same run.

    rabbitmq   A broker declares 300 queues. Each function of nine of its modules must have at least as many recorded calls as the emulator
               counts (call_count, one of the emulator's own kinds of tracing); three quarters of the functions must have exactly as many.
    mix        Elixir's build tool compiles a project and runs its test. The number of recorded calls of the project's function must be
               the number that the test makes, and standard error must be that of a plain run (without allogram).
    neovim     An editor whose scripts run in LuaJIT. The bytes in use of LuaJIT's heap must be those that collectgarbage("count") gives, to
               within 1024 bytes, and the file that the editor writes must be that of a plain run.

The programs come from Debian packages (--packages prints their names). `make soak` runs this script. A program that is not installed is skipped.
Servers listen only on the loopback device, on ports of their own, with their data in a folder that is removed at the end."""

import argparse
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))
import recorded
import tap

START_SECONDS = 240


def calls_in(tools, trace):
    rows = recorded.report(tools, trace, "--view=functions", "--limit=0")["functions"]
    return {row["function"]: row["calls"] for row in rows}


class Node:
    """An Erlang node under `allogram run`. EVALUATE is the command that evaluates an Erlang expression in the node; it is called with the
    expression as its last argument, and prints the value."""

    def __init__(self, tools, folder, command, environment, evaluate):
        self.tools, self.folder, self.evaluate = tools, folder, evaluate
        self.environment = {**os.environ, **environment}
        self.output = open(os.path.join(folder, "output"), "wb")
        self.process = subprocess.Popen(
            [tools.allogram, "run", "-o", os.path.join(folder, "t.%p.allogram"), "--", *command], stdin=subprocess.DEVNULL, stdout=self.output,
            stderr=self.output, env=self.environment, cwd=folder, start_new_session=True)

    def value(self, expression):
        done = subprocess.run([*self.evaluate, expression], capture_output=True, env=self.environment, timeout=120, check=False)
        return done.stdout.decode(errors="replace")

    def wait_until(self, expression, wanted):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            if wanted in self.value(expression):
                return
            time.sleep(1)
        raise RuntimeError("the server did not start: see %s" % self.output.name)

    def dump(self):
        """Writes a dump of the node and returns its path."""
        pid = re.search(r"\d+", self.value("os:getpid()."))
        done = subprocess.run([self.tools.allogram, "control", pid[0], "dump"], capture_output=True, timeout=60, check=True)
        return done.stdout.decode().split()[-1]

    def stop(self):
        """Ends the node. Returns the exit status of `allogram run`."""
        self.value("init:stop().")
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.output.close()
        return self.process.wait()


def compare_calls(node, modules, work, work_value, failures):
    """Evaluates WORK in the node, between two dumps. The emulator counts the calls of all functions of MODULES during WORK; the dumps contain these
    calls, and calls that the server makes between a dump and WORK. So the difference between the dumps must be at least the emulator's count, and
    equal to it for three quarters of the functions."""
    names = "[" + ",".join(modules) + "]"
    node.value("[code:ensure_loaded(M) || M <- %s]." % names)
    pattern = "[erlang:trace_pattern({M,'_','_'}, %s, [call_count, local]) || M <- " + names + "]."
    node.value(pattern % "true")
    before = calls_in(node.tools, node.dump())
    node.value(pattern % "restart")
    failures.require("the work is done", work_value in node.value(work))
    node.value(pattern % "pause")
    counted = node.value("[lists:flatten(io_lib:format(\"~p:~p/~p=~p\", [M,F,A,C])) || M <- %s, {F,A} <- M:module_info(functions), "
                         "{call_count,C} <- [erlang:trace_info({M,F,A},call_count)], is_integer(C), C > 0]." % names)
    after = calls_in(node.tools, node.dump())
    judged = {name: int(calls) for name, calls in re.findall(r"([\w]+:\S+?/\d+)=(\d+)", re.sub(r"[\"\s]", "", counted))}
    recorded_calls = {name: after.get(name, 0) - before.get(name, 0) for name in judged}
    failures.require("the emulator counted calls of at least 50 functions: %d" % len(judged), len(judged) >= 50)
    for name, calls in judged.items():
        failures.fail_unless("%s: %d calls recorded, %d counted" % (name, recorded_calls[name], calls), recorded_calls[name] >= calls)
    equal = sum(recorded_calls[name] == calls for name, calls in judged.items())
    failures.require("3 of 4 functions have the same count: %d of %d" % (equal, len(judged)), equal * 4 >= len(judged) * 3)
    return "%d functions, %d of them with the same count" % (len(judged), equal)


def rabbitmq(tools, folder):
    scripts = glob.glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin")[-1]
    environment = {"RABBITMQ_MNESIA_BASE": folder + "/data", "RABBITMQ_LOG_BASE": folder + "/log", "RABBITMQ_NODENAME": "allogram_test@localhost",
                   "RABBITMQ_NODE_PORT": "25673", "RABBITMQ_DIST_PORT": "35673", "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1", "HOME": folder}
    node = Node(tools, folder, [scripts + "/rabbitmq-server"], environment, [scripts + "/rabbitmqctl", "eval"])
    failures = tap.Failures()
    try:
        node.wait_until("rabbit:is_running().", "true")
        modules = ["rabbit_misc", "rabbit_amqqueue", "rabbit_queue_type", "rabbit_vhost", "mnesia", "mnesia_tm", "gb_sets", "rabbit_exchange",
                   "rabbit_binding"]
        work = ("[rabbit_amqqueue:declare(rabbit_misc:r(<<\"/\">>, queue, integer_to_binary(I)), false, false, [], none, <<\"me\">>) || "
                "I <- lists:seq(1, 300)], length(rabbit_amqqueue:list()).")
        print("# " + compare_calls(node, modules, work, "300", failures))
    finally:
        failures.expect("exit status", node.stop(), 0)
    return failures


def mix(tools, folder):
    project = os.path.join(folder, "project")
    for name, text in {"mix.exs": "defmodule P.MixProject do\n  use Mix.Project\n  def project, do: [app: :p, version: \"0.1.0\"]\nend\n",
                       "lib/p.ex": "defmodule P do\n  def build(n), do: for(i <- 1..n, do: {i, Integer.to_string(i)})\nend\n",
                       "test/test_helper.exs": "ExUnit.start()\n",
                       "test/p_test.exs": "defmodule PTest do\n  use ExUnit.Case\n  test \"build\" do\n"
                                          "    for _ <- 1..50, do: assert(length(P.build(10)) == 10)\n  end\nend\n"}.items():
        os.makedirs(os.path.dirname(os.path.join(project, name)), exist_ok=True)
        with open(os.path.join(project, name), "w", encoding="utf-8") as file:
            file.write(text)
    environment = {"HOME": folder, "LANG": "C.UTF-8"}
    plain = recorded.run(["mix", "test", "--seed", "0"], env=environment, cwd=project)
    shutil.rmtree(os.path.join(project, "_build"))
    outcome, traces = recorded.record(tools, ["mix", "test", "--seed", "0"], folder, env=environment, cwd=project)
    failures = tap.Failures()
    failures.expect("status of the plain run", plain.status, 0)
    failures.expect("status", outcome.status, 0)
    for line in (b"Compiling 1 file (.ex)", b"1 test, 0 failures"):
        failures.require("both runs print %r" % line, line in plain.stdout and line in outcome.stdout)
    failures.expect("standard error", outcome.stderr, plain.stderr)
    largest = max(traces, key=os.path.getsize)
    calls = calls_in(tools, largest)
    failures.expect("calls of P.build/1", calls.get("Elixir.P:build/1", calls.get("P.build/1")), 50)
    return failures


def neovim(tools, folder):
    script = os.path.join(folder, "script.lua")
    with open(script, "w", encoding="utf-8") as file:
        file.write("local t = {}\nfor i = 1, 20000 do t[i] = {i, tostring(i)} end\n"
                   "vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.tbl_map(function(x) return x[2] end, t))\n"
                   "vim.cmd('%s/1/one/g')\nvim.cmd('silent write! ' .. vim.env.WRITTEN)\n"
                   "io.stdout:write(string.format('%.0f\\n', collectgarbage('count') * 1024))\nio.stdout:flush()\nos.exit(0)\n")
    command = ["nvim", "--headless", "-u", "NONE", "-i", "NONE", "-c", "luafile " + script]
    written = [os.path.join(folder, name) for name in ("plain", "recorded")]
    plain = recorded.run(command, env={"HOME": folder, "WRITTEN": written[0]})
    outcome, traces = recorded.record(tools, command, folder, env={"HOME": folder, "WRITTEN": written[1]})
    failures = tap.Failures()
    failures.expect("status", outcome.status, plain.status)
    with open(written[0], "rb") as one, open(written[1], "rb") as other:
        failures.require("both runs write the same file", one.read() == other.read())
    heaps = {heap["name"]: heap for heap in recorded.report(tools, max(traces, key=os.path.getsize), "--view=heaps")["heaps"]}
    counted = int(outcome.stdout.split()[-1])
    in_use = heaps["luajit"]["in_use_bytes"]
    failures.require("LuaJIT counts %d bytes, the trace has %d in use" % (counted, in_use), abs(in_use - counted) <= 1024)
    return failures


# name: (function, Debian package, program that the package installs)
SYSTEMS = {
    "rabbitmq": (rabbitmq, "rabbitmq-server", "/usr/lib/rabbitmq/bin/rabbitmq-server"),
    "mix": (mix, "elixir", "/usr/bin/mix"),
    "neovim": (neovim, "neovim", "/usr/bin/nvim"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--packages", action="store_true", help="print the names of the Debian packages, and end")
    parser.add_argument("systems", nargs="*", choices=[*SYSTEMS, []], default=[])
    options = parser.parse_args()
    if options.packages:
        print(*(package for _, package, _ in SYSTEMS.values()))
        return 0
    tools = recorded.Tools(os.path.abspath(options.build))
    wanted = options.systems or list(SYSTEMS)
    plan = tap.Plan(len(wanted))
    for name in wanted:
        function, package, program = SYSTEMS[name]
        if not os.path.exists(program):
            plan.skip(name, "the Debian package %s is not installed" % package)
            continue

        def in_folder(function=function):
            with recorded.Folder() as folder:
                return function(tools, folder)
        plan.run(name, in_folder)
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
