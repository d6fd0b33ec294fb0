// SPDX-License-Identifier: Apache-2.0
//
// As much of WASI (preview 1) as the simulator asks for: arguments, a clock, files in memory under
// one folder, standard output and error. A program that asks for more gets ENOSYS.

const ERRNO = { success: 0, badf: 8, exist: 20, inval: 28, noent: 44, nosys: 52 };
const PREOPEN = 3; // the descriptor of the folder
const OFLAG_CREATE = 1;
const OFLAG_EXCLUSIVE = 4;
const OFLAG_TRUNCATE = 8;
const FILETYPE = { character: 2, folder: 3, regular: 4 };

export class Exit extends Error {
  constructor(status) {
    super(`exit ${status}`);
    this.status = status;
  }
}

// Bytes that grow by doubling.
class Growing {
  constructor(bytes = new Uint8Array(0)) {
    this.bytes = bytes;
    this.length = bytes.length;
  }

  write(at, chunk) {
    const end = at + chunk.length;
    if (end > this.bytes.length) {
      const grown = new Uint8Array(Math.max(end, 2 * this.bytes.length, 4096));
      grown.set(this.bytes.subarray(0, this.length));
      this.bytes = grown;
    }
    this.bytes.set(chunk, at);
    this.length = Math.max(this.length, end);
  }

  content() {
    return this.bytes.subarray(0, this.length);
  }
}

// A run of the program `args` with `files`, name to Uint8Array. `onOutput(descriptor, text)` hears
// what is written to 1 and 2 as it comes; `output(descriptor)` and `file(name)` have all of it.
export class Wasi {
  constructor({ args, files = {}, onOutput = () => {} }) {
    const encoder = new TextEncoder();
    this.args = args.map((text) => encoder.encode(`${text}\0`));
    this.files = new Map(Object.entries(files).map(([name, bytes]) => [name, new Growing(bytes)]));
    this.onOutput = onOutput;
    this.streams = new Map([[1, new Growing()], [2, new Growing()]]);
    this.decoders = new Map([[1, new TextDecoder()], [2, new TextDecoder()]]);
    this.open = new Map();
    this.nextDescriptor = PREOPEN + 1;
  }

  output(descriptor) {
    return new TextDecoder().decode(this.streams.get(descriptor).content());
  }

  file(name) {
    return this.files.get(name)?.content();
  }

  // Runs the instantiated module to its end and returns its exit status.
  start(instance) {
    this.memory = instance.exports.memory;
    try {
      instance.exports._start();
      return 0;
    } catch (error) {
      if (error instanceof Exit) return error.status;
      throw error;
    }
  }

  get view() {
    return new DataView(this.memory.buffer);
  }

  // The functions of wasi_snapshot_preview1 for `module`: those it imports and we lack say ENOSYS.
  imports(module) {
    const functions = {};
    for (const { name } of WebAssembly.Module.imports(module)) {
      const known = this[name];
      functions[name] = known ? known.bind(this) : () => ERRNO.nosys;
    }
    return { wasi_snapshot_preview1: functions };
  }

  writeList(list, pointers, buffer) {
    const view = this.view;
    list.forEach((bytes, i) => {
      view.setUint32(pointers + 4 * i, buffer, true);
      new Uint8Array(this.memory.buffer, buffer, bytes.length).set(bytes);
      buffer += bytes.length;
    });
    return ERRNO.success;
  }

  args_sizes_get(count, size) {
    this.view.setUint32(count, this.args.length, true);
    this.view.setUint32(size, this.args.reduce((sum, bytes) => sum + bytes.length, 0), true);
    return ERRNO.success;
  }

  args_get(pointers, buffer) {
    return this.writeList(this.args, pointers, buffer);
  }

  environ_sizes_get(count, size) {
    this.view.setUint32(count, 0, true);
    this.view.setUint32(size, 0, true);
    return ERRNO.success;
  }

  environ_get() {
    return ERRNO.success;
  }

  clock_time_get(id, precision, out) {
    const ms = id === 0 ? Date.now() : performance.now();
    this.view.setBigUint64(out, BigInt(Math.round(ms * 1e6)), true);
    return ERRNO.success;
  }

  random_get(at, length) {
    crypto.getRandomValues(new Uint8Array(this.memory.buffer, at, length));
    return ERRNO.success;
  }

  proc_exit(status) {
    throw new Exit(status);
  }

  fd_prestat_get(descriptor, out) {
    if (descriptor !== PREOPEN) return ERRNO.badf;
    this.view.setUint32(out, 0, true);
    this.view.setUint32(out + 4, 1, true);
    return ERRNO.success;
  }

  fd_prestat_dir_name(descriptor, at) {
    if (descriptor !== PREOPEN) return ERRNO.badf;
    this.view.setUint8(at, "/".charCodeAt(0));
    return ERRNO.success;
  }

  fd_fdstat_get(descriptor, out) {
    const kind = descriptor < PREOPEN ? FILETYPE.character
      : descriptor === PREOPEN ? FILETYPE.folder
        : this.open.has(descriptor) ? FILETYPE.regular : undefined;
    if (kind === undefined) return ERRNO.badf;
    const view = this.view;
    view.setUint8(out, kind);
    view.setUint16(out + 2, 0, true);
    view.setBigUint64(out + 8, ~0n, true); // every right
    view.setBigUint64(out + 16, ~0n, true);
    return ERRNO.success;
  }

  writeStatus(out, kind, size) {
    const view = this.view;
    new Uint8Array(this.memory.buffer, out, 64).fill(0);
    view.setUint8(out + 16, kind);
    view.setBigUint64(out + 32, BigInt(size), true);
    return ERRNO.success;
  }

  fd_filestat_get(descriptor, out) {
    const opened = this.open.get(descriptor);
    if (opened) return this.writeStatus(out, FILETYPE.regular, opened.file.length);
    if (descriptor === PREOPEN) return this.writeStatus(out, FILETYPE.folder, 0);
    return descriptor < PREOPEN ? this.writeStatus(out, FILETYPE.character, 0) : ERRNO.badf;
  }

  path_filestat_get(folder, lookup, path, pathLength, out) {
    const file = this.files.get(this.text(path, pathLength));
    return file ? this.writeStatus(out, FILETYPE.regular, file.length) : ERRNO.noent;
  }

  text(at, length) {
    return new TextDecoder().decode(new Uint8Array(this.memory.buffer, at, length));
  }

  path_open(folder, lookup, path, pathLength, oflags, rights, inheriting, fdflags, out) {
    const name = this.text(path, pathLength);
    if (!this.files.has(name)) {
      if (!(oflags & OFLAG_CREATE)) return ERRNO.noent;
      this.files.set(name, new Growing());
    } else if (oflags & OFLAG_EXCLUSIVE) {
      return ERRNO.exist;
    }
    if (oflags & OFLAG_TRUNCATE) this.files.set(name, new Growing());
    this.open.set(this.nextDescriptor, { file: this.files.get(name), at: 0 });
    this.view.setUint32(out, this.nextDescriptor++, true);
    return ERRNO.success;
  }

  fd_close(descriptor) {
    return this.open.delete(descriptor) ? ERRNO.success : ERRNO.badf;
  }

  // Calls `use(chunk)` with each vector until it returns less than the chunk's length.
  eachVector(vectors, count, use) {
    const view = this.view;
    let moved = 0;
    for (let i = 0; i < count; ++i) {
      const at = view.getUint32(vectors + 8 * i, true);
      const length = view.getUint32(vectors + 8 * i + 4, true);
      const now = use(new Uint8Array(this.memory.buffer, at, length));
      moved += now;
      if (now < length) break;
    }
    return moved;
  }

  fd_write(descriptor, vectors, count, out) {
    const opened = this.open.get(descriptor);
    const stream = this.streams.get(descriptor);
    if (!opened && !stream) return ERRNO.badf;
    const moved = this.eachVector(vectors, count, (chunk) => {
      if (opened) {
        opened.file.write(opened.at, chunk);
        opened.at += chunk.length;
      } else {
        stream.write(stream.length, chunk);
        const text = this.decoders.get(descriptor).decode(chunk, { stream: true });
        this.onOutput(descriptor, text);
      }
      return chunk.length;
    });
    this.view.setUint32(out, moved, true);
    return ERRNO.success;
  }

  // Standard input is empty.
  fd_read(descriptor, vectors, count, out) {
    const opened = this.open.get(descriptor);
    if (!opened && descriptor !== 0) return ERRNO.badf;
    return this.readAt(opened ?? { file: new Growing(), at: 0 }, vectors, count, out);
  }

  fd_pread(descriptor, vectors, count, offset, out) {
    const opened = this.open.get(descriptor);
    if (!opened) return ERRNO.badf;
    return this.readAt({ file: opened.file, at: Number(offset) }, vectors, count, out);
  }

  // Reads from `place`, { file, at }, and moves it.
  readAt(place, vectors, count, out) {
    const moved = this.eachVector(vectors, count, (chunk) => {
      const content = place.file.content().subarray(place.at, place.at + chunk.length);
      chunk.set(content);
      place.at += content.length;
      return content.length;
    });
    this.view.setUint32(out, moved, true);
    return ERRNO.success;
  }

  fd_seek(descriptor, offset, whence, out) {
    const opened = this.open.get(descriptor);
    if (!opened) return ERRNO.badf;
    const from = [0, opened.at, opened.file.length][whence];
    const at = from + Number(offset);
    if (from === undefined || at < 0) return ERRNO.inval;
    opened.at = at;
    this.view.setBigUint64(out, BigInt(at), true);
    return ERRNO.success;
  }
}

// Runs the program once: { status, stdout, stderr, file(name) }.
export async function run(module, { args, files, onOutput }) {
  const wasi = new Wasi({ args, files, onOutput });
  const instance = await WebAssembly.instantiate(module, wasi.imports(module));
  const status = wasi.start(instance);
  return { status, stdout: wasi.output(1), stderr: wasi.output(2), file: (name) => wasi.file(name) };
}
