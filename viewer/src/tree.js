// tree.js: trees of stacks merged by function: from callers down to callees, or from the allocating function
// down to its callers. Parents have smaller numbers than their children, so sums over a tree are loops.
import { OTHER } from "./trace.js";

export class Tree {
  constructor() {
    this.parent = [0];
    this.key = [0]; // the key of each node: the number of its function, or what the argument keyOf of callers() returns
    this.children = new Map(); // parent and key -> node
  }

  step(parent, key) {
    const name = parent * 4194304 + key;
    let node = this.children.get(name);
    if (node === undefined) {
      node = this.parent.length;
      this.parent.push(parent);
      this.key.push(key);
      this.children.set(name, node);
    }
    return node;
  }

  // GROUP_NODE: the node of each group (the blocks that have the same call path, type and label). ORDER: the
  // weight of each group; children with larger weights come first. The order does not depend on the range,
  // so boxes of the flame graph keep their places.
  finish(groupNode, order) {
    this.count = this.parent.length;
    this.parent = Int32Array.from(this.parent);
    this.key = Int32Array.from(this.key);
    this.groupNode = groupNode;
    this.children = null;
    const weight = this.totals(order);
    this.linkChildren(weight);
    this.markOutermost();
    return this;
  }

  linkChildren(weight) {
    const { count, parent } = this;
    this.firstChild = new Int32Array(count + 1);
    for (let i = 1; i < count; i++) this.firstChild[parent[i] + 1]++;
    for (let i = 0; i < count; i++) this.firstChild[i + 1] += this.firstChild[i];
    const place = this.firstChild.slice();
    this.child = new Int32Array(Math.max(0, count - 1));
    for (let i = 1; i < count; i++) this.child[place[parent[i]]++] = i;
    for (let i = 0; i < count; i++) {
      const from = this.firstChild[i];
      const to = this.firstChild[i + 1];
      if (to - from > 1) {
        this.child.subarray(from, to).sort((a, b) =>
          (this.key[a] === OTHER) - (this.key[b] === OTHER) || weight[b] - weight[a] || a - b);
      }
    }
  }

  // Marks the outermost node of each key on a path, so that the totals count a stack once for a recursive function.
  markOutermost() {
    const { count, parent, key } = this;
    this.isOutermost = new Uint8Array(count);
    for (let i = 1; i < count; i++) {
      let above = parent[i];
      while (above !== 0 && key[above] !== key[i]) above = parent[above];
      this.isOutermost[i] = above === 0 ? 1 : 0;
    }
  }

  own(values) {
    const own = new Float64Array(this.count);
    const { groupNode } = this;
    for (let i = 0; i < groupNode.length; i++) own[groupNode[i]] += values[i];
    return own;
  }

  totals(values) {
    const total = this.own(values);
    const { parent } = this;
    for (let i = this.count - 1; i > 0; i--) total[parent[i]] += total[i];
    return total;
  }

  // For each key the sum of the own values of its nodes, and its total, which counts a stack once even if
  // the key is in it several times.
  byKey(values, keyCount) {
    const own = new Float64Array(keyCount);
    const total = new Float64Array(keyCount);
    const { count, groupNode, key, isOutermost } = this;
    for (let i = 0; i < groupNode.length; i++) own[key[groupNode[i]]] += values[i]; // key 0: stacks without any frame
    const totalOf = this.totals(values);
    for (let i = 1; i < count; i++) if (isOutermost[i]) total[key[i]] += totalOf[i];
    total[0] = totalOf[0];
    return { own, total };
  }

  path(node) {
    const path = [];
    for (; node !== 0; node = this.parent[node]) path.push(node);
    return path.reverse();
  }
}

// The tree with the outermost function at the top. KEY_OF(frame) can return a number of a line or an image
// instead of a function.
export function callers(trace, keyOf = (frame) => trace.functionOf[frame]) {
  const { groups } = trace;
  const tree = new Tree();
  const groupNode = groups.node.map((_, group) => trace.framesOf(group)
    .reduceRight((place, frame) => tree.step(place, keyOf(frame)), 0));
  return tree.finish(groupNode, groups.allocated_bytes);
}

// The tree with the allocating function at the top and its callers below.
export function callees(trace) {
  const { groups, functionOf } = trace;
  const tree = new Tree();
  const groupNode = groups.node.map((_, group) => trace.framesOf(group)
    .reduce((place, frame) => tree.step(place, functionOf[frame]), 0));
  const inverted = tree.finish(groupNode, groups.allocated_bytes);
  return inverted;
}
