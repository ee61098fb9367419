// findings.js: the findings at the top of the page: the functions that hold most at the peak, leak most, make most
// temporary blocks (blocks freed before their thread allocated again), and allocate most. Each finding shows the
// number that is its reason.
import { bytes, share, short, shortName, time } from "./quantity.js";

const LEAST_SHARE = 0.1; // a function with a smaller share of the whole is not reported
const LEAST_LEAK = 0.02; // a leak is reported if it has this share of the peak, or LEAST_LEAKED_BLOCKS blocks
const LEAST_LEAKED_BLOCKS = 20;
// A function that allocates at least this share of the whole for at least this many callers is a wrapper. Its
// callers are reported instead.
const WRAPPERS = [{ share: 0.5, callers: 3 }, { share: 0.05, callers: 12 }];
const WRAPPERS_MOST = 12;

// For each function of the program's own code: what it allocates itself, through libraries, or through wrappers such as
// xmalloc. These bytes count for the wrapper's callers; otherwise every finding would name a wrapper.
function ownBeyondWrappers(app, values) {
  const { trace, tree } = app;
  const placeOf = app.ownPlaces;
  const callerOf = (node) => placeOf[tree.parent[node]];
  const place = tree.groupNode.map((node) => placeOf[node]);
  for (let round = 0; ; round++) {
    const own = new Float64Array(trace.functions.length);
    const callersOf = new Map();
    let whole = 0;
    for (let i = 0; i < place.length; i++) {
      const fn = tree.key[place[i]];
      own[fn] += values[i];
      whole += values[i];
      if (values[i] > 0 && place[i] !== 0) {
        const callers = callersOf.get(fn) ?? new Set();
        callersOf.set(fn, callers.add(tree.key[callerOf(place[i])]));
      }
    }
    const isWrapper = (fn) => fn > 1 && WRAPPERS.some((wrapper) =>
      own[fn] >= whole * wrapper.share && callersOf.get(fn)?.size >= wrapper.callers);
    const wrapper = trace.functions.findIndex(({ id }) => isWrapper(id));
    if (wrapper < 0 || round === WRAPPERS_MOST) return own;
    for (let i = 0; i < place.length; i++) {
      if (tree.key[place[i]] === wrapper && callerOf(place[i]) !== 0) place[i] = callerOf(place[i]);
    }
  }
}

function greatest(values) {
  let best = 2;
  for (let i = 2; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

export function findings(app) {
  const { trace } = app;
  const { summary } = trace.facts;
  const whole = (metric, unit) => ownBeyondWrappers(app, app.wholeRange.metric(metric, unit));
  const found = [];
  const add = (metric, unit, values, all, describe) => {
    const fn = greatest(values);
    const part = values[fn] ?? 0;
    if (part > 0 && part >= all * LEAST_SHARE) {
      found.push({ metric, unit, fn, name: trace.functions[fn].name, ...describe(part) });
    }
  };
  add("peak", "bytes", whole("peak", "bytes"), summary.peak_bytes, (part) => ({
    head: `holds ${share(part, summary.peak_bytes)} of the peak`,
    number: bytes(part),
    more: `of ${bytes(summary.peak_bytes)} at ${time(summary.peak_time_ns)}`,
  }));
  if (summary.in_use_bytes_at_end >= summary.peak_bytes * LEAST_LEAK ||
      summary.in_use_blocks_at_end >= LEAST_LEAKED_BLOCKS) {
    add("leaked", "bytes", whole("leaked", "bytes"), summary.in_use_bytes_at_end, (part) => ({
      head: "is never freed",
      number: bytes(part),
      more: `of ${bytes(summary.in_use_bytes_at_end)} in use at the end`,
    }));
  }
  if (summary.temporary_blocks >= summary.allocated_blocks * LEAST_SHARE) {
    add("temporary", "blocks", whole("temporary", "blocks"), summary.temporary_blocks, (part) => ({
      head: "makes temporary blocks",
      number: short(part),
      more: `of ${short(summary.allocated_blocks)}, freed before the next one`,
    }));
  }
  add("allocated", "bytes", whole("allocated", "bytes"), summary.allocated_bytes, (part) => ({
    head: `allocates ${share(part, summary.allocated_bytes)}`,
    number: bytes(part),
    more: `of ${bytes(summary.allocated_bytes)} in all`,
  }));
  return found.slice(0, 4).map((finding) => ({ ...finding, short: shortName(finding.name) }));
}
