// SPDX-License-Identifier: Apache-2.0
// Keys that are patches of a picture, laid out as they lie in it, with the weights of one query.
import { useEffect, useState } from "preact/hooks";
import { useAsync } from "../lib/hooks.ts";
import { changeParams } from "../lib/route.ts";
import { named, number } from "../lib/text.ts";
import { Kind, type Grid, type Info, type MapSource } from "../sources/source.ts";
import { NumberField, Panel, Segments } from "../ui/controls.tsx";
import { Heatmap } from "./heatmap.tsx";
import { largest } from "./scale.ts";
import type { MapState } from "./state.ts";

const SIDE = 256;

/** The last h·w bins of a row, or of a column, as a grid of h rows; class tokens and registers stand
 *  before them. */
export function layOut(line: Grid, [height, width]: readonly [number, number]): Grid {
  const first = line.values.length - height * width;
  return {
    ...line,
    height,
    width,
    rows: [0, height],
    cols: [0, width],
    values: line.values.slice(first),
    kinds: line.kinds.slice(first),
  };
}

/** How far away in the picture the weight lies, in patches, from the patch `at`. */
export function distanceFrom(at: number, { values, kinds, width }: Grid): number {
  let mass = 0,
    moment = 0;
  values.forEach((weight, patch) => {
    if (kinds[patch] === Kind.Hidden) return;
    const down = Math.floor(patch / width) - Math.floor(at / width);
    mass += weight;
    moment += weight * Math.hypot(down, (patch % width) - (at % width));
  });
  return moment / mass;
}

/** Whether queries are patches of the picture too, as they are where each token attends to all. */
const hasQueryPatches = ({ qGrid, queries, keys }: Info, shape: readonly number[]): boolean =>
  qGrid ? qGrid.join() === shape.join() : queries === keys;

/** Marks the patch that is chosen. */
function ChosenPatch({ shape, pixels, at }: ChosenPatchProps) {
  const [height, width] = shape;
  const cell = [pixels[0] / width, pixels[1] / height];
  return (
    <svg class="axes" width={pixels[0]} height={pixels[1]} aria-hidden="true">
      <rect
        class="pinned"
        x={(at % width) * cell[0]}
        y={Math.floor(at / width) * cell[1]}
        width={cell[0]}
        height={cell[1]}
      />
    </svg>
  );
}

interface ChosenPatchProps {
  shape: readonly [number, number];
  pixels: readonly [number, number];
  at: number;
}

function useObjectUrl(file: File | undefined): string | undefined {
  const [address, setAddress] = useState<string>();
  useEffect(() => {
    if (!file) return;
    const made = URL.createObjectURL(file);
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [file]);
  return file && address;
}

interface OverlayProps {
  source: MapSource;
  state: MapState;
  shape: readonly [number, number];
  pinned: readonly [row: number, col: number];
  address?: string; // of the picture
}

/** The weights of a query, or those that a key receives, over the picture. */
function Overlay({ source, state, shape, pinned: [query, key], address }: OverlayProps) {
  const { info } = source;
  const [height, width] = shape;
  const count = height * width;
  const pixels = [SIDE, Math.round((SIDE * height) / width)] as const;
  const { batch, head, isOfKey } = state;
  const hasQueries = hasQueryPatches(info, shape);
  const isColumn = isOfKey && hasQueries;
  const part = isColumn
    ? { rows: [info.queries - count, info.queries], cols: [key, key + 1] }
    : { rows: [query, query + 1], cols: [info.keys - count, info.keys] };
  const { value: line } = useAsync(
    (signal) =>
      source.grid(
        {
          rows: part.rows as [number, number],
          cols: part.cols as [number, number],
          height: isColumn ? count : 1,
          width: isColumn ? 1 : count,
          batch,
          head,
          stage: "weights",
          pooling: "max",
        },
        signal,
      ),
    [source, isColumn ? key : query, isColumn, batch, head, count],
  );
  if (!line || line.values.length !== count || line.height !== (isColumn ? count : 1)) return null;
  const at = isColumn ? key - (info.keys - count) : query - (info.queries - count);
  const isPatch = (isColumn || hasQueries) && at >= 0;
  const patches = layOut(line, shape);
  const name = isColumn
    ? `weights that ${named("key", key, info.kTokens)} receives from ${height} by ${width} patches`
    : `weights of ${named("query", query, info.qTokens)} over ${height} by ${width} patches`;
  return (
    <>
      <div class="overlay">
        {address && (
          <img
            src={address}
            width={pixels[0]}
            height={pixels[1]}
            alt="the picture that the keys are patches of"
          />
        )}
        <span class={address ? "over" : undefined}>
          <Heatmap
            grid={patches}
            view={{ rows: [0, height], cols: [0, width] }}
            width={pixels[0]}
            height={pixels[1]}
            name={name}
            scale={{ low: 0, high: largest(line) || 1, isLog: false, isDiverging: false }}
          />
        </span>
        {isPatch && <ChosenPatch {...{ shape, pixels, at }} />}
      </div>
      {isPatch && (
        <p class="distance">
          Distance in the picture, weighted: {number(distanceFrom(at, patches))} patches
        </p>
      )}
    </>
  );
}

/** The shape comes with a capture, or is typed in: keys may be patches without saying so. */
export function PicturePanel({ source, state }: { source: MapSource; state: MapState }) {
  const { keys, kGrid } = source.info;
  const { grid: shape, pinned, isOfKey } = state;
  const [height, width] = shape ?? [1, 1];
  const fits = shape !== undefined && height * width <= keys;
  const [file, setFile] = useState<File>();
  const address = useObjectUrl(file);
  const set = (rows: number, cols: number) => changeParams({ grid: `${rows}x${cols}` });
  const side = { min: 1, max: keys };
  return (
    <Panel title="Keys as a picture">
      <details open={kGrid !== null || shape !== undefined}>
        <summary>The last keys are patches of a picture</summary>
        <div class="row">
          <NumberField
            label="rows"
            {...side}
            value={height}
            onChange={(rows) => set(rows, width)}
          />
          <NumberField
            label="columns"
            {...side}
            value={width}
            onChange={(cols) => set(height, cols)}
          />
        </div>
        <label class="field">
          <span>The picture itself; it stays in this browser</span>
          <input
            type="file"
            accept="image/*"
            onChange={(event) => setFile(event.currentTarget.files?.[0])}
          />
        </label>
        {shape && !fits && (
          <p class="hint">
            {height} × {width} patches are more than the {keys} keys.
          </p>
        )}
        {fits && hasQueryPatches(source.info, shape) && (
          <Segments
            label="What the patches show"
            value={isOfKey ? "key" : "query"}
            options={[
              ["query", "where the query looks"],
              ["key", "who looks at the key"],
            ]}
            onChange={(patches) =>
              changeParams({ patches: patches === "key" ? patches : undefined })
            }
          />
        )}
        {fits && !pinned && <p class="hint">Pin a cell to see where its query looks.</p>}
        {fits && pinned && <Overlay {...{ source, state, shape, pinned, address }} />}
      </details>
    </Panel>
  );
}
