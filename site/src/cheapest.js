// SPDX-License-Identifier: Apache-2.0
//
// The fewest workers with which a policy meets an objective at a rate. Pure: `ask` simulates.

export const MOST_WORKERS = 64;

// `ask(workers)` resolves to whether so many meet the objective. More workers are taken to do no
// worse. Resolves to the fewest from `least` to `most`, or undefined when not even `most` do.
export async function fewest(ask, least, most = MOST_WORKERS) {
  let missed = least - 1;
  let met;
  for (let step = 1, tried = least; met === undefined; step *= 2) {
    if (await ask(tried)) met = tried;
    else if (tried >= most) return undefined;
    else missed = tried;
    tried = Math.min(tried + step, most);
  }
  while (met - missed > 1) {
    const middle = Math.floor((met + missed) / 2);
    if (await ask(middle)) met = middle;
    else missed = middle;
  }
  return met;
}
