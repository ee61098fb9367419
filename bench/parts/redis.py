"""Measures redis-server under redis-benchmark, recorded exactly by allogram, and under heaptrack."""

import os
import shutil
import statistics
import subprocess
import time

from measured import Spread
from parts.programs import remove_output, say_head

BURST_REQUESTS = 3000  # requests of each of four kinds in a burst, which takes 0.2 s
BURSTS, WARMING = 8, 2
PAIRS = 8  # pairs of servers per round, since even two plain servers differ by up to a twentieth in every burst


class Server:
    """A redis-server that is started with `prefix`, on a socket of its own; ready when constructed."""

    def __init__(self, bench, prefix, name="redis"):
        self.socket = bench.path(name + ".socket")
        self.process = subprocess.Popen([*prefix, "redis-server", "--port", "0", "--unixsocket", self.socket, "--dir", bench.folder,
                                         "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            if self._ask("ping").stdout == b"PONG\n":
                return
            time.sleep(0.05)
        raise RuntimeError("redis-server does not answer")

    def _ask(self, *words):
        return subprocess.run(["redis-cli", "-s", self.socket, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)

    def seconds_of(self, requests):
        """Seconds that redis-benchmark takes for this number of requests of each of four kinds."""
        begin = time.monotonic()
        subprocess.run(["redis-benchmark", "-s", self.socket, "-n", str(requests), "-c", "20", "-r", "10000", "-q", "-t",
                        "set,get,lpush,hset"], stdout=subprocess.DEVNULL, check=True)
        return time.monotonic() - begin

    def stop(self):
        self._ask("shutdown", "nosave")
        self.process.wait()


def ratio_in_turns(bench, prefix):
    """(plain seconds, ratio): medians over short bursts of requests to two servers, in turns; the second server is started with `prefix`.
    Other load on the machine usually lasts longer than a burst, so it slows both servers."""
    plain, other = Server(bench, []), Server(bench, prefix, "redis-other")
    plains, ratios = [], []
    for n in range(-WARMING, BURSTS):
        pair = {}
        for server in (plain, other) if n % 2 else (other, plain):
            pair[server] = server.seconds_of(BURST_REQUESTS)
        if n >= 0:
            plains.append(pair[plain])
            ratios.append(pair[other] / pair[plain])
    plain.stop()
    other.stop()
    return statistics.median(plains), statistics.median(ratios)


def is_there():
    return shutil.which("redis-server") and shutil.which("redis-benchmark")


def recorded_in_turns(bench, options):
    """(plain seconds of each pair of servers, ratios, the last trace). One server of a pair is plain, the other is recorded with these options
    of `run`."""
    plains, ratios, path = [], [], bench.path("redis.allogram")
    for n in range(bench.rounds * PAIRS):
        if os.path.exists(path):
            os.unlink(path)
        plain, ratio = ratio_in_turns(bench, [bench.allogram, "run", "-q", *options, "-o", path, "--"])
        plains.append(plain)
        ratios.append(ratio)
        bench.note("  redis: pair %d of %d" % (n + 1, bench.rounds * PAIRS))
    return plains, ratios, path


def heaptrack_ratios(bench):
    found = []
    for _ in range(3 if shutil.which("heaptrack") and "heaptrack" in bench.peers else 0):
        found.append(ratio_in_turns(bench, ["heaptrack", "-o", bench.path("heaptrack")])[1])
        remove_output(bench)
    return found


def run(bench):
    if not is_there():
        bench.say("redis was not measured: no redis-server or redis-benchmark here.")
        return
    say_head(bench)
    plains, ratios, path = recorded_in_turns(bench, [])
    events = bench.events_of(path)
    if events < (BURSTS + WARMING) * BURST_REQUESTS:
        raise RuntimeError("redis: only %d events" % events)
    heaptrack = heaptrack_ratios(bench)
    bench.say("| redis-server, redis-benchmark | %.2f | %.1f | %s | | %s | | | | %.2f |" % (
        Spread(plains).median, events / 1e6, Spread(ratios).text(), Spread(heaptrack).text() if heaptrack else "-",
        os.path.getsize(path) / events))
    bench.bar("redis-server: wall of redis-benchmark", Spread(ratios), 1.1, unit="x")
