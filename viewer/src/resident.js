// resident.js: what the resident memory consisted of at its peak and at the end: for each moment a bar that shows the shares of the classes, and
// a table with the numbers, as in `report --view=rss`.
import "./resident.css";
import { make } from "./elements.js";
import { bytes, count, share, time } from "./quantity.js";

function classesOf(ledgers) {
  const known = new Map(); // by name, in the order of the table of classes
  for (const ledger of ledgers) {
    for (const row of ledger.classes) known.set(row.class, row.words);
  }
  return [...known].map(([name, words]) => ({ name, words }));
}

function bytesOf(ledger, name) {
  return ledger.classes.find((row) => row.class === name)?.bytes ?? 0;
}

function placeOf({ function: name, file, line }) {
  return file ? `${name} (${file.split("/").pop()}:${line})` : name;
}

function titleOf(ledger) {
  return `${bytes(ledger.rss_bytes)} resident ${ledger.moment === "peak" ? "at the peak" : "at the end"} (${time(ledger.moment_ns)})`;
}

// The longest bar is that of the most resident memory.
function bar(ledger, most) {
  return make("div", { class: "ledger-bar", role: "img", width: `${(100 * ledger.rss_bytes) / most}%`,
    "aria-label": `${titleOf(ledger)}: ${ledger.classes.map((row) =>
      `${row.class} ${share(row.bytes, ledger.rss_bytes)}`).join(", ")}` },
  ...ledger.classes.map((row) => make("i", { class: `of-${row.class}`, width: `${(100 * row.bytes) / ledger.rss_bytes}%`,
    title: `${row.class} ${bytes(row.bytes)}, ${share(row.bytes, ledger.rss_bytes)}: ${row.words}` })));
}

function table(ledgers) {
  const numbers = (cells) => cells.map((cell) => make("td", { class: "number" }, cell));
  return make("table", {},
    make("thead", {}, make("tr", {}, make("th", {}, "class"),
      ...ledgers.flatMap((ledger) => [make("th", { class: "number" }, ledger.moment), make("th", { class: "number" }, "share")]),
      make("th", {}, "contents"))),
    make("tbody", {}, ...classesOf(ledgers).map(({ name, words }) => make("tr", { "data-class": name },
      make("th", { scope: "row" }, make("i", { class: `of-${name}` }), name),
      ...ledgers.flatMap((ledger) => numbers([bytes(bytesOf(ledger, name)), share(bytesOf(ledger, name), ledger.rss_bytes)])),
      make("td", {}, words)))),
    make("tfoot", {}, make("tr", {}, make("th", { scope: "row" }, "resident"),
      ...ledgers.flatMap((ledger) => numbers([bytes(ledger.rss_bytes), ""])), make("td", {}))));
}

function notes(ledger) {
  const pinned = ledger.classes.find((row) => row.class === "pinned_free")?.sites[0];
  return [
    pinned ? `${bytes(pinned.block_bytes)} in ${count(pinned.blocks)} blocks of ${placeOf(pinned)} hold ${bytes(pinned.bytes)} of free memory resident.` : "",
    ledger.trim_bytes > 0 ? `malloc_trim(0) would give ${bytes(ledger.trim_bytes)} back.` : "",
    `In addition: page tables ${bytes(ledger.page_table_bytes)}, hugetlbfs ${bytes(ledger.hugetlb_bytes)}, swapped out ${bytes(ledger.swap_bytes)}.`,
  ].filter(Boolean).join(" ");
}

// Adds the panel below the view, so that the flame graph stays on the first screen. It is open if less than half of the resident memory is blocks in
// use.
export function showResident({ facts }) {
  const ledgers = facts.resident ?? [];
  if (ledgers.length === 0) return;
  const most = Math.max(...ledgers.map((ledger) => ledger.rss_bytes));
  const [peak] = ledgers;
  document.querySelector("main").after(make("details", { id: "resident", class: "sheet",
    open: bytesOf(peak, "live") + bytesOf(peak, "managed_in_use") < peak.rss_bytes / 2 },
  make("summary", {}, `${titleOf(peak)}, ${bytes(bytesOf(peak, "live"))} in blocks in use`),
  ...ledgers.flatMap((ledger) => [make("p", {}, titleOf(ledger)), bar(ledger, most), make("p", { class: "note" }, notes(ledger))]),
  make("details", {}, make("summary", {}, "as a table"), table(ledgers))));
}
