// SPDX-License-Identifier: Apache-2.0
// The map for those who cannot see it: its largest cells, and each row's.
import { useState } from "preact/hooks";
import { Table } from "../ui/controls.tsx";
import { Kind, binRange, type Grid, type Info } from "../sources/source.ts";
import { cellText, valueText } from "./describe.ts";

const MOST = 50;

function largestCells(grid: Grid): number[] {
  return [...grid.values.keys()]
    .filter((at) => grid.kinds[at] !== Kind.Hidden)
    .sort((a, b) => grid.values[b] - grid.values[a] || a - b)
    .slice(0, MOST);
}

export function TableOfCells({ info, grid }: { info: Info; grid: Grid }) {
  const [isOpen, setIsOpen] = useState(false);
  const place = (at: number) =>
    cellText(
      info,
      grid,
      binRange(Math.floor(at / grid.width), grid.height, grid.rows)[0],
      binRange(at % grid.width, grid.width, grid.cols)[0],
    ).split(": ")[0];
  const seenInRow = (row: number) =>
    grid.kinds
      .subarray(row * grid.width, (row + 1) * grid.width)
      .filter((kind) => kind !== Kind.Hidden).length;
  const bestOfRow = (row: number) => largestOf(grid, row);
  return (
    <details onToggle={(event) => setIsOpen((event.currentTarget as HTMLDetailsElement).open)}>
      <summary>Show as a table</summary>
      {isOpen && (
        <Table
          caption={`The ${MOST} largest cells of what is seen`}
          head={["cell", "value"]}
          rows={largestCells(grid).map((at) => [place(at), valueText(grid, at)])}
        />
      )}
      {isOpen && (
        <Table
          caption="Rows of what is seen"
          head={["largest cell of the row", "value", "cells seen"]}
          rows={Array.from({ length: Math.min(grid.height, MOST) }, (_, row) => {
            const at = bestOfRow(row);
            return at < 0
              ? [`row ${row}`, "hidden by the mask", 0]
              : [place(at), valueText(grid, at), seenInRow(row)];
          })}
        />
      )}
    </details>
  );
}

/** The place of the row's largest cell; −1 where all are hidden. */
function largestOf(grid: Grid, row: number): number {
  let best = -1;
  for (let at = row * grid.width; at < (row + 1) * grid.width; at++)
    if (grid.kinds[at] === Kind.Value && (best < 0 || grid.values[at] > grid.values[best]))
      best = at;
  return best;
}
