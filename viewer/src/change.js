// change.js: colors the flame graph of one trace by its difference from another trace. Nodes of the two traces are matched by the names
// and the images (loaded files) of the functions on their paths. The label of a node begins with the change and its sign, so that the change
// is readable without colors.
import { callees, callers } from "./tree.js";
import { shortName, signed } from "./quantity.js";
import { Range } from "./range.js";

const STEPS = 4; // shades for growth, and as many for shrinking

// For each node of TREE: the node of the other tree with the same path, or -1.
function sameNodes(tree, trace, other, otherTrace) {
  const nameOf = (owner, key) => `${owner.functions[key].name}\n${owner.functions[key].image}`;
  const known = new Map();
  for (let i = 1; i < other.count; i++) {
    known.set(`${other.parent[i]}\n${nameOf(otherTrace, other.key[i])}`, i);
  }
  const same = new Int32Array(tree.count).fill(-1);
  same[0] = 0;
  for (let i = 1; i < tree.count; i++) {
    const parent = same[tree.parent[i]];
    if (parent >= 0) same[i] = known.get(`${parent}\n${nameOf(trace, tree.key[i])}`) ?? -1;
  }
  return same;
}

export class Change {
  constructor(trace, before, makeTree) {
    this.range = new Range(before, 0, 0);
    this.tree = makeTree(before);
    this.before = before;
    this.trace = trace;
  }

  static of(app) {
    const { side, fold } = app.state;
    app.changes ??= {};
    app.changes[side + fold] ??= new Change(app.trace, app.before, side === "callees" ? callees
      : (trace) => callers(trace));
    return app.changes[side + fold];
  }

  // The change of each node of TREE: its value, minus that of the same node in the other trace.
  deltas(tree, values, metricName, label) {
    this.same ??= sameNodes(tree, this.trace, this.tree, this.before);
    const range = this.range.of(this.before.labelLike(this.trace, label));
    const was = this.tree.totals(range.values(metricName));
    return values.map((value, node) => value - (this.same[node] < 0 ? 0 : was[this.same[node]]));
  }
}

export function lookOfChange(app, tree, values, look) {
  const deltas = Change.of(app).deltas(tree, values, app.metricName, app.range.label);
  const most = deltas.reduce((max, delta) => Math.max(max, Math.abs(delta)), 1);
  const style = getComputedStyle(document.documentElement);
  const colours = (way) => Array.from({ length: STEPS + 1 }, (_, i) =>
    style.getPropertyValue(i === 0 ? "--flame-other" : `--${way}-${i}`).trim());
  const [grown, shrunk] = [colours("grown"), colours("shrunk")];
  const stepOf = (delta) => (delta === 0 ? 0
    : Math.max(1, Math.ceil(Math.sqrt(Math.abs(delta) / most) * STEPS)));
  return {
    ...look,
    colour: (node) => (deltas[node] >= 0 ? grown : shrunk)[stepOf(deltas[node])],
    label: (node) => {
      const name = node === 0 ? "all" : shortName(look.name(tree.key[node]));
      return deltas[node] === 0 ? name : `${signed(deltas[node], app.unitOfMetric)}  ${name}`;
    },
  };
}
