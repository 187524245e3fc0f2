# SPDX-License-Identifier: Apache-2.0
"""Faults in products with rows in place, in what the fused kernel packs, in keys that are cut into
chunks, and in heads that tasks share; rows as in faults_arithmetic.py. Left out is what costs time
and changes no answer: heights of strips, prefetches, who packs a block."""
DECODE = "core/kernels/decode_set.h"
VALUES = "core/kernels/decode_values.h"
VECTORS = "core/kernels/decode_vectors.h"
FINISH = "core/kernels/finish.h"
FUSED = "core/kernels/fused.c"
STRIPS = "core/kernels/fused_strips.c"
PACK = "core/kernels/fused_pack.c"
QUERIES = "core/kernels/fused_queries.c"
SET = "core/kernels/fused_set.h"
KERNEL = "core/kernels/kernel.h"
HEADS = "core/heads.c"
CHUNKS = "core/chunks.c"
JOIN = "core/chunks_join.h"
EXECUTOR = "core/executor.c"
PLAN = "core/plan.c"
PIECE = "core/kernels/piece.c"

FAULTS = [
    # halves
    ("decode: a bfloat16 is moved too little", VECTORS, "(loaded, bits_vector) << 16",
     "(loaded, bits_vector) << 15", "as a half's fraction is"),
    ("decode: a half is read as bfloat16", VECTORS, "if (dtype == ATTN_FLOAT16)", "if (false)",
     "two types of 16 bits"),
    ("decode: rows of halves are floats apart", PACK,
     "operand->st * (ptrdiff_t)attn_dtype_size(operand->dtype)",
     "operand->st * (ptrdiff_t)sizeof(float)", "elements and bytes"),

    # products with rows in place
    ("decode: a head's last elements are no part of a score", DECODE, "    if (whole < D)",
     "    if (false)", "right for heads of whole vectors"),
    ("decode: a single row's last elements are read twice", DECODE,
     "add_products_in_order(sum, q, whole, k, ahead, dtype);",
     "add_products_in_order(sum, q, D, k, ahead, dtype);", "right for heads of whole vectors"),
    ("decode: the later half's scores stand beside the first's", DECODE,
     "memcpy(s + apart, scores + SUMS / 2,", "memcpy(s + SUMS / 2, scores + SUMS / 2,",
     "right for one turn"),
    ("decode: of an odd number of values the last one is left out", VALUES,
     "if (half + j < keys)", "if (half + j + 1 < keys)", "blocks are even"),
    ("decode: the scores of four keys change places", VECTORS,
     "QUARTERS(a, b, 0, 1, LANES, LANES + 1)", "QUARTERS(a, b, 0, LANES, 1, LANES + 1)",
     "sums of lanes"),
    ("decode: tall strips have the first rows' queries throughout", DECODE,
     "score_some(together, q + (size_t)r * D,", "score_some(together, q,",
     "right for up to four rows"),
    ("decode: the output is not rescaled", VALUES, "old * shrink[r] + sum[r][part]",
     "old + sum[r][part]", "shows only when a later block has a larger score"),
    ("decode: an output's last columns are left out", VALUES, """\
    if (at < Dv)
        cleaned""", """\
    if (false)
        cleaned""", "Dv is a multiple of 16"),
    ("decode: hidden NaN in V leaks", VALUES, "const bool cleaned = !are_finite(sum[0], parts);",
     "const bool cleaned = false;", "0 times NaN"),
    ("decode: only the last vector is looked at for NaN", VALUES, "nothing += sum[part] * 0.0f;",
     "nothing = sum[part] * 0.0f;", "right for narrow values"),
    ("decode: NaN in one lane is as good as none", VALUES,
     "_mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q) != 0",
     "(_mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q) & 1) != 0",
     "the first lane stands for all"),
    ("decode: visible NaN in V is taken for 0", VALUES, """\
            memcpy(to, &old, sizeof old);
        }
    return cleaned;""", """\
            memcpy(to, &old, sizeof old);
        }
    return false;""", "nobody asks a second time"),
    ("decode: a query's last elements are 0", DECODE, "load_part(row, at, n - at, dtype)",
     "(vector){0}", "heads are as wide as some vectors"),
    ("queries lie side by side", QUERIES,
     "return task->call->q.sd == 1 && task->rotation == NULL;",
     "return task->rotation == NULL;", "they mostly do"),
    ("queries are not turned", QUERIES,
     "return task->call->q.sd == 1 && task->rotation == NULL;",
     "return task->call->q.sd == 1;", "right without rope"),
    ("fused: the next head's queries lie behind the last one's", QUERIES,
     "if (++at->query < task->row + task->rows)", "if (++at->query < task->call->Tq)",
     "right for tasks of all queries"),
    ("fused: packed keys are not turned", PACK,
     "lying_at(task, &task->call->k, D, key, turns_keys(task->call))",
     "lying_at(task, &task->call->k, D, key, false)", "right without rope"),
    ("decode: columns tell of NaN, and the last ones decide", VALUES,
     "cleaned |= gather_columns(rows, 1, p, shrink, v, keys, o, width, at, Dv - at, dtype);",
     "cleaned = gather_columns(rows, 1, p, shrink, v, keys, o, width, at, Dv - at, dtype);",
     "= for |="),
    ("decode: values begin at the block's first", FUSED,
     "attn_direct_from(&block->v_rows, first)", "attn_direct_from(&block->v_rows, 0)",
     "right for pieces that begin with the block"),
    ("decode: keys begin at the block's first", STRIPS, "attn_direct_from(&block->k_rows, first)",
     "attn_direct_from(&block->k_rows, 0)", "right for pieces that begin with the block"),
    ("decode: blocks have no NaN to come back for", FUSED,
     "packed.cleaned || packed.v_direct != NULL || !again", "packed.cleaned || !again",
     "a block that was read in place knows nothing"),
    ("decode: lost scores stay", STRIPS, "return !finite;", "return false;",
     "other sums beyond a float end as NaN by themselves"),
    ("decode: keys are read where they lie", PACK,
     "return is_in_place(set, &call->k) && !turns_keys(call);",
     "return is_in_place(set, &call->k);",
     "it is fast, and right without rope"),
    ("decode: rows of the first head", PACK,
     ".data = attn_operand_row(operand, task->b, task->hkv, key),",
     ".data = attn_operand_row(operand, task->b, 0, key),", "right for one head"),
    ("decode: rows of the first batch item", PACK,
     ".data = attn_operand_row(operand, task->b, task->hkv, key),",
     ".data = attn_operand_row(operand, 0, task->hkv, key),", "right for one item"),
    ("decode: it takes additive scores for products", KERNEL,
     "(!kernel->products_only || call->score == ATTN_SCORE_SCALED_DOT)", "true",
     "the fastest kernel first"),

    # packing
    ("fused: a block is the one before it", PACK,
     "return block_of(&head, keys_of(&head, index), state);",
     "return block_of(&head, keys_of(&head, index > 0 ? index - 1 : 0), state);",
     "counted from 1"),
    ("fused: keys are the first block's", PACK, """\
    const size_t key = index * task->grid.key_tile;
    const size_t keys = attn_min_size(task->grid.key_tile, task->call->Tk - key);
    state->largest = pack_keys(task, set, key,""", """\
    const size_t key = index * task->grid.key_tile;
    const size_t keys = attn_min_size(task->grid.key_tile, task->call->Tk - key);
    state->largest = pack_keys(task, set, 0,""", "right for one block"),
    ("fused: the last four keys say how large all are", PACK, "largest = fmaxf(largest,",
     "largest = fmaxf(0,", "keys are alike"),
    ("fused: the last strip says how large queries are", STRIPS,
     "strips->q_largest = fmaxf(strips->q_largest, largest)", "strips->q_largest = largest",
     "queries are alike"),
    ("fused: a strip that is left over has one row", STRIPS, "set[1].rows >= rest",
     "set[1].rows > 0", "the lowest wastes least"),
    ("fused: keys have no magnitude", PACK, ".largest = state->largest,", ".largest = 0,",
     "products beyond a float are rare"),
    ("fused: blocks have no NaN to come back for", PACK, ".cleaned = state->cleaned}",
     ".cleaned = false}", "visible NaN is taken for 0"),
    ("fused: the last key row says whether all were finite", PACK,
     "            cleaned = true;\n", "",
     "nobody asks a second time"),
    ("fused: values behind the keys are where they are packed first", PACK,
     ".v = k + head->sizes.k,", ".v = k + head->sizes.v,", "D = Dv in most tests"),
    ("fused: panels past a multiple of what one pass takes have no scores", SET, """\
    for (; panel < panels; panel++)
        score_panels""", """\
    for (; false; panel++)
        score_panels""", "tiles are multiples"),
    ("fused: panels past a multiple of what one pass takes are not summed", SET, """\
    for (; panel < panels; panel++)
        gather_panels""", """\
    for (; false; panel++)
        gather_panels""", "heads are multiples"),
    ("fused: the last elements of some rows are not transposed", SET, "if (d < D && D > LANES)",
     "if (false)", "D is a multiple of 16"),
    ("fused: narrow heads are not transposed", SET, "for (d = 0; D < LANES && d < D; d++)",
     "for (d = 0; false; d++)", "heads are at least a vector wide"),
    ("fused: a strip's queries are the first strip's", STRIPS,
     "const float *q = strips->q + piece->row * D;", "const float *q = strips->q;",
     "right for tasks of one strip"),
    ("a tiny scale is 0", FINISH, "((double)REAL_MIN <= magnitude && ",
     "(", "scales are about 0.1"),
    ("fused: blocks that overflowed are added to", FUSED, """\
        clear(&strips);
        walk_keys""", """\
        walk_keys""", "inf stays inf"),

    # keys in chunks
    ("chunks: a border is off by one", PLAN, "task->key = index % plan->chunks * plan->chunk_keys;",
     "task->key = index % plan->chunks * plan->chunk_keys + (index % plan->chunks > 0);",
     "the key at the border is nobody's"),
    ("chunks: the last one has keys past the end", PLAN,
     "task->keys = attn_min_size(plan->chunk_keys, call->Tk - task->key);",
     "task->keys = plan->chunk_keys;", "right where chunks come out even"),
    ("chunks: each sees all keys from its first on", PIECE,
     "    *end = attn_min_size(*end, task->key + task->keys);\n", "", "right for the last one"),
    ("chunks: each sees all keys up to its last", PIECE,
     "    *begin = attn_max_size(*begin, task->key);\n", "", "right for the first one"),
    ("chunks: a chunk's l is not rescaled", JOIN, "l += (double)weight[n] * parts[n].l[row];",
     "l += parts[n].l[row];", "right where the maxima are alike"),
    ("chunks: a chunk's output is not rescaled", JOIN,
     "weight[n] * (REAL)(parts[n].unit[row] / unit)", "(REAL)(parts[n].unit[row] / unit)",
     "right where the maxima are alike"),
    ("chunks: the last one is not added", JOIN, """\
    for (size_t n = 0; n < count; n++)
        if (weight[n] != 0)""", """\
    for (size_t n = 0; n + 1 < count; n++)
        if (weight[n] != 0)""", "mostly hidden or short"),
    ("chunks: the first one's maximum is the row's", JOIN,
     "m = parts[n].m[row] > m ? parts[n].m[row] : m;", "m = n == 0 ? parts[n].m[row] : m;",
     "exp of more than 0 is exact too, while it fits"),
    ("chunks: the sink joins each of them", EXECUTOR,
     "    run->plan->kernel->attend(&run->task, run->at.kernel, &part);\n", """\
    run->plan->kernel->attend(&run->task, run->at.kernel, &part);
    for (size_t r = 0; r < run->group * run->task.rows && run->chunks && run->call->sink; r++)
        part.l[r] +=
            exp(run->call->sink[run->task.hkv * run->group + r / run->task.rows] - part.m[r]);
""", "as if each were a call"),
    ("chunks: units are forgotten", JOIN, "(REAL)(parts[n].unit[row] / unit)", "1",
     "sums beyond a float are rare"),
    ("chunks: sums beyond a float stay infinite", JOIN, """\
    whole->unit[row] = ldexp(1, 2 + ilogb((double)call->Tk));
""", "", "each chunk's own fits"),
    ("chunks: rows beyond a float are joined as others", JOIN, """\
    if (whole->wide[row])
        return isnan(whole->l[row]);
""", "", "scores in double and scores in float"),
    ("chunks: what an infinite value reaches is not computed again", JOIN, """\
        return false;
    whole->unit""", """\
        return true;
    whole->unit""", "a weight that ends as 0 had been more"),
    ("chunks: an infinite value changes its whole row", JOIN, "if (all || !isfinite(to[d]))",
     "if (true)", "only the bits differ"),
    ("chunks: the first to come joins", CHUNKS, "return before + 1 == chunks->plan->chunks;",
     "return before == 0;", "right when it is the last as well"),
    ("chunks: arrivals of a run before count", CHUNKS,
     "atomic_store_explicit(&chunks->arrived[n], 0, memory_order_relaxed);", ";",
     "a run that was cancelled"),
    ("chunks: all results lie in one place", CHUNKS, "chunks->slots + index * plan->chunk_bytes",
     "chunks->slots", "the last one stays"),
    ("chunks: maps see the last one's keys", EXECUTOR, "    run->task.keys = run->call->Tk;\n", "",
     "right without a map"),
    ("chunks: maps count tasks by chunks", EXECUTOR, ".index = run->index / run->plan->chunks,",
     ".index = run->index,", "right for the first task"),
    ("chunks: parts of maps are committed for other rows", "core/map.c",
     "index * at.plan->chunks", "index", "right for one chunk"),

    # heads that tasks share
    ("a place is given away while a task reads it", HEADS, """\
        if (place->holders > 0)
            continue;
""", "", "heads end in their order, mostly"),
    ("nobody holds a place", HEADS, "heads->places[n].holders++;", "",
     "one place per thread is enough"),
    ("the place of the last head goes first", HEADS, "place->head < heads->places[best].head",
     "place->head > heads->places[best].head", "its other tasks pack it again"),
    ("what another call packed is there still", HEADS, "heads->places[n] = (struct place){0};", ";",
     "the numbers are mostly the same"),
    ("all heads are packed in one place", HEADS, "heads->packed + n * heads->bytes",
     "heads->packed", "right for one thread"),
    ("packed storage is never opened", HEADS, "    heads->plan->kernel->packed_open(",
     "    if (false)\n        heads->plan->kernel->packed_open(", "memory is zeros, mostly"),
]
