// page_opening.mjs PACKAGES PAGE.html: measures in headless Chromium how soon a page of `allogram view` can be used, and how fast it answers.
// Prints JSON, in milliseconds; if there is no Chromium, {} and a reason on standard error.
//
//     drawn          from the request of the page until its numbers, its curve and its flame graph are on the screen
//     usable         from the request until a click on the flame graph is answered on the screen. The click is made as soon as the page is drawn
//     slowest_click  the longest time from a click on a tab, or on a choice of the flame graph, until its result is on the screen
//     slowest_frame  the longest time between two frames while a range of the curve is selected with the mouse
//     slowest_move   the longest time that the page's script takes to move the range
//
// PACKAGES is the folder that contains node_modules with playwright-core.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";

const MOVES = 32;
const FRAMES_TO_PAINT = 2; // what a frame's callback has changed is on the screen when the next frame begins

const [, , packages, file] = process.argv;
const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find(existsSync);
if (!executablePath || !existsSync(`${packages}/node_modules/playwright-core`)) {
  console.error("page_opening: no Chromium, or the page's npm packages are not here");
  console.log("{}");
  process.exit(0);
}
const { chromium } = createRequire(`${packages}/`)("playwright-core");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });

// Frame times, from the first frame of the page on.
await page.addInitScript(() => {
  window.frameTimes = [];
  const note = (time) => {
    window.frameTimes.push(time);
    requestAnimationFrame(note);
  };
  requestAnimationFrame(note);
});
const painted = () => page.evaluate((frames) => new Promise((resolve) => {
  const wait = (left) => (left === 0 ? resolve() : requestAnimationFrame(() => wait(left - 1)));
  wait(frames);
}), FRAMES_TO_PAINT);
// The longest time between two frames since the frame with the number FIRST.
const longestSince = (first) => page.evaluate((from) => {
  const times = window.frameTimes.slice(from);
  return Math.max(0, ...times.slice(1).map((time, i) => time - times[i]));
}, first);
const framesSoFar = () => page.evaluate(() => window.frameTimes.length);

// The time from a click on an element until the element RESULT exists and the page is painted.
const clickTime = (selector, result = "body") => page.evaluate(async ([element, wanted, frames]) => {
  const begin = performance.now();
  const frame = () => new Promise(requestAnimationFrame);
  document.querySelector(element).click();
  while (!document.querySelector(wanted)) await frame();
  for (let i = 0; i < frames; i++) await frame();
  return performance.now() - begin;
}, [selector, result, FRAMES_TO_PAINT]);

const start = performance.now();
await page.goto(`file://${file}`, { waitUntil: "commit" });
await page.waitForSelector("body[data-ready]");
await painted();
const drawn = performance.now() - start;

const canvas = await page.locator("#flame-canvas canvas").boundingBox();
await page.mouse.click(canvas.x + canvas.width / 10, canvas.y + 30); // the second row has the outermost functions, the heaviest first
await page.waitForFunction(() => location.hash.includes("zoom="));
await painted();
const usable = performance.now() - start;
await page.keyboard.press("Escape");

// Selects a range with the mouse, and moves its end back and forth.
async function drag() {
  const box = await page.locator("#timeline .u-over").boundingBox();
  const y = box.y + box.height / 2;
  const first = await framesSoFar();
  await page.mouse.move(box.x + box.width * 0.2, y);
  await page.mouse.down();
  for (let i = 1; i <= MOVES; i++) {
    await page.mouse.move(box.x + box.width * (0.2 + 0.7 * Math.sin((i / MOVES) * 2.5)), y);
  }
  await page.mouse.up();
  await page.waitForFunction(() => location.hash.includes("from="));
  await painted();
  return longestSince(first);
}
const frames = [await drag()];
await page.click("[data-tab=sites]");
await page.waitForFunction(() => window.allogram.trace.leaks !== undefined);
frames.push(await drag());
await page.evaluate(() => window.allogram.set({ from: 0, to: 0 }));

const clicks = [];
for (const tab of ["stacks", "sites", "lives", "leaks", "threads"]) {
  clicks.push(await clickTime(`[data-tab=${tab}]`, `#view[data-view=${tab}] > div > *`));
}
for (const choice of ["[data-tab=flame]", "[data-side=callees]", "#fold", "[data-side=callers]", "[data-metric=allocated]"]) {
  clicks.push(await clickTime(choice));
}
const moves = await page.evaluate(async () => {
  const { allogram: app } = window;
  const { count } = app.trace.facts.slices;
  const all = [];
  for (const tab of ["flame", "sites"]) {
    await app.set({ tab });
    for (let i = 1; i <= 8; i++) {
      const begin = performance.now();
      await app.setRange(Math.floor((count * i) / 32), Math.floor((count * (i + 16)) / 32), true);
      all.push(performance.now() - begin);
    }
  }
  return all;
});
await browser.close();
console.log(JSON.stringify({ drawn, usable, slowest_click: Math.max(...clicks), slowest_frame: Math.max(...frames), slowest_move: Math.max(...moves) }));
