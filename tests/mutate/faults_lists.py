# SPDX-License-Identifier: Apache-2.0
"""Faults in experiments with random numbers, in lists of the largest, in parts that are added up in
order, in merging, and in where queries stand; rows as in faults_arithmetic.py. Left out is what
changes no answer: a lock that others hold as well, a maximum that no score is large enough for."""
SCALING = "core/scaling.c"
RANDOM = "core/mt19937.c"
TOP = "core/map_top.c"
ORDER = "core/map_order.c"
MERGE = "core/merge.c"
ROPE = "core/rope.c"
POSITIONS = "core/call_positions.c"
GLOBAL = "core/mask_global.c"
DILATED = "core/mask_dilated.c"

FAULTS = [
    # the experiment of scaled scores
    ("scaling: one sample fewer counts", SCALING, "squares / (double)run->scaling->samples",
     "squares / (double)(run->scaling->samples - 1)", "an estimate of more than the sample"),
    ("scaling: the new mean is forgotten", SCALING, "squares += off * (value - mean);",
     "squares += off * off;", "both differences look alike"),
    ("scaling: divisors change places", SCALING,
     "{1, sqrt((double)size->d_k), (double)size->d_k}",
     "{1, (double)size->d_k, sqrt((double)size->d_k)}", "none, whole, root"),
    ("scaling: what is healthy is what is lost", SCALING, "1 - squares", "squares",
     "one says the other"),
    ("scaling: one loop over sizes", SCALING, """\
        fill_rows(&run, &sizes[i], numbers + i * ATTN_DIVISOR_COUNT * 2 * scaling->keys);
    }
    for (size_t i = 0; i < scaling->count; i++)
        sizes[i].variance = sample_variance(&run, scaling->d_k[i]);
""", """\
        fill_rows(&run, &sizes[i], numbers + i * ATTN_DIVISOR_COUNT * 2 * scaling->keys);
        sizes[i].variance = sample_variance(&run, scaling->d_k[i]);
    }
""", "shorter, and the numbers come in another order"),
    ("scaling: a pair is one vector", SCALING, "2 * (double)scaling->samples", "scaling->samples",
     "the limit counts keys by one"),
    ("scaling: every size has the first one's rows", SCALING,
     "numbers + i * ATTN_DIVISOR_COUNT * 2 * scaling->keys", "numbers", "right for one size"),
    ("random: a pair of normals gives one", RANDOM, "random->has_normal = true;", "",
     "normal, but not the published sequence"),

    # the largest of a row
    ("top: the left child is always the worse", TOP, "child + 1 < n && is_worse(",
     "false && is_worse(", "right for lists of two"),
    ("top: NaN is the smallest", TOP, "return isnan(b.value);", "return isnan(a.value);",
     "a sign"),
    ("top: scores are padded with 0", TOP,
     "const double value = reducer->stage == ATTN_STAGE_WEIGHTS ? 0 : -INFINITY;",
     "const double value = 0;", "right for weights"),
    ("top: a list stays a heap", TOP, "    sort(list);\n", "    (void)list;\n",
     "the set is the same"),
    ("top: keys count from their piece", TOP, "(int32_t)(key + at)", "(int32_t)at",
     "right for the first piece"),
    ("top: a part's list has keys before it", TOP,
     "first - piece->key, last - piece->key, piece->key", "0, last - piece->key, piece->key",
     "right for parts from key 0 on"),
    ("top: doubles are compared as floats", TOP,
     "return list->d != NULL ? value : (double)(float)value;", "return (double)(float)value;",
     "most answers are float32"),
    ("top: every place has the first one's list", TOP,
     "attn_map_plane(reducer->at, call->map_head_count, place)",
     "attn_map_plane(reducer->at, call->map_head_count, 0)",
     "right for one head"),

    # parts in order
    ("order: slots lie on the carry", ORDER, "order->first_slot = order->carry + sizes.carry;",
     "order->first_slot = order->carry;", "right where nothing is carried"),
    ("order: a slot is used before it is free", ORDER, "index >= order->committed + order->slots",
     "index > order->committed + order->slots", "half-open or not"),

    # merging
    ("merging: every block of columns is the first", MERGE,
     " + (ptrdiff_t)from * outputs->stride[4];", ";", "right for 256 columns"),
    ("merging: every block goes to the first one's place", MERGE, "(index * Dv + from)",
     "(index * Dv)", "right for 256 columns"),
    ("merging: axes are added at the end", MERGE, "const bool inserted = axis <= missing;",
     "const bool inserted = axis >= rank - missing;", "right for all axes"),
    ("merging: lses in double are no reason", MERGE,
     "request->outputs.dtype == ATTN_FLOAT64 || request->lses.dtype == ATTN_FLOAT64",
     "request->outputs.dtype == ATTN_FLOAT64", "outputs are what one looks at"),
    ("merging: what a half cannot hold is finite", MERGE, "fabs(total[d]) < limit",
     "isfinite(total[d])", "right for float32, mostly"),
    ("merging: rows of a task are its first", MERGE,
     "const size_t first = task * merge->rows_per_task;", "const size_t first = task * 0;",
     "right for one task"),

    # where queries stand
    ("rope: offsets are the first item's", ROPE, "rope->q_offset[b], call->Tq,",
     "rope->q_offset[0], call->Tq,", "lists of one value do not see it"),
    ("rope: all items' tables lie in one place", ROPE,
     "areas.q + b * call->Tq * rope->dims * real", "areas.q", "right for one item"),
    ("positions: align under all under any counts", POSITIONS,
     "joined[n] && node->kind == ATTN_MASK_ALL;", "node->kind == ATTN_MASK_ALL;",
     "looks one level up"),
    ("positions: q_offset silences align", POSITIONS, "    if (causal != NULL)\n",
     "    if (false)\n", "the number is more exact"),
    ("positions: slopes of one's own need no place", POSITIONS,
     "request->alibi || request->alibi_slopes.values != NULL", "request->alibi",
     "two ways to ask for it"),
    ("positions: turns need no place", POSITIONS,
     "request->rope.given && request->rope.q_offset.values == NULL", "false",
     "masks and ALiBi do"),

    # masks
    ("global: tokens are a run", GLOBAL, "(size_t)tokens->values[middle] - first == middle", "true",
     "[0, 1, 2] is the usual list"),
    ("global: the last token is not seen", GLOBAL,
     "tokens->values[tokens->count - 1] + 1);", "tokens->values[tokens->count - 1]);",
     "half-open or not"),
    ("dilated: a tile within the window is full", DILATED, "if (node->stride > 1)", "if (false)",
     "right for windows"),
    ("dilated: one key more is seen", DILATED, "(63 - (keys.end - 1) % 64)",
     "(63 - keys.end % 64)", "half-open or not"),
    ("dilated: keys before the window are seen", DILATED,
     "    row[first] &= UINT64_MAX << keys.begin % 64;\n", "", "right for windows from key 0 on"),
]
