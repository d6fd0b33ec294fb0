// SPDX-License-Identifier: Apache-2.0
//
// What a traced run was: slices of workers, depths of queues, and why a request waited. Reads the
// file of `rubato sim --trace`. Pure. Times are microseconds of virtual time.

const WORKERS = 1; // process of the rows of workers, see src/metrics/trace.cc
const QUEUES = 2;

// { workers: [name], slices, spans, marks, arrivals: Map(request, us), queues: Map(name, [[us,
// depth]]), from, until }, all in order of time. A slice is { worker, request, type, start, end,
// why, avoided }; a span { worker, what, start, end }. `part` is the traced part of the run: what is beyond
// belongs to what touches it.
export function readTrace(text, part = undefined) {
  const { traceEvents } = JSON.parse(text);
  const rows = new Map();
  const trace = { workers: [], slices: [], spans: [], marks: [], arrivals: new Map(),
                  queues: new Map(), from: Infinity, until: -Infinity };
  const during = (start, end) => {
    trace.from = Math.min(trace.from, start);
    trace.until = Math.max(trace.until, end);
  };
  for (const event of traceEvents) {
    if (event.ph === "M" && event.name === "thread_name" && event.pid === WORKERS) {
      rows.set(event.tid, rows.size);
      trace.workers.push(event.args.name);
      continue;
    }
    if (event.ph === "C" && event.pid === QUEUES) {
      if (!trace.queues.has(event.name)) trace.queues.set(event.name, []);
      trace.queues.get(event.name).push([event.ts, event.args.waiting]);
      during(event.ts, event.ts);
      continue;
    }
    const worker = rows.get(event.tid);
    if (event.ph === "X") {
      const [start, end] = [event.ts, event.ts + event.dur];
      during(start, end);
      if (event.cat === "request") {
        trace.arrivals.set(event.args.request, event.args.arrived);
        trace.slices.push({ worker, request: event.args.request, type: event.name, start, end,
                            why: event.args.end, avoided: event.args.avoided ?? 0 });
      } else {
        trace.spans.push({ worker, what: event.name, start, end });
      }
    } else if (event.ph === "i") {
      trace.marks.push({ worker, what: event.name, at: event.ts });
    }
  }
  const byStart = (a, b) => a.start - b.start;
  trace.slices.sort(byStart);
  trace.spans.sort(byStart);
  if (trace.from > trace.until) trace.from = trace.until = 0;
  if (part) {
    [trace.from, trace.until] = part;
  }
  return trace;
}

// The moments at which something begins or ends, ascending: what "step" goes through.
export function moments(trace) {
  const all = new Set();
  for (const { start, end } of trace.slices) {
    all.add(start);
    all.add(end);
  }
  for (const { at } of trace.marks) all.add(at);
  return [...all].filter((at) => at >= trace.from && at <= trace.until).sort((a, b) => a - b);
}

// What the marks of src/sim mean.
const MARKS = { steal: "steals from another worker", stalled: "is stalled" };

// What happens at `at`, a sentence each.
export function happenings(trace, at) {
  const now = (time) => Math.abs(time - at) < 1e-6;
  const ended = { finished: "is finished", preempted: "is preempted: its slice is over",
                  yielded: "yields" };
  const before = (avoided) => avoided === 0 ? ""
    : `, after ${avoided} ${avoided === 1 ? "quantum" : "quanta"} at whose end nobody waited here`;
  return [
    ...trace.slices.filter(({ end }) => now(end)).map(({ worker, type, request, why, avoided }) =>
      `${trace.workers[worker]}: ${type} #${request} ${ended[why] ?? why}${before(avoided)}`),
    ...trace.slices.filter(({ start }) => now(start)).map(({ worker, type, request }) =>
      `${trace.workers[worker]}: ${type} #${request} runs`),
    ...trace.marks.filter((mark) => now(mark.at)).map(({ worker, what }) =>
      `${trace.workers[worker]}: ${MARKS[what] ?? what}`),
  ];
}

// Every wait of every request, as in `explain`, with its request and type.
export function allWaits(trace) {
  const waits = [];
  for (const request of trace.arrivals.keys()) {
    const story = explain(trace, request);
    for (const wait of story.waits) waits.push({ ...wait, request, type: story.type });
  }
  return waits;
}

// Who runs and who waits at `at`: { running: [slice or null by worker], waiting: [[queue, depth]] }.
export function stateAt(trace, at) {
  const running = trace.workers.map(() => null);
  for (const slice of trace.slices) {
    if (slice.start > at) break;
    if (slice.end > at) running[slice.worker] = slice;
  }
  const waiting = [];
  for (const [name, depths] of trace.queues) {
    let depth = 0;
    for (const [when, value] of depths) {
      if (when > at) break;
      depth = value;
    }
    if (depth > 0) waiting.push([name, depth]);
  }
  return { running, waiting };
}

// What other requests did on `worker` between `from` and `until`, longest first:
// [{ request, type, us }].
function occupants(trace, worker, from, until, self) {
  const used = new Map();
  for (const slice of trace.slices) {
    if (slice.worker !== worker || slice.request === self) continue;
    const us = Math.min(slice.end, until) - Math.max(slice.start, from);
    if (us <= 0) continue;
    const known = used.get(slice.request) ?? { request: slice.request, type: slice.type, us: 0 };
    known.us += us;
    used.set(slice.request, known);
  }
  return [...used.values()].sort((a, b) => b.us - a.us);
}

// The story of one request in the traced part: { type, arrived, slices, waits, servedUs, waitedUs,
// finished, whole }. A wait is { from, until, worker, culprits }, before the slice that ends it.
// `whole`: the trace has it from its arrival to its end.
export function explain(trace, request) {
  const slices = trace.slices.filter((slice) => slice.request === request);
  if (slices.length === 0) return null;
  const arrived = trace.arrivals.get(request);
  const waits = [];
  let since = arrived;
  for (const slice of slices) {
    if (since !== undefined && slice.start > since) {
      waits.push({ from: since, until: slice.start, worker: slice.worker,
                   culprits: occupants(trace, slice.worker, since, slice.start, request) });
    }
    since = slice.end;
  }
  const sum = (list, length) => list.reduce((total, item) => total + length(item), 0);
  const finished = slices.at(-1).why === "finished";
  return { request, type: slices[0].type, arrived, slices, waits, finished,
           whole: finished && arrived >= trace.from,
           servedUs: sum(slices, (slice) => slice.end - slice.start),
           waitedUs: sum(waits, (wait) => wait.until - wait.from) };
}
