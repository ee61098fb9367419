// stacks.js: the tabs Stacks and Leaks: whole stacks, the largest first. Leaks shows the stacks whose blocks
// were never freed. Blocks that the C or C++ runtime keeps until the end (src/model/answers/known_blocks.def) are left out of Leaks; a line at
// the end of the tab says how much that is.
import { fill, make } from "./elements.js";
import { boundsText, interval, spreadOf } from "./estimate.js";
import { blocksOf, bytes, count, inUnit, share } from "./quantity.js";
import { LIBRARY } from "./trace.js";

const SHOWN = 40;
const FRAMES = 6;
const FRAMES_MOST = 20;

function frameLine(app, frame) {
  const { trace } = app;
  const fn = trace.functionOf[frame];
  const { name, image, owner } = trace.functions[fn];
  return make("li", { class: owner === LIBRARY ? "library" : "" },
    fn > 1 ? make("button", { class: "link", onclick: () => app.open(fn) }, name) : name,
    make("span", { class: "note" }, trace.placeOf(frame) || image));
}

function frameText(trace, frame) {
  const { name, image } = trace.functions[trace.functionOf[frame]];
  return `${name}  ${trace.placeOf(frame) || image}`;
}

function labelOf(trace, group) {
  const label = trace.groups.label[group];
  return label > 0 ? trace.labelName(label) : "";
}

function stack(app, group, value, blocks, whole) {
  const variances = app.range.variances(app.metricName);
  const { heaviest, portion } = app.trace.groups;
  const bounds = variances && interval(value, variances[group],
    { heaviest: heaviest[group], portion: portion[group] }, app.unitOfMetric);
  const frames = app.trace.framesOf(group);
  const via = app.trace.names[app.trace.groups.via[group]];
  const label = labelOf(app.trace, group);
  // Shows at least the frames up to the program's own line, unless these are more than FRAMES_MOST. The frames before that line are
  // functions of libraries and wrappers, which that line called.
  const own = frames.indexOf(app.trace.groups.line[group]);
  const shown = Math.max(FRAMES, Math.min(FRAMES_MOST, own + 1));
  const list = make("ol", {}, ...frames.slice(0, shown).map((frame) => frameLine(app, frame)));
  if (frames.length > shown) {
    list.append(make("li", {}, make("button", {
      class: "more",
      onclick: () => fill(list, ...frames.map((frame) => frameLine(app, frame))),
    }, `${frames.length - shown} more frames`)));
  }
  return make("article", { class: "stack" },
    make("header", {}, make("b", { title: bounds ? boundsText(bounds) : count(value) },
      inUnit(value, app.unitOfMetric)),
    bounds ? make("span", {}, spreadOf(value, bounds, app.unitOfMetric)) : null,
      make("span", {}, share(value, whole)),
      app.unitOfMetric === "bytes" ? make("span", {}, blocksOf(blocks) +
        (blocks > 1 ? `, ${bytes(value / blocks)} each` : "")) : null,
      via ? make("span", { class: "note" }, `via ${via}`) : null,
      label ? make("span", { class: "note" }, `label ${label}`) : null,
      app.state.tab === "leaks" && app.trace.groups.isCollected[group] ? make("span", { class: "note" }, "not collected at exit") : null),
    list);
}

export function showStacks(app, host) {
  const { range, metricName, trace } = app;
  const values = range.values(metricName);
  const blocks = range.values(metricName.replace("bytes", "blocks"));
  const whole = range.total(metricName);
  const matches = app.nameMatcher();
  let order = [...values.keys()].filter((group) => values[group] > 0)
    .sort((a, b) => values[b] - values[a]);
  const isLeaks = app.state.tab === "leaks";
  const known = isLeaks ? order.filter((group) => trace.groups.isKnown[group]) : [];
  if (isLeaks && app.state.known !== "none") order = order.filter((group) => !trace.groups.isKnown[group]);
  if (matches) {
    const isMatch = trace.functions.map(({ name }) => matches(name));
    order = order.filter((group) => trace.framesOf(group, false).some((frame) => isMatch[trace.functionOf[frame]])); // also frames that are not shown
  }
  const body = make("div", {});
  let shown = SHOWN;
  const render = () => fill(body,
    ...order.slice(0, shown).map((group) =>
      stack(app, group, values[group], blocks[group], whole)),
    order.length === 0 ? make("p", { class: "empty" }, state(app)) : null,
    order.length > shown ? make("button", { class: "more", onclick: () => {
      shown += 200;
      render();
    } }, `${count(order.length - shown)} more stacks`) : null,
    known.length > 0 ? knownLine(app, known, values, blocks) : null);
  render();
  host.replaceChildren(body);
  app.copyText = () => order.slice(0, SHOWN).map((group) =>
    [`${inUnit(values[group], app.unitOfMetric)}  ${blocksOf(blocks[group])}${
      labelOf(trace, group) && `  label ${labelOf(trace, group)}`}`,
      ...trace.framesOf(group).map((frame) => `    ${frameText(trace, frame)}`)].join("\n"))
    .join("\n\n");
}

// The line about known blocks, with a button that shows or hides their stacks.
function knownLine(app, known, values, blocks) {
  const isShown = app.state.known === "none";
  const sum = (list) => known.reduce((all, group) => all + list[group], 0);
  return make("p", { class: "hint", id: "known" }, `${isShown ? "Of these" : "Left out"}: ${
    app.unitOfMetric === "bytes" ? `${bytes(sum(values))} in ` : ""}${blocksOf(sum(blocks))} that the C and C++ runtime keeps until the end. `,
  make("button", { class: "link", onclick: () => app.set({ known: isShown ? "auto" : "none" }) },
    isShown ? "leave them out" : "show them"));
}

function state(app) {
  if (app.state.query) return "No stack matches the search.";
  return app.metric === "leaked" ? "Everything allocated in this range was freed."
    : "In this range no block was allocated or in use.";
}
