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

int main(void)
{
    puts(attn_status_name(ATTN_OK));
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
[ "$said" = ok ] || fail "the program said '$said', expected 'ok'"

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
