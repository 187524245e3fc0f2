// SPDX-License-Identifier: Apache-2.0
// What the mask editor's controls say, as a mask of the service.
export interface MaskDraft {
  isCausal: boolean;
  align: "top_left" | "bottom_right";
  window?: readonly [left: number, right: number];
  prefix: number; // so many first keys are seen by all, causal or not
  kept: number; // so many keys are no padding
  segments: readonly number[]; // lengths of documents that stand one after the other
  isAlibi: boolean;
  hidden: ReadonlySet<number>; // cells that the brush hid, row by row
}

export const emptyDraft = (keys: number): MaskDraft => ({
  isCausal: false,
  align: "top_left",
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

/** Options of /v1/attention: mask, and alibi where it is asked for. */
export function optionsOfDraft(
  draft: MaskDraft,
  queries: number,
  keys: number,
): Record<string, unknown> {
  const causal = queries === keys ? "causal" : { type: "causal", align: draft.align };
  const parts: unknown[] = [];
  if (draft.isCausal)
    parts.push(
      draft.prefix > 0 ? { any: [causal, { type: "prefix", length: draft.prefix }] } : causal,
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
  // "align" of a causal mask may not stand inside of "any"; then it is the queries' offset that says it.
  const isNested = draft.isCausal && draft.prefix > 0 && queries !== keys;
  const needsOffset =
    queries !== keys && (isNested || (!draft.isCausal && (draft.window || draft.isAlibi)));
  if (isNested) parts[0] = { any: ["causal", { type: "prefix", length: draft.prefix }] };
  return {
    mask: { all: parts },
    alibi: draft.isAlibi || undefined,
    q_offset: needsOffset ? (draft.align === "bottom_right" ? keys - queries : 0) : undefined,
  };
}
