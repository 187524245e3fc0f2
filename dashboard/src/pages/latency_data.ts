// SPDX-License-Identifier: Apache-2.0
// What GET /v1/latency has: the last quarter of an hour from the daemon's memory, oldest first.
import { getJson } from "../lib/api.ts";

/** Milliseconds below which that share of requests was answered. */
export interface Quantiles {
  p50: number;
  p95: number;
  p99: number;
}

export interface Bucket {
  time: number; // seconds since 1970, of its beginning
  statuses: Readonly<Record<string, number>>; // requests by status, "200"
  total_ms: Quantiles | null; // null: nothing was answered
  stages_ms: Readonly<Record<string, number>> | null; // mean per request of "queue", "decode", …
  shapes: Readonly<Record<string, number>>; // p95 in ms by shape class
  queue_depth: number; // the largest
  in_flight: number; // the largest
  rejections: number;
  kv_cache_bytes: number;
  capture_bytes: number;
}

export interface SlowRequest {
  id: string;
  time: number;
  total_ms: number;
  stages_ms: Readonly<Record<string, number>>;
  shape: string;
  status: number;
  capture: string | null;
}

export interface Latency {
  step_seconds: number;
  queue_limit: number;
  quantile_error: number; // at most so far beside the truth, as a share
  buckets: readonly Bucket[];
  slowest: readonly SlowRequest[];
}

export const askLatency = (): Promise<Latency> => getJson("v1/latency");

export interface Step {
  time: number;
  bucket: Bucket | null;
}

/** One step after the other: those that the daemon has nothing of are there without a bucket. */
export function stepsOf({ buckets, step_seconds }: Latency): Step[] {
  const first = buckets[0]?.time ?? 0,
    last = buckets.at(-1)?.time ?? -1;
  const known = new Map(buckets.map((bucket) => [bucket.time, bucket]));
  const steps: Step[] = [];
  for (let time = first; time <= last; time += step_seconds)
    steps.push({ time, bucket: known.get(time) ?? null });
  return steps;
}

/** Every name that occurs in any bucket, in the order in which they first do. */
export function namesOf(
  buckets: readonly Bucket[],
  of: (bucket: Bucket) => object | null,
): string[] {
  return [...new Set(buckets.flatMap((bucket) => Object.keys(of(bucket) ?? {})))];
}
