// paths.js: the flame graph of call paths. A box shows a counter of a function: words, calls or time. The
// counters cover the whole recording, whatever range is selected.
import { callRows } from "./calls.js";
import { OTHER, ROOT } from "./trace.js";
import { Tree } from "./tree.js";
import { count, short, time } from "./quantity.js";

const counted = (word) => (value) => `${short(value)} ${word}${value === 1 ? "" : "s"}`;

const COUNTERS = {
  words: { label: "Words", hint: "allocated by functions", text: counted("word") },
  calls: { label: "Calls", hint: "of functions", text: counted("call") },
  ns: { label: "Time", hint: "spent in functions", text: time },
};

// The counters that the trace has. In a process that was observed from outside, calls are samples.
export function countersOf({ facts: { functions: total, is_observed: isObserved } }) {
  if (!total) return {};
  const known = Object.fromEntries(Object.entries(COUNTERS).filter(([id]) => total[id] > 0));
  if (isObserved && known.calls) {
    known.calls = { label: "Samples", hint: "of CPU time", text: counted("sample") };
  }
  return known;
}

// The module of a function, which decides its color: "lists" of "lists:map/2". If the name has no colon, it is the runtime.
function moduleOf({ name, runtime }) {
  const end = name.indexOf(":");
  return end > 0 ? name.slice(0, end) : runtime;
}

// What the flame graph of call paths shows. The keys of the trees are indexes of this.functions: 0 is the
// root, 1 stands for the paths that the page leaves out, and N + 1 is the function with the number N in calls.js.
export class Paths {
  constructor(app) {
    this.app = app;
    this.paths = app.trace.paths;
    this.functions = [
      { id: ROOT, name: "all", image: "", file: "", line: 0 },
      { id: OTHER, name: "other", image: "", file: "", line: 0 },
      ...callRows(app).map((row) => ({ id: row.call + 1, name: row.name, image: moduleOf(row), file: "",
        line: 0 })),
    ];
    this.trees = {};
  }

  // SIDE says which functions are next to the root. "callers": the outermost functions; their callees follow.
  // "callees": the counted functions; their callers follow.
  tree(side) {
    this.trees[side] ??= side === "callees" ? this.callees() : this.callers();
    return this.trees[side];
  }

  key(path) {
    const call = this.paths.call[path];
    return call === 0 ? OTHER : call + 1;
  }

  get weight() {
    const { words, ns } = this.paths;
    return this.app.trace.facts.functions.words > 0 ? words : ns;
  }

  callers() {
    const { paths } = this;
    const tree = new Tree();
    const place = new Int32Array(paths.count + 1);
    for (let i = 0; i < paths.count; i++) {
      place[i + 1] = tree.step(place[paths.parent[i]], this.key(i));
    }
    return tree.finish(place.slice(1), this.weight);
  }

  callees() {
    const { paths } = this;
    const tree = new Tree();
    const groupNode = Int32Array.from({ length: paths.count }, (_, i) => {
      let place = 0;
      for (let at = i + 1; at !== 0; at = paths.parent[at - 1]) place = tree.step(place, this.key(at - 1));
      return place;
    });
    return tree.finish(groupNode, this.weight);
  }

  // For each module the sum of the weights of its functions.
  get imageWeights() {
    const weights = new Map();
    for (let i = 0; i < this.paths.count; i++) {
      const { image } = this.functions[this.key(i)];
      weights.set(image, (weights.get(image) ?? 0) + this.weight[i]);
    }
    return weights;
  }

  values(counter) {
    return this.paths[counter];
  }

  totalText(counter) {
    const whole = this.app.trace.facts.functions[counter];
    const { label, hint, text } = countersOf(this.app.trace)[counter];
    return { text: `${label} ${hint}: ${text(whole)}, whole recording`, title: count(whole) };
  }
}
