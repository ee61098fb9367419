// readers.mjs WHICH FILE...: reads an export with the code of a tool made for its format, and prints the tool's result as JSON. The
// tools are web pages and browser libraries. This script defines the objects of a browser that the tools use, so they run under Node.
//
//     pprof FILE                npm package pprof-format (from the folder in the environment variable READERS)
//     speedscope FILE...        the importers of npm package speedscope, for all formats that they read; prints a list
//     dhat FILE DH_VIEW_JS      valgrind's own viewer
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import zlib from 'node:zlib';
import { createRequire } from 'node:module';

const [which, ...files] = process.argv.slice(2);
const [file, more] = files;
const modules = createRequire(path.resolve(process.env.READERS, 'package.json'));

function readPprof() {
  const { Profile } = modules('pprof-format');
  const profile = Profile.decode(zlib.gunzipSync(fs.readFileSync(file)));
  const strings = profile.stringTable.strings;
  const text = (index) => strings[Number(index)];
  const types = profile.sampleType.map((type) => text(type.type));
  const units = profile.sampleType.map((type) => text(type.unit));
  const totals = types.map((_, i) => profile.sample.reduce((sum, sample) => sum + BigInt(sample.value[i]), 0n));
  const labels = new Set();
  const locations = new Set(profile.location.map((location) => BigInt(location.id)));
  for (const sample of profile.sample) {
    for (const id of sample.locationId) {
      if (!locations.has(BigInt(id))) throw new Error(`a sample names location ${id}, which the file does not define`);
    }
    for (const label of sample.label) labels.add(`${text(label.key)}=${text(label.str)}`);
  }
  return {
    types, units, totals: totals.map(String), labels: [...labels].sort(), empty: strings[0],
    default: text(profile.defaultSampleType),
    mappings: profile.mapping.map((mapping) => ({ file: text(mapping.filename), build_id: text(mapping.buildId) })),
    functions: profile.function.map((known) => text(known.name)),
  };
}

// Stands for the objects of a browser that a page uses while it starts. Every property exists, and every call does nothing.
function nothing() {
  const target = () => undefined;
  const proxy = new Proxy(target, {
    get: (_, key) => key === Symbol.toPrimitive ? () => '' : key === 'then' ? undefined : proxy,
    set: () => true,
    apply: () => proxy,
    construct: () => proxy,
  });
  return proxy;
}

async function readSpeedscope() {
  const folder = path.join(path.dirname(modules.resolve('speedscope/package.json')), 'dist/release');
  const script = fs.readdirSync(folder).find((name) => /^speedscope.*\.js$/.test(name));
  const source = fs.readFileSync(path.join(folder, script), 'utf8');
  // Finds the function of the page that loads a file (`door`), and the place in the code after which the page draws.
  const door = /loadFileFromBase64:\((\w+),(\w+)\)=>\{this\.loadProfile\(\(\)=>([\w$]+)\(\1,\2\)\)\}/.exec(source);
  const drawing = source.lastIndexOf('console.log(`speedscope v');
  if (!door || drawing < 0) throw new Error('the code of this release of speedscope has another form');
  const browser = {
    window: nothing(), document: nothing(), navigator: { userAgent: '', platform: '' }, location: { hash: '', protocol: 'file:' },
    console: { ...console, log: () => {} }, TextDecoder, TextEncoder, URL, Uint8Array, ArrayBuffer, DataView, Promise, setTimeout,
    clearTimeout, performance, atob, btoa, requestAnimationFrame: () => 0, matchMedia: nothing(), localStorage: nothing(),
    WebAssembly, Blob, Worker: nothing(), Image: nothing(), HTMLElement: class {}, FileReader: nothing(), fetch: nothing(),
  };
  browser.self = browser;
  browser.globalThis = browser;
  vm.runInNewContext(`${source.slice(0, drawing)}globalThis.importFile=${door[3]};return;${source.slice(drawing)}`, browser);
  const seen = [];
  for (const name of files) {
    const group = await browser.importFile(path.basename(name), fs.readFileSync(name).toString('base64'));
    if (!group) throw new Error(`speedscope does not recognize the format of ${name}`);
    seen.push(group.profiles.map((each) => {
      const profile = each.getProfile ? each.getProfile() : each;
      const frames = [];
      profile.forEachFrame((frame) => frames.push(frame.name));
      return { name: profile.getName(), unit: profile.getWeightUnit(), total: profile.getTotalWeight(), frames };
    }));
  }
  return seen;
}

// Makes an object that stands for the document of a page; its elements keep the elements that are added to them.
function makeDocument() {
  class Element {
    constructor(tag) {
      Object.assign(this, { tag, childNodes: [], text: '', classList: { add() {}, remove() {}, contains: () => false } });
    }
    appendChild(child) { this.childNodes.push(child); child.parentNode = this; return child; }
    replaceChild(child, old) { this.childNodes[this.childNodes.indexOf(old)] = child; child.parentNode = this; }
    cloneNode() { return new Element(this.tag); }
    get firstChild() { return this.childNodes[0]; }
    get lastChild() { return this.childNodes[this.childNodes.length - 1]; }
    get selectedIndex() { return Math.max(0, this.childNodes.findIndex((child) => child.selected)); }
    set textContent(text) { this.childNodes = []; this.text = text; }
    get textContent() { return this.text + this.childNodes.map((child) => child.textContent).join(''); }
  }
  const text = (content) => Object.assign(new Element('#text'), { text: content });
  return { body: new Element('body'), location: { search: '' }, title: '', createElement: (tag) => new Element(tag), createTextNode: text };
}

function readDhat() {
  const document = makeDocument();
  const page = { document, performance, URLSearchParams, Intl, console };
  const trailer = `
    onLoad(); gFilename = 'export'; gData = JSON.parse(data); buildTree(); displayTree(0, 0, 0);
    ({tb: gRoot._totalBytes, tbk: gRoot._totalBlocks, tl: gRoot._totalLifetimes, gb: gRoot._atTGmaxBytes,
      gbk: gRoot._atTGmaxBlocks, eb: gRoot._atTEndBytes, ebk: gRoot._atTEndBlocks})`;
  page.data = fs.readFileSync(file, 'utf8');
  const sums = vm.runInNewContext(fs.readFileSync(more, 'utf8') + trailer, page);
  return { sums, shown: document.body.textContent };
}

const readers = { pprof: readPprof, speedscope: readSpeedscope, dhat: readDhat };
console.log(JSON.stringify(await readers[which](), (_, value) => (typeof value === 'bigint' ? String(value) : value)));
