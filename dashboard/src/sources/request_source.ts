// SPDX-License-Identifier: Apache-2.0
// A map of a request that the page holds: every part is a call of /v1/attention with other options.
import { call, queryOf } from "../lib/api.ts";
import { flatten, readTensor, type Tensor } from "../lib/tensor.ts";
import {
  Kind,
  STAGES,
  binRange,
  kindsOf,
  length,
  offsetOf,
  tokensOf,
  type Cell,
  type Grid,
  type GridQuery,
  type Head,
  type Info,
  type MapSource,
  type Stats,
  type TokenLists,
} from "./source.ts";

export interface HeldRequest {
  id: string;
  name: string;
  tensors: Readonly<Record<string, unknown>> | Blob; // members of a JSON request, or a whole file
  type: string; // Content-Type of the file
  options: Readonly<Record<string, unknown>>; // beside the tensors
  head?: Head; // whose map it asks for
  qTokens?: TokenLists;
  kTokens?: TokenLists;
}

interface Answer {
  weights?: { shape: number[]; dtype: string; base64: string };
  scores?: Answer["weights"];
  lse?: Answer["weights"];
  stats?: Record<string, unknown>;
  meta: {
    shape: { B: number; Hq: number; Hkv: number; Tq: number; Tk: number; D: number };
    scale: number;
    mask: string;
    notes: string[];
    capture?: { id: string } | string;
  };
}

/** Tensors as they stand at the beginning of a JSON request, written down once: every part of a map
 *  sends them again. */
const written = new WeakMap<object, Blob>();

function bodyOf(tensors: object, options: Record<string, unknown>): Blob {
  if (!written.has(tensors))
    written.set(tensors, new Blob([`${JSON.stringify(tensors).slice(0, -1)},`]));
  return new Blob([written.get(tensors)!, JSON.stringify(options).slice(1)]);
}

async function attend(
  request: HeldRequest,
  options: Record<string, unknown>,
  signal?: AbortSignal,
): Promise<Answer> {
  const all = { ...request.options, ...options, encoding: "base64" };
  const { tensors } = request;
  const isFile = tensors instanceof Blob;
  const answer = await call(isFile ? `v1/attention?${queryOf(all)}` : "v1/attention", {
    method: "POST",
    body: isFile ? tensors : bodyOf(tensors, all),
    signal,
    headers: { "Content-Type": request.type, Accept: "application/json" },
  });
  return answer.json();
}

/** The part of one batch item, where the answer has one head. */
function ofBatch(tensor: Tensor, batch: number): Float32Array {
  const [height, width] = tensor.shape.slice(-2);
  return tensor.data.slice(batch * height * width, (batch + 1) * height * width);
}

const headsOf = (head: Head): Head | number[] => (typeof head === "number" ? [head] : head);

const STRIP_ROWS = 4,
  STRIPS = 16;
/** Whether the whole takes longer than a preview, which sends the tensors for each strip. */
const isLong = (rows: number, keys: number): boolean =>
  rows * keys > 1 << 27 && rows > STRIPS * STRIP_ROWS;
/** A preview is shown when so many strips are there, as a part of all. */
const SHOWN_AT = [1 / 4, 1];

/** Numbers below `count`, a power of two, so that those that come first lie far from each other. */
function scattered(count: number): number[] {
  if (count === 1) return [0];
  const half = scattered(count / 2).map((at) => 2 * at);
  return [...half, ...half.map((at) => at + 1)];
}

/** Rows of bins, each of the strip that is there in its place or before it, or else of the first. */
function gridOfStrips(query: GridQuery, strips: readonly (Grid | undefined)[]): Grid {
  let last = strips[0]!;
  const rows = strips.map((strip) => (last = strip ?? last));
  return {
    ...last,
    rows: query.rows,
    height: rows.length,
    values: Float32Array.from(rows.flatMap(({ values }) => [...values])),
    kinds: Uint8Array.from(rows.flatMap(({ kinds }) => [...kinds])),
    isExact: false,
  };
}

class RequestSource implements MapSource {
  readonly info: Info;
  readonly preview?: MapSource["preview"];

  constructor(
    private readonly request: HeldRequest,
    private readonly meta: Answer["meta"],
    batch = 0,
  ) {
    this.info = infoOf(request, meta, batch);
    if (isLong(this.info.queries, this.info.keys))
      this.preview = (query, signal, show) =>
        isLong(length(query.rows), length(query.cols))
          ? this.strips(query, signal, show)
          : this.grid(query, signal);
  }

  ofBatch(batch: number): MapSource {
    return new RequestSource(this.request, this.meta, batch);
  }

  async grid(query: GridQuery, signal?: AbortSignal): Promise<Grid> {
    const { rows, cols, stage, pooling } = query;
    const height = Math.min(query.height, length(rows)),
      width = Math.min(query.width, length(cols));
    const isPooled = height < length(rows) || width < length(cols);
    const weights = {
      stage,
      heads: headsOf(query.head),
      rows,
      cols,
      ...(isPooled && { pool: { rows: height, cols: width, op: pooling } }),
    };
    const answer = await attend(this.request, { return: ["weights", "scores"], weights }, signal);
    const values = ofBatch(readTensor(answer.weights!), query.batch);
    const scores = ofBatch(readTensor(answer.scores!), query.batch);
    const seen =
      !isPooled && scores.includes(-Infinity)
        ? await this.unscaled(weights, query.batch, signal)
        : scores;
    const kinds = kindsOf(values);
    seen.forEach((score, i) => {
      if (score === -Infinity) kinds[i] = Kind.Hidden;
    });
    return { rows, cols, height, width, values, kinds, isExact: true, pooling };
  }

  /** Scores times zero: −∞ where something is hidden, and not where arithmetic made it. */
  private async unscaled(weights: object, batch: number, signal?: AbortSignal) {
    const options = { return: ["scores"], weights: { ...weights, stage: "masked" }, scale: 0 };
    return ofBatch(readTensor((await attend(this.request, options, signal)).scores!), batch);
  }

  /** A few rows here and there, which are had long before all of them. */
  private async strips(query: GridQuery, signal?: AbortSignal, show?: (grid: Grid) => void) {
    const count = query.height < 8 * STRIPS ? STRIPS / 2 : STRIPS;
    const strips = Array<Grid | undefined>(count).fill(undefined);
    for (const [done, at] of scattered(count).entries()) {
      const [begin, end] = binRange(at, count, query.rows);
      const first = Math.floor((begin + end - STRIP_ROWS) / 2);
      const rows = [first, first + STRIP_ROWS] as const;
      strips[at] = await this.grid({ ...query, rows, height: 1 }, signal);
      if (SHOWN_AT.includes((done + 1) / count)) show?.(gridOfStrips(query, strips));
    }
    return gridOfStrips(query, strips);
  }

  private async scoreAt(
    stage: string,
    batch: number,
    head: number,
    row: number,
    col: number,
    signal?: AbortSignal,
  ): Promise<number> {
    const weights = { stage, heads: [head], rows: [row, row + 1], cols: [col, col + 1] };
    const answer = await attend(this.request, { return: ["weights"], weights }, signal);
    return ofBatch(readTensor(answer.weights!), batch)[0];
  }

  async cell(
    batch: number,
    head: number,
    row: number,
    col: number,
    signal?: AbortSignal,
  ): Promise<Cell> {
    const rowOnly = { stage: "weights", heads: [head], rows: [row, row + 1] };
    const cellOnly = { ...rowOnly, cols: [col, col + 1] };
    const [answer, seen, raw, scaled, capped] = (await Promise.all([
      attend(this.request, { return: ["weights", "scores", "lse"], weights: rowOnly }, signal),
      this.unscaled(cellOnly, batch, signal),
      ...["raw", "scaled", "capped"].map((stage) =>
        this.scoreAt(stage, batch, head, row, col, signal),
      ),
    ] as const)) as [Answer, Float32Array, number, number, number];
    const weights = ofBatch(readTensor(answer.weights!), batch);
    const masked = ofBatch(readTensor(answer.scores!), batch)[col];
    const lse = readTensor(answer.lse!).data;
    const top = [...weights.keys()]
      .filter((key) => weights[key] > 0)
      .sort((a, b) => weights[b] - weights[a] || a - b)
      .slice(0, 10)
      .map((key) => ({ key, weight: weights[key] }));
    return {
      raw,
      scaled,
      capped,
      masked,
      weight: weights[col],
      hidden: seen[0] === -Infinity,
      top,
      row: { lse: lse[(batch * this.info.heads + head) * this.info.queries + row] },
    };
  }

  async rowSums(batch: number, head: Head, signal?: AbortSignal): Promise<readonly number[]> {
    const { queries, keys } = this.info;
    const { values } = await this.grid(
      {
        batch,
        head,
        stage: "weights",
        rows: [0, queries],
        cols: [0, keys],
        height: 4096,
        width: 1,
        pooling: "mass",
      },
      signal,
    );
    return [...values];
  }

  async stats(batch: number, signal?: AbortSignal): Promise<Stats> {
    return statsOf(await attend(this.request, { return: ["stats"] }, signal), batch);
  }
}

function infoOf(request: HeldRequest, meta: Answer["meta"], batch: number): Info {
  const { B, Hq, Hkv, Tq, Tk, D } = meta.shape;
  const qTokens = tokensOf(request.qTokens, batch);
  return {
    id: request.id,
    name: request.name,
    batch: B,
    heads: Hq,
    kvHeads: Hkv,
    queries: Tq,
    keys: Tk,
    headDim: D,
    mask: meta.mask,
    scale: meta.scale,
    softcap: Number(request.options.softcap) || null,
    stages: STAGES,
    qTokens,
    kTokens: tokensOf(request.kTokens, batch) ?? (Tk === qTokens?.length ? qTokens : null),
    qGrid: null,
    kGrid: null,
    qOffset: offsetOf(request.options.q_offset, batch),
    isApproximate: false,
  };
}

function statsOf(answer: Answer, batch: number): Stats {
  const { Hq } = answer.meta.shape;
  return Object.fromEntries(
    Object.entries(answer.stats ?? {}).map(([name, values]) => [
      name,
      flatten(values).slice(batch * Hq, (batch + 1) * Hq),
    ]),
  );
}

/** Asks the service what shape the request has, and is refused where the request is wrong. */
export async function openRequest(request: HeldRequest, signal?: AbortSignal): Promise<MapSource> {
  const nothing = { rows: [0, 0], cols: [0, 0] };
  const { meta } = await attend(request, { return: ["weights"], weights: nothing }, signal);
  return new RequestSource(request, meta);
}

/** Has the daemon keep the request's map; the capture's id, or why there is none. */
export async function keepRequest(request: HeldRequest): Promise<{ id?: string; reason?: string }> {
  const { meta } = await attend(request, { return: ["stats"], capture: { name: request.name } });
  return typeof meta.capture === "object" ? { id: meta.capture.id } : { reason: meta.capture };
}
