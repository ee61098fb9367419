// calls.js: the tab Functions: the counters that a runtime (virtual machine) reports for each function
// (calls, allocated words, time). The tab shows a table, a plot of words against time, and a page for each
// function with its callers and callees. The counters cover the whole recording, whatever range is selected.
import { fill, make } from "./elements.js";
import { Scatter } from "./scatter.js";
import { quoted, shellWord } from "./shell.js";
import { Table } from "./table.js";
import { count, share, short, time } from "./quantity.js";

const OFF = 3; // a function is marked if its words per time are this factor above or below the plot's line
const LEAST_SHARE = 0.01; // a function with a smaller share of all words, and of all time, is not marked

// Formats words per microsecond.
export function rate(words, ns) {
  if (ns === 0) return "–";
  const perUs = (words / ns) * 1000;
  return perUs === 0 ? "0" : perUs >= 100 ? short(perUs) : perUs.toPrecision(2);
}

function perCall(words, calls) {
  return calls === 0 ? "–" : (words / calls).toFixed(2);
}

// The rows of all functions. They are computed once.
export function callRows(app) {
  if (!app.callRows) {
    const { trace, trace: { calls: { count: n, functions } } } = app;
    app.callRows = Array.from({ length: n }, (_, i) => ({
      call: i + 1, name: trace.names[functions.name[i]], runtime: trace.names[functions.runtime[i]],
      calls: functions.calls[i], words: functions.words[i], ns: functions.ns[i],
      accWords: functions.accWords[i], accNs: functions.accNs[i],
    }));
  }
  return app.callRows;
}

// The line of the plot: the median of words per time of all functions that have words and a measurable time.
// A single function changes the median little, even if it waited long for the CPU or takes most of the time.
export function middleOf(rows) {
  const rates = rows.filter(({ words, ns }) => words > 0 && ns > 0)
    .map(({ words, ns }) => words / ns).sort((a, b) => a - b);
  return rates[rates.length >> 1] ?? 0;
}

// The words of a function, divided by the words that a function with the same time has on the plot's line.
function offOf(row, line) {
  return row.words / row.ns / line;
}

function isMarked(row, line, total) {
  const off = offOf(row, line);
  return (off >= OFF || off <= 1 / OFF) &&
    (row.words >= total.words * LEAST_SHARE || row.ns >= total.ns * LEAST_SHARE);
}

function offText(off) {
  return off >= 1 ? `${off >= 10 ? Math.round(off) : off.toFixed(1)} times the words of the line`
    : `the line has ${1 / off >= 10 ? count(1 / off) : (1 / off).toFixed(1)} times its words`;
}

function describe(row, line) {
  return [row.name, `${short(row.words)} words`, time(row.ns), `${short(row.calls)} calls`,
    row.words > 0 && row.ns > 0 ? `${rate(row.words, row.ns)} words/us` : "",
    row.words > 0 && row.ns > 0 && line > 0 ? offText(offOf(row, line)) : ""]
    .filter(Boolean).join("  ·  ");
}

function plot(app, rows, total) {
  const line = middleOf(rows);
  const drawn = rows.filter(({ words, ns }) => words > 0 && ns > 0);
  if (drawn.length < 2 || line === 0) return null;
  const weight = (row) => Math.max(row.words / total.words, row.ns / total.ns);
  const points = drawn.sort((a, b) => weight(b) - weight(a)).slice(0, Scatter.MOST)
    .map((row) => ({ row, x: row.ns, y: row.words, isMarked: isMarked(row, line, total),
      isAbove: row.words / row.ns >= line, name: row.name }));
  const matches = app.nameMatcher();
  for (const point of points) point.isDim = matches !== null && !matches(point.name);
  const note = make("p", { class: "note point", "aria-live": "polite" });
  const rest = "▲ allocates more words in its time than other functions.  " +
    "▼ allocates fewer: it is slow for another reason.";
  const say = (point) => { note.textContent = point ? describe(point.row, line) : rest; };
  say(null);
  const scatter = new Scatter({ points, line, xText: time, yText: (words) => short(words),
    lineText: `${rate(line, 1)} words/us`,
    xTitle: "own time", yTitle: "own words", onPoint: say,
    onOpen: (point) => app.openCall(point.row.call) });
  return make("section", { class: "plot" }, scatter.element, note);
}

function apartText({ messages, spawn_arguments: spawned, profiler }) {
  const known = (words) => (words === null ? "an unknown number of" : short(words));
  const parts = [
    messages.count > 0 && `messages ${known(messages.words)} words in ${short(messages.count)}`,
    spawned.count > 0 && `spawn arguments ${known(spawned.words)} words`,
    profiler.count > 0 && `the profiler itself ${short(profiler.words)} words`,
  ].filter(Boolean);
  return parts.length > 0 ? `apart: ${parts.join(", ")}` : "";
}

function columnsOf(total) {
  return [
    { id: "words", label: "words", hint: "allocated by the function itself",
      text: (row) => short(row.words), value: (row) => row.words, title: (row) => count(row.words) },
    { id: "share", label: "share", text: (row) => share(row.words, total.words),
      value: (row) => row.words, bar: (row) => (total.words > 0 ? row.words / total.words : 0) },
    { id: "calls", label: "calls", text: (row) => short(row.calls), value: (row) => row.calls,
      title: (row) => count(row.calls) },
    { id: "percall", label: "words/call", text: (row) => perCall(row.words, row.calls),
      value: (row) => (row.calls > 0 ? row.words / row.calls : 0) },
    ...(total.ns > 0 ? [
      { id: "time", label: "time", hint: "of the function itself",
        text: (row) => time(row.ns), value: (row) => row.ns, title: (row) => `${count(row.ns)} ns` },
      { id: "rate", label: "words/us", text: (row) => rate(row.words, row.ns),
        value: (row) => (row.ns > 0 ? row.words / row.ns : 0) }] : []),
    { id: "accwords", label: "total words", hint: "including callees",
      text: (row) => short(row.accWords), value: (row) => row.accWords,
      title: (row) => count(row.accWords) },
    ...(total.ns > 0 ? [{ id: "acctime", label: "total time", hint: "including callees",
      text: (row) => time(row.accNs), value: (row) => row.accNs }] : []),
  ];
}

const nameColumn = (hasRuntimes) => ({ id: "name", label: "function", isName: true,
  text: (row) => row.name, title: (row) => row.name,
  note: hasRuntimes ? (row) => row.runtime : undefined });

function hasRuntimes(rows) {
  return new Set(rows.filter(({ calls }) => calls > 0).map(({ runtime }) => runtime)).size > 1;
}

export function totalText({ functions: total }) {
  return `${short(total.calls)} calls, ${short(total.words)} words${
    total.ns > 0 ? `, ${time(total.ns)}` : ""}, of the whole recording`;
}

export function showCalls(app, host) {
  const { functions: total } = app.trace.facts;
  const all = callRows(app);
  const matches = app.nameMatcher();
  const rows = all.filter(({ name }) => !matches || matches(name));
  const body = make("div", { class: "table" });
  const table = new Table(body, [...columnsOf(total), nameColumn(hasRuntimes(all))], {
    sort: app.sortOf("words"), onOpen: (row) => app.openCall(row.call),
    onSort: (sort) => app.keepSort(sort),
    empty: app.state.query ? "No name matches the search." : "No function was counted." });
  const notes = [apartText(total),
    total.count > all.length ? `${count(total.count - all.length)} small functions are left out` : "",
    total.partial_trees > 0 ? `${count(total.partial_trees)} processes or threads are incomplete: ` +
      "their counts are too low" : ""].filter(Boolean);
  fill(host, plot(app, all, total), body,
    ...notes.map((text) => make("p", { class: "hint" }, text)));
  table.show(rows);
  app.copyText = () => [table.text(), `total: ${totalText(app.trace.facts)}`, ...notes].join("\n");
}

// ---- the page of one function ----

// The rows of the pairs of caller and callee in which function CALL has the role OF ("caller" or "callee").
// A row shows the other function, which has the role OTHER.
function pairsOf(app, of, other, call) {
  const { edges } = app.trace.calls;
  const rows = callRows(app);
  const pairs = [];
  for (let i = 0; i < edges.callee.length; i++) {
    const callee = edges.callee[i] + 1;
    const ends = { caller: edges.caller[i], callee };
    if (ends[of] !== call) continue;
    const { name, runtime } = rows[ends[other] - 1] ?? { name: "(nothing that is counted)", runtime: "" };
    pairs.push({ call: ends[other], isFixed: ends[other] === 0, name, runtime,
      calls: edges.calls[i], words: edges.words[i], ns: edges.ns[i],
      accWords: edges.accWords[i], accNs: edges.accNs[i] });
  }
  return pairs;
}

function pairTable(app, title, hint, pairs, { words, ns, whole, empty }) {
  const host = make("div", { class: "table" });
  const hasTime = app.trace.facts.functions.ns > 0;
  const table = new Table(host, [
    { id: "words", label: "words", hint, text: (row) => short(row[words]),
      value: (row) => row[words], title: (row) => count(row[words]) },
    { id: "share", label: "share", text: (row) => share(row[words], whole),
      value: (row) => row[words], bar: (row) => (whole > 0 ? row[words] / whole : 0) },
    { id: "calls", label: "calls", text: (row) => short(row.calls), value: (row) => row.calls,
      title: (row) => count(row.calls) },
    ...(hasTime ? [{ id: "time", label: "time", text: (row) => time(row[ns]),
      value: (row) => row[ns] }] : []),
    nameColumn(hasRuntimes(callRows(app))),
  ], { sort: { id: "words", isRising: false }, onOpen: (row) => app.openCall(row.call), empty });
  table.show(pairs.filter((row) => row.calls + row[words] + row[ns] > 0));
  return { table, section: make("section", {}, make("h3", {}, title), make("p", { class: "hint" }, hint),
    host) };
}

function sums(row, total) {
  const line = (label, words, ns) => make("tr", {}, make("th", { scope: "row" }, label),
    make("td", { title: count(words) }, short(words)), make("td", {}, share(words, total.words)),
    make("td", {}, perCall(words, row.calls)),
    ...(total.ns > 0 ? [make("td", {}, time(ns)), make("td", {}, share(ns, total.ns)),
      make("td", {}, rate(words, ns))] : []));
  return make("table", { class: "facts" },
    make("thead", {}, make("tr", {}, ...["", "words", "share", "words/call",
      ...(total.ns > 0 ? ["time", "share", "words/us"] : [])]
      .map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, line("itself", row.words, row.ns),
      line("including callees", row.accWords, row.accNs)));
}

export function showCall(app, host) {
  const { functions: total, file } = app.trace.facts;
  const row = callRows(app)[app.state.call - 1];
  const line = middleOf(callRows(app));
  const above = pairTable(app, "Callers", "what the function itself allocated for each; recursion folded",
    pairsOf(app, "callee", "caller", row.call),
    { words: "words", ns: "ns", whole: row.words, empty: "No counted function calls it." });
  const below = pairTable(app, "Callees", "with all that they call",
    pairsOf(app, "caller", "callee", row.call),
    { words: "accWords", ns: "accNs", whole: row.accWords, empty: "It calls no counted function." });
  const command = `allogram report ${shellWord(file)} --view=functions --callers=${quoted(row.name)}`;
  const off = row.words > 0 && row.ns > 0 && line > 0
    ? `${offText(offOf(row, line))}, which has ${rate(line, 1)} words/us` : "";
  fill(host,
    make("header", { class: "function" },
      make("button", { class: "back", onclick: () => history.back() }, "← back"),
      make("h2", {}, row.name),
      make("p", { class: "note" }, [row.runtime, `${count(row.calls)} calls`, off]
        .filter(Boolean).join("  ·  "))),
    sums(row, total),
    make("div", { class: "pair" }, above.section, below.section),
    make("p", { class: "command" }, make("code", {}, command)));
  app.copyText = () => [row.name, command, `callers\n${above.table.text(40)}`,
    `callees\n${below.table.text(40)}`].join("\n\n");
}
