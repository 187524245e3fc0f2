#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails when a tracked file that `make generate` writes is not as it would write it now.
set -eu

before=$(mktemp)
trap 'rm -f "$before"' EXIT
sums() { git ls-files -z -- config docs server/docs_style.h README.md openapi.yaml | xargs -0 cksum; }

sums >"$before"
${MAKE:-make} --no-print-directory generate
changed=$(sums | diff "$before" - | sed -n 's/^> [0-9]* [0-9]* //p')
[ -z "$changed" ] || {
    printf 'out of date, and now rewritten; look at the change and commit it:\n%s\n' "$changed" >&2
    exit 1
}
echo 'generated files are up to date'
