// estimate.js: the 95 % intervals of a sampled trace, computed as in src/model/interval.c, which explains the formulas and the constants.
// The intervals depend on the variances of groups. A group is the blocks that have the same call path, type and label. In a part of the
// recording, a group's variance is assumed to be proportional to its value.
import { bytes, count, short } from "./quantity.js";

const NORMAL_QUANTILE = 1.959963985;
const NOTHING_SEEN = 3.688879454; // ln 40: if the mean is larger, a count of 0 has a probability below 2.5 %
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

const isEnough = (n) => n >= ENOUGH_SAMPLES - 0.5;

function lowerBound(n, scale) {
  return scale * (isEnough(n) ? gammaQuantile(n + 0.5, -NORMAL_QUANTILE) : lowestMean(n));
}

// The upper bound of the interval. One more sample, which stands for WEIGHT, is added to the mean and the variance with the factor PART
// (0 to 1).
function upperBound(value, variance, weight, part) {
  const mean = value + part * weight;
  const spread = variance + part * weight * weight;
  return (gammaQuantile((mean * mean) / spread, NORMAL_QUANTILE) * spread) / mean;
}

function around(value, low, high) {
  return [Math.min(value, Math.floor(low)), Math.max(value, Math.ceil(high))];
}

function intervalOfBytes(value, variance, portion) {
  const n = variance / portion / portion;
  if (!(portion > 0) || !(n >= 0) || !Number.isFinite(n)) return [value, value];
  const open = Math.min(value, variance / portion);
  const high = n > 0 ? upperBound(open, variance, portion, isEnough(n) ? 0.5 : 1)
    : NOTHING_SEEN * portion;
  return around(value, value - open + lowerBound(n, portion), value - open + high);
}

function intervalOfBlocks(value, variance, heaviest) {
  const scale = variance / value;
  const n = value / scale;
  if (!(heaviest > 0) || !(value > 0) || !Number.isFinite(scale)) return [value, value];
  const isCertain = !(variance > 0) || !Number.isFinite(n);
  const isMany = isCertain || isEnough(n);
  const unseen = Math.max(heaviest, scale) * (isMany ? UNSEEN_OF_MANY : UNSEEN_OF_FEW);
  return around(value, isCertain ? value : lowerBound(n, scale),
    upperBound(value, variance, unseen, isMany ? 0.5 : 1));
}

// The interval of a sum over groups. WEIGHTS is { heaviest, portion }: the most blocks that a sample of these groups stands for, and the
// bytes that a sample of a small block stands for.
export function interval(value, variance, { heaviest, portion }, unit) {
  if (!(portion > 0)) return [value, value];
  if (unit === "bytes") return intervalOfBytes(value, variance, portion);
  if (!(heaviest >= 2 || (heaviest > 0 && variance >= (heaviest * heaviest) / 2))) {
    return [intervalOfBlocks(value, variance, heaviest)[0],
      value + Math.ceil(NOTHING_SEEN * portion)];
  }
  return value > 0 ? intervalOfBlocks(value, variance, heaviest)
    : [0, Math.ceil(NOTHING_SEEN * heaviest)];
}

// The weights, as interval takes them, for the sum of the groups for which IS_ONE is true.
export function weightsOf(groups, isOne) {
  const weights = { heaviest: 0, portion: 0 };
  for (let i = 0; i < groups.count; i++) {
    if (!isOne(i)) continue;
    weights.heaviest = Math.max(weights.heaviest, groups.heaviest[i]);
    weights.portion = Math.max(weights.portion, groups.portion[i]);
  }
  return weights;
}

// Formats an interval as "±12 %", like the reports in a terminal; "" if the number is exact.
export function spreadOf(value, [low, high], unit = "bytes") {
  if (low === high) return "";
  if (value === 0) return `to ${unit === "bytes" ? bytes(high) : short(high)}`;
  const percent = (100 * Math.max(value - low, high - value)) / value;
  return `±${percent < 1 ? percent.toFixed(1) : Math.min(9999, percent).toFixed(0)} %`;
}

export function boundsText([low, high]) {
  return low === high ? "" : `95 %: ${count(low)} to ${count(high)}`;
}

// The interval of the difference of two estimates with independent errors (IS after, WAS before).
export function intervalOfChange(was, [wasLow, wasHigh], is, [isLow, isHigh]) {
  return [is - was - Math.hypot(is - isLow, wasHigh - was),
    is - was + Math.hypot(isHigh - is, was - wasLow)];
}

// Returns a function (part, key) that returns the weights, as interval takes them. PART is "own" or "total". KEY is the number of a function,
// a line or an image (loaded file).
export function weightsByKey(tree, groups, keyCount) {
  const both = { own: {}, total: {} };
  for (const name of ["heaviest", "portion"]) {
    const own = new Float64Array(keyCount);
    const total = new Float64Array(keyCount);
    for (let i = 0; i < groups.count; i++) {
      const weight = groups[name][i];
      let node = tree.groupNode[i];
      own[tree.key[node]] = Math.max(own[tree.key[node]], weight);
      for (; node !== 0; node = tree.parent[node]) {
        total[tree.key[node]] = Math.max(total[tree.key[node]], weight);
      }
    }
    both.own[name] = own;
    both.total[name] = total;
  }
  return (part, key) => ({ heaviest: both[part].heaviest[key], portion: both[part].portion[key] });
}
