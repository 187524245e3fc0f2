#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the image that docker/Dockerfile begins from out of Debian's packages, for a machine that
# reaches no registry, and gives it to podman under that name. Its root is kept beside the images.
#
#   tests/deploy/base.sh FOLDER NAME [ARCHITECTURE]
#
# Another architecture than this machine's, as arm64, takes an emulator that the kernel starts.
set -eu

folder=$1
name=$2
arch=${3:-$(dpkg --print-architecture)}
suite=bookworm
root=$folder/$suite.tar

# archive NAME: where this machine's apt has Debian's archive of that name from.
archive() {
    sed -nE "s/^(URIs: *|deb (\\[[^]]*\\] )?)([^ ]*$1\\/?)( .*)?\$/\\3/p" \
        /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1
}

make_root() {
    uri=$(archive debian)
    security=$(archive debian-security)
    [ -n "$uri" ] || { echo 'no Debian archive among the sources of apt' >&2; exit 1; }
    rm -rf "$folder/tree"
    debootstrap --variant=minbase --arch="$arch" "$suite" "$folder/tree" "$uri"
    printf 'deb %s %s main\n' "$uri" "$suite" "$uri" "$suite-updates" \
        ${security:+"$security" "$suite-security"} >"$folder/tree/etc/apt/sources.list"
    cat >"$folder/tree/etc/apt/apt.conf.d/docker-clean" <<'CONF'
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true"; };
Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache "";
Acquire::Languages "none";
CONF
    rm -rf "$folder"/tree/var/cache/apt/archives/*.deb "$folder"/tree/var/lib/apt/lists/* \
        "$folder"/tree/usr/share/man/* "$folder"/tree/usr/share/locale/* "$folder"/tree/dev/*
    tar -C "$folder/tree" --sort=name --numeric-owner -cf "$root.part" .
    rm -rf "$folder/tree"
    mv "$root.part" "$root"
}

mkdir -p "$folder"
[ -e "$root" ] || make_root >"$folder/$suite.log" 2>&1 || { tail -n 20 "$folder/$suite.log" >&2; exit 1; }
podman image exists "$name" || podman import -q --arch "$arch" "$root" "$name" >/dev/null
