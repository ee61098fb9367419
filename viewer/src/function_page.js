// function_page.js: the page of one function: its memory over time, its callers and callees, its lines, the
// sizes and lifetimes of its blocks, and the command that prints the function in a terminal.
import uPlot from "uplot";
import { fill, make } from "./elements.js";
import { Table } from "./table.js";
import { bytes, inUnit, share, timeTicks, trim } from "./quantity.js";
import { reportCommand } from "./processes.js";
import { METRICS } from "./range.js";
import { quoted } from "./shell.js";
import { OTHER } from "./trace.js";
import { LEAST_HINT, sumsByKey } from "./totals.js";
import { bars, groupSums, lifetimeRows, sizeRows } from "./histogram.js";

// For each node of the tree: 1 if FN is the function of the node or of one of its callers.
function nodesUnder(tree, fn) {
  const isUnder = new Uint8Array(tree.count);
  for (let i = 1; i < tree.count; i++) {
    isUnder[i] = tree.key[i] === fn || isUnder[tree.parent[i]] ? 1 : 0;
  }
  return isUnder;
}

export function groupsUnder(app, fn) {
  const isUnder = nodesUnder(app.tree, fn);
  return Uint8Array.from(app.tree.groupNode, (node, group) =>
    (isUnder[node] && app.range.hasGroup(group) ? 1 : 0));
}

function neighbours(app, fn, values) {
  const { tree } = app;
  const totals = tree.totals(values);
  const above = new Map();
  const below = new Map();
  let own = 0;
  const add = (map, key, value) => map.set(key, (map.get(key) ?? 0) + value);
  const ownOf = tree.own(values);
  for (let i = 1; i < tree.count; i++) {
    if (tree.key[i] !== fn) continue;
    own += ownOf[i];
    if (tree.isOutermost[i]) {
      add(above, tree.key[tree.parent[i]], totals[i]);
      for (let k = tree.firstChild[i]; k < tree.firstChild[i + 1]; k++) {
        add(below, tree.key[tree.child[k]], totals[tree.child[k]]);
      }
    }
  }
  return { above, below, own };
}

function neighbourTable(app, title, map, whole, empty) {
  const { trace, unitOfMetric: unit } = app;
  const rows = [...map].filter(([, value]) => value !== 0)
    .map(([fn, value]) => ({ fn, value, name: fn === 0 ? "(outermost)" : fn === OTHER ? "small stacks (callers left out)"
      : trace.functions[fn].name,
      image: trace.functions[fn].image, isFixed: fn < 2 }));
  const host = make("div", { class: "table" });
  new Table(host, [
    { id: "value", label: METRICS[app.metric].label.toLowerCase(),
      text: (row) => inUnit(row.value, unit), value: (row) => row.value },
    { id: "share", label: "share", text: (row) => share(row.value, whole),
      value: (row) => row.value, bar: (row) => row.value / whole },
    { id: "name", label: "function", isName: true, text: (row) => row.name,
      note: (row) => row.image, title: (row) => row.name },
  ], { sort: { id: "value", isRising: false }, onOpen: (row) => app.open(row.fn), empty })
    .show(rows);
  return make("section", {}, make("h3", {}, title), host);
}

// The lines of the function, with their own values and the totals that include callees (in C++, a line of
// the program often allocates through five functions of the library). A stack with several frames of the
// function counts for the line of the innermost frame.
function lineTable(app, fn, values, isWanted) {
  const { trace, unitOfMetric: unit } = app;
  const lines = new Map();
  for (let i = 0; i < trace.groups.count; i++) {
    if (!isWanted[i] || values[i] === 0) continue;
    const frames = trace.framesOf(i);
    const at = frames.findIndex((frame) => trace.functionOf[frame] === fn);
    const frame = frames[at];
    const line = lines.get(frame) ?? { own: 0, total: 0, name: trace.placeOf(frame) ||
      "line not known" };
    line.total += values[i];
    if (at === 0) line.own += values[i];
    lines.set(frame, line);
  }
  if (lines.size === 0) return null;
  const host = make("div", { class: "table lines" });
  new Table(host, [
    { id: "total", label: "total", hint: "including callees",
      text: (row) => inUnit(row.total, unit), value: (row) => row.total },
    { id: "own", label: "own", text: (row) => inUnit(row.own, unit), value: (row) => row.own },
    { id: "name", label: "line", isName: true, text: (row) => row.name },
  ], { sort: { id: "total", isRising: false } }).show([...lines.values()]);
  return make("section", {}, make("h3", {}, "Its lines"), host);
}

// The own values and totals of a metric, by function.
function functionSums(app, name) {
  const { trace, tree, range } = app;
  return sumsByKey(tree, range, "function", (frame) => trace.functionOf[frame], trace.functions.length, name);
}

function facts(app, fn, isWanted) {
  const { trace, range } = app;
  const rows = Object.entries(METRICS).map(([metric, { label, bytes: hasBytes }]) => {
    const blocks = functionSums(app, `${metric}_blocks`);
    const size = hasBytes ? functionSums(app, `${metric}_bytes`) : null;
    const total = (value) => make("td", blocks.isLeast(fn) ? { title: LEAST_HINT } : {}, `${blocks.isLeast(fn) ? "≥ " : ""}${value}`);
    const whole = range.total(`${metric}_${hasBytes ? "bytes" : "blocks"}`);
    const part = (size ?? blocks).total[fn];
    return make("tr", {}, make("th", { scope: "row" }, label),
      make("td", {}, size ? bytes(size.own[fn]) : "–"),
      size ? total(bytes(size.total[fn])) : make("td", {}, "–"),
      make("td", {}, inUnit(blocks.own[fn], "blocks")),
      total(inUnit(blocks.total[fn], "blocks")),
      make("td", { class: "dim" }, share(part, whole)));
  });
  const vias = new Set();
  for (let i = 0; i < isWanted.length; i++) {
    if (isWanted[i] && trace.groups.via[i]) vias.add(trace.names[trace.groups.via[i]]);
  }
  return make("section", {}, make("table", { class: "facts" },
    make("thead", {}, make("tr", {}, ...["", "own", "total", "own blocks", "total blocks", "share"]
      .map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...rows)),
  vias.size > 0 ? make("p", { class: "hint" }, `allocates via ${[...vias].sort().join(", ")}`)
    : null);
}

async function drawHistory(app, host, isWanted) {
  const history = await app.trace.loadHistory();
  const { slices, summary } = app.trace.facts;
  const curve = new Float64Array(slices.count + 1);
  for (let slice = 0; slice < slices.count; slice++) {
    curve[slice + 1] = curve[slice];
    for (let i = history.first[slice]; i < history.first[slice + 1]; i++) {
      if (isWanted[history.group[i]]) {
        curve[slice + 1] += history.allocated_bytes[i] - history.freed_bytes[i];
      }
    }
  }
  const seconds = Array.from(curve, (_, i) =>
    Math.min(i * slices.slice_ns, summary.duration_ns) / 1e9);
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false }, font: "12px system-ui, sans-serif" };
  fill(host);
  new uPlot({
    width: Math.max(200, host.clientWidth), height: 110, legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: false }, y: { range: (_, __, max) => [0, (max || 1) * 1.1] } },
    axes: [{ ...axis, size: 22, values: (_, ticks) => timeTicks(ticks.map((s) => s * 1e9)) },
      { ...axis, size: 72, values: (_, ticks) => ticks.map((b) => trim(bytes(b))),
        incrs: [...Array(45).keys()].map((i) => 2 ** i) }],
    series: [{}, { stroke: colour("--curve-in-use"), fill: colour("--curve-fill"), width: 1.5,
      points: { show: false } }],
  }, [seconds, Array.from(curve)], host);
}

// The command line that shows the function. The function's name is quoted for a regular expression and for
// a shell. Times of --from and --to are since the start of each process, so they are left out if there are several.
function command(app, name) {
  const pattern = name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const { range, trace } = app;
  const window = range.isWhole || trace.isMerged ? ""
    : ` --from=${range.fromNs}ns --to=${range.toNs}ns${
      ["in_use", "peak"].includes(app.metric) ? " --older" : ""}`;
  return `${reportCommand(trace, range.process)} --view=tree --focus=${
    quoted(`^${pattern}$`)}${window}${trace.isFolded ? "" : " --fold=none"}`;
}

async function drawCounts(app, host, isWanted) {
  const counts = await app.trace.loadCounts();
  const { groups, facts: { summary } } = app.trace;
  let open = 0;
  for (let i = 0; i < groups.count; i++) if (isWanted[i]) open += groups.in_use_blocks[i];
  fill(host, make("div", { class: "pair" },
    bars("Sizes", sizeRows(groupSums(counts.groupSizes, isWanted)), "blocks",
      "of its blocks, over the whole recording"),
    bars("Lifetimes", lifetimeRows(groupSums(counts.groupLifetimes, isWanted),
      summary.time_resolution_ns, open, app.trace.hasCollected), "blocks", "of its blocks, over the whole recording")));
}

export function showFunction(app, host) {
  const { trace, state, range } = app;
  const { fn } = state;
  const { name, image, file, line } = trace.functions[fn];
  const values = range.values(app.metricName);
  const { above, below, own } = neighbours(app, fn, values);
  const isWanted = groupsUnder(app, fn);
  const seen = [...above.values()].reduce((sum, value) => sum + value, 0);
  const sums = functionSums(app, app.metricName);
  const total = sums.total[fn];
  const rest = total - seen; // of small stacks: the tree has only their allocating functions
  if (rest > 0) {
    above.set(OTHER, (above.get(OTHER) ?? 0) + rest);
    below.set(OTHER, (below.get(OTHER) ?? 0) + rest);
  }
  const curve = make("div", { class: "curve" });
  const counts = make("div", {});
  if (own > 0) below.set(0, own);
  const belowTable = neighbourTable(app, "Callees", below, total, "It calls no function that allocates.");
  for (const cell of belowTable.querySelectorAll("td.name")) {
    if (cell.firstChild.textContent === "(outermost)") cell.firstChild.textContent = "(itself)";
  }
  const commandLine = command(app, name);
  fill(host,
    make("header", { class: "function" },
      make("button", { class: "back", onclick: () => history.back() }, "← back"),
      make("h2", {}, name),
      make("p", { class: "note" }, [file && `${file}${line ? `:${line}` : ""}`, image]
        .filter(Boolean).join("  ·  "))),
    make("div", { class: "pair" }, facts(app, fn, isWanted),
      make("section", {}, make("h3", {}, "In use over time, including callees"), curve,
        rest > 0 || sums.isLeast(fn) ? make("p", { class: "hint" },
          "Small stacks are folded: the curve, callers, callees, lines, sizes and lifetimes do not contain those of this function.") : null)),
    make("div", { class: "pair" },
      make("div", {}, neighbourTable(app, "Callers", above, total, "In this range no block was allocated or in use."),
        lineTable(app, fn, values, isWanted)), belowTable),
    counts,
    make("p", { class: "command" }, range.isOfLabel || (trace.isMerged && !range.isWhole) ? make("span", { class: "hint" },
      `the same in a terminal, ${[range.isOfLabel && "of all labels", trace.isMerged && !range.isWhole && "of the whole recording"]
        .filter(Boolean).join(", ")}`) : null, make("code", {}, commandLine)));
  drawHistory(app, curve, isWanted);
  drawCounts(app, counts, isWanted);
  const lines = (title, map) => [title, ...[...map].sort((a, b) => b[1] - a[1]).slice(0, 40)
    .map(([key, value]) => `  ${inUnit(value, app.unitOfMetric).padStart(12)}  ${
      share(value, total).padStart(7)}  ${key === 0 ? "-" : trace.functions[key].name}`)].join("\n");
  app.copyText = () => [name, commandLine, lines("callers", above), lines("callees", below)]
    .join("\n\n");
}
