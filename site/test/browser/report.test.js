// SPDX-License-Identifier: Apache-2.0
//
// A report (rubato report) in headless Chromium: figures tell values under the mouse, zoom by a
// drag, go back by the button, and print.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { Chromium, found } from "./chromium.js";

const native = resolve(process.env.RUBATO_BINARY ?? "build/release/bin/rubato");
const skip = !found() ? "there is no chromium"
  : !existsSync(native) ? `there is no ${native}`
  : !existsSync("/usr/share/javascript/dygraphs") ? "there is no libjs-dygraphs" : false;

let browser;
let folder;
let url;
before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), "rubato-report-"));
  const run = (...args) => {
    const done = spawnSync(native, args, { cwd: folder, encoding: "utf8" });
    assert.equal(done.status, 0, done.stderr);
  };
  run("sim", "--compare", "fcfs,synergy", "--workload", "high-bimodal", "--workers", "4",
      "--loads", "0.3:0.7:0.2", "--requests", "20000", "--seeds", "3", "--json", "runs.json");
  run("report", "runs.json", "--output", "report.html");
  url = pathToFileURL(join(folder, "report.html")).href;
  browser = await Chromium.start();
});
after(async () => {
  await browser?.stop();
  if (folder) rmSync(folder, { recursive: true });
});

const LEGEND = "document.querySelector('.legend').textContent";
const TICKS = "[...document.querySelectorAll('.plot')[0].querySelectorAll('.dygraph-axis-label-x')]"
  + ".map((label) => label.textContent).join()";

// Figures without a named tick on their horizontal axis: nothing is drawn there.
const EMPTY = `[...document.querySelectorAll("figure[data-figure]")]
  .filter((figure) => !figure.querySelector(".dygraph-axis-label-x"))
  .map((figure) => figure.querySelector("figcaption").textContent)`;

for (const width of [1280, 390]) {
  test(`figures answer the mouse at ${width} pixels`, { skip, timeout: 120000 }, async () => {
    const tab = await browser.open(url, { width, height: 900 });
    await tab.until("document.documentElement?.dataset.drawn > 0");
    assert.match(await tab.evaluate(LEGEND), /fcfs.*synergy/);
    assert.deepEqual(await tab.evaluate(EMPTY), []);
    await tab.mouse("mouseMoved", await tab.point(".plot", 0.5));
    await tab.until(`/µs|ms/.test(${LEGEND})`);
    const whole = await tab.evaluate(TICKS);
    const at = await tab.point(".plot", 0.4);
    const to = await tab.point(".plot", 0.7);
    await tab.mouse("mousePressed", at, 1);
    await tab.mouse("mouseMoved", to, 1);
    await tab.mouse("mouseReleased", to);
    await tab.until(`${TICKS} !== ${JSON.stringify(whole)}`);
    await tab.evaluate("document.querySelector('figure button').click()");
    await tab.until(`${TICKS} === ${JSON.stringify(whole)}`);
    const wide = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth";
    assert.equal(await tab.evaluate(wide), 0);
    const { data } = await tab.send("Page.printToPDF", { printBackground: false });
    assert.ok(Buffer.from(data, "base64").subarray(0, 5).equals(Buffer.from("%PDF-")));
    assert.deepEqual(tab.errors, []);
  });
}
