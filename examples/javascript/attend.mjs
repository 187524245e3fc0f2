// SPDX-License-Identifier: Apache-2.0
// Attention of a real sentence, in browsers and in Node alike: index.html imports this file, and
//   node examples/javascript/attend.mjs [address of the daemon, if not in ATTENTION_URL]
// prints the map of head 1, a row per token.

export const usual = "http://127.0.0.1:8080";

/** What a daemon said no with; any other Error is that nothing of attentiond answered. */
export class Refusal extends Error {}

/** Calls the daemon; `call` is the JSON object of POST /v1/attention. */
export async function attention(call, address = usual, key = "") {
    if (!/^https?:/.test(address)) throw new Error(`${address} is no address; one is ${usual}`);
    const answer = await fetch(`${address}/v1/attention`, {
        method: "POST",
        headers: {
            "Content-Type": "application/json",
            ...(key && { Authorization: `Bearer ${key}` }),
        },
        body: JSON.stringify(call),
    }).catch((problem) => {
        const why = problem.cause?.message || problem.cause?.code || problem.message;
        throw new Error(`nothing answers at ${address} (${why})`);
    });
    const said = await answer.json().catch(() => ({}));
    if (said.detail) throw new Refusal(said.detail);
    if (!said.output && !said.weights) throw new Error(`${address} is not attentiond`);
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
        const mend = "; start it with `make run`, or set ATTENTION_URL";
        console.error(`no map: ${problem.message}${problem instanceof Refusal ? "" : mend}`);
        process.exitCode = 1;
    }
}
