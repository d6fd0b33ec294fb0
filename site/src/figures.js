// SPDX-License-Identifier: Apache-2.0
//
// The papers' figures: what was found before (docs/reproduction.jsonl), and the runs that draw one
// again here. Pure but for FigureView, which owns what is in its root.
import { lineChart } from "./charts.js";

export const REQUESTS = 100000; // of each run that is drawn here
const LOADS_AT_MOST = 12; // of each line

// Which number of a report a panel shows: a function of the report, or undefined for panels that
// show something else.
export function valueOf(panel) {
  const found = /^(?:(short|long) requests: )?(p99(?:\.9)?) (slowdown|latency, us)$/.exec(panel);
  if (!found) return undefined;
  const [, which, percentile, what] = found;
  const key = percentile.replace(".", "");
  const part = what === "slowdown" ? "slowdown" : "latency_us";
  return (report) => {
    if (!which) return report[part]?.[key];
    const types = report.types.filter(({ count }) => count > 0);
    types.sort((a, b) => a.service_us - b.service_us);
    return types.at(which === "short" ? 0 : -1)?.[part]?.[key];
  };
}

// At most LOADS_AT_MOST points of a line, its last among them.
export function chosen(points) {
  const stride = Math.ceil(points.length / LOADS_AT_MOST);
  return points.filter((_, i) => (points.length - 1 - i) % stride === 0);
}

export function pointArguments({ arguments: scenario }) {
  return ["sim", ...scenario, "--requests", String(REQUESTS), "--no-wall", "--json", "-"];
}

// The files of `all` that arguments name.
function filesOf(args, all) {
  const encoder = new TextEncoder();
  return Object.fromEntries(args.filter((arg) => arg in all)
    .map((name) => [name, encoder.encode(all[name])]));
}

export class FigureView {
  // `draw(element, specification)` draws a figure.
  constructor(root, { papers, files }, simulator, draw) {
    this.root = root;
    this.papers = papers;
    this.files = files;
    this.simulator = simulator;
    this.draw = draw;
    this.shown = null;
  }

  all() {
    return this.papers.flatMap(({ figures }) => figures);
  }

  // Nothing for a name that no figure has.
  show(id) {
    this.shown = this.all().find((figure) => figure.id === id) ?? null;
    this.root.replaceChildren();
    if (!this.shown) return;
    const { title, source, about, claims, notes, missing, requests, seeds, lines } = this.shown;
    this.add("h3", title);
    this.add("p", `${source}. ${about} ${requests / 1e6} million requests a run, ` +
                  `${seeds} ${seeds === 1 ? "seed" : "seeds"}.`);
    this.drawing = this.add("div", "");
    this.drawing.className = "chart hidden";
    const runs = lines.reduce((sum, { points }) => sum + chosen(points).length, 0);
    if (runs > 0 && this.panel()) {
      const button = this.add("button", `Simulate it here: ${runs} runs of ${REQUESTS / 1000} 000 requests`);
      button.type = "button";
      button.id = "draw-figure";
      this.told = this.add("span", "");
      this.told.setAttribute("role", "status");
      button.addEventListener("click", () => { this.drawn = this.simulate(button); });
    }
    if (claims.length > 0) this.addClaims(claims);
    for (const [topic, words] of notes) this.add("p", `${topic}: ${words}`);
    if (missing.length > 0) this.add("p", `Lines of the paper without a model: ${missing.join(", ")}.`);
  }

  panel() {
    return this.shown.panels.find(valueOf);
  }

  add(name, text, parent = this.root) {
    const element = Object.assign(document.createElement(name), { textContent: text });
    parent.append(element);
    return element;
  }

  addClaims(claims) {
    const scroll = this.add("div", "");
    scroll.className = "scroll";
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", "What the paper says and what was found");
    const table = this.add("table", "", scroll);
    const head = this.add("tr", "", table);
    for (const text of ["claim", "paper", "ours", "held to", ""]) this.add("th", text, head);
    for (const claim of claims) {
      const row = this.add("tr", "", table);
      const verdict = claim.verdict.replace("MISSES", "misses");
      this.add("th", `${claim.what} (${claim.where})`, row);
      for (const text of [claim.paper, claim.ours, claim.held, verdict]) this.add("td", text, row);
      row.lastChild.className = verdict.startsWith("misses") ? "missed" : "";
    }
  }

  // The curves of the first panel that the page knows how to read.
  async simulate(button) {
    const figure = this.shown;
    const panel = this.panel();
    const value = valueOf(panel);
    button.disabled = true;
    const jobs = figure.lines.flatMap((line) =>
      chosen(line.points).map((point) => ({ line: line.name, x: point.x, args: pointArguments(point) })));
    let done = 0;
    const points = await Promise.all(jobs.map(async ({ line, x, args }) => {
      try {
        const report = await this.simulator.report(args, { files: filesOf(args, this.files) });
        return { line, x, value: value(report) };
      } catch {
        return { line, x, value: undefined }; // a policy or an option that the page has not
      } finally {
        if (this.shown === figure) this.told.textContent = ` ${++done} of ${jobs.length}`;
      }
    }));
    if (this.shown !== figure) return;
    const drawn = points.filter((point) => point.value > 0);
    this.told.textContent = drawn.length === points.length ? ""
      : ` ${points.length - drawn.length} points could not be had`;
    button.disabled = false;
    this.drawing.classList.remove("hidden");
    await this.draw(this.drawing, lineChart(drawn, figure.axis, panel.replace(", us", ", µs"),
                                            figure.lines.map(({ name }) => name)));
  }
}
