#!/usr/bin/env python3
"""mcp_server --build BUILD: tests `allogram mcp`, the server of the Model Context Protocol. Its answers must equal the output of the commands. Each
wrong message of a client must get the right error, or no answer if the protocol requires none. No call may read more, write more or take longer than
SECURITY.md says."""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time

import recorded
import tap

SECONDS = 60
MODERN = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}


def talk(tools, lines, *traces, seconds=SECONDS):
    """Sends the lines (objects or bytes) to a server, the last one without a newline, and returns its answers, its status and its standard
    error."""
    data = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    server = subprocess.run([tools.allogram, "mcp", *traces], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds, check=False)
    return [json.loads(line) for line in server.stdout.splitlines()], server.returncode, server.stderr


def request(method, number=1, **parameters):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}


def call(name, number=1, **arguments):
    return request("tools/call", number, name=name, arguments=arguments)


def code_of(answer):
    return answer.get("error", {}).get("code")


def text_of(answer):
    return "".join(item["text"] for item in answer["result"]["content"])


def printed(tools, *words):
    return subprocess.run([tools.allogram, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, timeout=SECONDS).stdout.decode()


def handshake(tools, trace):
    failures = tap.Failures()
    for asked, given in (("2025-11-25", "2025-11-25"), ("2025-06-18", "2025-06-18"), ("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")):
        answers, status, error = talk(tools, [request("initialize", "first", protocolVersion=asked, capabilities={}, clientInfo={"name": "test", "version": "1"}),
                                              {"jsonrpc": "2.0", "method": "notifications/initialized"}, request("ping", 2)], trace)
        failures.expect("ids", [answer["id"] for answer in answers], ["first", 2])
        failures.expect("version", answers[0]["result"]["protocolVersion"], given)
        failures.expect("name", answers[0]["result"]["serverInfo"]["name"], "allogram")
        failures.require("has tools", "tools" in answers[0]["result"]["capabilities"])
        failures.expect("answer to ping", answers[1]["result"], {})
        failures.expect("status and standard error", (status, error), (0, b""))
    return failures


def stateless(tools, trace):
    failures = tap.Failures()
    wrong = {"_meta": {**MODERN["_meta"], "io.modelcontextprotocol/protocolVersion": "1900-01-01"}}
    missing = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
    answers, _, _ = talk(tools, [request("server/discover", 1, **MODERN), request("tools/list", 2, **MODERN), request("tools/list", 3, **wrong),
                                 request("tools/list", 4, **missing), request("tools/call", 5, name="explain", arguments={}, **MODERN)], trace)
    for answer in (answers[0], answers[1], answers[4]):
        failures.expect("resultType", answer["result"]["resultType"], "complete")
        failures.expect("name", answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "allogram")
    failures.expect("versions", answers[0]["result"]["supportedVersions"][0], "2026-07-28")
    for answer in answers[:2]:
        failures.require("has hints for caching", answer["result"]["ttlMs"] >= 0 and answer["result"]["cacheScope"] == "private")
    failures.expect("error of another version", code_of(answers[2]), -32022)
    failures.expect("data of the error", answers[2]["error"]["data"]["requested"], "1900-01-01")
    failures.expect("error of missing capabilities", code_of(answers[3]), -32602)
    return failures


def answers_of_commands(tools, trace):
    failures = tap.Failures()
    answers, _, _ = talk(tools, [call("explain", 1), call("report", 2, view="sites", json=True, limit=3), call("report", 3, view="leaks", frames=2),
                                 call("report", 4), call("diff", 5, before=trace, after=trace, json=True)], trace)
    for answer in answers:
        failures.expect("is an error", answer["result"]["isError"], False)
    failures.expect("explain", text_of(answers[0]), printed(tools, "explain", "--json", trace))
    failures.expect("sites", text_of(answers[1]), printed(tools, "report", "--view=sites", "--json", "--limit=3", trace))
    failures.expect("leaks", text_of(answers[2]), printed(tools, "report", "--view=leaks", "--frames=2", "--limit=20", trace))
    failures.expect("summary", text_of(answers[3]), printed(tools, "report", "--limit=20", trace))
    failures.expect("diff", text_of(answers[4]), printed(tools, "diff", "--json", "--limit=20", trace, trace))
    return failures


def list_of_tools(tools, trace):
    failures = tap.Failures()
    (bound,), _, _ = talk(tools, [request("tools/list")], trace)
    (free,), _, _ = talk(tools, [request("tools/list")])
    failures.expect("names", [tool["name"] for tool in bound["result"]["tools"]], ["explain", "report", "diff"])
    for tool in bound["result"]["tools"]:
        help_text = printed(tools, tool["name"], "--help")
        for name in tool["inputSchema"]["properties"]:
            failures.require("%s has an option for %s" % (tool["name"], name),
                             name in ("trace", "before", "after") or "--" + name.replace("_", "-") in help_text)
    failures.expect("required with a trace", bound["result"]["tools"][0]["inputSchema"]["required"], [])
    failures.expect("required without one", free["result"]["tools"][0]["inputSchema"]["required"], ["trace"])
    failures.expect("traces", bound["result"]["tools"][0]["inputSchema"]["properties"]["trace"]["enum"], [trace])
    return failures


def keys_of_diff(tools, trace):
    """The keys that the tool diff lists for `by` are those that the command accepts."""
    failures = tap.Failures()
    (answer,), _, _ = talk(tools, [request("tools/list")], trace)
    properties = {tool["name"]: tool["inputSchema"]["properties"] for tool in answer["result"]["tools"]}
    keys = properties["diff"]["by"]["description"].replace(" (default)", "").split(", ")
    others = {"stack", "thread", "os_process", "process", "initial_call"}
    failures.expect("keys", sorted(keys), ["function", "heap", "image", "label", "line", "type"])
    answers, _, _ = talk(tools, [call("diff", key, before=trace, after=trace, by=key) for key in [*keys, *others]], trace)
    failures.expect("keys that are refused", {answer["id"] for answer in answers if answer["result"]["isError"]}, others)
    return failures


def wrong_messages(tools, trace):
    """Sends wrong messages. Each row has a message and the error code of the expected answer; None: the server must not answer."""
    cases = [
        (b"{", -32700), (b"not JSON", -32700), (b'{"jsonrpc": "2.0", "id": 1,}', -32700), (b"\xff\xfe", -32700), (b"[" * 100000, -32600),
        (b"[]", -32600), (b"1", -32600), (b'"text"', -32600), (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600),
        (b'{"id": 1, "method": "ping"}', -32600), (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600), (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": [], "method": "ping"}', -32600), (b'{"jsonrpc": "2.0", "id": 1}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', -32602),
        (b"[" + b"0," * 10000 + b"0]", -32600), (b'{"a": "' + b"x" * (1 << 20) + b'"}', -32600),
        (request("resources/list"), -32601), (request("tools/" + "x" * 1000), -32601), (request("initialize"), -32602),
        (request("tools/call"), -32602), (request("tools/call", name="run", arguments={}), -32602), (request("tools/call", name="report", arguments=[]), -32602),
        ({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "explain"}}, None), ({"jsonrpc": "2.0", "method": "no/such"}, None),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, None), (b"", None), (b"  \r", None),
    ]
    failures = tap.Failures()
    for line, wanted in cases:
        answers, status, _ = talk(tools, [line, request("ping", "after")], trace)
        failures.expect("error of %s" % repr(line)[:80], [code_of(answer) for answer in answers[:-1]], [] if wanted is None else [wanted])
        failures.expect("the server goes on after %s" % repr(line)[:80], (answers[-1].get("id"), answers[-1].get("result"), status), ("after", {}, 0))
    return failures


def wrong_arguments(tools, trace):
    """An error in the arguments of a tool, which a language model can correct, is returned as a result with isError, not as an error of the
    protocol."""
    failures = tap.Failures()
    cases = [({"view": "nothing"}, "view"), ({"limit": 0}, "limit"), ({"limit": 100000}, "limit"), ({"limit": -1}, "limit"), ({"limit": "5"}, "limit"),
             ({"focus": "("}, "focus"), ({"focus": "a\0b"}, "focus"), ({"focus": "x" * 100000}, "focus"), ({"json": 1}, "json"),
             ({"junit": "/tmp/x"}, "junit"), ({"sarif": "/tmp/x"}, "sarif"), ({"view": "sites --junit=/tmp/x"}, "view"), ({"x" * 1000: 1}, "too long"),
             ({"x": 1}, "argument x"), ({"trace": "/etc/passwd"}, "/etc/passwd"), ({"trace": 5}, "trace")]
    for arguments, word in cases:
        (answer,), _, _ = talk(tools, [call("report", 1, **arguments)], trace)
        failures.require("%s: an error that names %s: %s" % (repr(arguments)[:80], word, repr(answer)[:300]),
                         answer["result"]["isError"] and word in text_of(answer))
    (answer,), _, _ = talk(tools, [call("report", 1, trace="/nowhere.allogram")])
    failures.require("a missing trace is named: %s" % answer, answer["result"]["isError"] and "/nowhere.allogram" in text_of(answer))
    return failures


def bounded_results(tools, trace):
    failures = tap.Failures()
    (answer,), _, _ = talk(tools, [call("report", 1, view="blocks", state="open,closed", limit=1000, json=True)], trace)
    failures.require("a result is at most 131072 bytes, or an error", len(text_of(answer)) <= 131072)
    failures.require("the error says what to do: %s" % text_of(answer)[:200], not answer["result"]["isError"] or "smaller limit" in text_of(answer))
    return failures


def bounded_time(tools, trace):
    """The server ends a call that takes too long. The test stops (SIGSTOP) the process that executes the call, as if it read for a very long time."""
    failures = tap.Failures()
    server = subprocess.Popen([tools.allogram, "mcp", trace], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    server.stdin.write(json.dumps(call("explain")).encode() + b"\n")
    server.stdin.flush()
    child, end = None, time.monotonic() + SECONDS
    while not child and time.monotonic() < end:
        found = open("/proc/%d/task/%d/children" % (server.pid, server.pid), encoding="utf-8").read().split()
        child = int(found[0]) if found else None
    try:
        os.kill(child, 19)  # SIGSTOP
    except (ProcessLookupError, TypeError):
        failures.append("the command ended before it could be stopped")
        server.communicate(timeout=SECONDS)  # closes its input, and so ends it
        return failures
    begin = time.monotonic()
    answer = json.loads(server.stdout.readline())
    failures.require("an error after a minute: %s" % answer, answer["result"]["isError"] and "60 seconds" in text_of(answer))
    failures.require("it took %.0f s" % (time.monotonic() - begin), time.monotonic() - begin < 75)
    failures.require("the command has ended", not os.path.exists("/proc/%d" % child))
    server.stdin.close()
    failures.expect("status", server.wait(SECONDS), 0)
    return failures


def arbitrary_bytes(tools, trace):
    """Valid requests with random changes: the server never ends, and each of its lines is JSON."""
    generator = random.Random(1)
    valid = [json.dumps(line).encode() for line in (request("initialize", protocolVersion="2025-11-25", capabilities={}), request("tools/list", 2, **MODERN),
                                                   call("nothing", view="sites", limit=3), request("ping", "\ud83d\ude00"))]
    lines = []
    for _ in range(3000):
        line = bytearray(generator.choice(valid))
        for _ in range(generator.randint(1, 4)):
            at = generator.randrange(len(line))
            line[at:at + generator.randint(0, 3)] = bytes(generator.choice(b'{}[]",:\\u0\xff \x00a-1e.') for _ in range(generator.randint(0, 3)))
        lines.append(bytes(line).replace(b"\n", b" "))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answers, status, error = talk(tools, lines + [request("ping", "end")], trace)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    failures = tap.Failures()
    failures.expect("last answer", answers[-1].get("id"), "end")
    failures.expect("status and standard error", (status, error), (0, b""))
    failures.require("each answer is a result or an error", all(("result" in answer) != ("error" in answer) for answer in answers))
    failures.require("CPU time", used.ru_utime - before.ru_utime < 10)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "some.allogram")
        subprocess.run([tools.allogram, "run", "-q", "-o", trace, "--", "ls", "/"], check=True, stdout=subprocess.DEVNULL)
        cases = [("the handshake of earlier revisions", handshake), ("requests of the revision without a handshake", stateless),
                 ("answers are those of the commands", answers_of_commands), ("the list of tools", list_of_tools),
                 ("the keys of diff", keys_of_diff),
                 ("wrong messages", wrong_messages), ("wrong arguments", wrong_arguments), ("bounded results", bounded_results),
                 ("bounded time", bounded_time), ("arbitrary bytes", arbitrary_bytes)]
        plan = tap.Plan(len(cases))
        for name, case in cases:
            plan.run(name, lambda case=case: case(tools, trace))
        return plan.status()


if __name__ == "__main__":
    sys.exit(main())
