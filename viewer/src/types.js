// types.js: the tab Types: sums of blocks by type. One row has all blocks without a known type.
import { fill, make } from "./elements.js";
import { interval, weightsOf } from "./estimate.js";
import { sureColumn } from "./sites.js";
import { Table } from "./table.js";
import { inUnit, share, unitOf } from "./quantity.js";

function boundsOf(range, metricName, type, value) {
  const { groups } = range.trace;
  const variances = range.variances(metricName);
  const isOne = (group) => groups.type[group] === type;
  const variance = variances.reduce((sum, one, group) => sum + (isOne(group) ? one : 0), 0);
  return interval(value, variance, weightsOf(groups, isOne), unitOf(metricName));
}

export function typeRows(app) {
  const { trace, range, metricName } = app;
  const { groups, names } = trace;
  const sums = new Map();
  const values = range.values(metricName);
  for (let i = 0; i < groups.count; i++) {
    sums.set(groups.type[i], (sums.get(groups.type[i]) ?? 0) + values[i]);
  }
  return [...sums].filter(([, value]) => value !== 0)
    .map(([type, value]) => ({ type, value, name: names[type] || "(untyped)",
      bounds: trace.isSampled ? boundsOf(range, metricName, type, value) : null }));
}

export function showTypes(app, host) {
  const { range, metricName, unitOfMetric: unit } = app;
  const whole = range.total(metricName);
  const matches = app.nameMatcher();
  const rows = typeRows(app).filter((row) => !matches || matches(row.name));
  const untyped = rows.find(({ type }) => type === 0)?.value ?? 0;
  const body = make("div", { class: "table" });
  const table = new Table(body, [
    { id: "value", label: unit, text: (row) => inUnit(row.value, unit),
      value: (row) => row.value, title: (row) => `${row.value}` },
    ...sureColumn(app.trace, (row) => row.value, (row) => row.bounds, unit),
    { id: "share", label: "share", text: (row) => share(row.value, whole),
      value: (row) => row.value, bar: (row) => row.value / whole },
    { id: "name", label: "type", isName: true, text: (row) => row.name, title: (row) => row.name },
  ], { sort: app.sortOf("value"), onSort: (sort) => app.keepSort(sort), shown: app.rowsShown,
    empty: "No type matches." });
  fill(host, make("p", { class: "hint" },
    `${share(untyped, whole)} came from code that reports no types.`), body);
  table.show(rows);
  app.copyText = () => table.text();
}
