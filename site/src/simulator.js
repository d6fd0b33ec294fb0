// SPDX-License-Identifier: Apache-2.0
//
// A pool of workers that run `rubato` with arguments. One run at a time each; a new question ends
// those of the old one.

export class Simulator {
  // `module` is the compiled WebAssembly, `workerUrl` the script of worker.js.
  constructor(module, workerUrl, size) {
    this.module = module;
    this.workerUrl = workerUrl;
    this.size = size;
    this.idle = [];
    this.busy = new Map(); // worker to its task
    this.queue = [];
    this.nextId = 1;
  }

  // Another pool of the same program.
  sibling() {
    return new Simulator(this.module, this.workerUrl, this.size);
  }

  // Resolves to { status, stdout, stderr, files }; rejects with "cancelled" after cancel().
  run(args, { files = {}, wanted = [] } = {}) {
    return new Promise((resolve, reject) => {
      this.queue.push({ id: this.nextId++, args, files, wanted, resolve, reject });
      this.pump();
    });
  }

  // The report that `args` print as JSON. Rejects with what the program says.
  async report(args, options) {
    const result = await this.run(args, options);
    if (result.status !== 0) throw new Error(result.stderr.trim() || `exit ${result.status}`);
    return { ...JSON.parse(result.stdout), files: result.files };
  }

  cancel() {
    const gone = [...this.queue, ...this.busy.values()];
    this.queue = [];
    for (const worker of this.busy.keys()) worker.terminate();
    this.busy.clear();
    for (const task of gone) task.reject(new Error("cancelled"));
  }

  pump() {
    while (this.queue.length > 0 && this.busy.size < this.size) {
      const task = this.queue.shift();
      const worker = this.idle.pop() ?? this.hire();
      this.busy.set(worker, task);
      const { id, args, files, wanted } = task;
      worker.postMessage({ id, args, files, wanted });
    }
  }

  hire() {
    const worker = new Worker(this.workerUrl);
    worker.onmessage = ({ data }) => {
      const task = this.busy.get(worker);
      if (task?.id !== data.id) return;
      this.busy.delete(worker);
      this.idle.push(worker);
      task.resolve(data);
      this.pump();
    };
    worker.postMessage({ module: this.module });
    return worker;
  }
}
