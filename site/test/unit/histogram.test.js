// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";

import { ccdf, lowOf, merged, middleOf } from "../../src/histogram.js";

test("buckets follow each other without a gap, up to 73 minutes", () => {
  assert.equal(lowOf(0), 0);
  assert.equal(lowOf(127), 127);
  assert.equal(lowOf(128), 128);
  assert.equal(lowOf(129), 130);
  for (let bucket = 0; bucket < 1900; ++bucket) {
    assert.ok(lowOf(bucket + 1) > lowOf(bucket));
    assert.ok(middleOf(bucket) >= lowOf(bucket) && middleOf(bucket) < lowOf(bucket + 1));
  }
  assert.equal(lowOf(29 * 64), 2 ** 34);
  assert.equal(lowOf(29 * 64 + 8 * 8), 2 ** 42);
});

test("histograms add up", () => {
  const one = (counts) => ({ layout: "log-linear-64-8", counts });
  assert.deepEqual(merged([one("5:1 7:2"), one("5:3")]), [[5, 4], [7, 2]]);
  assert.throws(() => merged([{ layout: "other", counts: "" }]), /layout other/);
});

test("a distribution falls to what is beyond all but the last value", () => {
  assert.deepEqual(ccdf([[1, 90], [2, 9], [3, 1]]), [[1, 0.1], [2, 0.01]]);
});
