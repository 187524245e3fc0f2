// SPDX-License-Identifier: Apache-2.0
// The map that is there before anybody sent one. Its scores are chosen so that each head shows a
// pattern of the field; what becomes of them is computed by the daemon.
import { wireOf } from "../lib/tensor.ts";
import type { HeldRequest } from "./request_source.ts";

export const SAMPLE_ID = "sample";
const TOKENS = ["The", "cat", "I", "saw", "on", "Monday", "sat", "down"];
const SIZE = TOKENS.length;

/** What each word looks for: [query, key, score]. */
const LINKS = [
  [1, 0, 1.5],
  [3, 1, 2],
  [3, 2, 2.2],
  [4, 3, 1.6],
  [5, 4, 2],
  [6, 1, 2.28],
  [7, 6, 2],
];

/** The score of query i and key j, a head each. */
const HEADS: readonly ((i: number, j: number) => number)[] = [
  (i, j) => LINKS.find(([query, key]) => query === i && key === j)?.[2] ?? 0,
  (i, j) => 4 - 2 * Math.abs(i - 1 - j), // the token before
  (_, j) => (j === 0 ? 4 : 0), // the first token
  () => 0, // all alike
];

/** Keys are unit vectors, so that a query holds its scores; √d undoes the scale. */
function operand(valueAt: (head: number, row: number, column: number) => number) {
  const data = new Float32Array(HEADS.length * SIZE * SIZE);
  data.forEach((_, at) => {
    data[at] = valueAt(Math.floor(at / SIZE / SIZE), Math.floor(at / SIZE) % SIZE, at % SIZE);
  });
  return wireOf([1, HEADS.length, SIZE, SIZE], data);
}

const unit = operand((_, row, column) => (row === column ? 1 : 0));

export const sample: HeldRequest = {
  id: SAMPLE_ID,
  name: "Sample: eight tokens, causal",
  tensors: { q: operand((head, i, j) => HEADS[head](i, j) * Math.sqrt(SIZE)), k: unit, v: unit },
  type: "application/json",
  options: { mask: "causal" },
  qTokens: TOKENS,
};
