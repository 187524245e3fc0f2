#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds libmicrohttpd 1.0 from Debian's source package (as later Debians and Ubuntus carry it), then
# builds the daemon against it in a tree of its own and runs the HTTP tests that are named on the
# command line; by default all but those about numbers, which the library has no part in. The version
# is Debian 13's; a stable release does not move.
set -eu

suite=trixie
expected=1.0
folder=$PWD/build/microhttpd-$expected
prefix=$folder/prefix
archive=$folder
. tests/debian_archive.sh

build_library() {
    rm -rf "$folder"
    mkdir -p "$folder/source"
    archive_lists deb-src "$suite"
    cd "$folder"
    archive_apt update
    archive_apt source --download-only libmicrohttpd
    tar -xf libmicrohttpd_*.orig.tar.gz -C source --strip-components=1
    cd source
    ./configure -q --prefix="$prefix" --enable-https --disable-shared --disable-doc \
        --disable-examples --disable-curl --disable-tools
    make -s -C src/include install
    make -s -j"$(nproc)" -C src/microhttpd install-libLTLIBRARIES
    make -s install-pkgconfigDATA
}

if [ ! -e "$prefix/lib/pkgconfig/libmicrohttpd.pc" ]; then
    mkdir -p build
    trap 'tail -n 20 "$folder.log" >&2' EXIT
    (build_library) >"$folder.log" 2>&1
    trap - EXIT
fi
PKG_CONFIG_PATH=$prefix/lib/pkgconfig
export PKG_CONFIG_PATH
version=$(pkg-config --modversion libmicrohttpd)
case $version in "$expected".*) ;; *) echo "built $version, expected $expected" >&2; exit 1 ;; esac
echo "building and testing with libmicrohttpd $version"
make --no-print-directory O=build/newer -j"$(nproc)" build
[ $# -gt 0 ] || {
    set -- tests/e2e
    for numbers in bit_equality cases combinations json_numbers laws maps merge minilm 'oracle*' \
        pitfalls png scaling stats worked_examples; do
        set -- "$@" "--ignore-glob=*/test_$numbers.py"
    done
}
ATTENTIOND=build/newer/attentiond build/venv/bin/python -m pytest -q -p no:cacheprovider \
    -n 2 --dist loadfile "$@"
