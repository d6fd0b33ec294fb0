// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";

import { explain, happenings, moments, readTrace, stateAt } from "../../src/trace.js";
import { sentences } from "../../src/timeline.js";

const row = (tid, name) => ({ ph: "M", name: "thread_name", pid: 1, tid, args: { name } });
const slice = (tid, request, type, arrived, ts, dur, end, more) =>
  ({ ph: "X", pid: 1, tid, ts, dur, cat: "request", name: type,
     args: { request, arrived, end, ...more } });

// Request 1, long, is preempted at 5 by request 2, which came at 3.
const trace = readTrace(JSON.stringify({ traceEvents: [
  row(0, "timer core"), row(1, "worker 0"),
  slice(1, 1, "long", 0, 0, 5, "preempted"),
  { ph: "C", pid: 2, ts: 3, name: "inbox 0", args: { waiting: 1 } },
  { ph: "C", pid: 2, ts: 5, name: "inbox 0", args: { waiting: 0 } },
  { ph: "i", pid: 1, tid: 0, ts: 4.5, name: "preempt" },
  slice(1, 2, "short", 3, 5.5, 1, "finished"),
  { ph: "X", pid: 1, tid: 1, ts: 5, dur: 0.5, cat: "overhead", name: "overhead" },
  slice(1, 1, "long", 0, 6.5, 10, "finished", { avoided: 2 }),
] }));

test("a trace knows who runs and who waits", () => {
  assert.deepEqual(trace.workers, ["timer core", "worker 0"]);
  assert.deepEqual([trace.from, trace.until], [0, 16.5]);
  const at4 = stateAt(trace, 4);
  assert.equal(at4.running[1].request, 1);
  assert.deepEqual(at4.waiting, [["inbox 0", 1]]);
  assert.deepEqual(stateAt(trace, 5.2), { running: [null, null], waiting: [] });
  assert.deepEqual(moments(trace), [0, 4.5, 5, 5.5, 6.5, 16.5]);
});

test("the end of a slice tells the quanta at whose end it went on", () => {
  assert.deepEqual(happenings(trace, 5), ["worker 0: long #1 is preempted: its slice is over"]);
  assert.deepEqual(happenings(trace, 16.5), [
    "worker 0: long #1 is finished, after 2 quanta at whose end nobody waited here"]);
});

test("a wait names the request that ran meanwhile", () => {
  const story = explain(trace, 2);
  assert.equal(story.waitedUs, 2.5);
  assert.deepEqual(story.waits[0].culprits, [{ request: 1, type: "long", us: 2 }]);
  assert.ok(story.whole);
  assert.match(sentences(story).join(" "), /waited 2.5 µs until worker 0 took it, which meanwhile ran request 1 \(long\) for 2 µs/);
});

test("a request that was preempted waited for who came between", () => {
  const story = explain(trace, 1);
  assert.equal(story.servedUs, 15);
  assert.equal(story.waitedUs, 1.5);
  assert.deepEqual(story.waits[0].culprits, [{ request: 2, type: "short", us: 1 }]);
  assert.equal(explain(trace, 77), null);
});
