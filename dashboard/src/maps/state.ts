// SPDX-License-Identifier: Apache-2.0
// What the permalink of a map says, read against the map that it is of.
import type { Params } from "../lib/route.ts";
import {
  STAGES,
  length,
  type Head,
  type Info,
  type Pooling,
  type Range,
  type Stage,
} from "../sources/source.ts";
import type { View } from "./drawing.ts";
import type { Scale } from "./scale.ts";

export const FEW_KEYS = 64; // up to here single cells and single lines can be told apart
export type Shown = Stage | "mask";
export type CompareMode = "side" | "difference" | "distance";

export interface MapState {
  batch: number;
  head: Head;
  stage: Shown;
  pooling: Pooling;
  isLog: boolean;
  fixed?: Range; // the ends of the colours, where they are locked
  skip: number; // so many first keys are left out
  view: View;
  pinned?: readonly [row: number, col: number];
  isLines: boolean;
  compare?: { id: string; head: Head; mode: CompareMode };
  grid?: readonly [height: number, width: number]; // of the patches that the last keys are
  isOfKey: boolean; // patches show who looks at the pinned key, not where the pinned query looks
}

const whole = (text: string | undefined, otherwise: number, most: number): number => {
  const value = Number(text ?? NaN);
  return Number.isInteger(value) && value >= 0 && value <= most ? value : otherwise;
};

export function readHead(text: string | undefined, heads: number): Head {
  return text === "mean" || text === "max" ? text : whole(text, 0, heads - 1);
}

/** "a:b" inside of [first, count); the whole of it for everything else. */
function readRange(text: string | undefined, first: number, count: number): Range {
  const [begin, end] = (text ?? "").split(":").map(Number);
  const isRange =
    Number.isInteger(begin) && Number.isInteger(end) && begin >= first && end <= count;
  return isRange && begin < end ? [begin, end] : [first, Math.max(count, first)];
}

function readFixed(text: string | undefined): Range | undefined {
  const [low, high] = (text ?? "").split(":").map(Number);
  return text && Number.isFinite(low) && Number.isFinite(high) && low < high
    ? [low, high]
    : undefined;
}

function readPinned(text: string | undefined, info: Info): MapState["pinned"] {
  const [row, col] = (text ?? "").split(",").map(Number);
  const isCell =
    Number.isInteger(row) &&
    Number.isInteger(col) &&
    row >= 0 &&
    col >= 0 &&
    row < info.queries &&
    col < info.keys;
  return text && isCell ? [row, col] : undefined;
}

function readCompare(params: Params, heads: number): MapState["compare"] {
  if (!params.with && params.withhead === undefined) return undefined;
  const mode = params.compare;
  return {
    id: params.with || params.id || "",
    head: readHead(params.withhead ?? params.head, heads),
    mode: mode === "side" || mode === "distance" ? mode : "difference",
  };
}

function readGrid(text: string | undefined, info: Info): MapState["grid"] {
  const [height, width] = (text ?? "").split("x").map(Number);
  return height > 0 && width > 0
    ? [Math.round(height), Math.round(width)]
    : (info.kGrid ?? undefined);
}

export function readState(params: Params, info: Info): MapState {
  const shown = [...STAGES, "mask"] as readonly string[];
  const stage = (shown.includes(params.stage ?? "") ? params.stage : "weights") as Shown;
  const skip = whole(params.skip, 0, Math.max(0, info.keys - 1));
  return {
    batch: whole(params.batch, 0, info.batch - 1),
    head: readHead(params.head, info.heads),
    stage,
    pooling: params.op === "mass" ? "mass" : "max",
    isLog: stage === "weights" && (params.scale ? params.scale === "log" : info.keys > FEW_KEYS),
    fixed: readFixed(params.range),
    skip,
    view: {
      rows: readRange(params.rows, 0, info.queries),
      cols: readRange(params.cols, skip, info.keys),
    },
    pinned: readPinned(params.cell, info),
    isLines:
      stage === "weights" &&
      params.view === "lines" &&
      Math.max(info.queries, info.keys) <= FEW_KEYS,
    compare: readCompare(params, info.heads),
    grid: readGrid(params.grid, info),
    isOfKey: params.patches === "key",
  };
}

/** The scale of a stage; weights have a range that never follows the data. */
export function scaleOf(state: MapState, most: number): Scale {
  const isWeights = state.stage === "weights" || state.stage === "mask";
  const [low, high] =
    state.fixed ?? (isWeights ? [state.isLog ? 1e-6 : 0, 1] : [-(most || 1), most || 1]);
  return { low, high, isLog: state.isLog && low > 0, isDiverging: !isWeights };
}

/** The view with its sides divided by `factor` around a place, inside of the map. */
export function zoomed(
  view: View,
  factor: number,
  at: readonly [number, number],
  whole: View,
): View {
  const part = (seen: Range, all: Range, place: number): Range => {
    const size = Math.min(length(all), Math.max(1, Math.round(length(seen) / factor)));
    const before = ((place - seen[0]) / length(seen)) * size;
    return clamped([Math.round(place - before), 0], size, all);
  };
  return { rows: part(view.rows, whole.rows, at[0]), cols: part(view.cols, whole.cols, at[1]) };
}

function clamped([begin]: Range, size: number, all: Range): Range {
  const first = Math.min(all[1] - size, Math.max(all[0], begin));
  return [first, first + size];
}

export function moved(view: View, rows: number, cols: number, whole: View): View {
  return {
    rows: clamped([view.rows[0] + rows, 0], length(view.rows), whole.rows),
    cols: clamped([view.cols[0] + cols, 0], length(view.cols), whole.cols),
  };
}

/** What the permalink says of a view; a whole axis goes without saying. */
export function viewParams(view: View, whole: View): Record<string, string | undefined> {
  const text = (seen: Range, all: Range) =>
    seen[0] === all[0] && seen[1] === all[1] ? undefined : seen.join(":");
  return { rows: text(view.rows, whole.rows), cols: text(view.cols, whole.cols) };
}
