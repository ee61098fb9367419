// processes.js: the processes of a page about several traces: the tab Processes (a table of all processes, each below the process that
// started it), the list of processes at the top, and the curve of one process. Choosing a process limits the other views of blocks, except
// Threads, to its blocks.
import { fill, make } from "./elements.js";
import { shellWord } from "./shell.js";
import { Table } from "./table.js";
import { bytes, count, inUnit, share, time, unitOf } from "./quantity.js";

// The columns with sums of blocks; the other columns are facts about the process.
const SUMS = [
  ["peak_bytes", "peak", "the most that it had in use in the range"],
  ["allocated_bytes", "allocated", "in the range"],
  ["in_use_bytes", "in use", "at the end of the range, or when it ended"],
];
const FILES_LISTED = 10; // a command line names at most this many traces

// "make -j2": the title that the process gave itself, or its command with the name of the program in place of the path.
function commandOf({ title, command, exe }) {
  if (title) return title;
  if (command.length === 0) return exe ?? "";
  return [command[0].replace(/.*\//, ""), ...command.slice(1)].join(" ");
}

// How the recording of a process ended, in the words of `report --view=process_tree`.
function endOf({ end, exit_status: status, signal, kernel_kill: kill }) {
  if (end === "executed") return "executed";
  if (kill?.certain) return "killed by the kernel";
  return signal !== undefined && signal !== null ? `signal ${signal}`
    : status !== undefined && status !== null ? `exit ${status}` : end;
}

// The processes of a page about several traces, by number: { number, facts, name, order, depth, parent }. `facts` is an entry of
// `report --view=process_tree --json`, in whose order (`order`) parents come before their children. A trace that repeats a part of another
// trace has no entry in the tree, and null here. An empty list: the page is about one trace.
export function processesOf({ process_tree: tree, process_files: files }) {
  if (!tree) return [];
  const numbers = new Map();
  files.forEach((file, number) => numbers.set(file, numbers.get(file) ?? number));
  const processes = files.map(() => null);
  tree.processes.forEach((facts, order) => {
    const number = numbers.get(facts.file);
    const parent = facts.parent_file === null ? null : processes[numbers.get(facts.parent_file)];
    const depth = parent ? parent.depth + (facts.was_executed ? 0 : 1) : 0;
    processes[number] = { number, facts, order, depth, parent, command: commandOf(facts),
      name: `${commandOf(facts).split(" ")[0]} (${facts.pid})` };
  });
  return processes;
}

// Reads the block "processes": what each process had in use in the slices in which it lived (src/page/page_tables.c).
export function readProcesses(reader, processCount) {
  const first = new Uint32Array(processCount);
  const lengths = new Uint32Array(processCount);
  for (let i = 0; i < processCount; i++) {
    first[i] = reader.number();
    lengths[i] = reader.number();
  }
  const at = new Uint32Array(processCount + 1); // where the slices of each process begin in the columns
  for (let i = 0; i < processCount; i++) at[i + 1] = at[i] + lengths[i];
  const lives = { first, lengths, at };
  for (const column of ["in_use_bytes", "peak_bytes", "peak_blocks", "isReached"]) {
    lives[column] = reader.numbers(new Float64Array(at[processCount]));
  }
  return lives;
}

// For each process, the slice in [from, to) with its highest peak; -1: it did not live in this range.
export function peakSlices(lives, from, to) {
  return Int32Array.from(lives.first, (first, process) => {
    const start = Math.max(from, first);
    const end = Math.min(to, first + lives.lengths[process]);
    if (start >= end) return -1;
    const offset = lives.at[process] - first;
    let best = start;
    for (let i = start + 1; i < end; i++) {
      const peak = lives.peak_bytes[offset + i];
      const highest = lives.peak_bytes[offset + best];
      if (peak > highest || (lives.isReached[offset + i] && peak === highest)) best = i;
    }
    return best;
  });
}

// The points of the curve of one process, for timeline.js: the end of each slice and, if the peak of the slice was reached in it, a point
// in its middle.
export function curveOfProcess({ lives, facts }, process) {
  const { slice_ns: sliceNs } = facts.slices;
  const { duration_ns: wholeNs } = facts.summary;
  const first = lives.first[process];
  const points = { ns: [0], rate: [null], inUse: [0], resident: [null] };
  const add = (ns, inUse) => {
    points.ns.push(Math.min(ns, wholeNs));
    points.inUse.push(inUse);
    points.rate.push(null);
    points.resident.push(null);
  };
  if (first > 0) add(first * sliceNs, 0);
  for (let i = 0; i < lives.lengths[process]; i++) {
    const at = lives.at[process] + i;
    if (lives.isReached[at]) add((first + i + 0.5) * sliceNs, lives.peak_bytes[at]);
    add((first + i + 1) * sliceNs, lives.in_use_bytes[at]);
  }
  if (first + lives.lengths[process] < facts.slices.count) {
    add((first + lives.lengths[process]) * sliceNs, 0);
    add(wholeNs, 0);
  }
  return points;
}

// The first words of a command line that reports the blocks of the page in a terminal. PROCESS: a number, or -1 for all processes.
export function reportCommand(trace, process) {
  const { process_files: files, file } = trace.facts;
  if (!files) return `allogram report ${shellWord(file)}`;
  if (process >= 0) return `allogram report ${shellWord(files[process])}`;
  return `allogram report --merge ${files.length <= FILES_LISTED ? files.map(shellWord).join(" ") : "*.allogram"}`;
}

// The rows of the table: the processes with their sums in the range, also while one process is chosen. NAMES: the metrics of the sums.
export function processRows(app, names) {
  const { trace } = app;
  const range = app.range.of(app.range.label, -1);
  const rows = trace.processes.filter((process) => process !== null).map((process) => ({ ...process, sums: {} }));
  const byNumber = new Map(rows.map((row) => [row.number, row]));
  for (const name of names) {
    const values = range.values(name);
    for (const row of rows) row.sums[name] = 0;
    trace.groups.process.forEach((number, group) => {
      const row = byNumber.get(number);
      if (row) row.sums[name] += values[group];
    });
  }
  return rows;
}

export function showProcesses(app, host) {
  const { trace, metricName, unitOfMetric: unit, range } = app;
  const { processes, programs } = trace.facts.process_tree.total;
  const names = [...new Set([metricName, ...SUMS.map(([name]) => name)])];
  const firstNs = Math.min(...trace.processes.filter(Boolean).map(({ facts }) => facts.start_ns));
  const whole = range.of(range.label, -1).total(metricName);
  const matches = app.nameMatcher();
  const rows = processRows(app, names).filter(({ command, name }) => !matches || matches(command) || matches(name));
  const body = make("div", { class: "table" });
  const column = ([name, label, hint]) => ({ id: name, label, hint, text: (row) => inUnit(row.sums[name], unitOf(name)),
    value: (row) => row.sums[name], title: (row) => `${row.sums[name]}` });
  const isInOrder = () => table.sort.id === "tree";
  const table = new Table(body, [
    ...(SUMS.some(([name]) => name === metricName) ? [] : [column([metricName, `${app.metric.replace("_", " ")} ${unit}`])]),
    ...SUMS.map(column),
    { id: "share", label: "share", hint: "of the selected metric", text: (row) => share(row.sums[metricName], whole),
      value: (row) => row.sums[metricName], bar: (row) => row.sums[metricName] / whole },
    { id: "resident", label: "resident", hint: "the largest resident memory in the whole recording; processes share memory",
      text: ({ facts }) => (facts.rss_peak_bytes ? bytes(facts.rss_peak_bytes) : ""), value: ({ facts }) => facts.rss_peak_bytes ?? 0 },
    { id: "pid", label: "pid", text: ({ facts }) => `${facts.pid}`, value: ({ facts }) => facts.pid },
    { id: "started", label: "started", text: ({ facts }) => time(facts.start_ns - firstNs), value: ({ facts }) => facts.start_ns },
    { id: "end", label: "end", isText: true, text: ({ facts }) => endOf(facts) },
    { id: "tree", label: "process", hint: "each process below the process that started it", isName: true,
      text: (row) => `${isInOrder() ? "\u2003".repeat(row.depth) : ""}${row.command}`, value: (row) => -row.order,
      title: ({ facts }) => [facts.command.join(" ") || facts.exe, facts.user && `user ${facts.user}`, facts.file].filter(Boolean).join("\n"),
      note: (row) => [row.parent ? `${row.facts.was_executed ? "executed by" : "of"} ${row.parent.name}` : "",
        row.number === range.process ? "chosen" : ""].filter(Boolean).join(", ") },
  ], { sort: app.sortOf("tree"), onSort: (sort) => app.keepSort(sort),
    onOpen: (row) => app.set({ process: row.number + 1, tab: "flame", fn: 0, zoom: 0, sort: "" }),
    empty: "No process matches the search." });
  fill(host, make("p", { class: "hint" }, `${count(processes)} process${processes === 1 ? "" : "es"}${
    programs > processes ? `, ${count(programs)} programs` : ""}. The numbers are those of each process alone. A click limits the views of ` +
    "blocks, except Threads, to one process."), body);
  table.show(rows);
  app.copyText = () => table.text();
}

// Fills the list of processes at the top, in the order of the tree.
export function fillProcessChoice(trace, select) {
  const processes = trace.processes.filter(Boolean).sort((a, b) => a.order - b.order);
  fill(select, make("option", { value: 0 }, "all processes"), ...processes.map(({ number, depth, name }) =>
    make("option", { value: number + 1 }, `${"\u2003".repeat(depth)}${name}`)));
}
