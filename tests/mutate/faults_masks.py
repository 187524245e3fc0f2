# SPDX-License-Identifier: Apache-2.0
"""Faults in masks, positions and sizes. Each row is (name, file, exact text, what to put there, why
somebody would write it)."""
INTERNAL = "core/mask_internal.h"
INTERVAL = "core/mask_interval.c"
CLASSIFY = "core/mask_classify.c"
FILL = "core/mask_fill.c"
SEGMENTS = "core/mask_segments.c"
TENSOR = "core/mask_tensor.c"
VALIDATE = "core/mask_validate.c"
POSITIONS = "core/call_positions.c"
BLAS = "core/kernels/blas.c"
TILES = "core/kernels/blas_tiles.h"
ROWS = "core/kernels/rowops_rows.h"
CALL = "core/call.c"
PLAN = "core/plan.c"
COST = "core/plan_cost.c"
SCHEDULER = "core/scheduler.c"
CHECKED = "core/checked.h"

FAULTS = [
    # intervals
    ("a window of one key more", INTERVAL, "attn_sub_saturating(i, left));",
     "attn_sub_saturating(i, left) - 1);", "left counts the query's own key or not"),
    ("rows together see what the first of them does", INTERVAL,
     "attn_mask_position(space, b, row + r)", "attn_mask_position(space, b, row)", "one row does"),
    ("causal without the diagonal", INTERVAL, "attn_mask_keys_before(space, i + 1)",
     "attn_mask_keys_before(space, i)", "j < i"),
    ("a window closed to the left by -1", INTERVAL, "left < 0 ? 0 :", "left < -1 ? 0 :",
     "-1 is a number"),
    ("a prefix of one key more", INTERVAL,
     "attn_mask_keys_before(space, attn_int_list_at(&node->lengths, b))",
     "attn_mask_keys_before(space, attn_int_list_at(&node->lengths, b) + 1)", "j <= P"),
    ("the prefix of batch item 0", INTERVAL, "attn_int_list_at(&node->lengths, b)",
     "attn_int_list_at(&node->lengths, 0)", "lists of one value do not see it"),
    ("a length of one key more", INTERVAL, "(size_t)attn_int_list_at(&node->kv_lengths, b);",
     "(size_t)attn_int_list_at(&node->kv_lengths, b) + 1;",
     "onnxruntime's seqlens_k is the length less one"),
    ("the length of batch item 0", INTERVAL, "attn_int_list_at(&node->kv_lengths, b)",
     "attn_int_list_at(&node->kv_lengths, 0)", "lists of one value do not see it"),
    ("q_lengths hide no row", INTERVAL, "row < visible_rows ? kv_length : 0", "kv_length",
     "what a padded query says is thrown away anyhow"),
    ("a tile is full when its end is", INTERVAL,
     "bounds.every.begin <= tile->key && bounds.every.end >= end", "bounds.every.end >= end",
     "causal masks have no begin"),

    # positions
    ("q_offset moves the queries back", INTERNAL,
     "attn_add_saturating(attn_int_list_at(&offsets, b), (int64_t)row)",
     "attn_sub_saturating((int64_t)row, attn_int_list_at(&offsets, b))", "a sign"),
    ("the q_offset of batch item 0", INTERNAL, "attn_int_list_at(&offsets, b)",
     "attn_int_list_at(&offsets, 0)", "lists of one value do not see it"),
    ("bottom_right knows no lengths", POSITIONS,
     "padding != NULL ? list_at(&padding->kv_lengths, b) : (int64_t)call->Tk",
     "(int64_t)call->Tk", "right without padding"),
    ("bottom_right knows no q_lengths", POSITIONS,
     "has_queries ? list_at(&padding->q_lengths, b) : (int64_t)call->Tq", "(int64_t)call->Tq",
     "right without padded queries"),
    ("bottom_right has one offset for all", POSITIONS, "q_offset_count = each ? call->B : 1;",
     "q_offset_count = 1;", "right for lengths that are equal"),
    ("causal is top left unless told", POSITIONS, "if (call->Tq == call->Tk ||", "if (true ||",
     "every library has a silent default"),
    ("padding under any places the queries", POSITIONS,
     "node->kind == ATTN_MASK_PADDING && joined[n] &&", "node->kind == ATTN_MASK_PADDING &&",
     "its lengths are no lengths there"),

    # combinations
    ("all and any exchanged for tiles", CLASSIFY, "(kind == ATTN_MASK_ALL) == (x < y) ? x : y",
     "(kind == ATTN_MASK_ALL) == (x < y) ? y : x", "the smaller or the larger"),
    ("the range of a union ends with its first part", CLASSIFY, "attn_max_size(x.end, y.end)",
     "x.end", "parts are sorted in most examples"),
    ("the rest of an interval begins behind it", CLASSIFY, "x.begin == 0 ? x.end : 0",
     "x.end", "right for not(prefix)"),
    ("the rest of an interval ends before it", CLASSIFY, "x.end == Tk ? x.begin : Tk", "x.begin",
     "right for not(suffix)"),
    ("not of full stays full", CLASSIFY, "(ATTN_TILE_FULL - gathered)", "gathered",
     "right for partial tiles"),
    ("any is filled as all", FILL, "if (kind == ATTN_MASK_ALL)", "if (kind != ATTN_MASK_NOT)",
     "right for one part"),
    ("an empty any shows everything", FILL, "fill_constant(node->kind == ATTN_MASK_ALL,",
     "fill_constant(true,", "nothing said, nothing hidden"),

    # tensors
    ("the mask of batch item 0", TENSOR, """\
            attn_tensor_offset(tensor, tile->b, tile->h, tile->row + r, tile->key);
        for (size_t w""", """\
            attn_tensor_offset(tensor, 0, tile->h, tile->row + r, tile->key);
        for (size_t w""", "most masks have no batch axis"),
    ("a keep of 128 is none", TENSOR, "(((word & low7) + low7) | word) & ~low7",
     "((word & low7) + low7) & ~low7", "eight bytes at a time"),
    ("hide is allow", TENSOR, "fill_non_zero(&node->tensor, tile, UINT64_MAX, bits)",
     "fill_non_zero(&node->tensor, tile, 0, bits)", "the polarity"),
    ("a hidden tile of hide is empty of it", TENSOR, """\
    return (enum attn_tile_class)(ATTN_TILE_FULL -
                                  attn_mask_classify_allow(node, space, tile, thorough));
""", """\
    return attn_mask_classify_allow(node, space, tile, thorough);
""", "the polarity, for whole tiles"),
    ("what is hidden gets -1e4", ROWS, "const VECTOR hidden = (VECTOR){0} - (REAL)INFINITY;",
     "const VECTOR hidden = (VECTOR){0} - (REAL)1e4;", "a number that always was enough"),
    ("the first bits of a word hide all its keys", ROWS, "bits[at / 64] >> at % 64 & all",
     "bits[at / 64] & all", "right for one register"),
    ("slices drop what is half hidden", BLAS, """\
           part_class(task, slice, begin, SLICE_KEYS) == ATTN_TILE_EMPTY)
""", """\
           part_class(task, slice, begin, SLICE_KEYS) != ATTN_TILE_FULL)
""", "a slice's first keys are often hidden"),
    ("neighbouring documents see nothing", SEGMENTS, "rows.largest < keys.smallest",
     "rows.largest <= keys.smallest", "ids that touch"),
    ("a tile between two documents is full", SEGMENTS, "rows.smallest == rows.largest && keys",
     "keys", "right for rows of one document"),
    ("segments of batch item 0", SEGMENTS, "attn_tensor_offset(tensor, b, 0, 0, at)",
     "attn_tensor_offset(tensor, 0, 0, 0, at)", "most ids have no batch axis"),
    ("a padding mask passes for [Tq,Tk]", VALIDATE,
     "tensor->rank == 2 && tensor->shape[0] == space->B", "false", "it broadcasts otherwise"),

    ("a decided combinator is skipped itself", CLASSIFY, "i = place->parent - 1;",
     "i = place->parent;", "the loop adds one"),
    ("int8 ids are unsigned", SEGMENTS, "LOAD(int8_t)", "LOAD(uint8_t)",
     "equal among themselves"),
    ("uint32 ids are signed", SEGMENTS, "LOAD(uint32_t)", "LOAD(int32_t)",
     "equal among themselves"),
    ("an id that a chunk cuts in two ends there", SEGMENTS, "done + begin, done + end, words,",
     "begin, end, words,", "right for tiles of 64 keys"),
    ("words of a row of bits are taken from its first", TENSOR,
     "const ptrdiff_t at = offset + (ptrdiff_t)(w * 64) * tensor->stride[3];",
     "const ptrdiff_t at = offset;", "right for tiles of 64 keys"),
    ("16-bit masks are read as bytes", TENSOR, "GATHER(uint16_t)", "GATHER(uint8_t)",
     "right for one key"),
    ("a bit too many is shown", FILL, "UINT64_MAX >> (63 - (end - 1) % 64)",
     "UINT64_MAX >> (63 - end % 64)", "begin and end"),
    ("not shows what lies behind the keys", FILL, " & attn_bits_low(keys - i % words * 64);", ";",
     "bits that nobody looks at"),
    ("align under any places the call", POSITIONS, "if (!joined[n])", "if (false)",
     "it is a causal mask after all"),
    ("the second align wins", POSITIONS, "found->causal->align != node->align", "false",
     "the last word counts"),
    ("bottom_right has one q_length for all", POSITIONS, """\
(nodes.padding->kv_lengths.count > 1 ||
                                                    nodes.padding->q_lengths.count > 1);
""", """\
nodes.padding->kv_lengths.count > 1;
""", "right for one item"),
    ("masks of 2 and 3 are true", VALIDATE, "if (at[3] == shape[3])", "if (true)",
     "as in C"),

    # sizes, plans, turns
    ("a float64 answer is rounded", CALL, "asked64 ? ATTN_FLOAT64 : request->q.dtype",
     "request->q.dtype", "output has q's type"),
    ("work is planned for one batch item", COST,
     "const double batches = (double)call->B / (double)survey.batches;",
     "const double batches = 1;", "right for one item"),
    ("masks cost nothing", COST, "WORK_PER_NANOSECOND * (mask_time + fixed_time(call, plan))",
     "WORK_PER_NANOSECOND * fixed_time(call, plan)",
     "the arithmetic that one thinks of"),
    ("values cost nothing", COST, "((double)call->D + (double)call->Dv) * plan",
     "(double)call->D * plan", "the product that one thinks of"),
    ("tiles are not cut for wide heads", PLAN, "plan->workspace_bytes <= WORKSPACE_TARGET ||",
     "true ||", "heads are 64 wide"),
    ("waiting does not count", SCHEDULER, "#define AGING 0.5", "#define AGING 0.0",
     "long jobs starve"),
    ("long jobs go first", SCHEDULER, "rank < best_rank", "rank > best_rank", "a sign"),
    ("one workspace for both steps", SCHEDULER, "&worker->nested, &checkpoint",
     "&worker->own, &checkpoint", "a worker does one thing at a time"),
    ("a stream of short jobs holds a step for ever", SCHEDULER,
     "return worker->credit > 0 || worker->job->last;", "return true;", "short jobs end"),
    ("the outer job's age counts", SCHEDULER, "remaining_cost(job) < remaining_cost(outer)",
     "remaining_cost(job) < remaining_cost(outer) - AGING * (now_seconds() - "
     "outer->state.enqueued_at)", "one rank for all"),
    ("a cancelled job runs on", SCHEDULER, "job->state.next_step = job->steps;", ";",
     "its client is gone anyhow"),
    ("sizes wrap", CHECKED, "__builtin_mul_overflow(a, b, &product)", "(product = a * b, false)",
     "2^64 is far away"),
]
