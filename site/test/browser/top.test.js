// SPDX-License-Identifier: Apache-2.0
//
// The page of the metrics port (/top) in headless Chromium, of a live server under load: read,
// sorted, filtered, frozen.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { after, before, test } from "node:test";

import { Chromium, found } from "./chromium.js";

const native = resolve(process.env.RUBATO_BINARY ?? "build/release/bin/rubato");
const skip = !found() ? "there is no chromium" : !existsSync(native) ? `there is no ${native}` : false;

let browser;
let metrics;
const children = [];
const start = (...args) => {
  const child = spawn(native, args, { stdio: ["ignore", "pipe", "ignore"] });
  children.push(child);
  return child;
};

before(async () => {
  if (skip) return;
  const server = start("serve", "spin", "--port", "0", "--metrics-port", "0", "--workers", "1");
  let said = "";
  const ports = await new Promise((done) => server.stdout.on("data", (text) => {
    said += text;
    const all = [...said.matchAll(/127\.0\.0\.1:(\d+)/g)].map((match) => match[1]);
    if (all.length >= 2) done(all);
  }));
  metrics = `http://127.0.0.1:${ports[1]}/top`;
  start("load", "--target", `spin://127.0.0.1:${ports[0]}`, "--workload",
        "short:5us:90,long:2ms:10", "--rate", "200", "--duration", "300", "--nap");
  browser = await Chromium.start();
});
after(async () => {
  await browser?.stop();
  for (const child of children.reverse()) child.kill();
});

const CELLS = "[...document.querySelectorAll('#types tr')].map((row) => row.cells[0].textContent)";

for (const width of [1280, 390]) {
  test(`the page of the metrics port at ${width} pixels`, { skip, timeout: 60000 }, async () => {
    const tab = await browser.open(metrics, { width, height: 900 });
    await tab.until(`${CELLS}.includes("short") && ${CELLS}.includes("long")`);
    await tab.until("/^[1-9][0-9.]*\\/s$/.test(document.querySelector('#figures dd').textContent)");
    assert.match(await tab.text("#server"), /synergy/);
    assert.ok((await tab.evaluate(CELLS)).includes("all"));
    await tab.evaluate("document.querySelector('#types th button').click()");
    const sorted = await tab.evaluate(CELLS);
    assert.deepEqual(sorted.slice(1), sorted.slice(1).sort().reverse());
    await tab.evaluate(`document.getElementById("filter").value = "lon";
      document.getElementById("filter").oninput()`);
    assert.deepEqual(await tab.evaluate(CELLS), ["type", "long"]);
    await tab.evaluate("document.getElementById('freeze').click()");
    const frozen = await tab.text("#workers");
    await new Promise((done) => setTimeout(done, 2500));
    assert.equal(await tab.text("#workers"), frozen);
    const wide = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth";
    assert.equal(await tab.evaluate(wide), 0);
    assert.deepEqual(tab.errors, []);
  });
}
