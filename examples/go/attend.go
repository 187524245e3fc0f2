// SPDX-License-Identifier: Apache-2.0

// Attention of a real sentence: sends a safetensors file, reads the answer from JSON and prints the
// map of head 1, a row per token:
//
//	go run examples/go/attend.go [address of the daemon, if not in ATTENTION_URL]
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
)

type answer struct {
	Weights [][][]float64 // heads, queries, keys
	Detail  string        // of a refusal: what is wrong and how to mend it
}

func attend(address string) (*answer, error) {
	if address == "" {
		address = "http://127.0.0.1:8080"
	}
	body, err := os.ReadFile("examples/data/sentence.safetensors")
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest("POST", address+"/v1/attention", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{"Content-Type": {"application/vnd.safetensors"}, "Accept": {"application/json"}}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("ATTENTION_KEY")) // where keys are asked for
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	said := new(answer)
	err = json.NewDecoder(response.Body).Decode(said)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(said.Detail)
	}
	return said, err
}

func main() {
	said, err := attend(append(os.Args[1:], os.Getenv("ATTENTION_URL"))[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, "no map:", err)
		os.Exit(1)
	}
	for _, row := range said.Weights[1] {
		text := fmt.Sprintf("%.6f", row)
		fmt.Println(text[1 : len(text)-1]) // without the brackets of a slice
	}
}
