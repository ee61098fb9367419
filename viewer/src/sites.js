// sites.js: the tab Sites: for each function, line or image (loaded file) what it allocates itself (own), and
// with its callees (total).
import { Table } from "./table.js";
import { make } from "./elements.js";
import { boundsText, interval, spreadOf, weightsByKey } from "./estimate.js";
import { callers } from "./tree.js";
import { inUnit, share, unitOf } from "./quantity.js";
import { LEAST_HINT, sumsByKey } from "./totals.js";
import { LIBRARY } from "./trace.js";

const isLibrary = (trace, fn) => trace.functions[fn].owner === LIBRARY;

// Returns { keyOf(frame), count, row(key) }: the key of a frame, the number of keys, and what a row shows. A
// key is the number of a function, a line or an image; BY selects which.
function keysOf(trace, by) {
  if (by === "function") {
    return { keyOf: (frame) => trace.functionOf[frame], count: trace.functions.length,
      row: (key) => ({ fn: key, name: trace.functions[key].name, isDim: isLibrary(trace, key),
        note: [trace.functions[key].file.replace(/.*\//, ""), trace.functions[key].image]
          .filter(Boolean).join(" · ") }) };
  }
  if (by === "line") {
    return { keyOf: (frame) => frame, count: trace.frames.count + 2,
      row: (key) => ({ fn: trace.functionOf[key], name: trace.functions[trace.functionOf[key]].name,
        isDim: isLibrary(trace, trace.functionOf[key]),
        note: trace.placeOf(key) || trace.functions[trace.functionOf[key]].image }) };
  }
  const images = [...new Set(trace.functions.map(({ image }) => image))];
  const numbers = new Map(images.map((image, number) => [image, number]));
  return { keyOf: (frame) => numbers.get(trace.functions[trace.functionOf[frame]].image) + 1,
    count: images.length + 1,
    row: (key) => ({ fn: 0, name: images[key - 1] || "unknown or other", note: "" }) };
}

const trees = new Map();

// Returns a function that computes the interval of one number (own or total) of a key. Variances are computed
// when they are first needed.
function boundsOf(tree, range, count) {
  const weights = weightsByKey(tree, range.trace.groups, count);
  const variances = {};
  const inTree = {};
  return (key, name, part, value) => {
    variances[name] ??= tree.byKey(range.variances(name), count);
    inTree[name] ??= tree.byKey(range.values(name), count);
    const seen = inTree[name][part][key]; // less than VALUE if the tree does not have all callers
    const variance = variances[name][part][key] * (seen > 0 ? value / seen : 1);
    return interval(value, variance, weights(part, key), unitOf(name));
  };
}

// A list with one column: the interval of the number in the column before it. The list is empty in an exact
// trace.
export function sureColumn(trace, valueOf, boundsOfRow, unit) {
  return trace.isSampled ? [{ id: "sure", label: "±", hint: "95 % confidence interval",
    text: (row) => spreadOf(valueOf(row), boundsOfRow(row), unit),
    value: (row) => boundsOfRow(row)[1] - boundsOfRow(row)[0],
    title: (row) => boundsText(boundsOfRow(row)) }] : [];
}

const ALL_NAMES = ["allocated_bytes", "allocated_blocks", "in_use_bytes", "in_use_blocks", "peak_bytes", "peak_blocks", "temporary_blocks",
  "leaked_bytes", "leaked_blocks", "freed_bytes", "freed_blocks"];

// Returns a row for each function, line or image that has a value. NAMES: the metrics of the rows. Each metric is a sum over the whole tree,
// so a view that is drawn while the range is dragged asks only for the metrics that it shows.
export function siteRows(app, by, range = app.range, trace = app.trace, names = ALL_NAMES) {
  const keys = keysOf(trace, by);
  const cached = `${trace.number} ${by} ${trace.isFolded}`;
  if (!trees.has(cached)) {
    trees.set(cached, by === "function" && trace === app.trace ? app.tree
      : callers(trace, keys.keyOf));
  }
  const tree = trees.get(cached);
  const sums = {};
  for (const name of names) sums[name] = sumsByKey(tree, range, by, keys.keyOf, keys.count, name);
  const { isLeast: isLeastOf } = sums[names[0]];
  const sure = trace.isSampled ? boundsOf(tree, range, keys.count) : null;
  const rows = [];
  for (let key = 1; key < keys.count; key++) {
    const own = {};
    const total = {};
    const isLeast = isLeastOf(key);
    let isUsed = isLeast;
    for (const [name, sum] of Object.entries(sums)) {
      own[name] = sum.own[key];
      total[name] = sum.total[key];
      isUsed ||= sum.total[key] !== 0;
    }
    if (isUsed) {
      rows.push({ key, ...keys.row(key), own, total, isLeast,
        bounds: (name, part = "own") => (sure ? sure(key, name, part, { own, total }[part][name])
          : null) });
    }
  }
  return rows;
}

export function showSites(app, host) {
  const { state, metricName } = app;
  const whole = app.range.total(metricName);
  const unit = metricName.endsWith("bytes") ? "bytes" : "blocks";
  const blocks = metricName.replace("bytes", "blocks");
  const matches = app.nameMatcher();
  const rows = siteRows(app, state.by, app.range, app.trace, [...new Set([metricName, blocks])])
    .filter((row) => row.total[metricName] !== 0 || row.own[metricName] !== 0 || row.isLeast)
    .filter((row) => !matches || matches(row.name) || matches(row.note));
  const by = make("div", { class: "choice", role: "group", "aria-label": "one row for each" },
    ...["function", "line", "image"].map((name) => make("button", {
      "aria-pressed": String(state.by === name),
      onclick: () => app.set({ by: name }),
    }, `by ${name}`)));
  const body = make("div", { class: "table" });
  host.replaceChildren(by, body);
  const columns = [
    { id: "own", label: "own", hint: "allocated by the function itself",
      text: (row) => inUnit(row.own[metricName], unit), value: (row) => row.own[metricName],
      title: (row) => `${row.own[metricName]}` },
    ...sureColumn(app.trace, (row) => row.own[metricName], (row) => row.bounds(metricName), unit),
    { id: "share", label: "share", text: (row) => share(row.own[metricName], whole),
      value: (row) => row.own[metricName], bar: (row) => row.own[metricName] / whole },
    { id: "total", label: "total", hint: "including callees",
      text: (row) => `${row.isLeast ? "≥ " : ""}${inUnit(row.total[metricName], unit)}`, value: (row) => row.total[metricName],
      title: (row) => (row.isLeast ? LEAST_HINT : app.trace.isSampled ? boundsText(row.bounds(metricName, "total"))
        : `${row.total[metricName]}`) },
    ...(unit === "bytes" ? [{ id: "blocks", label: "own blocks",
      text: (row) => inUnit(row.own[blocks], "blocks"), value: (row) => row.own[blocks],
      title: (row) => `${row.own[blocks]}` }] : []),
    { id: "name", label: state.by === "image" ? "image" : "function", isName: true,
      text: (row) => row.name, note: (row) => row.note, title: (row) => row.name },
  ];
  const table = new Table(body, columns, {
    sort: app.sortOf("own"),
    onOpen: state.by === "image" ? undefined : (row) => app.open(row.fn),
    onSort: (sort) => app.keepSort(sort),
    shown: app.rowsShown,
    empty: state.query ? "No name matches the search." : "In this range no block was allocated or in use.",
  });
  table.show(rows.map((row) => ({ ...row, isFixed: row.fn < 2 })));
  app.copyText = () => table.text();
}
