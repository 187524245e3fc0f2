#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A real sentence's attention with curl: tensors from a file up, JSON down, the outputs of all heads and
# the map of head 1. Piped into examples/python/show_map.py that map is drawn.
#   examples/curl/attend.sh [address of the daemon, if not in ATTENTION_URL]
set -u
address=${1:-${ATTENTION_URL:-http://127.0.0.1:8080}}
data=$(dirname "$0")/../data/sentence.safetensors

# -G would make it a GET: options that stand in the address are percent-encoded by hand.
head_1='%7B%22heads%22%3A%5B1%5D%7D' # {"heads":[1]}
answer=$(curl --silent --show-error --stderr - --fail-with-body \
    "$address/v1/attention?weights=$head_1" \
    -H 'Content-Type: application/vnd.safetensors' -H 'Accept: application/json' \
    ${ATTENTION_KEY:+-H "Authorization: Bearer $ATTENTION_KEY"} \
    --data-binary "@$data")
code=$?

case $code in
0) printf '%s\n' "$answer" && exit ;;
6 | 7) why="nothing answers at $address; start it with \`make run\`, or set ATTENTION_URL" ;;
22) # a refusal is JSON, whose member detail says what to do
    why=$(printf '%s' "$answer" | sed -nE 's/.*"detail":"(([^"\\]|\\.)*)".*/\1/p' | sed 's/\\\(.\)/\1/g')
    why=${why:-"$address is not attentiond's address"} ;;
*) why="$address: $answer" ;;
esac
echo "no map: $why" >&2
exit "$code"
