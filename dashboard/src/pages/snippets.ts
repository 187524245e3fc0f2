// SPDX-License-Identifier: Apache-2.0
// The same call from several languages, with this daemon's address filled in.
// Each names its capture after itself, so that several are told apart.
const callFrom = (language: string) =>
  '{"q": [[1, 0], [0, 1]], "k": [[1, 0], [0, 1]], "v": [[1, 2], [3, 4]], ' +
  `"weights": true, "capture": {"name": "from ${language}"}}`;
const quotedFrom = (language: string) => callFrom(language).replaceAll('"', '\\"');

const curl = (base: string) => `curl -sS ${base}v1/attention -H 'Content-Type: application/json' \\
  -d '${callFrom("curl")}'`;

const python = (base: string) => `import json, urllib.request

call = ${callFrom("Python").replaceAll("true", "True")}
request = urllib.request.Request("${base}v1/attention", json.dumps(call).encode(),
                                 {"Content-Type": "application/json"})
answer = json.load(urllib.request.urlopen(request))
print(answer["weights"], answer["meta"].get("capture"))
`;

const numpy = (base: string) => `import io, json, urllib.request
import numpy as np

q, k, v = (np.random.randn(1, 8, 512, 64).astype(np.float32) for _ in range(3))
body = io.BytesIO()
np.savez(body, q=q, k=k, v=v, options=json.dumps({"mask": "causal", "capture": {"name": "from numpy"}}))
request = urllib.request.Request("${base}v1/attention", body.getvalue(),
                                 {"Content-Type": "application/x-npz"})
answer = np.load(io.BytesIO(urllib.request.urlopen(request).read()))
print(answer["output"].shape, answer["meta"])
`;

const node = (base: string) => `const answer = await fetch("${base}v1/attention", {
  method: "POST", headers: { "Content-Type": "application/json" },
  body: JSON.stringify(${callFrom("Node")}),
});
console.log(JSON.stringify(await answer.json()));
`;

const go = (base: string) => `package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

func main() {
	body := strings.NewReader("${quotedFrom("Go")}")
	answer, err := http.Post("${base}v1/attention", "application/json", body)
	if err != nil {
		panic(err)
	}
	text, _ := io.ReadAll(answer.Body)
	fmt.Println(answer.Status, string(text))
}
`;

const c = (base: string) => `/* cc -o call call.c -lcurl */
#include <curl/curl.h>

int main(void) {
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    curl_easy_setopt(curl, CURLOPT_URL, "${base}v1/attention");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "${quotedFrom("C")}");
    return (int)curl_easy_perform(curl);
}
`;

export const SNIPPETS = [
  ["curl", curl],
  ["Python", python],
  ["numpy", numpy],
  ["Node", node],
  ["Go", go],
  ["C", c],
] as const;
