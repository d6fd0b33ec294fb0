// SPDX-License-Identifier: Apache-2.0
//
// node site/million.mjs [PAGE]: how long a million requests of each policy take in Chromium, on one
// worker of the page, the median of three runs. Prints a row per policy.
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { Chromium, found } from "./test/browser/chromium.js";

const REQUESTS = 1000000;
const RUNS = 3;
if (!found()) {
  console.error("million: there is no chromium");
  process.exit(1);
}
const page = pathToFileURL(resolve(process.argv[2] ?? "build/site/index.html")).href;
const browser = await Chromium.start();
const tab = await browser.open(`${page}#requests=20000`);
await tab.until("globalThis.rubatoPage?.catalog && rubatoPage.reports.length > 0");
await tab.evaluate("rubatoPage.ready");
const policies = await tab.evaluate("rubatoPage.catalog.map(({ name }) => name)");
for (const policy of policies) {
  const times = [];
  for (let run = 0; run < RUNS; ++run) {
    times.push(await tab.evaluate(`(async () => {
      const args = ["sim", "--policy", "${policy}", "--workers", "14", "--workload", "zippydb",
                    "--load", "0.7", "--requests", "${REQUESTS}", "--no-wall", "--json", "-"];
      const began = performance.now();
      await rubatoPage.simulator.report(args);
      return performance.now() - began;
    })()`));
  }
  times.sort((a, b) => a - b);
  console.log(`${policy.padEnd(16)} ${(times[1] / 1000).toFixed(2)} s ` +
              `(${(times[0] / 1000).toFixed(2)} to ${(times[2] / 1000).toFixed(2)})`);
}
await browser.stop();
