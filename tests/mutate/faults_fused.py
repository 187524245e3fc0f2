# SPDX-License-Identifier: Apache-2.0
"""Faults in the fused kernel and what it shares with others, in masks of its time, and in merging.
Each row is (name, file, exact text, what to put there, why somebody would write it)."""
FUSED = "core/kernels/fused.c"
WALK = "core/kernels/fused_walk.c"
STRIPS = "core/kernels/fused_strips.c"
PACK = "core/kernels/fused_pack.c"
SET = "core/kernels/fused_set.h"
ROWS = "core/kernels/rowops_rows.h"
FINISH = "core/kernels/finish.h"
PIECE = "core/kernels/piece.c"
KERNEL = "core/kernels/kernel.h"
MERGE = "core/merge.c"
GLOBAL = "core/mask_global.c"
DILATED = "core/mask_dilated.c"
INTERVAL = "core/mask_interval.c"
INTERNAL = "core/mask_internal.h"

HEADS = "core/heads.c"

FAULTS = [
    # who works at which head
    ("whoever comes first goes on with a head", HEADS,
     "pthread_equal(heads->places[n].last, pthread_self())", "heads->places[n].holders == 0",
     "nobody is at it, so it needs somebody"),
    ("a head that nobody is at makes room", HEADS,
     "(heads->places[n].holders > 0 || has_task(heads, &heads->places[n]))",
     "heads->places[n].holders > 0", "its thread may be between two of its tasks"),
    ("tasks that commit in turn begin as they suit", HEADS,
     "if (heads->count == 0 || heads->order != NULL) {", "if (heads->count == 0) {",
     "the order of commits is kept elsewhere"),

    # strips
    ("fused: no maximum is subtracted", ROWS,
     "m[r] = top[r] = F(row_max)(rows + r * stride, n, m[r]);", "m[r] = 0;",
     "right as long as scores are small"),
    ("fused: a finite start of the maximum", FUSED, "strips->m[row] = -INFINITY;",
     "strips->m[row] = -1e4f;", "below any score that one has seen"),
    ("fused: the sum is not rescaled", ROWS, "l[r] = l[r] * old[r] +", "l[r] = l[r] +",
     "shows only when a later block has a larger score"),
    ("a row without a key has no base", ROWS, "(VECTOR)((MASK)after & ~none)", "after",
     "what is subtracted is the maximum"),
    ("a maximum that stays shrinks by what infinities leave", ROWS,
     "(VECTOR)((MASK)(before - after) & ~same)", "before - after", "0 in most rows anyway"),
    ("fused: the output is not rescaled", SET, "load(to) * shrink[r] + sum[r][part]",
     "load(to) + sum[r][part]", "shows only when a later block has a larger score"),
    ("fused: a run of keys is its first row's", FINISH,
     "t = t + 1 < finish->task->rows ? t + 1 : 0;", "", "right for padding"),
    ("fused: a strip whose first row sees all has no mask", STRIPS,
     "every.end = attn_min_size(every.end, span.end);", "every.end = span.end;",
     "the last row sees the least in no mask that comes to mind"),
    ("fused: a strip sees what its last row does", STRIPS,
     "some.begin = attn_min_size(some.begin, span.begin);", "some.begin = span.begin;",
     "right for causal masks"),
    ("a run that ends within a vector goes on", ROWS,
     "end - (end - at) % F(LANES) : at", "end + (end - at) % F(LANES) : at", "whole vectors"),
    ("ids a step apart are compared as neighbours", "core/mask_segments.c",
     "tensor->stride[3] == 1 &&", "", "right for dense ids"),
    ("fused: keys that fill a panel are seen", STRIPS, "piece->keys < padded; r++", "false; r++",
     "their scores are 0, which is a score"),
    ("fused: the heads of a group go on where the one before ended", STRIPS,
     "t = t + 1 < rows ? t + 1 : 0;", "t = t + 1 < rows ? t + 1 : t;", "right without groups"),
    ("fused: values begin at the piece's first key", FUSED,
     "block->v + (first + seen.begin) * PANEL", "block->v + first * PANEL",
     "weights before it are 0"),
    ("fused: the last key that a strip sees adds no value", FUSED,
     "attn_min_size(some.end - piece->key, piece->keys)",
     "attn_min_size(some.end - 1 - piece->key, piece->keys)", "inclusive or not"),
    ("fused: raw scores are scaled", WALK,
     "attn_walk_takes(walk, ATTN_STAGE_RAW) ? 1 : task->call->scale", "task->call->scale",
     "attend packs its queries scaled"),
    ("fused: raw scores are scaled beside one that overflows", FUSED,
     "map->stage == ATTN_STAGE_RAW ? 1 : task->call->scale", "task->call->scale",
     "the walk packs them otherwise"),
    ("fused: panels that are half hidden are dropped", STRIPS,
     "piece->keys < PANEL || attn_piece_classify(task, &panel) != ATTN_TILE_EMPTY",
     "piece->keys < PANEL || attn_piece_classify(task, &panel) == ATTN_TILE_FULL",
     "a strip's first panels are often hidden"),
    ("fused: the last part of a panel is dropped", STRIPS,
     "end = attn_min_size(attn_strips_round_up(end, PANEL), block->keys);",
     "end = attn_min_size(end / PANEL * PANEL, block->keys);", "right for multiples of 16"),
    ("fused: a piece begins within a panel", STRIPS, "begin -= begin % PANEL;", "",
     "right for multiples of 16"),
    ("fused: visible NaN in V is taken for 0", FUSED, "if (cleaned)\n", "if (false)\n",
     "packing left it out"),
    ("fused: hidden NaN in V leaks", PACK, "if (!set->spread(row, Dv, v + j * PANEL, v_step))",
     "if (set->spread(row, Dv, v + j * PANEL, v_step), false)",
     "0 times NaN"),
    ("fused: a weight of 0 takes NaN along", FUSED, "d < Dv && p != 0; d++", "d < Dv; d++",
     "0 times NaN"),
    ("fused: hidden pieces of a map of weights are -inf", FUSED,
     "map->stage == ATTN_STAGE_WEIGHTS ? 0 : -INFINITY;", "-INFINITY;", "right for scores"),
    ("fused: float64 in float32", KERNEL,
     "!kernel->float32_only || call->precision == ATTN_PRECISION_FLOAT32", "true",
     "the fastest kernel first"),

    # pieces and finishing
    ("every tile has the first rows' mask", PIECE, ".t = task->row + t,", ".t = t,",
     "right for the first task"),
    ("heads of a strip share the first one's mask", PIECE,
     "!attn_mask_varies_by_head(&task->call->mask)", "true", "right for masks of all heads"),
    ("a strip is classified by its last head", PIECE,
     "class = from == 0 || one == class ? one : ATTN_TILE_PARTIAL;", "class = one;",
     "right for masks of all heads"),
    ("finishing: softcap after the bias", FINISH, """\
        F(add_bias)(finish, h, t, piece, s);
}
""", """\
        F(add_bias)(finish, h, t, piece, s);
    if (call->softcap > 0)
        finish->ops->ROWOPS.softcap(s, piece->keys, (REAL)call->softcap);
}
""", "what -inf hid comes back as -cap"),
    ("finishing: stage capped holds the bias", FINISH, "stage == ATTN_STAGE_CAPPED", "false",
     "one stage read as the next"),
    ("finishing: a map shows what is hidden", FINISH,
     "class == ATTN_TILE_FULL || stage < ATTN_STAGE_MASKED",
     "class == ATTN_TILE_FULL || stage <= ATTN_STAGE_MASKED", "one stage read as the next"),
    ("finishing: bias of batch item 0", FINISH,
     "attn_tensor_offset(bias, finish->task->b, h, t, piece->key)",
     "attn_tensor_offset(bias, 0, h, t, piece->key)", "most biases have no batch axis"),
    ("finishing: ALiBi from row instead of position", FINISH,
     "(double)attn_call_q_offset(call, finish->task->b)", "0.0",
     "decoding then has no bias at all"),
    ("finishing: ALiBi with a sign", FINISH, "slope * fabs(distance - (double)j)",
     "slope * (distance - (double)j)", "equal under a causal mask"),

    # global, dilated, block_causal
    ("a token sees only tokens' tiles", GLOBAL, "rows.tokens == 0 && keys.tokens == 0",
     "keys.tokens == 0", "global is for keys"),
    ("a token sees no more than others", GLOBAL, "attn_bits_set(row, 0, tile->keys);",
     "show_tokens(tokens, attn_mask_key_position(space, tile->key), tile, row);",
     "global is for keys"),
    ("the last row's token is forgotten", GLOBAL, "tokens_before(tokens, last + 1)",
     "tokens_before(tokens, last)", "half-open or not"),
    ("tokens are rows, not positions", GLOBAL,
     "const int64_t position = attn_mask_position(space, tile->b, tile->row + r);",
     "const int64_t position = (int64_t)(tile->row + r);", "right for offset 0"),
    ("a dilated tile with one key to see is empty", DILATED,
     "<= (uint64_t)highest - (uint64_t)lowest", "< (uint64_t)highest - (uint64_t)lowest",
     "one multiple is in reach"),
    ("dilation counts from key 0", DILATED, "(phase + stride - word_key % stride) % stride",
     "(stride - word_key % stride) % stride", "right for position 0"),
    ("dilation begins anew at each word", DILATED,
     "shift = shift >= 64 ? shift - 64 : (stride - (64 - shift) % stride) % stride;", "",
     "right for strides that divide 64"),
    ("a block ends a token late", INTERVAL, "block - 1 - (int64_t)attn_floor_modulo(i, block)",
     "block - (int64_t)attn_floor_modulo(i, block)", "half-open or not"),
    ("positions before key 0 round towards it", INTERNAL, "rest < 0 ? rest + n : rest",
     "rest < 0 ? -rest : rest", "the sign of % in C"),

    # merging
    ("merging without a maximum", MERGE, "exp(lse - row->most)", "exp(lse)", "overflows at 89"),
    ("two partials that saw nothing are NaN", MERGE,
     "return lse == -INFINITY ? 0.0 : exp(lse - row->most);", "return exp(lse - row->most);",
     "-inf minus -inf"),
    ("merging forgets the sink", MERGE, "sink == -INFINITY ? 0.0 : exp(sink - row->most)", "0.0",
     "it is in no partial"),
    ("a large sink overflows in merging", MERGE, "row->most = larger(row->most, sink);", "",
     "the maximum of the partials is enough"),
    ("one sink for all heads in merging", MERGE,
     "merge->sink.values[merge->sink.count == 1 ? 0 : h]", "merge->sink.values[0]",
     "lists of one value do not see it"),
    ("merged lse without the maximum", MERGE, "row->most + log(row->sum)", "log(row->sum)",
     "equal for scores around 0"),
    ("a partial of NaN is dropped", MERGE, "return lse == -INFINITY ? 0.0",
     "return !(lse > -INFINITY) ? 0.0", "comparisons drop NaN"),
    ("a partial of weight 0 takes NaN along", MERGE, """\
        if (weight == 0.0)
            continue;
""", "", "0 times NaN"),
    ("rows with a sink only count as seeing", MERGE, "    return empty;\n}",
     "    return empty && row->sum == 0.0;\n}", "their sum is not 0"),
]
