// SPDX-License-Identifier: Apache-2.0
// Options that a file of tensors carries: they are taken out of it, for the page gives others with
// each call, and none may be given twice. The tensors stay the daemon's to read.

/** The file without its options, and these as the text that they were. */
type Parts = readonly [tensors: Blob, options: string];

const bytesOf = async (part: Blob) => new DataView(await part.arrayBuffer());

async function splitSafetensors(file: Blob): Promise<Parts> {
  const begin = 8 + Number((await bytesOf(file.slice(0, 8))).getBigUint64(0, true));
  const header = JSON.parse(await file.slice(8, begin).text());
  const { attention, ...others } = header.__metadata__;
  const text = new TextEncoder().encode(JSON.stringify({ ...header, __metadata__: others }));
  const padding = " ".repeat(-text.length & 7);
  const size = new DataView(new ArrayBuffer(8));
  size.setBigUint64(0, BigInt(text.length + padding.length), true);
  return [new Blob([size, text, padding, file.slice(begin)]), attention];
}

const END_BYTES = 22,
  ENTRY_BYTES = 46,
  LOCAL_BYTES = 30;
const DEFLATED = 8;

/** A text as numpy writes one: four bytes a character behind a header. */
function textOfNpy(file: DataView): string {
  const begin = 10 + file.getUint16(8, true);
  const points = Array.from({ length: (file.byteLength - begin) >> 2 }, (_, i) =>
    file.getUint32(begin + 4 * i, true),
  );
  return String.fromCodePoint(...points).replace(/\0+$/, "");
}

/** What a member of an archive holds, by its entry in the directory. */
async function readMember(file: Blob, entry: DataView): Promise<DataView> {
  const at = entry.getUint32(42, true);
  const local = await bytesOf(file.slice(at, at + LOCAL_BYTES));
  const begin = at + LOCAL_BYTES + local.getUint16(26, true) + local.getUint16(28, true);
  const packed = file.slice(begin, begin + entry.getUint32(20, true));
  if (entry.getUint16(10, true) !== DEFLATED) return bytesOf(packed);
  const stream = packed.stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new DataView(await new Response(stream).arrayBuffer());
}

/** The member stays where it is, and the directory no longer has it. */
async function splitNpz(file: Blob): Promise<Parts> {
  const end = await bytesOf(file.slice(-END_BYTES));
  const [size, first] = [end.getUint32(12, true), end.getUint32(16, true)];
  const directory = await bytesOf(file.slice(first, first + size));
  for (let at = 0; at < size;) {
    const [name, ...more] = [28, 30, 32].map((field) => directory.getUint16(at + field, true));
    const next = at + ENTRY_BYTES + name + more[0] + more[1];
    const path = new Uint8Array(directory.buffer, at + ENTRY_BYTES, name);
    if (new TextDecoder().decode(path) === "options.npy") {
      const entry = new DataView(directory.buffer, at, next - at);
      const options = textOfNpy(await readMember(file, entry));
      const left = [directory.buffer.slice(0, at), directory.buffer.slice(next)];
      const members = end.getUint16(10, true) - 1;
      [8, 10].forEach((field) => end.setUint16(field, members, true));
      end.setUint32(12, size - entry.byteLength, true);
      return [new Blob([file.slice(0, first), ...left, end]), options];
    }
    at = next;
  }
  throw new Error("no options");
}

const SPLIT: Readonly<Record<string, (file: Blob) => Promise<Parts>>> = {
  safetensors: splitSafetensors,
  npz: splitNpz,
};

/** What a file of this kind has; a file that cannot be taken apart is left to the daemon whole. */
export async function optionsOfFile(
  file: Blob,
  kind: string,
): Promise<{ tensors: Blob; options: Record<string, unknown> }> {
  try {
    const [tensors, text] = await SPLIT[kind](file);
    return { tensors, options: JSON.parse(text) as Record<string, unknown> };
  } catch {
    return { tensors: file, options: {} };
  }
}
