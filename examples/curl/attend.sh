#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A real sentence's attention with curl: tensors from a file up, JSON down, the outputs of all heads and
# the map of head 1. Piped into examples/python/show_map.py that map is drawn.
#   examples/curl/attend.sh [address of the daemon, if not in ATTENTION_URL]
set -eu
address=${1:-${ATTENTION_URL:-http://127.0.0.1:8080}}
data=$(dirname "$0")/../data/sentence.safetensors

# -G would make it a GET: options that stand in the address are percent-encoded by hand.
head_1='%7B%22heads%22%3A%5B1%5D%7D' # {"heads":[1]}
curl --silent --show-error --fail-with-body "$address/v1/attention?weights=$head_1" \
    -H 'Content-Type: application/vnd.safetensors' -H 'Accept: application/json' \
    ${ATTENTION_KEY:+-H "Authorization: Bearer $ATTENTION_KEY"} \
    --data-binary "@$data"
