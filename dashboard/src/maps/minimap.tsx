// SPDX-License-Identifier: Apache-2.0
// The whole map, small, with what is seen of it; a click moves there.
import { length, type Grid } from "../sources/source.ts";
import { sizeOf, type View } from "./drawing.ts";
import { Heatmap } from "./heatmap.tsx";
import type { Scale } from "./scale.ts";
import { moved } from "./state.ts";

export const MINI_SIDE = 128;

interface MinimapProps {
  grid: Grid;
  view: View;
  whole: View;
  scale: Scale;
  onView: (view: View) => void;
}

export function Minimap({ grid, view, whole, scale, onView }: MinimapProps) {
  const [width, height] = sizeOf(length(whole.rows), length(whole.cols), MINI_SIDE, 16);
  const perRow = height / length(whole.rows),
    perCol = width / length(whole.cols);
  const centre = (event: MouseEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const row = whole.rows[0] + (event.clientY - box.top) / perRow - length(view.rows) / 2;
    const col = whole.cols[0] + (event.clientX - box.left) / perCol - length(view.cols) / 2;
    onView(moved(view, Math.round(row) - view.rows[0], Math.round(col) - view.cols[0], whole));
  };
  return (
    <div class="minimap" aria-hidden="true" onClick={centre}>
      <Heatmap {...{ grid, view: whole, scale, width, height }} />
      <svg width={width} height={height}>
        <rect
          x={(view.cols[0] - whole.cols[0]) * perCol}
          y={(view.rows[0] - whole.rows[0]) * perRow}
          width={Math.max(2, length(view.cols) * perCol)}
          height={Math.max(2, length(view.rows) * perRow)}
        />
      </svg>
    </div>
  );
}
