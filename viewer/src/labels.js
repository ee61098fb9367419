// labels.js: the tab Labels. A program sets a label to name its current work (a request, a phase); each block
// has the label that was set when it was allocated. The tab is a table of all labels in the range. Choosing a
// label limits the other views of blocks, except Threads, to the blocks with this label.
import { fill, make } from "./elements.js";
import { interval, weightsOf } from "./estimate.js";
import { METRICS } from "./range.js";
import { sureColumn } from "./sites.js";
import { Table } from "./table.js";
import { inUnit, share, unitOf } from "./quantity.js";

const COLUMNS = [
  ["in_use_bytes", "in use"], ["in_use_blocks", "blocks in use"],
  ["allocated_bytes", "allocated"], ["allocated_blocks", "blocks allocated"],
];

// For each label, the sums of the metrics in the list NAMES.
function sumsOf(range, names) {
  const { label: labelOf, count } = range.trace.groups;
  const sums = new Map(range.trace.labels.map((label) => [label, {}]));
  for (const name of names) {
    const values = range.values(name);
    for (const sum of sums.values()) sum[name] = 0;
    for (let i = 0; i < count; i++) sums.get(labelOf[i])[name] += values[i];
  }
  return sums;
}

function boundsOf(range, metricName, label, value) {
  const { groups } = range.trace;
  const variances = range.variances(metricName);
  const isOne = (group) => groups.label[group] === label;
  const variance = variances.reduce((sum, one, group) => sum + (isOne(group) ? one : 0), 0);
  return interval(value, variance, weightsOf(groups, isOne), unitOf(metricName));
}

// The rows of all labels in the range, also while one label is selected: { label, name, sums, value, bounds }
export function labelRows(app) {
  const { trace, metricName } = app;
  const range = app.range.of(-1, app.range.process);
  const names = [...new Set([metricName, ...COLUMNS.map(([name]) => name)])];
  return [...sumsOf(range, names)]
    .filter(([, sums]) => names.some((name) => sums[name] !== 0))
    .map(([label, sums]) => ({ label, name: trace.labelName(label), sums, value: sums[metricName],
      bounds: trace.isSampled ? boundsOf(range, metricName, label, sums[metricName]) : null }));
}

export function showLabels(app, host) {
  const { metricName, unitOfMetric: unit } = app;
  const whole = app.range.of(-1, app.range.process).total(metricName);
  const matches = app.nameMatcher();
  const rows = labelRows(app).filter((row) => !matches || matches(row.name));
  const body = make("div", { class: "table" });
  const column = ([name, label]) => ({ id: name, label, text: (row) =>
    inUnit(row.sums[name], unitOf(name)), value: (row) => row.sums[name],
  title: (row) => `${row.sums[name]}` });
  const table = new Table(body, [
    column([metricName, (COLUMNS.find(([name]) => name === metricName) ??
      ["", METRICS[app.metric].label.toLowerCase()])[1]]),
    ...sureColumn(app.trace, (row) => row.value, (row) => row.bounds, unit),
    { id: "share", label: "share", text: (row) => share(row.value, whole),
      value: (row) => row.value, bar: (row) => row.value / whole },
    ...COLUMNS.filter(([name]) => name !== metricName).map(column),
    { id: "name", label: "label", isName: true, text: (row) => row.name, title: (row) => row.name,
      note: (row) => (row.label === app.range.label ? "chosen" : "") },
  ], { sort: app.sortOf(metricName), onSort: (sort) => app.keepSort(sort), shown: app.rowsShown,
    onOpen: (row) => app.set({ label: row.label + 1, tab: "flame", fn: 0, zoom: 0, sort: "" }),
    empty: app.state.query ? "No label matches the search." : "In this range no block was allocated or in use." });
  fill(host, make("p", { class: "hint" }, "Labels that the program had set when it " +
    "allocated. A click limits the views of blocks, except Threads, to one label."), body);
  table.show(rows);
  app.copyText = () => table.text();
}

// "label request 1" for the label "request 1". The two special entries (all small labels together, and blocks
// without a label) have no prefix.
export function labelText(trace, label) {
  return label < 2 ? trace.labelName(label) : `label ${trace.labelName(label)}`;
}

// Fills the list of labels at the top: the largest labels first; at the end one entry for all small
// labels together, and one for blocks without a label.
export function fillChoice(trace, select) {
  const weight = sumsOf({ trace, values: (name) => trace.groups[name] }, ["allocated_bytes"]);
  const order = [...trace.labels].sort((a, b) => (a < 2) - (b < 2) ||
    weight.get(b).allocated_bytes - weight.get(a).allocated_bytes);
  fill(select, make("option", { value: 0 }, "all labels"),
    ...order.map((label) => make("option", { value: label + 1 }, trace.labelName(label))));
}
