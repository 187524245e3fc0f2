// SPDX-License-Identifier: Apache-2.0
// The maps themselves: pixels against the weights of the API, the address, files that are saved.
import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import {
  HATCH,
  MAP,
  load,
  openPage,
  pixelAt,
  pixels,
  saved,
  settle,
  startBrowser,
  startDaemon,
  startProxy,
  violations,
} from "./support.mjs";

let daemon, proxy, browser, logic;

before(async () => {
  [daemon, browser, logic] = await Promise.all([
    startDaemon(),
    startBrowser(),
    load("sources/sample.ts", "maps/scale.ts", "lib/colours.ts", "lib/tensor.ts"),
  ]);
  proxy = await startProxy(daemon.base);
});
after(async () => {
  await browser?.close();
  await proxy?.stop();
  await daemon?.stop();
});

const open = (hash = "", options) => openPage(browser, proxy.base, hash, options);

async function attend(call) {
  const answer = await fetch(`${daemon.base}v1/attention`, {
    method: "POST",
    body: JSON.stringify(call),
    headers: { "Content-Type": "application/json" },
  });
  assert.equal(answer.status, 200);
  return answer.json();
}

const sampleWeights = async (options = {}) =>
  (
    await attend({
      ...logic.sample.tensors,
      ...logic.sample.options,
      return: ["weights"],
      encoding: "nested",
      ...options,
    })
  ).weights[0];

const colourOf = (value, scale = { low: 0, high: 1 }) => {
  const level = logic.levelOf(scale, value);
  return [...logic.sequential.subarray(3 * level, 3 * level + 3)];
};

test("every cell of the sample has the colour of the weight that the API gives", async () => {
  const weights = await sampleWeights();
  for (const head of [0, 1, 2, 3]) {
    const { page, faults, close } = await open(`#maps?head=${head}`);
    await settle(page);
    (await pixels(page, MAP, 8, 8)).forEach((row, i) =>
      row.forEach((pixel, j) => {
        if (j > i) assert.ok(HATCH.includes(String(pixel)), `${i},${j} is hidden, not ${pixel}`);
        else assert.deepEqual(pixel, colourOf(weights[head][i][j]), `head ${head}, ${i},${j}`);
      }),
    );
    assert.deepEqual(faults, []);
    await close();
  }
});

test("in the first seconds a true sentence stands beside the map", async () => {
  const { page, close } = await open();
  await page.waitForSelector(".headline");
  const weights = await sampleWeights();
  const row = weights[0][6],
    most = Math.max(...row);
  assert.equal(
    await page.textContent(".headline"),
    `Query 6 “sat” attends most to key ${row.indexOf(most)} “cat” (${most.toPrecision(2)}).`,
  );
  await close();
});

test("a logarithmic scale, a locked range and left out keys have their colours", async () => {
  const weights = await sampleWeights();
  const { page, close } = await open("#maps?scale=log&range=0.01:0.5&skip=2");
  await settle(page);
  for (const [i, j] of [
    [7, 0],
    [7, 4],
    [5, 2],
  ])
    assert.deepEqual(
      await pixelAt(page, MAP, i, j, 8, 6),
      colourOf(weights[0][i][j + 2], { low: 0.01, high: 0.5, isLog: true }),
    );
  assert.match(await page.textContent(".colourbar figcaption"), /logarithmic 0\.01 … 0\.5, locked/);
  await close();
});

test("an address brings everything back", async () => {
  const { page, close } = await open();
  await settle(page);
  await page.click('button:text-is("scaled")');
  await page.click('.thumbnails button:has-text("head 1")');
  await page.check('label:has-text("Lock range") input');
  await page.focus(".plot .frame");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("p");
  await page.click('button[aria-label="Zoom in"]');
  await settle(page);
  const state = (of) =>
    of.evaluate(() => [
      [...document.querySelectorAll('[aria-pressed="true"]')].map(({ textContent }) => textContent),
      document.querySelector(".colourbar figcaption").textContent,
      document.querySelector(".plot .frame canvas").toDataURL(),
      document.querySelector(".axes .pinned")?.outerHTML,
    ]);
  const again = await open(new URL(page.url()).hash);
  await settle(again.page);
  assert.match(page.url(), /stage=scaled.*head=1/);
  assert.deepEqual(await state(again.page), await state(page));
  await Promise.all([close(), again.close()]);
});

test("files: what is saved is what is seen", async () => {
  const weights = await sampleWeights();
  const { page, faults, close } = await open("#maps?head=1");
  await settle(page);
  await page.click("#export-menu summary");
  const npy = await saved(page, "npy");
  const numbers = new Float32Array(
    npy.buffer.slice(npy.byteOffset + 10 + npy.readUInt16LE(8), npy.byteOffset + npy.length),
  );
  weights[1]
    .flat()
    .forEach((weight, at) =>
      at % 8 > Math.floor(at / 8)
        ? assert.ok(Number.isNaN(numbers[at]))
        : assert.equal(numbers[at], Math.fround(weight)),
    );
  const lines = (await saved(page, "CSV")).toString().trim().split("\n");
  assert.equal(lines.length, 65);
  assert.equal(lines[1 + 9], `1,1,cat,cat,${Math.fround(weights[1][1][1])},false`);
  assert.equal(lines[2], "0,1,The,cat,,true");
  assert.equal((await saved(page, "PNG")).subarray(1, 4).toString(), "PNG");
  const svg = (await saved(page, "SVG")).toString();
  assert.equal(svg.match(/<rect x=/g).length >= 64, true);
  assert.match(svg, /logarithmic|linear/);
  assert.deepEqual(faults, []);
  await close();
});

test("another mask is previewed by the daemon, run, and stands in the address", async () => {
  const { page, close } = await open("#maps?head=3");
  await settle(page);
  await page.click('summary:has-text("Edit, look, run")');
  await page.check('.inspector label:has-text("window") input');
  await page.fill('label:has-text("to the right") input', "0");
  await page.keyboard.press("Enter");
  await page.waitForSelector('canvas[aria-label*=": 21 of 64 cells"]');
  await page.click(".preview", { position: { x: 4, y: 4 } });
  await page.waitForSelector('canvas[aria-label*=": 20 of 64 cells"]');
  await page.click('button:text-is("Run")');
  await page.waitForFunction(() => /window/.test(document.querySelector(".facts").textContent));
  await settle(page);
  assert.ok(HATCH.includes(String(await pixelAt(page, MAP, 0, 0, 8, 8))));
  assert.deepEqual(await pixelAt(page, MAP, 4, 4, 8, 8), colourOf(Math.fround(1 / 3)));
  assert.match(decodeURIComponent(page.url()), /"window"/);
  await close();
});

test("two maps: the difference and where it is largest", async () => {
  const [a, b] = await sampleWeights();
  const { page, close } = await open("#maps?head=0&with=sample&withhead=1&compare=distance");
  await page.waitForSelector(".compare .frame canvas");
  await settle(page);
  const most = Math.max(...a.flat().map((weight, at) => Math.abs(weight - b.flat()[at])));
  const said = Number(await page.textContent(".compare p strong"));
  assert.ok(Math.abs(said - most) < 1e-5, `${said}, ${most}`);
  await page.click('button:text-is("Pin it")');
  await page.waitForSelector(".inspector .topkeys");
  assert.match(page.url(), /cell=\d/);
  await close();
});

test("two maps stand side by side where there is room, and above each other where there is none", async () => {
  const { page, faults, close } = await open("#maps?with=sample&withhead=1&compare=side");
  await page.waitForSelector(".half >> nth=1");
  await settle(page);
  const boxes = () =>
    page.$$eval(".half canvas", (list) =>
      list.map((canvas) => {
        const { left, right, top } = canvas.getBoundingClientRect();
        return { left, right, top };
      }),
    );
  for (const width of [1920, 1280, 1100]) {
    await page.setViewportSize({ width, height: 900 });
    await page.waitForTimeout(200);
    const [a, b] = await boxes();
    assert.ok(a.top === b.top && a.right < b.left && b.right < width, `${width} wide`);
  }
  assert.deepEqual(await violations(page), []);
  const second = ".half:nth-child(2) .frame";
  await page.click(`${second} canvas`, { position: { x: 4, y: 4 } });
  await page.focus(second);
  await page.keyboard.press("+");
  await page.waitForSelector(".minimap");
  await page.waitForFunction(
    () =>
      new Set([...document.querySelectorAll(".half .axes")].map((a) => a.textContent)).size === 1,
  );
  await page.setViewportSize({ width: 560, height: 900 });
  await page.waitForTimeout(200);
  const [a, b] = await boxes();
  assert.ok(a.left === b.left && b.top > a.top + 100);
  assert.deepEqual(faults, []);
  await close();
});

test("the cell's numbers are the API's", async () => {
  const { page, close } = await open("#maps?cell=6,1");
  await page.waitForSelector(".inspector .topkeys");
  const numbers = Object.fromEntries(
    await page.$$eval(".inspector dl:first-of-type div", (rows) =>
      rows.map((row) => [row.children[0].textContent, row.children[1].textContent]),
    ),
  );
  const at = async (stage) => (await sampleWeights({ weights: { stage } }))[0][6][1];
  assert.equal(Number(numbers["q·k"]), Number((await at("raw")).toPrecision(6)));
  assert.equal(Number(numbers["× scale"]), Number((await at("scaled")).toPrecision(6)));
  assert.equal(Number(numbers.weight), Number((await at("weights")).toPrecision(6)));
  await close();
});
