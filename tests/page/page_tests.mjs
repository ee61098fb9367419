// page_tests.mjs NODE_MODULES ALLOGRAM PROGRAMS [PART]: tests the page of `allogram view` in headless Chromium, and
// prints TAP. PROGRAMS is the folder of built test programs. PART: only the tests whose name contains this text are run. Tests that cannot run
// on this machine are skipped.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { hostname, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const [, , packages, allogram, programs, part = ""] = process.argv;
const sources = join(dirname(fileURLToPath(import.meta.url)), "../programs");
const INTERACTION_MS = 100; // limits are multiplied by SLOW_MACHINE, because the machine may run other programs
const OPEN_MS = 2000;
const SLOW_MACHINE = 4;

function skipAll(why) {
  console.log(`1..0 # SKIP ${why}`);
  process.exit(0);
}

const chromiumPath = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium", "/usr/bin/chromium-browser"].find(existsSync);
if (!chromiumPath) skipAll("no Chromium here (the package chromium-headless-shell)");
if (!existsSync(join(packages, "node_modules/playwright-core"))) {
  skipAll("the page's npm packages are not here");
}
const { chromium } = createRequire(`${packages}/`)("playwright-core");

const folder = mkdtempSync(join(tmpdir(), "allogram-page-"));
const run = (...words) => execFileSync(words[0], words.slice(1), { cwd: folder, encoding: "utf8" });
const report = (trace, ...options) => JSON.parse(run(allogram, "report", trace, "--json", ...options));

function record(name, command, ...options) {
  run(allogram, "run", "-q", ...options, "-o", `${name}.allogram`, "--", ...command);
}

function view(name, ...traces) {
  run(allogram, "view", "--no-open", "-o", `${name}.html`, ...traces.map((t) => `${t}.allogram`));
  return `file://${folder}/${name}.html`;
}

const tracesOfTree = () => readdirSync(folder).filter((name) => /^tree\..*\.allogram$/.test(name)).sort();
const reportOfTree = (...options) => report(...tracesOfTree(), ...options);

// ---- opening pages: page.complaints collects errors, dialogs and network requests ----

async function open(browser, url, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
  page.complaints = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) page.complaints.push(message.text());
  });
  page.on("pageerror", (error) => page.complaints.push(`${error.message}\n${error.stack}`));
  page.on("dialog", (dialog) => {
    page.complaints.push("a dialog was opened");
    dialog.dismiss();
  });
  page.on("request", (request) => {
    if (request.url() !== url.replace(/#.*/, "")) page.complaints.push(`asked for ${request.url()}`);
  });
  await page.goto(url);
  await page.waitForSelector("body[data-ready]");
  return page;
}

function equal(seen, wanted, what) {
  const [a, b] = [JSON.stringify(seen), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what}: ${a}, not ${b}`);
}

function check(is, what) {
  if (!is) throw new Error(what);
}

// Returns the own and total sums of every function in the range of the page: { "name image": { metric: [own, total] } }
const sitesOfPage = (page) => page.evaluate(() => {
  const { allogram: app } = window;
  const rows = {};
  const add = (name, range) => {
    const sums = app.tree.byKey(range.values(name), app.trace.functions.length);
    app.trace.functions.forEach(({ id, name: fn, image }) => {
      if (sums.total[id] === 0 && sums.own[id] === 0) return;
      rows[`${fn} ${image}`] ??= {};
      rows[`${fn} ${image}`][name] = [sums.own[id], sums.total[id]];
    });
  };
  for (const metric of ["allocated", "in_use", "peak", "freed"]) {
    for (const unit of ["bytes", "blocks"]) add(`${metric}_${unit}`, app.range);
  }
  add("temporary_blocks", app.range);
  delete rows["all "];
  return rows;
});

function sitesOfReport(sites, metrics) {
  const rows = {};
  for (const { function: name, image, own, total } of sites) {
    for (const metric of metrics) {
      if (own[metric] !== 0 || total[metric] !== 0) {
        rows[`${name} ${image}`] ??= {};
        rows[`${name} ${image}`][metric] = [own[metric], total[metric]];
      }
    }
  }
  return rows;
}

const METRICS = ["allocated_bytes", "allocated_blocks", "in_use_bytes", "in_use_blocks", "peak_bytes",
  "peak_blocks", "freed_bytes", "freed_blocks", "temporary_blocks"];

function sorted(rows, metrics) {
  return Object.entries(rows).sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, row]) =>
    [name, metrics.filter((metric) => row[metric]).map((metric) => [metric, ...row[metric]])])
    .filter(([, row]) => row.length > 0);
}

async function dragRange(page, from, to) { // FROM and TO: shares of the width of the timeline
  const box = await page.locator("#timeline .u-over").boundingBox();
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * from, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * ((from + to) / 2), y, { steps: 4 });
  await page.mouse.move(box.x + box.width * to, y, { steps: 4 });
  await page.mouse.up();
  await page.waitForFunction(() => !window.allogram.range.isWhole);
}

const historyIsThere = (page) => page.waitForFunction(() => window.allogram.trace.leaks !== undefined);

// ---- the tests ----

// A running program (commanded.c), which `run --serve` records.
class Served {
  static all = []; // ended after each test, also if the test failed

  async start(name) {
    this.trace = join(folder, `${name}.allogram`);
    this.run = spawn(allogram, ["run", "-q", "--serve=0", "-o", this.trace, "--", join(programs, "commanded")]);
    Served.all.push(this);
    const errors = createInterface({ input: this.run.stderr })[Symbol.asyncIterator]();
    this.answers = createInterface({ input: this.run.stdout })[Symbol.asyncIterator]();
    for (let line; !this.url && !(line = await errors.next()).done;) this.url = /(http:\S+)/.exec(line.value)?.[1].replace("debug/pprof/heap", "");
  }

  async do(...commands) {
    for (const command of commands) {
      this.run.stdin.write(`${command}\n`);
      equal((await this.answers.next()).value, "ok", "answer of the program");
    }
  }

  async end() {
    const ended = once(this.run, "exit");
    this.run.stdin.end();
    await ended;
  }
}

const tests = {
  async "the panel of resident memory has the numbers of report --view=rss"(browser, urls) {
    const ledger = report("fragmented.allogram", "--view=rss");
    const page = await open(browser, urls.fragmented);
    const rows = await page.$$eval("#resident tbody tr", (found) => found.map((row) => [row.dataset.class, row.children[1].textContent]));
    const moments = [ledger, ...(ledger.end ? [ledger.end] : [])];
    const wanted = ledger.classes.filter(({ class: name }) => moments.some(({ classes }) =>
      classes.some((row) => row.class === name && row.bytes > 0))).map(({ class: name }) => name);
    equal(rows.map(([name]) => name).sort(), wanted.sort(), "classes");
    equal(await page.locator("#resident .ledger-bar").count(), moments.length, "bars");
    const shown = new Map(rows);
    check(shown.get("pinned_free").includes("MiB"), `pinned_free: ${shown.get("pinned_free")}`);
    const widths = await page.$$eval("#resident .ledger-bar:first-of-type i", (parts) => parts.map((part) => parseFloat(part.style.width)));
    check(Math.abs(widths.reduce((sum, width) => sum + width, 0) - 100) < 0.1, `the parts of the bar fill it: ${widths}`);
    const text = await page.locator("#resident").textContent();
    check(text.includes("keep_small") && text.includes("malloc_trim(0) would give"), `the pinning line: ${text}`);
    equal(page.complaints, [], "errors of the page");
    await page.close();
  },

  async "the served page is that of the running recording"(browser) {
    const served = new Served();
    await served.start("served");
    await served.do("alloc 3000 100", "free 1000", "temporary 50 70");
    const page = await browser.newPage();
    const complaints = [];
    page.on("pageerror", (error) => complaints.push(error.message));
    const shown = async (blocks) => {
      const frame = await (await page.waitForSelector("iframe")).contentFrame();
      await frame.waitForFunction((n) => {
        const app = window.allogram;
        return document.body?.dataset.ready !== undefined && app.trace.functions.some(({ id, name }) => name === "alloc_as_commanded" &&
          app.tree.byKey(app.range.values("allocated_blocks"), app.trace.functions.length).own[id] === n);
      }, blocks);
      return frame;
    };
    await page.goto(served.url);
    const first = await shown(3050);
    const dump = run(allogram, "control", /(\d+)/.exec(readFileSync(`/proc/${served.run.pid}/task/${served.run.pid}/children`, "utf8"))[1],
      "dump").trim();
    const wanted = sorted(sitesOfReport(report(dump, "--view=sites", "--fold=auto").sites, METRICS), METRICS); // at first the page shows folded stacks
    equal(sorted(await sitesOfPage(first), METRICS), wanted, "functions of the served page");

    await first.evaluate(() => { location.hash = "#tab=sites&metric=allocated"; });
    await served.do("alloc 500 100");
    await page.evaluate("refresh()");
    const second = await shown(3550);
    check((await second.evaluate(() => location.hash)).includes("tab=sites"), "the new page shows the same tab");

    await served.end();
    await page.evaluate("refresh()");
    await page.waitForFunction(() => document.getElementById("state").textContent.includes("the recording has ended"));
    await shown(3550); // the last page stays
    equal(complaints, [], "errors of the page");
    await page.close();
  },

  "the page loads from a file, makes no other request, and reports no error": async (browser, urls) => {
    const page = await open(browser, urls.phases);
    await historyIsThere(page);
    for (const tab of await page.locator("#tabs button").all()) {
      await tab.click();
      await page.waitForTimeout(50);
    }
    equal(page.complaints, [], "complaints");
    const first = await page.evaluate(() => performance.getEntriesByType("navigation")[0].duration);
    check(first < OPEN_MS * SLOW_MACHINE, `the page took ${first} ms to load`);
  },

  "the numbers of the page are those of report --json, with and without folded stacks": async (browser, urls) => {
    for (const name of ["phases", "typed", "global_allocator"].filter((trace) => urls[trace])) {
      for (const fold of ["auto", "none"]) {
        const one = await open(browser, `${urls[name]}#fold=${fold}`);
        const { sites } = report(`${name}.allogram`, "--view=sites", `--fold=${fold}`);
        equal(sorted(await sitesOfPage(one), METRICS), sorted(sitesOfReport(sites, METRICS), METRICS),
          `sites of the whole recording of ${name}, --fold=${fold}`);
        equal(one.complaints, [], "complaints");
      }
    }
    const page = await open(browser, urls.phases);
    const summary = report("phases.allogram");
    const facts = await page.evaluate(() => window.allogram.trace.facts.summary);
    for (const key of Object.keys(facts)) {
      if (key in summary) equal(facts[key], summary[key], key);
    }
  },

  "the page of several traces has the numbers of report --merge and of each trace, and the process tree": async (browser, urls) => {
    const page = await open(browser, urls.tree);
    const facts = await page.evaluate(() => window.allogram.trace.facts);
    const summary = reportOfTree("--merge");
    for (const key of Object.keys(facts.summary)) {
      if (key in summary) equal(facts.summary[key], summary[key], key);
    }
    const tree = reportOfTree("--view=process_tree");
    equal(facts.process_tree, { processes: tree.processes, total: tree.total, repeated_traces: 0 }, "process tree");
    equal(facts.process_files, tracesOfTree(), "files");
    equal(facts.findings.map(({ frame, ...finding }) => finding), summary.findings, "findings");
    check(tree.processes.some((row) => row.was_executed) && tree.processes.length >= 5, `a tree with an executed program: ${tree.processes.length}`);

    await historyIsThere(page);
    const ofRange = (from, to) => page.evaluate(([first, last]) => {
      const { allogram: app } = window;
      app.range = new app.range.constructor(app.trace, first, last < 0 ? app.trace.facts.slices.count : last);
      app.range.isWhole = false; // computes the sums from the slices
      return app.range.total("peak_bytes");
    }, [from, to]);
    for (const fold of ["auto", "none"]) {
      await page.evaluate((how) => window.allogram.set({ fold: how, process: 0 }), fold);
      const { sites } = reportOfTree("--merge", "--view=sites", `--fold=${fold}`);
      const wanted = sorted(sitesOfReport(sites, METRICS), METRICS);
      equal(sorted(await sitesOfPage(page), METRICS), wanted, `sites of all processes, --fold=${fold}`);
      await ofRange(0, -1);
      equal(sorted(await sitesOfPage(page), METRICS), wanted, `sites of all slices, --fold=${fold}`);
    }
    for (const { file, ...row } of tree.processes) {
      const number = facts.process_files.indexOf(file);
      await page.evaluate((process) => window.allogram.set({ process, fold: "none" }), number + 1);
      const { sites } = report(file, "--view=sites", "--fold=none");
      equal(sorted(await sitesOfPage(page), METRICS), sorted(sitesOfReport(sites, METRICS), METRICS), `sites of ${file}`);
      equal(await page.evaluate((names) => names.map((name) => window.allogram.range.total(name)), METRICS), METRICS.map((name) => row[name]),
        `sums of ${file}`);
      equal(await page.evaluate(() => window.allogram.range.peak.bytes), row.peak_bytes, `peak of ${file}`);
    }
    // The processes of the tree ran one after the other, so a part of the recording has the peaks of the processes that lived in it.
    const rows = await page.evaluate(() => window.allogram.trace.processes.map(({ number }) => {
      const { lives } = window.allogram.trace;
      return [lives.first[number], lives.first[number] + lives.lengths[number]];
    }));
    const peaks = new Map(tree.processes.map((row) => [facts.process_files.indexOf(row.file), row.peak_bytes]));
    const [longest] = rows.map(([first, end], number) => ({ first, end, number })).sort((a, b) => (b.end - b.first) - (a.end - a.first));
    check(await ofRange(longest.first, longest.end) >= peaks.get(longest.number), "the peak of a range contains that of a process that lives in it");
    equal(page.complaints, [], "complaints");
  },

  "the tab Processes shows the tree, and limits the page to one process": async (browser, urls) => {
    const page = await open(browser, `${urls.tree}#tab=processes`);
    const tree = reportOfTree("--view=process_tree");
    const cells = await page.$$eval("#view tbody tr", (rows) => rows.map((row) => [...row.children].map((cell) => cell.firstChild.textContent)));
    equal(cells.map((row) => Number(row.at(-4))), tree.processes.map(({ pid }) => pid), "pids in the order of the tree");
    equal(cells.map((row) => row.at(-2)), tree.processes.map(({ end, exit_status: status, signal }) =>
      (end === "executed" ? end : signal ? `signal ${signal}` : status === null ? end : `exit ${status}`)), "ends");
    const sums = await page.evaluate((names) => window.allogram.processRows(names).map(({ facts, sums: own }) => [facts.file, ...names.map((name) => own[name])]),
      METRICS);
    const byFile = (rows) => [...rows].sort(([a], [b]) => (a < b ? -1 : 1));
    equal(byFile(sums), byFile(tree.processes.map((row) => [row.file, ...METRICS.map((name) => row[name])])), "sums of the processes");
    const title = await page.locator("#facts").innerText();
    check(title.includes(`${tree.total.processes} processes, ${tree.total.programs} programs`), title);
    const at = tree.processes.findIndex(({ command }) => command[0].endsWith("forgetful"));
    const { pid, peak_bytes: peak } = tree.processes[at];
    await page.locator("#view tbody tr").nth(at).locator("button").click();
    await page.waitForFunction(() => window.allogram.range.isOfProcess);
    equal(await page.locator("#process option:checked").innerText().then((text) => text.trim()), `forgetful (${pid})`, "the selected process");
    check((await page.textContent("#range")).includes(`forgetful (${pid})`), "the text of the range does not name the process");
    check(await page.locator("#flame").isVisible(), "no flame graph after the click");
    const highest = await page.evaluate(() => Math.max(...window.allogram.timeline.points.inUse));
    equal(highest, peak, "the highest point of the curve of the process");
    const other = await open(browser, page.url());
    equal(await other.evaluate(() => window.allogram.range.total("peak_bytes")), peak, "peak of the process that the address restores");
    for (const tab of await page.locator("#tabs button").all()) {
      await tab.click();
      await page.waitForTimeout(50);
    }
    await page.click("[data-tab=lives]");
    await page.waitForSelector(".histogram td");
    equal(await page.locator(".histogram").first().locator("td[title]").allInnerTexts().then((texts) =>
      texts.map((text) => Number(text.replace(/,/g, ""))).reduce((sum, blocks) => sum + blocks, 0)),
    tree.processes.find((row) => row.pid === pid).allocated_blocks, "blocks of all sizes");
    await page.click("[data-tab=flame]");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !window.allogram.range.isOfProcess);
    const nonsense = await open(browser, `${urls.tree}#process=99999`);
    check(!(await nonsense.evaluate(() => window.allogram.range.isOfProcess)), "an unknown process in the address is used");
    equal([page, other, nonsense].map(({ complaints }) => complaints), [[], [], []], "complaints");
    const single = await open(browser, `${urls.phases}#tab=processes&process=1`);
    equal(await single.locator("[data-tab=processes]").count(), 0, "the page of one trace has no tab Processes");
    check(await single.locator("#process").isHidden(), "the page of one trace has a list of processes");
  },

  "the tables of functions, lines and images have the numbers of report, also if callers are folded": async (browser, urls) => {
    for (const name of ["phases", "typed", "many"].filter((trace) => urls[trace])) {
      for (const fold of ["auto", "none"]) {
        const page = await open(browser, `${urls[name]}#tab=sites&fold=${fold}`);
        for (const by of ["function", "line", "image"]) {
          const seen = await page.evaluate((key) => window.allogram.siteRows(key).map(({ name: row, note, own, total }) => ({ row, note, own, total })), by);
          const rows = new Map();
          for (const { function: row, file, line, column, end_column: end, image, own, total } of report(`${name}.allogram`, "--view=sites", `--by=${by}`,
            `--fold=${fold}`).sites) {
            const place = file ? `${file.replace(/.*\//, "")}${line ? `:${line}${end ? `:${column}-${end}` : ""}` : ""}` : image;
            rows.set(by === "image" ? image : by === "line" ? `${row} ${place}` : `${row} ${image}`, METRICS.map((metric) => [own[metric], total[metric]]));
          }
          const shown = new Map(seen.map(({ row, note, own, total }) => [by === "image" ? row : by === "line" ? `${row} ${note}`
            : `${row} ${note.split(" · ").at(-1)}`, METRICS.map((metric) => [own[metric], total[metric]])]));
          const order = (map) => [...map].sort(([a], [b]) => (a < b ? -1 : 1));
          equal(order(shown), order(rows), `${name} by ${by}, --fold=${fold}`);
        }
        equal(page.complaints, [], "complaints");
        await page.close();
      }
    }
    const page = await open(browser, `${urls.many}#tab=sites&metric=allocated&unit=blocks&fold=none`);
    const row = page.locator("#view tbody tr:has-text(\"way_3\")").first();
    check(!(await row.innerText()).includes("≥"), await row.innerText());
    await historyIsThere(page);
    await page.evaluate(() => window.allogram.setRange(0, window.allogram.trace.facts.slices.count - 1, false));
    check((await row.innerText()).includes("≥"), `in a part of the recording the total does not say that it is a lower limit: ${await row.innerText()}`);
    await row.click();
    const text = await page.locator("#view").innerText();
    check(text.includes("Small stacks are folded"), `the page of a function does not mention folded stacks: ${text}`);
    await page.evaluate(() => window.allogram.set({ from: 0, to: 0 }));
    check((await page.locator("#view").innerText()).includes("small stacks (callers left out)"), "the callers have no row for folded stacks");
  },

  "the findings are those of report --json, with the same lines and words": async (browser, urls) => {
    let count = 0;
    for (const name of ["phases", "forgetful", "mapped", "many", "sampled", "nothing", "typed", "global_allocator"].filter((trace) => urls[trace])) {
      const page = await open(browser, urls[name]);
      const { findings, findings_complete: isComplete } = report(`${name}.allogram`);
      const seen = await page.evaluate(() => window.allogram.found.map(({ kind, name: fn, place, text, share_percent: part }) => ({ kind, fn, place, text, part })));
      equal(seen, findings.map(({ kind, function: fn, file, line, text, share_percent: part }) =>
        ({ kind, fn: fn ?? "", place: file ? `${file.replace(/.*\//, "")}:${line}` : "", text, part })), `findings of ${name}`);
      const shown = await page.locator("#findings").innerText();
      for (const { text, file, line } of findings) {
        check(shown.includes(text) && (!file || shown.includes(`${file.replace(/.*\//, "")}:${line}`)), shown);
      }
      equal(shown.includes("only its sums were examined"), !isComplete, `${name}: the page says that not all events were examined`);
      equal(page.complaints, [], "complaints");
      count += findings.length;
      await page.close();
    }
    check(count >= 3, `only ${count} findings were compared`);
  },

  "the warnings about a damaged and a cut trace are the first lines of report": async (browser) => {
    const whole = readFileSync(join(folder, "phases.allogram"));
    const damaged = Buffer.from(whole);
    for (let at = whole.readUInt16LE(10); whole.toString("latin1", at, at + 4) === "AGCK"; at += 64 + whole.readUInt32LE(at + 44)) {
      if (whole[at + 4] === 1) { // a chunk of events
        damaged.fill(0, at + 64, at + 64 + whole.readUInt32LE(at + 44));
        break;
      }
    }
    for (const [name, bytes] of [["damaged", damaged], ["cut", whole.subarray(0, whole.length * 0.6)]]) {
      writeFileSync(join(folder, `${name}.allogram`), bytes);
      const page = await open(browser, view(name, name));
      const shown = (await page.locator("#warnings").innerText()).split("\n").filter((line) => /damaged|missing/.test(line));
      const printed = execFileSync(allogram, ["report", `${name}.allogram`],
        { cwd: folder, encoding: "utf8", env: { ...process.env, COLUMNS: "400" } }).split("\n");
      check(shown.length > 0, `no warning about ${name}.allogram`);
      shown.forEach((line, number) => equal(line, printed[number], `line ${number} about ${name}.allogram`));
    }
  },
  "the slices add up to the whole recording": async (browser, urls) => {
    const page = await open(browser, urls.phases);
    await historyIsThere(page);
    const whole = await sitesOfPage(page);
    await page.evaluate(() => { // computes the sums of the whole recording again, from its slices (intervals of time)
      const { allogram: app } = window;
      app.range = new app.range.constructor(app.trace, 0, app.trace.facts.slices.count);
      app.range.isWhole = false;
    });
    equal(sorted(await sitesOfPage(page), METRICS), sorted(whole, METRICS), "sites of all slices");
    const summary = report("phases.allogram");
    const peak = await page.evaluate(() => window.allogram.range.peak);
    equal([peak.bytes, peak.blocks], [summary.peak_bytes, summary.peak_blocks], "the peak of all slices");
    const apart = Math.abs(peak.timeNs - summary.peak_time_ns); // two threads: the time is not exact
    check(apart <= summary.trace.time_resolution_ns, `the peaks are ${apart} ns apart`);
  },

  "a sampled trace has its estimates, with the intervals of report --json": async (browser, urls) => {
    const page = await open(browser, urls.sampled);
    await historyIsThere(page);
    for (const tab of await page.locator("#tabs button").all()) {
      await tab.click();
      await page.waitForTimeout(50);
    }
    equal(page.complaints, [], "complaints");
    check((await page.locator("#facts").innerText()).includes("estimates from samples"), "the page does not say that the numbers are estimates");
    equal(await page.locator("[data-metric=temporary]").count(), 0, "number of buttons for temporary blocks, which samples cannot count");
    check((await page.locator("#numbers").innerText()).includes("±"), "the summary shows no intervals");
    const names = ["allocated_bytes", "allocated_blocks", "in_use_bytes", "in_use_blocks", "peak_bytes", "peak_blocks"];
    const rows = await page.evaluate(async (wanted) => {
      const { allogram: app } = window;
      const sums = {};
      for (const row of app.siteRows("function")) {
        sums[row.name] = wanted.map((name) => ["own", "total"].map((part) =>
          [row[part][name], ...row.bounds(name, part)]));
      }
      return sums;
    }, names);
    let compared = 0;
    for (const { function: name, own, total } of report("sampled.allogram", "--view=sites", "--fold=auto").sites) {
      names.forEach((metric, i) => [own, total].forEach((part, k) => {
        if (part[metric] === 0) return; // the page shows no interval for 0
        const [value, low, high] = rows[name][i][k];
        const [reportLow, reportHigh] = part[`${metric}_ci95`];
        equal(value, part[metric], `${metric} of ${name}`);
        const near = (a, b) => Math.abs(a - b) <= 2 + 0.001 * part[metric]; // variances are floats
        check(near(low, reportLow) && near(high, reportHigh) && low < high,
          `${metric} of ${name}: ${low} to ${high}, not ${reportLow} to ${reportHigh}`);
        compared++;
      }));
    }
    check(compared > 20, `only ${compared} numbers were compared`);
    await page.click("[data-tab=sites]");
    check(/±\d+ %/.test(await page.locator("#view tbody tr").first().innerText()), "a row of the table has no interval");
    const [whole, slices] = await page.evaluate(() => { // computes the sums of the recording again from its slices
      const { allogram: app } = window;
      const all = ["allocated_bytes", "in_use_bytes", "peak_bytes", "allocated_blocks", "freed_blocks", "peak_blocks"];
      const sums = (range) => all.map((name) => range.total(name));
      const range = new app.range.constructor(app.trace, 0, app.trace.facts.slices.count);
      range.isWhole = false;
      const before = app.wholeRange;
      return [sums(before), [...sums(range)]];
    });
    whole.forEach((value, i) => check(Math.abs(value - slices[i]) <= 0.001 * value + 2,
      `the sums of the slices are ${slices}, those of the whole recording ${whole}`));
  },

  "a range has the numbers of report --from --to --older": async (browser, urls) => {
    const page = await open(browser, urls.phases);
    await historyIsThere(page);
    for (const [from, to] of [[0.1, 0.4], [0.3, 0.8], [0.55, 0.95]]) {
      await page.evaluate(([a, b]) => {
        const { count } = window.allogram.trace.facts.slices;
        return window.allogram.setRange(Math.round(count * a), Math.round(count * b), false);
      }, [from, to]);
      const { start, end } = await page.evaluate(() =>
        ({ start: window.allogram.range.fromNs, end: window.allogram.range.toNs }));
      const sites = report("phases.allogram", "--view=sites", "--fold=auto", `--from=${start}ns`, `--to=${end}ns`,
        "--older").sites;
      const compared = ["allocated_bytes", "allocated_blocks", "in_use_bytes", "in_use_blocks",
        "peak_bytes", "freed_bytes", "temporary_blocks"];
      equal(sorted(await sitesOfPage(page), compared), sorted(sitesOfReport(sites, compared), compared),
        `sites from ${start} to ${end}`);
    }
  },

  "dragging on the curve selects a range, and the tables follow": async (browser, urls) => {
    const page = await open(browser, urls.phases);
    await historyIsThere(page);
    await page.click("[data-metric=allocated]");
    await page.click("[data-tab=sites]");
    const before = await page.locator("#view tbody tr").first().innerText();
    await dragRange(page, 0.75, 0.98); // in this range only the function forget allocates
    const after = await page.locator("#view tbody tr").first().innerText();
    check(before !== after, `the table did not change: ${after}`);
    check(page.url().includes("from="), "the address does not hold the range");
    check(!(await page.locator("#range").innerText()).includes("whole"), "the page does not show the range");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => window.allogram.range.isWhole);
    equal(await page.locator("#view tbody tr").first().innerText(), before, "first row of the table when the whole recording is selected again");
    equal(page.complaints, [], "complaints");
  },

  "a search finds functions, and shows their sum": async (browser, urls) => {
    const page = await open(browser, `${urls.phases}#metric=allocated`);
    await page.keyboard.press("/");
    await page.keyboard.type("keep_early");
    await page.waitForFunction(() => window.allogram.state.query === "keep_early"); // waits until the whole word is searched for
    const found = await page.textContent("#found");
    check(/^97\.7 KiB, 3 % in 1 place$/.test(found), found);
    await page.fill("#search", "/^hold_|^forget$/");
    await page.click("[data-tab=sites]");
    await page.waitForFunction(() => document.querySelectorAll("#view tbody tr").length === 2);
    await page.fill("#search", "/(/");
    await page.waitForFunction(() => document.querySelectorAll("#view tbody tr").length === 0);
    equal(page.complaints, [], "complaints");
  },

  "a click leads to the function's page, with callers, callees and the command": async (browser, urls) => {
    const page = await open(browser, `${urls.phases}#tab=sites&metric=allocated`);
    await page.click("#view tbody tr:has-text(\"hold_much\")");
    await page.waitForSelector("#view[data-view=function]");
    const text = await page.locator("#view").innerText();
    for (const word of ["hold_much", "Callers", "main", "1,000", "1.91 MiB", "Lifetimes"]) {
      check(text.includes(word), `no ${word} on the function's page: ${text}`);
    }
    const command = await page.locator(".command code").innerText();
    check(command.startsWith("allogram report phases.allogram"), command);
    const tree = execFileSync("sh", ["-c", command.replace(/^allogram/, allogram)],
      { cwd: folder, encoding: "utf8" });
    check(tree.includes("hold_much"), `the command prints no hold_much: ${tree}`);
    await page.click(".back");
    await page.waitForSelector("#view[data-view=sites]");
    equal(page.complaints, [], "complaints");
  },

  "the flame graph zooms by click and by key": async (browser, urls) => {
    const page = await open(browser, `${urls.phases}#metric=allocated`);
    const canvas = page.locator("#flame-canvas canvas");
    const box = await canvas.boundingBox();
    await page.mouse.click(box.x + box.width * 0.25, box.y + 2.5 * 20);
    await page.waitForFunction(() => window.allogram.state.zoom > 0);
    await canvas.focus();
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => window.allogram.state.zoom === 0);
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => window.allogram.state.zoom > 0);
    await page.click("[data-side=callees]");
    const top = await page.evaluate(() => {
      const { allogram: app } = window;
      const tree = app.source.tree;
      return app.trace.functions[tree.key[tree.child[0]]].name;
    });
    equal(top, "hold_much", "the function at the top, from allocations up");
    equal(page.complaints, [], "complaints");
  },

  "an address with a fragment restores the state of the page": async (browser, urls) => {
    const page = await open(browser, `${urls.phases}#tab=stacks&metric=leaked&unit=blocks&from=10&to=40&query=fo`);
    equal(await page.evaluate(() => {
      const { state, range } = window.allogram;
      return [state.tab, state.metric, state.unit, range.from, range.to, state.query];
    }), ["stacks", "leaked", "blocks", 10, 40, "fo"], "state");
    equal(await page.locator("[data-tab=stacks]").getAttribute("aria-selected"), "true", "tab");
    const nonsense = await open(browser, `${urls.phases}#tab=nothing&metric=no&from=99999&to=1&fn=1e9&zoom=-4`);
    equal(await nonsense.evaluate(() => [window.allogram.state.tab, window.allogram.state.metric,
      window.allogram.range.isWhole]), ["flame", "peak", true], "state of a nonsensical address");
    equal([page.complaints, nonsense.complaints], [[], []], "complaints");
  },

  "the page shows blocks that were never freed, and frees of other threads' blocks": async (browser, urls) => {
    const page = await open(browser, `${urls.phases}#tab=stacks&metric=leaked`);
    const leaks = await page.locator("#view").innerText();
    check(leaks.includes("14.6 KiB") && leaks.includes("forget"), leaks);
    await page.click("[data-tab=threads]");
    await page.waitForSelector("#view h3");
    const threads = await page.locator("#view").innerText();
    check(threads.includes("1.91 MiB") && !threads.includes("every thread freed its own"), threads);
    await page.click("[data-tab=lives]");
    await page.waitForSelector(".histogram");
    const lives = await page.evaluate(async () => {
      const { sizes } = await window.allogram.trace.loadCounts();
      return sizes.blocks.reduce((sum, blocks) => sum + blocks, 0);
    });
    equal(lives, report("phases.allogram").allocated_blocks, "blocks of all sizes");
  },

  "a view whose data comes late does not replace the view that was opened after it": async (browser, urls) => {
    const page = await open(browser, urls.phases);
    for (const slow of ["threads", "lives"]) {
      const [shown, copied] = await page.evaluate(async (tab) => {
        const { allogram: app } = window;
        const left = app.set({ tab });
        await app.set({ tab: "sites", metric: "allocated" });
        await Promise.all([left, app.trace.loadThreads(), app.trace.loadCounts(), app.trace.loadHistory()]);
        await new Promise((done) => { setTimeout(done, 50); });
        return [document.getElementById("view").innerText, app.copyText()];
      }, slow);
      check(shown.includes("hold_much") && copied.includes("hold_much"), `${slow} covers the sites: ${shown}`);
    }
    equal(page.complaints, [], "complaints");
  },

  "types are those of report --view=types": async (browser, urls) => {
    if (!urls.typed) return "no C++ program was built";
    const page = await open(browser, `${urls.typed}#tab=types&metric=allocated`);
    check((await page.locator("#view tbody tr").count()) > 1, "no types are shown");
    const seen = await page.evaluate(() => {
      const { groups, names } = window.allogram.trace;
      const sums = {};
      for (let i = 0; i < groups.count; i++) {
        const name = names[groups.type[i]] || null;
        sums[name] ??= [0, 0];
        sums[name][0] += groups.allocated_blocks[i];
        sums[name][1] += groups.allocated_bytes[i];
      }
      return Object.entries(sums).sort();
    });
    const { types } = report("typed.allogram", "--view=types");
    equal(seen, types.map(({ type, allocated_blocks: blocks, allocated_bytes: bytes }) =>
      [String(type), [blocks, bytes]]).sort(), "types");
    equal(page.complaints, [], "complaints");
  },

  "the sums of labels are those of report --by=label, and a chosen label limits every view": async (browser, urls) => {
    const page = await open(browser, `${urls.labelled}#tab=labels&metric=allocated`);
    await historyIsThere(page);
    const { sites } = report("labelled.allogram", "--view=sites", "--by=label");
    const metrics = ["in_use_bytes", "in_use_blocks", "allocated_bytes", "allocated_blocks"];
    const wanted = sites.map(({ label, own }) => [label ?? "(no label)", ...metrics.map((name) => own[name])]).sort();
    const sums = async () => (await page.evaluate(() => [...document.querySelectorAll("#view tbody tr")].map((row) =>
      [row.querySelector("td.name button").textContent, ...[...row.querySelectorAll("td:not(.name)")].map((cell) => cell.title)])))
      .map(([label, allocated, , inUse, blocksInUse, blocks]) =>
        [label, ...[inUse, blocksInUse, allocated, blocks].map(Number)]).sort();
    const columns = await page.locator("#view thead th").allInnerTexts();
    equal(columns, ["allocated ↓", "share", "in use", "blocks in use", "blocks allocated", "label"], "columns");
    equal(await sums(), wanted, "labels of the whole recording");
    equal(wanted.filter(([label]) => label !== "(no label)").map(([label, , , , blocks]) => [label, blocks]),
      [["load", 5], ["request 1", 6], ["request 2", 6]], "the blocks that labelled.c itself counts");
    await page.evaluate(async () => { // computes the sums of the recording again from its slices
      const { allogram: app } = window;
      app.range = new app.range.constructor(app.trace, 0, app.trace.facts.slices.count);
      app.range.isWhole = false;
      app.draw();
    });
    equal(await sums(), wanted, "labels of all slices");
    await page.click("#view tbody tr:has-text(\"request 2\") button");
    await page.waitForFunction(() => window.allogram.range.isOfLabel);
    check(await page.locator("#flame").isVisible(), "no flame graph after the click");
    const own = sites.find(({ label }) => label === "request 2").own;
    const totals = () => page.evaluate((names) => names.map((name) => window.allogram.range.total(name)), metrics);
    equal(await totals(), metrics.map((name) => own[name]), "sums under the label");
    equal(await page.locator("#label option:checked").innerText(), "request 2", "the selected label");
    check((await page.textContent("#range")).includes("label request 2"), "the text of the range does not name the label");
    check(page.url().includes("label="), "the address does not hold the label");
    await page.click("[data-tab=sites]");
    const names = await page.locator("#view td.name button").allInnerTexts();
    check(names.includes("work") && names.includes("serve") && !names.includes("load") && !names.includes("idle"),
      `functions under request 2: ${names}`);
    await page.click("#view tbody tr:has-text(\"work\") button");
    await page.waitForSelector("#view[data-view=function]");
    check(/\b50 B\b/.test(await page.locator("#view .facts").innerText()), "the function's page does not have the bytes of the label");
    await page.click("[data-tab=stacks]");
    const stacks = await page.locator(".stack header").allInnerTexts();
    check(stacks.length > 0 && stacks.every((text) => text.includes("label request 2")), stacks.join("; "));
    await page.click("[data-tab=lives]");
    await page.waitForSelector(".histogram td");
    equal(await page.locator(".histogram").first().locator("td[title]").allInnerTexts().then((texts) =>
      texts.map(Number).reduce((sum, blocks) => sum + blocks, 0)), 6, "blocks of all sizes");
    await page.click("[data-tab=labels]");
    check((await page.locator("#view tbody tr:has-text(\"chosen\")").innerText()).includes("request 2"), "the row of the selected label is not marked");
    equal(await page.locator("#view tbody tr").count(), wanted.length, "number of labels in the table");
    const other = await open(browser, page.url());
    equal(await other.evaluate(() => window.allogram.range.total("allocated_blocks")), 6, "blocks of the label that the address restores");
    await page.selectOption("#label", { label: "load" });
    await page.waitForFunction(() => window.allogram.range.total("allocated_blocks") === 5);
    await page.locator("#label").blur();
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !window.allogram.range.isOfLabel);
    const nonsense = await open(browser, `${urls.labelled}#label=99999`);
    check(!(await nonsense.evaluate(() => window.allogram.range.isOfLabel)), "an unknown label in the address is used");
    equal([page, other, nonsense].map(({ complaints }) => complaints), [[], [], []], "complaints");
  },

  "the page of a trace without labels has no tab and no list of labels": async (browser, urls) => {
    const page = await open(browser, `${urls.phases}#tab=labels&label=3`);
    equal(await page.locator("[data-tab=labels]").count(), 0, "number of tabs without content");
    check(await page.locator("#label").isHidden(), "the list of labels is visible");
    check(!(await page.locator("main").innerText()).includes("label"), "the page mentions labels");
    check(await page.locator("#recorded").isHidden(), "the filter is visible");
    equal(await page.evaluate(() => window.allogram.range.isOfLabel), false, "the range is of a label");
    equal(page.complaints, [], "complaints");
  },

  "the page of a filtered recording shows the filter, and says that excluded blocks are not counted": async (browser, urls) => {
    const page = await open(browser, urls.filtered);
    equal(await page.locator("#recorded code").innerText(), "--filter=size=1K..,!type=list*", "the filter");
    const text = await page.locator("#recorded").innerText();
    check(text.includes("only blocks that match") && text.includes("no number of the page includes other blocks"), text);
    const warned = await page.locator("#warnings").innerText();
    check(warned.includes("without a filter"), `the page does not say that the earlier trace has no filter: ${warned}`);
    const { allocated_blocks: blocks } = report("filtered.allogram");
    check(blocks > 0 && blocks < report("unfiltered.allogram").allocated_blocks, `${blocks} blocks`);
    equal(await page.evaluate(() => window.allogram.range.total("allocated_blocks")), blocks, "blocks");
    equal(page.complaints, [], "complaints");
  },

  "the note of a runtime is among the warnings": async (browser, urls) => {
    if (!urls.noted) return "no lua5.4";
    const page = await open(browser, urls.noted);
    const warned = await page.locator("#warnings").innerText();
    check(/lua 5\.4\S*: .*calls in __gc finalizers are not counted/.test(warned), warned);
    const { incomplete_stacks: stacks, incomplete_blocks: blocks, incomplete_bytes: size } = report("noted.allogram");
    equal(warned.includes("could not be walked to their end"), stacks > 0, warned);
    const summary = await page.evaluate(() => window.allogram.trace.facts.summary);
    equal([summary.incomplete_blocks, summary.incomplete_bytes], [blocks, size], "incomplete");
    equal(page.complaints, [], "complaints");
  },

  "memory that the program mapped itself is among the warnings, if it explains most of the resident memory": async (browser, urls) => {
    const page = await open(browser, urls.mapped);
    const warned = await page.locator("#warnings").innerText();
    const { file, line } = report("mapped.allogram").program_mappings;
    check(warned.includes(`mapped by the program itself: 96.0 MiB at the peak, most by grow (${
      file.replace(/.*\//, "")}:${line}); see allogram report --view=mappings`), warned);
    equal(page.complaints, [], "complaints");
    const other = await open(browser, urls.phases);
    check(!(await other.locator("#warnings").innerText()).includes("mapped by"), "a program that uses malloc has the line");
  },

  "a function that allocates only through a library has its lines": async (browser, urls) => {
    if (!urls.typed) return "no C++ program was built";
    const page = await open(browser, `${urls.typed}#fold=none`);
    const { fn, allocated } = await page.evaluate(() => { // a function that allocates only through a library
      const { allogram: app } = window;
      const { own, total } = app.tree.byKey(app.range.values("allocated_bytes"), app.trace.functions.length);
      const [best] = app.trace.functions.filter(({ id, owner }) => owner === 2 && own[id] === 0 && total[id] > 0);
      return { fn: best.id, allocated: total[best.id] };
    });
    await page.evaluate((id) => window.allogram.set({ fn: id, metric: "allocated" }), fn);
    const sizes = await page.evaluate(() => window.allogram.range.total("allocated_bytes"));
    check(allocated > 0 && sizes >= allocated, `${allocated} of ${sizes}`);
    const lines = await page.locator(".lines tbody tr").allInnerTexts();
    check(lines.length > 0 && lines.every((line) => /cxx_containers\.cc:\d+/.test(line) && /\t0 B\t/.test(line)), lines.join("; "));
    equal(page.complaints, [], "complaints");
  },

  "stacks begin at the program's own line, without frames of libraries; a button shows all frames": async (browser, urls) => {
    if (!urls.typed) return "no C++ program was built";
    const page = await open(browser, `${urls.typed}#tab=stacks&metric=allocated`);
    const library = /^(std|__gnu_cxx|void std)::|^operator new/;
    const seen = () => page.evaluate(() => {
      const { allogram: app } = window;
      const { trace } = app;
      return { total: app.range.total("allocated_bytes"), drawn: app.source.tree.totals(app.range.values("allocated_bytes"))[0],
        stacks: Array.from(trace.groups.node, (_, group) => trace.framesOf(group).map((frame) => [frame,
          trace.functions[trace.functionOf[frame]].name])), lines: [...trace.groups.line] };
    });
    const folded = await seen();
    const shown = await page.locator(".stack li:first-child").allInnerTexts();
    check(shown.length > 0 && shown.every((text) => !library.test(text)), shown.join("; "));
    folded.stacks.forEach((frames, group) => equal(frames[0][0], folded.lines[group], "the first frame of a folded stack"));
    await page.click("#fold");
    equal(await page.locator("#fold").getAttribute("aria-pressed"), "true", "the button");
    const whole = await seen();
    check((await page.locator(".stack li:first-child").allInnerTexts()).some((text) => library.test(text)), "no frame of the library");
    whole.stacks.forEach((frames, group) => {
      const kept = frames.map(([frame]) => frame);
      const left = folded.stacks[group].filter(([frame]) => !kept.includes(frame));
      equal(left, [], "frames of the folded stack that the whole stack does not have");
      check(frames.length > 1, `a stack has only ${frames}`);
    });
    check(whole.stacks.flat().length > folded.stacks.flat().length, "folding leaves no frame out");
    equal([folded.drawn, whole.drawn, whole.total], [folded.total, folded.total, folded.total], "sums");
    await page.keyboard.press("l");
    equal((await seen()).stacks, folded.stacks, "stacks after the key l");
    await page.fill("#search", "/^std::|operator new/");
    await page.waitForFunction(() => window.allogram.state.query !== "" && document.querySelector(".stack"));
    equal(page.complaints, [], "complaints");
  },

  "the page and the report attribute blocks to the same lines, also with a global allocator of Rust": async (browser, urls) => {
    const wide = { cwd: folder, encoding: "utf8", env: { ...process.env, COLUMNS: "200" } };
    const places = (trace, metric) => [...execFileSync(allogram, ["report", `${trace}.allogram`, "--limit=0", `--sort=${metric}`], wide)
      .matchAll(/^ +<?[\d.,]+ +<?\d+ % +<?[\d.,]+ +<?[\d.,]+ {2}(\S.*?) {2,}(\S+)$/gm)].map(([, , place]) => place);
    for (const name of ["global_allocator", "typed", "forgetful"].filter((trace) => urls[trace])) {
      const page = await open(browser, urls[name]);
      for (const sort of ["allocated_bytes", "peak_bytes"]) {
        const place = await page.evaluate((metric) => {
          const { trace } = window.allogram;
          const sums = new Float64Array(trace.frames.count + 2);
          trace.groups.line.forEach((line, i) => { sums[line] += trace.groups[metric][i]; });
          const line = sums.indexOf(Math.max(...sums));
          return trace.placeOf(line) || trace.functions[trace.functionOf[line]].image;
        }, sort);
        equal(place, places(name, sort)[0], `${name}: the line with most ${sort}`);
      }
      equal(page.complaints, [], "complaints");
    }
    return urls.global_allocator ? undefined : "no Rust program was built";
  },

  "three clicks lead from the page to the leaking line": async (browser, urls) => {
    const line = readFileSync(join(sources, "libc/forgetful.c"), "utf8").split("\n")
      .findIndex((text) => text.includes("the leaking line")) + 1;
    const clicks = async (...selectors) => {
      check(selectors.length <= 3, "more than three clicks");
      const page = await open(browser, urls.forgetful);
      for (const selector of selectors) await page.locator(selector).first().click();
      const text = await page.locator("#view").innerText();
      check(text.includes("copy_name") && text.includes(`forgetful.c:${line}`),
        `no forgetful.c:${line} after ${selectors.join(", ")}: ${text}`);
      check(text.includes("31.2 KiB"), `the page does not show the leaked bytes: ${text}`);
      equal(page.complaints, [], "complaints");
    };
    await clicks(".finding:has-text(\"in use at the end\")"); // with a finding on the first screen
    await clicks("[data-tab=leaks]");
    await clicks("[data-tab=sites]", "[data-metric=leaked]", "#view tbody tr"); // without a finding
  },

  "the page copies the view that it shows, as text": async (browser, urls) => {
    const page = await open(browser, `${urls.phases}#tab=sites&metric=allocated`);
    await page.click("#copy");
    const text = await page.evaluate(() => window.allogram.copied);
    const lines = text.split("\n");
    check(lines[0].includes("own") && lines.some((line) => line.includes("hold_much")), text);
  },

  "a box beside the pointer describes the frame of the flame graph": async (browser, urls) => {
    const page = await open(browser, `${urls.phases}#metric=allocated`);
    const box = await page.locator("#flame-canvas canvas").boundingBox();
    check(await page.locator("#tip").isHidden(), "the box is shown without a pointer");
    await page.mouse.move(box.x + box.width * 0.25, box.y + 2.5 * 20);
    const { name, place, value, blocks, part } = await page.evaluate(() => {
      const { allogram: app } = window;
      const node = app.flame.hovered;
      const { name: fn, file, line } = app.trace.functions[app.tree.key[node]];
      const { total } = app.tree.byKey(app.range.values("allocated_blocks"), app.trace.functions.length);
      return { name: fn, place: `${file.replace(/.*\//, "")}:${line}`, value: app.source.text(app.values[node]),
        blocks: total[app.tree.key[node]].toLocaleString("en"), part: app.values[node] / app.values[0] };
    });
    const tip = await page.locator("#tip").innerText();
    for (const word of [name, place, `total ${value}`, "own ", `${Math.round(part * 100)} %`, `${blocks} block`]) check(tip.includes(word), `no ${word} in: ${tip}`);
    const at = await page.locator("#tip").boundingBox();
    check(Math.abs(at.x - (box.x + box.width * 0.25)) < 40 && Math.abs(at.y - (box.y + 50)) < 60, `the box is at ${at.x}, ${at.y}`);
    await page.mouse.move(box.x + box.width * 0.25, box.y - 40);
    await page.waitForFunction(() => document.getElementById("tip").hidden);
    equal(page.complaints, [], "complaints");
  },

  "the heading has the date, the machine and the version, and Escape closes the dialog": async (browser, urls) => {
    const page = await open(browser, `${urls.phases}#tab=sites&label=0&from=10&to=60`);
    const facts = await page.locator("#facts").innerText();
    const date = /recorded (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC/.exec(facts);
    check(date && Math.abs(Date.parse(`${date[1].replace(" ", "T")}Z`) - Date.now()) < 3600e3, facts);
    check(facts.includes(`on ${hostname()}`), "the heading does not have the name of the machine");
    const version = run(allogram, "--version").trim().replace("allogram ", "");
    check((await page.locator("#made").innerText()).includes(version), "the page does not have the version of allogram");
    await page.keyboard.press("?");
    check(await page.locator("#keys").isVisible(), "the key ? does not open the dialog");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !document.getElementById("keys").open);
    equal(await page.evaluate(() => window.allogram.state.from), 10, "the range after Escape in the dialog");
    equal(page.complaints, [], "complaints");
  },

  "on a phone no view scrolls sideways": async (browser, urls) => {
    for (const name of ["phases", "typed", "labelled", "counted", "both"].filter((trace) => urls[trace])) {
      const page = await open(browser, urls[name], { viewport: { width: 390, height: 844 } });
      const widths = async (what) => equal(await page.evaluate(() => document.documentElement.scrollWidth), 390, `${name}: width of ${what}`);
      for (const tab of await page.locator("#tabs button").all()) {
        await tab.click();
        await page.waitForTimeout(80);
        await widths(await tab.innerText());
      }
      await page.evaluate(() => window.allogram.set({ tab: "sites", fn: Math.min(3, window.allogram.trace.functions.length - 1) }));
      await page.waitForTimeout(80);
      await widths("the page of a function");
      await page.close();
    }
  },

  "the dark and the light colors differ, and depend on the system and on the key d": async (browser, urls) => {
    const paper = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await open(browser, urls.phases, { colorScheme: "light" });
    const dark = await open(browser, urls.phases, { colorScheme: "dark" });
    const [day, night] = [await paper(light), await paper(dark)];
    check(day !== night, `both backgrounds are ${day}`);
    await light.keyboard.press("d");
    equal(await paper(light), night, "background after the key d");
    equal([light.complaints, dark.complaints], [[], []], "complaints");
  },

  "a page of two traces shows what grew": async (browser, urls) => {
    const page = await open(browser, `${urls.both}#tab=diff&metric=in_use`);
    const row = page.locator("#view tbody tr:has-text(\"forget\")").first();
    const text = await row.innerText();
    check(text.includes("+14.6 KiB") && text.includes("grew"), text);
    const before = report("before.allogram");
    const after = report("phases.allogram");
    equal(await page.evaluate(() => window.allogram.range.total("in_use_bytes")),
      after.in_use_bytes_at_end, "bytes in use of the second trace");
    check(after.in_use_bytes_at_end - before.in_use_bytes_at_end === 15000, "the two traces differ by another number of bytes");
    check((await page.textContent("#difference")).includes("+14.6 KiB"), "the sum does not show the growth");
    await page.click("[data-tab=flame]");
    await page.click("[data-colour=change]");
    const labels = await page.evaluate(() => {
      const { flame } = window.allogram;
      return flame.rows.flat().map(({ node }) => flame.look.label(node));
    });
    check(labels.includes("+14.6 KiB  forget") && labels[0] === "+14.6 KiB  all", labels.join("; "));
    equal(page.complaints, [], "complaints");
  },

  "a move of the range, a metric and a search take less than a tenth of a second": async (browser, urls) => {
    const page = await open(browser, urls.phases);
    await historyIsThere(page);
    const times = await page.evaluate(async () => {
      const { allogram: app } = window;
      const { count } = app.trace.facts.slices;
      const took = async (act) => {
        const start = performance.now();
        await act();
        return performance.now() - start;
      };
      const all = [];
      for (const tab of ["flame", "sites", "stacks"]) {
        await app.set({ tab });
        all.push(await took(() => app.setRange(count >> 2, count >> 1, true)));
        all.push(await took(() => app.set({ metric: "allocated" })));
        all.push(await took(() => app.set({ query: "hold" })));
        await app.set({ metric: "peak", query: "" });
      }
      return all;
    });
    const slowest = Math.max(...times);
    check(slowest < INTERACTION_MS * SLOW_MACHINE, `the slowest action took ${slowest} ms`);
  },

  "the page of tens of thousands of stacks is a small file that opens fast, with exact sums": async (browser, urls) => {
    const size = statSync(join(folder, "many.html")).size;
    check(size < 20e6 / 16, `the page of a sixteenth of a million stacks takes ${size} bytes`);
    const start = performance.now();
    const page = await open(browser, `${urls.many}#fold=none`); // folded stacks begin at the callers of make, which is a wrapper
    const took = performance.now() - start;
    check(took < OPEN_MS * SLOW_MACHINE, `the page took ${took} ms to open`);
    await historyIsThere(page);
    const summary = report("many.allogram");
    equal(summary.unique_stacks, 65536, "stacks");
    equal(await page.evaluate(() => ["allocated_bytes", "allocated_blocks", "in_use_bytes", "peak_bytes", "temporary_blocks"]
      .map((name) => window.allogram.range.total(name))),
    [summary.allocated_bytes, summary.allocated_blocks, summary.in_use_bytes_at_end, summary.peak_bytes,
      summary.temporary_blocks], "sums");
    const made = await page.evaluate(() => {
      const { allogram: app } = window;
      const sums = app.tree.byKey(app.range.values("allocated_blocks"), app.trace.functions.length);
      return sums.own[app.trace.functions.findIndex(({ name }) => name === "make")];
    });
    equal(made, 65536, "blocks of make (folded stacks lack callers, but not the allocating function)");
    const slowest = await page.evaluate(async () => {
      const { allogram: app } = window;
      const { count } = app.trace.facts.slices;
      let most = 0;
      for (const tab of ["flame", "sites", "stacks"]) {
        await app.set({ tab });
        for (let i = 1; i <= 4; i++) {
          const begin = performance.now();
          await app.setRange(Math.floor((count * i) / 16), Math.floor((count * (i + 8)) / 16), true);
          most = Math.max(most, performance.now() - begin);
        }
      }
      return most;
    });
    check(slowest < INTERACTION_MS * SLOW_MACHINE, `a move took ${slowest} ms`);
    check((await page.textContent("body")).includes("replaces callers"), "folded stacks are not mentioned");
    equal(page.complaints, [], "complaints");
  },

  "both flame graphs have the sums of the stacks, with and without folded stacks": async (browser, urls) => {
    for (const name of ["phases", "many", "typed"].filter((trace) => urls[trace])) {
      const page = await open(browser, urls[name]);
      for (const fold of ["auto", "none"]) {
        const [shown, wanted] = await page.evaluate(async (folded) => {
          const { allogram: app } = window;
          await app.set({ fold: folded });
          const { groups, functionOf } = app.trace;
          const values = app.range.values("allocated_blocks");
          const sums = { tree: {}, inverted: {} }; // by the path of functions from the root
          const add = (side, path, value) => path.forEach((_, i) => {
            const key = path.slice(0, i + 1).join(" ");
            sums[side][key] = (sums[side][key] ?? 0) + value;
          });
          for (let group = 0; group < groups.count; group++) {
            const path = app.trace.framesOf(group).map((frame) => functionOf[frame]);
            add("inverted", path, values[group]);
            add("tree", path.reverse(), values[group]);
          }
          const text = (rows) => Object.entries(rows).map(([key, value]) => `${key}: ${value}`).sort();
          const treeRows = (tree) => {
            const totals = tree.totals(values);
            return Array.from({ length: tree.count - 1 }, (_, i) => `${tree.path(i + 1).map((node) => tree.key[node]).join(" ")}: ${totals[i + 1]}`).sort();
          };
          return [["tree", "inverted"].map((side) => treeRows(app[side])), ["tree", "inverted"].map((side) => text(sums[side]))];
        }, fold);
        equal(shown, wanted, `${name}, fold=${fold}`);
      }
      equal(page.complaints, [], "complaints");
    }
  },

  "a table shows only the rows of a screen while a range is dragged, and all rows afterwards": async (browser, urls) => {
    const page = await open(browser, `${urls.phases}#tab=sites&by=line&fold=none`, { viewport: { width: 1280, height: 60 } });
    await historyIsThere(page);
    const rows = (isDragging) => page.evaluate(async (dragging) => {
      const { allogram: app } = window;
      const { count } = app.trace.facts.slices;
      await app.setRange(1, count, dragging);
      return document.querySelectorAll("#view tbody tr").length;
    }, isDragging);
    equal(await rows(true), 3, "rows of 20 pixels in a window of 60, while the range is dragged");
    const all = await rows(false);
    check(all > 3, `${all} rows afterwards`);
    equal(page.complaints, [], "complaints");
  },

  "functions and their callers are those of report --view=functions and --callers": async (browser, urls) => {
    const name = urls.erlang ? "erlang" : "counted";
    const page = await open(browser, `${urls[name]}#tab=calls`);
    await page.waitForSelector("#view[data-view=calls] tbody tr");
    const { functions, total, messages, profiler } = report(`${name}.allogram`, "--view=functions");
    const seen = await page.evaluate(() => {
      const { trace: { facts, calls, names } } = window.allogram;
      const rows = {};
      const pairs = {};
      const nameOf = (i) => (i === 0 ? null : names[calls.functions.name[i - 1]]);
      for (let i = 1; i <= calls.count; i++) {
        rows[nameOf(i)] = ["calls", "words", "ns", "accWords", "accNs"].map((key) => calls.functions[key][i - 1]);
      }
      const { edges } = calls;
      for (let i = 0; i < edges.callee.length; i++) {
        (pairs[nameOf(edges.callee[i] + 1)] ??= {})[String(nameOf(edges.caller[i]))] = [edges.calls[i], edges.words[i]];
      }
      return { rows, pairs, facts: facts.functions };
    });
    const rows = Object.fromEntries(functions.map((row) =>
      [row.function, [row.calls, row.own_words, row.own_ns, row.acc_words, row.acc_ns]]));
    const order = (object) => Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1));
    equal(order(seen.rows), order(rows), "functions");
    equal([seen.facts.calls, seen.facts.words, seen.facts.messages.words, seen.facts.profiler.words],
      [total.calls, total.own_words, messages.words, profiler.words], "sums");
    for (const { function: callee } of functions.slice(0, 12)) {
      const { callers } = report(`${name}.allogram`, "--view=functions", `--callers=${callee}`);
      const wanted = Object.fromEntries(callers.map((row) => [String(row.function), [row.calls, row.words]]));
      const pairs = Object.entries(seen.pairs[callee]).filter(([, [calls, words]]) => calls + words > 0);
      equal(pairs.sort(), Object.entries(wanted).filter(([, [calls, words]]) => calls + words > 0).sort(),
        `callers of ${callee}`);
    }
    equal(page.complaints, [], "complaints");
  },

  "in the plot of memory against time, functions far from the line are marked and named, and can be opened": async (browser, urls) => {
    const page = await open(browser, `${urls.counted}#tab=calls`);
    await page.waitForSelector(".scatter .line");
    equal(await page.locator(".scatter .marked").count(), 2, "marked functions");
    equal(await page.locator(".scatter .dot").count(), 6, "functions that are not marked");
    equal((await page.locator(".scatter text.name").allTextContents()).sort(), ["hungry", "slow"], "names");
    const at = await page.locator(".scatter .marked").first().boundingBox();
    await page.mouse.move(at.x + at.width / 2, at.y + at.height / 2);
    await page.waitForFunction(() => /^(hungry|slow) /.test(document.querySelector(".plot .point").textContent));
    const point = await page.textContent(".plot .point");
    check(/times the words of the line|the line has/.test(point), point);
    await page.mouse.click(at.x + at.width / 2, at.y + at.height / 2);
    await page.waitForSelector("#view[data-view=call]");
    const text = await page.locator("#view").innerText();
    check(text.includes("Callers") && text.includes("main_loop") && text.includes("--callers='"), text);
    const command = await page.locator(".command code").innerText();
    const printed = execFileSync("sh", ["-c", command.replace(/^allogram/, allogram)], { cwd: folder, encoding: "utf8" });
    check(printed.includes("main_loop"), `the command prints no caller: ${printed}`);
    check(page.url().includes("call="), "the address does not hold the function");
    await page.click("#view tbody tr:has-text(\"main_loop\")"); // goes from the callee to its caller
    await page.waitForFunction(() => document.querySelector("h2").textContent === "main_loop");
    check((await page.locator("#view").innerText()).includes("steady_1"), "the page of main_loop does not show its callees");
    await page.keyboard.press("Escape");
    await page.waitForSelector(".scatter .line");
    await page.locator(".scatter").focus();
    await page.keyboard.press("ArrowRight"); // the marked points come first
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => /^(hungry|slow)$/.test(document.querySelector("#view h2").textContent));
    equal(page.complaints, [], "complaints");
  },

  "the table of functions is sorted, searched, copied and restored from an address; without counters there is no tab": async (browser, urls) => {
    const page = await open(browser, `${urls.counted}#tab=calls&sort=time&query=s`);
    await page.waitForSelector("#view tbody tr");
    equal((await page.locator("#view tbody td.name").allInnerTexts())[0], "slow", "first function, sorted by time");
    equal(await page.locator("#view tbody tr").count(), 7, "functions with an s");
    check(await page.locator(".scatter .dim").count() > 0, "the plot does not dim the functions that the search excludes");
    equal(await page.locator("#metrics").isHidden(), true, "the buttons for metrics of blocks are hidden");
    await page.fill("#search", "");
    await page.waitForFunction(() => document.querySelectorAll("#view tbody tr").length === 9);
    await page.click("#copy");
    const lines = (await page.evaluate(() => window.allogram.copied)).split("\n");
    check(lines[0].includes("words/call") && lines.some((line) => /^ *total: /.test(line)), lines.join("\n"));
    await page.click("[data-tab=sites]");
    equal(await page.locator("#metrics").isHidden(), false, "the buttons for metrics of blocks are hidden");
    const other = await open(browser, `${urls.counted}#call=2`);
    await other.waitForSelector("#view[data-view=call]");
    const nonsense = await open(browser, `${urls.counted}#call=999`);
    check(await nonsense.locator("#flame").isVisible(), "no flame graph for an address with an unknown function");
    const none = await open(browser, `${urls.phases}#tab=calls&call=3`);
    equal(await none.locator("[data-tab=calls]").count(), 0, "number of tabs without content");
    check(await none.locator("#flame").isVisible(), "the first tab does not show the flame graph");
    equal([page, other, nonsense, none].map(({ complaints }) => complaints), [[], [], [], []], "complaints");
  },

  "the flame graph of call paths has the numbers of report --view=functions": async (browser, urls) => {
    for (const name of ["counted", "table", "paths", "lua", "erlang"].filter((one) => urls[one])) {
      const page = await open(browser, `${urls[name]}#counter=calls`);
      await page.waitForFunction(() => window.allogram.paths !== undefined);
      const { functions, total } = report(`${name}.allogram`, "--view=functions");
      const seen = await page.evaluate(() => {
        const { paths, trace } = window.allogram;
        const tree = paths.tree("callers");
        const { functions: list } = paths;
        const rows = {};
        const sums = {};
        const nodes = {};
        for (const counter of ["calls", "words", "ns"]) {
          const { own, total: all } = tree.byKey(paths.values(counter), list.length);
          sums[counter] = [tree.totals(paths.values(counter))[0], trace.facts.functions[counter]];
          const up = paths.tree("callees");
          const ownUp = new Float64Array(list.length); // the first level of the other direction has the own values
          up.totals(paths.values(counter)).forEach((value, node) => {
            if (node > 0 && up.parent[node] === 0) ownUp[up.key[node]] += value;
          });
          list.forEach(({ id, name: fn }) => { if (id > 0) (rows[fn] ??= {})[counter] = [own[id], all[id], ownUp[id]]; });
          const ownOf = tree.own(paths.values(counter));
          for (let node = 1; node < tree.count; node++) {
            const path = tree.path(node).map((at) => list[tree.key[at]].name).join(" > ");
            (nodes[path] ??= {})[counter] = ownOf[node];
          }
        }
        return { rows, sums, nodes };
      });
      equal(seen.sums, { calls: [total.calls, total.calls], words: [total.own_words, total.own_words],
        ns: [total.own_ns, total.own_ns] }, `${name}: sums`);
      const isFolded = name === "paths"; // this trace has so many paths that the page adds up the small ones
      check(isFolded === (seen.rows.other.calls[0] > 0), `${name}: ${seen.rows.other.calls[0]} calls are in "other"`);
      if (isFolded) {
        check(Object.keys(seen.nodes).length > 50000, "too few paths");
        const rest = functions.reduce((sum, row) => sum + row.calls - seen.rows[row.function].calls[0], 0);
        equal(seen.rows.other.calls[0], rest, "calls of the small paths");
        continue;
      }
      const names = functions.map((row) => row.function);
      for (const row of functions.filter(({ function: fn }) => names.indexOf(fn) === names.lastIndexOf(fn))) {
        const { calls, words, ns } = seen.rows[row.function];
        equal([calls[0], calls[2], ...words, ...ns], [row.calls, row.calls, row.own_words, row.acc_words, row.own_words,
          row.own_ns, row.acc_ns, row.own_ns], `${name}: ${row.function}`);
      }
      const compare = (node, path) => {
        for (const child of node.children) {
          const below = path ? `${path} > ${child.function}` : child.function;
          if (names.indexOf(child.function) === names.lastIndexOf(child.function)) {
            const { calls, words, ns } = seen.nodes[below];
            equal([calls, words, ns], [child.calls, child.own_words, child.own_ns], `${name}: ${below}`);
            compare(child, below);
          }
        }
      };
      compare(report(`${name}.allogram`, "--view=functions", "--tree").root, "");
      equal(page.complaints, [], "complaints");
      await page.close();
    }
  },

  "a trace of function counters alone opens on its call paths": async (browser, urls) => {
    const page = await open(browser, urls.table);
    const boxes = () => page.evaluate(() => window.allogram.flame.rows.map((row) => row.length));
    check((await boxes()).length > 5, `rows of boxes: ${await boxes()}`);
    equal(await page.textContent("#total"), "Words allocated by functions: 200 words, whole recording", "the text of the total");
    equal(await page.locator("#metrics").isHidden(), true, "the buttons for metrics of blocks are hidden");
    equal(await page.locator("#counters button").allInnerTexts(), ["Words", "Calls", "Time"], "counters");
    equal(await page.evaluate(() => window.allogram.flame.describe(1)), "200 words  100 %  main", "the outermost box");
    await page.click("[data-counter=calls]");
    await page.waitForFunction(() => document.querySelector("#total").textContent.includes("152 calls"));
    await page.keyboard.press("m");
    await page.waitForFunction(() => document.querySelector("#total").textContent.startsWith("Time spent in functions"));
    await page.click("[data-counter=words]");
    await page.click("[data-side=callees]");
    await page.fill("#search", "cons");
    await page.waitForFunction(() => document.querySelector("#found").textContent.startsWith("60 words, 30 %"));
    await page.click("#copy");
    const copied = await page.evaluate(() => window.allogram.copied);
    check(copied.split("\n").some((line) => /^ +60 words  30 %  cons$/.test(line)), copied);
    await page.click("#panel ol button:has-text(\"cons\")");
    await page.waitForSelector("#view[data-view=call]");
    equal(await page.textContent("#view h2"), "cons", "the function that was opened");
    await page.keyboard.press("Escape");
    await page.waitForSelector("#flame:not([hidden])");
    const back = await open(browser, page.url()); // the address has the counter and the direction
    equal(await back.getAttribute("[data-counter=words]", "aria-pressed"), "true", "the counter");
    const both = await open(browser, urls.lua || urls.counted);
    equal(await both.locator("#counters").isVisible(), true, "the buttons for counters are visible next to those for metrics of blocks");
    const none = await open(browser, `${urls.phases}#counter=words`);
    equal([await none.locator("#counters").isHidden(), await none.locator("#metrics").isHidden()], [true, false],
      "a trace without counters: the buttons for counters are hidden, those for metrics of blocks");
    equal([page, back, both, none].map(({ complaints }) => complaints), [[], [], [], []], "complaints");
  },

  "names that are markup, script or terminal commands do nothing": async (browser, urls) => {
    const page = await open(browser, urls.hostile);
    const titleBefore = await page.title();
    for (const tab of await page.locator("#tabs button").all()) {
      await tab.click();
      await page.waitForTimeout(50);
    }
    await page.evaluate(() => { // opens the page of every function, too
      for (const { id } of window.allogram.trace.functions) window.allogram.open(id);
    });
    await page.evaluate(() => window.allogram.set({ tab: "calls", fn: 0 })); // below: the pages of functions with counters
    await page.waitForSelector(".scatter .line");
    equal(await page.locator(".scatter .dot, .scatter .marked").count(), 5, "functions in the plot");
    await page.evaluate(async () => {
      for (let call = 1; call <= window.allogram.trace.calls.count; call++) {
        await window.allogram.set({ call });
        document.querySelector("#copy").click();
      }
    });
    const text = await page.evaluate(() => {
      window.allogram.set({ tab: "sites", fn: 0, call: 0, metric: "allocated" });
      return document.body.innerText;
    });
    check(text.includes("<script>document.title='owned'</script>"), `the name is not shown: ${text}`);
    check(text.includes("<img src=x"), "the name with <img is not shown");
    check(text.includes("--filter=!type=<img src=y onerror=document.title='owned'>"), "the filter is not shown");
    equal(await page.locator("#label option").evaluateAll((options) =>
      options.filter(({ text }) => !/^(all labels|\(no label\))$/.test(text)).length), 5, "labels to choose from");
    await page.evaluate(async () => { // selects each label in every view
      const { allogram: app } = window;
      for (const label of app.trace.labels) {
        for (const [tab] of app.tabs()) {
          await app.set({ label: label + 1, tab });
          document.querySelector("#copy").click();
        }
      }
      await app.set({ label: 0, tab: "labels", metric: "allocated" });
    });
    const labels = await page.locator("#view tbody").innerText();
    check(labels.includes("<script>document.title='owned'</script>"), `the label is not shown: ${labels}`);
    // eslint-disable-next-line no-control-regex
    check(!/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(text),
      "a control character is on the page");
    equal(await page.title(), titleBefore, "title");
    equal(await page.evaluate(() => [document.querySelectorAll("img").length,
      document.querySelectorAll("script:not([type])").length, document.title.includes("owned")]),
    [0, 1, false], "images, scripts, title changed by a name");
    equal(page.complaints, [], "complaints");
    const source = readFileSync(join(folder, "hostile.html"));
    check(!source.includes("<img src=x") && !source.includes("\x1b"), "the file contains a name without escapes");
    check(!existsSync(join(folder, "owned")), "a shell executed a name as a command");
  },

  "a program that allocates nothing has a page": async (browser, urls) => {
    const page = await open(browser, urls.nothing);
    for (const tab of await page.locator("#tabs button").all()) {
      await tab.click();
      await page.waitForTimeout(30);
    }
    equal(page.complaints, [], "complaints");
  },
};

// ---- traces ----

const HOSTILE = [
  "<script>document.title='owned'</script>",
  "</script><img src=x onerror=\"document.title='owned'\">",
  "\x1b[31m\x1b]0;owned\x07red",
  "'\"`$(touch owned)\\ && touch owned; ${x}",
  "\u202egnp.exe\u2066 \u009b31m --!> <!-- ]]>",
];

// Makes a copy of the program whose names are replaced by hostile ones of the same length. The name of the
// file is hostile, too.
function hostileProgram() {
  let program = readFileSync(join(programs, "hostile_names"));
  HOSTILE.forEach((name, i) => {
    const old = Buffer.from(`hostile_name_${i + 1}_${"x".repeat(49)}`);
    const wanted = Buffer.alloc(old.length, "_");
    wanted.write(name, "utf8");
    check(program.includes(old), `hostile_names has no ${old}`);
    for (let at = program.indexOf(old); at >= 0; at = program.indexOf(old, at + 1)) {
      wanted.copy(program, at);
    }
  });
  const path = join(folder, "<img src=x onerror=alert(1)>\x1b[31m");
  writeFileSync(path, program);
  chmodSync(path, 0o755);
  return path;
}

// Records hand_counted.erl. False: no Erlang is installed, or no tracer was built.
function recordErlang() {
  if (!existsSync(join(programs, "../../adapters/erlang/inside/allogram.beam"))) return false;
  run("erlc", join(sources, "erlang/hand_counted.erl"));
  run(allogram, "run", "-q", "-o", "erlang.%e.allogram", "--", "erl", "-noshell", "-pa", folder, "-eval",
    "hand_counted:main(200), halt().");
  run("mv", "erlang.beam.smp.allogram", "erlang.allogram");
  return true;
}

function makePages() {
  record("phases", [join(programs, "phases")]);
  record("before", [join(programs, "phases"), "before"]);
  record("mapped", [join(programs, "mapped_memory"), "touched"]);
  record("many", [join(programs, "many_stacks"), "16"]);
  record("forgetful", [join(programs, "forgetful")]);
  record("nothing", ["true"]);
  record("fragmented", [join(programs, "fragmented"), "2"]);
  record("sampled", [join(programs, "sampled"), "periodic"], "--mode=sample", "--interval=8K", "--seed=1");
  record("sampled_too", [join(programs, "sampled"), "periodic"], "--mode=sample", "--interval=8K", "--seed=2");
  record("hostile", [hostileProgram(), "</script><script>document.title='owned'</script>", "\x1b[31m"],
    "--filter=!type=<img src=y onerror=document.title='owned'>");
  record("labelled", [join(programs, "labelled")]);
  record("filtered", [join(programs, "filtered")], "--follow=none", "--filter=size=1K..,!type=list*");
  record("unfiltered", [join(programs, "filtered")], "--follow=none");
  record("counted", [join(programs, "counted_functions")]);
  record("table", [join(programs, "../../examples/function_table")]);
  record("paths", [join(programs, "function_counters"), "many_paths"]);
  run(allogram, "run", "-q", "-o", "tree.%p.allogram", "--", "sh", "-c", '"$0/phases"; "$0/forgetful"; (exec "$0/labelled"); exec "$0/phases" before', programs);
  const lua = existsSync("/usr/bin/lua5.4");
  if (lua) record("lua", ["/usr/bin/lua5.4", join(sources, "lua/lua_cases.lua"), "calls_and_words"], "--calls");
  const erlang = recordErlang();
  const noted = existsSync("/usr/bin/lua5.4");
  if (noted) record("noted", ["lua5.4", "-e", "for i = 1, 100 do local t = {i} end"], "--calls");
  const typed = existsSync(join(programs, "cxx_containers"));
  if (typed) record("typed", [join(programs, "cxx_containers")]);
  const rust = existsSync(join(programs, "rust_global_allocator_plain"));
  if (rust) record("global_allocator", [join(programs, "rust_global_allocator_plain")]);
  return {
    noted: noted && view("noted", "noted"),
    typed: typed && view("typed", "typed"),
    global_allocator: rust && view("global_allocator", "global_allocator"),
    erlang: erlang && view("erlang", "erlang"),
    lua: lua && view("lua", "lua"),
    counted: view("counted", "counted"),
    table: view("table", "table"),
    paths: view("paths", "paths"),
    phases: view("phases", "phases"),
    mapped: view("mapped", "mapped"),
    both: view("both", "phases", "before"),
    tree: view("page_of_tree", ...tracesOfTree().map((name) => name.replace(/\.allogram$/, ""))),
    many: view("many", "many"),
    forgetful: view("forgetful", "forgetful"),
    labelled: view("labelled", "labelled"),
    filtered: view("filtered", "filtered", "unfiltered"),
    nothing: view("nothing", "nothing"),
    fragmented: view("fragmented", "fragmented"),
    sampled: view("sampled", "sampled", "sampled_too"),
    hostile: view("hostile", "hostile"),
  };
}

async function main() {
  const probe = execFileSync("sh", ["-c", `'${allogram}' view /nonexistent 2>&1 || true`], { encoding: "utf8" });
  if (probe.includes("built without its page")) skipAll("this allogram was built without its page");
  const urls = makePages();
  const browser = await chromium.launch({ executablePath: chromiumPath, args: ["--no-sandbox"] });
  const names = Object.keys(tests).filter((name) => name.includes(part));
  console.log(`1..${names.length}`);
  let failed = 0;
  for (const [i, name] of names.entries()) {
    const context = await browser.newContext();
    try {
      const skipped = await tests[name](browser, urls);
      console.log(`ok ${i + 1} ${name}${skipped ? ` # SKIP ${skipped}` : ""}`);
    } catch (error) {
      failed++;
      console.log(`not ok ${i + 1} ${name}`);
      console.log(String(error.stack).slice(0, 3000).replace(/^/gm, "# "));
    }
    await context.close();
    for (const served of Served.all.splice(0)) served.run.kill(); // `run` passes SIGTERM on to the program
  }
  await browser.close();
  process.exitCode = failed > 0 ? 1 : 0;
}

try {
  await main();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
