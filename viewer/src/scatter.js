// scatter.js: a plot of points on two logarithmic axes, with the line of one quotient y / x. Points far from the line (isMarked) have
// another shape and a name. The pointer selects the nearest point; arrow keys go from one point to the next.
import { draw, fill } from "./elements.js";

const HEIGHT = 400;
const LEFT = 74;
const RIGHT = 24;
const TOP = 12;
const BOTTOM = 44;
const NEAR = 24; // pixels; the pointer selects no point that is farther away
const NAMES_MOST = 12;
const LETTER = 7; // pixels: the width of a letter of a name

function decades(least, most) {
  const from = Math.floor(Math.log10(least));
  return [from, Math.max(from + 1, Math.ceil(Math.log10(most) + 1e-9))];
}

function shape({ isMarked, isAbove }, x, y) {
  if (!isMarked) return draw("circle", { cx: x, cy: y, r: 3 });
  const way = isAbove ? -1 : 1; // the triangle points up or down
  return draw("path", { d: `M${x - 6} ${y - way * 4}H${x + 6}L${x} ${y + way * 7}Z` });
}

export class Scatter {
  static MOST = 3000; // more points would be slow to lay out, and would overlap

  // POINTS: { x, y, name, isMarked, isAbove, isDim }, the largest first; x and y are above 0. LINE: the
  // quotient y / x of the line.
  constructor(options) {
    Object.assign(this, options, { at: -1 });
    this.element = draw("svg", { class: "scatter", tabindex: 0, role: "application",
      "aria-label": `${this.yTitle} against ${this.xTitle}; arrow keys go from function to function` });
    this.element.addEventListener("mousemove", (event) => this.select(this.nearest(event)));
    this.element.addEventListener("mouseleave", () => this.select(-1));
    this.element.addEventListener("click", (event) => this.open(this.nearest(event)));
    this.element.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.render()).observe(this.element);
    // The arrow keys begin with the marked points.
    this.order = [...this.points.keys()].sort((a, b) =>
      this.points[b].isMarked - this.points[a].isMarked || a - b);
  }

  render() {
    const width = Math.max(360, Math.round(this.element.getBoundingClientRect().width));
    if (width === this.width) return;
    this.width = width;
    const xs = decades(...this.bounds("x"));
    const ys = decades(...this.bounds("y"));
    const scale = (value, [from, to], start, end) =>
      start + ((Math.log10(value) - from) / (to - from)) * (end - start);
    this.xOf = (value) => scale(value, xs, LEFT, width - RIGHT);
    this.yOf = (value) => scale(value, ys, HEIGHT - BOTTOM, TOP);
    this.places = this.points.map(({ x, y }) => [this.xOf(x), this.yOf(y)]);
    this.element.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.element.setAttribute("height", HEIGHT);
    this.ring = draw("circle", { class: "ring", r: 9, visibility: "hidden" });
    fill(this.element, ...this.grid(xs, ys), ...this.theLine(xs, ys), ...this.dots(), ...this.names(),
      this.ring);
    this.select(this.at);
  }

  bounds(axis) {
    const values = this.points.map((point) => point[axis]);
    return [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
  }

  grid(xs, ys) {
    const { width } = this;
    const lines = [];
    for (let k = xs[0]; k <= xs[1]; k++) {
      const x = this.xOf(10 ** k);
      lines.push(draw("path", { class: "grid", d: `M${x} ${TOP}V${HEIGHT - BOTTOM}` }),
        draw("text", { x, y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, this.xText(10 ** k)));
    }
    for (let k = ys[0]; k <= ys[1]; k++) {
      const y = this.yOf(10 ** k);
      lines.push(draw("path", { class: "grid", d: `M${LEFT} ${y}H${width - RIGHT}` }),
        draw("text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, this.yText(10 ** k)));
    }
    lines.push(draw("text", { x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 8, "text-anchor": "middle" },
      this.xTitle), draw("text", { x: 12, y: HEIGHT / 2, "text-anchor": "middle",
      transform: `rotate(-90 12 ${HEIGHT / 2})` }, this.yTitle));
    return lines;
  }

  // Draws the line, from edge to edge of the plot.
  theLine(xs, ys) {
    const from = Math.max(10 ** xs[0], 10 ** ys[0] / this.line);
    const to = Math.min(10 ** xs[1], 10 ** ys[1] / this.line);
    if (from >= to) return [];
    const ends = [from, to].map((x) => [this.xOf(x), this.yOf(x * this.line)]);
    const [x, y] = ends[1];
    return [draw("path", { class: "line", d: `M${ends[0].join(" ")}L${ends[1].join(" ")}` }),
      draw("text", { class: "line-text", x: x - 6, y: Math.max(y + 4, TOP + 10),
        "text-anchor": "end" }, this.lineText)];
  }

  dots() {
    return this.points.map((point, i) => {
      const dot = shape(point, ...this.places[i]);
      dot.setAttribute("class", [point.isMarked ? "marked" : "dot", point.isDim ? "dim" : ""].join(" "));
      return dot;
    }).reverse(); // the largest are drawn last
  }

  // The names of marked points, if there is room.
  names() {
    const taken = [];
    const names = [];
    for (const i of this.order) {
      const point = this.points[i];
      if (!point.isMarked || names.length === NAMES_MOST) break;
      const [x, y] = this.places[i];
      const text = point.name.length > 40 ? `${point.name.slice(0, 39)}…` : point.name;
      const isLeft = x + 12 + text.length * LETTER > this.width - RIGHT;
      const from = isLeft ? x - 12 - text.length * LETTER : x + 12;
      const box = [from, from + text.length * LETTER, y - 8, y + 8];
      const isFree = taken.every((other) => box[1] < other[0] || box[0] > other[1] ||
        box[3] < other[2] || box[2] > other[3]);
      if (!isFree || from < LEFT) continue;
      taken.push(box);
      names.push(draw("text", { class: point.isDim ? "name dim" : "name", x: isLeft ? x - 12 : x + 12,
        y: y + 4, "text-anchor": isLeft ? "end" : "start" }, text));
    }
    return names;
  }

  nearest(event) {
    const box = this.element.getBoundingClientRect();
    const x = (event.clientX - box.left) * (this.width / box.width);
    const y = (event.clientY - box.top) * (HEIGHT / box.height);
    let best = -1;
    let least = NEAR * NEAR;
    this.places.forEach(([px, py], i) => {
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) [best, least] = [i, distance];
    });
    return best;
  }

  select(i) {
    this.at = i;
    this.ring.setAttribute("visibility", i < 0 ? "hidden" : "visible");
    if (i >= 0) {
      this.ring.setAttribute("cx", this.places[i][0]);
      this.ring.setAttribute("cy", this.places[i][1]);
    }
    this.onPoint(i < 0 ? null : this.points[i]);
  }

  open(i) {
    if (i >= 0) this.onOpen(this.points[i]);
  }

  key(event) {
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    if (event.key === "Enter") {
      this.open(this.at);
    } else if (event.key in steps) {
      const { length } = this.order;
      const before = this.order.indexOf(this.at);
      const next = before < 0 ? (steps[event.key] > 0 ? 0 : length - 1)
        : (before + steps[event.key] + length) % length;
      this.select(this.order[next]);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
