// flame.js: the flame graph, drawn on one canvas. Only visible boxes are laid out: layout() starts at the
// zoomed node, and skips boxes narrower than half a pixel. So the time to draw depends on the visible
// part of the tree, not on its size. docs/explanation/adr/0005-flame-graph.md says why no
// package draws the graph.
import { OTHER } from "./trace.js";
import { shortName } from "./quantity.js";

const ROW = 20;
const LEAST_WIDTH = 0.5;
const TEXT_FROM = 26; // pixels; narrower boxes have no text

export class Flame {
  // HOST is an element. The callbacks get a node of the tree, or -1 for none. onHover is called when the node below the pointer changes, and
  // when an arrow key moves the focus to another node. onPoint is called at each movement of the pointer, and also gets the place of the
  // pointer in the window, { x, y }.
  constructor(host, { onHover, onPoint, onSelect, onOpen, describe }) {
    this.host = host;
    Object.assign(this, { onHover, onPoint, onSelect, onOpen, describe });
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label",
      "Flame graph. Arrow keys move, Enter zooms, F opens the function, Escape zooms out.");
    host.append(this.canvas);
    this.context = this.canvas.getContext("2d");
    this.zoomed = 0;
    this.focused = -1;
    this.hovered = -1;
    this.rows = [];
    this.bind();
    new ResizeObserver(() => this.draw()).observe(host);
  }

  bind() {
    const { canvas } = this;
    canvas.addEventListener("pointermove", (event) => this.hover(this.hit(event), { x: event.clientX, y: event.clientY }));
    canvas.addEventListener("pointerleave", (event) => this.hover(-1, { x: event.clientX, y: event.clientY }));
    canvas.addEventListener("click", (event) => {
      const node = this.hit(event);
      if (node < 0) return;
      this.focused = node;
      this.zoom(node);
      this.onSelect(node);
    });
    canvas.addEventListener("dblclick", (event) => {
      const node = this.hit(event);
      if (node > 0) this.onOpen(node);
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.draw());
  }

  // VALUES: the value of each node, shown as the width of its box. LOOK: { name(key), colour(node),
  // label(node), matches }; key is the number of a function; matches is a Uint8Array with a flag for each
  // key, or null if there is no search.
  show(tree, values, look) {
    if (this.tree !== tree) this.zoomed = this.focused = this.hovered = 0;
    Object.assign(this, { tree, values, look });
    this.draw();
  }

  zoom(node) {
    this.zoomed = node;
    this.draw();
  }

  hover(node, at) {
    this.onPoint(node, at);
    if (node === this.hovered) return;
    this.hovered = node;
    this.onHover(node);
    this.canvas.style.cursor = node >= 0 ? "pointer" : "default";
    this.draw();
  }

  hit(event) {
    const row = this.rows[Math.floor(event.offsetY / ROW)];
    if (!row) return -1;
    let low = 0;
    let high = row.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const box = row[middle];
      if (event.offsetX < box.x) high = middle - 1;
      else if (event.offsetX >= box.x + box.width) low = middle + 1;
      else return box.node;
    }
    return -1;
  }

  key(event) {
    const { tree } = this;
    if (!tree || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = Math.max(this.focused, 0);
    const row = this.rows.find((boxes) => boxes.some((box) => box.node === at)) ?? [];
    const index = row.findIndex((box) => box.node === at);
    let next = -1;
    if (event.key === "ArrowUp") next = tree.parent[at];
    else if (event.key === "ArrowDown") next = this.widestChild(at);
    else if (event.key === "ArrowLeft") next = row[index - 1]?.node ?? at;
    else if (event.key === "ArrowRight") next = row[index + 1]?.node ?? at;
    else if (event.key === "Enter") this.zoom(at);
    else if (event.key === "f" || event.key === "F") this.onOpen(at);
    else if (event.key === "Escape" && this.zoomed !== 0) this.zoom(0);
    else return;
    event.preventDefault();
    event.stopPropagation();
    if (next >= 0) {
      this.focused = next;
      this.onHover(next);
    }
    if (event.key === "Enter" || event.key === "Escape") this.onSelect(this.zoomed);
    this.draw();
  }

  widestChild(node) {
    const { firstChild, child } = this.tree;
    let best = node;
    for (let i = firstChild[node]; i < firstChild[node + 1]; i++) {
      if (best === node || this.values[child[i]] > this.values[best]) best = child[i];
    }
    return this.values[best] > 0 ? best : node;
  }

  // Lays out rows of boxes: the path from the root to the zoomed node, then everything below that node.
  layout(width) {
    const { tree, values } = this;
    const rows = tree.path(this.zoomed).map((node) => [{ node, x: 0, width }]);
    rows.unshift([{ node: 0, x: 0, width }]);
    let level = rows[rows.length - 1];
    const scale = values[this.zoomed] > 0 ? width / values[this.zoomed] : 0;
    while (level.length > 0) {
      const below = [];
      for (const box of level) {
        let { x } = box;
        for (let i = tree.firstChild[box.node]; i < tree.firstChild[box.node + 1]; i++) {
          const node = tree.child[i];
          const boxWidth = values[node] * scale;
          if (boxWidth >= LEAST_WIDTH) below.push({ node, x, width: boxWidth });
          x += Math.max(0, boxWidth);
        }
      }
      if (below.length > 0) rows.push(below);
      level = below;
    }
    this.rows = rows;
  }

  draw() {
    if (!this.tree || this.host.clientWidth === 0) return;
    const width = this.host.clientWidth;
    this.layout(width);
    const ratio = window.devicePixelRatio || 1;
    const height = this.rows.length * ROW + 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.readStyle();
    this.rows.forEach((row, index) => row.forEach((box) => this.drawBox(box, index)));
  }

  readStyle() {
    const style = getComputedStyle(this.host);
    const value = (name) => style.getPropertyValue(name).trim();
    this.style = {
      ink: value("--flame-ink"),
      dimInk: value("--flame-dim-ink"),
      gap: value("--flame-gap"),
      focus: value("--accent"),
      dim: value("--flame-dim"),
      match: value("--match"),
    };
    this.context.font = `12px ${style.fontFamily}`;
    this.context.textBaseline = "middle";
    this.letter = this.context.measureText("abcdefghijklmnopqrstuvwxyz_:").width / 28;
  }

  drawBox(box, row) {
    const { context, look, style, tree } = this;
    const key = tree.key[box.node];
    const y = row * ROW;
    const isAbove = row < this.rows.length && this.isAboveZoom(box.node);
    const isMatch = look.matches ? look.matches[key] === 1 : false;
    const isDim = isAbove || (look.matches && !isMatch);
    context.fillStyle = isDim ? style.dim : look.colour(box.node);
    context.fillRect(box.x, y, Math.max(0.5, box.width - 1), ROW - 1);
    if (isMatch && box.width > 2) {
      context.fillStyle = style.match;
      context.fillRect(box.x, y + ROW - 4, Math.max(0.5, box.width - 1), 3);
    }
    if (box.node === this.hovered ||
        (box.node === this.focused && document.activeElement === this.canvas)) {
      context.strokeStyle = style.focus;
      context.lineWidth = 2;
      context.strokeRect(box.x + 1, y + 1, Math.max(1, box.width - 3), ROW - 3);
    }
    if (box.width >= TEXT_FROM) {
      context.fillStyle = isDim && !isMatch ? style.dimInk : style.ink;
      const text = this.fit(look.label ? look.label(box.node) : shortName(look.name(key)),
        box.width - 9);
      context.fillText(text, box.x + 5, y + ROW / 2 + 0.5);
    }
  }

  isAboveZoom(node) {
    if (node === this.zoomed) return false;
    for (let at = this.zoomed; at !== 0; at = this.tree.parent[at]) {
      if (this.tree.parent[at] === node) return true;
    }
    return false;
  }

  // Cuts the text at its end. The average width of a letter gives a first length, which is then measured.
  fit(text, width) {
    const room = Math.floor(width / this.letter);
    if (text.length <= room * 0.8 || this.context.measureText(text).width <= width) return text;
    let length = Math.min(text.length, room + 2);
    while (length > 1 && this.context.measureText(`${text.slice(0, length)}…`).width > width) {
      length--;
    }
    return length > 1 ? `${text.slice(0, length)}…` : "";
  }

  // The zoomed node and the nodes below it as indented text, for the clipboard: at most LIMIT lines. Nodes with less than 0.5 % are left out.
  text(limit = 200) {
    const lines = [];
    const walk = [[this.zoomed, 0]];
    while (walk.length > 0 && lines.length < limit) {
      const [node, depth] = walk.pop();
      lines.push("  ".repeat(Math.min(depth, 40)) + this.describe(node));
      const { firstChild, child } = this.tree;
      for (let i = firstChild[node + 1] - 1; i >= firstChild[node]; i--) {
        if (this.values[child[i]] >= this.values[this.zoomed] * 0.005) {
          walk.push([child[i], depth + 1]);
        }
      }
    }
    return lines.join("\n");
  }
}

// The bytes that the functions of each image (loaded file) allocated.
export function imageWeights({ groups, nodes, functionOf, functions }) {
  const weight = new Map();
  for (let i = 0; i < groups.count; i++) {
    const { image } = functions[functionOf[nodes.frame[groups.node[i]]]];
    weight.set(image, (weight.get(image) ?? 0) + groups.allocated_bytes[i]);
  }
  return weight;
}

// The color of each function: a shade of the hue of its image. There are eight hues, which color-blind readers can distinguish; the images that
// allocated most have different hues. Functions without a known image are grey.
export function imageColours(functions, weight, host) {
  const images = new Set([...weight.keys()].sort((a, b) => weight.get(b) - weight.get(a)));
  for (const { image } of functions) images.add(image);
  const ranks = new Map([...images].filter((image) => image !== "").map((image, i) => [image, i]));
  const style = getComputedStyle(host);
  const hues = [];
  for (let i = 0; i < 8; i++) hues.push(style.getPropertyValue(`--flame-${i}`).trim());
  const grey = style.getPropertyValue("--flame-other").trim();
  return functions.map(({ id, image, name }) =>
    (id === OTHER || image === "" ? grey : shade(hues[ranks.get(image) % 8], name)));
}

// Varies the brightness of a hue a little, depending on the name, so that functions of one image differ.
function shade(hue, name) {
  let hash = 0;
  for (let i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) | 0;
  const change = ((hash >>> 3) % 5) * 6 - 12;
  const channel = (at) => Math.max(0, Math.min(255, parseInt(hue.slice(at, at + 2), 16) + change));
  return `rgb(${channel(1)}, ${channel(3)}, ${channel(5)})`;
}
