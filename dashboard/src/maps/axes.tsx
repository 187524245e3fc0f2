// SPDX-License-Identifier: Apache-2.0
// Tokens or numbers along a map, and the marks over it.
import { length, type Range } from "../sources/source.ts";
import type { View } from "./drawing.ts";

export const LEFT = 92,
  TOP = 84; // room for the labels
const LEAST = 15; // pixels from one label to the next

interface Label {
  place: number;
  text: string;
}

/** Labels that do not touch: every cell's, or every 2nd, 5th, 10th, … cell's. */
export function labelsOf(seen: Range, pixels: number, tokens: readonly string[] | null): Label[] {
  const cell = pixels / length(seen);
  let step = 1;
  for (let i = 0; step * cell < LEAST; i++) step = [2, 5, 10][i % 3] * 10 ** Math.floor(i / 3);
  const labels: Label[] = [];
  for (let at = Math.ceil(seen[0] / step) * step; at < seen[1]; at += step) {
    const token = tokens?.[at];
    const text = token === undefined ? String(at) : `${at} ${token.trim() === "" ? "␣" : token}`;
    labels.push({
      place: (at - seen[0] + 0.5) * cell,
      text: text.length > 14 ? `${text.slice(0, 13)}…` : text,
    });
  }
  return labels;
}

export interface Marks {
  cursor?: readonly [number, number];
  pinned?: readonly [number, number];
}

interface AxesProps {
  view: View;
  width: number;
  height: number;
  qTokens: readonly string[] | null;
  kTokens: readonly string[] | null;
  marks: Marks;
}

export function Axes({ view, width, height, qTokens, kTokens, marks }: AxesProps) {
  const cell = [width / length(view.cols), height / length(view.rows)];
  const box = ([row, col]: readonly [number, number]) => ({
    x: LEFT + (col - view.cols[0]) * cell[0],
    y: TOP + (row - view.rows[0]) * cell[1],
    width: Math.max(cell[0], 3),
    height: Math.max(cell[1], 3),
  });
  const isSeen = (place?: readonly [number, number]) =>
    place &&
    place[0] >= view.rows[0] &&
    place[0] < view.rows[1] &&
    place[1] >= view.cols[0] &&
    place[1] < view.cols[1];
  return (
    <svg class="axes" width={LEFT + width + 40} height={TOP + height} aria-hidden="true">
      {labelsOf(view.cols, width, kTokens).map(({ place, text }) => (
        <text key={text} transform={`translate(${LEFT + place + 4} ${TOP - 6}) rotate(-50)`}>
          {text}
        </text>
      ))}
      {labelsOf(view.rows, height, qTokens).map(({ place, text }) => (
        <text key={text} x={LEFT - 6} y={TOP + place + 4} text-anchor="end">
          {text}
        </text>
      ))}
      {isSeen(marks.pinned) && <rect class="pinned" {...box(marks.pinned!)} />}
      {isSeen(marks.cursor) && <rect class="cursor" {...box(marks.cursor!)} />}
    </svg>
  );
}
