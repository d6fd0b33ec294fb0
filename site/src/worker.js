// SPDX-License-Identifier: Apache-2.0
//
// Runs the simulator off the page's thread. Takes { module } once, then { id, args, files }; answers
// { id, status, stdout, stderr, files } with the files named in `wanted`.
import { run } from "./wasi.js";

let module;

self.onmessage = async ({ data }) => {
  if (data.module) {
    module = data.module;
    return;
  }
  try {
    const result = await run(module, { args: ["rubato", ...data.args], files: data.files });
    const files = {};
    for (const name of data.wanted ?? []) {
      const bytes = result.file(name);
      if (bytes) files[name] = new TextDecoder().decode(bytes);
    }
    self.postMessage({ id: data.id, status: result.status, stdout: result.stdout,
                       stderr: result.stderr, files });
  } catch (error) {
    self.postMessage({ id: data.id, status: 1, stdout: "", stderr: `rubato: ${error}`, files: {} });
  }
};
