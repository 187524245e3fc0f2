#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds libmicrohttpd 1.0 from Debian's source package (as later Debians and Ubuntus carry it), then
# builds the daemon against it in a tree of its own and runs the HTTP tests that are named on the
# command line, all of them by default. The version is Debian 13's; a stable release does not move.
set -eu

suite=trixie
expected=1.0
folder=$PWD/build/microhttpd-$expected
prefix=$folder/prefix

# This machine's own archive, asked for another release's sources.
lists() {
    uri=$(sed -nE 's/^(URIs: *|deb (\[[^]]*\] )?)([^ ]*debian\/?)( .*)?$/\3/p' \
        /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)
    [ -n "$uri" ] || { echo 'no Debian archive among the sources of apt' >&2; exit 1; }
    key=/usr/share/keyrings/debian-archive-keyring.gpg
    printf 'deb-src [signed-by=%s] %s %s main\n' "$key" "$uri" "$suite" >"$folder/sources.list"
}

apt() {
    apt-get -q -o Dir::Etc::SourceList="$folder/sources.list" -o Dir::Etc::SourceParts=- \
        -o Dir::State::Lists="$folder/lists" -o APT::Get::List-Cleanup=0 -o APT::Sandbox::User=root "$@"
}

build_library() {
    rm -rf "$folder"
    mkdir -p "$folder/lists/partial" "$folder/source"
    lists
    cd "$folder"
    apt update
    apt source --download-only libmicrohttpd
    tar -xf libmicrohttpd_*.orig.tar.gz -C source --strip-components=1
    cd source
    ./configure -q --prefix="$prefix" --disable-https --disable-shared --disable-doc \
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
ATTENTIOND=build/newer/attentiond build/venv/bin/python -m pytest -q -p no:cacheprovider \
    "${@:-tests/e2e}"
