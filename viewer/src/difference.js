// difference.js: the tab Diff: what grew and what shrank between two traces, by function. A change is the value after minus the value
// before. It is shown with a sign and a word, so that it is readable without colors.
import { fill, make } from "./elements.js";
import { Table } from "./table.js";
import { boundsText, intervalOfChange } from "./estimate.js";
import { inUnit, signed } from "./quantity.js";
import { Range } from "./range.js";
import { siteRows } from "./sites.js";

export function showDifference(app, host) {
  const { before, metricName, unitOfMetric: unit } = app;
  const range = new Range(before, 0, 0).of(before.labelLike(app.trace, app.range.label));
  const rows = new Map();
  const keyOf = (row) => `${row.name} ${row.note.split(" · ").pop()}`;
  for (const row of siteRows(app, "function", range, before)) {
    rows.set(keyOf(row), { ...row, fn: 0, was: row.own[metricName], is: 0,
      wasTotal: row.total[metricName], isTotal: 0, wasBounds: row.bounds(metricName) });
  }
  for (const row of siteRows(app, "function")) {
    const known = rows.get(keyOf(row)) ?? { ...row, was: 0, wasTotal: 0 };
    rows.set(keyOf(row), { ...known, fn: row.fn, is: row.own[metricName],
      isTotal: row.total[metricName], isBounds: row.bounds(metricName) });
  }
  const isSampled = app.trace.isSampled || before.isSampled;
  const boundsOf = (row) => intervalOfChange(row.was, row.wasBounds ?? [row.was, row.was],
    row.is, row.isBounds ?? [row.is, row.is]);
  const isUnsure = (row) => isSampled && boundsOf(row)[0] <= 0 && boundsOf(row)[1] >= 0;
  const matches = app.nameMatcher();
  const changed = [...rows.values()]
    .filter((row) => row.was !== row.is || row.wasTotal !== row.isTotal)
    .filter((row) => !matches || matches(row.name))
    .map((row) => ({ ...row, delta: row.is - row.was, totalDelta: row.isTotal - row.wasTotal,
      isFixed: row.fn < 2 }));
  const most = changed.reduce((max, { delta }) => Math.max(max, Math.abs(delta)), 1);
  const body = make("div", { class: "table" });
  const table = new Table(body, [
    { id: "delta", label: "own, after − before", text: (row) => signed(row.delta, unit),
      value: (row) => Math.abs(row.delta),
      title: (row) => (isSampled ? boundsText(boundsOf(row)) : `${row.delta}`) },
    { id: "bar", label: "change", text: (row) => (isUnsure(row) ? "unsure" : row.delta > 0 ? "grew" : row.delta < 0 ? "shrank"
      : "same"), value: (row) => row.delta, bar: (row) => Math.abs(row.delta) / most },
    { id: "was", label: "before", text: (row) => inUnit(row.was, unit), value: (row) => row.was },
    { id: "is", label: "after", text: (row) => inUnit(row.is, unit), value: (row) => row.is },
    { id: "total", label: "total, after − before", text: (row) => signed(row.totalDelta, unit),
      value: (row) => Math.abs(row.totalDelta) },
    { id: "name", label: "function", isName: true, text: (row) => row.name,
      note: (row) => row.note, title: (row) => row.name },
  ], { sort: app.sortOf("delta"), onOpen: (row) => app.open(row.fn),
    onSort: (sort) => app.keepSort(sort), empty: "No function differs." });
  const sum = app.range.total(metricName) - range.total(metricName);
  fill(host, make("p", { class: "hint" }, "Before: ", make("b", {}, before.command),
    `, ${before.facts.file}, the whole recording. After: this trace, in the selected range. Net change: `,
    make("b", { id: "difference" }, signed(sum, unit)), "."), body);
  table.show(changed);
  app.copyText = () => table.text();
}
