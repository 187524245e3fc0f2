// SPDX-License-Identifier: Apache-2.0
// A daemon, a proxy that serves it below a path, a browser, and pages that tell what went wrong.
import { spawn } from "node:child_process";
import assert from "node:assert/strict";
import http from "node:http";
import { createRequire } from "node:module";
import { existsSync, mkdirSync } from "node:fs";

export const ROOT = new URL("../../", import.meta.url);
const require = createRequire(new URL("dashboard/package.json", ROOT));
const { buildSync } = require("esbuild");
const { chromium } = require("playwright-core");
const AXE = require.resolve("axe-core/axe.min.js");
const { readFileSync } = require("node:fs");

export const PREFIX = "/some/where/";
const BROWSERS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Modules of the page, bundled as the page is. */
export async function load(...paths) {
  const bundled = buildSync({
    stdin: {
      contents: paths.map((path) => `export * from "./${path}";`).join("\n"),
      resolveDir: new URL("dashboard/src", ROOT).pathname,
      loader: "ts",
    },
    bundle: true,
    write: false,
    format: "esm",
    jsx: "automatic",
    jsxImportSource: "preact",
  });
  const text = Buffer.from(bundled.outputFiles[0].text).toString("base64");
  return import(`data:text/javascript;base64,${text}`);
}

/** Starts the daemon on a free port and resolves once it says where it is. */
export async function startDaemon(...options) {
  const program = process.env.ATTENTIOND ?? new URL("build/attentiond", ROOT).pathname;
  const child = spawn(program, ["--listen", "127.0.0.1:0", "--log", "errors", ...options], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let said = "";
  const base = await new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`the daemon ended with ${code}: ${said}`)));
    child.stdout.on("data", (text) => {
      said += text;
      const found = /on (http:\/\/127\.0\.0\.1:\d+)/.exec(said);
      if (found) resolve(`${found[1]}/`);
    });
  });
  const stop = () =>
    new Promise((resolve) => {
      child.removeAllListeners("exit");
      child.once("exit", resolve);
      child.kill("SIGTERM");
    });
  return { base, stop };
}

/** A proxy that serves `target` below PREFIX, as one in front of several services does. */
export async function startProxy(target) {
  const server = http.createServer((request, answer) => {
    if (!request.url.startsWith(PREFIX)) {
      answer.writeHead(404).end("not below the prefix");
      return;
    }
    const url = new URL(request.url.slice(PREFIX.length), target);
    const onward = http.request(
      url,
      { method: request.method, headers: request.headers },
      (given) => {
        answer.writeHead(given.statusCode, given.headers);
        given.pipe(answer);
      },
    );
    onward.on("error", () => answer.writeHead(502).end());
    request.pipe(onward);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () =>
    new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    });
  return { base: `http://127.0.0.1:${server.address().port}${PREFIX}`, stop };
}

export async function startBrowser() {
  const executablePath = process.env.CHROMIUM ?? BROWSERS.find(existsSync);
  assert.ok(executablePath, "no Chromium is here: tools/setup all installs it");
  return chromium.launch({
    executablePath,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--no-first-run",
    ],
  });
}

/** A page that keeps what must not happen: violations of the policy, errors, strange addresses. */
export async function openPage(browser, base, hash = "", options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    reducedMotion: "reduce",
    colorScheme: "light",
    ...options,
  });
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => {
    if (message.text().startsWith("Canvas2D: Multiple readback")) return; // it is the tests that read
    if (["error", "warning"].includes(message.type())) faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(base) && !/^(data|blob):/.test(url)) faults.push(`asked for ${url}`);
  });
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) =>
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`),
    );
  });
  if (options.before) await options.before(page);
  await page.goto(base + hash);
  await page.waitForSelector("h1");
  return { page, faults, close: () => context.close() };
}

/** Waits until nothing is asked any more but what is polled. */
export async function settle(page) {
  await page.waitForSelector(".plot:not(.busy)");
  await page.waitForTimeout(150);
}

/** Violations of WCAG A and AA, of which axe knows; each with the place. */
export async function violations(page) {
  await page.evaluate(readFileSync(AXE, "utf8"));
  const found = await page.evaluate(() =>
    window.axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    }),
  );
  return found.violations.map(
    ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(" | ")}`,
  );
}

/** What the map's canvas has at the middle of every cell, [rows][cols][red, green, blue]. */
export function pixels(page, selector, rows, cols) {
  return page.$eval(
    selector,
    (canvas, [m, n]) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const middle = (cell, cells, size) => Math.floor(((cell + 0.5) * size) / cells);
      const pixel = (i, j) => {
        const at = 4 * (middle(i, m, canvas.height) * canvas.width + middle(j, n, canvas.width));
        return [...data.slice(at, at + 3)];
      };
      return Array.from({ length: m }, (_, i) => Array.from({ length: n }, (__, j) => pixel(i, j)));
    },
    [rows, cols],
  );
}

export const pixelAt = async (page, selector, row, col, rows, cols) =>
  (await pixels(page, selector, rows, cols))[row][col];

/** A picture for people, where a folder is asked for. */
export async function keepPicture(page, name, options = { fullPage: true }) {
  const folder = process.env.PICTURES;
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: `${folder}/${name}.png`, ...options });
}

/** The large map, and what its hidden cells are drawn in. */
export const MAP = ".plot .frame canvas";
export const HATCH = ["236,236,240", "176,176,188"];

/** What a button of the export menu saves. */
export async function saved(page, button) {
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.click(`#export-menu button:text-is("${button}")`),
  ]);
  return readFileSync(await download.path());
}

/** Presses Tab until the element with the focus fits; fails when it is never reached. */
export async function tabTo(page, wanted) {
  for (let i = 0; i < 160; i++) {
    await page.keyboard.press("Tab");
    const isThere = await page.evaluate(
      (selector) => document.activeElement.matches(selector),
      wanted,
    );
    if (isThere) return;
  }
  assert.fail(`${wanted} is not reached by Tab`);
}
