// quantity.js: formats numbers as text, like the reports in a terminal (src/report/quantity.c).

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const DECIMAL = ["", "k", "M", "G", "T"];

// Rounds as C's printf does: a tie goes to the even digit.
function fixed(value, digits) {
  const scaled = Math.abs(value) * 10 ** digits;
  const isTie = scaled % 1 === 0.5 && Math.floor(scaled) % 2 === 0;
  return (isTie ? (Math.sign(value) * Math.floor(scaled)) / 10 ** digits : value).toFixed(digits);
}

function threeDigits(value) {
  const size = Math.abs(value);
  return fixed(value, size >= 99.95 || size === 0 ? 0 : size >= 9.995 ? 1 : 2);
}

export function bytes(value) {
  let unit = 0;
  let scaled = value;
  while (Math.abs(scaled) >= 1023.5 && unit < BINARY.length - 1) {
    scaled /= 1024;
    unit++;
  }
  return `${unit === 0 ? Math.round(scaled) : threeDigits(scaled)} ${BINARY[unit]}`;
}

export function count(value) {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

export function short(value) {
  if (Math.abs(value) < 100000) return count(value);
  let unit = 0;
  let scaled = value;
  while (Math.abs(scaled) >= 999.5 && unit < DECIMAL.length - 1) {
    scaled /= 1000;
    unit++;
  }
  return `${threeDigits(scaled)} ${DECIMAL[unit]}`;
}

export function blocksOf(value) {
  return `${short(value)} block${value === 1 ? "" : "s"}`;
}

export function time(ns) {
  if (ns === 0) return "0 s";
  if (ns < 999.5) return `${Math.round(ns)} ns`;
  if (ns < 999.5e3) return `${threeDigits(ns / 1e3)} µs`;
  if (ns < 999.5e6) return `${threeDigits(ns / 1e6)} ms`;
  if (ns < 120e9) return `${threeDigits(ns / 1e9)} s`;
  if (ns < 7200e9) return `${threeDigits(ns / 60e9)} min`;
  return `${threeDigits(ns / 3600e9)} h`;
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
    : last >= 999.5 ? [1e3, "µs"] : [1, "ns"];
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
  const percent = (part / whole) * 100;
  if (Math.abs(percent) < 0.1) return "<0.1 %";
  return `${percent.toFixed(Math.abs(percent) < 10 ? 1 : 0)} %`;
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

// A name without template arguments and parameters, for the boxes of the flame graph.
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
