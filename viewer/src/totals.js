// totals.js: the totals (with callees) of functions, lines and images. The tree of a large trace does not have all callers: nodes "other"
// replace the callers of small stacks. So for the whole recording the page contains the totals that `allogram report --view=sites` computes from
// all stacks. For a part of the recording, and for a label or a process, the totals are those of the tree, and isLeast marks those that are too low.

// Returns the totals of one metric, by key (the number of a function, a line or an image); null if the tree has all callers.
// BY is "function", "line" or "image", KEY_OF(frame) the key of a frame, COUNT the number of keys.
export function exactTotals(trace, by, keyOf, count, name) {
  if (!trace.totals) return null;
  const table = trace.totals[trace.isFolded ? "auto" : "none"][by];
  const metric = name.replace("leaked", "in_use");
  table.byKey ??= {};
  if (!table.byKey[metric]) {
    const totals = new Float64Array(count);
    table.frame.forEach((frame, i) => { totals[keyOf(frame)] += table[metric][i]; });
    table.byKey[metric] = totals;
  }
  return table.byKey[metric];
}

// The own values and totals of one metric in a range, by key, and whether the total of a key is only a lower limit: { own, total, isLeast(key) }.
export function sumsByKey(tree, range, by, keyOf, count, name) {
  const { trace } = range;
  const sums = tree.byKey(range.values(name), count);
  const exact = exactTotals(trace, by, keyOf, count, name);
  if (!exact) return { ...sums, isLeast: () => false };
  if (range.isWhole && !range.isLimited) {
    exact[0] = sums.total[0]; // all stacks
    return { own: sums.own, total: exact, isLeast: () => false };
  }
  const blocks = exactTotals(trace, by, keyOf, count, "allocated_blocks");
  tree.blocksByKey ??= tree.byKey(trace.groups.allocated_blocks, count).total;
  return { ...sums, isLeast: (key) => blocks[key] > tree.blocksByKey[key] };
}

export const LEAST_HINT = "at least this much: callers of small stacks are not known for a part of the recording";
