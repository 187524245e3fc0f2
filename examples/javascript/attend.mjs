// SPDX-License-Identifier: Apache-2.0
// Attention of a real sentence, in browsers and in Node alike: index.html imports this file, and
//   node examples/javascript/attend.mjs [address of the daemon, if not in ATTENTION_URL]
// prints the map of head 1, a row per token.

export const usual = "http://127.0.0.1:8080";

/** Calls the daemon; `call` is the JSON object of POST /v1/attention. Refusals are Errors. */
export async function attention(call, address = usual, key = "") {
    const answer = await fetch(`${address}/v1/attention`, {
        method: "POST",
        headers: {
            "Content-Type": "application/json",
            ...(key && { Authorization: `Bearer ${key}` }),
        },
        body: JSON.stringify(call),
    });
    const said = await answer.json();
    if (!answer.ok) throw new Error(said.detail);
    return said;
}

/** The rows of one head as text, six digits behind the point. */
export function mapText(rows) {
    return rows.map((row) => row.map((w) => Number(w).toFixed(6)).join(" ")).join("\n");
}

if (typeof process !== "undefined") {
    const { readFile } = await import("node:fs/promises");
    const call = JSON.parse(await readFile(new URL("../data/sentence.json", import.meta.url)));
    const address = process.argv[2] || process.env.ATTENTION_URL || usual;
    try {
        const { weights } = await attention(call, address, process.env.ATTENTION_KEY);
        console.log(mapText(weights[0]));
    } catch (problem) {
        console.error(`no map from ${address}: ${problem.cause?.message ?? problem.message}`);
        process.exitCode = 1;
    }
}
