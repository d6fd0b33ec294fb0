// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";

import { fewest } from "../../src/cheapest.js";
import { LONG, mixOf, mixText, positionOf, SHARE, SHORT } from "../../src/mix.js";

test("a mix is a text, and back", () => {
  const mix = { short: 0.5, long: 500, share: 0.5 };
  assert.equal(mixText(mix), "short:0.5us:99.5,long:500us:0.5");
  assert.deepEqual(mixOf(mixText(mix)), mix);
  assert.equal(mixOf("short:1us:50,long:2us:40"), null);
  assert.equal(mixOf("get:1us:100"), null);
});

test("sliders have round values, and find the nearest", () => {
  for (const values of [SHORT, LONG, SHARE]) {
    for (const [i, value] of values.entries()) assert.equal(positionOf(value, values), i);
  }
  assert.equal(SHORT[positionOf(0.9, SHORT)], 1);
  assert.equal(LONG.at(-1), 100000);
});

test("the fewest workers are found by few questions", async () => {
  for (const needed of [3, 4, 11, 37, 64]) {
    let asked = 0;
    const found = await fewest(async (workers) => {
      ++asked;
      return workers >= needed;
    }, 3);
    assert.equal(found, needed);
    assert.ok(asked <= 12, `${asked} questions`);
  }
  assert.equal(await fewest(async () => false, 3), undefined);
});
