// SPDX-License-Identifier: Apache-2.0
// What is seen, in words.
import { named, number } from "../lib/text.ts";
import {
  Kind,
  binOf,
  binRange,
  isPooled,
  length,
  type Grid,
  type Head,
  type Info,
  type Range,
} from "../sources/source.ts";
import type { MapState } from "./state.ts";
import type { Scale } from "./scale.ts";

export const headName = (head: Head): string =>
  head === "mean"
    ? "the mean of all heads"
    : head === "max"
      ? "the largest of all heads"
      : `head ${head}`;

const NAMES: Record<MapState["stage"], string> = {
  raw: "q·k, unscaled",
  scaled: "scaled score",
  capped: "score after the softcap",
  masked: "score after bias and mask",
  weights: "weight",
  mask: "mask",
};
export const stageName = (stage: MapState["stage"]): string => NAMES[stage];

/** The value of the bin at a cell; undefined where the grid does not reach. */
export function binAt(grid: Grid, row: number, col: number): number | undefined {
  const isInside =
    row >= grid.rows[0] && row < grid.rows[1] && col >= grid.cols[0] && col < grid.cols[1];
  return isInside
    ? binOf(row, grid.height, grid.rows) * grid.width + binOf(col, grid.width, grid.cols)
    : undefined;
}

export function valueText(grid: Grid, at: number): string {
  if (grid.kinds[at] === Kind.Hidden) return "hidden by the mask";
  return grid.values[at] === 0 && grid.least
    ? `below ${number(grid.least, 3)}`
    : number(grid.values[at]);
}

const span = (
  kind: "query" | "key",
  tokens: readonly string[] | null,
  [begin, end]: Range,
): string =>
  end - begin === 1
    ? named(kind, begin, tokens)
    : `${kind === "key" ? "keys" : "queries"} ${begin}–${end - 1}`;

/** "query 6 “sat”, key 1 “cat”: 0.62" */
export function cellText(info: Info, grid: Grid | undefined, row: number, col: number): string {
  const at = grid && binAt(grid, row, col);
  if (!grid || at === undefined)
    return `${named("query", row, info.qTokens)}, ${named("key", col, info.kTokens)}`;
  const rows = binRange(Math.floor(at / grid.width), grid.height, grid.rows);
  const cols = binRange(at % grid.width, grid.width, grid.cols);
  return (
    `${span("query", info.qTokens, rows)}, ${span("key", info.kTokens, cols)}: ` +
    valueText(grid, at)
  );
}

/** What the colours mean: stage, ends, and what a bin is made of. */
export function legendText(state: MapState, scale: Scale, grid: Grid): string {
  if (state.stage === "mask") return "Filled: seen. Hatched: hidden by the mask.";
  const range = `${number(scale.low)} … ${number(scale.high)}`;
  const ends = state.fixed
    ? `${range}, locked`
    : scale.isDiverging
      ? `${range}, fitted to this view`
      : range;
  const bins = !isPooled(grid)
    ? "each cell as it is"
    : `${grid.height} × ${grid.width} bins of ${length(grid.rows)} × ${length(grid.cols)} cells, ` +
      (grid.pooling === "max"
        ? "the largest of each (max)"
        : "summed over keys, mean over queries (mass)");
  return (
    `${stageName(state.stage)}, ${scale.isLog ? "logarithmic" : "linear"} ${ends}; ${bins}` +
    (grid.isExact ? "." : "; sampled, the exact map is being made.")
  );
}

/** Where each query's largest weight lies, and how it compares with keys that are all alike. */
function peaks(grid: Grid): { at: number; isTelling: boolean; excess: number }[] {
  return Array.from({ length: grid.height }, (_, row) => {
    const from = row * grid.width;
    const seen = [...grid.kinds.subarray(from, from + grid.width).keys()]
      .map((col) => from + col)
      .filter((at) => grid.kinds[at] === Kind.Value);
    const at = seen.reduce(
      (best, each) => (grid.values[each] > grid.values[best] ? each : best),
      seen[0] ?? from,
    );
    const [query, key] = [grid.rows[0] + row, grid.cols[0] + at - from];
    // Most queries attend to themselves or to the first key, which tells little.
    const isTelling = key !== query && key !== 0;
    return { at, isTelling, excess: seen.length > 1 ? grid.values[at] * seen.length : 0 };
  });
}

/** One true sentence, of the query whose largest weight stands out most. */
export function headline(info: Info, grid: Grid): string {
  const all = peaks(grid).filter(({ excess }) => excess > 0);
  const telling = all.filter(({ isTelling }) => isTelling);
  const best = (telling.length > 0 ? telling : all).sort((a, b) => b.excess - a.excess)[0];
  if (!best) return "No query of this map sees more than one key.";
  const row = Math.floor(best.at / grid.width);
  const query = named("query", grid.rows[0] + row, info.qTokens);
  const key = named("key", grid.cols[0] + best.at - row * grid.width, info.kTokens);
  return (
    `${query[0].toUpperCase()}${query.slice(1)} attends most to ${key} ` +
    `(${number(grid.values[best.at], 2)}).`
  );
}
