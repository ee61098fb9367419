#!/usr/bin/env python3
"""run_resident.py --build BUILD [SERVER...]: records servers and interpreters that other people wrote, and requires that the resident memory of
each process is explained: of the bytes that `report --view=rss` divides into classes, less than 2 % are unknown, at the peak and at the end.

    redis      300,000 keys are stored and then deleted (FLUSHALL)
    nginx      one process answers 200 requests
    postgres   a single-user backend joins two series of 200,000 rows, and sorts the result
    php        a script builds arrays and drops half of them
    node       a script does the same

The programs come from Debian packages (--packages prints their names). `make soak` runs this script. A program that is not installed is skipped.
Servers listen only on sockets in a folder that is removed at the end."""

import argparse
import glob
import json
import os
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))
import recorded
import tap

START_SECONDS = 60
LOOK_SECONDS = 2  # how long a program waits, so that the writer looks at its memory before the end


class Server:
    """A server under `allogram run`, which is ready when its socket exists."""

    def __init__(self, tools, folder, command, path):
        self.process = subprocess.Popen([tools.allogram, "run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--", *command],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
        end = time.monotonic() + START_SECONDS
        while not os.path.exists(path):
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("the server did not start")
            time.sleep(0.1)

    def stop(self):
        time.sleep(LOOK_SECONDS)
        self.process.terminate()  # allogram passes the signal on to the server
        self.process.wait(60)


def redis(tools, folder):
    path = os.path.join(folder, "socket")
    server = Server(tools, folder, ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no", "--enable-debug-command", "yes"],
                    path)
    for words in ["DEBUG", "POPULATE", "300000", "key", "100"], ["FLUSHALL"]:
        subprocess.run(["redis-cli", "-s", path, *words], check=True, capture_output=True, timeout=120)
    server.stop()


def nginx(tools, folder):
    path = os.path.join(folder, "socket")
    config = os.path.join(folder, "nginx.conf")
    with open(config, "w", encoding="ascii") as file:
        file.write("daemon off; master_process off; pid %s/pid; error_log %s/error; events {}\n"
                   "http { access_log off; client_body_temp_path %s/body; proxy_temp_path %s/proxy; fastcgi_temp_path %s/fast;\n"
                   "uwsgi_temp_path %s/uwsgi; scgi_temp_path %s/scgi; server { listen unix:%s; root /usr/share; autoindex on; } }\n"
                   % (folder, folder, folder, folder, folder, folder, folder, path))
    server = Server(tools, folder, ["nginx", "-c", config], path)
    for _ in range(200):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b"GET /doc/ HTTP/1.0\r\n\r\n")
            while client.recv(1 << 16):
                pass
    server.stop()


def postgres(tools, folder):
    programs = os.path.dirname(os.path.realpath(shutil.which("postgres") or glob.glob("/usr/lib/postgresql/*/bin/postgres")[-1]))
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    os.chmod(folder, 0o777)
    data = os.path.join(folder, "data")
    subprocess.run([*user, programs + "/initdb", "-D", data, "--no-sync"], check=True, capture_output=True, cwd=folder)
    query = ("SET work_mem = '64MB'; SELECT count(*) FROM (SELECT a.i, b.i FROM generate_series(1, 200000) AS a(i) JOIN generate_series(1, 200000) "
             "AS b(i) ON a.i = b.i ORDER BY a.i %% 1000, md5(b.i::text)) AS rows; SELECT pg_sleep(%d);\n" % LOOK_SECONDS)
    subprocess.run([*user, tools.allogram, "run", "-q", "-o", os.path.join(folder, "t.%p.allogram"), "--",
                    programs + "/postgres", "--single", "-D", data, "postgres"], input=query.encode(), check=True, capture_output=True, cwd=folder)


def php(tools, folder):
    script = ("$a = []; for ($i = 0; $i < 300000; $i++) { $a[$i] = [$i, str_repeat('x', $i %% 200)]; } "
              "for ($i = 0; $i < 300000; $i += 2) { unset($a[$i]); } sleep(%d); echo count($a);" % LOOK_SECONDS)
    outcome, _ = recorded.record(tools, ["php", "-d", "memory_limit=-1", "-r", script], folder)
    if outcome.stdout != b"150000":
        raise RuntimeError("php: %s" % outcome.stdout)


def node(tools, folder):
    script = ("let a = []; for (let i = 0; i < 300000; i++) a.push({i, s: 'x'.repeat(i %% 200) + i, b: i %% 100 ? null : Buffer.alloc(5000)}); "
              "a = a.filter((o) => o.i %% 2); setTimeout(() => console.log(a.length), %d);" % (LOOK_SECONDS * 1000))
    outcome, _ = recorded.record(tools, ["node", "-e", script], folder)
    if outcome.stdout != b"150000\n":
        raise RuntimeError("node: %s" % outcome.stdout)


def explained(tools, folder, failures):
    """Requires that less than 2 % of the resident memory is unknown, in each trace of the folder whose report has the view. Returns the classes
    of the resident memory at the peak and at the end of these traces, as lines of text."""
    lines = []
    for trace in recorded.traces_in(folder):
        outcome = recorded.run([tools.allogram, "report", trace, "--view=rss", "--json"], timeout=600)
        if outcome.status != 0:
            continue  # no look at the resident memory: a forked child, or too little memory
        peak = json.loads(outcome.stdout)
        for view in [peak, peak["end"]] if peak["end"] else [peak]:
            sizes = {row["class"]: row["bytes"] for row in view["classes"] if row["bytes"] > 0}
            unknown = 100 * sizes.get("unknown", 0) / view["rss_bytes"]
            lines.append("%s: %.1f MiB at %.2f s, %.2f %% unknown: %s" % (
                "peak" if view is peak else "end", view["rss_bytes"] / (1 << 20), view["moment_ns"] / 1e9, unknown,
                ", ".join("%s %.1f" % (name, size / (1 << 20)) for name, size in sorted(sizes.items(), key=lambda item: -item[1]))))
            failures.require("less than 2 %% unknown: %s" % lines[-1], unknown < 2)
    failures.require("there is a ledger", lines != [])
    return lines


# name: (function, Debian package, program)
SERVERS = {
    "redis": (redis, "redis-server", "redis-server"),
    "nginx": (nginx, "nginx-light", "nginx"),
    "postgres": (postgres, "postgresql", "postgres"),
    "php": (php, "php-cli", "php"),
    "node": (node, "nodejs", "node"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--packages", action="store_true", help="print the names of the Debian packages, and end")
    parser.add_argument("servers", nargs="*", choices=[*SERVERS, []], default=[])
    options = parser.parse_args()
    if options.packages:
        print(*(package for _, package, _ in SERVERS.values()))
        return 0
    tools = recorded.Tools(os.path.abspath(options.build))
    recorded.hide_debug_files()
    wanted = options.servers or list(SERVERS)
    plan = tap.Plan(len(wanted))
    for name in wanted:
        function, package, program = SERVERS[name]
        if shutil.which(program) is None and not glob.glob("/usr/lib/postgresql/*/bin/" + program):
            plan.skip(name, "the Debian package %s is not installed" % package)
            continue

        def in_folder(name=name, function=function):
            failures = tap.Failures()
            with recorded.Folder() as folder:
                function(tools, folder)
                for line in explained(tools, folder, failures):
                    print("# %s: %s" % (name, line))
            return failures
        plan.run(name, in_folder)
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
