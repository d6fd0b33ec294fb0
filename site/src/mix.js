// SPDX-License-Identifier: Apache-2.0
//
// A mix of short and long requests as three sliders, and as the text that `--workload` takes. Pure.
// A slider of times goes from 0 to 100 over decades.

export const SHORT = { low: 0.1, high: 100 }; // µs
export const LONG = { low: 1, high: 100000 }; // µs
export const SHARE = { low: 0.1, high: 90 }; // % of the requests that are long

const round = (value) => Number(value.toPrecision(2));

export function valueOf(position, { low, high }) {
  return round(low * (high / low) ** (position / 100));
}

export function positionOf(value, { low, high }) {
  return Math.round(100 * Math.log(value / low) / Math.log(high / low));
}

// { short, long, share } in µs and %: the workload's text.
export function mixText({ short, long, share }) {
  return `short:${short}us:${Number((100 - share).toPrecision(6))},long:${long}us:${share}`;
}

// The mix of a text that mixText wrote, or null for any other.
export function mixOf(text) {
  const found = /^short:([\d.]+)us:([\d.]+),long:([\d.]+)us:([\d.]+)$/.exec(text);
  if (!found) return null;
  const [short, rest, long, share] = found.slice(1).map(Number);
  return Math.abs(rest + share - 100) < 1e-6 ? { short, long, share } : null;
}
