// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";

import { pack, unpack } from "../../src/packed.js";
import { DEFAULTS, fromLink, toLink } from "../../src/question.js";

test("files go through a link", async () => {
  const files = { "profile.json": new TextEncoder().encode("{\"µ\": 1}".repeat(500)),
                  "machine.toml": new Uint8Array([0, 255, 254, 62, 63]) };
  const link = toLink({ ...DEFAULTS, files: await pack(files) });
  assert.ok(link.length < 400, link);
  assert.deepEqual(await unpack(fromLink(link).files), files);
  assert.deepEqual(await unpack(""), {});
});

test("what is too large for a link is not in it, what is damaged is refused", async () => {
  let state = 1;
  const noise = Uint8Array.from({ length: 40000 }, () => {
    state = (state * 48271) % 2147483647;
    return state >> 8;
  });
  assert.equal(await pack({ noise }), undefined);
  await assert.rejects(unpack("profile.json:AAAA"));
});
