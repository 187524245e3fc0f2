// SPDX-License-Identifier: Apache-2.0
// All weights of a call in a file, as something else computed them: what a capture is held against.
// The file is read here, and stays here but for the comparison that the daemon makes.
import { halfToNumber, type Tensor } from "../lib/tensor.ts";
import {
  binRange,
  kindsOf,
  length,
  type Grid,
  type GridQuery,
  type GridSource,
  type Head,
  type Info,
} from "./source.ts";

type Reader = (view: DataView, at: number, isLittle: boolean) => number;
/** By what numpy and safetensors call them: bytes of a number, and how one is read. */
const TYPES: Readonly<Record<string, readonly [bytes: number, read: Reader]>> = {
  f2: [2, (view, at, isLittle) => halfToNumber(view.getUint16(at, isLittle))],
  f4: [4, (view, at, isLittle) => view.getFloat32(at, isLittle)],
  f8: [8, (view, at, isLittle) => view.getFloat64(at, isLittle)],
};
const OF_SAFETENSORS: Readonly<Record<string, string>> = { F16: "f2", F32: "f4", F64: "f8" };
const MOST_BYTES = 1 << 28; // as many numbers again are made of them

const product = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

function numbers(view: DataView, type: string, isLittle: boolean, shape: number[]): Float32Array {
  const [bytes, read] = TYPES[type] ?? [0, undefined];
  if (!read || view.byteLength < bytes * product(shape)) throw new Error("not read here");
  return Float32Array.from({ length: product(shape) }, (_, i) => read(view, i * bytes, isLittle));
}

function readNpy(file: ArrayBuffer): Tensor {
  const view = new DataView(file);
  const isLong = view.getUint8(6) > 1;
  const begin = isLong ? 12 : 10;
  const end = begin + (isLong ? view.getUint32(8, true) : view.getUint16(8, true));
  const header = new TextDecoder().decode(file.slice(begin, end));
  const [, order, type] = /'descr': *'([<>])(\w+)'/.exec(header) ?? [];
  const shape = (/'shape': *\(([\d, ]*)\)/.exec(header)?.[1] ?? "").match(/\d+/g)?.map(Number);
  if (!shape || /'fortran_order': *True/.test(header)) throw new Error("not read here");
  return { shape, data: numbers(new DataView(file, end), type, order === "<", shape) };
}

function readSafetensors(file: ArrayBuffer): Tensor {
  const begin = 8 + Number(new DataView(file).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(file.slice(8, begin))) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  const names = Object.keys(header).filter((name) => name !== "__metadata__");
  const { dtype, shape, data_offsets } = header[names.includes("weights") ? "weights" : names[0]];
  const view = new DataView(file, begin + data_offsets[0], data_offsets[1] - data_offsets[0]);
  return { shape, data: numbers(view, OF_SAFETENSORS[dtype], true, shape) };
}

export class ReferenceSource implements GridSource {
  constructor(
    readonly info: Info,
    private readonly data: Float32Array, // [B,H,Tq,Tk]
  ) {}

  /** What one head, or all in one, have in a cell of a batch item. */
  private cellOf(batch: number, head: Head): (row: number, col: number) => number {
    const { heads, queries, keys } = this.info;
    const at = (each: number, row: number, col: number) =>
      this.data[((batch * heads + each) * queries + row) * keys + col];
    if (typeof head === "number") return (row, col) => at(head, row, col);
    const all = Array.from({ length: heads }, (_, each) => each);
    return (row, col) => {
      const values = all.map((each) => at(each, row, col));
      return head === "max"
        ? Math.max(...values)
        : values.reduce((sum, value) => sum + value, 0) / heads;
    };
  }

  async grid({ batch, head, stage, rows, cols, pooling, ...most }: GridQuery): Promise<Grid> {
    if (stage !== "weights") throw new Error("A reference has weights alone: show that stage.");
    const height = Math.min(most.height, length(rows));
    const width = Math.min(most.width, length(cols));
    const cell = this.cellOf(batch, head);
    const values = new Float32Array(height * width);
    for (let bin = 0; bin < values.length; bin++) {
      const [top, bottom] = binRange(Math.floor(bin / width), height, rows);
      const [left, right] = binRange(bin % width, width, cols);
      let most = -Infinity,
        sum = 0;
      for (let row = top; row < bottom; row++)
        for (let col = left; col < right; col++) {
          most = Math.max(most, cell(row, col));
          sum += cell(row, col);
        }
      values[bin] = pooling === "max" ? most : sum / (bottom - top);
    }
    return { rows, cols, height, width, values, kinds: kindsOf(values), isExact: true, pooling };
  }
}

const PREFIX = "reference:";
const references = new Map<string, ReferenceSource>();

export const isReference = (id: string): boolean => id.startsWith(PREFIX);
export const referenceOf = (id: string): ReferenceSource | undefined => references.get(id);
/** Those that have been chosen for that map. */
export const referencesFor = ({ id }: Info): readonly Info[] =>
  [...references.values()].map(({ info }) => info).filter((info) => info.id.endsWith(`@${id}`));

/** Keeps a file's weights for a map; its id, or nothing where the page cannot draw them: the
 *  daemon, which reads more kinds of files, says whether it is a reference at all. */
export async function holdReference(file: File, map: Info): Promise<string | undefined> {
  if (file.size > MOST_BYTES) return undefined;
  try {
    const bytes = await file.arrayBuffer();
    const tensor = file.name.endsWith(".npy") ? readNpy(bytes) : readSafetensors(bytes);
    const wanted = [map.batch, map.heads, map.queries, map.keys];
    const shape = [...Array<number>(Math.max(0, 4 - tensor.shape.length)).fill(1), ...tensor.shape];
    if (shape.join() !== wanted.join()) return undefined;
    const id = `${PREFIX}${file.name}@${map.id}`;
    const info: Info = { ...map, id, name: file.name, stages: ["weights"], isApproximate: false };
    references.set(id, new ReferenceSource(info, tensor.data));
    return id;
  } catch {
    return undefined;
  }
}
