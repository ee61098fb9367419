// estimate.js: how sure the numbers of a sampled trace are: the 95 % intervals of src/model/interval.c, from the same
// variances. What a group did in a part of the recording weighs as all that it did: its variance is its share of the whole one.
import { bytes, count, short } from "./quantity.js";

const NORMAL_QUANTILE = 1.959963985;
const ENOUGH_SAMPLES = 20;
const UNSEEN_OF_MANY = 2;
const UNSEEN_OF_FEW = 4;
const LOWEST_MEANS = [0, 0, 0.0504, 0.4083, 0.9333, 1.52, 2.1375, 2.7759, 3.4316];

// Half of the chi-square quantile with 2 * shape degrees of freedom.
function gammaQuantile(shape, normalQuantile) {
  const part = 1 / (9 * shape);
  const root = 1 - part + normalQuantile * Math.sqrt(part);
  return root > 0 ? shape * root ** 3 : 0;
}

function lowestMean(n) {
  if (n >= LOWEST_MEANS.length - 1) return gammaQuantile(n, -NORMAL_QUANTILE);
  const whole = Math.floor(n);
  return LOWEST_MEANS[whole] + (n - whole) * (LOWEST_MEANS[whole + 1] - LOWEST_MEANS[whole]);
}

// HEAVIEST: the most blocks that one sample stands for, of numbers of blocks; 0 of bytes.
export function interval(value, variance, heaviest) {
  const scale = variance / value;
  const n = value / scale;
  if (!(variance > 0) || !(n > 0) || !Number.isFinite(n)) return [value, value];
  const isEnough = n >= ENOUGH_SAMPLES;
  const low = scale * (isEnough ? gammaQuantile(n + 0.5, -NORMAL_QUANTILE) : lowestMean(n));
  const unseen = heaviest > 0 ? Math.max(heaviest, scale) * (isEnough ? UNSEEN_OF_MANY
    : UNSEEN_OF_FEW) : scale;
  const part = isEnough ? 0.5 : 1;
  const mean = value + part * unseen;
  const spread = variance + part * unseen * unseen;
  const high = (gammaQuantile((mean * mean) / spread, NORMAL_QUANTILE) * spread) / mean;
  return [Math.min(value, Math.floor(low)), Math.max(value, Math.ceil(high))];
}

// "±12 %", as the terminal's reports have it; "" where the number is known.
export function spreadOf(value, [low, high], unit = "bytes") {
  if (low === high) return "";
  if (value === 0) return `to ${unit === "bytes" ? bytes(high) : short(high)}`;
  const percent = (100 * Math.max(value - low, high - value)) / value;
  return `±${percent < 1 ? percent.toFixed(1) : Math.min(9999, percent).toFixed(0)} %`;
}

export function boundsText([low, high]) {
  return low === high ? "" : `95 %: ${count(low)} to ${count(high)}`;
}

// After minus before: the bounds of the two, put together by squares.
export function intervalOfChange(was, [wasLow, wasHigh], is, [isLow, isHigh]) {
  return [is - was - Math.hypot(is - isLow, wasHigh - was),
    is - was + Math.hypot(isHigh - is, was - wasLow)];
}

// The heaviest sample of each key of a tree: own, and of all that passes through.
export function heaviestByKey(tree, groups, keyCount) {
  const own = new Float64Array(keyCount);
  const total = new Float64Array(keyCount);
  for (let i = 0; i < groups.count; i++) {
    const weight = groups.heaviest[i];
    let node = tree.groupNode[i];
    own[tree.key[node]] = Math.max(own[tree.key[node]], weight);
    for (; node !== 0; node = tree.parent[node]) {
      total[tree.key[node]] = Math.max(total[tree.key[node]], weight);
    }
  }
  return { own, total };
}
