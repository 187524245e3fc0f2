// SPDX-License-Identifier: Apache-2.0
// What is seen as a file: a picture with its axes and legend, or the numbers.
import { css, LEVELS } from "../lib/colours.ts";
import { number } from "../lib/text.ts";
import { writeNpy } from "../lib/tensor.ts";
import { Kind, binRange, isPooled, type Grid, type Info } from "../sources/source.ts";
import { LEFT, TOP, labelsOf } from "./axes.tsx";
import { paint, sizeOf, type View } from "./drawing.ts";
import { levelOf, rampOf, valueOf, type Scale } from "./scale.ts";

export interface Picture {
  info: Info;
  grid: Grid;
  view: View;
  scale: Scale;
  title: string;
  legend: string;
}

const VECTOR_CELLS = 128; // along an axis; larger maps are one image within the vectors
const SIDE = 640,
  BELOW = 70;
export const CSV_ROWS = 10_000;

/** Text inside of XML; what XML has no sign for is left out. */
export function escapeXml(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "")
    .replace(/[&<>"']/g, (sign) => `&#${sign.codePointAt(0)};`);
}

const HATCH =
  '<pattern id="hidden" width="6" height="6" patternUnits="userSpaceOnUse">' +
  '<rect width="6" height="6" fill="#ececf0"/><path d="M0 6L6 0" stroke="#b0b0bc"/></pattern>';

function vectorCells({ grid, scale }: Picture, width: number, height: number): string {
  const w = width / grid.width,
    h = height / grid.height;
  return [...grid.values]
    .map((value, at) => {
      const fill =
        grid.kinds[at] === Kind.Hidden
          ? "url(#hidden)"
          : grid.kinds[at] !== Kind.Value
            ? "#d800b4"
            : css(rampOf(scale), levelOf(scale, value));
      const x = (at % grid.width) * w,
        y = Math.floor(at / grid.width) * h;
      return `<rect x="${x}" y="${y}" width="${w}" height="${h}" fill="${fill}"/>`;
    })
    .join("");
}

function rasterCells({ grid, view, scale }: Picture, width: number, height: number): string {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d")!;
  const image = context.createImageData(width, height);
  paint(image, grid, view, { scale, theme: "light" });
  context.putImageData(image, 0, 0);
  return `<image width="${width}" height="${height}" href="${canvas.toDataURL()}"/>`;
}

function axisTexts({ info, view }: Picture, width: number, height: number): string {
  const along = labelsOf(view.cols, width, info.kTokens).map(
    ({ place, text }) =>
      `<text transform="translate(${place + 4} -6) rotate(-50)">${escapeXml(text)}</text>`,
  );
  const down = labelsOf(view.rows, height, info.qTokens).map(
    ({ place, text }) =>
      `<text x="-6" y="${place + 4}" text-anchor="end">${escapeXml(text)}</text>`,
  );
  return [...along, ...down].join("");
}

function colourBar(scale: Scale): string {
  const bars = Array.from(
    { length: LEVELS },
    (_, level) =>
      `<rect x="${level}" width="1.5" height="12" fill="${css(rampOf(scale), level)}"/>`,
  );
  const ticks = [0, 0.5, 1].map(
    (part) =>
      `<text x="${part * (LEVELS - 1)}" y="26" ` +
      `text-anchor="${["start", "middle", "end"][part * 2]}">${number(valueOf(scale, part * (LEVELS - 1)), 2)}</text>`,
  );
  return bars.join("") + ticks.join("");
}

export function makeSvg(picture: Picture): { text: string; width: number; height: number } {
  const { grid, view, title, legend } = picture;
  const [width, height] = sizeOf(view.rows[1] - view.rows[0], view.cols[1] - view.cols[0], SIDE);
  const all = [LEFT + Math.max(width, 420) + 40, TOP + 24 + height + BELOW] as const;
  const isVector = grid.width <= VECTOR_CELLS && grid.height <= VECTOR_CELLS;
  const text =
    `<svg xmlns="http://www.w3.org/2000/svg" width="${all[0]}" height="${all[1]}" ` +
    `font-family="system-ui,sans-serif" font-size="12"><defs>${HATCH}</defs>` +
    '<rect width="100%" height="100%" fill="#fff"/>' +
    `<text x="8" y="18" font-size="14">${escapeXml(title)}</text>` +
    `<g transform="translate(${LEFT} ${TOP + 24})">` +
    (isVector ? vectorCells : rasterCells)(picture, width, height) +
    axisTexts(picture, width, height) +
    "</g>" +
    `<g transform="translate(${LEFT} ${TOP + 24 + height + 14})">${colourBar(picture.scale)}` +
    `<text y="44" font-size="11">${escapeXml(legend)}</text></g></svg>`;
  return { text, width: all[0], height: all[1] };
}

export async function makePng(picture: Picture): Promise<Blob> {
  const { text, width, height } = makeSvg(picture);
  const image = new Image();
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  try {
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [width, height];
    canvas.getContext("2d")!.drawImage(image, 0, 0);
    return await new Promise((resolve, reject) =>
      canvas.toBlob((blob) =>
        blob ? resolve(blob) : reject(new Error("The browser makes no PNG of this size.")),
      ),
    );
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** Quotes, and a sign before what a spreadsheet would take for a formula. */
function csvText(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** A line per cell or bin, at most so many; and whether that is all. */
export function makeCsv(info: Info, grid: Grid): { text: string; isWhole: boolean } {
  const span = ([begin, end]: readonly [number, number]) =>
    end - begin === 1 ? String(begin) : `${begin}:${end}`;
  const token = (tokens: readonly string[] | null, [begin, end]: readonly [number, number]) =>
    end - begin === 1 ? csvText(tokens?.[begin] ?? "") : "";
  const lines = ["query,key,query_token,key_token,value,hidden"];
  const count = Math.min(grid.values.length, CSV_ROWS);
  for (let at = 0; at < count; at++) {
    const rows = binRange(Math.floor(at / grid.width), grid.height, grid.rows);
    const cols = binRange(at % grid.width, grid.width, grid.cols);
    const isHidden = grid.kinds[at] === Kind.Hidden;
    lines.push(
      [
        span(rows),
        span(cols),
        token(info.qTokens, rows),
        token(info.kTokens, cols),
        isHidden ? "" : String(grid.values[at]),
        String(isHidden),
      ].join(","),
    );
  }
  return { text: `${lines.join("\n")}\n`, isWhole: count === grid.values.length };
}

/** float32, NaN where hidden. */
export function makeNpy(grid: Grid): Uint8Array<ArrayBuffer> {
  const values = grid.values.map((value, at) => (grid.kinds[at] === Kind.Hidden ? NaN : value));
  return writeNpy([grid.height, grid.width], values);
}

export const fileName = (info: Info, grid: Grid, suffix: string): string =>
  `${(info.name || info.id).replace(/[^\w.-]+/g, "-").slice(0, 60)}` +
  `${isPooled(grid) ? "-pooled" : ""}.${suffix}`;

export function download(name: string, content: BlobPart, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
