#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Proves that includes point one way (server -> core -> core/kernels), that each outside library has
# its few users, and by its symbols that libattention.a knows no HTTP, JSON, environment or logging
# and keeps no mutable globals. Run it from the project's root, with the archive as argument.
set -u

archive=${1:-build/release/libattention.a}
faults=0

fault() {
    printf '%s\n' "$1" >&2
    faults=$((faults + 1))
}

includes() {
    git ls-files -- '*.c' '*.h' | xargs grep -nE '^[[:space:]]*#[[:space:]]*include' |
        sed -E 's/^([^:]+):([0-9]+):[^"<]*["<]([^">]+)[">].*/\1 \2 \3/'
}

# Each rule prints the includes that break it: FILES and HEADER are patterns of whole paths.
rule() {
    found=$(includes | awk -v files="^($2)\$" -v header="^($3)\$" "$1"' { print $1 ":" $2 ": includes " $3 }')
    [ -z "$found" ] || fault "$found
  ($4)"
}
# shellcheck disable=SC2016 # these are awk's variables
may_include() { rule '$3 ~ header && $1 !~ files' "$2" "$1" "$3"; }
# shellcheck disable=SC2016
never_includes() { rule '$1 ~ files && $3 ~ header' "$1" "$2" "$3"; }
# shellcheck disable=SC2016
only_includes() { rule '$1 ~ files && $3 ~ /^(core|config|server|bench|tests|tools)\// && $3 !~ header' "$1" "$2" "$3"; }

checkers='tests/.*|bench/.*'
may_include 'microhttpd.h' "server/http/.*|$checkers" 'libmicrohttpd belongs to server/http'
may_include 'server/http/http_(handler|internal|tls_internal|warden).h' "server/http/.*|$checkers" \
    'the headers that show libmicrohttpd stay beside it'
may_include 'jansson.h' "server/(codecs|json|options|tracing)/.*|$checkers" \
    'jansson belongs to server/codecs, json, options and tracing'
may_include 'curl/.*' "server/tracing/trace_curl[.]c|examples/.*|$checkers" 'libcurl belongs to server/tracing/trace_curl.c'
may_include 'zlib.h' "server/(codings|codecs)/.*|$checkers" 'zlib belongs to server/codings and codecs'
may_include 'libdeflate.h' "server/codecs/zip_.*|$checkers" 'libdeflate belongs to the zip files of server/codecs'
may_include 'zstd.*[.]h' "server/codings/.*|$checkers" 'zstd belongs to server/codings'
may_include 'png.h' "server/codecs/codec_png_file[.]c|$checkers" 'libpng belongs to server/codecs/codec_png_file.c'
may_include 'ft2build.h' "server/codecs/codec_png_text[.]c|$checkers" 'FreeType belongs to server/codecs/codec_png_text.c'
may_include 'cblas.h|openblas_config.h' "core/kernels/blas[.]c|$checkers" 'CBLAS belongs to core/kernels/blas.c'
may_include 'systemd/.*' "server/supervisor[.]c|$checkers" 'libsystemd belongs to server/supervisor.c'
may_include 'gnutls/.*' "server/(auth|http)/.*|$checkers" 'GnuTLS belongs to server/auth and server/http'
may_include 'check.h' 'tests/.*' 'libcheck belongs to the tests'
may_include 'config/.*' 'config/.*|server/main[a-z_]*[.][ch]|tests/.*|tools/.*' 'only server/main*.c are given the configuration'
may_include 'server/.*' "server/.*|$checkers" 'nothing below the server knows it'
may_include 'tests/.*' "$checkers" 'the product does not know its tests'
never_includes 'server/(codecs|json|options|numbers)/.*' 'core/plan.h|core/kernels/.*' 'codecs see requests and results, never plans or kernels'
never_includes 'server/.*|config/.*' 'core/kernels/.*' 'kernels are behind core'
only_includes 'core/.*' 'core/.*' 'core includes core alone'
only_includes 'config/.*' 'config/.*|core/checked[.]h' 'config includes config alone'

# The names that core may not need; its errors are statuses and its text goes into buffers.
forbidden='MHD_|json_|getenv|secure_getenv|setenv|(__)?v?f?printf(_chk)?$|f?puts$|f?putc|perror|syslog|exit$|abort$|signal$'
if [ -f "$archive" ]; then
    found=$(nm -A --undefined-only "$archive" 2>/dev/null | awk -v names="^($forbidden)" '$NF ~ names')
    [ -z "$found" ] || fault "$found
  (core needs none of HTTP, JSON, environment, output or exit)"
    found=$(objdump -t "$archive" | awk '/^[^ ]+[.]o:/ { file = $1 }
        ($4 == ".data" || $4 == ".bss" || $3 == ".data" || $3 == ".bss") && $(NF-1) !~ /^0+$/ { print file, $NF }')
    [ -z "$found" ] || fault "$found
  (core keeps no mutable globals)"
else
    fault "$archive is not there: run 'make build' first"
fi

[ "$faults" -eq 0 ] && echo 'layering: includes and symbols are as they should be'
exit $((faults > 0))
