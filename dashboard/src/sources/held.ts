// SPDX-License-Identifier: Apache-2.0
// The requests that this page holds, until it is closed: files that were dropped on it.
import { useEffect, useState } from "preact/hooks";
import { openCapture } from "./capture_source.ts";
import { openRequest, type HeldRequest } from "./request_source.ts";
import { sample } from "./sample.ts";
import type { MapSource } from "./source.ts";

const held = new Map<string, HeldRequest>([[sample.id, sample]]);
const CHANGED = "heldchange";

export function hold(request: HeldRequest): void {
  held.set(request.id, request);
  dispatchEvent(new Event(CHANGED));
}

export function useHeld(): readonly HeldRequest[] {
  const [list, setList] = useState([...held.values()]);
  useEffect(() => {
    const follow = () => setList([...held.values()]);
    addEventListener(CHANGED, follow);
    return () => removeEventListener(CHANGED, follow);
  }, []);
  return list;
}

export const isHeld = (id: string): boolean => held.has(id);

/** A request of this page with some of its options replaced, or a capture of the daemon's. */
export function openSource(
  id: string,
  options: Record<string, unknown>,
  signal: AbortSignal,
): Promise<MapSource> {
  const request = held.get(id);
  if (!request) return openCapture(id, signal);
  return openRequest({ ...request, options: { ...request.options, ...options } }, signal);
}
