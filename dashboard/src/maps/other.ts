// SPDX-License-Identifier: Apache-2.0
// The map that another one is compared with, over the same part.
import { isReference, referenceOf } from "../sources/reference_source.ts";
import type { Grid, Info, MapSource } from "../sources/source.ts";
import { headName } from "./describe.ts";
import { useGrid, useSource } from "./loading.ts";
import { readHead, type MapState } from "./state.ts";

export interface OtherMap {
  info: Info;
  grid: Grid;
  name: string; // with its head
}

export interface Other {
  map?: OtherMap;
  error?: Error;
  notice?: string; // why there is none, where that is no error
}

/** What a state compares a map with, once it is there in the same bins. */
export function useOther(
  { info }: MapSource,
  state: MapState,
  grid: Grid | undefined,
  options?: string,
): Other {
  const { compare } = state;
  const isFile = compare !== undefined && isReference(compare.id);
  const opened = useSource(
    isFile ? undefined : compare?.id,
    compare?.id === info.id ? options : undefined,
  );
  const source = isFile ? referenceOf(compare.id) : compare && opened.value;
  const isSameShape =
    source?.info.queries === info.queries && source.info.keys === info.keys ? source : undefined;
  const head =
    source && typeof compare?.head === "number"
      ? readHead(String(compare.head), source.info.heads)
      : (compare?.head ?? 0);
  const { value, error } = useGrid(
    grid && isSameShape,
    { ...state, head },
    state.view,
    Math.max(grid?.height ?? 1, grid?.width ?? 1),
  );
  if (opened.error || error) return { error: opened.error ?? error };
  if (isFile && !source) return { notice: "This reference was in a file: choose it again." };
  if (source && !isSameShape)
    return {
      notice: `${source.info.name} has ${source.info.queries} × ${source.info.keys} cells; maps of one shape can be compared.`,
    };
  if (!grid || !source || value?.values.length !== grid.values.length) return {};
  return {
    map: { info: source.info, grid: value, name: `${source.info.name}, ${headName(head)}` },
  };
}
