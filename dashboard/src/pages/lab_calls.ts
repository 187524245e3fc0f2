// SPDX-License-Identifier: Apache-2.0
// The experiments of the Lab: random vectors go to the daemon, and what comes back is shown.
import { postJson } from "../lib/api.ts";
import { RandomState } from "../lib/mt19937.ts";
import { flatten, readTensor, wireOf } from "../lib/tensor.ts";
import type { Grid } from "../sources/source.ts";
import { kindsOf } from "../sources/source.ts";

export const VECTORS = 64; // queries, and as many keys
export const SIZES = [4, 16, 64, 256, 512] as const; // those of the table
export const MOST_SIZE = 512;

/** What scores are divided by. */
export const DIVISORS = ["1", "root", "d"] as const;
export type Divisor = (typeof DIVISORS)[number];
export const divisorOf = (divisor: Divisor, size: number): number =>
  divisor === "root" ? Math.sqrt(size) : divisor === "d" ? size : 1;

interface Wire {
  shape: number[];
  dtype: string;
  base64: string;
}

export interface Outcome {
  variance: number; // of q·k, or of what became of it
  largest: number; // the largest weight of a row, mean
  entropy: number; // of a row, in bits, mean
  saturated: number; // share of rows with a weight above 0.99
  gradient: number; // 1 − Σp², mean
  products: Float32Array;
  weights: Grid;
}

/** The vectors of one size: those that numpy draws from the seed, q first. */
export function draw(seed: number, size: number): { q: Float32Array; k: Float32Array } {
  const random = new RandomState(seed);
  const q = random.standardNormal(VECTORS * size);
  return { q, k: random.standardNormal(VECTORS * size) };
}

/** The option `scale` of a call, which divides by √d where there is none. */
export const scaleOption = (divisor: Divisor, size: number): string | number | undefined =>
  divisor === "root" ? undefined : divisor === "d" ? 1 / size : "none";

/** Attention over the vectors of a seed. */
export async function attend(
  seed: number,
  size: number,
  divisor: Divisor,
  signal?: AbortSignal,
): Promise<Outcome> {
  const { q, k } = draw(seed, size);
  const shape = [VECTORS, size];
  const answer = await postJson<{ weights: Wire; scores: Wire; stats: Record<string, unknown> }>(
    "v1/attention",
    {
      q: wireOf(shape, q),
      k: wireOf(shape, k),
      v: wireOf([VECTORS, 1], new Float32Array(VECTORS)),
      scale: scaleOption(divisor, size),
      return: ["weights", "scores", "stats"],
      encoding: "base64",
    },
    signal,
  );
  const stat = (name: string) => flatten(answer.stats[name])[0];
  const values = readTensor(answer.weights).data;
  return {
    variance: stat("score_variance"),
    largest: stat("confidence"),
    entropy: stat("entropy") / Math.LN2,
    saturated: stat("saturated_share"),
    gradient: stat("gradient_health"),
    products: readTensor(answer.scores).data,
    weights: {
      rows: [0, VECTORS],
      cols: [0, VECTORS],
      height: VECTORS,
      width: VECTORS,
      values,
      kinds: kindsOf(values),
      isExact: true,
      pooling: "max",
    },
  };
}

export interface SizeOutcomes {
  size: number;
  by: Readonly<Record<Divisor, Outcome>>;
}

export async function attendSize(
  seed: number,
  size: number,
  signal: AbortSignal,
): Promise<SizeOutcomes> {
  const outcomes: Partial<Record<Divisor, Outcome>> = {};
  for (const divisor of DIVISORS) outcomes[divisor] = await attend(seed, size, divisor, signal);
  return { size, by: outcomes as Record<Divisor, Outcome> };
}

export const attendSizes = (seed: number, signal: AbortSignal): Promise<SizeOutcomes[]> =>
  Promise.all(SIZES.map((size) => attendSize(seed, size, signal)));

export interface PublishedRow {
  divided_by: string;
  max: number;
  entropy: number;
  gradient_health: number;
}
export interface Published {
  results: { d_k: number; variance: number; rows: PublishedRow[] }[];
}

export const publishedRequest = (seed: number) => ({
  d_k: [4, 64, 512],
  samples: 2000,
  keys: 3,
  seed,
});
export const askPublished = (seed: number, signal: AbortSignal): Promise<Published> =>
  postJson("v1/experiments/scaling", publishedRequest(seed), signal);

export interface Histogram {
  middles: number[];
  counts: number[];
}

/** How often values lie in each of the bins between the ends, which take what lies beyond. */
export function histogram(values: Float32Array, most: number, bins = 40): Histogram {
  const counts = Array<number>(bins).fill(0);
  for (const value of values)
    counts[Math.min(bins - 1, Math.max(0, Math.floor(((value + most) / (2 * most)) * bins)))]++;
  return { counts, middles: counts.map((_, bin) => -most + ((bin + 0.5) * 2 * most) / bins) };
}
