// SPDX-License-Identifier: Apache-2.0
// Draws grids pixel by pixel: the same grid and scale give the same bytes everywhere.
import { LEVELS } from "../lib/colours.ts";
import { Kind, binOf, length, type Grid, type Range } from "../sources/source.ts";
import { levelOf, rampOf, type Scale } from "./scale.ts";

export interface View {
  rows: Range;
  cols: Range;
}
type Rgb = readonly [number, number, number];

export const MAGENTA: Rgb = [216, 0, 180];
const HATCH: Record<"light" | "dark", readonly [ground: Rgb, line: Rgb]> = {
  light: [
    [236, 236, 240],
    [176, 176, 188],
  ],
  dark: [
    [40, 41, 48],
    [92, 94, 106],
  ],
};
const HATCH_STEP = 6;

/** Red, green, blue and an opaque alpha as a word of ImageData, whose bytes are in this order. */
const word = ([red, green, blue]: Rgb): number =>
  ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;

/** For each pixel along one axis the grid's bin there; −1 where the grid does not reach. */
function binsAlong(pixels: number, seen: Range, bins: number, covered: Range): Int32Array {
  return Int32Array.from({ length: pixels }, (_, pixel) => {
    const place = seen[0] + Math.floor(((pixel + 0.5) * length(seen)) / pixels);
    return place < covered[0] || place >= covered[1] ? -1 : binOf(place, bins, covered);
  });
}

function words(scale: Scale): Uint32Array {
  const ramp = rampOf(scale);
  return Uint32Array.from({ length: LEVELS }, (_, level) =>
    word([ramp[3 * level], ramp[3 * level + 1], ramp[3 * level + 2]]),
  );
}

export interface Paint {
  scale: Scale;
  theme: "light" | "dark";
  isMaskOnly?: boolean;
}

/** Fills the image with the part of the grid that the view shows. */
export function paint(image: ImageData, grid: Grid, view: View, how: Paint): void {
  const pixels = new Uint32Array(image.data.buffer);
  const columns = binsAlong(image.width, view.cols, grid.width, grid.cols);
  const rows = binsAlong(image.height, view.rows, grid.height, grid.rows);
  const colours = words(how.scale);
  const [ground, line] = HATCH[how.theme].map(word);
  const plain = Uint32Array.from(grid.values, (value, i) =>
    grid.kinds[i] !== Kind.Value
      ? word(MAGENTA)
      : colours[how.isMaskOnly ? LEVELS - 64 : levelOf(how.scale, value)],
  );
  for (let y = 0; y < image.height; y++)
    for (let x = 0; x < image.width; x++) {
      const at = rows[y] < 0 || columns[x] < 0 ? -1 : rows[y] * grid.width + columns[x];
      pixels[y * image.width + x] =
        at < 0
          ? ground
          : grid.kinds[at] !== Kind.Hidden
            ? plain[at]
            : (x + y) % HATCH_STEP < 2
              ? line
              : ground;
    }
}

/** Names each cell that is no number, where it is large enough to be read. */
export function drawGlyphs(context: CanvasRenderingContext2D, grid: Grid, view: View): void {
  const width = context.canvas.width / length(view.cols);
  const height = context.canvas.height / length(view.rows);
  if (Math.min(width, height) < 12 || grid.height !== length(grid.rows)) return;
  context.fillStyle = "#fff";
  context.font = `${Math.min(14, height * 0.6)}px sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  grid.kinds.forEach((kind, i) => {
    if (kind !== Kind.NotANumber && kind !== Kind.Infinite) return;
    const col = grid.cols[0] + (i % grid.width),
      row = grid.rows[0] + Math.floor(i / grid.width);
    const glyph = kind === Kind.NotANumber ? "×" : grid.values[i] > 0 ? "∞" : "−∞";
    context.fillText(
      glyph,
      (col - view.cols[0] + 0.5) * width,
      (row - view.rows[0] + 0.5) * height,
    );
  });
}

/** How many values are no numbers. */
export function countOdd(grid: Grid): number {
  return grid.kinds.reduce(
    (count, kind) => count + Number(kind === Kind.NotANumber || kind === Kind.Infinite),
    0,
  );
}

/** Pixels of a map: square cells where that leaves enough of either side to be seen. */
export function sizeOf(rows: number, cols: number, most: number, least = 28): [number, number] {
  const side = Math.min(most / 8, most / Math.max(rows, cols, 1));
  const whole = side >= 1 ? Math.floor(side) : side;
  return [cols, rows].map((cells) =>
    Math.round(Math.min(most, Math.max(least, cells * whole))),
  ) as [number, number];
}
