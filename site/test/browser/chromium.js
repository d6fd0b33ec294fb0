// SPDX-License-Identifier: Apache-2.0
//
// A headless Chromium over its debugging pipe, without a library: see
// https://chromedevtools.github.io/devtools-protocol/. One page per `open`.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];

// The program, or undefined.
export function found() {
  const folders = (process.env.PATH ?? "").split(delimiter);
  return NAMES.flatMap((name) => folders.map((folder) => join(folder, name))).find(existsSync);
}

export class Chromium {
  static async start() {
    const folder = await mkdtemp(join(tmpdir(), "rubato-page-"));
    const child = spawn(found(), [
      "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
      "--hide-scrollbars", "--force-device-scale-factor=1", "--font-render-hinting=none",
      `--user-data-dir=${folder}`, "about:blank",
    ], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    return new Chromium(child, folder);
  }

  constructor(child, folder) {
    this.child = child;
    this.folder = folder;
    this.waiting = new Map();
    this.listeners = [];
    this.next = 1;
    let rest = "";
    child.stdio[4].setEncoding("utf8").on("data", (text) => {
      const messages = (rest + text).split("\0");
      rest = messages.pop();
      for (const message of messages) this.take(JSON.parse(message));
    });
  }

  take({ id, method, params, result, error, sessionId }) {
    if (id === undefined) {
      for (const listen of this.listeners) listen({ method, params, sessionId });
      return;
    }
    const { resolve, reject } = this.waiting.get(id);
    this.waiting.delete(id);
    if (error) reject(new Error(error.message));
    else resolve(result);
  }

  send(method, params = {}, sessionId = undefined) {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }

  // A page of that size at `url`, loaded.
  async open(url, { width = 1280, height = 900, dark = false, mobile = false } = {}) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Tab(this, sessionId, targetId);
    await page.send("Page.enable");
    await page.send("Runtime.enable");
    await page.send("Emulation.setDeviceMetricsOverride",
                    { width, height, deviceScaleFactor: 1, mobile });
    await page.send("Emulation.setEmulatedMedia",
                    { features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
    await page.send("Page.navigate", { url });
    return page;
  }

  async stop() {
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill();
    await ended;
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

class Tab {
  constructor(browser, session, target) {
    this.browser = browser;
    this.session = session;
    this.target = target;
    this.errors = []; // uncaught, and logged as errors
    browser.listeners.push(({ method, params, sessionId }) => {
      if (sessionId !== session) return;
      if (method === "Runtime.exceptionThrown") {
        this.errors.push(params.exceptionDetails.exception?.description
                         ?? params.exceptionDetails.text);
      }
      if (method === "Runtime.consoleAPICalled" && params.type === "error") {
        this.errors.push(params.args.map((arg) => arg.value ?? arg.description).join(" "));
      }
    });
  }

  send(method, params) {
    return this.browser.send(method, params, this.session);
  }

  // The value of an expression, awaited; it is JSON.
  async evaluate(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate",
      { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? "thrown");
    return result.value;
  }

  // Until the expression is true.
  async until(expression) {
    while (!(await this.evaluate(`Boolean(${expression})`))) {
      if (this.errors.length > 0) throw new Error(this.errors.join("\n"));
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  text(selector) {
    return this.evaluate(`document.querySelector(${JSON.stringify(selector)}).textContent`);
  }

  // The middle of an element, or a point at a share of its width, scrolled into view.
  async point(selector, share = 0.5) {
    return this.evaluate(`(() => {
      const element = document.querySelector(${JSON.stringify(selector)});
      element.scrollIntoView({ block: "center", behavior: "instant" });
      const box = element.getBoundingClientRect();
      return { x: box.left + box.width * ${share}, y: box.top + box.height / 2 };
    })()`);
  }

  mouse(type, at, buttons = 0) {
    return this.send("Input.dispatchMouseEvent",
      { type, ...at, button: type === "mouseMoved" && buttons === 0 ? "none" : "left", buttons,
        clickCount: 1 });
  }

  async click(selector) {
    const at = await this.point(selector);
    await this.mouse("mousePressed", at, 1);
    await this.mouse("mouseReleased", at);
  }

  // Presses at one share of an element's width and lets go at another.
  async drag(selector, from, to) {
    await this.mouse("mousePressed", await this.point(selector, from), 1);
    await this.mouse("mouseMoved", await this.point(selector, (from + to) / 2), 1);
    await this.mouse("mouseMoved", await this.point(selector, to), 1);
    await this.mouse("mouseReleased", await this.point(selector, to));
  }

  async press(key, code = key, text = undefined) {
    const virtual = { ArrowRight: 39, ArrowLeft: 37, Tab: 9, " ": 32, Enter: 13 }[key];
    await this.send("Input.dispatchKeyEvent",
                    { type: "keyDown", key, code, text, windowsVirtualKeyCode: virtual });
    await this.send("Input.dispatchKeyEvent",
                    { type: "keyUp", key, code, windowsVirtualKeyCode: virtual });
  }

  // A PNG of the window, or of the whole page, as base64.
  async screenshot({ whole = false } = {}) {
    const { data } = await this.send("Page.captureScreenshot", { captureBeyondViewport: whole });
    return data;
  }

  // The share of pixels that differ between two screenshots; 1 if their sizes do.
  differing(first, second) {
    return this.evaluate(`(async () => {
      const pixels = async (png) => {
        const bytes = Uint8Array.from(atob(png), (c) => c.charCodeAt(0));
        const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
        const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
        context.drawImage(image, 0, 0);
        return context.getImageData(0, 0, image.width, image.height);
      };
      const [a, b] = [await pixels("${first}"), await pixels("${second}")];
      if (a.width !== b.width || a.height !== b.height) return 1;
      const left = new Uint32Array(a.data.buffer), right = new Uint32Array(b.data.buffer);
      return left.reduce((sum, pixel, i) => sum + (pixel !== right[i]), 0) / left.length;
    })()`);
  }

  close() {
    return this.browser.send("Target.closeTarget", { targetId: this.target });
  }
}
