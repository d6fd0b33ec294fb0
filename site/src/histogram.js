// SPDX-License-Identifier: Apache-2.0
//
// The histograms of reports: buckets as in src/metrics/buckets.h, counts as in
// src/metrics/histogram_json.h. Pure. (Buckets of values from 2^34 on need more than 32 bits, so
// no bitwise operators.)

const FINE_BITS = 6;
const FINE = 2 ** FINE_BITS;
const COARSE_BITS = 3;
const COARSE = 2 ** COARSE_BITS;
const FINE_TOP_BITS = 34;
const FINE_COUNT = (FINE_TOP_BITS - FINE_BITS + 1) * FINE;
const LAYOUT = "log-linear-64-8";

export function lowOf(bucket) {
  if (bucket < 2 * FINE) return bucket;
  if (bucket < FINE_COUNT) {
    const shift = Math.floor(bucket / FINE) - 1;
    return (bucket - shift * FINE) * 2 ** shift;
  }
  const coarse = bucket - FINE_COUNT;
  const shift = Math.floor(coarse / COARSE) + FINE_TOP_BITS - COARSE_BITS;
  return (coarse % COARSE + COARSE) * 2 ** shift;
}

export function middleOf(bucket) {
  const low = lowOf(bucket);
  return low + Math.floor((lowOf(bucket + 1) - low - 1) / 2);
}

// Map(bucket, count) of one histogram of a report.
export function bucketsOf(histogram) {
  if (histogram.layout !== LAYOUT) throw new Error(`a histogram of layout ${histogram.layout}`);
  const counts = new Map();
  for (const pair of histogram.counts.split(" ").filter(Boolean)) {
    const [bucket, count] = pair.split(":").map(Number);
    counts.set(bucket, count);
  }
  return counts;
}

// The sum of several, as [[value, count]] by rising value: the middle of each bucket.
export function merged(histograms) {
  const sum = new Map();
  for (const histogram of histograms) {
    for (const [bucket, count] of bucketsOf(histogram)) {
      sum.set(bucket, (sum.get(bucket) ?? 0) + count);
    }
  }
  return [...sum].sort(([a], [b]) => a - b).map(([bucket, count]) => [middleOf(bucket), count]);
}

// [[value, share of all above it]] for [[value, count]], without the last point, which no log scale
// shows.
export function ccdf(values) {
  const total = values.reduce((sum, [, count]) => sum + count, 0);
  let above = total;
  return values.map(([value, count]) => [value, (above -= count) / total])
    .filter(([, share]) => share > 0);
}
