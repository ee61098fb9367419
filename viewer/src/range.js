// range.js: the metrics of each group in a range of slices. A group is the blocks of one process that have the same call path, type and
// label; a slice is one of up to 256 equal parts of the recording.
//
// The sums over the whole recording are stored with the groups, so that the first screen does not wait for
// the history. For any other range, entries of the history (what each group did in each slice) are added up:
// a million additions take some milliseconds.
//
// On a page about several traces, each process has its own peak, as in `allogram report --merge`: the peak of a range is the sum of the peaks
// that the processes have in this range, at different moments.

import { interval, weightsOf } from "./estimate.js";
import { peakSlices } from "./processes.js";
import { unitOf } from "./quantity.js";

export const METRICS = {
  in_use: { label: "In use", hint: "at the end of the range", bytes: true },
  allocated: { label: "Allocated", hint: "in the range", bytes: true },
  peak: { label: "Peak", hint: "at the highest moment of the range", bytes: true },
  temporary: { label: "Temporary", hint: "freed before their thread allocated again", bytes: false },
  leaked: { label: "Never freed", hint: "allocated in the range, in use at the very end", bytes: true },
};

// The slice in [from, to) with the highest peak. If slices have equal peaks, it is the last slice in which the bytes in use rise to the
// peak. In a slice where the bytes in use only fall, the peak is their value at the start of the slice, and the recorded time of the peak
// is before the slice.
export function peakSlice(facts, from, to) {
  const { peak_bytes: peaks, peak_time_ns: times, slice_ns: sliceNs } = facts.slices;
  let best = from;
  for (let i = from + 1; i < to; i++) {
    const isReached = times[i] >= i * sliceNs;
    if (peaks[i] > peaks[best] || (isReached && peaks[i] === peaks[best])) best = i;
  }
  return best;
}

const ALL_LABELS = -1;
const ALL_PROCESSES = -1;

function addUp(history, field, from, to, into, sign = 1) {
  const values = history[field];
  const { group, first } = history;
  for (let i = first[from]; i < first[to]; i++) into[group[i]] += sign * values[i];
}

export class Range {
  // The slices [from, to) of a trace. LABEL and PROCESS limit the range to one label and to one process; ALL is then the same range without
  // these limits. The range of the whole recording needs no history.
  constructor(trace, from, to, { label = ALL_LABELS, process = ALL_PROCESSES, all } = {}) {
    this.label = label;
    this.process = process;
    this.all = all ?? this;
    this.limited = all?.limited ?? new Map();
    this.trace = trace;
    this.from = from;
    this.to = to;
    this.isWhole = !trace.facts.slices || (from === 0 && to === trace.facts.slices.count);
    this.cache = new Map();
  }

  // The same range limited to one label and one process. ALL_LABELS and ALL_PROCESSES are no limits.
  of(label, process = ALL_PROCESSES) {
    if (label === ALL_LABELS && process === ALL_PROCESSES) return this.all;
    const key = `${label} ${process}`;
    if (!this.limited.has(key)) {
      this.limited.set(key, new Range(this.trace, this.from, this.to, { label, process, all: this.all }));
    }
    return this.limited.get(key);
  }

  get isOfLabel() {
    return this.label !== ALL_LABELS;
  }

  get isOfProcess() {
    return this.process !== ALL_PROCESSES;
  }

  get isLimited() {
    return this.isOfLabel || this.isOfProcess;
  }

  hasGroup(group) {
    const { groups } = this.trace;
    return (!this.isOfLabel || groups.label[group] === this.label) &&
      (!this.isOfProcess || groups.process[group] === this.process);
  }

  // The value of each group: NAME is allocated_bytes, in_use_blocks, peak_bytes, temporary_blocks, leaked_bytes ...
  values(name) {
    let values = this.cache.get(name);
    if (!values) {
      values = this.isLimited ? this.ofGroups(name) : this.isWhole ? this.ofWhole(name) : this.ofSlices(name);
      this.cache.set(name, values);
    }
    return values;
  }

  // The value of each group, for a metric and a unit of the page.
  metric(metric, unit) {
    return this.values(`${metric}_${METRICS[metric].bytes ? unit : "blocks"}`);
  }

  ofGroups(name) {
    return this.all.values(name).map((value, group) => (this.hasGroup(group) ? value : 0));
  }

  ofWhole(name) {
    return this.trace.groups[name.replace("leaked", "in_use")];
  }

  ofSlices(name) {
    const { history, leaks, groups, facts } = this.trace;
    const into = new Float64Array(groups.count);
    const unit = name.endsWith("bytes") ? "bytes" : "blocks";
    if (name.startsWith("in_use")) {
      addUp(history, `allocated_${unit}`, 0, this.to, into);
      addUp(history, `freed_${unit}`, 0, this.to, into, -1);
    } else if (name.startsWith("peak") && this.trace.isMerged) {
      this.addPeaksOfProcesses(unit, into);
    } else if (name.startsWith("peak")) {
      const slice = peakSlice(facts, this.from, this.to);
      addUp(history, `allocated_${unit}`, 0, slice, into);
      addUp(history, `freed_${unit}`, 0, slice, into, -1);
      addUp(history, `rise_${unit}`, slice, slice + 1, into);
    } else if (name.startsWith("leaked")) {
      for (let i = 0; i < leaks.count; i++) {
        if (leaks.slice[i] >= this.from && leaks.slice[i] < this.to) {
          into[leaks.group[i]] += leaks[unit][i];
        }
      }
    } else {
      addUp(history, name, this.from, this.to, into);
    }
    return into;
  }

  // Adds to INTO what each group had in use at the peak of its process in the range.
  addPeaksOfProcesses(unit, into) {
    const { history, groups, lives } = this.trace;
    const { group, first } = history;
    const [allocated, freed, rise] = ["allocated", "freed", "rise"].map((field) => history[`${field}_${unit}`]);
    const peaks = peakSlices(lives, this.from, this.to);
    for (let slice = 0; slice < this.to; slice++) {
      for (let i = first[slice]; i < first[slice + 1]; i++) {
        const peak = peaks[groups.process[group[i]]];
        if (slice < peak) into[group[i]] += allocated[i] - freed[i];
        else if (slice === peak) into[group[i]] += rise[i];
      }
    }
  }

  // For each group the variance of the estimates of values(NAME); null in an exact trace.
  variances(name) {
    if (!this.trace.isSampled) return null;
    const key = `variance ${name}`;
    if (!this.cache.has(key)) {
      const whole = this.ofWhole(name);
      const variance = this.trace.groups.variance[name.replace("leaked", "in_use")];
      const values = this.values(name);
      // A group whose value over the whole recording is 0 gets a share of the variance of its allocations.
      const allocated = `allocated_${name.endsWith("bytes") ? "bytes" : "blocks"}`;
      const { [allocated]: all, variance: { [allocated]: varianceOfAll } } = this.trace.groups;
      this.cache.set(key, values.map((value, i) => (whole[i] > 0 ? (value * variance[i]) / whole[i]
        : all[i] > 0 ? (value * varianceOfAll[i]) / all[i] : 0)));
    }
    return this.cache.get(key);
  }

  // The interval of the sum of all groups; null in an exact trace.
  interval(name) {
    const variances = this.variances(name);
    if (!variances) return null;
    const weights = weightsOf(this.trace.groups, (group) => this.hasGroup(group));
    return interval(this.total(name), variances.reduce((sum, one) => sum + one, 0), weights,
      unitOf(name));
  }

  total(name) {
    const key = `total ${name}`;
    if (!this.cache.has(key)) {
      let sum = 0;
      for (const value of this.values(name)) sum += value;
      this.cache.set(key, sum);
    }
    return this.cache.get(key);
  }

  // The moment of the range with the most bytes in use: its bytes, blocks and time. Of several processes: the sums of their peaks, and of one
  // process of several: its peak, in both cases without a time.
  get peak() {
    const { summary, slices } = this.trace.facts;
    if (this.trace.isMerged) {
      const ofProcess = this.of(ALL_LABELS, this.process);
      return { bytes: ofProcess.total("peak_bytes"), blocks: ofProcess.total("peak_blocks"), timeNs: null };
    }
    if (this.isWhole) {
      return {
        bytes: summary.peak_bytes, blocks: summary.peak_blocks, timeNs: summary.peak_time_ns,
      };
    }
    const slice = peakSlice(this.trace.facts, this.from, this.to);
    return {
      bytes: slices.peak_bytes[slice],
      blocks: slices.peak_blocks[slice],
      timeNs: slices.peak_time_ns[slice],
    };
  }

  get fromNs() {
    return this.isWhole ? 0 : this.from * this.trace.facts.slices.slice_ns;
  }

  get toNs() {
    const { summary, slices } = this.trace.facts;
    return this.isWhole ? summary.duration_ns
      : Math.min(this.to * slices.slice_ns, summary.duration_ns);
  }
}
