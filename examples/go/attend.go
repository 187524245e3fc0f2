// SPDX-License-Identifier: Apache-2.0

// Attention of a real sentence: sends a safetensors file, reads the answer from JSON and prints the
// map of head 1, a row per token:
//
//	go run examples/go/attend.go [address of the daemon, if not in ATTENTION_URL]
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
)

type answer struct {
	Weights [][][]float64 // heads, queries, keys
	Detail  string        // of a refusal: what is wrong and how to mend it
}

// need ends the program with a sentence, and how to mend what it says, unless all is well.
func need(well bool, sentence string, about ...any) {
	if !well {
		fmt.Fprintf(os.Stderr, "no map: "+sentence+"\n", about...)
		os.Exit(1)
	}
}

func attend(address string) (said answer) {
	body, err := os.ReadFile("examples/data/sentence.safetensors")
	need(err == nil, "%v; run this in the root of the project", err)
	request, err := http.NewRequest("POST", address+"/v1/attention", bytes.NewReader(body))
	need(err == nil && strings.HasPrefix(address, "http"),
		"%q is no address: ATTENTION_URL is such as http://127.0.0.1:8080", address)
	request.Header = http.Header{"Content-Type": {"application/vnd.safetensors"}, "Accept": {"application/json"}}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("ATTENTION_KEY")) // where keys are asked for
	response, err := http.DefaultClient.Do(request)
	need(err == nil, "nothing answers at %s (%v); start it with `make run`, or set ATTENTION_URL", address, err)
	defer response.Body.Close()
	err = json.NewDecoder(response.Body).Decode(&said)
	need(err == nil, "%s is not attentiond's address: set ATTENTION_URL", address)
	need(response.StatusCode == http.StatusOK, "%s", said.Detail)
	return said
}

func main() {
	address := append(os.Args[1:], os.Getenv("ATTENTION_URL"))[0]
	if address == "" {
		address = "http://127.0.0.1:8080"
	}
	for _, row := range attend(address).Weights[1] {
		text := fmt.Sprintf("%.6f", row)
		fmt.Println(text[1 : len(text)-1]) // without the brackets of a slice
	}
}
