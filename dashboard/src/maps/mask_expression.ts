// SPDX-License-Identifier: Apache-2.0
// What the mask editor's controls say, as a mask of the service.
export interface MaskDraft {
  isCausal: boolean;
  align: "own" | "top_left" | "bottom_right"; // own: where the request, or the capture, has them
  window?: readonly [left: number, right: number];
  prefix: number; // so many first keys are seen by all, causal or not
  kept: number; // so many keys are no padding
  segments: readonly number[]; // lengths of documents that stand one after the other
  isAlibi: boolean;
  hidden: ReadonlySet<number>; // cells that the brush hid, row by row
}

export const emptyDraft = (keys: number, hasOwnOffset = false): MaskDraft => ({
  isCausal: false,
  align: hasOwnOffset ? "own" : "bottom_right",
  prefix: 0,
  kept: keys,
  segments: [],
  isAlibi: false,
  hidden: new Set(),
});

/** Ids of documents with these lengths; what is left over is one more. */
export function idsOf(lengths: readonly number[], count: number): number[] {
  const ids = lengths.flatMap((size, id) => Array<number>(size).fill(id)).slice(0, count);
  return [...ids, ...Array<number>(count - ids.length).fill(lengths.length)];
}

function brushed(hidden: ReadonlySet<number>, queries: number, keys: number): unknown {
  const rows = Array.from({ length: queries }, (_, row) =>
    Array.from({ length: keys }, (_, col) => Number(hidden.has(row * keys + col))),
  );
  return { type: "hide", tensor: rows };
}

/** Options of /v1/attention, and of another mask for a capture: mask, alibi where it is asked for, and
 *  where queries stand that are not as many as keys. */
export function optionsOfDraft(
  draft: MaskDraft,
  queries: number,
  keys: number,
): Record<string, unknown> {
  const parts: unknown[] = [];
  if (draft.isCausal)
    parts.push(
      draft.prefix > 0 ? { any: ["causal", { type: "prefix", length: draft.prefix }] } : "causal",
    );
  if (draft.window) parts.push({ type: "window", left: draft.window[0], right: draft.window[1] });
  if (draft.kept < keys) parts.push({ type: "padding", kv_lengths: [draft.kept] });
  if (draft.segments.length > 0)
    parts.push({
      type: "segments",
      q: idsOf(draft.segments, queries),
      kv: idsOf(draft.segments, keys),
    });
  if (draft.hidden.size > 0) parts.push(brushed(draft.hidden, queries, keys));
  const isPlaced =
    queries !== keys && draft.align !== "own" && (draft.isCausal || draft.window || draft.isAlibi);
  return {
    mask: { all: parts },
    alibi: draft.isAlibi || undefined,
    q_offset: isPlaced ? (draft.align === "bottom_right" ? draft.kept - queries : 0) : undefined,
  };
}
