"""Measures how many events per second a report reads in a pass over all events, its memory, and the CPU time of a summary, which is
read from the index (the sums at the end of the trace)."""

from measured import Spread, measure


def run(bench):
    bench.say()
    bench.say("| reading | events, M | pass over all events, M events a second and core | peak memory, MiB | summary from the index, CPU s |")
    bench.say("|---|---:|---:|---:|---:|")
    for name, argument in (("factor", 45000), ("cover", 6000)):
        _, trace = bench.record([bench.workload(name), str(int(argument * bench.scale))])
        events = bench.events_of(trace)
        rates, memory = [], 0
        for _ in range(min(bench.rounds, 5)):  # --within needs a pass over the events
            result = measure([bench.allogram, "report", "--json", "--limit=1", "--view=temporary", "--within=1", trace], cwd=bench.folder)
            rates.append(events / result.cpu / 1e6)
            memory = max(memory, result.max_rss_kib / 1024)
        index = [measure([bench.allogram, "report", "--json", trace], cwd=bench.folder).cpu for _ in range(min(bench.rounds, 5))]
        bench.say("| %s | %.1f | %s | %.0f | %s |" % (
            name, events / 1e6, Spread(rates).text("%.1f"), memory, Spread(index).text()))
        bench.bar_at_least("reading %s" % name, Spread(rates), 40, "%.0f", " M events/s")
        bench.bar("reading %s: peak memory" % name, Spread([memory]), 512, "%.0f", " MiB")
