// SPDX-License-Identifier: Apache-2.0
//
// The page in headless Chromium, from its file as `make site` builds it (or RUBATO_PAGE): clicked,
// dragged, typed into, read, looked at on a phone, on a wide screen, by day and by night.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { DEFAULTS, fromLink, runArguments, SWEEP_LOADS, toLink } from "../../src/question.js";
import { run } from "../../src/wasi.js";
import { Chromium, found } from "./chromium.js";

const page = resolve(process.env.RUBATO_PAGE ?? "build/site/index.html");
const wasm = process.env.RUBATO_WASM ?? "build/wasm/bin/rubato.wasm";
const profile = resolve("src/workload/profile_corpus/recorded");
const skip = !found() ? "there is no chromium" : !existsSync(page) ? `there is no ${page}` : false;
const QUICK = { ...DEFAULTS, policies: ["synergy", "fcfs"], workload: "high-bimodal", workers: 4,
                requests: 20000 };
const DONE = "document.getElementById('progress').textContent.startsWith('done')";

let browser;
before(async () => {
  if (!skip) browser = await Chromium.start();
});
after(() => browser?.stop());

// A page that has answered `question`.
async function open(question, options) {
  const tab = await browser.open(pathToFileURL(page).href + toLink(question), options);
  await tab.until(`globalThis.rubatoPage && ${DONE}`);
  return tab;
}

// After a change of the question.
async function answered(tab) {
  await tab.evaluate("rubatoPage.ready");
  await tab.until(DONE);
}

const link = async (tab) => fromLink(await tab.evaluate("location.hash"));

// What says how long it took differs from run to run.
async function picture(tab) {
  await tab.evaluate(`document.activeElement.blur(); scrollTo(0, 0);
    document.getElementById("progress").style.visibility = "hidden"`);
  await tab.mouse("mouseMoved", { x: 1, y: 1 });
  return tab.screenshot({ whole: true });
}

function check(name, body) {
  test(name, { skip, timeout: 300000 }, body);
}

check("the figures on the page are those of the simulator", async () => {
  const tab = await open(QUICK);
  const module = await WebAssembly.compile(readFileSync(wasm));
  const rows = await tab.evaluate(`[...document.querySelectorAll("#figures tr")].map((row) =>
    [...row.children].map((cell) => cell.textContent))`);
  assert.deepEqual(rows[0].slice(0, 4), ["policy", "p50 µs", "p99 µs", "p99.9 µs"]);
  for (const [i, policy] of QUICK.policies.entries()) {
    const { stdout } = await run(module, { args: ["rubato", ...runArguments(QUICK, policy)] });
    const report = JSON.parse(stdout);
    assert.equal(rows[i + 1][0], policy);
    assert.equal(Number(rows[i + 1][2]), Number(report.latency_us.p99.toPrecision(4)));
    assert.equal(Number(rows[i + 1][3]), Number(report.latency_us.p999.toPrecision(4)));
  }
  for (const chart of ["#sweep", "#distribution"]) {
    const lines = await tab.evaluate(
      `document.querySelectorAll("${chart} .mark-line path").length`);
    assert.ok(lines >= QUICK.policies.length, `${chart}: ${lines} lines`);
  }
  const loads = await tab.evaluate(`document.querySelectorAll("#sweep-table tr").length`);
  assert.equal(loads, 1 + SWEEP_LOADS.length);
  assert.deepEqual(tab.errors, []);
});

check("what is clicked, dragged and typed is in the link, which shows the same page", async () => {
  const tab = await open(QUICK);
  const policies = await tab.evaluate(
    `document.querySelector('#policies input[value="cfcfs"]').id = "test-cfcfs"`);
  assert.equal(policies, "test-cfcfs");
  await tab.click("#test-cfcfs");
  await answered(tab);
  await tab.drag("#load", (QUICK.load - 0.05) / 1.05, 0.35);
  await answered(tab);
  const dragged = (await link(tab)).load;
  assert.ok(dragged > 0.3 && dragged < 0.55, `load ${dragged}`);
  await tab.evaluate(`document.getElementById("workers").focus()`);
  await tab.press("ArrowRight");
  await answered(tab);
  const question = await link(tab);
  assert.equal(question.workers, QUICK.workers + 1);
  assert.deepEqual(question.policies, ["fcfs", "cfcfs", "synergy"]);
  const again = await open(question);
  assert.equal(await again.text("#answer"), await tab.text("#answer"));
  assert.equal(await again.text("#figures"), await tab.text("#figures"));
  const differing = await tab.differing(await picture(tab), await picture(again));
  assert.equal(differing, 0, `${differing} of the pixels differ`);
});

check("the timeline steps, plays, pauses and explains", async () => {
  const tab = await open(QUICK);
  const at = () => tab.evaluate("rubatoPage.timeline.cursor");
  const start = await at();
  await tab.click("[aria-label='Step forward']");
  const stepped = await at();
  assert.ok(stepped > start);
  assert.match(await tab.text(".now"), /worker \d+: (short|long) #\d+ (runs|is finished|is preempted)|its slice is over/);
  await tab.click("[aria-label='Step forward']");
  assert.ok(await at() > stepped);
  await tab.click("[aria-label='Step back']");
  assert.equal(await at(), stepped);
  await tab.click("#timeline [role=group] button:nth-child(2)");
  await tab.until(`rubatoPage.timeline.cursor > ${stepped}`);
  await tab.click("#timeline [role=group] button:nth-child(2)");
  assert.equal(await tab.evaluate("rubatoPage.timeline.playing"), false);
  await tab.evaluate("document.querySelector('.rows').focus()");
  const before = await at();
  await tab.press("ArrowRight");
  assert.ok(await at() > before);
  const middle = await tab.evaluate("(rubatoPage.timeline.trace.from + rubatoPage.timeline.trace.until) / 2");
  await tab.drag(".rows", 0.2, 0.9);
  assert.ok(await at() > middle);
  await tab.click("#worst");
  const story = await tab.text(".story");
  const [, waited] = /waited ([\d.]+) µs[^;]*?\.$/.exec(story) ?? [];
  assert.ok(Number(waited) > 0, story);
  assert.match(story, /arrived at .* finished/s);
  assert.ok(await tab.evaluate("document.querySelectorAll('rect.wait').length") > 0);
});

check("a phone and a wide screen need no scrolling to the side; night is dark", async () => {
  const pictures = [];
  for (const width of [390, 1280]) {
    for (const dark of [false, true]) {
      const tab = await open(QUICK, { width, dark, mobile: width === 390 });
      await tab.evaluate(`document.getElementById("search").click()`);
      await answered(tab);
      await tab.until(`document.querySelector("#cheapest table")`);
      const [needed, there] = await tab.evaluate(
        "[document.documentElement.scrollWidth, innerWidth]");
      assert.equal(needed, width);
      assert.equal(there, width);
      pictures.push([tab, await picture(tab)]);
    }
  }
  for (const [day, night] of [[0, 1], [2, 3]]) {
    const [tab, first] = pictures[day];
    const differing = await tab.differing(first, pictures[night][1]);
    assert.ok(differing > 0.7, `${differing} of the pixels differ`);
  }
});

check("every control has a name", async () => {
  const tab = await open(QUICK);
  await tab.send("Accessibility.enable");
  const { nodes } = await tab.send("Accessibility.getFullAXTree");
  const controls = nodes.filter(({ ignored, properties = [] }) =>
    !ignored && properties.some(({ name, value }) => name === "focusable" && value.value === true));
  assert.ok(controls.length > 40);
  const nameless = controls.filter(({ name }) => !name?.value).map(({ role }) => role?.value);
  assert.deepEqual(nameless, []);
});

check("a profile is taken, what is no profile is refused in a line", async () => {
  const tab = await open(QUICK);
  const give = async (file) => {
    const { root } = await tab.send("DOM.getDocument");
    const { nodeId } = await tab.send("DOM.querySelector", { nodeId: root.nodeId, selector: "#profile" });
    await tab.send("DOM.setFileInputFiles", { files: [file], nodeId });
  };
  await give(resolve("README.md"));
  await tab.until("document.getElementById('problem').textContent");
  const problem = await tab.text("#problem");
  assert.match(problem, /^README.md is no profile, trace or cost file: .*JSON/);
  assert.equal((await link(tab)).workload, QUICK.workload);
  assert.ok(!problem.trim().includes("\n"), problem);
  await give(profile);
  await tab.until("document.getElementById('workload').value.startsWith('profile:')");
  await answered(tab);
  assert.equal(await tab.text("#problem"), "");
  assert.match(await tab.text("#answer"), /^(Take|At) /);
  const again = await open(await link(tab)); // which holds the profile
  assert.equal(await again.text("#figures"), await tab.text("#figures"));
});

check("the cheapest configuration, and a figure of a paper", async () => {
  const tab = await open({ ...QUICK, policies: ["ps"] });
  await tab.click("#search");
  await answered(tab);
  await tab.until(`document.querySelector("#cheapest table")`);
  assert.match(await tab.text("#cheapest"), /ps with \d+ workers? is the cheapest/);
  await tab.evaluate(`(() => {
    const choice = document.getElementById("figure-choice");
    choice.value = "persephone-4";
    choice.dispatchEvent(new Event("change"));
  })()`);
  assert.equal((await link(tab)).figure, "persephone-4");
  assert.match(await tab.text("#figure"), /Perséphone|Persephone/);
  await tab.click("#draw-figure");
  await tab.until(`document.querySelector("#figure .mark-line path")`);
  assert.deepEqual(tab.errors, []);
});
