// fragment.js: reads and writes the state of the page as the fragment of its address:
// #tab=sites&metric=peak&from=12&to=80 ... Default values are left out, so an address without a fragment
// shows the first screen.

export const DEFAULTS = {
  tab: "flame", metric: "peak", unit: "bytes", side: "callers", by: "function",
  from: 0, to: 0, label: 0, process: 0, query: "", fn: 0, call: 0, zoom: 0, sort: "", colour: "", counter: "",
  fold: "auto", known: "auto",
};
const NUMBERS = ["from", "to", "label", "process", "fn", "call", "zoom"];

export function read(fragment) {
  const state = { ...DEFAULTS };
  for (const [name, value] of new URLSearchParams(fragment.replace(/^#/, ""))) {
    if (!(name in DEFAULTS)) continue;
    state[name] = NUMBERS.includes(name) ? Math.max(0, Math.trunc(Number(value)) || 0) : value;
  }
  return state;
}

export function write(state) {
  const parameters = new URLSearchParams();
  for (const name of Object.keys(DEFAULTS)) {
    if (state[name] !== DEFAULTS[name]) parameters.set(name, state[name]);
  }
  return `#${parameters}`;
}
