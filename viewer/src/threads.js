// threads.js: the tab Threads: what each thread allocated and freed in the range, and which
// threads freed blocks of other threads.
import { fill, make } from "./elements.js";
import { Table } from "./table.js";
import { bytes, share, short } from "./quantity.js";

export async function showThreads(app, host) {
  const { trace, range } = app;
  const { threads, rows, pairs, count } = await trace.loadThreads();
  if (!host.isConnected) return;
  const slices = trace.facts.slices.count;
  const [from, to] = range.isWhole ? [0, slices] : [range.from, range.to];
  const label = (i) => {
    const { name, id } = threads[i];
    if (id === 0) return "all other threads";
    return `${trace.names[name] || "thread"} (${id})`;
  };
  const sums = threads.map((_, i) => ({ name: label(i), allocatedBlocks: 0, allocatedBytes: 0,
    freedBlocks: 0, freedBytes: 0, foreignBytes: 0 }));
  for (let slice = from; slice < to; slice++) {
    for (let i = 0; i < count; i++) {
      const at = (slice * count + i) * 4;
      sums[i].allocatedBlocks += rows[at];
      sums[i].allocatedBytes += rows[at + 1];
      sums[i].freedBlocks += rows[at + 2];
      sums[i].freedBytes += rows[at + 3];
    }
  }
  const between = new Map();
  for (let i = 0; i < pairs.length; i += 5) {
    if (pairs[i] < from || pairs[i] >= to) continue;
    const key = `${pairs[i + 1]} ${pairs[i + 2]}`;
    const pair = between.get(key) ?? { by: label(pairs[i + 1]), freedBy: label(pairs[i + 2]),
      blocks: 0, bytes: 0 };
    pair.blocks += pairs[i + 3];
    pair.bytes += pairs[i + 4];
    sums[pairs[i + 2]].foreignBytes += pairs[i + 4];
    between.set(key, pair);
  }
  const whole = sums.reduce((sum, { allocatedBytes }) => sum + allocatedBytes, 0);
  const all = make("div", { class: "table" });
  const freed = make("div", { class: "table" });
  const threadTable = new Table(all, [
    { id: "allocated", label: "allocated", text: (row) => bytes(row.allocatedBytes),
      value: (row) => row.allocatedBytes },
    { id: "share", label: "share", text: (row) => share(row.allocatedBytes, whole),
      value: (row) => row.allocatedBytes, bar: (row) => row.allocatedBytes / whole },
    { id: "blocks", label: "blocks", text: (row) => short(row.allocatedBlocks),
      value: (row) => row.allocatedBlocks },
    { id: "freed", label: "freed", text: (row) => bytes(row.freedBytes),
      value: (row) => row.freedBytes },
    { id: "foreign", label: "of others", hint: "freed by it, allocated by another thread",
      text: (row) => bytes(row.foreignBytes), value: (row) => row.foreignBytes },
    { id: "name", label: "thread", isName: true, text: (row) => row.name },
  ], { sort: { id: "allocated", isRising: false } });
  const pairTable = new Table(freed, [
    { id: "bytes", label: "bytes", text: (row) => bytes(row.bytes), value: (row) => row.bytes },
    { id: "blocks", label: "blocks", text: (row) => short(row.blocks), value: (row) => row.blocks },
    { id: "by", label: "allocated by", isText: true, text: (row) => row.by },
    { id: "freed_by", label: "freed by", isName: true, text: (row) => row.freedBy },
  ], { sort: { id: "bytes", isRising: false },
    empty: "In this range every thread freed its own blocks." });
  fill(host, range.isLimited ? make("p", { class: "hint" },
    "Threads are counted with all of their blocks, of all labels and processes.") : null, all, make("h3", {}, "Blocks freed by another thread"), freed);
  threadTable.show(sums);
  pairTable.show([...between.values()]);
  app.copyText = () => `${threadTable.text()}\n\n${pairTable.text()}`;
}
