// SPDX-License-Identifier: Apache-2.0
// What a map can be read from: a capture that the daemon keeps, or a request that this page holds
// and the daemon computes again and again, each time another part.

export type Range = readonly [begin: number, end: number]; // half-open
export type Head = number | "mean" | "max";
export const STAGES = ["raw", "scaled", "capped", "masked", "weights"] as const;
export type Stage = (typeof STAGES)[number];
export type Pooling = "max" | "mass";

export interface Info {
  id: string;
  name: string;
  batch: number;
  heads: number;
  kvHeads: number;
  queries: number;
  keys: number;
  headDim: number;
  mask: string;
  scale: number | null;
  softcap: number | null;
  stages: readonly Stage[];
  qTokens: readonly string[] | null; // of one batch item
  kTokens: readonly string[] | null;
  qGrid: readonly [number, number] | null;
  kGrid: readonly [number, number] | null;
  qOffset?: number; // position of query 0, where the request says so
  isApproximate: boolean; // its tensors were kept in a smaller type
  run?: string;
  layer?: string | number;
}

/** Tokens for all batch items, or a list of each. */
export type TokenLists = readonly string[] | readonly (readonly string[])[] | null | undefined;

export function tokensOf(lists: TokenLists, batch: number): readonly string[] | null {
  return !lists
    ? null
    : Array.isArray(lists[0])
      ? ((lists as readonly (readonly string[])[])[batch] ?? null)
      : (lists as readonly string[]);
}

/** One offset for all batch items, or one of each. */
export function offsetOf(offsets: unknown, batch: number): number | undefined {
  const list: unknown[] = Array.isArray(offsets) ? offsets : [offsets];
  const offset = list[list.length > 1 ? batch : 0];
  return typeof offset === "number" ? offset : undefined;
}

/** What a cell holds: NaN and infinities are told from hidden cells. */
export const enum Kind {
  Value,
  Hidden,
  NotANumber,
  Infinite,
}

/** A part of a map, in bins of one cell or of several. */
export interface Grid {
  rows: Range;
  cols: Range;
  height: number;
  width: number;
  values: Float32Array;
  kinds: Uint8Array;
  isExact: boolean; // else it was made from some of the rows only
  least?: number; // below this a value came as zero
  pooling: Pooling;
}

export interface GridQuery {
  batch: number;
  head: Head;
  stage: Stage;
  rows: Range;
  cols: Range;
  height: number; // at most; never more than there are rows
  width: number;
  pooling: Pooling;
}

export interface Cell {
  raw: number | null;
  scaled: number | null;
  capped: number | null;
  masked: number | null;
  weight: number;
  hidden: boolean;
  row: { max?: number; sum?: number; lse: number | null };
  top: readonly { key: number; weight: number }[];
}

/** Numbers per head, named as the service names them. */
export type Stats = Readonly<Record<string, readonly number[]>>;

export interface Comparison {
  max_abs: number;
  max_at: readonly number[] | null;
  first_failing: readonly number[] | null;
  failing: number; // cells
  allclose: boolean;
  rtol: number;
  atol: number;
}

/** What can be drawn, and no more. */
export interface GridSource {
  readonly info: Info;
  grid(query: GridQuery, signal?: AbortSignal): Promise<Grid>;
  /** The same from some of the rows only; where there is one, the whole takes long. */
  preview?(
    query: GridQuery,
    signal?: AbortSignal,
    show?: (grid: Grid) => void, // takes what there is on the way
  ): Promise<Grid>;
}

export interface MapSource extends GridSource {
  /** The same with the tokens of that batch item. */
  ofBatch(batch: number): MapSource;
  cell(batch: number, head: number, row: number, col: number, signal?: AbortSignal): Promise<Cell>;
  stats(batch: number, signal?: AbortSignal): Promise<Stats>;
  /** What the weights of each row add up to; of many rows the means of some that lie together. */
  rowSums(batch: number, head: Head, signal?: AbortSignal): Promise<readonly number[]>;
}

/** From here on a whole map takes longer than somebody likes to wait. */
export const isLarge = ({ queries, keys }: Info): boolean => queries * keys > 1 << 22;

export const length = ([begin, end]: Range): number => end - begin;
export const isPooled = (grid: Grid): boolean =>
  grid.height < length(grid.rows) || grid.width < length(grid.cols);

/** Bin r of h over n covers ⌊rn/h⌋ … ⌊(r+1)n/h⌋, as the service has it. */
export function binRange(bin: number, bins: number, [begin, end]: Range): Range {
  const n = end - begin;
  return [begin + Math.floor((bin * n) / bins), begin + Math.floor(((bin + 1) * n) / bins)];
}

/** The bin that holds a place of the range. */
export function binOf(place: number, bins: number, [begin, end]: Range): number {
  const bin = Math.floor(((place - begin) * bins) / (end - begin));
  return binRange(bin, bins, [begin, end])[1] <= place ? bin + 1 : bin;
}

/** Kinds of the values themselves; hidden cells are marked by who knows them. */
export function kindsOf(values: Float32Array): Uint8Array {
  return Uint8Array.from(values, (value) =>
    Number.isFinite(value) ? Kind.Value : Number.isNaN(value) ? Kind.NotANumber : Kind.Infinite,
  );
}
