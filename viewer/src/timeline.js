// timeline.js: the plot of memory over time. Dragging on it selects the range that all views show.
import uPlot from "uplot";
import { bytes, timeTicks, trim } from "./quantity.js";

const HEIGHT = 150;
const RESIDENT_AT_MOST = 5; // the curve of resident memory is hidden at first if it exceeds this multiple of the peak

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// The points of the curves. Each slice (one of up to 256 equal parts of the recording) has up to two points: at the time of its peak and
// at its end. The resident memory at a point is the last value known at that time.
function curve(facts) {
  const { slices, summary, timeline } = facts;
  const points = { ns: [0], rate: [null], inUse: [0], resident: [null] };
  let seen = 0;
  const add = (ns, inUse, rate) => {
    while (seen < timeline.time_ns.length && timeline.time_ns[seen] <= ns) seen++;
    points.ns.push(ns);
    points.inUse.push(inUse);
    points.rate.push(rate);
    points.resident.push(seen > 0 ? timeline.rss_bytes[seen - 1] || null : null);
  };
  for (let slice = 0; slice < slices.count; slice++) {
    const start = slice * slices.slice_ns;
    const end = Math.min(start + slices.slice_ns, summary.duration_ns);
    const rate = end > start ? slices.allocated_bytes[slice] / ((end - start) / 1e9) : 0;
    const peakNs = slices.peak_time_ns[slice];
    if (slice === 0) points.rate[0] = rate;
    if (peakNs > points.ns[points.ns.length - 1] && peakNs < end) {
      add(peakNs, slices.peak_bytes[slice], rate);
    }
    if (end > points.ns[points.ns.length - 1]) {
      add(end, slices.in_use_bytes[slice], rate);
    }
  }
  return points;
}

export class Timeline {
  // Calls onRange(fromSlice, toSlice, isDragging) for each selection.
  constructor(host, trace, onRange) {
    this.host = host;
    this.trace = trace;
    this.onRange = onRange;
    this.whole = curve(trace.facts);
    this.points = this.whole;
    this.chooseCurves();
    this.build();
    new ResizeObserver(() => this.plot.setSize({ width: host.clientWidth, height: HEIGHT }))
      .observe(host);
  }

  // The curves of the program's blocks and of resident memory have one scale. If the blocks are a small part of resident memory, the curve
  // of the blocks would be too flat to read. The curve of resident memory is then hidden until a click on its button in the legend.
  chooseCurves() {
    const { summary } = this.trace.facts;
    this.shows = { rate: true, in_use: true,
      resident: summary.rss_peak_bytes <= RESIDENT_AT_MOST * summary.peak_bytes };
    for (const button of document.querySelectorAll("[data-curve]")) {
      const { curve } = button.dataset;
      button.setAttribute("aria-pressed", String(this.shows[curve]));
      button.addEventListener("click", () => {
        this.shows[curve] = !this.shows[curve];
        button.setAttribute("aria-pressed", String(this.shows[curve]));
        this.build();
      });
    }
  }

  // Shows the curves of POINTS, or those of the whole page if POINTS is null.
  showPoints(points) {
    if (this.points === (points ?? this.whole)) return;
    this.points = points ?? this.whole;
    this.build();
  }

  // The highest moment: { ns, bytes, text }. The peak of several processes is a sum of values at different moments, so the highest point of the
  // curve is shown for them.
  highest() {
    const { facts, isMerged } = this.trace;
    const { peak_time_ns: ns, peak_bytes: peak } = facts.summary;
    if (!isMerged) return { ns, bytes: peak, text: `peak ${bytes(peak)}` };
    const { ns: times, inUse } = this.points;
    const best = inUse.reduce((at, value, i) => (value > inUse[at] ? i : at), 0);
    return { ns: times[best], bytes: inUse[best], text: `${this.points === this.whole ? "together at most" : "peak"} ${bytes(inUse[best])}` };
  }

  data() {
    const { ns, rate, inUse, resident } = this.points;
    return [ns.map((moment) => moment / 1e9), rate, inUse, resident];
  }

  build() {
    this.plot?.destroy();
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 },
      ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const series = (label, scale, stroke, more) =>
      ({ label, scale, show: this.shows[label], stroke: colour(stroke), points: { show: false },
        ...more });
    this.plot = new uPlot({
      width: this.host.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false }, y: false },
      scales: {
        x: { time: false, range: () => [0, this.trace.facts.summary.duration_ns / 1e9 || 1] },
        bytes: { range: (_, __, max) => [0, (max || 1) * 1.12] },
        rate: { range: (_, __, max) => [0, (max || 1) * 2.5] }, // the rate stays in the lower part of the plot
      },
      axes: [
        { ...axis, values: (_, ticks) => timeTicks(ticks.map((s) => s * 1e9)), size: 24 },
        { ...axis, scale: "bytes", size: 72, values: (_, ticks) => ticks.map((b) => trim(bytes(b))),
          incrs: [...Array(45).keys()].map((i) => 2 ** i) },
        { ...axis, scale: "rate", side: 1, size: 84, grid: { show: false },
          values: (_, ticks) => ticks.map((b) => `${trim(bytes(b))}/s`),
          incrs: [...Array(45).keys()].map((i) => 2 ** i) },
      ],
      series: [
        {},
        series("rate", "rate", "--curve-rate",
          { width: 1, fill: colour("--curve-rate-fill"), paths: uPlot.paths.stepped({ align: -1 }) }),
        series("in_use", "bytes", "--curve-in-use", { fill: colour("--curve-fill"), width: 1.5 }),
        series("resident", "bytes", "--curve-resident", { dash: [5, 4], width: 1.25 }),
      ],
      hooks: {
        setSelect: [() => this.selected(false)],
        setCursor: [() => this.reportPoint()],
        draw: [() => this.drawPeak()],
      },
    }, this.data(), this.host);
    this.plot.over.addEventListener("pointermove", (event) => {
      if (event.buttons !== 1 || this.isAwaited) return;
      this.isAwaited = true;
      requestAnimationFrame(() => { // at most once in a frame, however often the pointer moves
        this.isAwaited = false;
        this.selected(true);
      });
    });
    this.plot.over.addEventListener("dblclick", () => this.reset());
    this.showRange();
  }

  // Draws a mark for the peak.
  drawPeak() {
    const { ctx, bbox } = this.plot;
    const { ns, bytes: peak, text } = this.highest();
    const ratio = window.devicePixelRatio || 1;
    const x = this.plot.valToPos(ns / 1e9, "x", true);
    const y = this.plot.valToPos(peak, "bytes", true);
    ctx.save();
    ctx.fillStyle = colour("--ink");
    ctx.beginPath();
    ctx.arc(x, y, 3.5 * ratio, 0, 7);
    ctx.fill();
    ctx.font = `600 ${12 * ratio}px system-ui, sans-serif`;
    const isRight = x + ctx.measureText(text).width + 12 * ratio < bbox.left + bbox.width;
    ctx.textAlign = isRight ? "left" : "right";
    ctx.textBaseline = "middle";
    const textX = x + (isRight ? 8 : -8) * ratio;
    const textY = Math.max(y - 10 * ratio, bbox.top + 8 * ratio);
    ctx.strokeStyle = colour("--card"); // a halo, so that the text is readable in front of the curves
    ctx.lineWidth = 4 * ratio;
    ctx.lineJoin = "round";
    ctx.strokeText(text, textX, textY);
    ctx.fillText(text, textX, textY);
    ctx.restore();
  }

  sliceAt(pixels) {
    const { slice_ns: sliceNs, count } = this.trace.facts.slices;
    const slice = Math.round((this.plot.posToVal(pixels, "x") * 1e9) / sliceNs);
    return Math.max(0, Math.min(count, slice));
  }

  selected(isDragging) {
    if (this.isShowing) return;
    const { left, width } = this.plot.select;
    if (width < 3) return;
    const from = this.sliceAt(left);
    const to = Math.max(from + 1, this.sliceAt(left + width));
    this.range = [Math.min(from, to - 1), to];
    this.onRange(this.range[0], this.range[1], isDragging);
    if (!isDragging) this.showRange();
  }

  // Passes the numbers under the pointer to onPoint.
  reportPoint() {
    const { idx } = this.plot.cursor;
    if (!this.onPoint) return;
    this.onPoint(idx == null || this.plot.cursor.left < 0 ? null : {
      timeNs: this.points.ns[idx],
      inUse: this.points.inUse[idx],
      resident: this.points.resident[idx],
      rate: this.points.rate[idx],
    });
  }

  reset() {
    this.onRange(0, this.trace.facts.slices.count, false);
  }

  setRange(from, to) {
    this.range = [from, to];
    this.showRange();
  }

  showRange() {
    const { slice_ns: sliceNs, count } = this.trace.facts.slices;
    const [from, to] = this.range ?? [0, count];
    const isWhole = from === 0 && to === count;
    const left = this.plot.valToPos((from * sliceNs) / 1e9, "x");
    const end = Math.min((to * sliceNs) / 1e9, this.trace.facts.summary.duration_ns / 1e9);
    const right = this.plot.valToPos(end, "x");
    this.isShowing = true;
    this.plot.setSelect(isWhole ? { left: 0, width: 0, top: 0, height: 0 }
      : { left, width: right - left, top: 0, height: this.plot.over.clientHeight }, false);
    this.isShowing = false;
  }
}
