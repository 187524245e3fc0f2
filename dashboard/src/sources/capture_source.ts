// SPDX-License-Identifier: Apache-2.0
// A map of a capture, which the daemon keeps.
import { call, getJson, postJson, queryOf } from "../lib/api.ts";
import { flatten, halfToNumber, numbersOf } from "../lib/tensor.ts";
import {
  Kind,
  isLarge,
  kindsOf,
  length,
  offsetOf,
  tokensOf,
  type Cell,
  type Comparison,
  type Grid,
  type GridQuery,
  type Head,
  type Info,
  type MapSource,
  type Range,
  type Stage,
  type Stats,
  type TokenLists,
} from "./source.ts";

export interface Capture {
  id: string;
  name: string;
  run?: string | null;
  layer?: string | number | null;
  created: string | number;
  heads: number;
  kv_heads: number;
  queries: number;
  keys: number;
  head_dim: number;
  batch: number;
  dtype: string;
  approximate: boolean;
  bytes: number;
  pinned: boolean;
  has_tokens: boolean;
  mask: string;
  scale: number | null;
  softcap: number | null;
  stages: Stage[];
  q_grid?: [number, number] | null;
  k_grid?: [number, number] | null;
  q_tokens?: TokenLists;
  k_tokens?: TokenLists;
  options?: { q_offset: number[] }; // of the whole one
}

const pathOf = (id: string): string => `v1/captures/${encodeURIComponent(id)}`;

function infoOf(capture: Capture, batch: number): Info {
  return {
    id: capture.id,
    name: capture.name,
    batch: capture.batch,
    heads: capture.heads,
    kvHeads: capture.kv_heads,
    queries: capture.queries,
    keys: capture.keys,
    headDim: capture.head_dim,
    mask: capture.mask,
    scale: capture.scale,
    softcap: capture.softcap,
    stages: capture.stages,
    qTokens: tokensOf(capture.q_tokens, batch),
    kTokens: tokensOf(capture.k_tokens, batch),
    qGrid: capture.q_grid ?? null,
    kGrid: capture.k_grid ?? null,
    qOffset: offsetOf(capture.options?.q_offset, batch),
    isApproximate: capture.approximate,
    run: capture.run ?? undefined,
    layer: capture.layer ?? undefined,
  };
}

/** The quiet NaN without a payload marks hidden cells; any other one was computed. */
const HIDDEN_BITS = 0x7e00;
const LEAST_HALF = 2 ** -24;

export function readHalves(buffer: ArrayBuffer): { values: Float32Array; kinds: Uint8Array } {
  const bits = new Uint16Array(buffer);
  const values = Float32Array.from(bits, halfToNumber);
  const kinds = kindsOf(values);
  bits.forEach((word, i) => {
    if (word === HIDDEN_BITS) kinds[i] = Kind.Hidden;
  });
  return { values, kinds };
}

function rangeOf(text: string | null, otherwise: Range): Range {
  const [begin, end] = (text ?? "").split(":").map(Number);
  return Number.isInteger(begin) && Number.isInteger(end) ? [begin, end] : otherwise;
}

/** More than this along an axis the daemon does not give at once. */
const MOST_BINS = 4096;

class CaptureSource implements MapSource {
  readonly info: Info;
  readonly preview?: MapSource["preview"];

  constructor(
    private readonly capture: Capture,
    batch = 0,
  ) {
    this.info = infoOf(capture, batch);
    if (isLarge(this.info)) this.preview = (query, signal) => this.ask(query, signal, 1);
  }

  ofBatch(batch: number): MapSource {
    return new CaptureSource(this.capture, batch);
  }

  grid(query: GridQuery, signal?: AbortSignal): Promise<Grid> {
    return this.ask(query, signal);
  }

  private async ask(query: GridQuery, signal?: AbortSignal, preview?: 1): Promise<Grid> {
    const options = queryOf({
      batch: query.batch,
      head: query.head,
      stage: query.stage,
      op: query.pooling,
      format: "f16",
      rows: query.rows.join(":"),
      cols: query.cols.join(":"),
      preview,
      height: Math.min(query.height, length(query.rows), MOST_BINS),
      width: Math.min(query.width, length(query.cols), MOST_BINS),
    });
    const answer = await call(`${pathOf(this.info.id)}/map?${options}`, { signal });
    const [height, width] = (answer.headers.get("X-Map-Shape") ?? "").split(",").map(Number);
    return {
      ...readHalves(await answer.arrayBuffer()),
      height,
      width,
      pooling: query.pooling,
      rows: rangeOf(answer.headers.get("X-Map-Rows"), query.rows),
      cols: rangeOf(answer.headers.get("X-Map-Cols"), query.cols),
      isExact: answer.headers.get("X-Map-Exact") !== "0",
      least: LEAST_HALF,
    };
  }

  async cell(
    batch: number,
    head: number,
    row: number,
    col: number,
    signal?: AbortSignal,
  ): Promise<Cell> {
    const query = queryOf({ batch, head, row, col });
    return numbersOf(await getJson<Cell>(`${pathOf(this.info.id)}/cell?${query}`, signal));
  }

  async rowSums(batch: number, head: Head, signal?: AbortSignal): Promise<readonly number[]> {
    const options = { batch, head, op: "mass", width: 1, height: MOST_BINS, format: "json" };
    const answer = await getJson<{ weights: unknown }>(
      `${pathOf(this.info.id)}/map?${queryOf(options)}`,
      signal,
    );
    return flatten(answer.weights);
  }

  async stats(batch: number, signal?: AbortSignal): Promise<Stats> {
    const answer = await getJson<{ stats: Stats }>(
      `${pathOf(this.info.id)}/stats?${queryOf({ batch })}`,
      signal,
    );
    return numbersOf(answer.stats);
  }
}

export async function openCapture(id: string, signal?: AbortSignal): Promise<MapSource> {
  return new CaptureSource(await getJson<Capture>(pathOf(id), signal));
}

export interface CaptureListing {
  captures: Capture[];
  sequence: number;
  enabled?: boolean;
}
export const listCaptures = (): Promise<CaptureListing> => getJson("v1/captures");
export const pinCapture = (id: string, isPinned: boolean): Promise<Response> =>
  call(`${pathOf(id)}/pin`, { method: isPinned ? "PUT" : "DELETE" });
export const deleteCapture = (id: string): Promise<Response> =>
  call(pathOf(id), { method: "DELETE" });

/** The same queries and keys under another mask, as a capture of its own. */
export const remaskCapture = (
  id: string,
  options: Record<string, unknown>,
  signal?: AbortSignal,
): Promise<Capture> => postJson(`${pathOf(id)}/remask`, options, signal);

/** Against another capture, or against a reference in a file. */
export async function compareCapture(id: string, reference: string | Blob): Promise<Comparison> {
  const isFile = reference instanceof Blob;
  const answer = await call(`${pathOf(id)}/compare`, {
    method: "POST",
    body: isFile ? reference : JSON.stringify({ with: reference }),
    headers: { "Content-Type": isFile ? "application/octet-stream" : "application/json" },
  });
  return numbersOf((await answer.json()) as Comparison);
}
