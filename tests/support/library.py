# SPDX-License-Identifier: Apache-2.0
"""Which libmicrohttpd the daemon under test was built with."""
import functools
import subprocess


@functools.cache
def is_newer():
    """Whether it is 1.0 or later, as in Debian 13 and Ubuntu 24.04: it refuses some requests in its
    own words that 0.9.75 hands on."""
    version = subprocess.run(["pkg-config", "--modversion", "libmicrohttpd"], capture_output=True,
                             text=True, check=True).stdout
    return int(version.split(".")[0]) >= 1
