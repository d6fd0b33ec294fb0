// SPDX-License-Identifier: Apache-2.0
//
// Small files as text of a link: name:bytes,... with the bytes compressed and in base64url.

export const MOST_CHARACTERS = 24000; // of a link's files; longer links get lost on their way

async function through(bytes, transform) {
  const stream = new Blob([bytes]).stream().pipeThrough(transform);
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The text of { name: Uint8Array }, or undefined where that is too long.
export async function pack(files) {
  const parts = await Promise.all(Object.entries(files).map(async ([name, bytes]) => {
    const packed = await through(bytes, new CompressionStream("gzip"));
    let text = "";
    for (const byte of packed) text += String.fromCharCode(byte);
    return `${name}:${btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
  }));
  const text = parts.join(",");
  return text.length <= MOST_CHARACTERS ? text : undefined;
}

// The files of such a text. Rejects what is none.
export async function unpack(text) {
  const files = await Promise.all(text.split(",").filter(Boolean).map(async (part) => {
    const [name, packed] = part.split(":");
    const bytes = Uint8Array.from(atob(packed.replaceAll("-", "+").replaceAll("_", "/")),
                                  (c) => c.charCodeAt(0));
    return [name, await through(bytes, new DecompressionStream("gzip"))];
  }));
  return Object.fromEntries(files);
}
