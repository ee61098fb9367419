// tree.js: trees of stacks merged by function: from callers down to callees, or from the allocating function
// down to its callers. Parents have smaller numbers than their children, so sums over a tree are loops.
import { OTHER } from "./trace.js";

const FIRST_SLOTS = 1 << 10; // a power of two, as each later length of the table

export class Tree {
  constructor() {
    this.count = 1;
    this.parent = new Int32Array(FIRST_SLOTS / 2);
    this.key = new Int32Array(FIRST_SLOTS / 2); // the key of each node: the number of its function, or what the argument keyOf of callers() returns
    // A hash table that finds a node by its parent and its key. A slot has the number of a node, or 0 if it is free. There are twice as many slots as
    // parent and key have elements. If a slot has another node, the next one is searched (linear probing). A Map, whose keys would be numbers
    // above 2^31, takes several times as long.
    this.slots = new Int32Array(FIRST_SLOTS);
  }

  slotOf(parent, key) {
    const last = this.slots.length - 1;
    let slot = Math.imul(parent ^ Math.imul(key, 0x9e3779b1), 0x85ebca6b);
    slot = (slot ^ slot >>> 15) & last;
    for (let node; (node = this.slots[slot]) !== 0; slot = slot + 1 & last) {
      if (this.parent[node] === parent && this.key[node] === key) break;
    }
    return slot;
  }

  grow() {
    for (const column of ["parent", "key"]) {
      const longer = new Int32Array(this[column].length * 2);
      longer.set(this[column]);
      this[column] = longer;
    }
    this.slots = new Int32Array(this.slots.length * 2);
    for (let node = 1; node < this.count; node++) this.slots[this.slotOf(this.parent[node], this.key[node])] = node;
  }

  // Returns the child of PARENT with KEY, which may be new. A child has a larger number than its parent.
  step(parent, key) {
    const slot = this.slotOf(parent, key);
    if (this.slots[slot] !== 0) return this.slots[slot];
    const node = this.count++;
    this.parent[node] = parent;
    this.key[node] = key;
    this.slots[slot] = node;
    if (this.count === this.parent.length) this.grow();
    return node;
  }

  // GROUP_NODE: the node of each group (the blocks that have the same call path, type and label). ORDER: the
  // weight of each group; children with larger weights come first. The order does not depend on the range,
  // so boxes of the flame graph keep their places.
  finish(groupNode, order) {
    this.parent = this.parent.slice(0, this.count);
    this.key = this.key.slice(0, this.count);
    this.groupNode = groupNode;
    this.slots = null;
    const weight = this.totals(order);
    this.linkChildren(weight);
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

  // For each node whether it is the outermost one of its key on its path, so that the totals count a stack once for a recursive function. The flame
  // graph does not need this, so it is computed when it is first needed.
  get isOutermost() {
    if (this.outermost) return this.outermost;
    const { count, parent, key } = this;
    this.outermost = new Uint8Array(count);
    for (let i = 1; i < count; i++) {
      let above = parent[i];
      while (above !== 0 && key[above] !== key[i]) above = parent[above];
      this.outermost[i] = above === 0 ? 1 : 0;
    }
    return this.outermost;
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

// Whether a folded stack begins at a line that has no node, see Trace.framesOf.
function beginsAtLine({ groups, isFolded }, group) {
  return isFolded && groups.start[group] === 0 && groups.node[group] !== 0;
}

// The node at which the stacks of a group begin, without the line that has no node.
function firstNode(trace, group) {
  const { nodes, groups, isFolded } = trace;
  return beginsAtLine(trace, group) ? nodes.parent[groups.node[group]] : isFolded ? groups.start[group] : groups.node[group];
}

// The tree with the outermost function at the top. KEY_OF(frame) can return a number of a line or an image
// instead of a function.
//
// The page stores stacks as nodes, of which each refers to its caller and has a larger number than this. So each node is entered into the tree
// once, after its caller, and not once for each stack that contains it. A folded stack (Trace.framesOf) begins at another node, and leaves out
// the frames of some nodes; then the callees of these nodes are called by their callers.
export function callers(trace, keyOf = (frame) => trace.functionOf[frame]) {
  const { nodes, groups, isFolded } = trace;
  const tree = new Tree();
  const begin = groups.node.map((_, group) => firstNode(trace, group));
  const isUsed = new Uint8Array(nodes.count); // by node of the page: whether it is on the path of a group
  for (const node of begin) isUsed[node] = 1;
  for (let node = nodes.count - 1; node > 0; node--) if (isUsed[node]) isUsed[nodes.parent[node]] = 1;
  const place = new Int32Array(nodes.count); // by node of the page: its node of the tree
  for (let node = 1; node < nodes.count; node++) {
    if (!isUsed[node]) continue;
    const above = place[nodes.parent[node]];
    place[node] = isFolded && nodes.isLeftOut[node] ? above : tree.step(above, keyOf(nodes.frame[node]));
  }
  const groupNode = begin.map((node, group) => (beginsAtLine(trace, group) ? tree.step(place[node], keyOf(groups.line[group])) : place[node]));
  return tree.finish(groupNode, groups.allocated_bytes);
}

// The tree with the allocating function at the top and its callers below.
export function callees(trace) {
  const { nodes, groups, functionOf, isFolded } = trace;
  const tree = new Tree();
  const groupNode = groups.node.map((_, group) => {
    let place = beginsAtLine(trace, group) ? tree.step(0, functionOf[groups.line[group]]) : 0;
    for (let node = firstNode(trace, group); node !== 0; node = nodes.parent[node]) {
      if (!isFolded || !nodes.isLeftOut[node]) place = tree.step(place, functionOf[nodes.frame[node]]);
    }
    return place;
  });
  return tree.finish(groupNode, groups.allocated_bytes);
}
