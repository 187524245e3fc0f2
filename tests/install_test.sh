#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs into an empty folder, compiles a program against the installed pkg-config file and header
# as a stranger would, runs it, checks the daemon and the man page, uninstalls, and finds nothing left.
set -eu

make=${MAKE:-make}
cc=${CC:-cc}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
root=$stage/root
fail() { printf 'install: %s\n' "$1" >&2; exit 1; }

$make --no-print-directory build >/dev/null
$make --no-print-directory install DESTDIR="$root" PREFIX=/usr >/dev/null

for file in usr/bin/attentiond usr/lib/libattention.a usr/lib/pkgconfig/libattention.pc \
    usr/include/attention/attention.h usr/share/man/man1/attentiond.1 etc/attentiond/attentiond.conf; do
    [ -s "$root/$file" ] || fail "/$file was not installed"
done

cat >"$stage/program.c" <<'PROGRAM'
#include <attention/attention.h>
#include <stdio.h>
#include <stdlib.h>

/* A query of zeros sees both keys alike: the output is the mean of the values. */
int main(void)
{
    const float q[2] = {0, 0}, k[4] = {1, 2, 3, 4}, v[4] = {1, 2, 3, 4};
    const size_t one[2] = {1, 2}, two[2] = {2, 2};
    const struct attn_limits limits = {.result_bytes = 1 << 20, .flops = 1e9};
    const atomic_bool cancelled = false;
    float output[2] = {0, 0};
    struct attn_request request;
    struct attn_call call;
    struct attn_plan plan;
    struct attn_result result;
    struct attn_error error;

    attn_request_init(&request);
    request.q = attn_tensor_view(q, ATTN_FLOAT32, 2, one);
    request.k = attn_tensor_view(k, ATTN_FLOAT32, 2, two);
    request.v = attn_tensor_view(v, ATTN_FLOAT32, 2, two);
    if (attn_call_init(&call, &request, &error) != ATTN_OK ||
        attn_plan_make(&call, &limits, &plan, &result, &error) != ATTN_OK)
        return 1;
    result.tensors[ATTN_RESULT_OUTPUT].data = output;
    void *workspace = aligned_alloc(64, (plan.workspace_bytes + 64) / 64 * 64);
    for (size_t task = 0; task < plan.tasks; task++)
        attn_execute_task(&call, &plan, &result, task, workspace, &cancelled);
    free(workspace);
    attn_call_close(&call);
    printf("%s %g %g\n", attn_status_name(ATTN_OK), (double)output[0], (double)output[1]);
    return 0;
}
PROGRAM
PKG_CONFIG_PATH=$root/usr/lib/pkgconfig
export PKG_CONFIG_PATH
# A prefix of the stage's instead of a sysroot: the libraries that it requires are the system's own.
flags=$(pkg-config --define-variable=libdir="$root/usr/lib" \
    --define-variable=includedir="$root/usr/include" --cflags --libs libattention)
# shellcheck disable=SC2086 # flags are words
(cd "$stage" && $cc -std=c17 -Wall -Wextra -Wpedantic -Werror program.c -o program $flags)
said=$("$stage/program")
[ "$said" = 'ok 2 3' ] || fail "the program said '$said', expected 'ok 2 3'"

"$root/usr/bin/attentiond" --version >/dev/null || fail 'the installed daemon does not answer --version'
"$root/usr/bin/attentiond" --config "$root/etc/attentiond/attentiond.conf" --check-config >/dev/null ||
    fail 'the installed daemon refuses the installed example file'

echo '# mine' >>"$root/etc/attentiond/attentiond.conf"
$make --no-print-directory install DESTDIR="$root" PREFIX=/usr >/dev/null
grep -q '^# mine' "$root/etc/attentiond/attentiond.conf" || fail 'a second install lost the changed file'
$make --no-print-directory uninstall DESTDIR="$root" PREFIX=/usr >/dev/null
[ -e "$root/etc/attentiond/attentiond.conf" ] || fail 'uninstall took a changed configuration away'
cp config/attentiond.conf "$root/etc/attentiond/attentiond.conf"
$make --no-print-directory uninstall DESTDIR="$root" PREFIX=/usr >/dev/null
left=$(find "$root" ! -type d)
[ -z "$left" ] || fail "uninstall left: $left"
echo 'install: installed, compiled against, ran, and uninstalled without a trace'
