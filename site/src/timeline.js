// SPDX-License-Identifier: Apache-2.0
//
// The timeline: a row per worker with what it ran, the depths of the queues below, a cursor that
// plays, pauses and steps, and the story of the request that was chosen. Owns what is in `root`.
import { allWaits, explain, happenings, moments, stateAt } from "./trace.js";

const SVG = "http://www.w3.org/2000/svg";
const ROW = 22;
const LEFT = 78;
const PADDING = 8; // of .rows
const TOP = 22;
const MOST_QUEUES = 8;
const SPEEDS = [0.1, 0.3, 1, 3, 10];
const WAITS_TOLD = 3;
const SECONDS_TO_PLAY = 30; // the whole of the traced part, at speed 1

function make(parent, name, attributes = {}, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

export const micros = (us) => `${Number(us.toPrecision(4))} µs`;

// A sentence for each part of a request's story.
export function sentences(story) {
  const lines = [`Request ${story.request} (${story.type}) arrived at ${micros(story.arrived)}.`];
  let wait = 0;
  for (const slice of story.slices) {
    const before = story.waits[wait];
    if (before && before.until === slice.start) {
      ++wait;
      const [culprit] = before.culprits;
      lines.push(`It waited ${micros(before.until - before.from)} until worker ${before.worker - 1} ` +
        (culprit
          ? `took it, which meanwhile ran request ${culprit.request} (${culprit.type}) for ` +
            `${micros(culprit.us)}${before.culprits.length > 1
              ? ` and ${before.culprits.length - 1} more` : ""}.`
          : "took it; that worker ran no other request meanwhile."));
    }
    const ended = { finished: "it was finished",
                    preempted: "it was preempted, as its slice was over and others waited",
                    yielded: "it yielded" }[slice.why];
    lines.push(`Worker ${slice.worker - 1} ran it for ${micros(slice.end - slice.start)}; then ` +
      `${ended}.`);
  }
  lines.push(`In all it was served ${micros(story.servedUs)} and waited ${micros(story.waitedUs)}` +
    `${story.whole ? "." : ", as far as the traced part goes."}`);
  return lines;
}

// The queues that held most, in the order of their names.
function deepest(trace) {
  const most = (name) => Math.max(...trace.queues.get(name).map(([, depth]) => depth));
  return [...trace.queues.keys()].sort((a, b) => most(b) - most(a)).slice(0, MOST_QUEUES)
    .sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
}

export class Timeline {
  constructor(root, trace, types) {
    this.root = root;
    this.trace = trace;
    this.types = types;
    this.moments = moments(trace);
    this.waits = allWaits(trace);
    this.cursor = trace.from;
    this.playing = false;
    this.speed = 1;
    this.chosen = null;
    this.queues = deepest(trace);
    this.build();
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.canvas);
  }

  close() {
    this.resized.disconnect();
    this.pause();
    this.root.replaceChildren();
  }

  build() {
    this.root.replaceChildren();
    const bar = document.createElement("div");
    bar.className = "transport";
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", "Playback");
    const button = (label, action) => {
      const element = document.createElement("button");
      element.type = "button";
      element.textContent = label;
      element.addEventListener("click", action);
      bar.append(element);
      return element;
    };
    button("◀ Step", () => this.step(-1)).setAttribute("aria-label", "Step back");
    this.playButton = button("▶ Play", () => (this.playing ? this.pause() : this.play()));
    button("Step ▶", () => this.step(1)).setAttribute("aria-label", "Step forward");
    this.slider = document.createElement("input");
    Object.assign(this.slider, { type: "range", min: 0, max: 1000, value: 0 });
    this.slider.setAttribute("aria-label", "Position in the traced part");
    this.slider.addEventListener("input", () => {
      this.pause();
      this.moveTo(this.trace.from + (this.slider.value / 1000) * this.length());
    });
    bar.append(this.slider);
    const speed = document.createElement("select");
    speed.setAttribute("aria-label", "Speed");
    for (const times of SPEEDS) speed.append(new Option(`${times} ×`, times, times === 1, times === 1));
    speed.addEventListener("change", () => { this.speed = Number(speed.value); });
    bar.append(speed);
    this.canvas = document.createElement("div");
    this.canvas.className = "rows";
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label",
      "Timeline of workers. Left and right arrow keys step, space plays and pauses.");
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("click", (event) => this.click(event));
    this.canvas.addEventListener("pointermove", (event) => {
      if (event.buttons !== 1) return;
      this.pause();
      this.moveTo(this.timeAt(event));
    });
    this.now = document.createElement("ul");
    this.now.className = "now";
    this.story = document.createElement("ol");
    this.story.className = "story";
    this.story.setAttribute("aria-live", "polite");
    this.root.append(bar, this.canvas, this.now, this.story);
    this.tell();
  }

  length() {
    return Math.max(this.trace.until - this.trace.from, 1e-3);
  }

  key(event) {
    const action = { ArrowRight: () => this.step(1), ArrowLeft: () => this.step(-1),
                     " ": () => (this.playing ? this.pause() : this.play()) }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  click(event) {
    const request = event.target.dataset?.request;
    if (request !== undefined) this.choose(Number(request));
    else this.moveTo(this.timeAt(event));
  }

  timeAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const share = (event.clientX - box.left - PADDING - LEFT) / Math.max(this.width - LEFT, 1);
    return this.trace.from + Math.min(Math.max(share, 0), 1) * this.length();
  }

  x(us) {
    return LEFT + ((us - this.trace.from) / this.length()) * (this.width - LEFT);
  }

  draw() {
    const { trace } = this;
    this.width = Math.max(this.canvas.clientWidth - 2 * PADDING, 260);
    const height = TOP + ROW * (trace.workers.length + this.queues.length) + 6;
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${this.width} ${height}`);
    svg.setAttribute("height", height);
    svg.setAttribute("width", this.width);
    this.drawAxis(svg);
    trace.workers.forEach((name, row) => this.label(svg, row, name));
    for (const span of trace.spans) this.bar(svg, span.worker, span, "overhead", span.what);
    for (const slice of trace.slices) this.drawSlice(svg, slice);
    this.queues.forEach((name, i) => this.drawQueue(svg, trace.workers.length + i, name));
    this.line = make(svg, "line", { class: "cursor", y1: 0, y2: height });
    this.canvas.replaceChildren(svg);
    this.moveTo(this.cursor);
    this.mark();
  }

  drawAxis(svg) {
    const marks = Math.max(2, Math.floor((this.width - LEFT) / 120));
    for (let i = 0; i <= marks; ++i) {
      const us = this.trace.from + (i / marks) * this.length();
      make(svg, "text", { x: this.x(us), y: 14, class: "axis",
                          "text-anchor": i === marks ? "end" : "start" }, micros(us));
    }
  }

  label(svg, row, text) {
    make(svg, "text", { x: 0, y: TOP + row * ROW + 15, class: "axis" }, text);
  }

  bar(svg, row, { start, end }, name, title) {
    const from = Math.max(this.x(start), LEFT);
    const width = Math.max(Math.min(this.x(end), this.width) - from, 0.6);
    const rect = make(svg, "rect", { x: from, y: TOP + row * ROW + 2, width, height: ROW - 4,
                                     class: name });
    make(rect, "title", {}, title);
    return rect;
  }

  drawSlice(svg, slice) {
    const kind = Math.max(this.types.indexOf(slice.type), 0) % 8;
    const rect = this.bar(svg, slice.worker, slice, `slice type-${kind} ${slice.why}`,
      `request ${slice.request}, ${slice.type}, ${micros(slice.end - slice.start)}, ${slice.why}`);
    rect.dataset.request = slice.request;
  }

  drawQueue(svg, row, name) {
    this.label(svg, row, name);
    const depths = this.trace.queues.get(name);
    const most = Math.max(1, ...depths.map(([, depth]) => depth));
    const bottom = TOP + (row + 1) * ROW - 2;
    let path = `M${LEFT},${bottom}`;
    for (const [at, depth] of depths) {
      if (at > this.trace.until) break;
      path += `H${Math.max(this.x(at), LEFT).toFixed(1)}V${(bottom - (depth / most) * (ROW - 5)).toFixed(1)}`;
    }
    path += `H${this.width}V${bottom}Z`;
    make(make(svg, "path", { d: path, class: "queue" }), "title", {}, `${name}: at most ${most} wait`);
  }

  moveTo(us) {
    this.cursor = Math.min(Math.max(us, this.trace.from), this.trace.until);
    this.slider.value = Math.round(((this.cursor - this.trace.from) / this.length()) * 1000);
    if (this.line) {
      this.line.setAttribute("x1", this.x(this.cursor));
      this.line.setAttribute("x2", this.x(this.cursor));
    }
    this.now.replaceChildren(...this.told().map((line) =>
      Object.assign(document.createElement("li"), { textContent: line })));
  }

  // What happens at the cursor, who runs and who waits for whom.
  told() {
    const { running, waiting } = stateAt(this.trace, this.cursor);
    const busy = running.filter(Boolean);
    const queued = waiting.map(([name, depth]) => `${name}: ${depth}`).join(", ");
    const waits = this.waits.filter(({ from, until }) => from <= this.cursor && this.cursor < until);
    const lines = [`At ${micros(this.cursor)} ${busy.length} of ${this.workers()} workers run ` +
                   `requests; ${queued ? `waiting in ${queued}` : "no queue holds any"}.`];
    const events = happenings(this.trace, this.cursor);
    if (events.length > 0) lines.push(`${events.join("; ")}.`);
    for (const { request, type, worker, culprits } of waits.slice(0, WAITS_TOLD)) {
      const [culprit] = culprits;
      lines.push(`${type} #${request} waits${culprit
        ? ` for ${culprit.type} #${culprit.request} of ${this.trace.workers[worker]}` : ""}.`);
    }
    if (waits.length > WAITS_TOLD) lines.push(`${waits.length - WAITS_TOLD} more wait.`);
    return lines;
  }

  workers() {
    return this.trace.workers.filter((name) => name.startsWith("worker")).length;
  }

  step(direction) {
    this.pause();
    const next = direction > 0 ? this.moments.find((at) => at > this.cursor + 1e-9)
      : this.moments.findLast((at) => at < this.cursor - 1e-9);
    if (next !== undefined) this.moveTo(next);
  }

  play() {
    if (this.cursor >= this.trace.until) this.cursor = this.trace.from;
    this.playing = true;
    this.playButton.textContent = "❚❚ Pause";
    this.now.setAttribute("aria-live", "off");
    let last = performance.now();
    const frame = (time) => {
      if (!this.playing) return;
      this.moveTo(this.cursor + ((time - last) / 1000) * (this.speed * this.length() / SECONDS_TO_PLAY));
      last = time;
      if (this.cursor >= this.trace.until) this.pause();
      else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  pause() {
    this.playing = false;
    this.playButton.textContent = "▶ Play";
    this.now.setAttribute("aria-live", "polite"); // while it plays, that would never end
  }

  choose(request) {
    this.chosen = request;
    const [first] = this.trace.slices.filter((slice) => slice.request === request);
    if (first) this.moveTo(Math.max(first.start, this.trace.from));
    this.mark();
    this.tell();
  }

  mark() {
    for (const rect of this.canvas.querySelectorAll("rect.slice")) {
      rect.classList.toggle("chosen", Number(rect.dataset.request) === this.chosen);
    }
    for (const old of this.canvas.querySelectorAll("rect.wait")) old.remove();
    const svg = this.canvas.querySelector("svg");
    if (!svg) return;
    for (const wait of this.waits.filter(({ request }) => request === this.chosen)) {
      this.bar(svg, wait.worker, { start: wait.from, end: wait.until }, "wait",
               `#${this.chosen} waits for this worker`);
    }
  }

  tell() {
    const story = this.chosen === null ? null : explain(this.trace, this.chosen);
    const lines = story ? sentences(story)
      : ["Choose a request in the timeline, or the worst wait, to see why it waited."];
    this.story.replaceChildren(...lines.map((line) => {
      const item = document.createElement("li");
      item.textContent = line;
      return item;
    }));
  }

  // The finished request that waited longest for its service time, of those that the trace has
  // whole, or null.
  worstWait() {
    let best = null;
    for (const { request, why } of this.trace.slices) {
      if (why !== "finished") continue;
      const story = explain(this.trace, request);
      if (story.whole && (!best || story.waitedUs * best.servedUs > best.waitedUs * story.servedUs)) best = story;
    }
    return best;
  }
}
