// SPDX-License-Identifier: Apache-2.0
// What the page works out itself, without a browser: bundled as the page is, and called.
import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./support.mjs";

const page = await load(
  "lib/tensor.ts",
  "lib/mt19937.ts",
  "lib/route.ts",
  "lib/colours.ts",
  "lib/text.ts",
  "sources/source.ts",
  "sources/capture_source.ts",
  "sources/reference_source.ts",
  "maps/scale.ts",
  "maps/drawing.ts",
  "maps/export.ts",
  "maps/mask_expression.ts",
  "maps/state.ts",
  "maps/axes.tsx",
  "maps/describe.ts",
  "maps/token_search.tsx",
  "maps/checks.tsx",
  "lib/series.ts",
);

const near = (a, b, distance) => assert.ok(Math.abs(a - b) <= distance, `${a} is not near ${b}`);

test("values that stand alone are found, for no line leads to them", () => {
  assert.deepEqual(page.lonely([null, 3, null, 1, 2, null, 0]), [1, 6]);
  assert.deepEqual(page.lonely([5]), [0]);
  assert.deepEqual(page.lonely([undefined, 5, undefined, 4, 4]), [1]);
  assert.deepEqual(page.lonely([null, null]), []);
});

test("random numbers are numpy's", () => {
  const drawn = new page.RandomState(3).standardNormal(5);
  [
    1.7886284734303186, 0.43650985051198943, 0.09649746807200862, -1.8634927033644908,
    -0.27738820251439905,
  ].forEach((value, i) => near(drawn[i], value, 1e-6));
  near(new page.RandomState(3).standardNormal(2000)[1999], 0.2148303131058013, 1e-6);
  near(new page.RandomState(4294967295).standardNormal(2)[1], 0.6693235306338161, 1e-6);
});

test("every float16 is read", () => {
  assert.equal(page.halfToNumber(0x3c00), 1);
  assert.equal(page.halfToNumber(0xbc00), -1);
  assert.equal(page.halfToNumber(0x0001), 2 ** -24);
  assert.equal(page.halfToNumber(0x7bff), 65504);
  assert.equal(page.halfToNumber(0xfc00), -Infinity);
  for (let bits = 1; bits < 0x7c00; bits++)
    assert.ok(page.halfToNumber(bits) > page.halfToNumber(bits - 1), bits);
});

test("of a tile hidden cells are told from NaN and from zero", () => {
  const { kinds, values } = page.readHalves(
    new Uint16Array([0, 0x7e00, 0x7e01, 0x7c00, 0x3800]).buffer,
  );
  assert.deepEqual([...kinds], [0, 1, 2, 3, 0]);
  assert.equal(values[4], 0.5);
});

test("times of day are written as the charts have them", () => {
  assert.equal(page.clockOf(new Date(2026, 0, 2, 0, 9, 5).getTime() / 1000), "00:09:05");
  assert.equal(page.clockOf(new Date(2026, 0, 2, 13, 9, 5).toISOString()), "13:09:05");
});

test("bins are the service's", () => {
  for (const [n, bins] of [
    [10, 3],
    [7, 7],
    [1000, 512],
    [5, 1],
  ])
    for (let place = 0; place < n; place++) {
      const bin = page.binOf(place + 20, bins, [20, 20 + n]);
      const [begin, end] = page.binRange(bin, bins, [20, 20 + n]);
      assert.ok(begin <= place + 20 && place + 20 < end, `${place} of ${n} in ${bins}`);
    }
});

test("npy files are numpy's", () => {
  const file = page.writeNpy([2, 3], Float32Array.of(0, 1, 2, 3, 4, NaN));
  assert.equal((10 + file[8] + 256 * file[9]) % 64, 0);
  assert.match(
    Buffer.from(file).toString("latin1"),
    /^\x93NUMPY\x01\x00..\{'descr': '<f4', 'fortran_order': False, 'shape': \(2, 3\), \} *\n/s,
  );
  assert.equal(file.length, 10 + file[8] + 256 * file[9] + 24);
});

test("what is hostile in a token stays text in every file", () => {
  const token = "<script>\"&\u0000'";
  assert.equal(page.escapeXml(token), "&#60;script&#62;&#34;&#38;&#39;");
  const info = { qTokens: ['=HYPERLINK("x")'], kTokens: ["a,b"] };
  const grid = {
    rows: [0, 1],
    cols: [0, 1],
    height: 1,
    width: 1,
    values: Float32Array.of(0.5),
    kinds: Uint8Array.of(0),
  };
  assert.equal(
    page.makeCsv(info, grid).text.split("\n")[1],
    `0,0,"'=HYPERLINK(""x"")","a,b",0.5,false`,
  );
});

test("a place comes back from its address", () => {
  const place = {
    page: "maps",
    params: { id: "a&b=c", options: '{"mask":"causal"}', cell: "1,2" },
  };
  assert.deepEqual(page.parsePlace(page.formatPlace(place)), place);
  assert.deepEqual(page.parsePlace(""), { page: "maps", params: {} });
});

test("whatever an address says, the state fits the map", () => {
  const info = {
    id: "x",
    batch: 1,
    heads: 4,
    queries: 5,
    keys: 9,
    kGrid: null,
  };
  const wild = {
    batch: "7",
    head: "9",
    stage: "nonsense",
    rows: "4:2",
    cols: "-1:400",
    cell: "5,0",
    skip: "99",
    range: "2:1",
    grid: "x",
  };
  const state = page.readState(wild, info);
  assert.deepEqual(
    [state.batch, state.head, state.stage, state.skip, state.fixed, state.pinned, state.grid],
    [0, 0, "weights", 0, undefined, undefined, undefined],
  );
  assert.deepEqual(state.view, { rows: [0, 5], cols: [0, 9] });
});

test("zoom and pan stay inside of the map", () => {
  const whole = { rows: [0, 100], cols: [3, 50] };
  let view = page.zoomed(whole, 2, [99, 49], whole);
  assert.deepEqual(
    [page.length(view.rows), page.length(view.cols), view.rows[1], view.cols[1]],
    [50, 24, 100, 50],
  );
  view = page.moved(view, -1000, -1000, whole);
  assert.deepEqual([view.rows[0], view.cols[0]], [0, 3]);
  assert.deepEqual(page.zoomed(view, 0.01, [0, 3], whole), whole);
});

test("colours fall in lightness all the way", () => {
  const lightness = (level) =>
    [0.2126, 0.7152, 0.0722].reduce(
      (sum, part, i) => sum + part * page.sequential[3 * level + i],
      0,
    );
  for (let level = 1; level < page.LEVELS; level++)
    assert.ok(lightness(level) < lightness(level - 1) + 1.5, level);
});

test("levels and values agree, linear and logarithmic", () => {
  for (const scale of [
    { low: 0, high: 1 },
    { low: 1e-6, high: 1, isLog: true },
    { low: -3, high: 3 },
  ])
    for (const level of [0, 1, 100, 255])
      assert.equal(page.levelOf(scale, page.valueOf(scale, level)), level);
  assert.equal(page.levelOf({ low: 1e-6, high: 1, isLog: true }, 0), 0);
});

test("the mask editor says what the service reads", () => {
  const draft = {
    ...page.emptyDraft(4),
    isCausal: true,
    window: [2, 0],
    prefix: 1,
    kept: 3,
    segments: [2],
  };
  assert.deepEqual(page.optionsOfDraft(draft, 4, 4).mask, {
    all: [
      { any: ["causal", { type: "prefix", length: 1 }] },
      { type: "window", left: 2, right: 0 },
      { type: "padding", kv_lengths: [3] },
      { type: "segments", q: [0, 0, 1, 1], kv: [0, 0, 1, 1] },
    ],
  });
  const causal = { ...page.emptyDraft(4), isCausal: true };
  for (const [draft, queries, offset] of [
    [causal, 2, 2],
    [{ ...causal, kept: 3, prefix: 2 }, 2, 1],
    [{ ...causal, align: "top_left" }, 2, 0],
    [{ ...page.emptyDraft(4), window: [1, 0] }, 1, 3],
    [{ ...page.emptyDraft(4, true), isCausal: true }, 2, undefined],
    [page.emptyDraft(4), 2, undefined],
    [causal, 4, undefined],
  ])
    assert.equal(page.optionsOfDraft(draft, queries, 4).q_offset, offset);
});

test("labels of an axis do not touch", () => {
  for (const [cells, pixels] of [
    [8, 512],
    [600, 512],
    [32768, 512],
    [1, 28],
  ]) {
    const places = page.labelsOf([0, cells], pixels, null).map(({ place }) => place);
    places.slice(1).forEach((place, i) => assert.ok(place - places[i] >= 15, `${cells} cells`));
    assert.ok(places.length > 0);
  }
});

test("tokens are found behind the one that is pinned", () => {
  assert.equal(page.findToken(["a", "cat", "b", "Cat"], "cat", 1), 3);
  assert.equal(page.findToken(["a", "cat", "b", "Cat"], "cat", 3), 1);
  assert.equal(page.findToken(["a"], "x", 0), -1);
});

test("the sentence beside a map is of a query that looks elsewhere", () => {
  const grid = (values, kinds) => ({
    rows: [0, 2],
    cols: [0, 2],
    height: 2,
    width: 2,
    values: Float32Array.from(values),
    kinds: Uint8Array.from(kinds),
  });
  const info = { qTokens: ["a", "b"], kTokens: null };
  const say = (...given) => page.headline(info, grid(...given));
  assert.equal(
    say([0.25, 0.75, 0.9, 0.1], [0, 0, 0, 0]),
    "Query 0 “a” attends most to key 1 (0.75).",
  );
  assert.equal(say([1, 0, 0.9, 0.1], [0, 1, 0, 0]), "Query 1 “b” attends most to key 0 (0.9).");
  assert.equal(say([1, 0, 0, 1], [0, 1, 1, 0]), "No query of this map sees more than one key.");
});

test("checks of a head say what is wrong with it", () => {
  const fine = {
    empty_rows: [0],
    saturated_share: [0.1],
    top_key: [3],
    top_key_share: [0.2],
    largest_score: [4],
    confidence: [0.3],
    unassigned_mass: [0],
  };
  assert.ok(page.checksOf(fine, 0).every(({ isFine }) => isFine));
  for (const [change, says] of [
    [{ empty_rows: [2] }, /2 queries see no key/],
    [{ saturated_share: [0.9] }, /90.% of rows are saturated/],
    [{ top_key_share: [0.8] }, /Key 3 receives 80/],
    [{ confidence: [NaN] }, /not finite/],
  ]) {
    const wrong = page.checksOf({ ...fine, ...change }, 0).filter(({ isFine }) => !isFine);
    assert.equal(wrong.length, 1);
    assert.match(wrong[0].text, says);
  }
  const sums = (list, change = {}) => page.checkOfSums(list, { ...fine, ...change }, 0);
  assert.ok(sums([1, 1 + 1e-6]).isFine);
  assert.match(sums([1, 0.7]).text, /off by 0.3/);
  assert.ok(!sums([NaN, 1]).isFine);
  assert.ok(sums([1, 0], { empty_rows: [1] }).isFine);
  assert.match(sums([0.9, 0.8], { unassigned_mass: [0.15] }).text, /sink takes 15/);
});

/** A file as a browser gives one. */
const fileOf = (name, ...parts) => new File(parts, name);
const ofMap = (more) => ({ id: "m", batch: 1, heads: 2, queries: 3, keys: 4, ...more });
const WEIGHTS = Float32Array.from({ length: 24 }, (_, i) => i / 32);

function npyOf(descr, bytes, order = "False") {
  const header = `{'descr': '${descr}', 'fortran_order': ${order}, 'shape': (1, 2, 3, 4), }`;
  const start = new Uint8Array(10);
  start.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length, 0]);
  return fileOf("w.npy", start, header, bytes);
}

function safetensorsOf(header, bytes) {
  const text = JSON.stringify(header);
  const size = new DataView(new ArrayBuffer(8));
  size.setBigUint64(0, BigInt(text.length), true);
  return fileOf("w.safetensors", size, text, bytes);
}

function bigEndian(values) {
  const view = new DataView(new ArrayBuffer(8 * values.length));
  values.forEach((value, i) => view.setFloat64(8 * i, value));
  return view;
}

const ofWhole = { batch: 0, rows: [0, 3], cols: [0, 4], height: 3, width: 4, pooling: "max" };

test("references are read from the files that programs write", async () => {
  const shape = [2, 3, 4]; // one batch item may be left out
  const files = [
    fileOf("w.npy", page.writeNpy([1, 2, 3, 4], WEIGHTS)),
    npyOf(">f8", bigEndian(WEIGHTS)),
    safetensorsOf(
      {
        q: { dtype: "F32", shape: [1], data_offsets: [0, 4] },
        weights: { dtype: "F32", shape, data_offsets: [4, 100] },
      },
      new Float32Array([9, ...WEIGHTS]),
    ),
  ];
  for (const file of files) {
    const id = await page.holdReference(file, ofMap());
    const grid = await page.referenceOf(id).grid({ ...ofWhole, head: 1, stage: "weights" });
    assert.deepEqual(grid.values, WEIGHTS.slice(12), file.name);
  }
  assert.deepEqual(
    page.referencesFor(ofMap()).map(({ name }) => name),
    ["w.npy", "w.safetensors"],
  );
  assert.deepEqual(page.referencesFor(ofMap({ id: "other" })), []);
});

test("what is no reference of a map is not drawn beside it", async () => {
  const whole = page.writeNpy([1, 2, 3, 4], WEIGHTS);
  for (const [file, map] of [
    [fileOf("w.npy", whole), ofMap({ keys: 5 })],
    [fileOf("w.npy", whole.slice(0, -1)), ofMap()],
    [fileOf("w.npy", "nothing"), ofMap()],
    [npyOf("<f4", WEIGHTS, "True"), ofMap()],
    [npyOf("<i4", WEIGHTS), ofMap()],
    [safetensorsOf({}, WEIGHTS), ofMap()],
    [{ name: "w.npy", size: 2 ** 28 + 1 }, ofMap()],
  ])
    assert.equal(await page.holdReference(file, map), undefined);
});

test("a reference's bins are those of the service", async () => {
  const source = page.referenceOf(
    await page.holdReference(fileOf("b.npy", page.writeNpy([1, 2, 3, 4], WEIGHTS)), ofMap()),
  );
  const bins = async (head, pooling) => {
    const query = { ...ofWhole, height: 2, width: 2, stage: "weights", head, pooling };
    return [...(await source.grid(query)).values].map((value) => value * 32);
  };
  assert.deepEqual(await bins(0, "max"), [1, 3, 9, 11]);
  // The sum over the keys in the mean of the rows.
  assert.deepEqual(await bins(0, "mass"), [1, 5, 13, 17]);
  assert.deepEqual(await bins("mean", "max"), [7, 9, 15, 17]);
  assert.deepEqual(await bins("max", "max"), [13, 15, 21, 23]);
  await assert.rejects(source.grid({ ...ofWhole, head: 0, stage: "raw" }), /weights alone/);
});
