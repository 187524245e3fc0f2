# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks printed, as rows: bench/shapes, bench/decode and bench/peers/peers.py. A line
that is no row is left out, so that a changed format shows as a table that is empty."""
import re

NUMBER = r"[\d.]+"
SHAPE = re.compile(
    rf"(?P<name>\S+-\d+-\d+) +(?P<kernel>\S+) +(?P<gflops>{NUMBER}) GF  ratio (?P<ratio>{NUMBER})"
    rf"(?: \(goal (?P<goal>{NUMBER})\))?, (?P<of_peak>{NUMBER}) of the FMA peak"
    rf"(?: \(goal (?P<peak_goal>{NUMBER})\))?, sgemm (?P<sgemm>{NUMBER}) of it"
    rf"(?:, (?P<area>{NUMBER}) of its visible area's time \(goal (?P<area_goal>{NUMBER})\))?"
    r"  (?P<rounds>\d+) rounds, (?P<discarded>\d+) discarded")
DECODE = re.compile(
    rf"kv=(?P<keys>\d+) +D=(?P<D>\d+) +G=(?P<group>\d+) (?P<dtype>\S+) (?P<where>\S+) +"
    rf"(?P<kernel>\S+) +(?P<ms>{NUMBER}) ms  ratio (?P<of_read>{NUMBER}) of (?P<read>{NUMBER}) "
    rf"GB/s read, (?P<of_peak>{NUMBER}) of the FMA peak"
    rf"(?: \(goal (?P<goal>{NUMBER}) of (?P<goal_of>\w+)\))?"
    r"  (?P<rounds>\d+) rounds, (?P<discarded>\d+) discarded")
CASE = r"(?P<case>\S+ n=\d+ D=\d+(?: G=\d+(?: b?f\d+ \S+)?)?)"
PEER = re.compile(
    rf"{CASE}: (?P<peer>.+) (?P<ms>{NUMBER}) ms, (?P<own>\S+) "
    rf"(?P<own_ms>{NUMBER}) ms: (?P<ratio>{NUMBER}) times as long \((?P<least>{NUMBER}) to "
    rf"(?P<most>{NUMBER})\), (?P<rounds>\d+) rounds")
BEST = re.compile(
    rf"{CASE}: best of (?P<family>\S+), (?P<peer>\S+), to "
    rf"(?P<own>\S+): (?P<ratio>{NUMBER}) \(goal (?P<goal>{NUMBER})")
# A line of bench/figure.c.
FIGURE = re.compile(
    rf"(?P<what>.+): (?P<value>-?{NUMBER}) (?P<unit>[^(;]+?)"
    rf"(?: \(goal at (?P<way>least|most) (?P<goal>{NUMBER})\))?"
    r"(?:, (?P<rounds>\d+) rounds, (?P<discarded>\d+) discarded)?(?:; (?P<beside>.*))?$")


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


def rows(pattern, parts, name):
    """The rows of a part, numbers as floats, in the order in which they were printed."""
    text = parts.get(name, {}).get("text", "")
    return [{key: number(value) for key, value in match.groupdict().items()}
            for match in map(pattern.match, text.splitlines()) if match]


def families(parts):
    """The kernels that peers were measured against: [["fused-avx512", "decode-avx512"], ...]."""
    found = {}
    for row in rows(BEST, parts, "peers"):
        found.setdefault(row["own"].split("-")[-1], set()).add(row["own"])
    return [sorted(kernels, reverse=True) for kernels in found.values()]
