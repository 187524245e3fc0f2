// SPDX-License-Identifier: Apache-2.0
// Short sequences as two columns of words with a line for each weight.
import { named, number } from "../lib/text.ts";
import { Kind, length, type Grid, type Info } from "../sources/source.ts";
import type { CellPlace } from "./big_map.tsx";

const STEP = 22,
  COLUMN = 150,
  GAP = 220,
  LEAST = 0.01;

interface LinesProps {
  info: Info;
  grid: Grid; // of whole cells
  name: string;
  pinned?: CellPlace;
  onPin: (cell: CellPlace) => void;
}

export function Lines({ info, grid, name, pinned, onPin }: LinesProps) {
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
        width={2 * COLUMN + GAP}
        height={STEP * Math.max(rows.length, cols.length) + 8}
      >
        {lines.map((at) => {
          const row = grid.rows[0] + Math.floor(at / grid.width),
            col = grid.cols[0] + (at % grid.width);
          return (
            <line
              key={at}
              x1={COLUMN + 4}
              x2={COLUMN + GAP - 4}
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
            x={COLUMN}
            y={y(row, grid.rows[0]) + 4}
            text-anchor="end"
            class={pinned?.[0] === row ? "chosen" : undefined}
            onClick={() => onPin([row, pinned?.[1] ?? grid.cols[0]])}
          >
            {named("query", row, info.qTokens)}
          </text>
        ))}
        {cols.map((col) => (
          <text key={col} x={COLUMN + GAP} y={y(col, grid.cols[0]) + 4}>
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
