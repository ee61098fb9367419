"""Measures the overhead of recording a sample of an OCaml program that only allocates. OCaml's own sampler, Memprof, chooses the samples."""

import os
import shutil
import subprocess

from harness import HERE, Ratios
from measured import Spread, measure

ROUNDS = 40  # of the workload: about two seconds


def run(bench):
    if not shutil.which("ocamlopt"):
        bench.say("OCaml: skipped, no ocamlopt here.")
        return
    shutil.copy(os.path.join(HERE, "workloads/churn.ml"), bench.folder)
    program = bench.path("churn")
    subprocess.run(["ocamlopt", "-g", "churn.ml", "-o", program], cwd=bench.folder, check=True)
    command = [program, str(max(1, int(ROUNDS * bench.scale)))]
    rates = (("512 KiB", "512K", 1.02), ("8000 bytes, a sample in 1000 words", "8000", 1.10))
    ratios, lives, plains = {text: Ratios() for text, _, _ in rates}, {text: [] for text, _, _ in rates}, []
    for _ in range(bench.rounds):
        plain = measure(command, cwd=bench.folder)
        plains.append(plain.wall)
        for text, interval, _ in rates:
            result, trace = bench.record(command, options=["--mode=sample", "--interval=" + interval])
            if result.stdout != plain.stdout:
                raise RuntimeError("churn: other output when sampled")
            bench.events_of(trace)
            dumped = subprocess.run([bench.allogram, "dump", trace], stdout=subprocess.PIPE, check=True).stdout
            lives[text].append(os.path.getsize(trace) / max(1, dumped.count(b" alloc ")))
            ratios[text].add(result, plain)
    bench.say()
    bench.say("| OCaml, %s s of allocation, sampled at | wall | CPU | bytes of trace for a block's life |" % Spread(plains).text())
    bench.say("|---|---:|---:|---:|")
    for text, _, limit in rates:
        wall, cpu, life = Spread(ratios[text].wall), Spread(ratios[text].cpu), Spread(lives[text])
        bench.say("| %s | %s | %s | %s |" % (text, wall.text("%.3f"), cpu.text("%.3f"), life.text("%.1f")))
        bench.bar("OCaml at %s: wall" % text.split(",")[0], wall, limit, "%.3f", "x")
    bench.bar("OCaml: trace for a block's life at 8000 bytes", Spread(lives[rates[1][0]]), 20, "%.1f", " bytes")
