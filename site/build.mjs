// SPDX-License-Identifier: Apache-2.0
//
// node site/build.mjs WASM MODULES PAPERS OUT: the page as one file that needs no server. MODULES is
// the folder of the packages of site/package.json, PAPERS what `tools/reproduce.py --site` wrote.
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const [wasmFile, modules, papersFile, out] = process.argv.slice(2);
if (!out) {
  console.error("usage: node site/build.mjs WASM MODULES PAPERS OUT");
  process.exit(2);
}
const { build } = createRequire(join(resolve(modules), "any.js"))("esbuild");

async function bundled(contents, format) {
  const result = await build({
    stdin: { contents, resolveDir: here, loader: "js" },
    bundle: true, format, minify: true, write: false, legalComments: "inline",
    nodePaths: [resolve(modules)], define: { "process.env.NODE_ENV": '"production"' },
  });
  return result.outputFiles[0].text.replaceAll("</script", "<\\/script");
}

const worker = await bundled('import "./src/worker.js";', "iife");
const main = await bundled(`
  import embed from "vega-embed";
  import { start } from "./src/main.js";

  const text = (id) => document.getElementById(id).textContent;
  const unpacked = (id) => {
    const packed = Uint8Array.from(atob(text(id)), (c) => c.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")));
  };
  const workerUrl = URL.createObjectURL(new Blob([text("worker")], { type: "text/javascript" }));
  start({ wasm: await unpacked("wasm").arrayBuffer(), workerUrl,
          papers: await unpacked("paper-data").json(), embed });
`, "esm");

const packed = async (file) => gzipSync(await readFile(file), { level: 9 }).toString("base64");
const [wasm, papers] = [await packed(wasmFile), await packed(papersFile)];
const style = await readFile(join(here, "style.css"), "utf8");
const page = (await readFile(join(here, "index.html"), "utf8"))
  .replace('<link rel="stylesheet" href="style.css">', () => `<style>${style}</style>`)
  .replace('<script src="main.js" type="module"></script>', () =>
    `<script id="wasm" type="application/gzip+base64">${wasm}</script>
<script id="paper-data" type="application/gzip+base64">${papers}</script>
<script id="worker" type="text/plain">${worker}</script>
<script type="module">${main}</script>`);
await writeFile(out, page);
console.log(`${out}: ${(page.length / 1e6).toFixed(1)} MB`);
