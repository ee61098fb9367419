// pause.js: cuts long work into slices, between which the page is drawn and answers clicks.
const SLICE_MS = 15;

export class Pauses {
  constructor() {
    this.end = performance.now() + SLICE_MS;
  }

  // Awaited between parts of the work that take at most a few milliseconds each.
  async next() {
    if (performance.now() < this.end) return;
    await new Promise((resolve) => setTimeout(resolve, 0));
    this.end = performance.now() + SLICE_MS;
  }
}
