# SPDX-License-Identifier: Apache-2.0
"""The whole table."""
from catalogue import access, containers, framing, json_bodies, resources, sessions, tls

PARTS = (framing, json_bodies, containers, resources, access, tls, sessions)
ROWS = sorted((row for part in PARTS for row in part.ROWS), key=lambda row: row.number)
COUNT = 102


def lines():
    """The table of docs/reliability.md."""
    return [row.line for row in ROWS]
