// histogram.js: histograms of sizes and lifetimes by powers of two, as bars with numbers; the tab Lifetimes
// and the page of a function show them.
import { fill, make } from "./elements.js";
import { bytes, count, inUnit, share, time, trim } from "./quantity.js";

export const ORDERS = 64;

function sizeLabel(order) {
  if (order === 0) return "0–1 B";
  return order < 10 ? `${2 ** order}–${2 ** (order + 1) - 1} B`
    : `${trim(bytes(2 ** order))} – ${trim(bytes(2 ** (order + 1)))}`;
}

// Adds up the slices of a range (a slice is one of up to 256 equal parts of the recording), by power of two.
function addUp(counts, range, unit) {
  const sums = new Float64Array(ORDERS);
  const [from, to] = range.isWhole
    ? [0, range.trace.facts.slices.count] : [range.from, range.to];
  for (let i = from * ORDERS; i < to * ORDERS; i++) sums[i % ORDERS] += counts[unit][i];
  return sums;
}

export function sizeRows(sums) {
  const rows = [];
  const first = sums.findIndex((sum) => sum > 0);
  const last = sums.findLastIndex((sum) => sum > 0);
  for (let order = first; order >= 0 && order <= last; order++) {
    rows.push({ label: sizeLabel(order), value: sums[order] });
  }
  return rows;
}

// The rows of a histogram of lifetimes. Lifetimes below the clock's resolution are one row.
export function lifetimeRows(sums, resolutionNs, open, isCollected) {
  const rows = [];
  const tick = Math.ceil(Math.log2(Math.max(2, resolutionNs)));
  let below = 0;
  for (let order = 0; order < Math.min(tick, ORDERS); order++) below += sums[order];
  if (below > 0) rows.push({ label: `< ${time(2 ** tick)}`, value: below });
  const last = sums.findLastIndex((sum) => sum > 0);
  for (let order = tick; order <= last; order++) {
    if (rows.length > 0 || sums[order] > 0) {
      rows.push({ label: `${time(2 ** order)} – ${time(2 ** (order + 1))}`, value: sums[order] });
    }
  }
  if (open > 0) rows.push({ label: isCollected ? "not freed or collected" : "never freed", value: open });
  return rows;
}

export function bars(title, rows, unit, hint) {
  const whole = rows.reduce((sum, { value }) => sum + value, 0);
  const most = rows.reduce((max, { value }) => Math.max(max, value), 0);
  return make("section", { class: "histogram" }, make("h3", {}, title),
    hint ? make("p", { class: "hint" }, hint) : null,
    rows.length === 0 ? make("p", { class: "empty" }, "Nothing here.")
      : make("table", {}, make("tbody", {}, ...rows.map(({ label, value }) => make("tr", {},
        make("th", { scope: "row" }, label),
        make("td", { class: "wide" }, make("span", { class: "bar", "aria-hidden": "true" },
          make("span", { width: `${(value / most) * 100}%` }))),
        make("td", { title: count(value) }, inUnit(value, unit)),
        make("td", { class: "dim" }, share(value, whole)))))));
}

export function barsText(title, rows, unit) {
  return [title, ...rows.map(({ label, value }) =>
    `  ${label.padEnd(24)} ${inUnit(value, unit).padStart(12)}`)].join("\n");
}

// Shows the histograms of one label or process. They cover the whole recording, because the counts of groups are not
// stored by slice.
function showLivesOfGroups(app, host, counts) {
  const { trace, range } = app;
  const isWanted = trace.groups.label.map((_, group) => (range.hasGroup(group) ? 1 : 0));
  const open = trace.groups.in_use_blocks.reduce((sum, blocks, group) =>
    sum + (isWanted[group] ? blocks : 0), 0);
  const sizes = sizeRows(groupSums(counts.groupSizes, isWanted));
  const lives = lifetimeRows(groupSums(counts.groupLifetimes, isWanted),
    trace.facts.summary.time_resolution_ns, open, trace.hasCollected);
  const which = `of the blocks of this ${range.isOfProcess ? "process" : "label"}, over the whole recording`;
  fill(host, make("div", { class: "pair" }, bars("Sizes", sizes, "blocks", which),
    bars("Lifetimes", lives, "blocks", which)));
  app.copyText = () => `${barsText("sizes", sizes, "blocks")}\n\n${
    barsText("lifetimes", lives, "blocks")}`;
}

export async function showLives(app, host) {
  const { trace, range, state } = app;
  const counts = await trace.loadCounts();
  await trace.loadHistory();
  if (!host.isConnected) return;
  if (range.isLimited) {
    showLivesOfGroups(app, host, counts);
    return;
  }
  const { unit } = state;
  const sizes = sizeRows(addUp(counts.sizes, range, unit));
  const open = range.total(`leaked_${unit}`);
  const lives = lifetimeRows(addUp(counts.lifetimes, range, unit),
    trace.facts.summary.time_resolution_ns, open, trace.hasCollected);
  fill(host, make("div", { class: "pair" },
    bars("Sizes", sizes, unit, "of the blocks allocated in the range"),
    bars("Lifetimes", lives, unit, "of the same blocks, from allocation to free")));
  app.copyText = () => `${barsText("sizes", sizes, unit)}\n\n${
    barsText("lifetimes", lives, unit)}`;
}

// Adds up the blocks of the groups for which IS_WANTED is 1, over the whole recording. A group is the blocks that have the same call path,
// type and label.
export function groupSums(sparse, isWanted) {
  const sums = new Float64Array(ORDERS);
  const { place, blocks } = sparse;
  for (let i = 0; i < place.length; i++) {
    if (isWanted[Math.floor(place[i] / ORDERS)]) sums[place[i] % ORDERS] += blocks[i];
  }
  return sums;
}
