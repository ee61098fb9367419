// findings.js: the findings at the top of the page: the lines that hold most at the peak, leak most, make most
// temporary blocks (blocks freed before their thread allocated again), and allocate most. Each finding shows the
// number that is its reason. Blocks that the C or C++ runtime keeps until the end are no leak. The line of each block is the one to which reports attribute it (trace.js).
import { bytes, share, short, shortName, time } from "./quantity.js";

const LEAST_SHARE = 0.1; // a line with a smaller share of the whole is not reported
const LEAST_LEAK = 0.02; // a leak is reported if it has this share of the peak, or LEAST_LEAKED_BLOCKS blocks
const LEAST_LEAKED_BLOCKS = 20;

// The line with the largest sum, and the sum.
function greatest(trace, values) {
  const sums = new Float64Array(trace.frames.count + 2);
  trace.groups.line.forEach((line, i) => { sums[line] += values[i]; });
  const line = sums.reduce((best, sum, i) => (sum > sums[best] ? i : best), 0);
  return { line, part: sums[line] };
}

export function findings(app) {
  const { trace } = app;
  const { summary } = trace.facts;
  const found = [];
  const add = (metric, unit, all, describe) => {
    const values = app.wholeRange.metric(metric, unit);
    const { line, part } = greatest(trace, metric === "leaked" ? values.map((value, group) =>
      (trace.groups.isKnown[group] ? 0 : value)) : values);
    if (part > 0 && part >= all * LEAST_SHARE) {
      const fn = trace.functionOf[line];
      const isCollected = trace.groups.line.some((at, group) => at === line && trace.groups.isCollected[group] && values[group] > 0);
      found.push({ metric, unit, fn, line, part, name: trace.functions[fn].name, place: trace.placeOf(line), ...describe(part, isCollected) });
    }
  };
  add("peak", "bytes", summary.peak_bytes, (part) => ({
    head: `holds ${share(part, summary.peak_bytes)} of the peak`,
    number: bytes(part),
    more: `of ${bytes(summary.peak_bytes)} at ${time(summary.peak_time_ns)}`,
  }));
  if (summary.in_use_bytes_at_end >= summary.peak_bytes * LEAST_LEAK ||
      summary.in_use_blocks_at_end >= LEAST_LEAKED_BLOCKS) {
    add("leaked", "bytes", summary.in_use_bytes_at_end, (part, isCollected) => ({
      head: isCollected ? "is not collected at exit" : "is never freed",
      number: bytes(part),
      more: `of ${bytes(summary.in_use_bytes_at_end)} in use at the end`,
    }));
  }
  if (summary.temporary_blocks >= summary.allocated_blocks * LEAST_SHARE) {
    add("temporary", "blocks", summary.temporary_blocks, (part) => ({
      head: "makes temporary blocks",
      number: short(part),
      more: `of ${short(summary.allocated_blocks)}, freed before the next one`,
    }));
  }
  add("allocated", "bytes", summary.allocated_bytes, (part) => ({
    head: `allocates ${share(part, summary.allocated_bytes)}`,
    number: bytes(part),
    more: `of ${bytes(summary.allocated_bytes)} in all`,
  }));
  return found.slice(0, 4).map((finding) => ({ ...finding, short: shortName(finding.name) }));
}
