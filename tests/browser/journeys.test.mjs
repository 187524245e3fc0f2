// SPDX-License-Identifier: Apache-2.0
// What three people come for, by keyboard alone: a student, an engineer, an operator.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import test, { after, before } from "node:test";
import {
  keepPicture,
  load,
  openPage,
  settle,
  startBrowser,
  startDaemon,
  tabTo,
  violations,
} from "./support.mjs";

let daemon, browser;

before(async () => {
  [daemon, browser] = await Promise.all([startDaemon("--captures"), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await daemon?.stop();
});

const number = (text) => Number(text.replace("−", "-").replace(/\s%/, ""));

test("a student learns why scores are divided, and repeats it from code", async () => {
  const { page, faults, close } = await openPage(browser, daemon.base);
  await tabTo(page, '.top a[href="#lab"]');
  await page.keyboard.press("Enter");
  await page.waitForSelector("#question");
  assert.equal(await page.$(".chart"), null, "the answer is seen before the guess");
  await tabTo(page, '[aria-label="Your guess"] button:last-child');
  await page.keyboard.press("Enter");
  await page.waitForSelector(".chart canvas");
  await page.waitForSelector("table >> text=512");
  await page.waitForSelector('h2:text-is("q·k for d = 512")'); // what the guess was about
  const cells = await page.$$eval(
    "table",
    (tables) =>
      [...tables].find((table) => /queries and keys/.test(table.caption.textContent)).innerText,
  );
  const rows = Object.fromEntries(
    cells
      .split("\n")
      .filter((line) => /^\d+\t/.test(line))
      .map((line) => line.split("\t").map(number))
      .map(([size, ...values]) => [size, values]),
  );
  // d, then variance, largest weight, bits, % above 0.99, 1 − Σp², and scaled: weight, bits, 1 − Σp².
  const expected = {
    4: [
      [4.1, 0.6],
      [0.26, 0.05],
      [4.12, 0.25],
      [0, 1],
      [0.86, 0.04],
    ],
    64: [
      [63.6, 6],
      [0.8, 0.08],
      [0.82, 0.25],
      [20, 12],
      [0.28, 0.1],
    ],
    512: [
      [510.6, 50],
      [0.94, 0.04],
      [0.23, 0.12],
      [64, 15],
      [0.09, 0.05],
    ],
  };
  for (const [size, columns] of Object.entries(expected)) {
    columns.forEach(([value, distance], column) =>
      assert.ok(Math.abs(rows[size][column] - value) <= distance, `d = ${size}: ${rows[size]}`),
    );
    assert.ok(
      Math.abs(rows[size][5] - 0.11) <= 0.02 && Math.abs(rows[size][6] - 5.33) <= 0.1,
      rows[size],
    );
    assert.ok(Math.abs(rows[size][7] - 0.96) <= 0.02);
    // Divided by d: a variance of 1/d lets all of 64 keys weigh 1/64, and leaves all of 6 bits.
    assert.ok(Math.abs(rows[size][8] - 0.016 * (1 + 2.6 / Math.sqrt(size))) <= 0.01, rows[size]);
    assert.ok(Math.abs(rows[size][9] - 6) <= 1.5 / size, rows[size]);
  }
  const facts = async (divisor, place) => {
    await tabTo(page, `[aria-label="Divided by"] button:nth-child(${place})`);
    await page.keyboard.press("Enter");
    await page.waitForSelector(`dl:has-text("variance of ${divisor}")`);
    return (await page.textContent("dl >> nth=0")).match(/[\d.]+/g).map(Number);
  };
  await tabTo(page, 'input[type="range"]');
  for (const [key, size] of [
    ["Home", 1],
    ["ArrowRight", 2],
    ["PageUp", 4],
    ["ArrowUp", 5],
    ["End", 512],
  ]) {
    await page.keyboard.press(key);
    await page.waitForFunction((d) => new RegExp(`d=${d}(&|$)`).test(location.hash), size);
    await page.waitForSelector(`h2:text-is("q·k for d = ${size}")`);
  }
  const divided = await facts("q·k / d", 3);
  assert.ok(Math.abs(divided[0] * 512 - 1) < 0.2, `${divided}`);
  assert.match(page.url(), /divisor=d/);
  assert.match(await page.textContent("#effect"), /nothing is chosen/);
  const code = await page.$eval('pre[aria-label="Python"]', (pre) => pre.textContent);
  assert.match(code, /"scale": 0\.001953125/);
  assert.ok(Math.abs((await facts("q·k / √d", 2))[0] - 1) < 0.2);
  await page.waitForSelector("table >> text=535.53");
  const published = await page.$$eval("table", (tables) => [...tables].at(-1).innerText);
  for (const text of ["4.03", "62.57", "535.53"]) assert.ok(published.includes(text), text);
  const curl = await page.$eval('pre[aria-label="curl"]', (pre) => pre.textContent);
  assert.match(execFileSync("bash", ["-c", curl], { encoding: "utf8" }), /"variance":535\.53/);
  assert.match(page.url(), /guess=0\.9/);
  assert.deepEqual(faults, []);
  await close();
});

test("the map is walked by keys, and tells what it shows", async () => {
  const { page, close } = await openPage(browser, daemon.base);
  await settle(page);
  await tabTo(page, ".frame");
  for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"])
    await page.keyboard.press(key);
  await page.waitForTimeout(500);
  assert.match(
    await page.textContent('.bigmap [aria-live="polite"]'),
    /^query 2 “I”, key 1 “cat”: 0\.3333$/,
  );
  await page.keyboard.press("Enter");
  await page.waitForSelector(".inspector .topkeys");
  const pressed = async (key, pattern) => {
    await page.keyboard.press(key);
    await page.waitForTimeout(50);
    assert.match(page.url(), pattern, key);
  };
  await pressed("]", /head=1/);
  await pressed("[", /head=0/);
  await pressed("l", /scale=log/);
  await pressed("m", /stage=mask/);
  await pressed("m", /^(?!.*stage=mask)/);
  await pressed("+", /rows=/);
  await pressed("0", /^(?!.*rows=)/);
  await pressed("c", /withhead=mean/);
  await pressed("c", /^(?!.*withhead)/);
  await pressed("s", /stage=raw/);
  await page.keyboard.press("/");
  await page.keyboard.type("monday");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /cell=2%2C5/.test(location.hash));
  await page.focus(".frame");
  await page.keyboard.press("e");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "PNG");
  await page.focus(".frame");
  await pressed("?", /#help/);
  await close();
});

test("an operator sees how fast answers are, and follows a slow one to its map", async () => {
  const call = (more) =>
    fetch(`${daemon.base}v1/attention`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        q: [[1, 0]],
        k: [
          [1, 0],
          [0, 1],
        ],
        v: [[1], [2]],
        ...more,
      }),
    });
  for (let i = 0; i < 20; i++) await call({});
  assert.equal((await call({ nonsense: 1 })).status, 422);
  const many = Array.from({ length: 1500 }, (_, i) => [Math.sin(i), Math.cos(i)]);
  // By plain loops, so that nothing else here is slower.
  const slow = { q: many, k: many, v: many, kernel: "reference", capture: { name: "slow" } };
  assert.equal((await call(slow)).status, 200);
  const { page, faults, close } = await openPage(browser, daemon.base);
  await tabTo(page, '.top a[href="#latency"]');
  await page.keyboard.press("Enter");
  await page.waitForSelector(".chart canvas");
  assert.match(await page.textContent(".queue"), /^queue \d+ of \d+$/);
  await page.$$eval("details", (list) =>
    list.forEach((one) => {
      one.open = true;
    }),
  );
  const table = (title) =>
    page.$$eval(
      "table",
      (tables, text) => [...tables].find(({ caption }) => caption.textContent === text).innerText,
      title,
    );
  const [, ...head] = (await table("Answers per second, by status")).split("\n")[1].split("\t");
  assert.deepEqual(head, ["200, 1/s", "422, 1/s"]);
  const quantiles = (await table("Milliseconds from request to answer"))
    .trim()
    .split("\n")
    .map((row) => row.split("\t").slice(1).map(number))
    .findLast((row) => row.length > 2 && row.every(Number.isFinite)); // the newest step may have no call yet
  assert.ok(
    quantiles[0] > 0 && quantiles[0] <= quantiles[1] && quantiles[1] <= quantiles[2],
    quantiles,
  );
  await tabTo(page, ".latency > .field input");
  await page.keyboard.type("5");
  await page.keyboard.press("Enter");
  assert.match(page.url(), /slo=5/);
  assert.deepEqual(await violations(page), []);
  await keepPicture(page, "latency-with-data");
  await tabTo(page, 'td a[href^="#maps"]');
  await page.keyboard.press("Enter");
  await page.waitForSelector('h1:text-is("slow")');
  assert.deepEqual(faults, []);
  await close();
});

test("the snippets run as they stand", async () => {
  const { page, close } = await openPage(browser, daemon.base, "#send");
  const { SNIPPETS } = await load("pages/snippets.ts");
  const run = {
    curl: ["bash", "-c"],
    Python: ["python3", "-c"],
    Node: [process.execPath, "--input-type=module", "-e"],
  };
  for (const [language, make] of SNIPPETS) {
    await page.click(`button:text-is("${language}")`);
    const text = await page.$eval(".snippet pre", (pre) => pre.textContent);
    assert.equal(text, make(daemon.base));
    if (run[language])
      assert.match(
        execFileSync(run[language][0], [...run[language].slice(1), text], {
          encoding: "utf8",
        }),
        /0\.66976/,
        language,
      );
  }
  await close();
});
