// SPDX-License-Identifier: Apache-2.0
// A map of a request that the page holds: every part is a call of /v1/attention with other options.
import { call, queryOf } from "../lib/api.ts";
import { flatten, readTensor, type Tensor } from "../lib/tensor.ts";
import {
  Kind,
  STAGES,
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
    body: isFile ? tensors : JSON.stringify({ ...tensors, ...all }),
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

class RequestSource implements MapSource {
  readonly info: Info;

  constructor(
    private readonly request: HeldRequest,
    private readonly meta: Answer["meta"],
    batch = 0,
  ) {
    this.info = infoOf(request, meta, batch);
  }

  ofBatch(batch: number): MapSource {
    return new RequestSource(this.request, this.meta, batch);
  }

  async grid(query: GridQuery, signal?: AbortSignal): Promise<Grid> {
    const { rows, cols, stage, pooling } = query;
    const height = Math.min(query.height, length(rows)),
      width = Math.min(query.width, length(cols));
    const isPooled = height < length(rows) || width < length(cols);
    const answer = await attend(
      this.request,
      {
        return: ["weights", "scores"],
        weights: {
          stage,
          heads: headsOf(query.head),
          rows,
          cols,
          ...(isPooled && { pool: { rows: height, cols: width, op: pooling } }),
        },
      },
      signal,
    );
    const values = ofBatch(readTensor(answer.weights!), query.batch);
    const scores = ofBatch(readTensor(answer.scores!), query.batch);
    const kinds = kindsOf(values);
    scores.forEach((score, i) => {
      if (score === -Infinity) kinds[i] = Kind.Hidden;
    });
    return { rows, cols, height, width, values, kinds, isExact: true, pooling };
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
    const [answer, raw, scaled, capped] = (await Promise.all([
      attend(this.request, { return: ["weights", "scores", "lse"], weights: rowOnly }, signal),
      ...["raw", "scaled", "capped"].map((stage) =>
        this.scoreAt(stage, batch, head, row, col, signal),
      ),
    ] as const)) as [Answer, number, number, number];
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
      hidden: masked === -Infinity,
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
