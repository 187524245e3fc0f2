# SPDX-License-Identifier: Apache-2.0
"""docs/performance.md says what the benchmarks printed, and missed where it was missed."""
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import report_limits  # noqa: E402
import report_page  # noqa: E402
import report_plot  # noqa: E402

SHAPES = """AMD EPYC, OpenBLAS for Haswell, 2 threads; float32
full-8192-64        fused-avx512    159.6 GF  ratio 1.050 (goal 0.97), 0.710 of the FMA peak (goal 0.75), sgemm 0.80 of it  5 rounds, 0 discarded
causal-512-64       fused-avx512    121.0 GF  ratio 0.700 (goal 0.80), 0.580 of the FMA peak, sgemm 0.80 of it  4 rounds, 1 discarded
full-512-64         fused-avx512     21.0 GF  ratio 0.100 (goal 0.90), 0.080 of the FMA peak, sgemm 0.80 of it  2 rounds, 3 discarded
window-8192-64      fused-avx512    101.0 GF  ratio 0.700, 0.500 of the FMA peak, sgemm 0.80 of it, 1.50 of its visible area's time (goal 1.25)  5 rounds, 0 discarded
"""  # noqa: E501
DECODE = """AMD EPYC, OpenBLAS for Haswell, 2 threads; one query, 8 heads
kv=4096  D=64  G=1 f32 DRAM  decode-avx512    2.984 ms  ratio 0.966 of 29.7 GB/s read, 0.034 of the FMA peak (goal 0.95 of read)  9 rounds, 6 discarded
kv=4096  D=128 G=8 f16 cache decode-avx512    0.253 ms  ratio 0.055 of 149.1 GB/s read, 0.253 of the FMA peak (goal 0.55 of peak)  7 rounds, 0 discarded
"""  # noqa: E501
PEERS = """torch is not installed here: not measured
causal n=512 D=64: onnxruntime Attention-23 3.500 ms, fused-avx512 4.000 ms: 0.87 times as long (0.45 to 5.67), 3 rounds
causal n=512 D=64: best of onnxruntime, Attention-23, to fused-avx512: 0.87 (goal 2, MISSED)
causal n=512 D=64: best of ggml, flash_attn_ext, to fused-avx512: 3.60 (goal 3.5)
step n=4096 D=64 G=4 bf16 DRAM: ggml flash_attn_ext 0.300 ms, decode-avx512 0.310 ms: 0.97 times as long (0.80 to 1.20), 7 rounds
step n=4096 D=64 G=4 bf16 DRAM: best of ggml, flash_attn_ext, to decode-avx512: 0.97 (goal 1, MISSED)
"""  # noqa: E501
SCALING = """AMD EPYC, OpenBLAS for Haswell, 2 threads; 8 heads, float32
full, n=2048, D=64, by fused-avx512: 0.955 of the loop's gain (goal at least 0.97), 8 rounds, 1 discarded; 1.90 times
causal, n=2048, D=64, by fused-avx512: 0.980 of the loop's gain (goal at least 0.97), 9 rounds, 0 discarded
"""  # noqa: E501
MEMORY = """AMD EPYC, OpenBLAS for Haswell, 2 threads; 8 heads
4096 queries, 4096 keys, by fused-avx512: 5.400 MiB (goal at most 5); operands 24 MiB, answer 8
1 queries, 4096 keys, by decode-avx512: 1.200 MiB (goal at most 5); operands 16 MiB, answer 0
"""


@pytest.fixture
def parts():
    narrow = SHAPES.replace("avx512", "avx2").replace("1.050", "0.500")
    texts = {"shapes": SHAPES, "shapes-avx2": narrow,
             "decode": DECODE, "peers": PEERS, "scaling": SCALING, "memory": MEMORY}
    return {name: {"text": text, "status": 0, "seconds": 1.0, "others": 0.02}
            for name, text in texts.items()}


def row(page, start):
    return next(line for line in page.splitlines() if line.startswith(f"| {start} |"))


@pytest.mark.parametrize("start, expected", [
    ("full-8192-64", "0.97, **missed** by fused-avx2"),
    ("causal-512-64", "0.8, **missed** by fused-avx512, fused-avx2"),
    ("full-512-64", "0.9, not decided"),
    ("4096 | 64 | 1", "read 0.95, met"),
    ("4096 | 128 | 8", "peak 0.55, **missed**"),
    ("causal n=512 D=64", "2, **missed**"),
    ("causal n=512 D=64", "3.5, met"),
    ("step n=4096 D=64 G=4 bf16 DRAM", "1, **missed**"),
    ("full-8192-64", "0.75, **missed** by fused-avx512, fused-avx2"),
    ("full, n=2048, D=64, by fused-avx512", "0.97, **missed**"),
    ("causal, n=2048, D=64, by fused-avx512", "0.97, met"),
    ("4096 queries, 4096 keys, by fused-avx512", "5, **missed**"),
    ("1 queries, 4096 keys, by decode-avx512", "5, met"),
])
def test_a_goal_is_met_or_missed_or_left_open(parts, start, expected):
    assert f"| {expected} |" in row(report_page.page(parts), start)


def test_a_visible_area_that_takes_longer_than_its_goal_is_missed(parts):
    page = report_page.page(parts).split("What hides something")[1]
    assert "| 1.50 | 1.50 | 1.25, **missed**" in row(page, "window-8192-64")


def test_who_is_absent_and_how_busy_others_were_is_said(parts):
    page = report_page.page(parts)
    assert "* torch is not installed here: not measured" in page
    assert "others used 2% of the processors meanwhile." in page


def test_a_busy_machine_decides_nothing(parts):
    parts["decode"]["others"] = 0.25
    page = report_page.page(parts)
    assert "others used 25% of the processors meanwhile: **too busy" in page
    assert "| read 0.95, not decided |" in row(page, "4096 | 64 | 1")
    assert "| 2, **missed** |" in row(page, "causal n=512 D=64")


def test_memory_is_the_same_on_a_busy_machine(parts):
    parts["memory"]["others"] = 0.9
    page = report_page.page(parts)
    assert "| 5, **missed** |" in row(page, "4096 queries, 4096 keys, by fused-avx512")


def test_what_is_missed_stands_once_more_with_its_limit(parts, monkeypatch):
    monkeypatch.setattr(report_limits, "LIMITS", (("scaling", "^full", "the end is ragged."),))
    limits = report_page.page(parts).split("## What is missed")[1]
    assert "* `scaling`: full, n=2048, D=64, by fused-avx512: the end is ragged." in limits
    assert ("* `memory`: 4096 queries, 4096 keys, by fused-avx512: "
            f"{report_limits.UNEXPLAINED}") in limits
    assert "causal, n=2048" not in limits


def test_what_sgemm_reaches_of_the_peak_is_said(parts):
    cpu = {**report_page.processor(), "avx512": True}
    assert "it reaches 0.80 of the AVX2" in report_page.caveat(parts, cpu)
    assert report_page.caveat(parts, {**cpu, "avx512": False}) == ""


def test_the_plot_has_a_bar_and_a_tick_per_goal(parts):
    plot = report_plot.plot(parts)
    assert len(re.findall("#b00020", plot)) == 6
    assert "causal n=512 D=64" in plot


def test_a_part_that_was_not_measured_is_said_to_be_missing():
    page = report_page.page({})
    assert "Not measured: `make bench BENCH=decode`" in page
