// SPDX-License-Identifier: Apache-2.0
// Maps, and parts of them, as components wait for them.
import { useRef } from "preact/hooks";
import { useAsync } from "../lib/hooks.ts";
import { openSource, useHeld } from "../sources/held.ts";
import { length, type Grid, type GridSource, type MapSource } from "../sources/source.ts";
import type { View } from "./drawing.ts";
import type { MapState } from "./state.ts";

/** Options of a held request that the permalink replaces. */
function optionsOf(text: string | undefined): Record<string, unknown> {
  try {
    const options: unknown = JSON.parse(text ?? "{}");
    return typeof options === "object" && options !== null
      ? (options as Record<string, unknown>)
      : {};
  } catch {
    return {};
  }
}

export function useSource(id: string | undefined, options?: string) {
  const request = useHeld().find((held) => held.id === id); // another one, when a file comes again
  return useAsync<MapSource>(
    id === undefined ? undefined : (signal) => openSource(id, optionsOf(options), signal),
    [id, options, request],
  );
}

export interface OverviewInputs {
  source: MapSource;
  state: MapState;
  whole: View;
  grid?: Grid;
}

/** The whole map: what was last seen of it where that is the same, else asked for in few bins. */
export function useOverview(
  { source, state, whole, grid }: OverviewInputs,
  isZoomed: boolean,
  side: number,
) {
  const { batch, head, pooling, stage } = state;
  const key = [source.info.id, batch, head, pooling, stage, whole.cols.join()].join("|");
  const kept = useRef<{ key: string; source: MapSource; grid: Grid } | null>(null);
  if (
    grid &&
    !isZoomed &&
    length(grid.rows) === length(whole.rows) &&
    length(grid.cols) === length(whole.cols)
  )
    kept.current = { key, source, grid };
  const has = kept.current?.key === key && kept.current.source === source;
  const { value } = useGrid(isZoomed && !has ? source : undefined, state, whole, side);
  return has ? kept.current!.grid : value;
}

/** The part of a map that a state shows, in at most `side` bins along each axis; of large maps what
 *  some of their rows show comes first. */
export function useGrid(source: GridSource | undefined, state: MapState, view: View, side: number) {
  const { batch, head, pooling } = state;
  const stage = state.stage === "mask" ? "weights" : state.stage;
  const query = { ...view, batch, head, stage, pooling, height: side, width: side };
  return useAsync<Grid>(
    source &&
      (async (signal, showEarly) => {
        const early = await source.preview?.(query, signal, showEarly).catch(() => undefined);
        if (early?.isExact) return early;
        if (early) showEarly(early);
        return source.grid(query, signal);
      }),
    [source, batch, head, stage, pooling, side, view.rows.join(), view.cols.join()],
  );
}
