// trace.js: reads the tables of the HTML file, which are compressed and in <script> elements, into typed arrays. A
// table is read when it is first needed. src/page/page_tables.c specifies each table. Numbers are LEB128;
// signed numbers are zigzag-encoded.
import { Pauses } from "./pause.js";

import { processesOf, readProcesses } from "./processes.js";

const METRICS = [
  "allocated_blocks", "allocated_bytes", "freed_blocks", "freed_bytes", "in_use_blocks",
  "in_use_bytes", "peak_blocks", "peak_bytes", "temporary_blocks",
];
const FIELDS = [
  "allocated_blocks", "allocated_bytes", "freed_blocks", "freed_bytes", "temporary_blocks",
  "rise_blocks", "rise_bytes",
];
// Control characters, and characters that change the direction of text, as in src/text/utf8.c.
const CONTROLS =
  /[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
// A group is the blocks of one process that have the same call path, allocation function ("via"), blamed line, type and label. The blamed line
// is the frame to which findings and tables attribute the blocks; src/model/answers/blamed_lines.c chooses it for the reports and for this
// page. The label of a group is 0 for no label, 1 for the sum of all labels that are too small to be listed, otherwise the index of the
// label's name + 2.
const OTHER_LABELS = 1;
const FIRST_LABEL = 2;
const AT_ONCE = 1 << 15; // numbers that are decoded between two pauses: half a millisecond
const INFLATED_AT_ONCE = 1 << 15; // compressed bytes that are decompressed between two pauses: some milliseconds
const NO_SUCH_LABEL = 2 ** 40;
// The owner of the code of a function, as a number: 0: a library, or the runtime of a language; 1: unknown; 2: the profiled program itself, whose
// code the reader of the page can change.
export const LIBRARY = 0;
// The numbers of two entries of Trace.functions that are not functions of the program: the root of all stacks, and the sum of small stacks.
export const ROOT = 0;
export const OTHER = 1;

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  number() {
    const { bytes } = this;
    let byte = bytes[this.at++];
    if (byte < 128) return byte;
    let value = byte & 127;
    let scale = 128;
    do {
      byte = bytes[this.at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127);
    return value;
  }

  signed() {
    const zigzag = this.number();
    return zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
  }

  numbers(list) {
    for (let i = 0; i < list.length; i++) list[i] = this.number();
    return list;
  }

  signeds(list) {
    for (let i = 0; i < list.length; i++) list[i] = this.signed();
    return list;
  }
}

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function inflate(element) {
  const bytes = bytesOf(element.textContent);
  const { readable, writable } = new DecompressionStream("deflate");
  const writer = writable.getWriter();
  const pauses = new Pauses();
  const write = async () => {
    for (let i = 0; i < bytes.length; i += INFLATED_AT_ONCE) {
      await writer.write(bytes.subarray(i, i + INFLATED_AT_ONCE));
      await pauses.next();
    }
    await writer.close();
  };
  const [inflated] = await Promise.all([new Response(readable).arrayBuffer(), write()]);
  return new Reader(new Uint8Array(inflated));
}

export class Trace {
  constructor(number) {
    this.number = number;
    this.facts = JSON.parse(this.element("facts").textContent, (_, value) =>
      (typeof value === "string" ? value.replace(/[\t\n]+/g, " ").replace(CONTROLS, "\ufffd")
        : value));
    this.loads = {};
    this.isFolded = true; // whether stacks are shown without frames of wrappers and libraries
    this.hasCalls = this.element("calls") !== null;
    this.processes = processesOf(this.facts);
  }

  // Whether the page is about several traces, whose processes are `processes`.
  get isMerged() {
    return this.processes.length > 0;
  }

  get isSampled() {
    return this.facts.mode === "sample";
  }

  static isThere(number) {
    return document.getElementById(`b${number}-facts`) !== null;
  }

  element(id) {
    return document.getElementById(`b${this.number}-${id}`);
  }

  // Decodes a table when it is first needed, and keeps the result.
  part(id, decode) {
    this.loads[id] ??= inflate(this.element(id)).then((reader) => {
      this.element(id).remove(); // its text is not needed any more
      return decode(reader);
    });
    return this.loads[id];
  }

  // Loads the tables that every view needs.
  async loadTables() {
    const [names, frames, nodes, groups] = await Promise.all([
      this.part("names", readNames),
      this.part("frames", readFrames),
      this.part("nodes", readNodes),
      this.part("groups", (reader) => readGroups(reader, this.isSampled)),
    ]);
    Object.assign(this, { names, frames, nodes, groups });
    this.totals = this.element("totals") && await this.part("totals", readTotals);
    this.nameFunctions();
    this.canFold = nodes.isLeftOut.some((flag) => flag > 0) ||
      groups.start.some((start, i) => start !== groups.node[i]);
    this.hasCollected = groups.isCollected.some((flag) => flag > 0);
    this.hasTypes = groups.type.some((type) => type > 0);
    this.hasLabels = groups.label.some((label) => label > 0);
    this.labels = [...new Set(groups.label)];
  }

  async loadHistory() {
    this.history ??= await this.part("history", (reader) =>
      readHistory(reader, this.facts.slices.count));
    this.leaks ??= await this.part("leaks", readLeaks);
    await this.loadLives();
    return this.history;
  }

  // What each process of a merged trace had in use in each slice.
  async loadLives() {
    if (this.isMerged) this.lives ??= await this.part("processes", (reader) => readProcesses(reader, this.processes.length));
    return this.lives;
  }

  async loadCounts() {
    const { count, orders } = this.facts.slices;
    this.counts ??= await this.part("counts", (reader) => ({
      sizes: readCounts(reader, count * orders),
      lifetimes: readCounts(reader, count * orders),
      groupSizes: readSparse(reader),
      groupLifetimes: readSparse(reader),
    }));
    return this.counts;
  }

  async loadThreads() {
    this.threads ??= await this.part("threads", (reader) =>
      readThreads(reader, this.facts.slices.count));
    return this.threads;
  }

  async loadCalls() {
    this.calls ??= await this.part("calls", readCalls);
    return this.calls;
  }

  async loadPaths() {
    this.paths ??= await this.part("paths", readPaths);
    return this.paths;
  }

  get hasBlocks() {
    return this.facts.summary.allocated_blocks > 0;
  }

  // Numbers the functions. Two frames are of one function if they have the same name and image (loaded file).
  // Function 0 is the root, function 1 stands for all frames of small stacks that the page leaves out.
  nameFunctions() {
    const { frames, names } = this;
    const known = new Map();
    this.functions = [
      { id: ROOT, name: "all", image: "", file: "", line: 0, isKnown: true, owner: LIBRARY },
      { id: OTHER, name: "other", image: "", file: "", line: 0, isKnown: true, owner: LIBRARY },
    ];
    this.functionOf = new Int32Array(frames.count + 2);
    this.functionOf[OTHER] = OTHER;
    for (let i = 0; i < frames.count; i++) {
      const key = frames.name[i] * 65536 * 64 + frames.image[i];
      let id = known.get(key);
      if (id === undefined) {
        id = this.functions.length;
        known.set(key, id);
        this.functions.push({
          id,
          name: names[frames.name[i]],
          image: names[frames.image[i]],
          file: names[frames.file[i]],
          line: frames.line[i],
          isKnown: (frames.flags[i] & 2) !== 0,
          owner: frames.flags[i] >> 2,
        });
      }
      this.functionOf[i + 2] = id;
    }
  }

  // "parse.c:118", or "parse.ml:118:4-20" if the columns are known, or "" if the place is unknown.
  placeOf(frame) {
    if (frame < 2) return "";
    const file = this.names[this.frames.file[frame - 2]];
    const line = this.frames.line[frame - 2];
    const endColumn = this.frames.endColumn[frame - 2];
    const columns = endColumn > 0 ? `:${this.frames.column[frame - 2]}-${endColumn}` : "";
    return file === "" ? "" : baseName(file) + (line > 0 ? `:${line}${columns}` : "");
  }

  // The frames of the stacks of a group, innermost first. A folded stack begins at the program's own line and has no frames of wrappers
  // and libraries. src/model/answers/blamed_lines.c decides which frames these are. If the page does not have the path to that line, the line is
  // shown as called by the node "other".
  framesOf(group, isFolded = this.isFolded) {
    const { nodes, groups } = this;
    const frames = [];
    let node = isFolded ? groups.start[group] : groups.node[group];
    if (isFolded && node === 0 && groups.node[group] !== 0) {
      frames.push(groups.line[group]);
      node = nodes.parent[groups.node[group]];
    }
    for (; node !== 0; node = nodes.parent[node]) {
      if (!isFolded || nodes.isLeftOut[node] === 0) frames.push(nodes.frame[node]);
    }
    return frames;
  }

  labelName(label) {
    return label === 0 ? "(no label)" : label === OTHER_LABELS ? "(other labels)"
      : this.names[label - FIRST_LABEL] || "(unnamed)";
  }

  // The label of this trace whose name is the same as that of LABEL in TRACE; NO_SUCH_LABEL if no label has
  // this name.
  labelLike(trace, label) {
    if (label < FIRST_LABEL) return label;
    return this.labels.find((own) => own >= FIRST_LABEL &&
      this.labelName(own) === trace.labelName(label)) ?? NO_SUCH_LABEL;
  }

  // The command of the process; of several processes: that of the first one in the tree.
  get command() {
    const { command, exe } = this.processes.find((process) => process?.order === 0)?.facts ?? this.facts;
    return command.length > 0 ? command.join(" ") : exe;
  }
}

export function baseName(path) {
  return path.slice(path.lastIndexOf("/") + 1);
}

function readNames(reader) {
  const lengths = reader.numbers(new Uint32Array(reader.number()));
  const decoder = new TextDecoder();
  const names = new Array(lengths.length);
  let { at } = reader;
  for (let i = 0; i < lengths.length; i++) {
    names[i] = decoder.decode(reader.bytes.subarray(at, at + lengths[i]));
    at += lengths[i];
  }
  return names;
}

function readFrames(reader) {
  const count = reader.number();
  const frames = { count };
  for (const column of ["name", "file", "line", "image", "column", "endColumn", "flags"]) {
    frames[column] = reader.numbers(new Uint32Array(count));
  }
  return frames;
}

function readNodes(reader) {
  const count = reader.number();
  const parent = reader.numbers(new Int32Array(count));
  for (let i = 0; i < count; i++) parent[i] = i - parent[i];
  return { count, parent, frame: reader.numbers(new Int32Array(count)), isLeftOut: reader.numbers(new Uint8Array(count)) };
}

const floats = new DataView(new ArrayBuffer(4));

function floatOf(bits) {
  floats.setUint32(0, bits);
  return floats.getFloat32(0);
}

function readGroups(reader, isSampled) {
  const count = reader.number();
  const node = reader.signeds(new Int32Array(count));
  for (let i = 1; i < count; i++) node[i] += node[i - 1];
  const line = reader.numbers(new Uint32Array(count));
  const start = reader.numbers(new Int32Array(count)); // the node at which the folded stack begins; 0: see framesOf
  for (let i = 0; i < count; i++) start[i] = node[i] - start[i];
  const flags = reader.numbers(new Uint8Array(count));
  const isKnown = flags.map((flag) => flag & 1); // the C or C++ runtime keeps the blocks until the end
  const isCollected = flags.map((flag) => flag & 2); // a garbage collector frees the blocks
  const groups = { count, node, line, start, isKnown, isCollected, via: reader.numbers(new Uint32Array(count)),
    type: reader.numbers(new Uint32Array(count)), label: reader.numbers(new Uint32Array(count)),
    process: reader.numbers(new Uint32Array(count)) };
  for (const metric of METRICS) groups[metric] = reader.numbers(new Float64Array(count));
  if (isSampled) {
    groups.variance = {};
    for (const metric of METRICS) {
      groups.variance[metric] = reader.numbers(new Float64Array(count)).map(floatOf);
    }
    groups.heaviest = reader.numbers(new Float64Array(count)).map(floatOf);
    groups.portion = reader.numbers(new Float64Array(count)).map(floatOf);
  }
  return groups;
}

// Reads the totals of functions, lines and images, of whole stacks ("none") and of folded stacks ("auto"). Frames have the same numbers as in
// the groups.
function readTotals(reader) {
  const totals = {};
  for (const fold of ["none", "auto"]) {
    totals[fold] = {};
    for (const by of ["function", "line", "image"]) {
      const count = reader.number();
      const frame = reader.signeds(new Int32Array(count));
      for (let i = 1; i < count; i++) frame[i] += frame[i - 1];
      const table = { frame: frame.map((number) => number + 2) };
      for (const metric of METRICS) table[metric] = reader.numbers(new Float64Array(count));
      totals[fold][by] = table;
    }
  }
  return totals;
}

// The history is the largest block: up to a million entries. It is read in slices, while the page can already be used.
async function readHistory(reader, sliceCount) {
  const pauses = new Pauses();
  const column = async (list, read) => {
    for (let i = 0; i < list.length; i += AT_ONCE) {
      read.call(reader, list.subarray(i, i + AT_ONCE));
      await pauses.next();
    }
    return list;
  };
  const first = new Uint32Array(sliceCount + 1);
  for (let i = 0; i < sliceCount; i++) first[i + 1] = first[i] + reader.number();
  const count = first[sliceCount];
  const group = await column(new Uint32Array(count), reader.numbers);
  for (let slice = 0; slice < sliceCount; slice++) {
    for (let i = first[slice] + 1; i < first[slice + 1]; i++) group[i] += group[i - 1];
  }
  const history = { first, group };
  for (const field of FIELDS) history[field] = await column(new Float64Array(count), reader.signeds);
  return history;
}

function readLeaks(reader) {
  const count = reader.number();
  const leaks = {
    count,
    slice: new Uint32Array(count),
    group: new Uint32Array(count),
    blocks: new Float64Array(count),
    bytes: new Float64Array(count),
  };
  let slice = 0;
  for (let i = 0; i < count; i++) {
    slice += reader.number();
    leaks.slice[i] = slice;
    leaks.group[i] = reader.number();
    leaks.blocks[i] = reader.number();
    leaks.bytes[i] = reader.number();
  }
  return leaks;
}

function readCounts(reader, length) {
  const counts = { blocks: new Float64Array(length), bytes: new Float64Array(length) };
  let at = 0;
  for (let left = reader.number(); left > 0; left--) {
    at += reader.number();
    counts.blocks[at] = reader.number();
    counts.bytes[at] = reader.number();
  }
  return counts;
}

function readSparse(reader) {
  const count = reader.number();
  const place = new Float64Array(count);
  const blocks = new Float64Array(count);
  let at = 0;
  for (let i = 0; i < count; i++) {
    at += reader.number();
    place[i] = at;
    blocks[i] = reader.number();
  }
  return { place, blocks };
}

// Reads function counters: the counts of each function, and of each pair of caller and callee. Functions are
// numbered from 1; 0 means no counted function.
function readCalls(reader) {
  const columns = (names, count) => Object.fromEntries(names.map((name) =>
    [name, reader.numbers(new Float64Array(count))]));
  const count = reader.number();
  const functions = columns(["name", "runtime", "calls", "words", "ns", "accWords", "accNs"], count);
  const edges = columns(["callee", "caller", "calls", "words", "ns", "accWords", "accNs"],
    reader.number());
  for (let i = 1; i < edges.callee.length; i++) edges.callee[i] += edges.callee[i - 1];
  return { count, functions, edges };
}

// Reads the call paths of function counters. Paths are numbered from 1. Column "parent" is the path of the
// caller, or 0 for none. Column "call" is the number of the function as in readCalls, or 0 for the sum of
// small paths.
function readPaths(reader) {
  const count = reader.number();
  const paths = { count };
  for (const column of ["parent", "call", "calls", "words", "ns"]) {
    paths[column] = reader.numbers(new Float64Array(count));
  }
  for (let i = 0; i < count; i++) paths.parent[i] = i + 1 - paths.parent[i];
  return paths;
}

function readThreads(reader, sliceCount) {
  const count = reader.number();
  const threads = [];
  for (let i = 0; i < count; i++) threads.push({ name: reader.number(), id: reader.number() });
  const rows = reader.numbers(new Float64Array(sliceCount * count * 4));
  const pairs = reader.numbers(new Float64Array(reader.number() * 5));
  return { count, threads, rows, pairs };
}
