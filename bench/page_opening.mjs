// page_opening.mjs PACKAGES PAGE.html: measures how long a page of `allogram view` takes to open in headless Chromium, and how long the slowest
// move of its selected range takes. Prints JSON, in milliseconds; if there is no Chromium, {} and a reason on standard error.
// PACKAGES is the folder that contains node_modules with playwright-core.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";

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
const start = performance.now();
await page.goto(`file://${file}`);
await page.waitForSelector("body[data-ready]");
const open = performance.now() - start;
const moves = await page.evaluate(async () => {
  const { allogram: app } = window;
  await app.trace.loadHistory();
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
console.log(JSON.stringify({ open, slowest_move: Math.max(...moves) }));
