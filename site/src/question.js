// SPDX-License-Identifier: Apache-2.0
//
// A question to the simulator: what the form holds, what a link holds, and the commands of `rubato`
// that answer it. Pure.

export const WORKLOADS = [
  ["high-bimodal", "half 1 µs, half 100 µs"],
  ["extreme-bimodal", "99.5 % 0.5 µs, 0.5 % 500 µs"],
  ["bimodal-10", "80 % 2.5 µs, 20 % 40 µs"],
  ["zippydb", "78 % 0.5, 19 % 2.5, 3 % 500 µs"],
  ["tpcc", "5.7 to 100 µs, five types"],
  ["leveldb", "half 0.92 µs, half 94 µs"],
  ["rocksdb-ht", "half 1.5 µs, half 635 µs"],
  ["usr", "99.8 % GET, 0.2 % SET"],
  ["exp-1", "exponential, mean 1 µs"],
  ["exp-10", "exponential, mean 10 µs"],
  ["fixed-1", "1 µs each"],
];

export const PROFILE_FILE = "profile.json";
export const TRAFFIC_FILE = "requests.trace";
export const MACHINE_FILE = "machine.toml";

export const DEFAULTS = Object.freeze({
  policies: ["synergy", "shinjuku", "darc", "cfcfs", "fcfs"],
  workload: "zippydb",
  workers: 14,
  load: 0.7,
  requests: 200000,
  seed: 1,
  costs: "ideal",
  slo: "p999_slowdown=50",
  metric: "slowdown",
  percentile: "p999",
  set: "",
  growth: 1, // times the rate above, of the cheapest configuration
  traced: "", // the policy of the timeline; "" = the first
  window: 20, // mean services that the timeline is long
  figure: "", // of a paper, which is open
  files: "", // dropped on the page, as in packed.js
});

const WHOLE_NUMBERS = new Set(["workers", "requests", "seed", "window"]);
const LIMITS = { workers: [1, 256], load: [0.01, 1.5], requests: [1000, 20000000],
                 seed: [0, Number.MAX_SAFE_INTEGER], growth: [0.1, 100], window: [1, 200] };

// The question of a link's part after `#`; what it lacks, and what makes no sense, is the default.
export function fromLink(hash) {
  const question = { ...DEFAULTS };
  for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (!(name in DEFAULTS)) continue;
    if (name === "policies") {
      question.policies = text.split(",").filter((policy) => /^[a-z0-9-]+$/.test(policy));
    } else if (typeof DEFAULTS[name] === "number") {
      const [low, high] = LIMITS[name];
      const value = Number(text);
      if (!(value >= low && value <= high)) continue;
      question[name] = WHOLE_NUMBERS.has(name) ? Math.round(value) : value;
    } else {
      question[name] = text;
    }
  }
  if (question.policies.length === 0) question.policies = [...DEFAULTS.policies];
  return question;
}

// The other way round; a question of defaults alone is an empty link.
export function toLink(question) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(question)) {
    if (!(name in DEFAULTS)) continue;
    if (String(value) !== String(DEFAULTS[name])) parts.set(name, String(value));
  }
  return parts.toString() ? `#${parts}` : "";
}

const settings = (question) =>
  question.set.split(/[\s,]+/).filter(Boolean).flatMap((setting) => ["--set", setting]);

// The options that every run of the question has.
function common(question) {
  return ["--workers", question.workers, "--workload", question.workload,
          "--seed", question.seed, "--costs", question.costs, ...settings(question)].map(String);
}

const slo = (question) => (question.slo ? ["--slo", question.slo] : []);

// One policy at the load asked for: its report.
export function runArguments(question, policy) {
  return ["sim", "--policy", policy, ...common(question), "--load", String(question.load),
          "--requests", String(question.requests), ...slo(question), "--no-wall", "--json", "-"];
}

export const SWEEP_LOADS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95];

// Runs of a sweep: as long as the others, but for very long ones.
const swept = (requests) => Math.min(requests, Math.max(200000, Math.round(requests / 5)));

// One policy at many loads: a report for each.
export function sweepArguments(question, policy) {
  return ["sim", "--policy", policy, ...common(question), "--loads", SWEEP_LOADS.join(","),
          "--requests", String(swept(question.requests)),
          ...slo(question), "--no-wall", "--json", "-"];
}

export const TRACE_FILE = "trace.json";

// The traced part of a run of one policy, in microseconds of virtual time.
export function traceArguments(question, policy, { fromUs, forUs, requests }) {
  return ["sim", "--policy", policy, ...common(question), "--load", String(question.load),
          "--requests", String(requests), "--trace", TRACE_FILE,
          "--trace-from", `${fromUs}us`, "--trace-for", `${forUs}us`, "--no-wall", "--json", "-"];
}

// Does `policy` with so many workers meet the SLO at `rate` requests per second?
export function meetsArguments(question, policy, workers, rate) {
  return ["sim", "--policy", policy, ...common({ ...question, workers }),
          "--rate", String(Math.round(rate)), "--requests", String(question.requests),
          ...slo(question), "--no-wall", "--json", "-"];
}

// What is modelled of one policy's run, in words.
export function explainArguments(question, policy) {
  return ["sim", "--policy", policy, ...common(question), "--load", String(question.load),
          "--requests", "1000", "--explain"];
}

// The same and the policies' settings, which takes minutes: for a shell.
export function tuneArguments(question, rate) {
  return ["tune", "--workload", question.workload, "--rate", String(Math.round(rate)),
          "--costs", question.costs, "--slo", question.slo, "--max-workers", "64",
          "--policies", question.policies.join(",")];
}

// The command as one types it. `native` runs give the same digits.
export function commandLine(args) {
  const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  return ["rubato", ...args].map(quoted).join(" ");
}
