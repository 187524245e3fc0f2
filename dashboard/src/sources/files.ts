// SPDX-License-Identifier: Apache-2.0
// Files as requests. The daemon reads the tensors; this page only looks which kind of file it is.
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

/** The first head of those whose map the request asks for. */
function headOf(weights: unknown): Head | undefined {
  const heads: unknown = (weights as { heads?: unknown } | undefined | null)?.heads;
  if (heads === "mean" || heads === "max") return heads;
  const first: unknown = Array.isArray(heads) ? heads[0] : undefined;
  return typeof first === "number" && Number.isInteger(first) && first >= 0 ? first : undefined;
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
  if (suffix !== "json") return { ...common, tensors: file, options: {} };
  const { q, k, v, ...options } = JSON.parse(await file.text()) as Record<string, unknown>;
  const head = headOf(options.weights);
  for (const name of OWN) delete options[name];
  const labels = options.labels as { q?: TokenLists; k?: TokenLists } | undefined;
  return { ...common, tensors: { q, k, v }, options, head, qTokens: labels?.q, kTokens: labels?.k };
}
