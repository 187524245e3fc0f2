#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# For other scripts to source: asks this machine's own Debian archive for the packages of another
# release or architecture, in a folder of its own, so that what apt knows and has installed here
# stays as it is. It refuses a machine whose apt has no Debian archive.
archive=${archive:?is the folder, and has to be set before}

# archive_lists TYPE RELEASE: what to read there, as `deb-src trixie`.
archive_lists() {
    uri=$(sed -nE 's/^(URIs: *|deb (\[[^]]*\] )?)([^ ]*debian\/?)( .*)?$/\3/p' \
        /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)
    [ -n "$uri" ] || { echo 'no Debian archive among the sources of apt' >&2; exit 1; }
    key=/usr/share/keyrings/debian-archive-keyring.gpg
    mkdir -p "$archive/lists/partial"
    printf '%s [signed-by=%s] %s %s main\n' "$1" "$key" "$uri" "$2" >"$archive/sources.list"
}

archive_apt() {
    apt-get -q -o Dir::Etc::SourceList="$archive/sources.list" -o Dir::Etc::SourceParts=- \
        -o Dir::State::Lists="$archive/lists" -o APT::Get::List-Cleanup=0 -o APT::Sandbox::User=root "$@"
}
