// SPDX-License-Identifier: Apache-2.0
// Tensors as they come over the wire.

export interface Tensor {
  shape: readonly number[];
  data: Float32Array;
}

/** A tensor of the encoding "base64", which is little-endian like every machine with a browser. */
export function readTensor(wire: { shape: number[]; dtype: string; base64: string }): Tensor {
  const bytes = Uint8Array.from(atob(wire.base64), (character) => character.charCodeAt(0));
  const data =
    wire.dtype === "float64"
      ? Float32Array.from(new Float64Array(bytes.buffer))
      : new Float32Array(bytes.buffer);
  return { shape: wire.shape, data };
}

export function toBase64(data: Float32Array): string {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192)
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

/** How the service takes a tensor inside JSON. */
export const wireOf = (shape: readonly number[], data: Float32Array) => ({
  shape,
  dtype: "float32",
  base64: toBase64(data),
});

/** Numbers of nested lists in order; the words "NaN" and "Infinity" are numbers too. */
export function flatten(nested: unknown): number[] {
  return Array.isArray(nested) ? nested.flat(Infinity).map(Number) : [Number(nested)];
}

/** A document of numbers alone in which the words "NaN" and "Infinity" have become what they say. */
export function numbersOf<T>(document: T): T {
  const read = (value: unknown): unknown =>
    typeof value === "string"
      ? Number(value)
      : Array.isArray(value)
        ? value.map(read)
        : typeof value === "object" && value !== null
          ? Object.fromEntries(Object.entries(value).map(([name, each]) => [name, read(each)]))
          : value;
  return read(document) as T;
}

/** float16 as its bits say. */
export function halfToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent === 0
    ? sign * fraction * 2 ** -24
    : sign * (1024 + fraction) * 2 ** (exponent - 25);
}

/** A .npy file of float32 in C order, version 1.0 of the format. */
export function writeNpy(shape: readonly number[], data: Float32Array): Uint8Array<ArrayBuffer> {
  const dims = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  let header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${dims}), }`;
  header += " ".repeat(63 - ((10 + header.length) % 64)) + "\n";
  const file = new Uint8Array(10 + header.length + data.byteLength);
  file.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length & 255, header.length >> 8]);
  file.set(new TextEncoder().encode(header), 10);
  file.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), 10 + header.length);
  return file;
}
