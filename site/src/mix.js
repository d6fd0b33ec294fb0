// SPDX-License-Identifier: Apache-2.0
//
// A mix of short and long requests as three sliders, and as the text that `--workload` takes. Pure.
// A slider is at a place in a list of round values.

const ROUND = [1, 1.5, 2, 3, 5, 7];

function rounds(low, high) {
  const values = [];
  for (let power = low; power <= high; power *= 10) {
    values.push(...ROUND.map((digits) => Number((digits * power).toPrecision(2))));
  }
  return values.filter((value) => value <= high);
}

export const SHORT = rounds(0.1, 100); // µs
export const LONG = rounds(1, 100000); // µs
export const SHARE = rounds(0.1, 70); // % of the requests that are long

// The place of the value in the list, or of its nearest.
export function positionOf(value, values) {
  const off = values.map((one) => Math.abs(Math.log(one / value)));
  return off.indexOf(Math.min(...off));
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
