// main.js: the page of `allogram view`. The state is in the address (fragment.js). The state selects a view and
// a range of the recording; the views of blocks show the selected range.
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { fill, make } from "./elements.js";
import { showCall, showCalls, totalText } from "./calls.js";
import { Flame, imageColours, imageWeights } from "./flame.js";
import { boundsText, interval, spreadOf, weightsOf } from "./estimate.js";
import { findings } from "./findings.js";
import { showResident } from "./resident.js";
import { DEFAULTS, read, write } from "./fragment.js";
import { showFunction } from "./function_page.js";
import { showDifference } from "./difference.js";
import { showLives } from "./histogram.js";
import { fillChoice, labelText, showLabels } from "./labels.js";
import { countersOf, Paths } from "./paths.js";
import { curveOfProcess, fillProcessChoice, processRows, showProcesses } from "./processes.js";
import { METRICS, Range } from "./range.js";
import { showSites, siteRows } from "./sites.js";
import { showStacks } from "./stacks.js";
import { rowsOfWindow } from "./table.js";
import { showThreads } from "./threads.js";
import { showTypes } from "./types.js";
import { lookOfChange } from "./change.js";
import { Timeline } from "./timeline.js";
import { OTHER, Trace } from "./trace.js";
import { callees, callers } from "./tree.js";
import { blocksOf, bytes, count, inUnit, share, short, shortName, time } from "./quantity.js";
import { showHelp } from "./help.js";

const $ = (id) => document.getElementById(id);

/* What is missing from a trace, in the words of the first lines of `report` (report/heading.c). */
function missingTexts({ facts }) {
  const { damage, end } = facts;
  const texts = [];
  if (damage) {
    texts.push(`${damage.what.startsWith("damaged") ? "" : "damaged: "}${damage.what} at byte ${damage.offset} of ${
      facts.file_bytes}; only the readable part is shown`);
    if (damage.missing_chunks > 0) {
      texts.push(`missing: up to ${count(damage.missing_events)} events, of ${damage.missing_chunks} damaged chunk${
        damage.missing_chunks === 1 ? "" : "s"} with ${bytes(damage.missing_bytes)}${damage.has_sums
        ? "; sums of the whole recording include them, because the trace has an index" : ""}`);
    }
    if (damage.is_file_cut) texts.push("missing: the end of the file; its size is not known");
  }
  if (end === "cut" || end === "running") {
    texts.push(`${end === "running" ? "running: the program had not ended"
      : damage ? "cut: the end of the program is not in the trace" : "cut: recording stopped before the program ended"
      }; events after ${time(facts.summary.duration_ns)} are missing`);
  }
  if (facts.lost_stacks > 0) {
    const isOne = facts.lost_stacks === 1;
    texts.push(`not stored: the stack${isOne ? "" : "s"} of ${count(facts.lost_stacks)} block${isOne ? "" : "s"}, because shared memory was full; ${
      isOne ? "this block is" : "these blocks are"} counted as [stack not kept]`);
  }
  const lost = Object.entries(facts.lost).filter(([, events]) => events > 0);
  if (lost.length > 0) {
    const total = lost.reduce((sum, [, events]) => sum + events, 0);
    texts.push(`lost: ${count(total)} event${total === 1 ? "" : "s"} (${
      lost.map(([cause, events]) => `${cause} ${count(events)}`).join(", ")}); all numbers are too low by ${
      total === 1 ? "this event" : "these events"}`);
  }
  return texts;
}
/* The line of the summary about memory that the program mapped itself (report/mappings_view.c). */
function mappedText(mapped) {
  if (!mapped) return "";
  const where = mapped.file ? ` (${mapped.file}:${mapped.line})` : "";
  return `mapped by the program itself: ${bytes(mapped.peak_bytes)} at the peak${
    mapped.without_access ? " (some of it without access at first)" : ""}, ${
    mapped.line_bytes > mapped.peak_bytes / 2 ? "most" : "the largest part"} by ${mapped.function}${where}; see ` +
    "allogram report --view=mappings";
}
const TABS = [
  ["flame", "Flame"], ["processes", "Processes"], ["sites", "Sites"], ["stacks", "Stacks"], ["types", "Types"], ["labels", "Labels"], ["calls", "Functions"],
  ["lives", "Lifetimes"], ["leaks", "Leaks"], ["threads", "Threads"], ["diff", "Diff"],
];

// "2026-11-26 23:57:01 UTC"
function dateText(realtimeNs) {
  return `${new Date(realtimeNs / 1e6).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

class App {
  constructor() {
    this.trace = new Trace(0);
    this.before = Trace.isThere(1) ? new Trace(1) : null;
    if (this.trace.isSampled) delete METRICS.temporary; // unknown in a sampled trace
    this.counters = countersOf(this.trace);
    this.state = read(location.hash);
    this.wholeRange = new Range(this.trace, 0, this.trace.facts.slices.count);
    this.range = this.wholeRange;
    this.copyText = () => "";
    this.trees = {};
    this.typed = {};
    this.isDragging = false; // whether the page is drawn while the range is dragged
  }

  async start() {
    this.showHeading();
    this.timeline = new Timeline($("timeline"), this.trace, (from, to, isDragging) =>
      this.setRange(from, to, isDragging));
    this.timeline.onPoint = (point) => this.showPoint(point);
    await this.trace.loadTables();
    if (this.before) await this.before.loadTables();
    if (this.trace.hasCollected) {
      METRICS.leaked.label = "Not freed";
      METRICS.leaked.hint = "allocated in the range, not freed or collected at the very end";
    }
    this.showFindings();
    showResident(this.trace);
    this.buildControls();
    this.listen();
    await this.follow();
    document.body.dataset.ready = "yes";
    setTimeout(() => this.trace.loadHistory(), 0); // loaded early, so that the first drag does not wait
  }

  // ---- state ----

  set(changes, { replaces = false } = {}) {
    Object.assign(this.state, this.typed, changes); // with text that was typed but not applied yet
    this.typed = {};
    const fragment = write(this.state);
    history[replaces ? "replaceState" : "pushState"](null, "", fragment === "#" ? " " : fragment);
    return this.follow();
  }

  // Updates the page to the state.
  async follow() {
    const { state, trace } = this;
    const { count: slices } = trace.facts.slices;
    if (!(state.metric in METRICS)) state.metric = DEFAULTS.metric;
    if (!this.tabs().some(([id]) => id === state.tab)) state.tab = "flame";
    trace.isFolded = state.fold !== "none";
    if (this.before) this.before.isFolded = trace.isFolded;
    if (state.fn >= trace.functions.length) state.fn = 0;
    if (state.call > 0 && !trace.hasCalls) state.call = 0;
    if (!trace.hasLabels || !trace.labels.includes(state.label - 1)) state.label = 0;
    if (!trace.processes[state.process - 1]) state.process = 0;
    if (state.tab === "calls" || state.call > 0) {
      const { count } = await trace.loadCalls();
      if (state.call > count) state.call = 0;
    }
    if (this.counter) {
      await Promise.all([trace.loadCalls(), trace.loadPaths()]);
      this.paths ??= new Paths(this);
    }
    const isWhole = state.to === 0 || state.from >= state.to || state.to > slices ||
      (state.from === 0 && state.to === slices);
    let range = isWhole ? this.wholeRange : this.range.all;
    if (!isWhole) {
      await trace.loadHistory();
      if (range.from !== state.from || range.to !== state.to || range.isWhole) {
        range = new Range(trace, state.from, state.to);
      }
    }
    this.range = range.of(state.label - 1, state.process - 1); // state.label is the label + 1, and 0 for all labels; so is state.process
    if (state.process > 0) await trace.loadLives();
    this.timeline.showPoints(state.process > 0 ? this.curveOf(state.process - 1) : null);
    this.timeline.setRange(isWhole ? 0 : state.from, isWhole ? slices : state.to);
    this.draw();
  }

  async setRange(from, to, isDragging) {
    const { count: slices } = this.trace.facts.slices;
    const isWhole = from === 0 && to === slices;
    if (isDragging) { // the address changes when the drag ends
      const { all } = this.range;
      if (!this.trace.history || (all.from === from && all.to === to)) return;
      this.range = new Range(this.trace, from, to).of(this.range.label, this.range.process);
      this.isDragging = true;
      this.draw();
      this.isDragging = false;
      return;
    }
    await this.set(isWhole ? { from: 0, to: 0 } : { from, to });
  }

  curveOf(process) {
    this.curves ??= new Map();
    if (!this.curves.has(process)) this.curves.set(process, curveOfProcess(this.trace, process));
    return this.curves.get(process);
  }

  // The tree of stacks: `tree` has the outermost functions at the top, `inverted` the allocating functions. Both have folded stacks if the page
  // shows folded stacks.
  get tree() {
    return (this.trees[`callers ${this.trace.isFolded}`] ??= callers(this.trace));
  }

  get inverted() {
    return (this.trees[`callees ${this.trace.isFolded}`] ??= callees(this.trace));
  }

  // The metric that the tab shows: the tab Leaks has its own metric, all others show the selected metric.
  get metric() {
    return this.state.tab === "leaks" ? "leaked" : this.state.metric;
  }

  get metricName() {
    return `${this.metric}_${this.unitOfMetric}`;
  }

  get unitOfMetric() {
    return METRICS[this.metric].bytes ? this.state.unit : "blocks";
  }

  setMetric(metric) {
    this.set(this.state.tab === "leaks" ? { metric, tab: "stacks" } : { metric, ...this.counterState("") });
  }

  // The name of the function counter that the flame graph shows: "words", "calls" or "ns". "" if the flame graph shows blocks, or
  // another tab is open.
  get counter() {
    const { state, trace, counters } = this;
    if (state.tab !== "flame" || state.fn || state.call || !trace.hasCalls) return "";
    return state.counter in counters ? state.counter : trace.hasBlocks ? "" : Object.keys(counters)[0] ?? "";
  }

  // The changes of the state that select another counter. The zoom is reset, because the flame graphs of blocks and of call paths have
  // different nodes.
  counterState(counter) {
    return { counter, zoom: (counter === "") === (this.counter === "") ? this.state.zoom : 0 };
  }

  setCounter(counter) {
    this.set(this.counterState(counter));
  }

  // How many rows a table shows at first; undefined: the usual number (table.js).
  get rowsShown() {
    return this.isDragging ? rowsOfWindow() : undefined;
  }

  sortOf(id) {
    const [name, way] = this.state.sort.split(" ");
    return name ? { id: name, isRising: way === "up" } : { id, isRising: false };
  }

  keepSort({ id, isRising }) {
    this.state.sort = isRising ? `${id} up` : id;
    history.replaceState(null, "", write(this.state));
  }

  open(fn) {
    if (fn > 1) this.set({ fn, call: 0 });
    this.scrollUp();
  }

  // Opens the page of a function that has counters (calls.js).
  openCall(call) {
    if (call > 0) this.set({ call, fn: 0 });
    this.scrollUp();
  }

  openTab(tab) {
    this.set({ tab, fn: 0, call: 0, sort: "" });
  }

  scrollUp() {
    const main = document.querySelector("main");
    if (main.getBoundingClientRect().top < 0) main.scrollIntoView();
  }

  // A function that tests whether a name matches the search, which is a substring or /a regular expression/.
  // Null if there is no search.
  nameMatcher() {
    const { query } = this.state;
    if (query === "") return null;
    const regex = /^\/(.+)\/$/.exec(query);
    if (regex) {
      try {
        const pattern = new RegExp(regex[1], "i");
        return (name) => pattern.test(name);
      } catch {
        return () => false;
      }
    }
    const part = query.toLowerCase();
    return (name) => name.toLowerCase().includes(part);
  }

  // ---- parts that do not depend on the range ----

  showHeading() {
    const { facts, command } = this.trace;
    const { summary } = facts;
    document.title = `${command.slice(0, 60)} · allogram`;
    $("command").textContent = command;
    $("command").title = command;
    const end = facts.wait_status === undefined ? facts.end
      : (facts.wait_status & 127) === 0 ? `exit ${(facts.wait_status >> 8) & 255}`
        : `signal ${facts.wait_status & 127}`;
    $("facts").textContent = [facts.start_realtime_ns > 0 ? `recorded ${dateText(facts.start_realtime_ns)}` : "",
      facts.host ? `on ${facts.host}` : "", this.trace.isMerged ? this.processesText() : `pid ${facts.pid}`,
      facts.is_observed ? "observed from outside" : facts.mode, time(summary.duration_ns),
      this.trace.isMerged ? "" : facts.kernel_kill?.certain ? "killed by the kernel" : facts.is_end_unseen ? "ended in an unknown way" : `ended by ${end}`, `${short(summary.events)} events`,
      this.trace.isSampled ? `estimates from samples, one in ${bytes(facts.interval_bytes)} on average; ` +
        "± is the 95 % confidence interval" : ""].filter(Boolean).join(" · ");
    const warnings = [
      ...missingTexts(this.trace),
      facts.kernel_kill ? [facts.kill_reason, facts.kill_memory].filter(Boolean).join(". ") : "",
      ...(this.before ? missingTexts(this.before).map((text) => `the trace before: ${text}`) : []),
      ...facts.runtimes.filter((runtime) => !runtime.hooked || runtime.note).map(({ name, version, hooked, note }) =>
        `${hooked ? "" : "not recorded: allocations of "}${name}${version ? ` ${version}` : ""}: ${note || "reason unknown"}`),
      summary.incomplete_stacks > 0 ? `${count(summary.incomplete_stacks)} stacks could not be walked to their end: ${
        blocksOf(summary.incomplete_blocks)}, ${share(summary.incomplete_blocks, summary.allocated_blocks)} of all, with ${
        bytes(summary.incomplete_bytes)}` : "",
      facts.filter_undecided?.length > 0 ? `the type of a block in ${facts.filter_undecided.join(", ")} is not known when ` +
        "it is allocated: a filter type= excluded all of these blocks, and a filter !type= none" : "",
      this.before && this.before.facts.filter !== facts.filter ? "the trace before was recorded " +
        `${this.before.facts.filter ? `with --filter=${this.before.facts.filter}` : "without a filter"
        }: differences may come from the filter` : "",
      mappedText(facts.program_mappings),
      facts.has_only_samples ? "This trace contains no blocks: the process was observed from outside. " +
        `Its CPU time is in ${this.trace.hasCalls ? "the flame graph and the tab Functions"
          : "allogram report --view=functions --tree"}, its collections are in allogram report --view=gc. ` +
        "allogram observe --growth and --maps record which functions make memory grow." : "",
    ].filter(Boolean);
    $("made").textContent = `Made by allogram ${facts.allogram_version}.`;
    $("folded").textContent = facts.folded.stacks === 0 ? ""
      : `In ${count(facts.folded.stacks)} small stacks, which allocated ${
        share(facts.folded.allocated_bytes, summary.allocated_bytes)} of all bytes, the frame “other” ` +
        "replaces callers; sums, allocating functions, and totals of the whole recording are exact.";
    this.showFilter();
    fill($("warnings"), ...warnings.map((text) => make("li", {}, text)));
    $("warnings").hidden = warnings.length === 0;
    $("problems").textContent = facts.problems.length === 0 ? ""
      : `names are missing: ${facts.problems.slice(0, 3).join("; ")}${
        facts.problems.length > 3 ? `; and ${facts.problems.length - 3} more` : ""}`;
    const sure = (name) => (summary[`${name}_ci95`]
      ? ` ${spreadOf(summary[name], summary[`${name}_ci95`])}` : "");
    const numbers = [
      ["allocated", bytes(summary.allocated_bytes) + sure("allocated_bytes"),
        blocksOf(summary.allocated_blocks)],
      this.trace.isMerged ? ["sum of the peaks", bytes(summary.peak_bytes) + sure("peak_bytes"),
        `${blocksOf(summary.peak_blocks)}, each process at its own moment`]
        : ["peak", bytes(summary.peak_bytes) + sure("peak_bytes"), `${blocksOf(summary.peak_blocks)} at ${time(summary.peak_time_ns)}`],
      ["in use at the end", bytes(summary.in_use_bytes_at_end) + sure("in_use_bytes_at_end"),
        blocksOf(summary.in_use_blocks_at_end)],
      ...(this.trace.isSampled ? [] : [["temporary",
        share(summary.temporary_blocks, summary.allocated_blocks),
        blocksOf(summary.temporary_blocks)]]),
      ...(facts.functions ? [["functions", facts.functions.words > 0 ? `${short(facts.functions.words)} words`
        : time(facts.functions.ns), `${short(facts.functions.calls)} ${facts.is_observed ? "samples" : "calls"}`]] : []),
      ["stacks", count(summary.unique_stacks), `${count(summary.threads)} thread${
        summary.threads === 1 ? "" : "s"}`],
    ];
    fill($("numbers"), ...numbers.map(([label, number, more]) => make("div", {},
      make("dt", {}, label), make("dd", {}, make("b", {}, number), make("span", {}, more)))));
  }

  // "3 processes, 4 programs, highest peak 81.0 MiB of cc (4712)"
  processesText() {
    const { total } = this.trace.facts.process_tree;
    const largest = this.trace.processes.filter(Boolean).reduce((a, b) => (b.facts.peak_bytes > a.facts.peak_bytes ? b : a));
    return `${count(total.processes)} process${total.processes === 1 ? "" : "es"}${
      total.programs > total.processes ? `, ${count(total.programs)} programs` : ""}, highest peak ${
      bytes(largest.facts.peak_bytes)} of ${largest.name}`;
  }

  // Shows the filter of the recording.
  showFilter() {
    const { filter } = this.trace.facts;
    $("recorded").hidden = !filter;
    if (filter) {
      fill($("recorded"), "Recorded with ", make("code", {}, `--filter=${filter}`), ": only blocks " +
        "that match it are on this page; no number of the page includes other blocks. Resident memory is of the whole process.");
    }
  }

  showFindings() {
    const found = findings(this);
    this.found = found; // for the tests
    fill($("findings"), ...found.map((finding) => make("button", {
      class: "finding",
      title: `${finding.name}\n${finding.command}`,
      onclick: () => this.set({ fn: finding.fn, call: 0, from: 0, to: 0,
        ...(finding.metric in METRICS ? { metric: finding.metric, unit: finding.unit } : {}) }),
    }, make("code", {}, finding.short), make("span", { class: "note" }, finding.place),
    make("span", {}, finding.text))),
    this.trace.facts.findings_complete ? null : make("p", { class: "hint" },
      "the trace is large or merged: only its sums were examined; allogram report --findings examines every event"));
    $("findings").hidden = $("findings").childElementCount === 0;
  }

  tabs() {
    return TABS.filter(([id]) => (id !== "diff" || this.before) &&
      (id !== "processes" || this.trace.isMerged) &&
      (id !== "types" || this.trace.hasTypes) &&
      (id !== "labels" || this.trace.hasLabels) && (id !== "calls" || this.trace.hasCalls));
  }

  buildControls() {
    fill($("metrics"), ...Object.entries(METRICS).map(([metric, { label, hint }]) =>
      make("button", { "data-metric": metric, title: hint, onclick: () => this.setMetric(metric) },
        label)));
    fill($("counters"), ...Object.entries(this.counters).map(([counter, { label, hint }]) =>
      make("button", { "data-counter": counter, title: hint, onclick: () => this.setCounter(counter) },
        label)));
    fill($("units"), ...["bytes", "blocks"].map((unit) =>
      make("button", { "data-unit": unit, onclick: () => this.set({ unit }) }, unit)));
    fill($("tabs"), ...this.tabs().map(([id, label]) => make("button", {
      role: "tab", "data-tab": id, onclick: () => this.openTab(id),
    }, label)));
    $("search").value = this.state.query;
    if (this.trace.hasLabels) fillChoice(this.trace, $("label"));
    if (this.trace.isMerged) fillProcessChoice(this.trace, $("process"));
    this.flame = new Flame($("flame-canvas"), {
      onHover: (node) => this.showNode(node < 0 ? this.flame.zoomed : node),
      onPoint: (node, at) => this.showTip(node, at),
      onSelect: (node) => this.set({ zoom: node }),
      onOpen: (node) => this.source.open(this.flame.tree.key[node]),
      describe: (node) => this.describe(node),
    });
    fill($("sides"), ...[["callers", "from main down"], ["callees", "from allocations up"]]
      .map(([side, label]) => make("button", { "data-side": side,
        onclick: () => this.set({ side, zoom: 0 }) }, label)));
    if (this.before) {
      $("sides").append(make("button", { "data-colour": "change", onclick: () =>
        this.set({ colour: this.state.colour === "change" ? "" : "change" }) },
      "colour by change"));
    }
  }

  // ---- parts that depend on the range ----

  draw() {
    const { state } = this;
    const metric = METRICS[this.metric];
    this.showRangeLine();
    for (const button of document.querySelectorAll("[data-metric]")) {
      button.setAttribute("aria-pressed", String(!this.counter && button.dataset.metric === this.metric));
    }
    for (const button of document.querySelectorAll("[data-counter]")) {
      button.setAttribute("aria-pressed", String(button.dataset.counter === this.counter));
    }
    for (const button of document.querySelectorAll("[data-unit]")) {
      button.setAttribute("aria-pressed", String(button.dataset.unit === this.unitOfMetric));
      button.disabled = !metric.bytes && button.dataset.unit === "bytes";
    }
    for (const button of document.querySelectorAll("[data-tab]")) {
      button.setAttribute("aria-selected", String(button.dataset.tab === state.tab &&
        !state.fn && !state.call));
    }
    for (const button of document.querySelectorAll("[data-side]")) {
      button.setAttribute("aria-pressed", String(button.dataset.side === state.side));
      if (button.dataset.side === "callees") {
        button.textContent = this.counter ? "from functions up" : "from allocations up";
      }
    }
    for (const button of document.querySelectorAll("[data-colour]")) {
      button.setAttribute("aria-pressed", String(state.colour === "change"));
    }
    const isCalls = state.call > 0 || (state.tab === "calls" && !state.fn);
    // The choices of metric, unit and label do not apply to function counters.
    const isOfBlocks = !isCalls && !this.counter;
    const isFlame = state.tab === "flame" && !state.fn && !state.call;
    $("metrics").hidden = isCalls || (isFlame && !this.trace.hasBlocks && this.counter !== "");
    $("counters").hidden = !isFlame || Object.keys(this.counters).length === 0;
    $("units").hidden = !isOfBlocks;
    $("folds").hidden = !isOfBlocks || !this.trace.canFold;
    $("fold").setAttribute("aria-pressed", String(!this.trace.isFolded));
    $("label").hidden = !isOfBlocks || !this.trace.hasLabels;
    for (const button of document.querySelectorAll("[data-colour]")) button.hidden = !isOfBlocks;
    $("label").value = state.label;
    $("label").classList.toggle("chosen", this.range.isOfLabel);
    $("process").hidden = !isOfBlocks || !this.trace.isMerged;
    $("process").value = state.process;
    $("process").classList.toggle("chosen", this.range.isOfProcess);
    this.showTotal(metric, isCalls);
    if ($("search").value !== state.query) $("search").value = state.query;
    $("flame").hidden = !isFlame;
    $("view").hidden = isFlame;
    $("view").dataset.view = state.call ? "call" : state.fn ? "function" : state.tab;
    if (isFlame) this.showFlame();
    else this.showView();
  }

  showView() {
    const { state } = this;
    const views = { sites: showSites, stacks: showStacks, types: showTypes, lives: showLives,
      leaks: showStacks, threads: showThreads, labels: showLabels, diff: showDifference, calls: showCalls, processes: showProcesses };
    const view = state.call ? showCall : state.fn ? showFunction : views[state.tab];
    // Each view has its own element, so a view that gets its data late does not overwrite the view that was
    // selected after it.
    const host = make("div", {});
    fill($("view"), host);
    return view(this, host);
  }

  showTotal(metric, isCalls) {
    if (isCalls) {
      $("total").textContent = totalText(this.trace.facts);
      $("total").title = "";
      return;
    }
    if (this.counter) {
      const { text, title } = this.paths.totalText(this.counter);
      $("total").textContent = text;
      $("total").title = title;
      return;
    }
    const whole = this.range.total(this.metricName);
    const bounds = this.range.interval(this.metricName);
    $("total").textContent = `${metric.label}, ${metric.hint}: ${inUnit(whole, this.unitOfMetric)}${
      bounds ? ` ${spreadOf(whole, bounds, this.unitOfMetric)}` : ""}`;
    $("total").title = bounds ? boundsText(bounds) : count(whole);
  }

  showRangeLine() {
    const { range } = this;
    const grew = range.total("allocated_bytes") - range.total("freed_bytes");
    const { peak } = range;
    fill($("range"),
      make("b", {}, range.isWhole ? "whole recording" : `${time(range.fromNs)} – ${
        time(range.toNs)}`),
      make("span", {}, range.isWhole ? "drag on the curve to select a part"
        : `${share(range.toNs - range.fromNs, this.trace.facts.summary.duration_ns)} of the recording`),
      range.isOfProcess ? make("b", {}, this.trace.processes[range.process].name) : null,
      range.isOfLabel ? make("b", {}, labelText(this.trace, range.label)) : null,
      make("span", {}, `allocated ${bytes(range.total("allocated_bytes"))}`),
      make("span", {}, `freed ${bytes(range.total("freed_bytes"))}`),
      make("span", {}, grew < 0 ? `shrank by ${bytes(-grew)}` : `grew by ${bytes(grew)}`),
      range.isOfLabel ? make("button", { class: "link", onclick: () => this.set({ label: 0 }) },
        "all labels") // the peak of a single label is not stored
        : make("span", {}, peak.timeNs !== null ? `peak ${bytes(peak.bytes)} at ${time(peak.timeNs)}`
          : `${range.isOfProcess ? "peak" : "sum of the peaks"} ${bytes(peak.bytes)}`),
      range.isOfProcess ? make("button", { class: "link", onclick: () => this.set({ process: 0 }) }, "all processes") : null,
      range.isWhole ? null : make("button", { class: "link", onclick: () =>
        this.set({ from: 0, to: 0 }) }, "show all"));
  }

  showPoint(point) {
    $("point").textContent = point ? [time(point.timeNs), `in use ${bytes(point.inUse)}`,
      point.resident ? `resident ${bytes(point.resident)}` : "",
      point.rate ? `${bytes(point.rate)}/s` : ""].filter(Boolean).join("   ") : "";
  }

  // What the flame graph shows: blocks, or call paths. VALUES has an element for each group of the tree.
  get source() {
    const { trace, paths, counter, state: { side } } = this;
    if (counter && paths) { // paths is undefined until follow() has loaded it
      return { functions: paths.functions, tree: paths.tree(side), values: paths.values(counter),
        text: this.counters[counter].text, weights: () => paths.imageWeights,
        open: (key) => this.openCall(key - 1) };
    }
    return { functions: trace.functions, tree: side === "callees" ? this.inverted : this.tree,
      values: this.range.values(this.metricName), text: (value) => inUnit(value, this.unitOfMetric),
      weights: () => imageWeights(trace), open: (key) => this.open(key) };
  }

  showFlame() {
    const { state, source, source: { functions, tree, text } } = this;
    this.values = tree.totals(source.values);
    this.colours ??= new Map();
    if (!this.colours.has(functions)) {
      this.colours.set(functions, imageColours(functions, source.weights(), $("flame")));
    }
    const colours = this.colours.get(functions);
    const matches = this.nameMatcher();
    const look = {
      name: (key) => functions[key].name,
      colour: (node) => colours[tree.key[node]] ?? colours[OTHER],
      label: (node) => (node === 0 ? `all · ${text(this.values[0])}` : shortName(functions[tree.key[node]].name)),
      matches: matches ? Uint8Array.from(functions, ({ id, name }) => (id > 1 && matches(name) ? 1 : 0)) : null,
    };
    this.flame.zoomed = state.zoom < tree.count ? state.zoom : 0;
    this.flame.tree = tree;
    const isChange = this.before && state.colour === "change" && !this.counter;
    this.flame.show(tree, this.values,
      isChange ? lookOfChange(this, tree, this.values, look) : look);
    this.showMatches(tree, look.matches);
    $("tip").hidden = true;
    delete $("tip").dataset.node;
    this.showNode(this.flame.zoomed);
    this.copyText = () => this.flame.text();
  }

  // Shows the sum of the boxes that match the search. The sum counts each stack once, even if several of its
  // frames match.
  showMatches(tree, matches) {
    if (!matches) {
      $("found").textContent = "";
      return;
    }
    const isBelow = new Uint8Array(tree.count);
    let sum = 0;
    let places = 0;
    for (let i = 1; i < tree.count; i++) {
      const isMatch = matches[tree.key[i]];
      if (isMatch && !isBelow[tree.parent[i]]) sum += this.values[i];
      isBelow[i] = isMatch || isBelow[tree.parent[i]] ? 1 : 0;
      places += isMatch && this.values[i] > 0 ? 1 : 0;
    }
    $("found").textContent = `${this.source.text(sum)}, ${
      share(sum, this.values[0])} in ${count(places)} place${places === 1 ? "" : "s"}`;
  }

  describe(node) {
    const { functions, tree, text } = this.source;
    return `${text(this.values[node])}  ${this.sureOf(node)}${
      share(this.values[node], this.values[0])}  ${functions[tree.key[node]].name}`;
  }

  // "±12 %  " for a node of the flame graph; "" in an exact trace.
  sureOf(node) {
    const variances = this.counter ? null : this.range.variances(this.metricName);
    if (!variances) return "";
    const { tree } = this.source;
    const weights = weightsOf(this.trace.groups, (group) => {
      let at = tree.groupNode[group];
      while (at > node) at = tree.parent[at]; // parents have smaller numbers
      return at === node;
    });
    const bounds = interval(this.values[node], tree.totals(variances)[node], weights,
      this.unitOfMetric);
    const text = spreadOf(this.values[node], bounds, this.unitOfMetric);
    return text && `${text}  `;
  }

  // The box beside the pointer: what the panel shows of a node, in short. NODE -1: no box. AT: { x, y } in the window.
  showTip(node, at) {
    const tip = $("tip");
    tip.hidden = node < 0;
    if (!tip.hidden && tip.dataset.node !== String(node)) this.fillTip(tip, node);
    const { offsetWidth: width, offsetHeight: height } = tip;
    const { clientWidth, clientHeight } = document.documentElement;
    tip.style.left = `${Math.max(4, Math.min(at.x + 14, clientWidth - width - 4))}px`;
    tip.style.top = `${at.y + 18 + height > clientHeight ? Math.max(4, at.y - height - 10) : at.y + 18}px`;
  }

  fillTip(tip, node) {
    const { functions, tree, text, values } = this.source;
    const { name, image, file, line } = functions[tree.key[node]];
    const blocks = !this.counter && this.unitOfMetric === "bytes"
      ? tree.totals(this.range.values(this.metricName.replace("bytes", "blocks")))[node] : 0;
    fill(tip, make("b", {}, node === 0 ? "everything" : shortName(name)),
      make("span", { class: "note" }, file ? `${file.replace(/.*\//, "")}${line ? `:${line}` : ""}` : image),
      make("span", {}, [`total ${text(this.values[node])}`, `own ${text(tree.own(values)[node])}`,
        share(this.values[node], this.values[0]), blocks > 0 ? blocksOf(blocks) : ""].filter(Boolean).join(" · ")));
    tip.dataset.node = node;
  }

  // The panel to the right of the flame graph.
  showNode(node) {
    const { functions, tree, text, values, open } = this.source;
    const { id, name, image, file, line } = functions[tree.key[node]];
    const own = tree.own(values)[node];
    const below = [];
    for (let i = tree.firstChild[node]; i < tree.firstChild[node + 1]; i++) {
      const child = tree.child[i];
      if (this.values[child] > 0) below.push(child);
    }
    below.sort((a, b) => this.values[b] - this.values[a]);
    const path = tree.path(node).slice(0, -1).reverse();
    const step = (at) => make("li", {}, make("button", { class: "link", title:
      functions[tree.key[at]].name, onclick: () => this.set({ zoom: at }) },
    shortName(functions[tree.key[at]].name)),
    make("span", { class: "note" }, text(this.values[at])));
    const list = (title, nodes) => (nodes.length === 0 ? null : make("section", {},
      make("h3", {}, title), make("ol", {}, ...nodes.slice(0, 8).map(step)),
      nodes.length > 8 ? make("p", { class: "note" }, `and ${nodes.length - 8} more`) : null));
    fill($("panel"),
      make("h2", {}, node === 0 ? "everything" : name),
      id === OTHER ? make("p", { class: "note" },
        this.counter ? "the sum of small call paths"
          : "small stacks: the functions that allocate are shown below, their callers together") : null,
      make("p", { class: "note" }, [file && `${file}${line ? `:${line}` : ""}`, image]
        .filter(Boolean).join(" · ")),
      make("dl", {},
        make("dt", {}, "total"), make("dd", { title: count(this.values[node]) },
          make("b", {}, text(this.values[node])), ` ${
            share(this.values[node], this.values[0])}`),
        // If the tree shows counters from the counted functions to their callers, a node has no own value.
        ...(this.state.side === "callees" && this.counter ? [] : [
          make("dt", {}, this.state.side === "callees" ? "allocated here" : "own"),
          make("dd", { title: count(own) }, text(own))])),
      id > 1 ? make("button", { class: "open", onclick: () => open(id) },
        "open the function") : null,
      node === 0 ? (this.counter ? this.greatest() : this.allocators()) : list(this.state.side === "callees" ? "called by" : "calls",
        below),
      list(this.state.side === "callees" ? "on the way to" : "called by", path));
  }

  // For the panel when no function is selected: the functions of the program's own code that allocate most, including what they
  // allocate through libraries and wrappers.
  allocators() {
    const values = this.range.values(this.metricName);
    const own = new Float64Array(this.trace.functions.length);
    this.trace.groups.line.forEach((frame, i) => {
      own[this.trace.functionOf[frame]] += values[i];
    });
    const { functions, text, open } = this.source;
    return this.listOfFunctions("functions that allocate most", "itself, or through functions of libraries", own, functions,
      text, open);
  }

  // For the panel when no function is selected: the functions with the largest own values of the counter.
  greatest() {
    const { functions, values, text, open } = this.source;
    const { own } = this.paths.tree("callers").byKey(values, functions.length);
    return this.listOfFunctions("functions with the largest own value", "itself, without the functions that it calls", own, functions, text, open);
  }

  listOfFunctions(title, hint, own, functions, text, open) {
    const best = [...own.keys()].filter((fn) => fn > 1 && own[fn] > 0)
      .sort((a, b) => own[b] - own[a]).slice(0, 10);
    return best.length === 0 ? null : make("section", {}, make("h3", { title: hint }, title),
      make("ol", {}, ...best.map((fn) => make("li", {}, make("button", { class: "link",
        title: functions[fn].name, onclick: () => open(fn) }, shortName(functions[fn].name)),
      make("span", { class: "note" }, text(own[fn]))))));
  }

  // ---- mouse and keyboard ----

  listen() {
    window.addEventListener("popstate", () => {
      this.state = read(location.hash);
      this.follow();
    });
    window.addEventListener("hashchange", () => {
      this.state = read(location.hash);
      this.follow();
    });
    let waiting = 0;
    $("search").addEventListener("input", () => {
      clearTimeout(waiting);
      this.typed = { query: $("search").value };
      waiting = setTimeout(() => this.set({}, { replaces: true }), 60);
    });
    $("label").addEventListener("change", () => this.set({ label: Number($("label").value) }));
    $("process").addEventListener("change", () => this.set({ process: Number($("process").value) }));
    $("fold").addEventListener("click", () => this.changeFold());
    $("copy").addEventListener("click", () => this.copy(this.copyText(), $("copy")));
    $("link").addEventListener("click", () => this.copy(location.href, $("link")));
    $("theme").addEventListener("click", () => this.changeTheme());
    $("help").addEventListener("click", () => showHelp());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
    document.addEventListener("keydown", (event) => this.key(event));
  }

  copy(text, button) {
    const done = () => {
      button.dataset.done = "copied";
      setTimeout(() => delete button.dataset.done, 1200);
    };
    const fallback = () => { // pages opened from a file may have no clipboard interface
      const area = make("textarea", {});
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      done();
    };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, fallback);
    else fallback();
    this.copied = text;
  }

  changeTheme() {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    this.repaint();
  }

  changeFold() {
    this.set({ fold: this.trace.isFolded ? "none" : "auto", zoom: 0 });
  }

  // Draws the canvases again, because style sheets do not apply to them.
  repaint() {
    this.colours = null;
    this.timeline.build();
    this.draw();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return; // Escape closes it
    const isTyping = event.target.matches?.("input, textarea");
    if (isTyping) {
      if (event.key === "Escape") {
        $("search").value = "";
        this.set({ query: "" }, { replaces: true });
        $("search").blur();
      }
      return;
    }
    const tabs = this.tabs();
    const number = Number(event.key);
    if (event.key === "/") $("search").focus();
    else if (event.key === "?") showHelp();
    else if (number >= 1 && number <= tabs.length) {
      this.openTab(tabs[number - 1][0]);
    } else if (event.key === "m") this.nextMetric();
    else if (event.key === "u") this.set({ unit: this.state.unit === "bytes" ? "blocks" : "bytes" });
    else if (event.key === "i") {
      this.set({ side: this.state.side === "callers" ? "callees" : "callers", zoom: 0 });
    } else if (event.key === "l") this.changeFold();
    else if (event.key === "c") this.copy(this.copyText(), $("copy"));
    else if (event.key === "d") this.changeTheme();
    else if ("[]{}".includes(event.key)) this.moveRange(event.key);
    else if (event.key === "Escape") this.escape();
    else return;
    event.preventDefault();
  }

  escape() {
    if (this.state.call) this.set({ call: 0 });
    else if (this.state.fn) this.set({ fn: 0 });
    else if (this.state.zoom) this.set({ zoom: 0 });
    else if (this.state.label) this.set({ label: 0 });
    else if (this.state.process) this.set({ process: 0 });
    else if (this.state.to) this.set({ from: 0, to: 0 });
  }

  nextMetric() {
    if (this.counter) {
      const counters = Object.keys(this.counters);
      this.setCounter(counters[(counters.indexOf(this.counter) + 1) % counters.length]);
      return;
    }
    const names = Object.keys(METRICS);
    this.setMetric(names[(names.indexOf(this.metric) + 1) % names.length]);
  }

  // [ and ] move the range by its own length; { and } halve and double it.
  moveRange(key) {
    const { count: slices } = this.trace.facts.slices;
    const { state } = this;
    let [from, to] = state.to ? [state.from, state.to] : [0, slices];
    const length = to - from;
    if (key === "[" || key === "]") {
      const step = Math.max(-from, Math.min(slices - to, key === "[" ? -length : length));
      from += step;
      to += step;
    } else if (key === "{") {
      to = from + Math.max(1, length >> 1);
    } else {
      to = Math.min(slices, from + length * 2);
    }
    this.setRange(from, to, false);
  }
}

const app = new App();
app.siteRows = (by) => siteRows(app, by);
app.processRows = (names) => processRows(app, names);
window.allogram = app; // for the console, and for the tests
app.start();
