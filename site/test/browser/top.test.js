// SPDX-License-Identifier: Apache-2.0
//
// The page of the metrics port (/top) in headless Chromium, of a live server under load: read,
// sorted, filtered, frozen, and an option set.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";

import { Chromium, found } from "./chromium.js";

const native = resolve(process.env.RUBATO_BINARY ?? "build/release/bin/rubato");
const skip = !found() ? "there is no chromium" : !existsSync(native) ? `there is no ${native}` : false;

let browser;
let metrics;
const folder = mkdtempSync(join(tmpdir(), "rubato-top-"));
const TOKEN = "a token of the server's";
const children = [];
const start = (...args) => {
  const child = spawn(native, args, { stdio: ["ignore", "pipe", "ignore"] });
  children.push(child);
  return child;
};

before(async () => {
  if (skip) return;
  writeFileSync(join(folder, "token"), `${TOKEN}\n`);
  const server = start("serve", "spin", "--port", "0", "--metrics-port", "0", "--workers", "1",
                       "--metrics-set-token", join(folder, "token"));
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
  rmSync(folder, { recursive: true });
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

test("an option is set with the token, and by no other site's page", { skip, timeout: 60000 },
     async () => {
  const tab = await browser.open(metrics, { width: 390, height: 900 });
  await tab.until("document.getElementById('server')?.textContent.includes('synergy')");
  await tab.click("summary");
  const set = async (option, token) => {
    for (const [id, value] of Object.entries({ option, token })) {
      await tab.evaluate(`document.getElementById("${id}").value = ${JSON.stringify(value)}`);
    }
    await tab.click("#set button");
  };
  await set("policy=ps", "another token of 16 bytes");
  await tab.until("document.getElementById('reply').textContent === "
                  + "'refuses: the token is another one'");
  await set("policy=no", TOKEN);
  await tab.until("document.getElementById('reply').textContent.startsWith('refuses: policy: ')");
  await set("policy=ps", TOKEN);
  await tab.until("document.getElementById('reply').textContent === 'set policy=ps'");
  await tab.until("document.getElementById('server')?.textContent.endsWith(', ps')");
  await set("set=quantum=7us", TOKEN);
  await tab.until("document.getElementById('reply').textContent === 'set set=quantum=7us'");
  const wide = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth";
  assert.equal(await tab.evaluate(wide), 0);
  assert.deepEqual(tab.errors, []);

  const port = metrics.match(/:(\d+)/)[1];
  const elsewhere = await browser.open(`http://localhost:${port}/top`);
  await elsewhere.until("document.getElementById('server')?.textContent.endsWith(', ps')");
  const outcome = await elsewhere.evaluate(`fetch("http://127.0.0.1:${port}/set?policy=fcfs",
    { method: "POST", headers: { Authorization: "Bearer ${TOKEN}" } })
    .then((answer) => answer.status, (error) => error.name)`);
  assert.equal(outcome, "TypeError");
  await new Promise((done) => setTimeout(done, 1500));
  assert.match(await tab.text("#server"), /, ps$/);
});
