// SPDX-License-Identifier: Apache-2.0
// Short sequences as two columns of words with a line for each weight.
import { named, number } from "../lib/text.ts";
import { Kind, length, type Grid, type Info } from "../sources/source.ts";
import type { CellPlace } from "./big_map.tsx";

const STEP = 22,
  LEAST = 0.01;

/** Columns of words and the gap between them, in a room of so many pixels. */
function widthsIn(room: number): readonly [column: number, gap: number] {
  const column = Math.min(150, room * 0.36);
  return [column, Math.min(220, room - 2 * column)];
}

interface LinesProps {
  room: number; // pixels
  info: Info;
  grid: Grid; // of whole cells
  name: string;
  pinned?: CellPlace;
  onPin: (cell: CellPlace) => void;
}

export function Lines({ room, info, grid, name, pinned, onPin }: LinesProps) {
  const [column, gap] = widthsIn(room);
  const rows = Array.from({ length: length(grid.rows) }, (_, i) => grid.rows[0] + i);
  const cols = Array.from({ length: length(grid.cols) }, (_, j) => grid.cols[0] + j);
  const y = (place: number, first: number) => (place - first + 0.7) * STEP;
  const lines = [...grid.values.keys()].filter(
    (at) => grid.kinds[at] === Kind.Value && grid.values[at] >= LEAST,
  );
  return (
    <figure class="lines">
      <svg
        role="img"
        aria-label={name}
        width={2 * column + gap}
        height={STEP * Math.max(rows.length, cols.length) + 8}
      >
        {lines.map((at) => {
          const row = grid.rows[0] + Math.floor(at / grid.width),
            col = grid.cols[0] + (at % grid.width);
          return (
            <line
              key={at}
              x1={column + 4}
              x2={column + gap - 4}
              y1={y(row, grid.rows[0])}
              y2={y(col, grid.cols[0])}
              class={pinned && pinned[0] !== row ? "faint" : undefined}
              stroke-width={0.5 + 4 * grid.values[at]}
              stroke-opacity={Math.min(1, 0.1 + grid.values[at])}
            />
          );
        })}
        {rows.map((row) => (
          <text
            key={row}
            x={column}
            y={y(row, grid.rows[0]) + 4}
            text-anchor="end"
            class={pinned?.[0] === row ? "chosen" : undefined}
            onClick={() => onPin([row, pinned?.[1] ?? grid.cols[0]])}
          >
            {named("query", row, info.qTokens)}
          </text>
        ))}
        {cols.map((col) => (
          <text key={col} x={column + gap} y={y(col, grid.cols[0]) + 4}>
            {named("key", col, info.kTokens)}
          </text>
        ))}
      </svg>
      <figcaption>
        A line is as wide and as dark as its weight; weights below {number(LEAST)} have none. Click
        a query to see its lines alone.
      </figcaption>
    </figure>
  );
}
