// SPDX-License-Identifier: Apache-2.0
//
// The page: reads the form, asks the simulator, shows the answers. `start` is given what the bundle
// holds: the compiled simulator, the worker's script and vega-embed.
import { distributionChart, highestLoad, METRICS, percentileName, sweepChart } from "./charts.js";
import { PAPERS } from "./papers.js";
import { commandLine, fromLink, PROFILE_FILE, runArguments, sweepArguments, toLink, TRACE_FILE,
         traceArguments, tuneArguments, WORKLOADS } from "./question.js";
import { Simulator } from "./simulator.js";
import { micros, Timeline } from "./timeline.js";
import { readTrace } from "./trace.js";

const CUSTOM = "custom";
const PROFILE = `profile:${PROFILE_FILE}`;
const COSTS = [["ideal", "ideal: everything but service is free"],
               ["synergy-testbed", "SYNERGY's testbed"], ["sbb-testbed", "SBB's testbed"],
               ["persephone-fig1", "Perséphone's"], ["ac-int", "ALTOCUMULUS, integrated"]];
const TRACED_REQUESTS = 20000;
const $ = (id) => document.getElementById(id);

export async function start({ wasm, workerUrl, embed }) {
  const simulator = new Simulator(await WebAssembly.compile(wasm), workerUrl,
                                  Math.max(1, Math.min(8, (navigator.hardwareConcurrency ?? 2) - 1)));
  const page = new Page(simulator, embed);
  await page.open();
  globalThis.rubatoPage = page; // for tests
}

class Page {
  constructor(simulator, embed) {
    this.simulator = simulator;
    this.embed = embed;
    this.question = fromLink(location.hash);
    this.profile = null;
    this.reports = [];
    this.sweeps = [];
    this.ready = Promise.resolve();
  }

  async open() {
    const listed = await this.simulator.run(["policies", "--json"]);
    this.catalog = JSON.parse(listed.stdout);
    this.fillChoices();
    this.showQuestion();
    this.listen();
    await this.simulate();
  }

  get files() {
    return this.profile ? { [PROFILE_FILE]: this.profile } : {};
  }

  fillChoices() {
    const option = (value, text) => new Option(text, value);
    $("workload").append(...WORKLOADS.map(([name, what]) => option(name, `${name}: ${what}`)),
                         option(CUSTOM, "your own types"), option(PROFILE, "a profile of your server"));
    $("costs").append(...COSTS.map(([name, text]) => option(name, text)));
    for (const { name, summary } of this.catalog) {
      const label = document.createElement("label");
      const box = Object.assign(document.createElement("input"), { type: "checkbox", value: name });
      label.title = summary;
      label.append(box, name);
      $("policies").append(label);
    }
    $("papers").append(...PAPERS.map(({ title, question }) => {
      const item = document.createElement("li");
      const link = Object.assign(document.createElement("a"),
                                 { textContent: title, href: toLink(question) || "#" });
      item.append(link);
      return item;
    }));
  }

  showQuestion() {
    const q = this.question;
    const preset = WORKLOADS.some(([name]) => name === q.workload) || q.workload === PROFILE;
    $("workload").value = preset ? q.workload : CUSTOM;
    $("custom").value = preset ? "" : q.workload;
    for (const id of ["load", "workers", "seed", "slo", "set", "metric", "costs"]) $(id).value = q[id];
    if (![...$("requests").options].some((option) => Number(option.value) === q.requests)) {
      $("requests").append(new Option(String(q.requests), q.requests));
    }
    $("requests").value = q.requests;
    for (const box of $("policies").querySelectorAll("input")) {
      box.checked = q.policies.includes(box.value);
    }
    this.showValues();
  }

  showValues() {
    $("load-shown").textContent = `${Math.round($("load").value * 100)} %`;
    $("workers-shown").textContent = $("workers").value;
    const custom = $("workload").value === CUSTOM;
    for (const id of ["custom", "custom-label"]) $(id).classList.toggle("hidden", !custom);
  }

  readQuestion() {
    const chosen = [...$("policies").querySelectorAll("input:checked")].map((box) => box.value);
    const workload = $("workload").value === CUSTOM ? $("custom").value.trim() : $("workload").value;
    return fromLink(toLink({
      policies: chosen, workload, workers: Number($("workers").value), load: Number($("load").value),
      requests: Number($("requests").value), seed: Number($("seed").value), costs: $("costs").value,
      slo: $("slo").value.trim(), metric: $("metric").value, set: $("set").value.trim() }));
  }

  listen() {
    $("question").addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask(this.readQuestion());
    });
    $("question").addEventListener("input", () => this.showValues());
    $("question").addEventListener("change", (event) => {
      if (event.target.id !== "profile") this.ask(this.readQuestion());
    });
    for (const id of ["percentile", "metric"]) {
      $(id).addEventListener("change", () => {
        this.question.metric = $("metric").value;
        this.remember();
        this.drawCharts();
      });
    }
    for (const id of ["traced", "window"]) {
      $(id).addEventListener("change", () => { this.ready = this.trace(); });
    }
    $("longest").addEventListener("click", () => {
      const story = this.timeline?.longestWait();
      if (story) this.timeline.choose(story.request);
    });
    $("tune").addEventListener("click", () => { this.ready = this.tune(); });
    $("profile").addEventListener("change", (event) => this.takeProfile(event.target.files[0]));
    const drop = $("drop");
    drop.addEventListener("dragover", (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", (event) => {
      event.preventDefault();
      drop.classList.remove("over");
      this.takeProfile(event.dataTransfer.files[0]);
    });
    addEventListener("hashchange", () => {
      if (toLink(this.question) === location.hash) return;
      this.question = fromLink(location.hash);
      this.showQuestion();
      this.ready = this.simulate();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.drawCharts());
  }

  async takeProfile(file) {
    if (!file) return;
    this.profile = new Uint8Array(await file.arrayBuffer());
    $("workload").value = PROFILE;
    this.ask(this.readQuestion());
  }

  ask(question) {
    this.question = question;
    this.remember();
    this.ready = this.simulate();
    return this.ready;
  }

  // The link holds the question. (A profile is too large for it.)
  remember() {
    history.replaceState(null, "", toLink(this.question) || location.pathname + location.search);
  }

  async simulate() {
    this.simulator.cancel();
    const q = this.question;
    const current = () => this.question === q;
    $("problem").textContent = "";
    if (q.workload === PROFILE && !this.profile) {
      $("answer").textContent = "Drop a profile on the page first.";
      return;
    }
    const started = performance.now();
    $("progress").textContent = "simulating…";
    try {
      const files = this.files;
      this.reports = await Promise.all(q.policies.map((policy) =>
        this.simulator.report(runArguments(q, policy), { files })));
      if (!current()) return;
      this.sweeps = [];
      this.showFigures();
      this.drawCharts();
      const traced = this.trace();
      this.sweeps = await Promise.all(q.policies.map((policy) =>
        this.simulator.report(sweepArguments(q, policy), { files }).then(({ runs }) => runs)));
      await traced;
      if (!current()) return;
      this.showFigures();
      await this.drawCharts();
      $("progress").textContent = `done in ${((performance.now() - started) / 1000).toFixed(1)} s`;
    } catch (error) {
      if (error.message === "cancelled" || !current()) return;
      $("progress").textContent = "";
      $("answer").textContent = "This cannot be simulated.";
      $("problem").textContent = error.message.replace(/^rubato: /, "");
    }
  }

  showFigures() {
    const q = this.question;
    const rows = this.reports.map((report, i) => {
      const best = this.sweeps[i] && highestLoad(this.sweeps[i]);
      return { report, best, met: report.slo?.verdict };
    });
    $("answer").textContent = this.answer(rows);
    const head = ["policy", "p50 µs", "p99 µs", "p99.9 µs", "p99.9 slowdown", "busy", "preemptions",
                  ...(q.slo ? ["objective", "meets it up to"] : [])];
    const cell = (text, tag = "td") => Object.assign(document.createElement(tag), { textContent: text });
    const figure = (value) => (value === undefined || value === null ? "-" : String(Number(value.toPrecision(4))));
    const header = document.createElement("tr");
    header.append(...head.map((text) => cell(text, "th")));
    const lines = rows.map(({ report, best, met }) => {
      const line = document.createElement("tr");
      const { latency_us: l, slowdown: s } = report;
      line.append(cell(report.policy, "th"), cell(figure(l.p50)), cell(figure(l.p99)),
                  cell(figure(l.p999)), cell(figure(s?.p999)),
                  cell(`${figure(report.utilization * 100)} %`), cell(report.counters.preemptions));
      if (q.slo) {
        const verdict = cell(met ?? "-");
        verdict.className = met ?? "";
        line.append(verdict, cell(this.sweeps.length === 0 ? "…"
          : best === undefined ? "no load tried" : `${Math.round(best * 100)} %`));
      }
      return line;
    });
    $("figures").replaceChildren(header, ...lines);
    $("command").textContent = this.reports.map((_, i) =>
      commandLine(runArguments(q, q.policies[i]))).join("\n");
    $("traced").replaceChildren(...q.policies.map((policy) => new Option(policy, policy)));
    $("version").textContent = this.reports[0] ? `rubato ${this.reports[0].version}` : "";
  }

  answer(rows) {
    const q = this.question;
    const key = (report) => METRICS.slowdown.of(report, "p999") ?? report.latency_us.p999;
    const ranked = [...rows].sort((a, b) => key(a.report) - key(b.report));
    const first = ranked[0].report;
    if (!q.slo) return `At ${Math.round(q.load * 100)} % load ${first.policy} has the lowest p99.9 slowdown.`;
    const meeting = ranked.filter(({ met }) => met === "met").map(({ report }) => report.policy);
    const all = this.sweeps.length === 0 ? [] : rows.filter(({ best }) => best !== undefined);
    const furthest = all.sort((a, b) => b.best - a.best)[0];
    const now = meeting.length === 0
      ? `At ${Math.round(q.load * 100)} % load no chosen policy meets ${q.slo}; ${first.policy} comes closest.`
      : `At ${Math.round(q.load * 100)} % load ${q.slo} is met by ${meeting.join(", ")}.`;
    return furthest
      ? `${now} ${furthest.report.policy} meets it up to ${Math.round(furthest.best * 100)} %.` : now;
  }

  async drawCharts() {
    if (this.reports.length === 0) return;
    const { metric, slo } = this.question;
    const percentile = $("percentile").value;
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const options = { actions: { export: true, source: false, compiled: false, editor: false },
                      renderer: "svg", theme: dark ? "dark" : undefined };
    await this.embed("#distribution", distributionChart(this.reports, metric, slo), options);
    if (this.sweeps.length > 0) {
      $("sweep-title").textContent = `${percentileName(percentile)} by load`;
      await this.embed("#sweep", sweepChart(this.sweeps, metric, percentile, slo), options);
    }
  }

  // The traced part is in the middle of a short run, as long as some requests take.
  async trace() {
    const q = this.question;
    const policy = $("traced").value || q.policies[0];
    const report = this.reports.find((r) => r.policy === policy) ?? this.reports[0];
    if (!report) return;
    const gapUs = 1e6 / report.offered_rps;
    const forUs = Math.ceil(gapUs * q.workers * Number($("window").value));
    const fromUs = Math.ceil(gapUs * TRACED_REQUESTS * 0.5);
    try {
      const { files } = await this.simulator.report(
        traceArguments(q, policy, { fromUs, forUs, requests: TRACED_REQUESTS }),
        { files: this.files, wanted: [TRACE_FILE] });
      if (this.question !== q) return;
      this.showTimeline(readTrace(files[TRACE_FILE]), report.types.map((type) => type.name));
    } catch (error) {
      if (error.message !== "cancelled") $("problem").textContent = error.message;
    }
  }

  showTimeline(trace, types) {
    this.timeline?.close();
    this.timeline = new Timeline($("timeline"), trace, types);
    $("types").replaceChildren(...types.map((type, i) => {
      const item = document.createElement("li");
      item.innerHTML = `<svg viewBox="0 0 12 12" aria-hidden="true"><rect width="12" height="12" rx="2" class="type-${i % 8}"/></svg>`;
      item.append(type);
      return item;
    }));
  }

  async tune() {
    const q = this.question;
    const rate = this.reports[0]?.offered_rps;
    if (!rate) return;
    if (!q.slo) {
      $("tune-progress").textContent = "The search takes an objective.";
      return;
    }
    $("tune-progress").textContent = `searching for ${micros(rate / 1e6).replace("µs", "million")} requests per second…`;
    $("tuned").classList.add("hidden");
    try {
      const result = await this.simulator.run(tuneArguments(q, rate), { files: this.files });
      if (this.question !== q) return;
      $("tune-progress").textContent = "";
      $("tuned").textContent = result.status === 0 ? result.stdout : result.stderr.trim();
      $("tuned").classList.remove("hidden");
    } catch (error) {
      $("tune-progress").textContent = error.message;
    }
  }
}
