#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs into an empty folder, compiles the example and the documentation's program against the
# installed pkg-config file and header as a stranger would, runs them, checks the daemon and the man
# page, uninstalls, and finds nothing left.
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
    usr/include/attention/attention.h usr/share/man/man1/attentiond.1 etc/attentiond/attentiond.conf \
    usr/lib/systemd/system/attentiond.service usr/lib/systemd/system/attentiond.socket; do
    [ -s "$root/$file" ] || fail "/$file was not installed"
done

# What the service may do beyond its work is an exposure of 0 to 10; a bare unit has 9.6.
unit=$root/usr/lib/systemd/system/attentiond.service
systemd-analyze security --offline=true --threshold=20 "$unit" >"$stage/security" ||
    { cat "$stage/security"; fail 'the unit leaves the service more than it needs'; }
sed -i "s|/usr/bin/attentiond|$root&|; s|/etc/|$root&|" "$unit"
systemd-analyze verify --man=no "$unit" "${unit%service}socket" || fail 'systemd does not take the units'

PKG_CONFIG_PATH=$root/usr/lib/pkgconfig
export PKG_CONFIG_PATH
# A prefix of the stage's instead of a sysroot: the libraries that it requires are the system's own.
flags=$(pkg-config --define-variable=libdir="$root/usr/lib" \
    --define-variable=includedir="$root/usr/include" --cflags --libs libattention)

# Compiles a program outside of the project, which gives it no header but the installed ones.
build_program() {
    cp "$1" "$stage/$2.c"
    # shellcheck disable=SC2086 # flags are words
    (cd "$stage" && $cc -std=c17 -Wall -Wextra -Wpedantic -Werror "$2.c" -o "$2" $flags)
}

# The fenced block of that language in a page.
fenced() {
    # shellcheck disable=SC2016 # a fence is no command
    awk -v begin='```'"$1" '/^```/ { inside = $0 == begin; next } inside' "$2"
}

build_program examples/c/attend.c attend
said=$("$stage/attend")
shown=$(fenced text examples/c/README.md)
[ "$said" = "$shown" ] || fail "attend said '$said', but examples/c/README.md shows '$shown'"
[ "$("$stage/attend" 3)" = "$said" ] || fail 'attend on three threads said something else'

fenced c docs/libattention.md >"$stage/page.c"
build_program "$stage/page.c" least
said=$("$stage/least")
[ "$said" = '2 3' ] || fail "the program of docs/libattention.md said '$said', expected '2 3'"

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
left=$(find "$root" -type d \( -name attentiond -o -name attention -o -name pkgconfig -o -name man1 -o -name systemd \))
[ -z "$left" ] || fail "uninstall left empty folders: $left"
echo 'install: installed, compiled against, ran, and uninstalled without a trace'
