// SPDX-License-Identifier: Apache-2.0
// Files as requests. The daemon reads the tensors; this page only looks which kind of file it is.
import { optionsOfFile } from "./containers.ts";
import type { HeldRequest } from "./request_source.ts";
import type { Head, TokenLists } from "./source.ts";

const TYPES: Readonly<Record<string, string>> = {
  npz: "application/x-npz",
  safetensors: "application/vnd.safetensors",
  json: "application/json",
};
export const SUFFIXES = Object.keys(TYPES).map((suffix) => `.${suffix}`);

/** Options of a request that this page gives itself. */
const OWN = ["return", "weights", "encoding", "capture", "timeout_ms"];

/** Options that stand in an address may have so many bytes; the daemon takes 8,192 of all of it. */
const MOST_BYTES = 6000;

/** The first head of those whose map the request asks for. */
function headOf(weights: unknown): Head | undefined {
  const heads: unknown = (weights as { heads?: unknown } | undefined | null)?.heads;
  if (heads === "mean" || heads === "max") return heads;
  const first: unknown = Array.isArray(heads) ? heads[0] : undefined;
  return typeof first === "number" && Number.isInteger(first) && first >= 0 ? first : undefined;
}

/** Of a request's options those that are its own, and what the others say of its map. */
function takeOptions(given: Record<string, unknown>) {
  const options = { ...given };
  const head = headOf(options.weights);
  for (const name of OWN) delete options[name];
  const labels = options.labels as { q?: TokenLists; k?: TokenLists } | undefined;
  return { options, head, qTokens: labels?.q, kTokens: labels?.k };
}

/** As many of the options as an address has room for; labels are the first to stay behind. */
function fitting(options: Record<string, unknown>): Record<string, unknown> | undefined {
  const { labels: _, ...others } = options;
  const size = (some: object) => encodeURIComponent(JSON.stringify(some)).length;
  return [options, others].find((some) => size(some) <= MOST_BYTES);
}

/** A request of a dropped file; throws with a sentence where its kind is unknown. */
export async function requestOfFile(file: File): Promise<HeldRequest> {
  const suffix = file.name.split(".").pop()?.toLowerCase() ?? "";
  const type = TYPES[suffix];
  if (!type)
    throw new Error(
      `${file.name} is none of ${SUFFIXES.join(", ")}: save q, k and v as one of them.`,
    );
  const common = { id: `file:${file.name}`, name: file.name, type };
  if (suffix !== "json") {
    const { tensors, options } = await optionsOfFile(file, suffix);
    const taken = takeOptions(options);
    const short = fitting(taken.options);
    return { ...common, ...taken, tensors: short ? tensors : file, options: short ?? {} };
  }
  const { q, k, v, ...options } = JSON.parse(await file.text()) as Record<string, unknown>;
  return { ...common, ...takeOptions(options), tensors: { q, k, v } };
}
