// help.js: the dialog that lists the keys of the page.
import { fill, make } from "./elements.js";

const KEYS = [
  ["drag", "on the curve: show a part of the recording; double click: all of it"],
  ["[ ]", "move the range by its length"], ["{ }", "halve it, double it"],
  ["1 … 9", "tabs"], ["m", "next metric"], ["u", "bytes or blocks"],
  ["i", "flame graph from main down, or from allocations up"],
  ["l", "without frames of libraries and wrappers, or all frames"],
  ["arrows", "in the flame graph: move; Enter zooms, F opens the function"],
  ["arrows", "in the plot of functions: from one to the next; Enter opens it"],
  ["/", "search: a part of a name, or /a regular expression/"],
  ["c", "copy the current view as text"], ["d", "dark or light"], ["Esc", "one step back"],
];

export function showHelp() {
  const dialog = document.getElementById("keys");
  fill(dialog, make("h2", {}, "Keys"),
    make("dl", {}, ...KEYS.flatMap(([key, text]) => [
      make("dt", {}, make("kbd", {}, key)), make("dd", {}, text)])),
    make("form", { method: "dialog" }, make("button", {}, "close")));
  dialog.showModal();
}
