// quantity.js: formats numbers as text, exactly like the reports in a terminal
// (src/report/quantity.c).

const BINARY = [["B", 1], ["KiB", 2 ** 10], ["MiB", 2 ** 20], ["GiB", 2 ** 30], ["TiB", 2 ** 40],
                ["PiB", 2 ** 50]];
const DECIMAL = [["", 1], ["K", 1e3], ["M", 1e6], ["G", 1e9], ["T", 1e12]];
const SECONDS = [["ns", 1], ["us", 1e3], ["ms", 1e6], ["s", 1e9]];

// Rounds as C's printf does. toFixed differs from printf only for ties, which printf rounds to the
// even digit. A tie with DIGITS decimals is an odd multiple of 2 ** -(DIGITS + 1).
function fixed(value, digits) {
  const scaled = Math.abs(value) * 10 ** digits;
  const isTie = Number.isInteger(value * 2 ** (digits + 1)) && scaled % 1 === 0.5;
  return (isTie && Math.floor(scaled) % 2 === 0
    ? (Math.sign(value) * Math.floor(scaled)) / 10 ** digits : value).toFixed(digits);
}

// Three significant digits, in the largest unit in which the value is at least 1.
function withScale(value, scales) {
  const [name, size] = scales.findLast((scale) => Math.abs(value) >= scale[1]) ?? scales[0];
  const number = value / size;
  const digits = size === 1 || Math.abs(number) >= 99.95 ? 0 : Math.abs(number) >= 9.995 ? 1 : 2;
  return `${fixed(number, digits)} ${name}`;
}

export function bytes(value) {
  return withScale(value, BINARY);
}

export function count(value) {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

export function short(value) {
  return Math.abs(value) < 100000 ? count(value) : withScale(value, DECIMAL);
}

export function blocksOf(value) {
  return `${short(value)} block${value === 1 ? "" : "s"}`;
}

export function time(ns) {
  if (ns === 0) return "0 s";
  if (ns < 120e9) return withScale(ns, SECONDS);
  const seconds = Math.floor(ns / 1e9);
  const twoDigits = (n) => n.toString().padStart(2, "0");
  return seconds < 7200 ? `${Math.floor(seconds / 60)} m ${twoDigits(seconds % 60)} s`
    : `${Math.floor(seconds / 3600)} h ${twoDigits(Math.floor(seconds / 60) % 60)} m`;
}

// Makes "20 ms" of "20.0 ms", for an axis, where all numbers are round.
export function trim(text) {
  return text.replace(/\.0+ /, " ");
}

// Formats the times at the ticks of an axis, in one unit and with the digits that distinguish
// neighboring ticks.
export function timeTicks(moments) {
  const last = moments[moments.length - 1] ?? 0;
  const [scale, unit] = last >= 0.9995e9 ? [1e9, "s"] : last >= 0.9995e6 ? [1e6, "ms"]
    : last >= 999.5 ? [1e3, "us"] : [1, "ns"];
  const step = moments.length > 1 ? (moments[1] - moments[0]) / scale : 1;
  let digits = 0;
  while (digits < 3 && Math.abs(step - Number(step.toFixed(digits))) > step / 100) digits++;
  return moments.map((ns) => {
    if (ns === 0) return "0";
    const [whole, part] = (ns / scale).toFixed(digits).split(".");
    return `${count(Number(whole))}${part ? `.${part}` : ""} ${unit}`;
  });
}

export function share(part, whole) {
  if (whole === 0 || part === 0) return "0 %";
  const percent = (100 * part) / whole;
  return Math.abs(percent) <= 0.5 ? "<1 %" : `${fixed(percent, 0)} %`;
}

export function unitOf(metricName) {
  return metricName.endsWith("bytes") ? "bytes" : "blocks";
}

export function inUnit(value, unit) {
  return unit === "bytes" ? bytes(value) : `${short(value)}`;
}

export function signed(value, unit) {
  const text = inUnit(Math.abs(value), unit);
  return value > 0 ? `+${text}` : value < 0 ? `−${text}` : text;
}

// Removes template arguments and parameters from a name of 24 or more characters, for the boxes of
// the flame graph. "(anonymous namespace)" becomes "(anon)".
export function shortName(name) {
  if (name.length < 24 || !/[<(]/.test(name)) return name;
  let depth = 0;
  let out = "";
  for (let i = 0; i < name.length; i++) {
    const c = name[i];
    const isArrow = c === ">" && name[i - 1] === "-";
    if (name.startsWith("operator", i)) { // operator<, operator(), operator->
      const rest = /^operator\s*(\(\)|[<>=!-]+|new\[?\]?|delete\[?\]?)?/.exec(name.slice(i));
      if (depth === 0) out += rest[0];
      i += rest[0].length - 1;
    } else if (name.startsWith("(anonymous namespace)", i)) {
      if (depth === 0) out += "(anon)";
      i += "(anonymous namespace)".length - 1;
    } else if (c === "<" || c === "(") {
      depth++;
    } else if ((c === ">" && !isArrow) || c === ")") {
      depth = Math.max(0, depth - 1);
    } else if (depth === 0) {
      out += c;
    }
  }
  return out.trim() || name;
}
