// SPDX-License-Identifier: Apache-2.0
//
// The page's simulator prints what the native binary prints, to the byte, but for its version.
// RUBATO_WASM and RUBATO_BINARY name the two; without one of them this is skipped.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";

import { run } from "../../src/wasi.js";

const wasm = process.env.RUBATO_WASM ?? "build/wasm/bin/rubato.wasm";
const native = process.env.RUBATO_BINARY ?? "build/release/bin/rubato";
const lacking = [wasm, native].filter((file) => !existsSync(file));
const skip = lacking.length > 0 ? `there is no ${lacking.join(", no ")}` : false;

let module;
let folder;
before(async () => {
  if (skip) return;
  module = await WebAssembly.compile(readFileSync(wasm));
  folder = mkdtempSync(join(tmpdir(), "rubato-same-"));
});
after(() => folder && rmSync(folder, { recursive: true }));

const withoutVersion = (text) =>
  text.replace(/"version": "[^"]*"/g, '"version": ""').replace(/`rubato tune` \S+/g, "");

// Runs both in a folder with `files`, and compares what they print, their status, and `wanted`.
async function compare(args, { files = {}, wanted = [] } = {}) {
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
  const theirs = spawnSync(resolve(native), args,
                           { cwd: folder, encoding: "utf8", maxBuffer: 1 << 28 });
  const bytes = Object.fromEntries(Object.entries(files)
    .map(([name, content]) => [name, new Uint8Array(Buffer.from(content))]));
  const ours = await run(module, { args: ["rubato", ...args], files: bytes });
  assert.equal(ours.status, theirs.status, ours.stderr + theirs.stderr);
  assert.equal(withoutVersion(ours.stdout), withoutVersion(theirs.stdout));
  for (const name of wanted) {
    assert.equal(new TextDecoder().decode(ours.file(name)),
                 readFileSync(join(folder, name), "utf8"), name);
  }
  return ours;
}

const words = (text) => text.split(" ");

// A command line each; lab/tests/extras/test_wheel.py asks the simulator of the wheel the same.
const SETTINGS = readFileSync(new URL("../settings.txt", import.meta.url), "utf8").split("\n")
  .filter((line) => line && !line.startsWith("#"));

test("the settings are fifty at least and have every policy", { skip }, async () => {
  const listed = await compare(["policies", "--json"]);
  const policies = JSON.parse(listed.stdout);
  assert.ok(policies.length >= 22 && SETTINGS.length >= 50);
  for (const { name } of policies) {
    assert.ok(SETTINGS.some((line) => line.includes(`--policy ${name} `)), name);
  }
});

const workload = (name) => readFileSync(new URL(`../../../src/workload/${name}`, import.meta.url));
for (const setting of SETTINGS) {
  test(setting, { skip }, () => compare(words(setting)));
}

test("a profile of a server", { skip }, () =>
  compare(words("sim --policy ps --workers 4 --workload profile:profile.json --requests 20000 --no-wall --json -"),
          { files: { "profile.json": workload("profile_corpus/recorded") } }));

test("a request trace of a server", { skip }, () =>
  compare(words("sim --policy steal --workers 2 --workload trace:small.trace --requests 2000 --no-wall --json -"),
          { files: { "small.trace": workload("trace_corpus/small.trace") } }));

test("a trace, byte by byte", { skip }, () =>
  compare(words("sim --policy synergy --workers 4 --requests 3000 --trace t.json --trace-from 100us --no-wall --json -"),
          { wanted: ["t.json"] }));

const REFUSED = [
  "sim --policy nobody",
  "sim --policy ps --workers 0x",
  "sim --policy ps --workload short:1us",
  "sim --policy ps --slo p98_latency=1us",
  "sim --policy ps --costs nowhere",
  "sim --policy ps --set nothing=3",
];
for (const setting of REFUSED) {
  test(`the same line refuses ${setting}`, { skip }, async () => {
    const ours = await compare(words(setting));
    const theirs = spawnSync(resolve(native), words(setting),
                             { cwd: folder, encoding: "utf8" });
    assert.equal(ours.status, 2);
    assert.equal(ours.stderr, theirs.stderr.replace(" (rubato sim --help tells more)", ""));
  });
}

test("a damaged profile ends in one line", { skip }, async () => {
  const ours = await compare(words("sim --policy ps --workload profile:damaged.json"),
                             { files: { "damaged.json": "{" } });
  assert.equal(ours.status, 2);
  assert.match(ours.stderr, /^rubato: [^\n]*line 1, column 2[^\n]*\n$/);
});
