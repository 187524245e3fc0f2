// SPDX-License-Identifier: Apache-2.0
// Keys that are patches of a picture, laid out as they lie in it, with the weights of one query.
import { useEffect, useState } from "preact/hooks";
import { useAsync } from "../lib/hooks.ts";
import { changeParams } from "../lib/route.ts";
import { named } from "../lib/text.ts";
import type { Grid, Info, MapSource } from "../sources/source.ts";
import { NumberField, Panel } from "../ui/controls.tsx";
import { Heatmap } from "./heatmap.tsx";
import { largest } from "./scale.ts";
import type { MapState } from "./state.ts";

const SIDE = 256;

/** The last h·w keys of a row, as a grid of h rows; class tokens and registers stand before them. */
export function layOut(row: Grid, [height, width]: readonly [number, number]): Grid {
  const first = row.width - height * width;
  return {
    ...row,
    height,
    width,
    rows: [0, height],
    cols: [0, width],
    values: row.values.slice(first),
    kinds: row.kinds.slice(first),
  };
}

/** Marks the patch that looks, where queries lie on the same grid. */
function QueryPatch({ info, shape, pixels, query }: QueryPatchProps) {
  const [height, width] = shape;
  const at = query - (info.queries - height * width);
  if (info.qGrid?.join() !== shape.join() || at < 0) return null;
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

interface QueryPatchProps {
  info: Info;
  shape: readonly [number, number];
  pixels: readonly [number, number];
  query: number;
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
  query: number;
  address?: string; // of the picture
}

/** The weights of a query over the picture. */
function Overlay({ source, state, shape, query, address }: OverlayProps) {
  const { info } = source;
  const [height, width] = shape;
  const pixels = [SIDE, Math.round((SIDE * height) / width)] as const;
  const { batch, head } = state;
  const part = {
    rows: [query, query + 1],
    cols: [info.keys - height * width, info.keys],
    height: 1,
    width: height * width,
  } as const;
  const { value: row } = useAsync(
    (signal) => source.grid({ ...part, batch, head, stage: "weights", pooling: "max" }, signal),
    [source, query, batch, head, height * width],
  );
  if (!row || row.width !== height * width) return null;
  return (
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
          grid={layOut(row, shape)}
          view={{ rows: [0, height], cols: [0, width] }}
          width={pixels[0]}
          height={pixels[1]}
          name={`weights of ${named("query", query, info.qTokens)} over ${height} by ${width} patches`}
          scale={{ low: 0, high: largest(row) || 1, isLog: false, isDiverging: false }}
        />
      </span>
      <QueryPatch {...{ info, shape, pixels, query }} />
    </div>
  );
}

/** The shape comes with a capture, or is typed in: keys may be patches without saying so. */
export function PicturePanel({ source, state }: { source: MapSource; state: MapState }) {
  const { keys, kGrid } = source.info;
  const { grid: shape, pinned } = state;
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
        {fits && !pinned && <p class="hint">Pin a query to see where it looks.</p>}
        {fits && pinned && <Overlay {...{ source, state, shape, address }} query={pinned[0]} />}
      </details>
    </Panel>
  );
}
