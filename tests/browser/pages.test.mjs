// SPDX-License-Identifier: Apache-2.0
// Every page, below a path as behind a proxy: nothing is refused by the policy, nothing is asked of
// elsewhere, nothing fails, and everyone can use it.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import test, { after, before } from "node:test";
import {
  keepPicture,
  openPage,
  settle,
  startBrowser,
  startDaemon,
  startProxy,
  violations,
} from "./support.mjs";

const PAGES = {
  maps: "#maps?cell=6,1&with=sample&withhead=1",
  lab: "#lab?guess=0.6",
  latency: "#latency",
  send: "#send?in=C",
  help: "#help",
};
const LOOKS = {
  light: {},
  dark: { colorScheme: "dark" },
  "forced colours": { forcedColors: "active" },
};
let daemon, proxy, browser;

before(async () => {
  [daemon, browser] = await Promise.all([startDaemon(), startBrowser()]);
  proxy = await startProxy(daemon.base);
});
after(async () => {
  await browser?.close();
  await proxy?.stop();
  await daemon?.stop();
});

/** Everything that is folded away, unfolded. */
const unfold = (page) =>
  page.$$eval("details", (list) =>
    list.forEach((one) => {
      one.open = true;
    }),
  );

// In brief each page is seen in one look.
const looksOf = (name) =>
  !process.env.BRIEF ? Object.keys(LOOKS) : name === "maps" ? ["dark"] : ["light"];

for (const [name, hash] of Object.entries(PAGES))
  for (const [look, options] of looksOf(name).map((one) => [one, LOOKS[one]]))
    test(`${name}, ${look}`, async () => {
      const { page, faults, close } = await openPage(browser, proxy.base, hash, options);
      if (name === "lab") await page.waitForSelector(".chart canvas");
      await unfold(page);
      await page.waitForTimeout(400);
      assert.deepEqual(await violations(page), []);
      assert.deepEqual(faults, []);
      for (const chart of await page.$$(".chart")) {
        assert.ok(await chart.$('[role="img"][aria-label]'), "a chart without a name");
        assert.ok(await chart.$("table caption"), "a chart without a table");
      }
      const unnamed = await page.$$eval(
        "canvas",
        (list) =>
          list.filter(
            (canvas) =>
              !canvas.closest(
                '[aria-hidden="true"], [role="img"][aria-label], [role="application"][aria-label]',
              ),
          ).length,
      );
      assert.equal(unnamed, 0, "a canvas without a name");
      await keepPicture(page, `${name}-${look}`);
      await page.setViewportSize({ width: 420, height: 800 });
      await page.waitForTimeout(200);
      const [wide, seen] = await page.evaluate(() => [
        document.documentElement.scrollWidth,
        innerWidth,
      ]);
      assert.ok(wide <= seen, `in a narrow window the page is ${wide} wide, and ${seen} are seen`);
      await close();
    });

test("a second visit takes scripts from the browser and asks for the page", async () => {
  const { page, close } = await openPage(browser, proxy.base);
  const answers = [];
  page.on("response", async (answer) =>
    answers.push([new URL(answer.url()).pathname, answer.status(), answer.fromServiceWorker()]),
  );
  await page.reload();
  await page.waitForSelector("h1");
  const fromNetwork = await page.evaluate(() =>
    performance
      .getEntriesByType("resource")
      .filter(({ name }) => name.includes("/assets/"))
      .map(({ transferSize }) => transferSize),
  );
  assert.deepEqual(fromNetwork, [0, 0]);
  await close();
});

test("the page says that the daemon is gone, and that it is back", async () => {
  const { base, stop } = await startDaemon();
  const { page, close } = await openPage(browser, base);
  await stop();
  await page.waitForSelector(".pill.lost", { timeout: 15_000 });
  const again = await startDaemon("--listen", new URL(base).host);
  await page.waitForSelector(".pill:not(.lost)", { timeout: 15_000 });
  await close();
  await again.stop();
});

test("the page offers to load another version of it", async () => {
  const { page, close } = await openPage(browser, proxy.base, "#help");
  await page.waitForTimeout(300);
  await page.route(proxy.base, (route) =>
    route.fulfill({ status: 200, headers: { ETag: '"another"' } }),
  );
  await page.waitForSelector('.bar button:text-is("Load it")', {
    timeout: 15_000,
  });
  await close();
});

test("where keys are on the page asks for one, and keeps it in its tab", async () => {
  const folder = mkdtempSync(`${tmpdir()}/keys-`);
  const program = process.env.ATTENTIOND ?? "build/attentiond";
  const made = spawnSync(program, ["--make-key", "viewer"], {
    encoding: "utf8",
  });
  const [key, line] = made.stdout.trim().split("\n");
  writeFileSync(`${folder}/keys`, `${line}\n`, { mode: 0o600 });
  const guarded = await startDaemon("--key-file", `${folder}/keys`);
  const { page, close } = await openPage(browser, guarded.base, "#help");
  const input = await page.waitForSelector('input[type="password"]');
  await input.fill(key);
  await page.click('button[type="submit"]');
  await page.waitForSelector(".version:not(:empty)");
  assert.equal(await page.$('input[type="password"]'), null);
  assert.equal(
    await page.evaluate((text) => JSON.stringify(localStorage).includes(text), key),
    false,
  );
  await close();
  await guarded.stop();
});

test("without its key the first screen asks for one, and says it once", async () => {
  const folder = mkdtempSync(`${tmpdir()}/keys-`);
  const made = spawnSync(process.env.ATTENTIOND, ["--make-key", "alice"], { encoding: "utf8" });
  const line = made.stdout.match(/alice sha256:\S+.*/)[0];
  writeFileSync(`${folder}/keys`, `${line}\n`);
  const locked = await startDaemon("--key-file", `${folder}/keys`);
  try {
    const { page, close } = await openPage(browser, locked.base);
    await page.waitForSelector(".bar input[type=password]");
    await page.waitForSelector("main .failure");
    const text = await page.textContent("main");
    assert.doesNotMatch(text, /Authorization|Show the sample/);
    assert.match(text, /field above/);
    await close();
  } finally {
    await locked.stop();
  }
});

test("no two series of a chart look alike, and the legend shows how they look", async () => {
  for (const path of ["v1/nothing", "v1/attention", "v1"]) await fetch(`${daemon.base}${path}`);
  await fetch(`${daemon.base}v1/attention`, {
    method: "POST",
    body: '{"q": [[1]], "k": [[1]], "v": [[1]]}',
  });
  const { page, close } = await openPage(browser, proxy.base, "#latency");
  await page.waitForSelector(".legend li");
  const legends = await page.$$eval(".legend", (lists) =>
    lists.map((list) => [...list.querySelectorAll("svg")].map((svg) => svg.outerHTML)),
  );
  for (const looks of legends) assert.equal(new Set(looks).size, looks.length);
  assert.ok(legends.some((looks) => looks.length > 3 && looks.every((one) => /<rect/.test(one))));
  assert.ok(legends.some((looks) => looks.some((one) => /stroke-dasharray="8 4"/.test(one))));
  assert.match(await page.textContent(".latency"), /rejected as busy/);
  assert.match(await page.textContent(".latency"), /at most [\d.]+\u00a0%/);
  await close();
});

test("narrow windows keep the frame to two rows", async () => {
  const { page, close } = await openPage(browser, proxy.base, "#help", {
    viewport: { width: 500, height: 800 },
  });
  const height = await page.$eval(".top", (top) => top.getBoundingClientRect().height);
  assert.ok(height < 110, `${height} pixels`);
  await close();
});

test("in a narrow window the whole map is seen", async () => {
  const { page, close } = await openPage(browser, proxy.base, "", {
    viewport: { width: 360, height: 800 },
  });
  await settle(page);
  const right = await page.$eval(".plot .frame canvas", (map) => map.getBoundingClientRect().right);
  assert.ok(right < 360, `it ends at ${right}`);
  const cut = await page.$eval(".plot .bigmap", (map) => map.scrollWidth - map.clientWidth);
  assert.equal(cut, 0);
  const signs = await page.$$eval(".colourbar .sign", (list) =>
    list.map(({ offsetHeight }) => offsetHeight),
  );
  assert.ok(signs.length === 2 && signs.every((height) => height <= 20), `signs: ${signs}`);
  await page.click('button:text-is("lines")');
  const hidden = await page.$eval(".lines", (lines) => lines.scrollWidth - lines.clientWidth);
  assert.equal(hidden, 0);
  await close();
});

test("in forced colours signs keep theirs, and what is chosen is marked", async () => {
  const { page, close } = await openPage(browser, proxy.base, "", { forcedColors: "active" });
  const styleOf = (selector, name) =>
    page.$eval(selector, (one, key) => getComputedStyle(one)[key], name);
  await settle(page);
  assert.equal(await styleOf(".odd", "backgroundColor"), "rgb(216, 0, 180)");
  assert.match(await styleOf(".hatch", "backgroundImage"), /gradient/);
  for (const place of ["page", "true"])
    assert.equal(await styleOf(`[aria-current="${place}"]`, "outlineStyle"), "solid");
  await close();
});

test("help says what a map does not show, and what to check where all weight lies on one key", async () => {
  const { page, close } = await openPage(browser, proxy.base, "#help");
  const text = await page.textContent("main");
  for (const word of ["not an explanation", "sink", "Collapse", "initialisation", "Glorot"])
    assert.ok(text.includes(word), word);
  const keys = await page.$$eval("tbody tr :first-child", (cells) =>
    cells.map(({ textContent }) => textContent),
  );
  for (const key of ["c", "e", "/", "s", "l", "m", "?"]) assert.ok(keys.includes(key), key);
  await close();
});
