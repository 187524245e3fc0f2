#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the core and its tests for 64-bit ARM and runs them under qemu: the NEON kernels beside all
# the others. Debian's ARM packages of the libraries are unpacked below build/arm64, not installed.
# It refuses a machine that lacks the compiler, qemu or a Debian archive, and names what is missing.
#
#   tests/arm_under_qemu.sh [name...]    of tests/unit/core, without .c
set -eu

TESTS='test_kernels test_kernels_contract test_additive test_rope test_rowops test_rowops_exp test_rowops_maps
test_kernels_slices test_convert test_executor_rows test_merge test_plan'
PACKAGES='check libopenblas-serial-dev libmicrohttpd-dev libgnutls28-dev libsystemd-dev libjansson-dev zlib1g-dev libdeflate-dev
libzstd-dev libpng-dev libfreetype-dev libcurl4-gnutls-dev libc6-dev'
PREFIX=aarch64-linux-gnu
LIBRARIES=/usr/lib/$PREFIX
# A test's own limit is for this processor; qemu is some dozens of times slower.
CK_TIMEOUT_MULTIPLIER=100
export CK_TIMEOUT_MULTIPLIER

folder=$PWD/build/arm64
archive=$folder/packages
root=$folder/sysroot
. tests/debian_archive.sh

fail() { printf 'ARM under qemu: %s\n' "$*" >&2; exit 1; }

# With an empty record of what is installed, apt fetches all that the packages need, libc too.
fetch() {
    rm -rf "$archive" "$root.new"
    mkdir -p "$archive/archives/partial" "$root.new"
    : >"$archive/status"
    archive_lists deb "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)"
    set -- -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::Cache="$archive" \
        -o Dir::State::status="$archive/status"
    archive_apt "$@" update
    # shellcheck disable=SC2086 # the list is split into names on purpose
    archive_apt "$@" install -y --download-only --no-install-recommends $PACKAGES
}

# A link from / leads out of the new root, and the linker would follow it.
unpack() {
    for package in "$archive"/archives/*.deb; do dpkg-deb -x "$package" "$root.new"; done
    find "$root.new" -type l -lname '/*' | while read -r link; do
        ln -sfr "$root.new$(readlink "$link")" "$link"
    done
    rm -rf "$root"
    mv "$root.new" "$root"
    printf '%s\n' "$PACKAGES" >"$root.packages"
    rm -rf "$archive"
}

not_fetched() {
    tail -n 5 "$folder/packages.log" >&2
    fail "could not get Debian's ARM packages of $PACKAGES (more of it: build/arm64/packages.log)"
}

build() {
    for test in "$@"; do
        [ -e "tests/unit/core/$test.c" ] || fail "there is no tests/unit/core/$test.c"
        set -- "$@" "build/arm64/release/tests/core/$test"
        shift
    done
    PKG_CONFIG_SYSROOT_DIR=$root \
        PKG_CONFIG_LIBDIR=$root$LIBRARIES/openblas-serial/pkgconfig:$root$LIBRARIES/pkgconfig \
        make --no-print-directory -j"$(nproc)" O=build/arm64 CC="$PREFIX-gcc --sysroot=$root" \
        AR=$PREFIX-ar LDFLAGS="-Wl,-rpath,$LIBRARIES/openblas-serial" "$@"
}

if [ "$(uname -m)" = aarch64 ]; then
    echo "this machine is ARM: 'make unit' tests its kernels without qemu"
    exit
fi
for tool in $PREFIX-gcc qemu-aarch64 dpkg-deb; do
    command -v "$tool" >/dev/null || fail "$tool is missing; 'tools/setup all' installs it"
done
if [ "$(cat "$root.packages" 2>/dev/null)" != "$PACKAGES" ]; then
    mkdir -p "$folder"
    trap not_fetched EXIT
    (fetch; unpack) >"$folder/packages.log" 2>&1
    trap - EXIT
fi
# shellcheck disable=SC2086 # the list is split into names on purpose
[ $# -gt 0 ] || set -- $TESTS
build "$@"
# Several run at once; what one says is shown together.
# shellcheck disable=SC2016 # the inner shell expands it
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} \
    sh -c 'text=$(qemu-aarch64 -L "$0" "$1" 2>&1); code=$?; printf "%s\n" "$text"; exit $code' \
    "$root" build/arm64/release/tests/core/{}
echo "$# test programs passed on ARM ($(qemu-aarch64 --version | head -n 1))"
