// table.js: a table whose rows can be sorted, opened and copied. It shows the first ROWS_SHOWN rows, and more
// on request, because a page of 20,000 rows is slow to lay out.
import { fill, make } from "./elements.js";

const ROWS_SHOWN = 200;
const LEAST_ROW_PX = 20; // no row is lower

// The number of rows that certainly fill the window. While the range is dragged, a table is laid out for each frame, so it shows no more rows than
// these. The page stays higher than the window, so that its scroll position does not change.
export function rowsOfWindow() {
  return Math.ceil(window.innerHeight / LEAST_ROW_PX);
}

function classOf({ isName, isText }) {
  return isName ? "name" : isText ? "text" : "";
}

// COLUMNS: { id, label, hint?, text(row), value(row)?, title?(row), isName?, isText?, note?(row), bar?(row) 0..1 }.
// The name column takes the remaining width; other text columns are as wide as their text. Name and text
// columns are aligned left.
export class Table {
  constructor(host, columns, { sort, onOpen, onSort, empty = "Nothing here.", shown = ROWS_SHOWN }) {
    Object.assign(this, { host, columns, sort, onOpen, onSort, empty, shown });
  }

  show(rows) {
    const column = this.columns.find(({ id }) => id === this.sort.id) ?? this.columns[0];
    const sign = this.sort.isRising ? 1 : -1;
    this.rows = column.value
      ? rows.slice().sort((a, b) => sign * (column.value(a) - column.value(b)))
      : rows.slice().sort((a, b) => -sign * column.text(a).localeCompare(column.text(b)));
    this.render();
  }

  render() {
    const shown = this.rows.slice(0, this.shown);
    const rest = this.rows.length - shown.length;
    fill(this.host,
      make("table", {},
        make("thead", {}, make("tr", {}, ...this.columns.map((column) => this.head(column)))),
        make("tbody", {}, ...shown.map((row) => this.row(row)))),
      this.rows.length === 0 ? make("p", { class: "empty" }, this.empty) : null,
      rest > 0 ? make("button", {
        class: "more",
        onclick: () => {
          this.shown += 1000;
          this.render();
        },
      }, `${rest.toLocaleString("en")} more`) : null);
  }

  head(column) {
    const isSorted = column.id === this.sort.id;
    const arrow = isSorted ? (this.sort.isRising ? " ↑" : " ↓") : "";
    return make("th", {
      class: classOf(column),
      scope: "col",
      "aria-sort": isSorted ? (this.sort.isRising ? "ascending" : "descending") : undefined,
    }, make("button", {
      title: column.hint,
      onclick: () => {
        this.sort = { id: column.id, isRising: isSorted ? !this.sort.isRising : false };
        this.show(this.rows);
        this.onSort?.(this.sort);
      },
    }, column.label + arrow));
  }

  row(row) {
    const open = this.onOpen && !row.isFixed ? () => this.onOpen(row) : undefined;
    return make("tr", {
      onclick: open,
      class: [open && "opens", row.isDim && "aside"].filter(Boolean).join(" "),
    }, ...this.columns.map((column) => {
      const text = column.text(row);
      const cell = make("td", {
        class: classOf(column),
        title: column.title?.(row),
      });
      if (column.isName && open) {
        cell.append(make("button", { class: "link" }, text));
      } else {
        cell.append(text);
      }
      if (column.note) cell.append(make("span", { class: "note" }, column.note(row)));
      if (column.bar) {
        const width = `${Math.max(0, Math.min(1, column.bar(row))) * 100}%`;
        cell.append(make("span", { class: "bar", "aria-hidden": "true" },
          make("span", { width })));
      }
      return cell;
    }));
  }

  // The table as text with aligned columns.
  text(limit = 100) {
    const rows = [this.columns.map(({ label }) => label),
      ...this.rows.slice(0, limit).map((row) => this.columns.map((column) =>
        column.text(row) + (column.note ? `  ${column.note(row)}` : "")))];
    const widths = this.columns.map((_, i) => Math.max(...rows.map((row) => row[i].length)));
    return rows.map((row) => row.map((text, i) =>
      (this.columns[i].isName || this.columns[i].isText ? text.padEnd(Math.min(widths[i], 60)) : text.padStart(widths[i])))
      .join("  ").trimEnd()).join("\n");
  }
}
