// screenshot.mjs NODE_MODULES PAGE.html OUT.png [FRAGMENT]: takes a picture of a page of `allogram view` for
// the README; tools/make_pictures.sh calls it. If pngquant is installed, it reduces the file to a third.
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [, , packages, file, output, fragment = ""] = process.argv;
const { chromium } = createRequire(`${resolve(packages)}/`)("playwright-core");
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 860 }, colorScheme: "light" });
await page.goto(`file://${resolve(file)}${fragment}`);
await page.waitForSelector("body[data-ready]");
await page.waitForTimeout(500);
await page.screenshot({ path: output });
await browser.close();
try {
  execFileSync("pngquant", ["--force", "--speed=1", "--output", output, "64", output]);
} catch {
  console.error("screenshot: no pngquant here; the picture is larger than it has to be");
}
