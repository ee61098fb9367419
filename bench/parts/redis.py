"""redis-server under redis-benchmark, exact, beside heaptrack."""

import os
import shutil
import subprocess
import time

from measured import Spread
from parts.programs import remove_output, say_head

REDIS_REQUESTS = 60000


def redis_round(bench, prefix):
    """Seconds that redis-benchmark takes against a server started with `prefix` in front of it."""
    socket = bench.path("redis.socket")
    server = subprocess.Popen([*prefix, "redis-server", "--port", "0", "--unixsocket", socket, "--dir", bench.folder, "--save", "",
                               "--appendonly", "no"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    client = ["redis-cli", "-s", socket]
    for _ in range(200):
        if subprocess.run([*client, "ping"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout == b"PONG\n":
            break
        time.sleep(0.05)
    begin = time.monotonic()
    subprocess.run(["redis-benchmark", "-s", socket, "-n", str(REDIS_REQUESTS), "-c", "20", "-r", "10000", "-q", "-t",
                    "set,get,lpush,hset"], stdout=subprocess.DEVNULL, check=True)
    wall = time.monotonic() - begin
    subprocess.run([*client, "shutdown", "nosave"], stderr=subprocess.DEVNULL, check=False)
    server.wait()
    return wall


def is_there():
    return shutil.which("redis-server") and shutil.which("redis-benchmark")


def run(bench):
    if not is_there():
        bench.say("redis was not measured: no redis-server or redis-benchmark here.")
        return
    say_head(bench)
    ratios, plains, path = {"allogram": [], "heaptrack": []}, [], bench.path("redis.allogram")
    for n in range(bench.rounds):
        plain = redis_round(bench, [])
        plains.append(plain)
        if os.path.exists(path):
            os.unlink(path)
        ratios["allogram"].append(redis_round(bench, [bench.allogram, "run", "-q", "-o", path, "--"]) / plain)
        if shutil.which("heaptrack") and "heaptrack" in bench.peers and n < 3:
            ratios["heaptrack"].append(redis_round(bench, ["heaptrack", "-o", bench.path("heaptrack")]) / plain)
            remove_output(bench)
        bench.note("  redis: round %d of %d" % (n + 1, bench.rounds))
    events = bench.events_of(path)
    if events < REDIS_REQUESTS:
        raise RuntimeError("redis: only %d events" % events)
    heaptrack = Spread(ratios["heaptrack"]).text() if ratios["heaptrack"] else "-"
    bench.say("| redis-server, redis-benchmark | %.2f | %.1f | %s | | %s | | | | %.2f |" % (
        Spread(plains).median, events / 1e6, Spread(ratios["allogram"]).text(), heaptrack, os.path.getsize(path) / events))
    bench.bar("redis-server: wall of redis-benchmark", Spread(ratios["allogram"]), 1.1, unit="x")
