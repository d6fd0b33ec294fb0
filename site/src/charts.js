// SPDX-License-Identifier: Apache-2.0
//
// The figures as Vega-Lite specifications. Pure; vega-embed draws them.
import { ccdf, merged } from "./histogram.js";

export const METRICS = {
  slowdown: { title: "slowdown", unit: "", histogram: "slowdown_histogram_thousandths", scale: 1e-3,
              of: (report, percentile) => report.slowdown?.[percentile] },
  latency: { title: "latency, µs", unit: "µs", histogram: "latency_histogram_ns", scale: 1e-3,
             of: (report, percentile) => report.latency_us?.[percentile] },
};

// The limit that an SLO sets to a percentile of all requests in this metric, or undefined.
export function limitOf(slo, metric) {
  for (const part of slo.split(",")) {
    const found = /^(p\d+)_(slowdown|latency)=([\d.]+)(ns|us|ms|s)?$/.exec(part.trim());
    if (!found || found[2] !== metric) continue;
    const inMicros = { ns: 1e-3, us: 1, ms: 1e3, s: 1e6 }[found[4] ?? "us"];
    return { percentile: found[1],
             value: Number(found[3]) * (metric === "latency" ? inMicros : 1) };
  }
  return undefined;
}

const color = (policies) => ({
  field: "policy", type: "nominal", title: null, scale: { domain: policies },
  legend: { orient: "top" },
});

const rule = (limit, channel) => ({
  data: { values: [{ limit: limit.value }] },
  mark: { type: "rule", strokeDash: [6, 4], strokeWidth: 1.5, color: "#d62728" },
  encoding: { [channel]: { field: "limit", type: "quantitative" },
              tooltip: { field: "limit", title: "SLO" } },
});

// Colours that differ for everybody, on white and on black (after Okabe and Ito).
const LINES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#999999", "#b3a800"];

// The configuration of all charts.
export function looks(ink, dim, line, narrow) {
  const axis = { labelColor: dim, titleColor: dim, titleFontWeight: "normal", gridColor: line,
                 gridOpacity: 0.6, domainColor: line, tickColor: line, labelFontSize: 11,
                 labelSeparation: 5, titleFontSize: 12 };
  return { font: "system-ui, sans-serif", axis, range: { category: LINES }, view: { stroke: line },
           legend: { labelColor: ink, labelFontSize: 12, columns: narrow ? 3 : 6,
                     symbolStrokeWidth: 3 } };
}

const base = (description) => ({
  $schema: "https://vega.github.io/schema/vega-lite/v5.json",
  description, width: "container", height: 280, background: null,
  autosize: { type: "fit", contains: "padding" },
});

// How many requests take longer, for several policies at one load.
export function distributionChart(reports, metricName, slo) {
  const metric = METRICS[metricName];
  const values = reports.flatMap((report) => {
    const histograms = report.types.map((type) => type[metric.histogram]).filter(Boolean);
    return ccdf(merged(histograms)).map(([value, share]) =>
      ({ policy: report.policy, value: value * metric.scale, share }));
  });
  const limit = limitOf(slo, metricName);
  return {
    ...base(`Share of requests beyond a ${metric.title}`),
    layer: [
      { data: { values },
        params: [{ name: "zoom", select: "interval", bind: "scales" }],
        mark: { type: "line", interpolate: "step-after", clip: true },
        encoding: {
          x: { field: "value", type: "quantitative", title: metric.title, scale: { type: "log" } },
          y: { field: "share", type: "quantitative", title: "share of requests beyond",
               scale: { type: "log" }, axis: { format: "~%" } },
          color: color(reports.map((report) => report.policy)),
          tooltip: [{ field: "policy" },
                    { field: "value", title: metric.title, format: ".4~g" },
                    { field: "share", title: "beyond", format: ".3~%" }] } },
      ...(limit ? [rule(limit, "x")] : []),
    ],
  };
}

// A percentile against the load, a line per policy.
export function sweepChart(sweeps, metricName, percentile, slo) {
  const metric = METRICS[metricName];
  const values = sweeps.flatMap((reports) => reports.map((report) =>
    ({ policy: report.policy, load: report.load, value: metric.of(report, percentile) })))
    .filter(({ value }) => value > 0);
  const limit = limitOf(slo, metricName);
  return {
    ...base(`${percentile} ${metric.title} by load`),
    layer: [
      { data: { values },
        mark: { type: "line", point: true, clip: true },
        encoding: {
          x: { field: "load", type: "quantitative", title: "load, share of capacity",
               scale: { domain: [0, 1] }, axis: { format: "~%" } },
          y: { field: "value", type: "quantitative", title: `${percentileName(percentile)} ${metric.title}`,
               scale: { type: "log" } },
          color: color(sweeps.map(([first]) => first.policy)),
          tooltip: [{ field: "policy" }, { field: "load", format: ".0%" },
                    { field: "value", title: metric.title, format: ".4~g" }] } },
      ...(limit && limit.percentile === percentile ? [rule(limit, "y")] : []),
    ],
  };
}

// The same as { heads, rows } of texts: a row per load.
export function sweepTable(sweeps, metricName, percentile) {
  const metric = METRICS[metricName];
  const loads = [...new Set(sweeps.flat().map(({ load }) => load))].sort((a, b) => a - b);
  const cell = (reports, load) => {
    const value = reports.filter((report) => report.load === load)
      .map((report) => metric.of(report, percentile))[0];
    return value === undefined || value === null ? "-" : String(Number(value.toPrecision(4)));
  };
  return { heads: ["load", ...sweeps.map(([{ policy }]) => policy)],
           rows: loads.map((load) => [`${Number((load * 100).toFixed(1))} %`,
                                      ...sweeps.map((reports) => cell(reports, load))]) };
}

// Lines over any axis: points are { line, x, value }.
export function lineChart(points, xTitle, yTitle, names) {
  return {
    ...base(`${yTitle} by ${xTitle}`),
    data: { values: points },
    mark: { type: "line", point: true, clip: true },
    encoding: {
      x: { field: "x", type: "quantitative", title: xTitle },
      y: { field: "value", type: "quantitative", title: yTitle, scale: { type: "log" } },
      color: { ...color(names), field: "line" },
      tooltip: [{ field: "line" }, { field: "x", title: xTitle },
                { field: "value", title: yTitle, format: ".4~g" }],
    },
  };
}

export function percentileName(key) {
  const digits = key.slice(1);
  return digits.length > 2 ? `p${digits.slice(0, 2)}.${digits.slice(2)}` : key;
}

// Whether the figures of a report are within its SLO, sure or not.
export const within = (report) =>
  report.slo?.figures.every(({ figure, limit }) => figure <= limit) ?? false;

// The highest load up to which the figures of every report are within the SLO, or undefined when
// even the first are not. (Whether they surely are, the shorter runs of a sweep often cannot tell.)
export function highestLoad(reports) {
  let best;
  for (const report of [...reports].sort((a, b) => a.load - b.load)) {
    if (!within(report) || report.valid === false) break;
    best = report.load;
  }
  return best;
}
