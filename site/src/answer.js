// SPDX-License-Identifier: Apache-2.0
//
// The answer in words and as a table's rows. Pure.
import { highestLoad, METRICS, within as isWithin } from "./charts.js";

export const percent = (share) => `${Math.round(share * 100)} %`;

export const figure = (value) =>
  (value === undefined || value === null ? "-" : String(Number(value.toPrecision(4))));

// A figure with half of its 95 % interval, if that is known.
function within(value, half) {
  return half > 0 ? `${figure(value)} ± ${Number(half.toPrecision(2))}` : figure(value);
}

// "met", "missed", or where the 95 % interval does not tell, "likely" so.
function verdict(report) {
  const told = report.slo?.verdict;
  if (told !== "unsure") return told;
  return isWithin(report) ? "likely met" : "likely missed";
}

// { report, best, met } of each policy; `best` is the highest load of its sweep that meets the SLO.
export function rowsOf(reports, sweeps) {
  return reports.map((report, i) =>
    ({ report, best: sweeps[i] && highestLoad(sweeps[i]), met: verdict(report) }));
}

export function headings(question) {
  return ["policy", "p50 µs", "p99 µs", "p99.9 µs", "p99.9 slowdown", "busy", "preemptions",
          ...(question.slo ? ["objective", "meets it up to"] : [])];
}

export function cells({ report, best, met }, question, swept) {
  const { latency_us: latency, slowdown, confidence } = report;
  const limit = !swept ? "…" : best === undefined ? "no load tried" : percent(best);
  return [report.policy, figure(latency.p50), figure(latency.p99), figure(latency.p999),
          within(slowdown?.p999, confidence?.slowdown?.p999),
          `${figure(report.utilization * 100)} %`, String(report.counters.preemptions),
          ...(question.slo ? [met ?? "-", limit] : [])];
}

// Which policy, in a sentence or two.
export function answer(rows, question, swept) {
  const tail = ({ report }) => METRICS.slowdown.of(report, "p999") ?? report.latency_us.p999;
  const ranked = [...rows].sort((a, b) => tail(a) - tail(b));
  const at = `At ${percent(question.load)} load`;
  const lowest = ranked[0].report.policy;
  if (!question.slo) return `${at} ${lowest} has the lowest p99.9 slowdown.`;
  const meeting = ranked.filter(({ met }) => met?.endsWith("met")).map(({ report }) => report.policy);
  const now = meeting.length === 0
    ? `${at} no chosen policy meets ${question.slo}; ${lowest} comes closest.`
    : `Take ${meeting[0]}. ${at} ${question.slo} is met by ${meeting.join(", ")}.`;
  const best = swept ? Math.max(...rows.map((row) => row.best ?? 0)) : 0;
  if (best === 0) return now;
  const furthest = rows.filter((row) => row.best === best).map(({ report }) => report.policy);
  return `${now} ${furthest.join(", ")} ${furthest.length > 1 ? "meet" : "meets"} it up to ` +
    `${percent(best)} load, the highest of those tried.`;
}
