// SPDX-License-Identifier: Apache-2.0
//
// The page: reads the form, asks the simulator, shows the answers. `start` is given what the bundle
// holds: the compiled simulator, the worker's script, the papers' figures and vega-embed.
import { answer, cells, headings, rowsOf } from "./answer.js";
import { distributionChart, looks, percentileName, sweepChart, sweepTable } from "./charts.js";
import { fewest, MOST_WORKERS } from "./cheapest.js";
import { FigureView } from "./figures.js";
import { LONG, mixOf, mixText, positionOf, SHARE, SHORT } from "./mix.js";
import { PAPERS } from "./papers.js";
import { commandLine, explainArguments, fromLink, MACHINE_FILE, meetsArguments, PROFILE_FILE, runArguments,
         sweepArguments, toLink, TRACE_FILE, traceArguments, TRAFFIC_FILE, tuneArguments,
         WORKLOADS,
       } from "./question.js";
import { pack, unpack } from "./packed.js";
import { Simulator } from "./simulator.js";
import { Timeline } from "./timeline.js";
import { readTrace } from "./trace.js";

const CUSTOM = "custom";
const MIX = "mix";
const PROFILE = `profile:${PROFILE_FILE}`;
const TRAFFIC = `trace:${TRAFFIC_FILE}`;
const TRAFFIC_START = "RUBATRC"; // of the file
const COSTS = [["ideal", "ideal: only service takes time"],
               ["synergy-testbed", "SYNERGY's testbed"], ["sbb-testbed", "SBB's testbed"],
               ["persephone-fig1", "Perséphone, Fig. 1"], ["coresync-testbed", "CoreSync's testbed"],
               ["ac-int", "ALTOCUMULUS, integrated"], ["ac-rss", "ALTOCUMULUS, RSS"],
               ["nebula", "Nebula"], ["nanopu", "nanoPU"], ["rpcvalet", "RPCValet"]];
const NARROW = 600; // pixels: a phone
const TRACED_REQUESTS = 20000;
const MIX_SLIDERS = [["mix-short", "short", SHORT], ["mix-long", "long", LONG],
                     ["mix-share", "share", SHARE]];
const FIRST_MIX = { short: 1, long: 500, share: 1 };
const PLAIN_FIELDS = ["load", "workers", "seed", "slo", "set", "metric", "percentile", "growth",
                      "window"];
const $ = (id) => document.getElementById(id);

export async function start({ wasm, workerUrl, papers, embed }) {
  const threads = Math.max(1, Math.min(8, navigator.hardwareConcurrency ?? 2));
  const simulator = new Simulator(await WebAssembly.compile(wasm), workerUrl, threads);
  const page = new Page(simulator, papers, embed);
  globalThis.rubatoPage = page; // for tests
  await page.open();
}

class Page {
  constructor(simulator, papers, embed) {
    this.simulator = simulator;
    this.embed = embed;
    this.question = fromLink(location.hash);
    this.files = {}; // dropped on the page
    this.reports = [];
    this.sweeps = [];
    // Runs of their own, which a new question does not end.
    this.figures = new FigureView($("figure"), papers, simulator.sibling(),
                                  (element, chart) => this.draw(element, chart));
    this.ready = Promise.resolve();
  }

  async open() {
    const listed = await this.simulator.run(["policies", "--json"]);
    this.catalog = JSON.parse(listed.stdout);
    this.fillChoices();
    await this.takePacked();
    this.showQuestion();
    this.listen();
    this.ready = this.simulate();
    await this.ready;
  }

  fillChoices() {
    $("workload").append(...WORKLOADS.map(([name, what]) => new Option(`${name}: ${what}`, name)),
                         new Option("a mix of short and long: sliders", MIX),
                         new Option("types of your own, as text", CUSTOM),
                         new Option("a profile of your server", PROFILE),
                         new Option("a trace of your server", TRAFFIC));
    $("costs").append(...COSTS.map(([name, text]) => new Option(text, name)));
    for (const { name, summary } of this.catalog) {
      const label = document.createElement("label");
      const box = Object.assign(document.createElement("input"), { type: "checkbox", value: name });
      label.title = summary;
      label.append(box, name);
      $("policies").append(label);
    }
    $("papers").append(...PAPERS.map(({ title, question }) => {
      const item = document.createElement("li");
      item.append(Object.assign(document.createElement("a"),
                                { textContent: title, href: toLink(question) || "#" }));
      return item;
    }));
    $("figure-choice").append(new Option("Choose a figure", ""));
    for (const { name, figures } of this.figures.papers) {
      const group = Object.assign(document.createElement("optgroup"), { label: name });
      group.append(...figures.map(({ id, source, title }) =>
        new Option(`${source.split(":")[0]}: ${title}`, id)));
      $("figure-choice").append(group);
    }
  }

  showQuestion() {
    const q = this.question;
    const preset = WORKLOADS.some(([name]) => name === q.workload) || [PROFILE, TRAFFIC].includes(q.workload);
    const mix = mixOf(q.workload);
    $("workload").value = preset ? q.workload : mix ? MIX : CUSTOM;
    if (!preset) $("custom").value = q.workload;
    for (const [id, part, values] of MIX_SLIDERS) {
      $(id).max = values.length - 1;
      $(id).value = positionOf((mix ?? FIRST_MIX)[part], values);
    }
    for (const id of PLAIN_FIELDS) $(id).value = q[id];
    this.choose("costs", q.costs);
    this.choose("requests", String(q.requests));
    this.choose("figure-choice", q.figure);
    for (const box of $("policies").querySelectorAll("input")) {
      box.checked = q.policies.includes(box.value);
    }
    if (this.figures.shown?.id !== q.figure) this.figures.show(q.figure);
    this.showValues();
  }

  // Selects what the list may lack.
  choose(id, value) {
    if (![...$(id).options].some((option) => option.value === value)) {
      $(id).append(new Option(value, value));
    }
    $(id).value = value;
  }

  mix() {
    return Object.fromEntries(MIX_SLIDERS.map(([id, part, values]) =>
      [part, values[$(id).value]]));
  }

  showValues() {
    $("load-shown").textContent = `${Math.round($("load").value * 100)} %`;
    $("workers-shown").textContent = $("workers").value;
    $("custom-part").classList.toggle("hidden", $("workload").value !== CUSTOM);
    $("mix-part").classList.toggle("hidden", $("workload").value !== MIX);
    const { short, long, share } = this.mix();
    $("mix-short-shown").textContent = `${short} µs`;
    $("mix-long-shown").textContent = `${long} µs`;
    $("mix-share-shown").textContent = `${share} %`;
  }

  readQuestion() {
    const chosen = [...$("policies").querySelectorAll("input:checked")].map((box) => box.value);
    const workload = { [CUSTOM]: () => $("custom").value.trim(), [MIX]: () => mixText(this.mix()) };
    const choice = $("workload").value;
    const fields = Object.fromEntries(PLAIN_FIELDS.map((id) => [id, $(id).value.trim()]));
    return fromLink(toLink({
      ...fields, policies: chosen, workload: workload[choice]?.() ?? choice,
      requests: $("requests").value, costs: $("costs").value,
      traced: chosen.includes($("traced").value) ? this.question.traced : "",
      figure: $("figure-choice").value, files: this.question.files }));
  }

  listen() {
    $("question").addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask(this.readQuestion());
    });
    $("question").addEventListener("input", () => this.showValues());
    $("question").addEventListener("change", (event) => {
      if (event.target.id === "custom" && !$("custom").value.trim()) return;
      if (event.target.type !== "file") this.ask(this.readQuestion());
    });
    this.whenChanged(["percentile", "metric"], () => { this.ready = this.drawCharts(); });
    this.whenChanged(["window"], () => { this.ready = this.trace(); });
    this.whenChanged(["growth"], () => {});
    $("traced").addEventListener("change", () => {
      this.change({ traced: $("traced").value });
      this.ready = this.trace();
    });
    $("figure-choice").addEventListener("change", () => {
      this.change({ figure: $("figure-choice").value });
      this.figures.show(this.question.figure);
    });
    $("worst").addEventListener("click", () => {
      const story = this.timeline?.worstWait();
      if (story) this.timeline.choose(story.request);
    });
    $("search").addEventListener("click", () => { this.ready = this.search(); });
    this.listenForFiles();
    addEventListener("hashchange", async () => {
      if (toLink(this.question) === location.hash) return;
      this.question = fromLink(location.hash);
      await this.takePacked();
      this.showQuestion();
      this.ready = this.simulate();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.drawCharts());
  }

  // Fields outside of the form that need no simulation.
  whenChanged(ids, act) {
    for (const id of ids) {
      $(id).addEventListener("change", () => {
        this.change(Object.fromEntries(ids.map((one) => [one, $(one).value])));
        act();
      });
    }
  }

  listenForFiles() {
    $("profile").addEventListener("change", (event) => this.takeFile(event.target.files[0]));
    addEventListener("dragover", (event) => {
      event.preventDefault();
      $("drop").classList.add("over");
    });
    addEventListener("dragleave", () => $("drop").classList.remove("over"));
    addEventListener("drop", (event) => {
      event.preventDefault();
      $("drop").classList.remove("over");
      this.takeFile(event.dataTransfer.files[0]);
    });
  }

  // The files that the link holds; those of a damaged one are lacking.
  async takePacked() {
    const files = await unpack(this.question.files).catch(() => ({}));
    this.files = { ...this.files, ...files };
  }

  // A profile, a trace, or the prices of a machine.
  async takeFile(file) {
    if (!file) return;
    const bytes = new Uint8Array(await file.arrayBuffer());
    if (file.name.endsWith(".toml")) {
      this.files = { ...this.files, [MACHINE_FILE]: bytes };
      this.choose("costs", MACHINE_FILE);
    } else if (new TextDecoder().decode(bytes.subarray(0, TRAFFIC_START.length)) === TRAFFIC_START) {
      this.files = { ...this.files, [TRAFFIC_FILE]: bytes };
      $("workload").value = TRAFFIC;
    } else {
      try {
        JSON.parse(new TextDecoder().decode(bytes));
      } catch (error) {
        $("problem").textContent = `${file.name} is no profile, trace or cost file: ` +
          error.message.replace(/\s+/g, " ");
        return;
      }
      this.files = { ...this.files, [PROFILE_FILE]: bytes };
      $("workload").value = PROFILE;
    }
    const packed = await pack(this.files);
    $("drop-note").textContent = packed === undefined ? "Too large for the link: send it along." : "";
    this.question = { ...this.question, files: packed ?? "" };
    this.ask(this.readQuestion());
  }

  change(fields) {
    this.question = fromLink(toLink({ ...this.question, ...fields }));
    this.remember();
  }

  ask(question) {
    this.question = question;
    this.remember();
    this.ready = this.simulate();
    return this.ready;
  }

  // The link holds the question.
  remember() {
    history.replaceState(null, "", toLink(this.question) || location.pathname + location.search);
  }

  // The name of a file that the question takes and that is not here, or undefined.
  lacking() {
    const { workload, costs } = this.question;
    if (workload === PROFILE && !this.files[PROFILE_FILE]) return "a profile";
    if (workload === TRAFFIC && !this.files[TRAFFIC_FILE]) return "a trace";
    return costs === MACHINE_FILE && !this.files[MACHINE_FILE] ? "a cost file" : undefined;
  }

  async simulate() {
    this.simulator.cancel();
    const asked = this.asked = {}; // a new one for each question
    $("problem").textContent = "";
    $("cheapest").replaceChildren();
    if (this.lacking()) {
      $("answer").textContent = `Drop ${this.lacking()} on the page first.`;
      return;
    }
    const q = this.question;
    const started = performance.now();
    $("progress").textContent = "simulating…";
    try {
      const each = (argumentsOf) => Promise.all(q.policies.map((policy) =>
        this.simulator.report(argumentsOf(q, policy), { files: this.files })));
      const reports = await each(runArguments);
      if (this.asked !== asked) return;
      this.reports = reports;
      this.sweeps = [];
      this.showFigures();
      await Promise.all([this.drawCharts(), this.trace(), this.explain()]);
      const sweeps = await each(sweepArguments);
      if (this.asked !== asked) return;
      // The run at the load that was asked for is a point of its own.
      this.sweeps = sweeps.map(({ runs }, i) =>
        [...runs.filter(({ load }) => load !== reports[i].load), reports[i]]);
      this.showFigures();
      await this.drawCharts();
      $("progress").textContent = `done in ${((performance.now() - started) / 1000).toFixed(1)} s`;
    } catch (error) {
      if (this.asked === asked) this.refuse(error);
    }
  }

  refuse(error) {
    if (error.message === "cancelled") return;
    $("progress").textContent = "";
    $("answer").textContent = "This cannot be simulated.";
    $("problem").textContent = error.message.replace(/^rubato: /, "");
  }

  showFigures() {
    const q = this.question;
    const swept = this.sweeps.length > 0;
    const rows = rowsOf(this.reports, this.sweeps);
    $("answer").textContent = answer(rows, q, swept);
    fillTable($("figures"), headings(q), rows.map((row) => cells(row, q, swept)));
    $("command").textContent = q.policies.map((policy) => commandLine(runArguments(q, policy)))
      .join("\n");
    $("traced").replaceChildren(...q.policies.map((policy) => new Option(policy, policy)));
    $("traced").value = q.policies.includes(q.traced) ? q.traced : q.policies[0];
    $("version").textContent = `rubato ${this.reports[0].version}`;
  }

  draw(element, chart) {
    const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
    return this.embed(element, chart, {
      actions: { export: true, source: false, compiled: false, editor: false }, renderer: "svg",
      config: looks(color("--ink"), color("--dim"), color("--line"), innerWidth < NARROW) });
  }

  // The assumptions of the model, of the first policy.
  async explain() {
    const q = this.question;
    const asked = this.asked;
    const told = await this.simulator.run(explainArguments(q, q.policies[0]), { files: this.files });
    if (this.asked !== asked) return;
    $("assumptions").textContent = told.stdout.split(/^\S+ +\d+ workers? /m)[0].trim();
  }

  async drawCharts() {
    if (this.reports.length === 0) return;
    const { metric, slo, percentile } = this.question;
    await this.draw("#distribution", distributionChart(this.reports, metric, slo));
    if (this.sweeps.length === 0) return;
    $("sweep-title").textContent = `${percentileName(percentile)} by load`;
    await this.draw("#sweep", sweepChart(this.sweeps, metric, percentile, slo));
    const { heads, rows } = sweepTable(this.sweeps, metric, percentile);
    fillTable($("sweep-table"), heads, rows);
  }

  // The traced part is in the middle of a short run, as long as some requests take.
  async trace() {
    const q = this.question;
    const policy = $("traced").value || q.policies[0];
    const report = this.reports[q.policies.indexOf(policy)];
    if (!report) return;
    const gapUs = 1e6 / report.offered_rps;
    const forUs = Math.ceil(gapUs * q.workers * q.window);
    const fromUs = Math.ceil(gapUs * TRACED_REQUESTS * 0.5);
    const asked = this.asked;
    const wanted = this.traceWanted = {};
    try {
      const { files } = await this.simulator.report(
        traceArguments(q, policy, { fromUs, forUs, requests: TRACED_REQUESTS }),
        { files: this.files, wanted: [TRACE_FILE] });
      if (this.asked !== asked || this.traceWanted !== wanted) return;
      this.showTimeline(readTrace(files[TRACE_FILE], [fromUs, fromUs + forUs]), report.types.map((type) => type.name));
    } catch (error) {
      if (this.asked === asked) this.refuse(error);
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

  // The fewest workers that meet the objective, of each policy.
  async search() {
    const q = this.question;
    const now = this.reports[0];
    if (!now) return;
    if (!q.slo) {
      $("search-progress").textContent = "The search takes an objective.";
      return;
    }
    const asked = this.asked;
    const rate = now.offered_rps * q.growth;
    const busy = now.load * q.workers * q.growth; // workers that the work alone takes
    const least = Math.max(1, Math.ceil(busy / 0.95));
    let runs = 0;
    const meets = async (policy, workers) => {
      const report = await this.simulator.report(meetsArguments(q, policy, workers, rate),
                                                 { files: this.files });
      if (this.asked === asked) $("search-progress").textContent = `${++runs} runs`;
      return report.slo.verdict === "met" && report.valid;
    };
    try {
      const found = await Promise.all(q.policies.map(async (policy) =>
        [policy, least > MOST_WORKERS ? undefined
          : await fewest((workers) => meets(policy, workers), least)]));
      if (this.asked === asked) this.showCheapest(found, rate, busy);
    } catch (error) {
      if (this.asked === asked) this.refuse(error);
    }
  }

  showCheapest(found, rate, busy) {
    const q = this.question;
    found.sort(([, a], [, b]) => (a ?? Infinity) - (b ?? Infinity));
    const [policy, workers] = found[0];
    const words = (text, name = "p") =>
      Object.assign(document.createElement(name), { textContent: text });
    const table = document.createElement("table");
    fillTable(table, ["policy", "workers", "busy"], found.map(([name, count]) =>
      [name, String(count ?? `more than ${MOST_WORKERS}`),
       count ? `${Math.round(100 * busy / count)} %` : "-"]));
    $("cheapest").replaceChildren(
      words(workers === undefined
        ? `None of them meets ${q.slo} with up to ${MOST_WORKERS} workers.`
        : `${policy} with ${workers} ${workers === 1 ? "worker" : "workers"} is the cheapest that meets ${q.slo} at ${Math.round(rate).toLocaleString("en")} requests per second.`),
      table, words("Settings of the policies as well, which takes minutes, in a shell:"),
      words(commandLine(tuneArguments(q, rate)), "pre"));
    $("search-progress").textContent = "";
  }
}

// `rows` are lists of texts; the first cell of each is a heading.
function fillTable(table, heads, rows) {
  const cell = (text, tag = "td") => Object.assign(document.createElement(tag), { textContent: text });
  const head = document.createElement("tr");
  head.append(...heads.map((text) => Object.assign(cell(text, "th"), { scope: "col" })));
  table.replaceChildren(head, ...rows.map(([first, ...others]) => {
    const line = document.createElement("tr");
    line.append(Object.assign(cell(first, "th"), { scope: "row" }), ...others.map((text) => {
      const made = cell(text);
      made.className = /(met|missed)$/.exec(text)?.[0] ?? "";
      return made;
    }));
    return line;
  }));
}
