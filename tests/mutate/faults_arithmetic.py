# SPDX-License-Identifier: Apache-2.0
"""Faults in the arithmetic: scores, softmax, sinks, values, maps, number formats. Each row is
(name, file, exact text, what to put there, why somebody would write it)."""
TILES = "core/kernels/blas_tiles.h"
ATTEND = "core/kernels/blas_tiles_attend.h"
BLAS = "core/kernels/blas.c"
FINISH = "core/kernels/finish.h"
ROWS = "core/kernels/rowops_rows.h"
SET = "core/kernels/rowops_set.h"
REFERENCE = "core/kernels/reference.c"
EXECUTOR = "core/executor.c"
CALL = "core/call.c"
SCORES = "core/call_scores.c"
SHAPES = "core/call_shapes.c"
CONVERT = "core/convert.c"

FAULTS = [
    # scale and softcap
    ("scale by the value's size", CALL, "1.0 / sqrt((double)call->D)",
     "1.0 / sqrt((double)call->Dv)", "Dv = D in most tests"),
    ("scale by the model's width", CALL, "1.0 / sqrt((double)call->D)",
     "1.0 / sqrt((double)(call->D * call->Hq))", "the width is what the caller talks about"),
    ("scale 0 taken as left out", CALL, "call->scale = request->scale_given ?",
     "call->scale = request->scale != 0 ?", "0 is a popular word for none"),
    ("raw scores are scaled", TILES,
     "(&tiles, block->stage == ATTN_STAGE_RAW ? 1 : task->call->scale)",
     "(&tiles, task->call->scale)", "attend packs its queries scaled"),
    ("softcap after the bias in the reference", REFERENCE, """\
    if (call->softcap > 0)
        score = call->softcap * tanh(score / call->softcap);
    if (stage == ATTN_STAGE_CAPPED)
""", """\
    if (call->softcap > 0)
        score = call->softcap * tanh((score + bias_at(query, j)) / call->softcap) -
                bias_at(query, j);
    if (stage == ATTN_STAGE_CAPPED)
""", "the oracle of the unit tests must not drift along"),
    ("a far softcap loses its sign", SET, "((int32_vector)far | sign) & ~small",
     "(int32_vector)far & ~small", "tanh is odd"),

    # the online softmax
    ("a finite start of the maximum", ATTEND, "tiles->m[row] = -(REAL)INFINITY;",
     "tiles->m[row] = -(REAL)1e4;", "below any score that one has seen"),
    ("a finite start of the maximum in the reference", REFERENCE, "double m = -INFINITY;",
     "double m = -1e4;", "below any score that one has seen"),
    ("the tail of a row counts as 0 in its maximum", ROWS,
     "F(load_part)(row + at, n - at, floor), best)", "F(load_part)(row + at, n - at, 0), best)",
     "fill of the last vector"),
    ("the tail of a row counts in its sum", ROWS,
     "F(load_part)(row + at, n - at, -(REAL)INFINITY) - base)",
     "F(load_part)(row + at, n - at, base) - base)", "fill of the last vector"),
    ("half of a row's maximum is forgotten", ROWS,
     "other = F(larger)(F(load)(row + at + F(LANES)), other);", "", "two chains, one answer"),
    ("exp's reduction is coarse", SET, "(x - n * 0.693359375f) + n * 2.12194440e-4f",
     "(x - n * 0.693359375f) + n * 2.1e-4f", "right near 0"),
    ("exp goes on below the normal numbers", SET, "x < zero - 87.33f", "x < zero - 90.0f",
     "the power's exponent wraps"),
    ("tanh's polynomial is used too far", SET, "bounded < zero + 0.625f", "bounded < zero + 1.25f",
     "right at 0.6"),
    ("exp is 0 too early", SET, "x < zero - 87.33f", "x < zero - 20.0f",
     "nobody misses 2e-9 at one key, but a million keys do"),
    ("the output is not rescaled", ATTEND, "shrink[r] != 1", "false",
     "shows only when a later tile has a larger score"),
    ("scores are added to what the buffer held", TILES,
     "k.data, k.stride, 0, tiles->s", "k.data, k.stride, 1, tiles->s", "beta of a product"),
    ("only the last tile's values count", ATTEND, "v.data, v.stride, 1, tiles->o",
     "v.data, v.stride, 0, tiles->o", "beta of a product"),

    # rows that see nothing, lse, sinks
    ("an empty row divides by 0", EXECUTOR, "l == 0.0 ? 0.0 : factor / l", "factor / l",
     "0/0: the NaN that libraries had for years"),
    ("an empty row's map divides by 0", FINISH, "l == 0 ? 0 : 1 / l", "1 / l",
     "the output has its own guard"),
    ("hidden pieces of a map of weights are -inf", TILES,
     "block->stage == ATTN_STAGE_WEIGHTS ? 0 : -(REAL)INFINITY;", "-(REAL)INFINITY;",
     "right for scores"),
    ("lse without the maximum", EXECUTOR, "m + log(l)", "log(l)", "equal for scores around 0"),
    ("lse of an empty row is +inf", EXECUTOR, "m == -INFINITY ? -INFINITY : m",
     "m == -INFINITY ? INFINITY : m", "FlashAttention 2's convention"),
    ("empty rows are not counted", EXECUTOR, "all.m[row] == -INFINITY;", "all.m[row] == INFINITY;",
     "a sign"),
    ("the sink joins no sum", EXECUTOR, "[row] * rebase + exp(sink - base)", "[row] * rebase",
     "the output keeps its full weight"),
    ("one sink for all heads", EXECUTOR, "run->call->sink[h]", "run->call->sink[0]",
     "tests with one value for all do not see it"),
    ("a large sink overflows", EXECUTOR, "const double base = sink > m ? sink : m;",
     "const double base = m == -INFINITY ? sink : m;", "exp(sink - m) of a sink above all scores"),
    ("the row is not rebased on its sink", EXECUTOR, "return rebase;", "return 1.0;",
     "right for a sink below the maximum"),

    # heads, batch items, layouts
    ("heads dealt out in turn", "core/kernels/operand.h",
     "return task->hkv * attn_call_group(task->call) + row / task->rows;",
     "return row / task->rows * task->call->Hkv + task->hkv;", "tiled instead of repeated heads"),
    ("a split width is taken for [H,T,D]", SHAPES, "axes->sh = (ptrdiff_t)axes->W * axes->sd;",
     "axes->sh = (ptrdiff_t)(axes->T * axes->W) * axes->sd;\n"
     "    axes->st = (ptrdiff_t)axes->W * axes->sd;", "reshaped without transposing"),
    ("split heads are answered as [B,H,T,D]", EXECUTOR,
     "tokens_first = call->bthd || call->split_heads;", "tokens_first = call->bthd;",
     "reshaped without transposing"),
    ("any number of key heads", SHAPES, "k->H == 0 ? q->H != 0 : q->H % k->H != 0",
     "k->H == 0 && q->H != 0", "7 heads share 2"),

    # bias and ALiBi
    ("bias of -inf is added", ROWS, "bias[at] == -(REAL)INFINITY ? -(REAL)INFINITY : score",
     "score", "NaN - inf is NaN"),
    ("bias of +inf gets through", SCORES, "values[e] == INFINITY", "values[e] > INFINITY",
     "a row of NaN"),
    ("ALiBi slopes of any head count alike", SCORES, """\
h < power ? (double)(h + 1) / (double)power
""", """\
h < heads ? (double)(h + 1) / (double)heads
""", "the formula without the paper's rule"),
    ("ALiBi slopes between are the even ones", SCORES, "2 * (h - power) + 1", "2 * (h - power) + 2",
     "every second one, but which"),

    # values that are not finite
    ("hidden NaN in V leaks", ATTEND, "tiles->ops->ROWOPS.all_finite(tiles->o, n) ||", "true ||",
     "0 times NaN"),
    ("visible NaN in V is taken for 0", ATTEND, "F(walk_keys)(tiles, PASS_NON_FINITE);", "",
     "the clean pass looks right"),
    ("the second pass adds to the first", ATTEND, """\
    F(set_fit)(tiles);
    F(clear)(tiles);
    F(walk_keys)(tiles, PASS_CLEANED);
""", """\
    F(set_fit)(tiles);
    F(walk_keys)(tiles, PASS_CLEANED);
""", "NaN stays NaN"),
    ("a row of NaN has a finite lse", ATTEND, "isnan(tiles.l[row]) ? (double)NAN : ", "",
     "the maximum of NaN alone is -inf, for comparisons drop NaN"),
    ("the sum of large values overflows", ATTEND, "            tiles->fit[row] = fit;", "",
     "their average does not"),
    ("what is hidden in a row of NaN is NaN", FINISH, "s[j] = s[j] == -(REAL)INFINITY ? 0 : l;",
     "s[j] = l;", "a hidden weight is 0 whatever else"),
    ("a sink keeps the digits that scores lack", EXECUTOR,
     "return run->wide || isinf(rounded) ? value : (double)rounded;", "return value;",
     "double is better"),
    ("a weight of 0 takes NaN along", ATTEND, "d < Dv && p != 0; d++", "d < Dv; d++",
     "0 times NaN"),
    ("a weight of 0 takes NaN along in the reference", REFERENCE, """\
    if (p == 0)
        return;
""", "", "0 times NaN"),
    ("a half that overflows is finite", CONVERT, "return 65520.0;", "return INFINITY;",
     "meta.non_finite looks at float32"),

    # number formats
    ("bfloat16 is cut off", CONVERT, "(bits + 0x7fff + (bits >> 16 & 1)) >> 16", "bits >> 16",
     "the upper half of a float"),
    ("bfloat16 rounds halves up", CONVERT, "bits + 0x7fff + (bits >> 16 & 1)", "bits + 0x8000",
     "ties to even is one term more"),
    ("float16 rounds halves up", CONVERT, "(kept + half_up + (kept >> shift & 1))",
     "(kept + half_up + 1)", "ties to even is one term more"),
    ("float64 goes to float16 by way of float32", CONVERT, """\
    return (uint16_t)(narrow(bits & INT64_MAX, BINARY64, BINARY16) | (bits >> 48 & 0x8000));
""", """\
    (void)bits;
    return half_from_float((float)value);
""", "rounds twice"),
    ("float16 denormals are 0", CONVERT, "(denormal & is_denormal)", "(0 & denormal & is_denormal)",
     "flushed to zero"),
    ("float16 infinity is 65536", CONVERT, "const uint32_t special = normal + move;",
     "const uint32_t special = normal;", "exponent 31 moves twice"),
    ("float16 loses its sign", CONVERT,
     "(narrow(bits & INT32_MAX, BINARY32, BINARY16) | (bits >> 16 & 0x8000))",
     "(narrow(bits & INT32_MAX, BINARY32, BINARY16))", "magnitude first"),
    ("the smallest float16 is never rounded up to", CONVERT, "shift > from.mantissa + 1",
     "shift > from.mantissa", "half of it and more is not 0"),
    ("NaN with low bits only becomes infinity", CONVERT,
     "to_infinity | UINT64_C(1) << (to.mantissa - 1) | payload", "to_infinity | payload",
     "the payload does not fit"),
    ("bfloat16 NaN rounds up to infinity", CONVERT, "is_nan ? quiet_nan : rounded", "rounded",
     "NaN is a large number"),
    ("float64 computed in float32", CALL,
     "request->q.dtype == ATTN_FLOAT64 ? ATTN_PRECISION_FLOAT64",
     "request->q.dtype == ATTN_FLOAT64 ? ATTN_PRECISION_FLOAT32", "the default's default"),
]
