// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";

import { commandLine, DEFAULTS, fromLink, runArguments, toLink } from "../../src/question.js";

test("a question of defaults is an empty link, and back", () => {
  assert.equal(toLink(DEFAULTS), "");
  assert.deepEqual(fromLink(""), { ...DEFAULTS });
});

test("a link holds the whole question", () => {
  const question = { ...DEFAULTS, policies: ["sbb"], workload: "a:1us:50,b:2us:50", workers: 64,
                     load: 0.93, requests: 50000, seed: 9, costs: "sbb-testbed",
                     slo: "p99_latency=5us", metric: "latency", set: "quantum=3us" };
  assert.deepEqual(fromLink(toLink(question)), question);
});

test("what a link says outside of the limits is left at its default", () => {
  const question = fromLink("#workers=0&load=x&policies=%3Cscript%3E&unknown=1");
  assert.deepEqual(question, { ...DEFAULTS });
});

test("the command that is shown is the command that runs", () => {
  const args = runArguments({ ...DEFAULTS, set: "quantum=5us, long_turn=0us" }, "synergy");
  assert.match(commandLine(args), /^rubato sim --policy synergy --workers 14 /);
  assert.ok(args.join(" ").includes("--set quantum=5us --set long_turn=0us"));
  assert.equal(commandLine(["sim", "a b", "it's"]), "rubato sim 'a b' 'it'\\''s'");
});
